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
    """Run the ``XADD key * | id field value …`` from a place in a batch on that are all for one key, if nobody looks on.

    Whoever could tell them from one XADD after the other (somebody waits for the key, watches it, hears of events)
    prevents it, and so does all that makes an XADD fail.

    Args:
        client: whose commands they are: a plain one, or the loader's.
        batch: commands of the right arity.
        at: where the run begins.

    Returns:
        The replies; None, and nothing is done, if there is no run of at least ``SHORTEST``.
    """
    verb, name, new_id = batch[at][:3]
    if len(batch) - at < SHORTEST or batch[at + SHORTEST - 1][:2] != [verb, name]:
        return None
    stream = _unobserved_stream(client, name)
    if stream is None:
        return None
    if new_id == b"*":
        added = _add_generated(client, stream, batch, at)
    elif new_id[:1].isdigit():
        added = _add_given(client, stream, batch, at)
    else:
        return None
    if added is None:
        return None

    ids, fields = added
    db = client.db
    db.write(name)  # an access
    db.keyspace.dirty += len(ids)
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


# Both answer the encoded IDs and the encoded fields of what was added, None if the run was too short.


def _add_generated(
    client: Client, stream: Stream, batch: list[list[bytes]], at: int
) -> tuple[list[bytes], list[bytes]] | None:
    """Add the entries of a run of ``XADD key *``."""
    verb, name, star = batch[at][:3]
    fields: list[bytes] = []
    for args in islice(batch, at, None):
        words = args[3:]
        if len(words) < 2 or len(words) & 1 or args[2] != star or args[1] != name or args[0] != verb:
            break
        encoded = encode_fields(words)
        if len(encoded) >= LARGE:
            break
        fields.append(encoded)
    now = client.db.keyspace.now
    last = stream.last_id
    ms, seq = last >> 64, (last & MAX_U64) + 1
    if now > ms:
        ms, seq = now, 0
    if len(fields) < SHORTEST or seq + len(fields) > MAX_U64:
        return None
    config = client.server.config
    ids = stream.append_run(ms, seq, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    return ids, fields


def _add_given(
    client: Client, stream: Stream, batch: list[list[bytes]], at: int
) -> tuple[list[bytes], list[bytes]] | None:
    """Add the entries of a run of ``XADD key id``."""
    verb, name = batch[at][:2]
    words_of_ids: list[bytes] = []
    ids: list[tuple[int, int]] = []
    fields: list[bytes] = []
    last = stream.last_id >> 64, stream.last_id & MAX_U64
    for args in islice(batch, at, None):
        words = args[3:]
        if len(words) < 2 or len(words) & 1 or args[1] != name or args[0] != verb:
            break
        word = args[2]
        ms, _, seq = word.partition(b"-")
        if not (ms.isdigit() and seq.isdigit() and _is_short(ms) and (seq == b"0" or _is_short(seq))):
            break
        new = int(ms), int(seq)
        encoded = encode_fields(words)
        if new <= last or len(encoded) >= LARGE:
            break
        words_of_ids.append(b"$%d\r\n%b\r\n" % (len(word), word))
        ids.append(new)
        fields.append(encoded)
        last = new
    if len(ids) < SHORTEST:
        return None
    config = client.server.config
    stream.append_many(ids, fields, config.stream_node_max_bytes, config.stream_node_max_entries)
    return words_of_ids, fields


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
