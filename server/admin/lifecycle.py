"""The server as a whole: its time, its role, its shutdown, and LOLWUT."""

from __future__ import annotations

from typing import Final

from ...commands.runtime.arguments import parse_integer
from ...commands.runtime.client import Client
from ...commands.scripting.lua.script_kill import stop_script
from ...commands.spec.command import handles
from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from . import specs

_ART: Final = r"""
   _ .-.  .-.   .-.    .-.     .-.
  (_)   `-'   `-'   `--'  `---'   `-~ ~ ~
  a rillet: small, but it streams

"""


@handles(specs.TIME)
def time(client: Client, _args: list[bytes]) -> bytes:
    """Reply ``[unix seconds, microseconds of that second]``, both as bulk strings.

    During a script or a transaction the time stands still; up to 7.0 it continues.
    """
    server = client.server
    now = server.clock.microseconds
    if not (client.in_exec or client.is_script):
        server.keyspace.now = server.clock.begin_unit()
        now = server.clock.microseconds
    elif not server.compat.freezes_time:
        now = int(server.clock.unix_seconds() * 1_000_000)
    seconds, microseconds = divmod(now, 1_000_000)
    return replies.bulk_array([b"%d" % seconds, b"%d" % microseconds])


@handles(specs.SHUTDOWN)
def shutdown(client: Client, args: list[bytes]) -> bytes | None:
    """Shut down the server: all connections close, this one without a reply.

    Unless NOW is given, replicas get ``shutdown-timeout`` seconds for the rest of the stream, and the client waits
    meanwhile. Unless FORCE is given, a shutdown that would lose data is refused.
    """
    if client.trusted:  # a file that is being loaded, or our master
        raise ReplyError(b"ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client")
    options = [word.upper() for word in args[1:]]
    if not {b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"}.issuperset(options):
        raise ReplyError(SYNTAX)
    if b"ABORT" in options:
        if {*options} != {b"ABORT"}:
            raise ReplyError(SYNTAX)
        if not client.server.ending.abort():
            raise ReplyError(b"ERR No shutdown in progress.")
        return replies.OK
    if b"NOSAVE" in options and b"SAVE" in options:
        raise ReplyError(SYNTAX)
    save = True if b"SAVE" in options else False if b"NOSAVE" in options else None
    busy = client.server.busy_error
    if busy is not None:
        if save is not False:
            raise ReplyError(busy)
        stop_script(client.server.scripting.run)
    ending = client.server.ending
    if not ending.ask(save=save, force=b"FORCE" in options, now=b"NOW" in options):
        if not ending.is_put_off:
            raise ending.refusal
        ending.hold(client)
    return None


@handles(specs.LOLWUT)
def lolwut(client: Client, args: list[bytes]) -> bytes:
    """Reply with a text that ends with the line ``Redis ver. <version>``."""
    if len(args) > 2 and args[1].upper() == b"VERSION":
        parse_integer(args[2])
    text = f"{_ART.lstrip(chr(10))}Redis ver. {client.server.version}\n"
    return replies.verbatim(text.encode(), client.resp)
