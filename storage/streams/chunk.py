r"""A run of about 128 stream entries, stored as the bytes that replies contain.

One entry is ``*2\r\n$<n>\r\n<id>\r\n*<2k>\r\n$…``: the same in RESP2 and RESP3, and its field part is the same as
in an XADD record of the AOF. Beside the bytes there are columns for searching and cutting.

A stream keeps an old chunk packed (``chunk_codec.Packed``), and ``Stream.open`` replaces it by the ``Chunk``. Pending
entries keep a column as a hint, never a chunk. If a chunk is packed while a command still holds it, the command continues to
read from the unpacked object.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, compress, pairwise
from typing import Final, TypeAlias, final

from .chunk_codec import NOT_WORTH_WHILE, Columns, Packed, pack
from .ids import MAX_U64

MAX_ENTRIES: Final = 128
# Cutting an entry out copies its chunk; big entries therefore share a chunk with fewer others.
MAX_BYTES: Final = 64 << 10
# An entry with fields of this many bytes or more has its own chunk.
LARGE: Final = 4 << 10
_NUMBERS: Final = 8 + 8 + 4 + 1  # bytes an entry takes in the columns
_OBJECTS: Final = 400  # bytes of a chunk's own objects
# A chunk of a stream: with its columns, or packed.
AnyChunk: TypeAlias = "Chunk | Packed"
# Adjacent entries: their chunk, the position of the first, and the position after the last.
ChunkRun: TypeAlias = "tuple[Chunk, int, int]"


class DamagedError(Exception):
    """A chunk that kept its form in a file does not decode to entries."""


@final
class Chunk:
    r"""Entries in ID order; never empty once it belongs to a stream, except while it is being cut."""

    __slots__ = ("__weakref__", "data", "heads", "ms", "offsets", "packed", "seq")

    def __init__(self) -> None:
        # The packed form of a closed chunk: None if there is none or it is outdated, empty if packing is not worth
        # while.
        self.packed: Packed | None = None
        # The encoded entries, one after the other. It is a ``bytearray`` while the chunk grows. Once another chunk
        # follows, it is ``bytes``, whose slices are copied only once.
        self.data: bytearray | bytes = bytearray()
        # The two halves of each ID. Entries are added in place; a removal creates new columns, because pending
        # entries find their place by the column (see ``groups.pending``). A number of ``seq`` may take fewer than
        # eight bytes once the chunk was considered for packing.
        self.ms = array("Q")
        self.seq = array("Q")
        # Where each entry begins in ``data``, and one more item, the length of ``data``. Bytes of trimmed entries may
        # precede the first entry.
        self.offsets = array("I", (0,))
        # The length of each entry's part before its fields (``*2\r\n$3\r\n1-0\r\n``: 14).
        self.heads = bytearray()

    @classmethod
    def of(cls, packed: Packed) -> Chunk:
        """Return a chunk with the columns of a packed one."""
        chunk = cls.__new__(cls)
        chunk.data, chunk.ms, chunk.seq, chunk.offsets, chunk.heads = packed.columns()
        chunk.packed = packed
        return chunk

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def payload_bytes(self) -> int:
        """The bytes of the chunk's encoded entries."""
        return self.offsets[-1] - self.offsets[0]

    @property
    def memory(self) -> int:
        """Approximate memory of the chunk in bytes."""
        packed = self.packed.memory if self.packed else 0
        return len(self.data) + _NUMBERS * len(self.ms) + _OBJECTS + packed

    def id_at(self, position: int) -> int:
        """Return the ID of the entry at a position (negative: from the end)."""
        return self.ms[position] << 64 | self.seq[position]

    def position(self, stream_id: int) -> int:
        """Return the position of the first entry whose ID is ``stream_id`` or greater; the length if there is none."""
        ms = self.ms
        half = stream_id >> 64
        low = bisect_left(ms, half)
        if low == len(ms) or ms[low] != half:
            return low
        seq = stream_id & MAX_U64
        if self.seq[low] >= seq:
            return low
        return bisect_left(self.seq, seq, low, bisect_right(ms, half, low))

    def find(self, stream_id: int) -> int:
        """Return the position of an entry, -1 if it is not here."""
        position = self.position(stream_id)
        if position < len(self.ms) and self.id_at(position) == stream_id:
            return position
        return -1

    def entry(self, position: int) -> bytes:
        """Return one encoded entry."""
        offsets = self.offsets
        return bytes(self.data[offsets[position] : offsets[position + 1]])

    def texts(self, start: int, stop: int, raw: bytes | None = None) -> list[bytes]:
        """Return the ID texts of the entries from position ``start`` up to but not including ``stop``.

        ``raw`` are the bytes of these entries, if the caller has them.
        """
        heads = self.heads
        base = self.offsets[start]
        if raw is None:
            raw = bytes(self.data[base : self.offsets[stop]])
        head = heads[start]
        if stop - start == 1:  # as below; without it an XREADGROUP of one takes 6.2 instead of 5.4 us
            return [raw[9 if head > 20 else 8 : head - 2]]
        # Before the ID stand "*2\r\n$15\r\n", one byte less if it is shorter than ten.
        base8, base2 = base - 8, base + 2
        return [
            raw[offset - base8 + (head > 20) : offset - base2 + head]
            for offset, head in zip(self.offsets[start:stop], heads[start:stop], strict=True)
        ]

    def close(self) -> None:
        """Close the chunk to new entries and release its spare memory, except in columns that others share."""
        self.data = bytes(self.data)
        self.offsets = self.offsets[:]
        self.heads = self.heads[:]

    def cut(self, start: int, stop: int) -> None:
        """Remove the entries from position ``start`` up to but not including ``stop``.

        The old columns stay unchanged, because pending entries may hold them.
        """
        offsets = self.offsets
        data = self.data
        begin, end = offsets[start], offsets[stop]
        gap = end - begin
        if not start:
            # Queues remove entries here: leave the bytes in place until the removed ones are the larger part.
            gap = end if 2 * end > len(data) else 0
            begin = 0
        if gap:
            data = data[:begin] + data[end:]
            offsets = offsets[:start] + array("I", [offset - gap for offset in offsets[stop:]])
        else:
            offsets = offsets[stop:]
        ms = self.ms[:start] + self.ms[stop:]
        seq = self.seq[:start] + self.seq[stop:]
        heads = self.heads[:start] + self.heads[stop:]
        # Assign all new columns, or none if memory runs out for one of them.
        self.data, self.offsets, self.ms, self.seq, self.heads = data, offsets, ms, seq, heads
        if self.packed:
            self.packed = None

    def keep(self, wanted: list[bool]) -> None:
        """Keep only the entries whose item in ``wanted`` is True; one pass instead of several calls of ``cut``."""
        offsets, ms, seq, heads = self.offsets, self.ms, self.seq, self.heads
        items = [self.data[begin:end] for begin, end in compress(pairwise(offsets), wanted)]
        data = self.data[:0].join(items)
        ends = array("I", accumulate(map(len, items), initial=0))
        ms, seq = array(ms.typecode, compress(ms, wanted)), array(seq.typecode, compress(seq, wanted))
        heads = type(heads)(compress(heads, wanted))
        self.data, self.offsets, self.ms, self.seq, self.heads = data, ends, ms, seq, heads
        if self.packed:
            self.packed = None

    def even_out(self) -> None:
        """Drop an incomplete last entry, which is not in all columns because its addition was interrupted."""
        number = min(len(self.ms), len(self.seq), len(self.heads), len(self.offsets) - 1)
        self.ms, self.seq, self.heads = self.ms[:number], self.seq[:number], self.heads[:number]
        self.offsets = self.offsets[: number + 1]
        self.data = bytes(self.data[: self.offsets[number]])

    def pack(self, worth_while: float) -> Packed | None:
        """Return the packed form of a closed chunk, None if it is not much smaller.

        ``worth_while``: maximum size of the packed form, as a fraction of the chunk's bytes.
        """
        if self.packed is None or not self.packed.is_quick:
            assert type(self.data) is bytes
            packed = pack(Columns(self.data, self.ms, self.seq, self.offsets, self.heads))
            full = self.payload_bytes + _NUMBERS * len(self.ms) + _OBJECTS
            self.packed = packed if packed.memory < full * worth_while else NOT_WORTH_WHILE
        return self.packed or None

    def copy(self) -> AnyChunk:
        """Return an independent copy. A closed chunk returns its packed form, or shares its columns, which never change."""
        if self.packed:
            return self.packed
        twin = Chunk.__new__(Chunk)
        twin.packed = self.packed
        twin.data = self.data
        twin.ms = self.ms
        twin.seq = self.seq
        twin.offsets = self.offsets
        twin.heads = self.heads
        if type(self.data) is bytearray:
            twin.data = bytearray(self.data)
            twin.ms = self.ms[:]
            twin.seq = self.seq[:]
            twin.offsets = self.offsets[:]
            twin.heads = self.heads[:]
        return twin


def opened(chunk: AnyChunk) -> Chunk:
    """Return an unpacked chunk for one read; for a packed chunk it is a copy, which the stream does not keep."""
    return chunk if type(chunk) is Chunk else Chunk.of(chunk)


def copy_of(chunk: AnyChunk) -> AnyChunk:
    """Return an independent copy; a packed chunk is immutable, so it is shared."""
    return chunk.copy() if type(chunk) is Chunk else chunk


def packed_form(chunk: AnyChunk) -> Packed | None:
    """Return the packed form that a chunk already has, if it is up to date; else None."""
    return chunk.packed if type(chunk) is Chunk else chunk


def estimate(chunks: list[AnyChunk], samples: int, size_of: Callable[[AnyChunk], int]) -> int:
    """Estimate the sum of ``size_of(chunk)`` over the chunks from about ``samples`` of them (0: all)."""
    some = chunks[:: -(-len(chunks) // samples)] if chunks and samples else chunks
    return sum(map(size_of, some)) * len(chunks) // len(some) if some else 0


def length_of(pieces: list[ChunkRun]) -> int:
    """Return the number of entries in some pieces of chunks."""
    return sum([stop - start for _, start, stop in pieces])


def ids_in(pieces: list[ChunkRun]) -> Iterator[int]:
    """Yield the IDs of the entries in some pieces of chunks, as integers."""
    for chunk, start, stop in pieces:
        for ms, seq in zip(chunk.ms[start:stop], chunk.seq[start:stop], strict=True):
            yield ms << 64 | seq


def texts_in(pieces: list[ChunkRun], parts: list[bytes | bytearray]) -> list[bytes]:
    """Return the ID texts of the entries in some pieces of chunks.

    ``parts`` are each piece's encoded entries.
    """
    if len(pieces) == 1:
        chunk, start, stop = pieces[0]
        return chunk.texts(start, stop, bytes(parts[0]))
    words: list[bytes] = []
    for (chunk, start, stop), part in zip(pieces, parts, strict=True):
        words += chunk.texts(start, stop, bytes(part))
    return words
