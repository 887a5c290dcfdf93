"""A stream: its entries in chunks, its counters, its consumer groups.

IDs are integers here, ``ms << 64 | seq``; entries are returned as encoded RESP (see ``chunk``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise, repeat
from operator import add, attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from ..freeing import Freeable
from .chunk import LARGE, MAX_BYTES, MAX_ENTRIES, AnyChunk, Chunk, ChunkRun, copy_of, estimate, ids_in
from .chunk_codec import Packed, pack
from .ids import MAX_COUNT, MAX_U64
from .macro_nodes import FAR, MacroNodes

if TYPE_CHECKING:
    from weakref import WeakSet

    from ..groups.group import Group
    from .cold_chunks import ChunkCache
    from .idempotency import Idempotency

NODE_MAX_BYTES: Final = 4096
NODE_MAX_ENTRIES: Final = 100
# With more, the first chunk would be repacked before the caller is done with the last one.
_MANY: Final = 8 * MAX_ENTRIES
_SAMPLES: Final = 64  # chunks
_FEW: Final = 64  # entries, consumers and pending entries, taken together, that are freed at once


class Stream(Freeable):
    """One stream value.

    For this package only, where ``bulk_append``, ``trimming``, ``iteration`` and ``cold_chunks`` work on a stream:
        chunks: the entries. Only the last chunk may be growing; its data is then a bytearray. See ``open``.
        tail: the last chunk while it may grow.
        firsts: a lower bound for the IDs in each chunk, greater than all IDs before it.
        macro_nodes: counters for the macro nodes that Redis would have; it knows ``chunks`` and ``firsts``.
        cold: packs old chunks; None while the stream belongs to no keyspace.
        packed_to: chunks that begin before this ID were already considered for packing.
    """

    __slots__ = (
        "__weakref__", "_behind", "_cursor", "_discard", "_prefix", "_prefix_base", "_prefix_end",
        "_prefix_ms", "_prefix_start", "chunks", "cold", "entries_added", "first_id", "firsts", "groups",
        "idempotency", "last_id", "length", "macro_nodes", "max_deleted_id", "packed_to", "tail",
    )  # fmt: skip

    chunk_entries: ClassVar = 128  # the most entries in a chunk; tests choose a tiny number

    def __init__(self) -> None:
        self.length = 0
        # The last generated ID; new ones must be greater, whether or not that entry still exists.
        self.last_id = 0
        self.first_id = 0  # the first entry's ID, 0 if there is none
        # The greatest ID that ``delete`` ever removed (trimming does not count), 0 if none.
        self.max_deleted_id = 0
        self.entries_added = 0  # all entries ever added, at most MAX_COUNT
        self.groups: dict[bytes, Group] = {}  # by name, in order of creation
        # The iids of XADD IDMP and their settings, None until they are used or changed.
        self.idempotency: Idempotency | None = None
        self.chunks: list[AnyChunk] = []
        self.firsts: list[int] = []
        self.macro_nodes = MacroNodes(self.chunks, self.firsts, NODE_MAX_BYTES, NODE_MAX_ENTRIES)
        self.cold: ChunkCache | None = None
        self.packed_to = 0
        self.tail: Chunk | None = None
        self._behind: WeakSet[Stream] | None = None
        self._discard: Callable[[object, int], None] | None = None
        # The end of the last entries_after: (ID, chunk index, position of the next entry). It saves an XREADGROUP of one
        # entry 1.0 of 5.6 us.
        self._cursor = (-1, 0, 0)
        # "*2\r\n$15\r\n1700000000000-", valid for this ms and sequences of one length: start <= seq < end.
        self._prefix = b""
        self._prefix_ms, self._prefix_base = -1, -1 << 64
        self._prefix_start = self._prefix_end = 0

    def join(self, behind: WeakSet[Stream], discard: Callable[[object, int], None], cold: ChunkCache) -> None:
        """Attach the stream to a keyspace, which then does its long work in the background.

        Args:
            behind: receives the stream when the macro nodes of many entries are to be computed
            (``MacroNodes.account_some``).
            discard: receives what trimming cuts off, and the number of objects that it counts for
                (``LazyFree.free_later``).
            cold: packs old chunks.
        """
        self._behind = behind
        self._discard = discard
        cold.adopt(self)
        if self.macro_nodes.is_behind:
            behind.add(self)

    # Freeing and measuring

    def parts(self) -> Iterable[object]:
        """Return the objects that lazyfree frees one by one; each chunk is freed as a whole."""
        return self.groups, self.idempotency, self.chunks, self.firsts, self.macro_nodes

    def is_small(self) -> bool:
        """Return True if it has so few entries, groups, consumers and pending entries that lazyfree frees it at once.

        One with iids has no limit for these, and is taken apart.
        """
        size = self.length + len(self.groups)
        if size < _FEW:
            size += sum(sum(group.counts) for group in self.groups.values())
        return size < _FEW and self.idempotency is None

    @property
    def payload_bytes(self) -> int:
        """Approximate bytes of the entries in replies; groups are not counted."""
        return estimate(self.chunks, _SAMPLES, attrgetter("payload_bytes"))

    def memory(self, samples: int) -> int:
        """Estimate the memory of the entries in bytes, without groups, from ``samples`` chunks (0: all)."""
        return estimate(self.chunks, samples, attrgetter("memory"))

    # Adding

    def append(
        self,
        stream_id: int,
        fields: bytes,
        node_max_bytes: int = NODE_MAX_BYTES,
        node_max_entries: int = NODE_MAX_ENTRIES,
    ) -> bytes:
        r"""Add an entry.

        Args:
            stream_id: greater than ``last_id``, which the caller ensures.
            fields: the encoded array of fields and values, ``*<2k>\r\n$…``; at most 3 GiB.
            node_max_bytes: the present stream-node-max-bytes.
            node_max_entries: the present stream-node-max-entries.

        Returns:
            The ID as an encoded bulk string: ``$3\r\n1-0\r\n``.
        """
        nodes = self.macro_nodes
        if node_max_bytes != nodes.max_bytes or node_max_entries != nodes.max_entries:
            nodes.account_all()
            nodes.max_bytes = node_max_bytes
            nodes.max_entries = node_max_entries
        seq = stream_id - self._prefix_base
        if not self._prefix_start <= seq < self._prefix_end:  # also true for any other millisecond
            seq = stream_id & MAX_U64
            self._remember_prefix(stream_id >> 64, seq)
        head = self._prefix + b"%d\r\n" % seq
        chunk = self.tail
        if chunk is None or len(chunk.heads) >= self.chunk_entries or len(chunk.data) >= MAX_BYTES:
            chunk = self._grow(stream_id)
        data = chunk.data
        entry = head + fields
        if len(fields) < LARGE:
            chunk.offsets.append(len(data) + len(entry))
            data += entry
        else:
            chunk = self._begin_large(stream_id, entry)
        chunk.heads.append(len(head))
        chunk.ms.append(self._prefix_ms)
        chunk.seq.append(seq)
        if not self.length:
            self.first_id = stream_id
            nodes.accounted = -1  # XSETID may have gone back since then
        self.length += 1
        if self.entries_added < MAX_COUNT:
            self.entries_added += 1
        self.last_id = stream_id
        return head[4:]

    def append_run(
        self, ms: int, seq: int, fields: list[bytes], node_max_bytes: int, node_max_entries: int
    ) -> list[bytes]:
        """Append several entries with consecutive IDs in one millisecond; return the IDs as encoded bulk strings.

        Args:
            ms: the milliseconds of all IDs.
            seq: the sequence number of the first ID.
            fields: the encoded fields of each entry, each shorter than ``chunk.LARGE`` bytes.
            node_max_bytes: the present stream-node-max-bytes.
            node_max_entries: the present stream-node-max-entries.
        """
        replies: list[bytes] = []
        while fields:
            # Appending the first entry ensures that the last chunk has room, and that the prefix is right.
            replies.append(self.append(ms << 64 | seq, fields[0], node_max_bytes, node_max_entries))
            seq += 1
            chunk = self.tail
            assert chunk is not None
            room = min(self.chunk_entries - len(chunk.heads), self._prefix_end - seq) + 1
            prefix = self._prefix
            following = range(seq, seq + min(len(fields), room) - 1)
            heads = [prefix + b"%d\r\n" % n for n in following]
            number = len(heads)
            entries = list(map(add, heads, fields[1:room]))
            self.extend_tail(chunk, entries, map(len, heads), repeat(ms, number), range(seq, seq + number))
            seq += number
            self.last_id = ms << 64 | seq - 1
            replies += [head[4:] for head in heads]
            fields = fields[room:]
        return replies

    def extend_tail(
        self, chunk: Chunk, entries: list[bytes], heads: Iterable[int], ms: Iterable[int], seq: Iterable[int]
    ) -> None:
        """Add small entries to the last chunk, which has room for them and is not empty; for the columns see ``Chunk``."""
        ends = accumulate(map(len, entries), initial=len(chunk.data))
        next(ends)
        chunk.offsets.extend(ends)
        chunk.data += b"".join(entries)
        chunk.heads.extend(heads)
        chunk.ms.extend(ms)
        chunk.seq.extend(seq)
        self.length += len(entries)
        self.entries_added = min(self.entries_added + len(entries), MAX_COUNT)

    def _grow(self, stream_id: int) -> Chunk:
        """Close the tail and begin a new one."""
        if self.tail is not None:
            self.tail.close()
        self.tail = chunk = Chunk()
        self.chunks.append(chunk)
        self.firsts.append(stream_id)
        if not len(self.chunks) % FAR and self._behind is not None:
            self._behind.add(self)
        if self.cold is not None:
            self.cold.watch(self)
        return chunk

    def _begin_large(self, stream_id: int, entry: bytes) -> Chunk:
        """Create a chunk for one large entry: growing a shared chunk by it would copy that chunk's other entries."""
        chunk = self.tail
        if chunk is None or len(chunk.heads):
            chunk = self._grow(stream_id)
        chunk.data = entry
        chunk.offsets.append(len(entry))
        self.tail = None
        return chunk

    def _remember_prefix(self, ms: int, seq: int) -> None:
        text = b"%d-" % ms
        self._prefix_ms = ms
        self._prefix_base = ms << 64
        if seq < 10:
            digits, self._prefix_start, self._prefix_end = 1, 0, 10
        else:
            digits = len(b"%d" % seq)
            self._prefix_start, self._prefix_end = 10 ** (digits - 1), min(10**digits, MAX_U64 + 1)
        self._prefix = b"*2\r\n$%d\r\n%b" % (len(text) + digits, text)

    def set_last_id(self, last_id: int) -> None:
        """Set the last ID (XSETID). It may be less than the ID of a deleted entry, but not of an existing one."""
        if last_id < self.last_id:
            for group in self.groups.values():
                group.pel.unmark_lost()
        self.last_id = last_id
        self.macro_nodes.go_back(last_id)

    # Reading

    def open(self, index: int) -> Chunk:
        """Return the chunk at an index. A packed chunk is unpacked, and stays so until ``cold`` packs it again.

        Where every instruction counts, callers check the type themselves.
        """
        chunk = self.chunks[index]
        if type(chunk) is not Chunk:
            self.chunks[index] = chunk = Chunk.of(chunk)
            if self.cold is not None:
                self.cold.keep(self, chunk)
        return chunk

    def _read_whole(self, index: int, packed: Packed) -> bytes | bytearray:
        """Return all entries of a packed chunk; it stays packed unless it was read whole recently."""
        cold = self.cold
        if packed.is_quick:
            return self.open(index).data if cold is not None and cold.is_read_again(packed) else packed.data()
        columns = packed.columns()
        self.chunks[index] = packed = pack(columns)
        if cold is not None:
            cold.is_read_again(packed)
        return columns.data

    def contains(self, stream_id: int) -> bool:
        """Return True if there is an entry with that ID."""
        index = bisect_right(self.firsts, stream_id) - 1
        return index >= 0 and self.open(index).find(stream_id) >= 0

    def chunk_of(self, stream_id: int) -> Chunk | None:
        """Return the chunk in which the entry with this ID is, if it exists; None if all entries have greater IDs."""
        index = bisect_right(self.firsts, stream_id) - 1
        if index < 0:
            return None
        chunk = self.chunks[index]
        return chunk if type(chunk) is Chunk else self.open(index)

    def entry(self, stream_id: int) -> bytes | None:
        """Return one encoded entry, None if there is none with that ID."""
        chunk = self.chunk_of(stream_id)
        position = -1 if chunk is None else chunk.find(stream_id)
        return None if chunk is None or position < 0 else chunk.entry(position)

    def range(self, start: int, end: int, count: int | None = None) -> tuple[int, bytes]:
        """Return the number and the encoded bytes of the entries with IDs from ``start`` to ``end``, both inclusive.

        ``count`` is the maximum number of entries; None: no maximum.
        """
        number, parts = self.range_parts(start, end, count)
        return number, b"".join(parts)

    def range_parts(
        self, start: int, end: int, count: int | None = None
    ) -> tuple[int, list[bytes | bytearray]]:
        """Return a ``range`` with its encoded entries in pieces, for callers that join them with other bytes."""
        if start > end or not self.length or count == 0:
            return 0, []
        chunks = self.chunks
        index, position = self._seek(start)
        left = self.length if count is None else count
        open_end = end >= self.last_id
        parts: list[bytes | bytearray] = []
        number = 0
        while index < len(chunks) and left:
            chunk = chunks[index]
            if type(chunk) is not Chunk:
                following = index + 1
                is_whole = open_end or (following < len(chunks) and self.firsts[following] <= end + 1)
                if is_whole and not position and len(chunk) <= left:
                    parts.append(self._read_whole(index, chunk))
                    left -= len(chunk)
                    number += len(chunk)
                    index = following
                    continue
                chunk = self.open(index)
            size = len(chunk.ms)
            stop = size if open_end else chunk.position(end + 1)
            if stop - position > left:
                stop = position + left
            if stop > position:
                offsets = chunk.offsets
                parts.append(chunk.data[offsets[position] : offsets[stop]])
                left -= stop - position
                number += stop - position
            if stop < size:
                break
            index += 1
            position = 0
        return number, parts

    def range_reverse(self, start: int, end: int, count: int | None = None) -> tuple[int, bytes]:
        """Return a ``range`` in descending order; ``start`` is still the smaller ID."""
        if start > end or not self.length or count == 0:
            return 0, b""
        chunks = self.chunks
        index, stop = self._seek(end + 1)
        if index == len(chunks) or not stop:
            index -= 1
            stop = len(chunks[index]) if index >= 0 else 0
        left = self.length if count is None else count
        open_start = start <= self.first_id
        parts: list[bytes | bytearray] = []
        number = 0
        while index >= 0 and left:
            chunk = self.open(index)
            begin = 0 if open_start else chunk.position(start)
            lowest = max(begin, stop - left)
            if stop > lowest:
                data = chunk.data
                borders = chunk.offsets[lowest : stop + 1]
                borders.reverse()
                parts += [data[a:b] for b, a in pairwise(borders)]
                left -= stop - lowest
                number += stop - lowest
            if begin:
                break
            index -= 1
            stop = len(chunks[index]) if index >= 0 else 0
        return number, b"".join(parts)

    def entries_after(
        self, stream_id: int, count: int | None = None
    ) -> tuple[list[ChunkRun], list[bytes | bytearray], int]:
        """Return the entries with greater IDs, for delivery.

        Return their positions in pieces (``chunk.ids_in`` and ``chunk.texts_in`` return their IDs), the encoded
        entries of each piece, for the caller to join, and the last ID (``stream_id`` if there are no entries).
        """
        if stream_id >= self.last_id or not self.length or count == 0:
            return [], [], stream_id
        reached, index, position = self._cursor
        if reached != stream_id:
            index, position = self._seek(stream_id + 1)
        chunks = self.chunks
        left = self.length if count is None else count
        are_many = left > _MANY
        pieces: list[ChunkRun] = []
        parts: list[bytes | bytearray] = []
        last = stream_id
        while index < len(chunks):
            chunk = chunks[index]
            if type(chunk) is not Chunk:
                chunk = Chunk.of(chunk) if are_many else self.open(index)
            stop = len(chunk.ms)
            if stop - position > left:
                stop = position + left
            if stop > position:
                offsets = chunk.offsets
                parts.append(chunk.data[offsets[position] : offsets[stop]])
                last = chunk.ms[stop - 1] << 64 | chunk.seq[stop - 1]
                left -= stop - position
                pieces.append((chunk, position, stop))
                if not left:
                    self._cursor = (last, index, stop)
                    return pieces, parts, last
            index += 1
            position = 0
        # The next entry will be appended to the last chunk, or start a new chunk.
        self._cursor = (last, len(chunks) - 1, stop if pieces else len(chunks[-1]))
        return pieces, parts, last

    @property
    def last_entry_id(self) -> int:
        """The greatest ID of an existing entry, 0 if there is none (``last_id`` also covers deleted entries)."""
        return self.open(-1).id_at(-1) if self.chunks else 0

    def _seek(self, stream_id: int) -> tuple[int, int]:
        """Return chunk index and position of the first entry with this or a greater ID; (number of chunks, 0) if none."""
        index = bisect_right(self.firsts, stream_id) - 1
        if index < 0:
            return 0, 0
        chunk = self.chunks[index]
        if type(chunk) is not Chunk:
            chunk = self.open(index)
        position = chunk.position(stream_id)
        return (index, position) if position < len(chunk.ms) else (index + 1, 0)

    # Removing

    def delete(self, stream_id: int) -> bool:
        """Remove one entry and update ``max_deleted_id``; return False if there is no such entry."""
        if not self.remove(stream_id):
            return False
        self.max_deleted_id = max(self.max_deleted_id, stream_id)
        return True

    def remove(self, stream_id: int) -> bool:
        """Remove one entry as trimming does, without updating ``max_deleted_id``; return False if there is no such entry."""
        index = bisect_right(self.firsts, stream_id) - 1
        if index < 0:
            return False
        chunk = self.open(index)
        position = chunk.find(stream_id)
        if position < 0:
            return False
        self.macro_nodes.account_until(stream_id)
        self.macro_nodes.remove(stream_id)
        chunk.cut(position, position + 1)
        if not len(chunk):
            self._drop_chunks(index, index + 1)
        self._cursor = (-1, 0, 0)
        self.length -= 1
        if stream_id == self.first_id:
            self._find_first()
        return True

    def remove_all(self, ids: list[int]) -> None:
        """Remove several existing entries, in ascending order, like ``remove``; each chunk is rewritten once."""
        firsts, nodes = self.firsts, self.macro_nodes
        at = 0
        while at < len(ids):
            index = bisect_right(firsts, ids[at]) - 1
            stop = bisect_left(ids, firsts[index + 1], at) if index + 1 < len(firsts) else len(ids)
            some = set(ids[at:stop])
            chunk = self.open(index)
            for stream_id in ids[at:stop]:
                nodes.account_until(stream_id)
                nodes.remove(stream_id)
            chunk.keep([number not in some for number in ids_in([(chunk, 0, len(chunk))])])
            if not len(chunk):
                self._drop_chunks(index, index + 1)
            self._cursor = (-1, 0, 0)
            self.length -= stop - at
            at = stop
        self._find_first()

    def rank(self, stream_id: int) -> int:
        """Return the number of entries with smaller IDs."""
        index, position = self._seek(stream_id)
        return sum(map(len, self.chunks[:index])) + position

    def cut_left(self, number: int) -> None:
        """Remove the oldest ``number`` entries, at least one; the caller has already removed them from the macro nodes."""
        chunks = self.chunks
        left = number
        whole = 0
        for chunk in chunks:
            size = len(chunk)
            if left < size:
                break
            left -= size
            whole += 1
        self._drop_chunks(0, whole)
        if left:
            self.open(0).cut(0, left)
        self._cursor = (-1, 0, 0)
        self.length -= number
        self._find_first()

    def _drop_chunks(self, start: int, stop: int) -> None:
        if stop == len(self.chunks):
            self.tail = None
        if self._discard is not None and stop - start > FAR:
            self._discard(self.chunks[start:stop], 0)
        del self.chunks[start:stop]
        del self.firsts[start:stop]
        if not self.chunks:
            self.packed_to = 0  # XSETID may go back

    def _find_first(self) -> None:
        chunk = self.open(0) if self.chunks else None
        self.first_id = 0 if chunk is None else chunk.ms[0] << 64 | chunk.seq[0]

    # Copying

    def copy(self) -> Stream:
        """Return an independent stream with the same entries, groups and pending entries (COPY)."""
        twin = Stream()
        twin.length, twin.entries_added = self.length, self.entries_added
        twin.first_id, twin.last_id, twin.max_deleted_id = self.first_id, self.last_id, self.max_deleted_id
        twin.groups = {name: group.copy() for name, group in self.groups.items()}
        twin.idempotency = None if self.idempotency is None else self.idempotency.copy()
        twin.chunks = list(map(copy_of, self.chunks))
        twin.firsts = self.firsts.copy()
        twin.tail = None if self.tail is None else twin.open(-1)
        twin.macro_nodes = self.macro_nodes.copy(twin.chunks, twin.firsts)
        twin.packed_to = self.packed_to
        return twin
