"""Many XADDs of one batch treated as one: the fast way of pipelines, for which ``streams.xadd`` is the specification."""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

from ..storage.stream import Stream
from ..storage.stream_id import MAX_U64
from .streams import encode_fields

if TYPE_CHECKING:
    from .client import Client

SHORTEST: Final = 4  # a shorter run costs more this way than command by command
_LARGE: Final = 4096  # what so large an entry costs, looking at it alone cannot make worse


def add_together(client: Client, batch: list[list[bytes]], at: int) -> list[bytes] | None:
    """Run the ``XADD key * field value …`` from a place in a batch on that are all for one key, if nobody looks on.

    Whoever could tell them from one XADD after the other (somebody waits for the key, watches it, hears of events)
    prevents it, and so does all that makes an XADD fail.

    Args:
        client: whose commands they are, a plain one.
        batch: commands of the right arity.
        at: where the run begins.

    Returns:
        The replies; None, and nothing is done, if there is no run of at least ``SHORTEST``.
    """
    verb, name, new_id = batch[at][:3]
    if new_id != b"*" or len(batch) - at < SHORTEST or batch[at + SHORTEST - 1][1:3] != [name, new_id]:
        return None
    db = client.db
    keyspace = db.keyspace
    stream = db.entries.get(name)
    if (
        type(stream) is not Stream
        or name in db.expires
        or db.awaited
        or db.watched
        or keyspace.notify_mask
        or keyspace.on_modified is not None
    ):
        return None
    fields: list[bytes] = []
    for args in islice(batch, at, None):
        words = args[3:]
        if len(words) < 2 or len(words) & 1 or args[2] != new_id or args[1] != name or args[0] != verb:
            break
        encoded = encode_fields(words)
        if len(encoded) > _LARGE:
            break
        fields.append(encoded)
    number = len(fields)
    last = stream.last_id
    ms, seq = last >> 64, (last & MAX_U64) + 1
    if keyspace.now > ms:
        ms, seq = keyspace.now, 0
    if number < SHORTEST or seq + number > MAX_U64:
        return None

    db.write(name)  # an access
    config = client.server.config
    ids = stream.append_run(ms, seq, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    keyspace.dirty += number
    propagation = client.server.propagation
    if propagation.active:
        key = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(verb), verb, len(name), name)
        records: list[bytes] = []
        for new, encoded in zip(ids, fields, strict=True):
            count, rest = encoded.split(b"\r\n", 1)
            records.append(b"*%d\r\n%b%b%b" % (int(count[1:]) + 3, key, new, rest))
        if client.in_exec:
            propagation.effects += zip(repeat(db.index), records)
        else:
            propagation.flush_units(db.index, records)
    return ids
