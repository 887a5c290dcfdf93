"""Many XADDs of one batch treated as one, for which ``streams.xadd`` is the specification.

It is the fast way of pipelines, and of files that are loaded.
"""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

from ..storage.chunk import LARGE
from ..storage.stream import Stream
from ..storage.stream_id import MAX_U64
from .streams import encode_fields

if TYPE_CHECKING:
    from .client import Client

_DIGITS: Final = 20  # of the greatest number of 64 bits
SHORTEST: Final = 4  # a shorter run costs more this way than command by command


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
    stream = _unobserved_stream(client, name)
    if stream is None:
        return None
    db = client.db
    keyspace = db.keyspace
    fields: list[bytes] = []
    for args in islice(batch, at, None):
        words = args[3:]
        if len(words) < 2 or len(words) & 1 or args[2] != new_id or args[1] != name or args[0] != verb:
            break
        encoded = encode_fields(words)
        if len(encoded) >= LARGE:
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


def replay_together(client: Client, batch: list[list[bytes]], at: int) -> int:
    """Run the ``XADD key id field value …`` from a place in a file on that are all for one key.

    Args:
        client: the loader's.
        batch: commands of the file.
        at: where to begin.

    Returns:
        How many were run; 0, and nothing is done, if there is no run of at least ``SHORTEST``.
    """
    if len(batch) - at < SHORTEST or len(batch[at]) < 2 or batch[at + SHORTEST - 1][:2] != batch[at][:2]:
        return 0
    verb, name = batch[at][:2]
    stream = _unobserved_stream(client, name)
    if stream is None or client.server.propagation.active:
        return 0
    ids: list[tuple[int, int]] = []
    fields: list[bytes] = []
    last = stream.last_id >> 64, stream.last_id & MAX_U64
    for args in islice(batch, at, None):
        words = args[3:]
        if len(words) < 2 or len(words) & 1 or args[1] != name or args[0] != verb:
            break
        ms, _, seq = args[2].partition(b"-")
        if not (ms.isdigit() and seq.isdigit() and _is_short(ms) and (seq == b"0" or _is_short(seq))):
            break
        new = int(ms), int(seq)
        encoded = encode_fields(words)
        if new <= last or len(encoded) >= LARGE:
            break
        ids.append(new)
        fields.append(encoded)
        last = new
    if len(ids) < SHORTEST:
        return 0
    client.db.write(name)  # an access
    config = client.server.config
    stream.append_many(ids, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    return len(ids)


def _unobserved_stream(client: Client, name: bytes) -> Stream | None:
    """The stream at a key, if there is one and nobody could tell several XADDs from one after the other."""
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
    return stream


def _is_short(digits: bytes) -> bool:
    """Whether a number is written as Redis writes it, and surely fits 64 bits."""
    return len(digits) < _DIGITS and not digits.startswith(b"0")
