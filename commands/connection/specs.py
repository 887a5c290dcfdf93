"""The syntax of the connection commands: AUTH, HELLO, CLIENT and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import NONE, block, integer, many, oneof, optional, string, switch, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_ON_OFF = oneof("enabled", token("ON"), token("OFF"))

AUTH: Tree = (optional(string("username", since="6.0.0")), string("password"))
AUTH_HISTORY: History = (("6.0.0", "Added the username: users of the ACL."),)
HELLO: Tree = (
    optional(
        block(
            "arguments",
            integer("protover"),
            optional(block("auth", string("username"), string("password"), after="AUTH")),
            optional(string("clientname", "SETNAME")),
        )
    ),
)
HELLO_HISTORY: History = (("6.2.0", "Without a protocol version it only tells about the connection."),)
PING: Tree = (optional(string("message")),)
ECHO: Tree = (string("message"),)
QUIT: Tree = NONE
SELECT: Tree = (integer("index"),)
RESET: Tree = NONE

CLIENT: Tree = NONE
CLIENT_CACHING: Tree = (oneof("mode", token("YES"), token("NO")),)
CLIENT_GETNAME: Tree = NONE
CLIENT_GETREDIR: Tree = NONE
CLIENT_ID: Tree = NONE
CLIENT_INFO: Tree = NONE
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
CLIENT_KILL: Tree = (
    oneof("filter", string("old-format", display="ip:port", deprecated_since="2.8.12"), many(_NEW_FILTERS)),
)
CLIENT_KILL_HISTORY: History = (
    ("2.8.12", "Added filters, the first of them ID."),
    ("3.2.0", "Added TYPE master."),
    ("5.0.0", "Added TYPE replica; slave means the same."),
    ("6.2.0", "Added LADDR."),
    ("7.4.0", "Added MAXAGE."),
)
CLIENT_LIST: Tree = (
    optional(
        oneof(
            "client-type",
            token("NORMAL"),
            token("MASTER"),
            token("REPLICA"),
            token("PUBSUB"),
            after="TYPE",
            since="5.0.0",
        )
    ),
    optional(many(integer("client-id", "ID", since="6.2.0"))),
)
CLIENT_LIST_HISTORY: History = (
    ("2.8.12", "Added the field id."),
    ("5.0.0", "Added TYPE."),
    ("6.0.0", "Added the field user."),
    ("6.2.0", "Added ID, and the fields argv-mem, tot-mem, laddr and redir."),
    ("7.0.0", "Added the fields resp, multi-mem, rbs and rbp."),
    ("7.0.3", "Added the field ssub."),
    ("7.2.0", "Added the fields lib-name and lib-ver."),
    ("7.4.0", "Added the field watch."),
    ("8.0.0", "Added the field io-thread."),
)
CLIENT_NO_EVICT: Tree = (_ON_OFF,)
CLIENT_NO_TOUCH: Tree = (_ON_OFF,)
CLIENT_PAUSE: Tree = (
    integer("timeout"),
    optional(oneof("mode", token("WRITE"), token("ALL"), since="6.2.0")),
)
CLIENT_PAUSE_HISTORY: History = (("6.2.0", "Added the mode: WRITE or ALL."),)
CLIENT_REPLY: Tree = (oneof("action", token("ON"), token("OFF"), token("SKIP")),)
CLIENT_SETINFO: Tree = (oneof("attr", string("libname", "LIB-NAME"), string("libver", "LIB-VER")),)
CLIENT_SETNAME: Tree = (string("connection-name"),)
CLIENT_TRACKING: Tree = (
    oneof("status", token("ON"), token("OFF")),
    optional(integer("client-id", "REDIRECT")),
    optional(many(string("prefix", "PREFIX"), with_token=True)),
    switch("BCAST"),
    switch("OPTIN"),
    switch("OPTOUT"),
    switch("NOLOOP"),
)
CLIENT_TRACKINGINFO: Tree = NONE
CLIENT_UNBLOCK: Tree = (
    integer("client-id"),
    optional(oneof("unblock-type", token("TIMEOUT"), token("ERROR"))),
)
CLIENT_UNPAUSE: Tree = NONE
CLIENT_HELP: Tree = NONE
