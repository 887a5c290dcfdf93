"""The CLIENT subcommands for one connection: its name, its replies, pausing and unblocking."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError, shown, wrong_subcommand_arguments
from ..runtime.arguments import parse_integer, parse_timeout
from ..runtime.client import Client
from ..runtime.names import NAME_ERROR, is_printable_word
from ..runtime.state import BLOCKED
from ..spec.command import handles
from ..spec.usage import help_of
from . import specs

UNBLOCKED: Final = ReplyError(b"UNBLOCKED client unblocked via CLIENT UNBLOCK").encoded


def _is_on(word: bytes) -> bool:
    choice = word.upper()
    if choice not in {b"ON", b"OFF"}:
        raise ReplyError(SYNTAX)
    return choice == b"ON"


@handles(specs.CLIENT_ID)
def client_id(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the client's ID, which no other connection of this server has ever had."""
    return replies.integer(client.id)


@handles(specs.CLIENT_GETNAME)
def client_getname(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the name, or null if there is none."""
    return replies.bulk(client.name) if client.name else replies.null(client.resp)


@handles(specs.CLIENT_SETNAME)
def client_setname(client: Client, args: list[bytes]) -> bytes:
    """Set the client's name and reply OK; an empty name removes it."""
    if not is_printable_word(args[2]):
        raise ReplyError(NAME_ERROR)
    client.name = args[2]
    return replies.OK


@handles(specs.CLIENT_SETINFO)
def client_setinfo(client: Client, args: list[bytes]) -> bytes:
    """Set the name or version of the client's library and reply OK; an empty value removes it."""
    attribute = args[2].upper()
    if attribute not in {b"LIB-NAME", b"LIB-VER"}:
        raise ReplyError(b"ERR Unrecognized option '%b'" % shown(args[2]))
    if not is_printable_word(args[3]):
        raise ReplyError(b"ERR %b cannot contain spaces, newlines or special characters." % shown(args[2]))
    if attribute == b"LIB-NAME":
        client.lib_name = args[3]
    else:
        client.lib_ver = args[3]
    return replies.OK


@handles(specs.CLIENT_REPLY)
def client_reply(client: Client, args: list[bytes]) -> bytes | None:
    """Switch the client's replies ON, OFF, or off for one command (SKIP). Reply OK for ON only."""
    choice = args[2].upper()
    if choice == b"ON":
        client.reply_mode = "on"
    elif choice == b"OFF":
        client.reply_mode = "off"
    elif choice != b"SKIP":
        raise ReplyError(SYNTAX)
    elif client.reply_mode != "off":
        client.reply_mode = "skip-next"
    client.update_state()
    return replies.OK if choice == b"ON" else None


@handles(specs.CLIENT_NO_EVICT)
def client_no_evict(client: Client, args: list[bytes]) -> bytes:
    """Set whether maxmemory-clients spares this client when it closes others; reply OK."""
    client.no_evict = _is_on(args[2])
    return replies.OK


@handles(specs.CLIENT_NO_TOUCH)
def client_no_touch(client: Client, args: list[bytes]) -> bytes:
    """Set whether commands of this client count as accesses to keys; reply OK."""
    client.no_touch = _is_on(args[2])
    client.update_state()
    return replies.OK


@handles(specs.CLIENT_PAUSE)
def client_pause(client: Client, args: list[bytes]) -> bytes:
    """Postpone the commands of all clients, or only writes, for ``timeout`` milliseconds; reply OK."""
    if len(args) > 4:
        raise wrong_subcommand_arguments(args)
    mode = args[3].upper() if len(args) == 4 else b"ALL"
    if mode not in {b"WRITE", b"ALL"}:
        raise ReplyError(b"ERR CLIENT PAUSE mode must be WRITE or ALL")
    timeout = parse_timeout(client, args[2])
    client.server.pause.begin(client.server.clock.now + timeout, writes_only=mode == b"WRITE")
    return replies.OK


@handles(specs.CLIENT_UNPAUSE)
def client_unpause(client: Client, _args: list[bytes]) -> bytes:
    """End CLIENT PAUSE, so that the postponed commands run; reply OK."""
    client.server.pause.end()
    return replies.OK


@handles(specs.CLIENT_UNBLOCK)
def client_unblock(client: Client, args: list[bytes]) -> bytes:
    """End the wait of a blocked client as by a timeout, or with an error; reply 1, or 0 if it is not blocked."""
    if len(args) > 4:
        raise wrong_subcommand_arguments(args)
    reason = args[3].upper() if len(args) == 4 else b"TIMEOUT"
    if reason not in {b"TIMEOUT", b"ERROR"}:
        raise ReplyError(b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    server = client.server
    target = server.clients.get(parse_integer(args[2]))
    if target is None or target.state is not BLOCKED:
        return replies.ZERO
    return replies.integer(
        server.blocking.unblock(target, UNBLOCKED if reason == b"ERROR" else None, asked=True)
    )


handles(specs.CLIENT_HELP, container="client")(help_of)
