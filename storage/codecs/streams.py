"""Streams as RDB values: nodes of listpacks, the counters, then the groups with their PELs.

There are five types: 15 (Redis 5.0), 19 (7.0: the counters), 21 (7.2: when a consumer was last active), 26 (8.6:
idempotent producers) and 27 (8.8: entries released by XNACK). compat-version or rdb-version decides which one a server
writes.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from itertools import chain
from operator import lt
from typing import TYPE_CHECKING, Final, TypeAlias

from ..groups.consumer import Consumer
from ..groups.group import Group
from ..groups.lag import entries_read_estimate, written_entries_read
from ..loading import RdbError
from ..streams.idempotency import Idempotency
from ..streams.ids import MAX_U64
from ..streams.stream import Stream
from .byte_source import ByteSource
from .codec import PLAIN, Codec, Extension, Writing
from .encoding import encode_length, encode_string, read_length, read_string
from .stream_extensions import (
    FIELD,
    FIRST_WITH_PRODUCERS,
    FIRST_WITH_UNOWNED,
    NO_OWNER,
    apply_extras,
    count_extras,
    delivery_ms,
    encode_extras,
    payload_version,
    unowned_ids,
)
from .stream_nodes import check_kept, encode_nodes, read_nodes

if TYPE_CHECKING:
    from ..groups.pending import Rows

    _Rows: TypeAlias = tuple[tuple[bytes, ...], tuple[int, ...], tuple[int, ...]]

STREAM_TYPES: Final = (15, 19, 21, 26, 27)
_TYPES_SINCE: Final = (  # RDB versions and their stream types
    (FIRST_WITH_UNOWNED, 27), (FIRST_WITH_PRODUCERS, 26), (11, 21), (10, 19),
)  # fmt: skip
# A pending entry: its ID, delivery time, and delivery count, if that is a length of one byte.
_ROW_FORMAT: Final = "16sqB"
_ROW: Final = struct.Struct("<" + _ROW_FORMAT)
_SHORT_LENGTH: Final = 63
_IDS_AT_ONCE: Final = 4096
_ROWS_AT_ONCE: Final = 128


# Writing


def stream_type_of(_stream: Stream, version: int) -> int:
    """Return the newest stream type that readers of an RDB version know."""
    return next((stream_type for since, stream_type in _TYPES_SINCE if version >= since), 15)


def encode_stream(stream: Stream, stream_type: int, writing: Writing = PLAIN) -> Iterator[bytes]:
    """Yield the value in pieces, one per node, without its type byte.

    Args:
        stream: it must not change during the iteration.
        stream_type: one of ``STREAM_TYPES``.
        writing: its defaults are written into types 26 and 27 if the stream has no settings of its own.
    """
    yield from encode_nodes(stream, writing)
    yield encode_length(stream.length) + _encode_id(stream.last_id)
    if stream_type >= 19:
        yield _encode_id(stream.first_id) + _encode_id(stream.max_deleted_id)
        yield encode_length(stream.entries_added)
    yield encode_length(len(stream.groups))
    for name, group in sorted(stream.groups.items()):
        yield encode_string(name) + b"".join(_encode_group(stream, group, stream_type))
    if stream_type >= 26:
        yield from _encode_producers(stream.idempotency or Idempotency(*writing.defaults))


def _encode_group(stream: Stream, group: Group, stream_type: int) -> Iterator[bytes]:
    yield _encode_id(group.last_id)
    if stream_type >= 19:
        read = written_entries_read(stream, group.entries_read)
        yield encode_length(MAX_U64 if read is None else read & MAX_U64)
    yield encode_length(len(group.pel))
    owned: dict[bytes, list[bytes]] = {name: [] for name in sorted(group.consumers)}
    if group.unowned.pending and stream_type < 27:
        owned.setdefault(NO_OWNER, [])
    for entry in group:
        raw = entry.number.to_bytes(16, "big")
        if entry.consumer is not group.unowned or stream_type < 27:
            owned[entry.consumer.name].append(raw)
        yield raw + _encode_time(delivery_ms(entry.ms)) + encode_length(entry.count)
    yield encode_length(len(owned))
    for name, ids in owned.items():
        consumer = group.consumers.get(name, group.unowned)
        yield encode_string(name) + _encode_time(max(consumer.seen_ms, 0))
        if stream_type >= 21:
            yield _encode_time(consumer.active_ms)
        yield encode_length(len(ids)) + b"".join(ids)
    if stream_type >= 27:
        unowned = unowned_ids(group)
        yield encode_length(len(unowned)) + b"".join(unowned)


def _encode_producers(state: Idempotency) -> Iterator[bytes]:
    yield encode_length(state.duration) + encode_length(state.maxsize) + encode_length(len(state.producers))
    for pid, known in state.producers.items():
        yield encode_string(pid) + encode_length(len(known))
        for iid, stream_id in known.items():
            yield encode_string(iid) + _encode_id(stream_id)
    yield encode_length(state.added) + encode_length(state.duplicates)


def _encode_id(stream_id: int) -> bytes:
    return encode_length(stream_id >> 64) + encode_length(stream_id & MAX_U64)


def _encode_time(ms: int) -> bytes:
    return ms.to_bytes(8, "little", signed=True)


# Reading


def read_stream(source: ByteSource, stream_type: int, _valkey: bool = False) -> Iterator[Stream | None]:
    """Read a stream from a source: yield None between steps, and the stream last.

    Raises RdbError: the data is damaged or contradicts itself.
    """
    stream = Stream()
    yield from read_nodes(source, stream)
    length, last_entry, stream.last_id = read_length(source), stream.last_id, _read_id(source)
    if length != stream.length or stream.last_id < last_entry:
        raise RdbError("Stream length or last ID inconsistent with its entries")
    if stream_type >= 19:
        _read_id(source)  # the first entry's ID, which is already known
        stream.max_deleted_id = _read_id(source)
        stream.entries_added = read_length(source)
    for _ in range(read_length(source)):
        name = read_string(source)
        if name in stream.groups:
            raise RdbError("Duplicated consumer group name loaded from RDB")
        stream.groups[name] = yield from _read_group(source, stream, stream_type)
    if stream_type >= 26:
        stream.idempotency = _read_producers(source)
    yield stream


def _read_group(source: ByteSource, stream: Stream, stream_type: int) -> Generator[None, None, Group]:
    group = Group(_read_id(source))
    if stream_type >= 19:
        read = read_length(source)
        group.entries_read = None if read > MAX_U64 >> 1 else read
    else:
        group.entries_read = entries_read_estimate(stream, group.last_id)
    number = read_length(source)
    pending: list[_Rows] = []
    for rows in _read_pending(source, number):
        pending.append(rows)
        yield None
    owners: dict[bytes, Consumer] = {}
    for _ in range(read_length(source)):
        name = read_string(source)
        if name in group.consumers:
            raise RdbError("Duplicate consumer name in a stream consumer group")
        seen = _read_time(source)
        consumer = group.create_consumer(name, seen, _read_time(source) if stream_type >= 21 else seen)
        for ids in _read_ids(source):
            before = len(owners)
            owners.update(dict.fromkeys(ids, consumer))
            if len(owners) != before + len(ids):
                raise RdbError("Duplicated consumer PEL entry loading a stream consumer group")
            yield None
    unowned = list(chain.from_iterable(_read_ids(source))) if stream_type >= 27 else []
    counts: dict[bytes, int] = {}  # of entries without an owner
    yield from group.pel.fill(_with_owners(pending, owners, counts))
    if number - len(counts) != len(owners):
        raise RdbError("Consumer entry not found in group global PEL")
    if any(raw not in counts and raw not in owners for raw in unowned):
        raise RdbError("NACKed entry not found in group global PEL")
    if len(unowned) != len(counts) or counts.keys() != set(unowned):
        raise RdbError("A pending entry of a stream consumer group has no consumer")
    group.give_back([_id(raw) for raw in unowned], [counts[raw] for raw in unowned])
    return group


def _read_pending(source: ByteSource, number: int) -> Iterator[_Rows]:
    """Read all pending entries of a group, some at a time: IDs, delivery times, delivery counts."""
    before = b""
    while number:
        size = min(number, _ROWS_AT_ONCE)
        number -= size
        raw = source.peek(size * _ROW.size)
        # A load of 200,000 pending entries and their stream takes 0.38 s of processor time, without this branch 0.53 s.
        if len(raw) == size * _ROW.size and max(raw[_ROW.size - 1 :: _ROW.size]) <= _SHORT_LENGTH:
            source.skip(len(raw))
            row = struct.unpack("<" + _ROW_FORMAT * size, raw)
            rows = row[::3], row[1::3], row[2::3]
        else:
            each = [
                (source.take(16), _read_time(source), min(read_length(source), MAX_U64 >> 1))
                for _ in range(size)
            ]
            ids, times, counts = zip(*each, strict=True)
            rows = ids, times, counts
        ids = rows[0]
        if ids[0] <= before or not all(map(lt, ids, ids[1:])):
            raise RdbError("Duplicated global PEL entry loading stream consumer group")
        before = ids[-1]
        yield rows


def _read_ids(source: ByteSource) -> Iterator[tuple[bytes, ...]]:
    """Read raw IDs, some at a time."""
    number = read_length(source)
    while number:
        size = min(number, _IDS_AT_ONCE)
        number -= size
        yield struct.unpack("16s" * size, source.take(16 * size))


def _with_owners(
    pending: list[_Rows], owners: dict[bytes, Consumer], counts: dict[bytes, int]
) -> Iterator[Rows]:
    """Yield the rows that have an owner, for ``Pel.fill``, and put the delivery counts of the others in ``counts``."""
    for rows in pending:
        raw, times, delivered = rows
        consumers = list(map(owners.get, raw))
        if None in consumers:
            counts.update((each, count) for each, _, count in zip(*rows, strict=True) if each not in owners)
            owned = [row for row in zip(*rows, strict=True) if row[0] in owners]
            if not owned:
                continue
            raw, times, delivered = zip(*owned, strict=True)
            consumers = [owners[each] for each in raw]
        halves = struct.unpack(f">{2 * len(raw)}Q", b"".join(raw))
        yield halves, consumers, times, delivered  # type: ignore[misc]  # no None


def _read_producers(source: ByteSource) -> Idempotency:
    """Read the state of idempotent producers."""
    state = Idempotency(read_length(source), read_length(source))
    for _ in range(read_length(source)):
        pid = read_string(source)
        known = {read_string(source): _read_id(source) for _ in range(read_length(source))}
        if pid in state.producers:
            raise RdbError("Duplicated idempotent producer loaded from RDB")
        if known:
            state.producers[pid] = known
    state.added, state.duplicates = read_length(source), read_length(source)
    return state


def _id(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _read_id(source: ByteSource) -> int:
    return read_length(source) << 64 | read_length(source)


def _read_time(source: ByteSource) -> int:
    return int.from_bytes(source.take(8), "little", signed=True)


CODEC: Final[Codec[Stream]] = Codec(
    STREAM_TYPES,
    read_stream,
    stream_type_of,
    encode_stream,
    Extension(FIELD, encode_extras, apply_extras, count_extras),
    payload_version,
    check_kept,
)
