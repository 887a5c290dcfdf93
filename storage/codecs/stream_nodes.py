"""The entries of a stream in RDB: nodes of about a hundred entries, whose listpack starts with their common part.

A file has many nodes, and few of them are read soon. So if a checksum covers the file, a node of the usual form is kept
as it was read (``KeptNode``), usually compressed: its head and its last entry tell all that a stream needs to know. It
is unpacked when it is read, and written unchanged as long as none of its entries was removed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

import hiredis

from ..listpack_sizes import integer_size
from ..loading import RdbError
from ..streams.bulk_append import append_many, append_packed
from ..streams.chunk import MAX_BYTES, MAX_ENTRIES, AnyChunk, DamagedError, packed_form
from ..streams.chunk_codec import PACKED_OBJECTS, Columns, columns_of, fields_form
from ..streams.ids import MAX_U64, signed
from ..streams.iteration import pieces
from ..streams.macro_nodes import Node
from ..streams.stream import Stream
from . import listpack
from .byte_source import ByteSource
from .codec import Writing
from .encoding import encode_length, packed_string, read_length, read_raw_string, read_string, unpack_lzf
from .listpack import Element

BROKEN: Final = "Stream listpack integrity check failed."
_DELETED, _SAME_FIELDS = 1, 2  # flags of an entry
# A smaller node shares a chunk with others.
_LEAST_KEPT_ENTRIES: Final = 32
_LEAST_KEPT_BYTES: Final = 2 << 10
# In a longer node, a back-length may have three bytes. Redis' nodes have at most 4 KiB by default, except a node of one
# large entry.
_MOST_KEPT_BYTES: Final = (1 << 14) - 1
_WIDE: Final = {3: 0xF1, 4: 0xF2, 5: 0xF3, 9: 0xF4}  # wide integers: bytes of head and content, to the head
_MARKED: Final = 0x80  # in a back-length: another byte precedes this one


# Writing


def encode_nodes(stream: Stream, writing: Writing) -> Iterator[bytes]:
    """Yield the number of macro nodes that have live entries, and then these nodes, each with its key.

    After a trim by MINID the first node may have no live entry. Redis 8.10.2 writes such a node, and refuses the file.
    """
    nodes = [node for node in stream.macro_nodes.all() if node.live]
    yield encode_length(len(nodes))
    starts = [node.first_id for node in nodes]
    at = 0
    others: list[AnyChunk] = []
    for chunk in stream.chunks:
        kept = packed_form(chunk)
        stop = bisect_left(starts, kept.first_id, at) if isinstance(kept, KeptNode) else len(nodes)
        # The last node of a stream may have received more entries since it was read.
        if not isinstance(kept, KeptNode) or nodes[stop].live != len(kept):
            others.append(chunk)
            continue
        yield from _encode_others(others, starts[at:stop], writing)
        others.clear()
        at = stop + 1
        yield _key(kept.first_id) + kept.encoded(writing)
    yield from _encode_others(others, starts[at:], writing)


def _encode_others(chunks: list[AnyChunk], starts: list[int], writing: Writing) -> Iterator[bytes]:
    """Yield nodes that start at the given IDs and hold all entries of the chunks."""
    encode = writing.string
    for master, number, entries in pieces(chunks, starts):
        yield _key(master) + encode(_pack_node(master, number, entries))


def _key(master: int) -> bytes:
    return b"\x10" + master.to_bytes(16, "big")


def _pack_node(master: int, number: int, raw: bytes) -> bytes:
    """Return the listpack of a node: the common part of its entries, and then the differences of each entry."""
    reader = hiredis.Reader()
    reader.feed(b"*%d\r\n" % number)
    reader.feed(raw)
    entries: list[tuple[bytes, list[bytes]]] = reader.gets()
    halves = list(map(int, b"-".join([entry[0] for entry in entries]).split(b"-")))
    all_words = [entry[1] for entry in entries]
    names = all_words[0][::2]
    integer = listpack.integer
    master_entry = [
        integer(number), integer(0), integer(len(names)), *map(listpack.text, names), integer(0),
    ]  # fmt: skip
    after = _differences(halves[::2], master >> 64)
    beside = _differences(halves[1::2], master & MAX_U64)
    return listpack.pack(master_entry + _pack_entries(names, all_words, after, beside))


def _differences(numbers: list[int], base: int) -> list[bytes]:
    """Encode halves of IDs as differences from the half of the first ID."""
    return [listpack.integer(signed(number - base)) for number in numbers]


def _pack_entries(
    names: list[bytes], all_words: list[list[bytes]], after: list[bytes], beside: list[bytes]
) -> list[bytes]:
    """Encode the entries of a node. ``after`` and ``beside``: differences of the ms and seq halves of the IDs."""
    # By columns, a save of entries of three fields took 0.89 of the time (2026-11-28): too little for a second way.
    integer, text = listpack.integer, listpack.text
    same, other, same_count = integer(_SAME_FIELDS), integer(0), integer(len(names) + 3)
    pieces: list[bytes] = []
    for words, ms, seq in zip(all_words, after, beside, strict=True):
        if words[::2] == names:
            pieces += (same, ms, seq, *map(text, words[1::2]), same_count)
        else:
            pieces += (
                other, ms, seq, integer(len(words) // 2), *map(text, words), integer(len(words) + 4)
            )  # fmt: skip
    return pieces


# Reading


class _Unpacked(NamedTuple):
    """An unpacked node."""

    deleted: int  # number of entries marked as deleted
    names: list[bytes]  # the field names of its first entry
    ids: list[tuple[int, int]]  # (ms, seq) of the entries that are not deleted
    fields: list[bytes]  # the encoded fields of the same entries
    last: int  # the ID of the last entry, even if it is deleted


def read_nodes(source: ByteSource, stream: Stream) -> Iterator[None]:
    """Read a stream's nodes from an RDB file into the empty ``stream``.

    It yields between steps, so that a server can do other work. Raises RdbError: the nodes are damaged.
    """
    nodes: list[Node] = []
    shape: _Shape | None = None
    number = read_length(source)
    for index in range(number):
        if index % 16 == 15:
            yield None
        key = read_string(source)
        if len(key) != 16:
            raise RdbError("Stream node key entry is not the size of a stream ID")
        master = int.from_bytes(key, "big")
        if nodes and nodes[-1].last_id >= master:
            raise RdbError(BROKEN)
        text, size = read_raw_string(source)
        data = text if size is None else unpack_lzf(text, size)
        # The last node may grow, so it is unpacked now.
        if shape is not None and source.proven and index + 1 < number:
            kept = shape.keep(master, text, size, data)
            if kept is not None:
                append_packed(stream, kept, master, kept.last_id)
                nodes.append(shape.node(kept, len(data)))
                continue
        shape = _add_unpacked(stream, nodes, master, data)
    stream.macro_nodes.adopt(nodes)


def _add_unpacked(stream: Stream, nodes: list[Node], master: int, data: bytes) -> _Shape:
    """Add the entries of a node to a stream, and a macro node to ``nodes``; return the node's shape."""
    deleted, names, ids, fields, last = _unpack_node(master, data)
    live = len(ids)
    first = ids[0][0] << 64 | ids[0][1] if ids else 0
    if last < master or first <= stream.last_id:
        raise RdbError(BROKEN)
    append_many(stream, ids, fields)
    node = Node(master, names, nodes[-1] if nodes else None)
    node.live, node.deleted, node.last_id = live, deleted, last
    node.size = len(data) - integer_size(live) - integer_size(deleted)
    nodes.append(node)
    return _Shape(names, node)


def _unpack_node(master: int, data: bytes) -> _Unpacked:
    items = listpack.unpack(data)
    try:
        live, deleted, number = items[:3]
        assert type(live) is type(deleted) is type(number) is int
        names = [_word(name) for name in items[3 : 3 + number]]
        if live < 0 or deleted < 0 or number < 1 or len(names) != number or items[3 + number] != 0:
            raise RdbError(BROKEN)
        return _unpack_entries(items, master, names, live, deleted)
    except (IndexError, TypeError, ValueError, AssertionError):
        raise RdbError(BROKEN) from None


def _unpack_entries(
    items: list[Element], master: int, names: list[bytes], live: int, deleted: int
) -> _Unpacked:
    # Measured: by columns, a load without a checksum, which unpacks every node, took 0.87 of the time (2026-11-28).
    number = len(names)
    usual = fields_form(names)
    master_ms, master_seq = master >> 64, master & MAX_U64
    at = 4 + number
    last = -1
    left = deleted
    ids: list[tuple[int, int]] = []
    all_fields: list[bytes] = []
    for _ in range(live + deleted):
        flags, ms, seq = items[at : at + 3]
        half = master_ms + ms & MAX_U64, master_seq + seq & MAX_U64  # type: ignore[operator]
        stream_id = half[0] << 64 | half[1]
        at += 3
        if flags & _SAME_FIELDS:  # type: ignore[operator]
            values = items[at : at + number]
            at += number
            count = number + 3
        else:
            fields = items[at]
            if type(fields) is not int or fields < 1:
                raise RdbError(BROKEN)
            at += 1
            values = items[at : at + 2 * fields]
            at += 2 * fields
            count = 2 * fields + 4
        if items[at] != count or stream_id <= last:
            raise RdbError(BROKEN)
        at += 1
        last = stream_id
        if flags & _DELETED:  # type: ignore[operator]
            left -= 1
            continue
        parts: list[Any] = []
        for value in values:
            word = b"%d" % value if isinstance(value, int) else value
            parts += (len(word), word)
        ids.append(half)
        all_fields.append(
            usual % tuple(parts)
            if flags & _SAME_FIELDS  # type: ignore[operator]
            else b"*%d\r\n" % len(values) + b"$%d\r\n%b\r\n" * len(values) % tuple(parts)
        )
    if at != len(items) or left or not ids:
        raise RdbError(BROKEN)
    return _Unpacked(deleted, names, ids, all_fields, last)


def _word(element: Element) -> bytes:
    return b"%d" % element if isinstance(element, int) else element


# Keeping nodes packed


def check_kept(stream: Stream) -> Iterator[None]:
    """Unpack and check all nodes of a stream that were kept as read.

    It yields between steps. Raises RdbError: one is damaged.
    """
    for chunk in stream.chunks:
        kept = packed_form(chunk)
        if isinstance(kept, KeptNode):
            try:
                kept.columns()
            except DamagedError as error:
                raise RdbError(str(error)) from None
            yield None


class KeptNode:
    """A node in the form that it had in the file: the packed form of a chunk (see ``chunk_codec.Packed``).

    It has no deleted entries.
    """

    __slots__ = ("_number", "_size", "_text", "first_id", "last_id")
    is_quick: ClassVar[bool] = False  # unpacking a listpack takes many times as long as inflating

    def __init__(self, text: bytes, size: int | None, first_id: int, last_id: int, number: int) -> None:
        self._text = text
        self._size = size  # bytes of the listpack; None if the text is not compressed
        self.first_id = first_id
        self.last_id = last_id
        self._number = number

    def __len__(self) -> int:
        return self._number

    @property
    def memory(self) -> int:
        """Approximate memory of the node in bytes."""
        return len(self._text) + PACKED_OBJECTS

    @property
    def payload_bytes(self) -> int:
        """Total bytes of the entries, as sent to clients."""
        return len(self.data())

    def data(self) -> bytes:
        """Return the node's entries as encoded RESP."""
        return self.columns().data

    def columns(self) -> Columns:
        """Unpack the node's entries.

        Raises DamagedError: they contradict the node's first or last ID or its number of entries.
        """
        try:
            _, _, ids, fields, last = _unpack_node(self.first_id, self._listpack())
        except RdbError as error:
            raise DamagedError(str(error)) from None
        if len(ids) != self._number or last != self.last_id or ids[0][0] << 64 | ids[0][1] != self.first_id:
            raise DamagedError(BROKEN)
        return columns_of(ids, fields)

    def encoded(self, writing: Writing) -> bytes:
        """Return the node as an RDB string."""
        if writing.compress and self._size is not None:
            return packed_string(self._text, self._size)
        return writing.string(self._listpack())

    def _listpack(self) -> bytes:
        return self._text if self._size is None else unpack_lzf(self._text, self._size)


class _Shape:
    """The bytes at the start and the end of every node of the usual form with the same field names as a given node."""

    __slots__ = ("_begin", "_end", "_form_bytes", "_node", "_number")

    def __init__(self, names: list[bytes], node: Node) -> None:
        integer = listpack.integer
        number = len(names)
        self._node = node
        self._number = number
        self._form_bytes = len(fields_form(names))
        # The usual form: no entry is deleted, and the first entry has the node's own ID.
        first_row = integer(_SAME_FIELDS) + integer(0) + integer(0)
        words = b"".join(map(listpack.text, names))
        self._begin = integer(0) + integer(number) + words + integer(0) + first_row
        self._end = integer(number + 3) + b"\xff"

    def keep(self, master: int, text: bytes, size: int | None, data: bytes) -> KeptNode | None:
        """Return a node to keep as it was read, None if it must be unpacked.

        Args:
            master: its first ID.
            text: its string in the file, without the length.
            size: bytes of the listpack; None if ``text`` is not compressed.
        """
        number = self._number
        end = len(data)
        at = listpack.HEADER_BYTES
        if not (
            data.startswith(self._begin, at + 2)
            and data.endswith(self._end)
            and int.from_bytes(data[:4], "little") == end
            and data[at + 1] == 1
        ):
            return None
        live = data[at]
        if (
            not 0 < live <= MAX_ENTRIES
            or (live < _LEAST_KEPT_ENTRIES and end < _LEAST_KEPT_BYTES)
            or end > _MOST_KEPT_BYTES
            or end + live * self._form_bytes > MAX_BYTES
            or int.from_bytes(data[4:6], "little") != 4 + number + live * (4 + number)
        ):
            return None
        # Walk backwards over the last entry to its ID.
        begin = at + 1 + len(self._begin)
        at = end - len(self._end) - 1
        for _ in range(number):
            length = data[at]
            if length >= _MARKED:
                at -= 1
                length = data[at] << 7 | length & 0x7F
            at -= length + 1
            if at < begin:
                return None
        seq = _integer_before(data, at)
        ms = _integer_before(data, at - data[at] - 1)
        if seq is None or ms is None:
            return None
        last_ms, last_seq = (master >> 64) + ms, (master & MAX_U64) + seq
        last_id = last_ms << 64 | last_seq
        if last_id < master or not (last_ms <= MAX_U64 and 0 <= last_seq <= MAX_U64):
            return None
        return KeptNode(text, size, master, last_id, live)

    def node(self, kept: KeptNode, size: int) -> Node:
        """Return the macro node of a kept node; ``size`` is the number of bytes of its listpack."""
        live = len(kept)
        return self._node.like(kept.first_id, kept.last_id, live, size - integer_size(live) - integer_size(0))


def _integer_before(data: bytes, end: int) -> int | None:
    """Return the integer element whose back-length is at ``end``; None if there is none."""
    at = end - data[end] if end > 0 else end
    if at < listpack.HEADER_BYTES:
        return None
    size, head = end - at, data[at]
    if size == 1 and head < 0x80:
        return head
    if size == 2 and 0xC0 <= head < 0xE0:
        value = (head & 0x1F) << 8 | data[at + 1]
        return value - 8192 if value >= 4096 else value
    return int.from_bytes(data[at + 1 : end], "little", signed=True) if _WIDE.get(size) == head else None
