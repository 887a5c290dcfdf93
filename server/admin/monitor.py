"""MONITOR and the lines it sends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...commands.runtime.redaction import redacted
from ...commands.spec.command import handles
from ...protocol import replies
from ...protocol.errors import ReplyError
from . import specs

if TYPE_CHECKING:
    from ...commands.runtime.client import Client

_SPECIAL: Final = re.compile(rb"[^ !#-\[\]-~]")
_NAMED: Final = {
    b"\\": rb"\\", b'"': rb"\"", b"\n": rb"\n", b"\r": rb"\r", b"\t": rb"\t", b"\a": rb"\a", b"\b": rb"\b"
}  # fmt: skip


def quoted(word: bytes) -> bytes:
    r"""Return a word in double quotes with C escapes (``\n``, ``\xff``), printable ASCII only."""
    return b'"%b"' % _SPECIAL.sub(_escaped, word)


def _escaped(match: re.Match[bytes]) -> bytes:
    byte = match[0]
    return _NAMED.get(byte) or b"\\x%02x" % byte[0]


def monitor_line(unix_seconds: float, client: Client, argv: list[bytes]) -> bytes:
    """Return the line for one command: ``+<time> [<db> <address>] "word" "word" …``.

    Args:
        unix_seconds: the wall time with microseconds.
        client: the client that ran it, with its currently selected database.
    """
    address = b"unix:" + client.address.removesuffix(b":0") if client.unix_socket else client.address
    words = b" ".join([quoted(word) for word in redacted(argv)])
    return b"+%.6f [%d %b] %b\r\n" % (unix_seconds, client.db.index, address, words)


@handles(specs.MONITOR)
def monitor(client: Client, _args: list[bytes]) -> bytes | None:
    """Send the client the commands of all clients from now on; reply OK. One that already monitors gets no reply."""
    if client.in_exec:
        raise ReplyError(b"ERR MONITOR isn't allowed for DENY BLOCKING client")
    if client.monitor:
        return None
    client.monitor = True
    client.server.clients.monitors.add(client)
    client.server.clients.update_observers()
    client.update_state()
    return replies.OK
