"""The macro nodes that Redis would keep a stream in: counters only, for what shows of them.

Approximate trimming removes whole nodes only, and XINFO STREAM tells their number, so the borders are visible.
Where a border falls depends on the exact size of Redis' packed form (listpack). That is worth computing only when
somebody looks: entries stay *pending* until then and are accounted for a chunk at a time, in the order in which they
were added and under the limits that held then.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import hiredis

from .stream_id import MAX_U64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .chunk import Chunk

_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_NODE_BYTES_CAP: Final = 1 << 30
_EMPTY_NODE_BYTES: Final = 7
# The flags of an entry, and the terminator of the master entry: small integers.
_SMALL_INTEGER_BYTES: Final = 2
_ZERO: Final = 0x30
_REMEMBERED: Final = 1 << 14  # words
_REMEMBERED_BYTES: Final = 12  # longer ones seldom come again


class Node:
    """One macro node.

    Attributes:
        first_id, last_id: its first and last entry, deleted ones included.
        live, deleted: numbers of entries.
        size: bytes in Redis, without the two counters above, which are of varying width themselves.
        fields: the field names of its first entry; entries with the same ones are stored without them.
        names_payload: bytes of those names, as the limit counts them.
        count_size: bytes of the element count that closes such an entry.
    """

    __slots__ = ("count_size", "deleted", "fields", "first_id", "last_id", "live", "names_payload", "size")

    def __init__(self, stream_id: int, fields: list[bytes], before: Node | None) -> None:
        self.first_id = stream_id
        self.last_id = stream_id
        self.live = 0
        self.deleted = 0
        # Streams repeat themselves: equal names need not be kept twice.
        self.fields: list[bytes] = before.fields if before is not None and before.fields == fields else fields
        self.names_payload = sum(map(len, fields))
        self.count_size = integer_size(len(fields) + 3)
        self.size = (
            _EMPTY_NODE_BYTES
            + integer_size(len(fields))
            + sum(map(element_size, fields))
            + _SMALL_INTEGER_BYTES
        )

    def has_room(self, payload: int, max_bytes: int, max_entries: int) -> bool:
        """Whether Redis would put an entry with so many bytes of fields and values here."""
        live, deleted = self.live, self.deleted
        if live + deleted < 128:
            return live + deleted < max_entries and self.size + payload + 4 < max_bytes
        counters = integer_size(live) + integer_size(deleted)
        return live + deleted < max_entries and self.size + payload + counters < max_bytes

    def id_size(self, ms: int, seq: int) -> int:
        """Bytes of an entry's flags and of its ID, which is kept relative to the node's first."""
        ms -= self.first_id >> 64
        seq -= self.first_id & MAX_U64
        if 0 <= seq <= 127 and 0 <= ms < 32768:
            return 6 if ms <= 127 else 7 if ms <= 4095 else 8
        return _SMALL_INTEGER_BYTES + integer_size(_signed(ms)) + integer_size(_signed(seq))

    def copy(self) -> Node:
        """An independent node."""
        twin = Node.__new__(Node)
        twin.first_id = self.first_id
        twin.last_id = self.last_id
        twin.live = self.live
        twin.deleted = self.deleted
        twin.fields = self.fields
        twin.names_payload = self.names_payload
        twin.count_size = self.count_size
        twin.size = self.size
        return twin


class Nodes:
    """The nodes of one stream, as far as they are known.

    Invariants: ``known`` is in ID order and covers exactly the entries (deleted ones too) up to the ID
    ``accounted``; no entry above it was ever deleted, for deleting settles first. Only the last known node can still
    gain entries, so its counters may change only when nothing is pending.
    """

    __slots__ = ("accounted", "known", "max_bytes", "max_entries")

    def __init__(self, max_bytes: int, max_entries: int) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.accounted = -1
        self.known: list[Node] = []

    def clear(self) -> None:
        """All nodes were removed, and all entries with them."""
        self.known = []

    def settle(self, chunks: list[Chunk], stream_id: int) -> None:
        """Account until the node that holds an entry can no longer gain any (or nothing is pending)."""
        known = self.known
        if known and known[-1].first_id > stream_id:
            return
        for chunk in self._pending(chunks):
            self._account(chunk)
            if known[-1].first_id > stream_id:
                return

    def settle_first(self, chunks: list[Chunk]) -> None:
        """Account until the first node can no longer gain entries (or nothing is pending)."""
        known = self.known
        if len(known) > 1:
            return
        for chunk in self._pending(chunks):
            self._account(chunk)
            if len(known) > 1:
                return

    def settle_all(self, chunks: list[Chunk]) -> None:
        """Account for everything."""
        sizes = _Sizes()
        for chunk in self._pending(chunks):
            self._account(chunk, sizes)

    def remove(self, stream_id: int) -> None:
        """One live entry, settled before, was deleted; a node without live entries goes."""
        index = bisect_right(self.known, stream_id, key=_first_id) - 1
        node = self.known[index]
        node.live -= 1
        node.deleted += 1
        if not node.live:
            del self.known[index]

    def copy(self) -> Nodes:
        """Independent counters."""
        twin = Nodes(self.max_bytes, self.max_entries)
        twin.accounted = self.accounted
        twin.known = [node.copy() for node in self.known]
        return twin

    def _pending(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """The chunks that hold pending entries."""
        start = bisect_right(chunks, self.accounted, key=_last_id_of_chunk)
        for index in range(start, len(chunks)):
            yield chunks[index]

    def _account(self, chunk: Chunk, sizes: _Sizes | None = None) -> None:
        """Place the pending entries of a chunk; ``sizes`` spares work where many follow each other."""
        if sizes is None:
            sizes = _Sizes()
        start = chunk.position(self.accounted + 1)
        stop = len(chunk)
        reader = hiredis.Reader()
        reader.feed(bytes(chunk.data[chunk.offsets[start] :]))
        gets = reader.gets
        max_bytes = self.max_bytes
        if not 0 < max_bytes <= _NODE_BYTES_CAP:
            max_bytes = _NODE_BYTES_CAP
        max_entries = self.max_entries or 1 << 62
        known = self.known
        node = known[-1] if known else None
        fields = None if node is None else node.fields
        first_ms, first_seq = (0, 0) if node is None else (node.first_id >> 64, node.first_id & MAX_U64)
        for ms, seq in zip(chunk.ms[start:stop], chunk.seq[start:stop], strict=True):
            words: list[bytes] = gets()[1]
            names = words[::2]
            if node is not None and names == fields:
                size, payload, elements = node.count_size, node.names_payload, words[1::2]
            else:
                size, payload, elements = integer_size(len(names)) + integer_size(len(words) + 4), 0, words
            for word in elements:
                length = len(word)
                payload += length
                # What may be an integer begins with a digit or "-" and comes before ":"; most text does not.
                size += length + 2 if length < 64 and word >= b":" else sizes[word]
            if node is None or not node.has_room(payload, max_bytes, max_entries):
                node = Node(ms << 64 | seq, names, node)
                first_ms, first_seq = ms, seq
                known.append(node)
                fields = node.fields
                size = node.count_size + sum(map(element_size, words[1::2]))
            after = ms - first_ms
            # As id_size says, for the usual case.
            node.size += size + (6 if seq == first_seq and 0 <= after <= 127 else node.id_size(ms, seq))
            node.live += 1
            node.last_id = ms << 64 | seq
        self.accounted = chunk.id_at(stop - 1)


def integer_size(value: int) -> int:
    """Bytes of an integer in a listpack, with the byte for walking backwards."""
    if 0 <= value <= 127:
        return 2
    if -4096 <= value <= 4095:
        return 3
    if -32768 <= value <= 32767:
        return 4
    if -8388608 <= value <= 8388607:
        return 5
    if -2147483648 <= value <= 2147483647:
        return 6
    return 10


def element_size(word: bytes) -> int:
    """Bytes of a string in a listpack; what looks like an integer is kept as one."""
    size = len(word)
    if 0 < size < 5 and word.isdigit() and (word[0] != _ZERO or size == 1):
        return 2 if size < 3 else integer_size(int(word))
    if size < 21 and _INTEGER.match(word):
        value = int(word)
        if -(1 << 63) <= value < 1 << 63:
            return integer_size(value)
    if size < 64:
        return size + 2
    size += 2 if size < 4096 else 5
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    return size + (4 if size < 268435455 else 5)


class _Sizes(dict[bytes, int]):
    """``element_size`` of words, remembered: streams repeat themselves."""

    __slots__ = ()

    def __missing__(self, word: bytes) -> int:
        size = element_size(word)
        if len(word) < _REMEMBERED_BYTES and len(self) < _REMEMBERED:
            self[word] = size
        return size


def _signed(difference: int) -> int:
    """A difference of two unsigned 64-bit numbers as C keeps it: modulo 2^64, signed."""
    difference &= MAX_U64
    return difference - (1 << 64) if difference >> 63 else difference


def _first_id(node: Node) -> int:
    return node.first_id


def _last_id_of_chunk(chunk: Chunk) -> int:
    return chunk.id_at(-1)
