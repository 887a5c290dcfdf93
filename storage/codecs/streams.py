"""Streams as RDB values: nodes of listpacks, the counters, then the groups with what is pending.

Five types came one after the other: 15 (Redis 5.0), 19 (7.0: the counters), 21 (7.2: when a consumer was last
active), 26 (8.6: idempotent producers) and 27 (8.8: entries given back by XNACK). A server writes the one of its
compat-version or rdb-version.
"""

from __future__ import annotations

from itertools import chain, islice
from operator import lt
from typing import TYPE_CHECKING, Any, Final

import hiredis

from ..groups.group import Group
from ..groups.lag import entries_read_estimate
from ..listpack_sizes import integer_size
from ..streams.idempotency import Idempotency
from ..streams.ids import MAX_U64
from ..streams.iteration import pieces
from ..streams.macro_nodes import Node
from ..streams.stream import Stream
from . import listpack
from .byte_source import RdbError
from .codec import DEFAULTS, Codec, Defaults, Extension
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

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from .byte_source import ByteSource
    from .listpack import Element

STREAM_TYPES: Final = (15, 19, 21, 26, 27)
_TYPES_SINCE: Final = (  # RDB versions and their stream types
    (FIRST_WITH_UNOWNED, 27), (FIRST_WITH_PRODUCERS, 26), (11, 21), (10, 19),
)  # fmt: skip
_FEW: Final = 3  # up to this many entries are encoded row by row
_DELETED, _SAME_FIELDS = 1, 2  # flags of an entry
_BROKEN: Final = "Stream listpack integrity check failed."


# Writing


def stream_type_of(_stream: Stream, version: int) -> int:
    """Return the newest stream type that readers of an RDB version know."""
    return next((stream_type for since, stream_type in _TYPES_SINCE if version >= since), 15)


def encode_stream(
    stream: Stream, stream_type: int, idempotency_defaults: Defaults = DEFAULTS
) -> Iterator[bytes]:
    """Yield the value in pieces, one per node, without its type byte.

    Args:
        stream: it must not change meanwhile.
        stream_type: one of ``STREAM_TYPES``.
        idempotency_defaults: duration and maxsize of a stream that was never used for IDMP (types 26 and 27).
    """
    nodes = [node for node in _nodes(stream) if node[1]]
    yield encode_length(len(nodes))
    encoder = listpack.Words()
    for master, number, entries in nodes:
        packed = _pack_node(master, number, entries, encoder)
        yield b"\x10%b%b%b" % (master.to_bytes(16, "big"), encode_length(len(packed)), packed)
    yield encode_length(stream.length) + _encode_id(stream.last_id)
    if stream_type >= 19:
        yield _encode_id(stream.first_id) + _encode_id(stream.max_deleted_id)
        yield encode_length(stream.entries_added)
    yield encode_length(len(stream.groups))
    for name, group in sorted(stream.groups.items()):
        yield encode_string(name) + b"".join(_encode_group(group, stream_type))
    if stream_type >= 26:
        yield from _encode_producers(stream.idempotency or Idempotency(*idempotency_defaults))


def _nodes(stream: Stream) -> Iterator[tuple[int, int, bytes]]:
    """Yield the entries of each macro node as sent to clients: first ID, count, bytes."""
    return pieces(stream, stream.macro_nodes.first_ids)


def _pack_node(master: int, number: int, raw: bytes, encoder: listpack.Words) -> bytes:
    """Return the listpack of a node: what its entries share, and what differs in each."""
    reader = hiredis.Reader()
    reader.feed(b"*%d\r\n" % number)
    reader.feed(raw)
    entries: list[tuple[bytes, list[bytes]]] = reader.gets()
    halves = list(map(int, b"-".join([entry[0] for entry in entries]).split(b"-")))
    all_words = [entry[1] for entry in entries]
    names = all_words[0][::2]
    integer = listpack.integer
    master_entry = [
        integer(number), integer(0), integer(len(names)), *encoder.encode(names), integer(0),
    ]  # fmt: skip
    after = _differences(halves[::2], master >> 64)
    beside = _differences(halves[1::2], master & MAX_U64)
    columns = _pack_columns(names, all_words, after, beside, encoder) if number > _FEW else None
    return listpack.pack(master_entry + (columns or _pack_rows(names, all_words, after, beside, encoder)))


def _differences(numbers: list[int], base: int) -> list[bytes]:
    """Encode the halves of IDs as differences from the first one."""
    short, integer = listpack.SHORT, listpack.integer
    return [
        short[number - base] if 0 <= number - base < 4096 else integer(_signed(number - base))
        for number in numbers
    ]


def _pack_columns(
    names: list[bytes],
    all_words: list[list[bytes]],
    after: list[bytes],
    beside: list[bytes],
    encoder: listpack.Words,
) -> list[bytes] | None:
    """Encode the entries of a node; None if not all have the same field names.

    Dumps consist of such nodes, so it goes by columns: that is fewer steps of Python than there are words.
    """
    number, width = len(all_words), 2 * len(names)
    if list(map(len, all_words)).count(width) != number:
        return None
    words = list(chain.from_iterable(all_words))
    for place, name in enumerate(names):
        if words[2 * place :: width].count(name) != number:
            return None
    step = len(names) + 4
    pieces = [listpack.integer(_SAME_FIELDS)] * (step * number)
    pieces[1::step] = after
    pieces[2::step] = beside
    for place in range(len(names)):
        pieces[3 + place :: step] = encoder.encode(words[2 * place + 1 :: width])
    pieces[step - 1 :: step] = [listpack.integer(step - 1)] * number
    return pieces


def _pack_rows(
    names: list[bytes],
    all_words: list[list[bytes]],
    after: list[bytes],
    beside: list[bytes],
    encoder: listpack.Words,
) -> list[bytes]:
    """Encode entries of any kind, like ``_pack_columns``."""
    integer, encode_words = listpack.integer, encoder.encode
    same, other, same_count = integer(_SAME_FIELDS), integer(0), integer(len(names) + 3)
    pieces: list[bytes] = []
    for words, ms, seq in zip(all_words, after, beside, strict=True):
        if words[::2] == names:
            pieces += (same, ms, seq, *encode_words(words[1::2]), same_count)
        else:
            pieces += (
                other, ms, seq, integer(len(words) // 2), *encode_words(words), integer(len(words) + 4)
            )  # fmt: skip
    return pieces


def _encode_group(group: Group, stream_type: int) -> Iterator[bytes]:
    yield _encode_id(group.last_id)
    if stream_type >= 19:
        yield encode_length(MAX_U64 if group.entries_read is None else group.entries_read & MAX_U64)
    yield encode_length(len(group.pel))
    owned: dict[bytes, list[bytes]] = {name: [] for name in sorted(group.consumers)}
    if group.unowned.pending and stream_type < 27:
        owned.setdefault(NO_OWNER, [])
    for stream_id, consumer, ms, count in group:
        raw = stream_id.to_bytes(16, "big")
        if consumer is not group.unowned or stream_type < 27:
            owned[consumer.name].append(raw)
        yield raw + _encode_time(delivery_ms(ms)) + encode_length(count)
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
    """Read a stream from a source: yields None between steps, and the stream last.

    Raises:
        RdbError: the data is damaged, or holds what we have no place for.
    """
    stream = Stream()
    nodes: list[Node] = []
    for number in range(read_length(source)):
        key = read_string(source)
        if len(key) != 16:
            raise RdbError("Stream node key entry is not the size of a stream ID")
        _unpack_node(stream, nodes, int.from_bytes(key, "big"), read_string(source))
        if number % 16 == 15:
            yield None
    stream.macro_nodes.adopt(nodes)
    length, last_entry, stream.last_id = read_length(source), stream.last_id, _read_id(source)
    if length != stream.length or stream.last_id < last_entry:
        raise RdbError("Stream length or last ID inconsistent with its entries")
    if stream_type >= 19:
        _read_id(source)  # the first entry's, which is known already
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


def _unpack_node(stream: Stream, nodes: list[Node], master: int, data: bytes) -> None:
    """Add the entries of a listpack to a stream, and a description of the node to the list."""
    items = listpack.unpack(data)
    try:
        live, deleted, number = items[:3]
        assert type(live) is type(deleted) is type(number) is int
        names = [_word(name) for name in items[3 : 3 + number]]
        if live < 0 or deleted < 0 or number < 1 or len(names) != number or items[3 + number] != 0:
            raise RdbError(_BROKEN)
        node = Node(master, names, nodes[-1] if nodes else None)
        last = None if deleted else _unpack_like_entries(stream, items, master, names, live)
        if last is None:
            last = _unpack_entries(stream, items, master, names, live, deleted)
    except (IndexError, TypeError, ValueError, AssertionError):
        raise RdbError(_BROKEN) from None
    if last < master or (nodes and nodes[-1].last_id >= master) or not live:
        raise RdbError(_BROKEN)
    node.live, node.deleted, node.last_id = live, deleted, last
    node.size = len(data) - integer_size(live) - integer_size(deleted)
    nodes.append(node)


def _unpack_like_entries(
    stream: Stream, items: list[Element], master: int, names: list[bytes], live: int
) -> int | None:
    """Unpack the usual node: no entry is deleted, and all have the same fields.

    Such a node is a table; None, and nothing is done, if it is none.
    """
    number = len(names)
    start, width = 4 + number, number + 4
    ends = items[start + width - 1 :: width]
    if (
        len(items) != start + live * width
        or items[start::width].count(_SAME_FIELDS) != live
        or ends.count(number + 3) != live
    ):
        return None
    ms, seq = master >> 64, master & MAX_U64
    ids = [
        (ms + more, seq + rest)  # type: ignore[operator]
        for more, rest in zip(items[start + 1 :: width], items[start + 2 :: width], strict=True)
    ]
    last = stream.last_id
    if (
        not all(map(lt, ids, islice(ids, 1, None)))
        or not all(0 <= rest <= MAX_U64 for _, rest in ids)
        or not 0 <= ids[0][0] <= ids[-1][0] <= MAX_U64
        or (ids[0] <= (last >> 64, last & MAX_U64) and (stream.length or not any(ids[0])))
    ):
        return None
    columns: list[Iterable[int | bytes]] = []
    for at in range(start + 3, start + width - 1):
        words = list(map(_word, items[at::width]))
        columns += (map(len, words), words)
    stream.append_many(ids, list(map(_form(names).__mod__, zip(*columns, strict=True))))
    return ids[-1][0] << 64 | ids[-1][1]


def _form(names: list[bytes]) -> bytes:
    """Return the encoded fields of an entry, with placeholders for values and their lengths."""
    parts = [b"$%d\r\n%b\r\n$%%d\r\n%%b\r\n" % (len(name), name.replace(b"%", b"%%")) for name in names]
    return b"*%d\r\n%b" % (2 * len(names), b"".join(parts))


def _unpack_entries(
    stream: Stream, items: list[Element], master: int, names: list[bytes], live: int, deleted: int
) -> int:
    """Add the live entries; return the ID of the last entry, even if it is deleted."""
    number = len(names)
    usual = _form(names)
    master_ms, master_seq = master >> 64, master & MAX_U64
    at = 4 + number
    last = -1
    append = stream.append
    for _ in range(live + deleted):
        flags, ms, seq = items[at : at + 3]
        stream_id = (master_ms + ms & MAX_U64) << 64 | (master_seq + seq & MAX_U64)  # type: ignore[operator]
        at += 3
        if flags & _SAME_FIELDS:  # type: ignore[operator]
            values = items[at : at + number]
            at += number
            count = number + 3
        else:
            fields = items[at]
            if type(fields) is not int or fields < 1:
                raise RdbError(_BROKEN)
            at += 1
            values = items[at : at + 2 * fields]
            at += 2 * fields
            count = 2 * fields + 4
        if items[at] != count or stream_id <= last:
            raise RdbError(_BROKEN)
        at += 1
        last = stream_id
        if flags & _DELETED:  # type: ignore[operator]
            deleted -= 1
            continue
        if stream_id <= stream.last_id and (stream.length or not stream_id):
            raise RdbError(_BROKEN)
        parts: list[Any] = []
        for value in values:
            word = b"%d" % value if isinstance(value, int) else value
            parts += (len(word), word)
        if flags & _SAME_FIELDS:  # type: ignore[operator]
            append(stream_id, usual % tuple(parts))
        else:
            append(stream_id, b"*%d\r\n" % len(values) + b"$%d\r\n%b\r\n" * len(values) % tuple(parts))
    if at != len(items) or deleted:
        raise RdbError(_BROKEN)
    return last


def _word(element: Element) -> bytes:
    return b"%d" % element if isinstance(element, int) else element


def _read_group(source: ByteSource, stream: Stream, stream_type: int) -> Generator[None, None, Group]:
    group = Group(_read_id(source))
    if stream_type >= 19:
        read = read_length(source)
        group.entries_read = None if read > MAX_U64 >> 1 else read
    else:
        group.entries_read = entries_read_estimate(stream, group.last_id)
    facts: dict[bytes, tuple[int, int]] = {}
    before = b""
    for number in range(read_length(source)):
        if number % 4096 == 4095:
            yield None
        raw = source.take(16)
        if raw <= before:
            raise RdbError("Duplicated global PEL entry loading stream consumer group")
        facts[raw] = (_read_time(source), read_length(source))
        before = raw
    owners: dict[bytes, bytes] = {}
    for _ in range(read_length(source)):
        name = read_string(source)
        if name in group.consumers:
            raise RdbError("Duplicate consumer name in a stream consumer group")
        seen = _read_time(source)
        group.create_consumer(name, seen, _read_time(source) if stream_type >= 21 else seen)
        for number in range(read_length(source)):
            if number % 4096 == 4095:
                yield None
            raw = source.take(16)
            if raw not in facts:
                raise RdbError("Consumer entry not found in group global PEL")
            if raw in owners:
                raise RdbError("Duplicated consumer PEL entry loading a stream consumer group")
            owners[raw] = name
        yield None
    unowned = [source.take(16) for _ in range(read_length(source))] if stream_type >= 27 else []
    if len(owners) + len(unowned) != len(facts) or len({*owners, *unowned}) != len(facts):
        raise RdbError("A pending entry of a stream consumer group has no consumer")
    if any(raw not in facts for raw in unowned):
        raise RdbError("NACKed entry not found in group global PEL")
    yield from group.fill(
        (_id(raw), (group.consumers[owners[raw]], ms, _counter(count)))
        for raw, (ms, count) in facts.items()
        if raw in owners
    )
    group.give_back([_id(raw) for raw in unowned], [_counter(facts[raw][1]) for raw in unowned])
    return group


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


def _counter(count: int) -> int:
    return min(count, MAX_U64 >> 1)


def _read_id(source: ByteSource) -> int:
    return read_length(source) << 64 | read_length(source)


def _read_time(source: ByteSource) -> int:
    return int.from_bytes(source.take(8), "little", signed=True)


def _signed(difference: int) -> int:
    """Return a difference of two unsigned 64-bit numbers as in C: modulo 2^64, signed."""
    difference &= MAX_U64
    return difference - (1 << 64) if difference >> 63 else difference


CODEC: Final[Codec[Stream]] = Codec(
    STREAM_TYPES,
    read_stream,
    stream_type_of,
    encode_stream,
    Extension(FIELD, encode_extras, apply_extras, count_extras),
    payload_version,
)
