"""Connection commands: HELLO, AUTH, PING, ECHO, QUIT, SELECT, RESET."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import INDEX_OUT_OF_RANGE, SYNTAX, ReplyError, shown, wrong_arity
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.names import NAME_ERROR, is_printable_word
from ..spec.command import handles
from ..transactions.handlers import discard_transaction
from . import specs

WRONGPASS: Final = b"WRONGPASS invalid username-password pair or user is disabled."
NO_PASSWORD_SET: Final = (
    b"ERR AUTH <password> called without any password configured for the default user. "
    b"Are you sure your configuration is correct?"
)
HELLO_UNAUTHENTICATED: Final = (
    b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
    b"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)
_DEFAULT_USER: Final = b"default"
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def log_in(client: Client, user: bytes, password: bytes, command: bytes) -> None:
    """Log a client in as a user.

    ``command``: AUTH or HELLO; ACL LOG shows it after a failure.
    Raises ReplyError: WRONGPASS, the same for an unknown user, a disabled user, and a wrong password.
    """
    server = client.server
    found = server.users.get(user)
    if found is None or not found.accepts(password):
        server.acl_log.note_login(client, user, command)
        raise ReplyError(WRONGPASS)
    client.user = found
    client.authenticated = True
    client.update_state()


@handles(specs.HELLO)
def hello(client: Client, args: list[bytes]) -> bytes:
    """Choose the protocol, log in and set the name as requested; reply with a map of facts about the server.

    The reply already uses the new protocol.
    """
    rest = Arguments(args)
    protocol = client.resp
    if rest:
        protocol = rest.integer(b"ERR Protocol version is not an integer or out of range")
        if protocol not in {2, 3}:
            raise ReplyError(b"NOPROTO unsupported protocol version")
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at_once = not client.server.compat.knows("7.2")  # each option takes effect before the next is read
    while rest:
        word = rest.next()
        option = word.upper()
        if option == b"AUTH" and rest.remaining >= 2:
            login = rest.next(), rest.next()
            if at_once:
                log_in(client, *login, b"HELLO")
        elif option == b"SETNAME" and rest.remaining >= 1:
            name = rest.next()
            if not is_printable_word(name):
                raise ReplyError(NAME_ERROR)
            if at_once:
                client.name = name
        else:
            raise ReplyError(b"ERR Syntax error in HELLO option '%b'" % shown(word))
    if login is not None and not at_once:
        log_in(client, *login, b"HELLO")
    if not client.authenticated:
        text = HELLO_UNAUTHENTICATED
        raise ReplyError(
            text if client.server.compat.names_protocol_in_hello_error else text.replace(b" <proto>", b"")
        )
    if name is not None:
        client.name = name
    client.resp = protocol
    server = client.server
    facts: tuple[tuple[bytes, bytes], ...] = (
        (b"server", replies.bulk(b"redis")),
        (b"version", replies.bulk(server.version.encode())),
        (b"proto", replies.integer(protocol)),
        (b"id", replies.integer(client.id)),
        (b"mode", replies.bulk(server.mode.encode())),
        (b"role", replies.bulk(b"master" if server.role == "master" else b"replica")),
        (b"modules", replies.EMPTY_ARRAY),
    )
    if server.mode == "sentinel":
        facts = tuple(fact for fact in facts if fact[0] != b"role")
    return replies.map_of(facts, protocol)


@handles(specs.AUTH)
def auth(client: Client, args: list[bytes]) -> bytes:
    """Log in as ``default`` with a password, or as a user with a password; reply OK."""
    if len(args) > 3:
        raise ReplyError(SYNTAX)
    if len(args) == 2 and client.server.users.default.nopass:
        raise ReplyError(NO_PASSWORD_SET)
    log_in(client, _DEFAULT_USER if len(args) == 2 else args[1], args[-1], b"AUTH")
    return replies.OK


@handles(specs.PING)
def ping(client: Client, args: list[bytes]) -> bytes:
    """Reply PONG, or the argument as a bulk string; to a subscriber in RESP2 an array, the only form that it can read."""
    if len(args) > 2:
        raise wrong_arity("ping")
    if client.resp == 2 and client.is_subscriber:
        return replies.bulk_array((b"pong", args[1] if len(args) == 2 else b""))
    return replies.bulk(args[1]) if len(args) == 2 else replies.PONG


@handles(specs.ECHO)
def echo(_client: Client, args: list[bytes]) -> bytes:
    """Reply with the message."""
    return replies.bulk(args[1])


@handles(specs.QUIT)
def quit_(client: Client, _args: list[bytes]) -> bytes:
    """Reply OK, then close."""
    client.close()
    return replies.OK


@handles(specs.SELECT)
def select(client: Client, args: list[bytes]) -> bytes:
    """Change the client's database; reply OK."""
    index = parse_integer(args[1])
    if not _INT_MIN <= index <= _INT_MAX:
        raise ReplyError(b"ERR value is out of range, value must between %d and %d" % (_INT_MIN, _INT_MAX))
    databases = client.server.keyspace.databases
    if index and client.server.config.cluster_enabled:
        raise ReplyError(b"ERR SELECT is not allowed in cluster mode")
    if not 0 <= index < len(databases):
        raise ReplyError(INDEX_OUT_OF_RANGE)
    client.db = databases[index]
    return replies.OK


@handles(specs.RESET)
def reset(client: Client, _args: list[bytes]) -> bytes:
    """Return the connection to its state after connecting: RESP2, database 0, no modes, no name, logged out; reply RESET."""
    leave_modes(client)
    client.server.clients.end_control(client)
    client.resp = 2
    client.user = client.server.users.default
    client.authenticated = client.user.is_open
    client.name = b""
    client.update_state()
    return b"+RESET\r\n"


def leave_modes(client: Client) -> None:
    """End all modes of a client (MULTI, subscriptions, tracking …); its protocol, login and name stay."""
    server = client.server
    client.monitor = False
    server.clients.monitors.discard(client)
    server.tracking.stop(client)
    server.pubsub.remove(client)
    discard_transaction(client)
    client.db = server.keyspace.databases[0]
    if client.reply_mode != "skip":  # "skip" is for the reply to this command
        client.reply_mode = "on"
    client.asking = client.asked = client.reads_replica = False
    client.no_evict = client.no_evict and not server.compat.reset_ends_no_evict
    client.no_touch = False
    client.fieldsets = None
    client.update_state()
    server.clients.update_observers()
