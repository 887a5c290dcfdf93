r"""A run of about 128 stream entries, kept as the bytes in which they will be sent.

One entry is ``*2\r\n$<n>\r\n<id>\r\n*<2k>\r\n$…``: the same in RESP2 and RESP3, and its field part is the same as
in an XADD record of the AOF. Beside the bytes stand three columns for searching and cutting.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from .stream_id import MAX_U64

MAX_ENTRIES: Final = 128
# Cutting an entry out copies its chunk; big entries therefore share a chunk with fewer others.
MAX_BYTES: Final = 64 << 10


class Chunk:
    r"""Entries in ID order; never empty once it belongs to a stream, except while it is being cut.

    Attributes:
        data: the encoded entries, one after the other. A ``bytearray`` while the chunk grows; ``bytes``, of which
            slices are copied only once, as soon as another chunk follows.
        ms, seq: the two halves of each ID.
        offsets: where each entry begins in ``data``, and at the end the length of ``data`` (one item more). Before
            the first entry there may be bytes of entries that were trimmed away.
        heads: how long the part before the fields is (``*2\r\n$3\r\n1-0\r\n``: 14).
    """

    __slots__ = ("data", "heads", "ms", "offsets", "seq")

    def __init__(self) -> None:
        self.data: bytearray | bytes = bytearray()
        self.ms = array("Q")
        self.seq = array("Q")
        self.offsets = array("I", (0,))
        self.heads = bytearray()

    def __len__(self) -> int:
        return len(self.ms)

    def id_at(self, position: int) -> int:
        """The ID of the entry at a position (negative: from the end)."""
        return self.ms[position] << 64 | self.seq[position]

    def position(self, stream_id: int) -> int:
        """The position of the first entry whose ID is not smaller; the length if there is none."""
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
        """The position of an entry, -1 if it is not here."""
        position = self.position(stream_id)
        if position < len(self.ms) and self.id_at(position) == stream_id:
            return position
        return -1

    def entry(self, position: int) -> bytes:
        """One encoded entry."""
        offsets = self.offsets
        return bytes(self.data[offsets[position] : offsets[position + 1]])

    def text_and_entry(self, position: int) -> tuple[bytes, bytes]:
        """The ID text of one entry, and the entry encoded."""
        offsets = self.offsets
        raw = bytes(self.data[offsets[position] : offsets[position + 1]])
        head = self.heads[position]
        return raw[9 if head > 20 else 8 : head - 2], raw

    def texts(self, start: int, stop: int, raw: bytes) -> list[bytes]:
        """The ID texts of the entries from start to stop, cut out of ``raw``, which is exactly their bytes."""
        heads = self.heads
        base = self.offsets[start]
        # Before the ID stand "*2\r\n$15\r\n", one byte less if it is shorter than ten.
        base9, base8, base2 = base - 9, base - 8, base + 2
        head = heads[start]
        # IDs as long as each other, the usual case.
        if head > 20 and heads.count(head, start, stop) == stop - start:
            base2 -= head
            return [raw[offset - base9 : offset - base2] for offset in self.offsets[start:stop]]
        return [
            raw[offset - base9 : offset - base2 + head]
            if head > 20
            else raw[offset - base8 : offset - base2 + head]
            for offset, head in zip(self.offsets[start:stop], heads[start:stop], strict=True)
        ]

    def close(self) -> None:
        """No more entries will come: keep exactly the memory they need."""
        self.data = bytes(self.data)
        self.ms = self.ms[:]
        self.seq = self.seq[:]
        self.offsets = self.offsets[:]
        self.heads = self.heads[:]

    def cut(self, start: int, stop: int) -> None:
        """Take the entries from start to stop out; what was there before is left untouched for those who hold it."""
        offsets = self.offsets
        data = self.data
        begin, end = offsets[start], offsets[stop]
        gap = end - begin
        if not start:
            # Queues are eaten from here: leave the bytes where they are until they are the larger part.
            gap = end if 2 * end > len(data) else 0
            begin = 0
        if gap:
            self.data = data[:begin] + data[end:]
            self.offsets = offsets[:start] + array("I", [offset - gap for offset in offsets[stop:]])
        else:
            self.offsets = offsets[stop:]
        self.ms = self.ms[:start] + self.ms[stop:]
        self.seq = self.seq[:start] + self.seq[stop:]
        self.heads = self.heads[:start] + self.heads[stop:]

    def copy(self) -> Chunk:
        """An independent chunk; a closed one shares its columns, which are never changed in place."""
        twin = Chunk.__new__(Chunk)
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
