"""The connection commands: one record each."""

from __future__ import annotations

from ..spec.command import Family
from ..spec.grammar import block, integer, many, oneof, optional, string, switch, token

family = Family(
    __package__,
    "connection",
    categories="connection",
    modules={
        "client_commands": "client",
        "client_list_and_kill": "client|info client|kill client|list",
        "session": "auth echo hello ping quit reset select",
        "tracking": "client|caching client|getredir client|tracking client|trackinginfo",
    },
)

_ON_OFF = oneof("enabled", token("ON"), token("OFF"))
_NEW_FILTERS = oneof(
    "new-format",
    optional(integer("client-id", "ID", since="2.8.12")),
    optional(
        oneof(
            "client-type",
            token("NORMAL"),
            token("MASTER", since="3.2.0"),
            token("SLAVE"),
            token("REPLICA", since="5.0.0"),
            token("PUBSUB"),
            after="TYPE",
            since="2.8.12",
        )
    ),
    optional(string("username", "USER")),
    optional(string("addr", "ADDR", display="ip:port")),
    optional(string("laddr", "LADDR", display="ip:port", since="6.2.0")),
    optional(oneof("skipme", token("YES"), token("NO"), after="SKIPME")),
    optional(integer("maxage", "MAXAGE", since="7.4.0")),
)

# A table: the formatter would give each word of a record a line of its own.
# fmt: off

CLIENT = family.container("CLIENT", since="2.4.0",
    summary="Looks at connections and changes how they behave.")

CLIENT_ID = family.command("CLIENT|ID", arity=2, flags="noscript loading stale", since="5.0.0",
    summary="Returns the connection's ID.")

CLIENT_GETNAME = family.command("CLIENT|GETNAME", arity=2, flags="noscript loading stale", since="2.6.9",
    summary="Returns the connection's name.")

CLIENT_SETNAME = family.command("CLIENT|SETNAME", arity=3, flags="noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="2.6.9",
    summary="Gives the connection a name.",
    arguments=(string("connection-name"),))

CLIENT_SETINFO = family.command("CLIENT|SETINFO", arity=4, flags="noscript loading stale",
    tips="request_policy:all_nodes response_policy:all_succeeded", since="7.2.0",
    summary="Sets the name or version of the client library that uses the connection.",
    arguments=(oneof("attr", string("libname", "LIB-NAME"), string("libver", "LIB-VER")),))

CLIENT_REPLY = family.command("CLIENT|REPLY", arity=3, flags="noscript loading stale", since="3.2.0",
    summary="Switches the replies to this connection on or off, or leaves out the next one.",
    arguments=(oneof("action", token("ON"), token("OFF"), token("SKIP")),))

CLIENT_NO_EVICT = family.command("CLIENT|NO-EVICT", arity=3, flags="admin noscript loading stale",
    since="7.0.0",
    summary="Protects the connection from being closed for the memory it takes.",
    arguments=(_ON_OFF,))

CLIENT_NO_TOUCH = family.command("CLIENT|NO-TOUCH", arity=3, flags="noscript loading stale", since="7.2.0",
    summary="Sets whether the connection's commands leave the access time of keys unchanged.",
    arguments=(_ON_OFF,))

CLIENT_PAUSE = family.command("CLIENT|PAUSE", arity=-3, flags="admin noscript loading stale", since="3.0.0",
    summary="Delays the commands of all clients, or only their writes, for some time.",
    arguments=(integer("timeout"), optional(oneof("mode", token("WRITE"), token("ALL"), since="6.2.0"))),
    history={"6.2.0": "Added the mode: WRITE or ALL."})

CLIENT_UNPAUSE = family.command("CLIENT|UNPAUSE", arity=2, flags="admin noscript loading stale",
    since="6.2.0",
    summary="Ends a pause.",
    complexity="O(N); N: paused clients")

CLIENT_UNBLOCK = family.command("CLIENT|UNBLOCK", arity=-3, flags="admin noscript loading stale",
    since="5.0.0",
    summary="Ends the wait of a client that is blocked.",
    complexity="O(log(N)); N: clients",
    arguments=(integer("client-id"), optional(oneof("unblock-type", token("TIMEOUT"), token("ERROR")))))

CLIENT_HELP = family.help("CLIENT", since="5.0.0")

CLIENT_LIST = family.command("CLIENT|LIST", arity=-2, flags="admin noscript loading stale",
    tips="nondeterministic_output", since="2.4.0",
    summary="Lists the open connections.",
    complexity="O(N); N: clients",
    arguments=(optional(oneof("client-type", token("NORMAL"), token("MASTER"), token("REPLICA"),
                token("PUBSUB"), after="TYPE", since="5.0.0")),
        optional(many(integer("client-id", "ID", since="6.2.0")))),
    history={
        "2.8.12": "Added the field id.",
        "5.0.0": "Added TYPE.",
        "6.0.0": "Added the field user.",
        "6.2.0": "Added ID, and the fields argv-mem, tot-mem, laddr and redir.",
        "7.0.0": "Added the fields resp, multi-mem, rbs and rbp.",
        "7.0.3": "Added the field ssub.",
        "7.2.0": "Added the fields lib-name and lib-ver.",
        "7.4.0": "Added the field watch.",
        "8.0.0": "Added the field io-thread.",
    })

CLIENT_INFO = family.command("CLIENT|INFO", arity=2, flags="noscript loading stale",
    tips="nondeterministic_output", since="6.2.0",
    summary="Describes this connection.")

CLIENT_KILL = family.command("CLIENT|KILL", arity=-3, flags="admin noscript loading stale", since="2.4.0",
    summary="Closes connections.",
    complexity="O(N); N: clients",
    arguments=(oneof("filter", string("old-format", display="ip:port", deprecated_since="2.8.12"),
            many(_NEW_FILTERS)),),
    history={
        "2.8.12": "Added filters, the first of them ID.",
        "3.2.0": "Added TYPE master.",
        "5.0.0": "Added TYPE replica; slave means the same.",
        "6.2.0": "Added LADDR.",
        "7.4.0": "Added MAXAGE.",
    })

HELLO = family.command("HELLO", arity=-1, flags="noscript loading stale fast no_auth allow_busy",
    since="6.0.0",
    summary="Chooses the protocol version, optionally logs in, and describes the server and the connection.",
    arguments=(optional(block("arguments", integer("protover"),
                optional(block("auth", string("username"), string("password"), after="AUTH")),
                optional(string("clientname", "SETNAME")))),),
    history={"6.2.0": "Without a protocol version it only tells about the connection."})

AUTH = family.command("AUTH", arity=-2, flags="noscript loading stale fast no_auth allow_busy",
    since="1.0.0",
    summary="Logs the connection in.",
    complexity="O(N); N: passwords of the user",
    arguments=(optional(string("username", since="6.0.0")), string("password")),
    history={"6.0.0": "Added the username: users of the ACL."})

PING = family.command("PING", arity=-1, flags="fast",
    tips="request_policy:all_shards response_policy:all_succeeded", since="1.0.0",
    summary="Returns PONG, or the given message.",
    arguments=(optional(string("message")),))

ECHO = family.command("ECHO", arity=2, flags="loading stale fast", since="1.0.0",
    summary="Returns the given message.",
    arguments=(string("message"),))

QUIT = family.command("QUIT", arity=-1, flags="noscript loading stale fast no_auth allow_busy", since="1.0.0",
    doc_flags="deprecated", deprecated_since="7.2.0", replaced_by="just closing the connection",
    summary="Asks the server to close the connection.")

SELECT = family.command("SELECT", arity=2, flags="loading stale fast", since="1.0.0",
    summary="Changes the connection's database.",
    arguments=(integer("index"),))

RESET = family.command("RESET", arity=1, flags="noscript loading stale fast no_auth allow_busy",
    since="6.2.0",
    summary="Returns the connection to its initial state.")

CLIENT_TRACKING = family.command("CLIENT|TRACKING", arity=-3, flags="noscript loading stale", since="6.0.0",
    summary="Switches messages about changed keys, for client-side caching, on or off.",
    complexity="O(P); P: prefixes given",
    arguments=(oneof("status", token("ON"), token("OFF")), optional(integer("client-id", "REDIRECT")),
        optional(many(string("prefix", "PREFIX"), with_token=True)), switch("BCAST"), switch("OPTIN"),
        switch("OPTOUT"), switch("NOLOOP")))

CLIENT_CACHING = family.command("CLIENT|CACHING", arity=3, flags="noscript loading stale", since="6.0.0",
    summary="Sets whether the keys of the next command are tracked, in OPTIN or OPTOUT mode.",
    arguments=(oneof("mode", token("YES"), token("NO")),))

CLIENT_GETREDIR = family.command("CLIENT|GETREDIR", arity=2, flags="noscript loading stale", since="6.0.0",
    summary="Returns the client to which tracking messages are redirected.")

CLIENT_TRACKINGINFO = family.command("CLIENT|TRACKINGINFO", arity=2, flags="noscript loading stale",
    since="6.2.0",
    summary="Describes how the connection tracks keys.")

# fmt: on
