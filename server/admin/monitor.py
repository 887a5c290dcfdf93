"""MONITOR and the lines it sends."""

from __future__ import annotations

from ...commands.runtime.client import Client
from ...commands.runtime.redaction import redacted
from ...commands.spec.command import handles
from ...protocol import replies
from ...protocol.errors import ReplyError
from ...protocol.inline import quote
from . import specs


def monitor_line(unix_seconds: float, client: Client, argv: list[bytes]) -> bytes:
    """Return the line for one command: ``+<time> [<db> <address>] "word" "word" …``.

    ``unix_seconds``: the wall time with microseconds.
    """
    address = b"unix:" + client.address.removesuffix(b":0") if client.unix_socket else client.address
    words = b" ".join([quote(word) for word in redacted(argv)])
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
