"""Format a client as one line, for CLIENT LIST and ACL LOG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from ...protocol import replies
from ..spec.versions import Compat
from .client import FREE_OUTPUT, Client, watched_key_changed
from .state import BLOCKED, CLOSING, POSTPONED


def flag_letters(client: Client) -> str:
    """Return the letters of a client's modes for the field ``flags`` of CLIENT LIST, such as ``P``; ``N`` for none."""
    tracking = client.tracking
    modes = (
        (client.monitor, "O"),
        (client.is_replica, "S"),
        (client.trusted, "M"),
        (client.is_subscriber, "P"),
        (client.transaction is not None, "x"),
        (client.state is BLOCKED or client.state is POSTPONED, "b"),
        (tracking is not None, "t"),
        (tracking is not None and tracking.broken_redirect, "R"),
        (tracking is not None and tracking.bcast, "B"),
        (watched_key_changed(client), "d"),
        (client.state is CLOSING, "A"),
        (client.unix_socket, "U"),
        (client.no_evict, "e"),
        (client.no_touch, "T"),
    )
    return "".join([letter for on, letter in modes if on]) or "N"


_LINE: Final = (
    b"id=%d addr=%b laddr=%b fd=%d name=%b age=%d idle=%d flags=%b db=%d sub=%d psub=%d ssub=%d multi=%d watch=%d "
    b"qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=%d omem=%d omem-shared=0 omem-unshared=%d tot-mem=%d events=r cmd=%b "
    b"user=%b redir=%d resp=%d lib-name=%b lib-ver=%b io-thread=0 tot-net-in=%d tot-net-out=%d tot-cmds=%d "
    b"read-events=%d avg-pipeline-len-sum=%d avg-pipeline-len-cnt=%d"
)
_NEWER_FIELDS: Final = {
    b"lib-name": "7.2",
    b"lib-ver": "7.2",
    b"watch": "7.4",
    b"io-thread": "8.0",
    b"tot-net-in": "8.0",
    b"tot-net-out": "8.0",
    b"tot-cmds": "8.0",
    **dict.fromkeys(
        (b"omem-shared", b"omem-unshared", b"read-events", b"avg-pipeline-len-sum", b"avg-pipeline-len-cnt"),
        "8.10",
    ),
}


def client_line(client: Client, argv: Sequence[bytes] = ()) -> bytes:
    """Return a client as in CLIENT LIST: ``name=value`` pairs, without the line end.

    The first ``FREE_OUTPUT`` bytes of unsent replies do not count towards the output limits. Redis has a buffer for
    them: rbs is its size, obl its content (and rbp, because no peak is recorded). omem is the part that counts.

    ``argv``: the command that it is running, if the client asks for its own line.
    """
    unread = client.unread
    first = min(unread, FREE_OUTPUT)
    running = sum(map(len, argv))
    request = len(replies.command(argv)) if argv else 0
    now = client.server.clock.now
    transaction = client.transaction
    changed = watched_key_changed(client)  # then the line shows no watched keys
    queued = transaction.size if transaction is not None else 0
    line = _LINE % (
        client.id,
        client.address,
        client.local_address,
        client.fd,
        client.name,
        max(now - client.created, 0) // 1000,
        max(now - client.last_interaction, 0) // 1000,
        flag_letters(client).encode(),
        client.db.index,
        len(client.channels),
        len(client.patterns),
        len(client.shard_channels),
        len(transaction.commands) if transaction is not None else -1,
        0 if changed else len(client.watched),
        client.query_buffer + request,
        client.expected,
        client.argument_bytes + running,
        queued,
        FREE_OUTPUT,
        first,
        first,
        -(-(unread - first) // FREE_OUTPUT),
        unread - first,
        unread - first,
        client.memory + running + request,
        client.last_command.encode(),
        b"(superuser)" if client.replays else client.user.name,
        client.tracking.redirect if client.tracking is not None else -1,
        client.resp,
        client.lib_name,
        client.lib_ver,
        client.net_in,
        client.net_out,
        client.total_commands,
        client.reads,
        client.total_commands,
        client.reads,
    )
    newer = _fields_newer_than(client.server.compat)
    if not newer:
        return line
    return b" ".join([pair for pair in line.split(b" ") if pair.partition(b"=")[0] not in newer])


@cache
def _fields_newer_than(compat: Compat) -> frozenset[bytes]:
    return frozenset(name for name, since in _NEWER_FIELDS.items() if not compat.knows(since))
