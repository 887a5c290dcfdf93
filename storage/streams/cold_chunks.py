"""Which chunks of streams are kept packed: old ones that nobody reads. A big stream takes a fraction of its memory so.

A chunk is packed in the background, some seconds after its last entry came, unless it is among the newest of its
stream. Reading a packed chunk unpacks it (``ColdChunk``). It then stays as it is for a while, on a *shelf*: when other
chunks need the place there, those that came first go back to their packed form, which was kept. One from which
entries were deleted meanwhile is packed anew, in the background again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakSet

from .chunk import MAX_BYTES, ColdChunk
from .chunk_codec import narrowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..groups.group import Group
    from .chunk import Chunk
    from .macro_nodes import Nodes

SHELF_BYTES: Final = 8 << 20
_ROUND: Final = 15.0  # seconds
_MET: Final = 256  # chunks
_MOST_BYTES: Final = 4 * MAX_BYTES  # of a chunk; more would take milliseconds
_MUCH_FREED: Final = 8 << 20  # giving more back at once would take many milliseconds
_SOME_FREED: Final = 1 << 20


class Cold:
    """The packing of one keyspace.

    Attributes:
        depth: how many of the newest chunks of each stream are never packed; 0: nothing is, and what is packed stays
            so until it is read.
        limit: bytes that the shelf may hold.
        on_freed: called when memory was freed that the system should have back; None: nobody cares.
    """

    __slots__ = (
        "_again",
        "_freed",
        "_grown",
        "_met",
        "_next_round",
        "_ripe",
        "_shelf",
        "_shelf_bytes",
        "_young",
        "depth",
        "limit",
        "on_freed",
    )

    def __init__(self, limit: int = SHELF_BYTES) -> None:
        self.depth = 0
        self.limit = limit
        self.on_freed: Callable[[], None] | None = None
        self._freed = 0  # bytes
        # Streams with chunks to pack go from one to the next in each round: a chunk that was complete one round ago
        # is old enough. The values are their last IDs at the first of the two rounds.
        self._grown: WeakSet[Packing] = WeakSet()
        self._young: WeakKeyDictionary[Packing, int] = WeakKeyDictionary()
        self._ripe: WeakKeyDictionary[Packing, int] = WeakKeyDictionary()
        self._next_round = 0.0
        # Unpacked by a reader, the first one first, with the bytes they are counted as.
        self._shelf: deque[tuple[Chunk, int]] = deque()
        self._shelf_bytes = 0
        # Read whole while they stayed packed, the first one first: who goes through a stream once should not fill the
        # shelf, but what is read again and again belongs there.
        self._met: dict[Chunk, None] = {}
        # Left the shelf with fewer entries than they were packed with.
        self._again: deque[Chunk] = deque()

    def watch(self, stream: Packing) -> None:
        """A stream has a new chunk, or is new itself."""
        if self.depth:
            self._grown.add(stream)

    def look(self, now: float) -> bool:
        """Whether there is something to do for ``step``; to be called now and then with the time in seconds."""
        if (self._grown or self._young) and now >= self._next_round:
            self._next_round = now + _ROUND
            self._ripe.update(self._young)
            self._young = WeakKeyDictionary({stream: stream.last_id for stream in self._grown})
            self._grown.clear()
        return bool(self._ripe or self._again)

    def step(self) -> bool:
        """Pack one chunk; False when nothing is left."""
        if self._freed >= _MUCH_FREED:
            self._give_back()
            return True
        if not self.depth:
            self._ripe.clear()
            self._again.clear()
        stream = next(iter(self._ripe), None)
        if stream is not None:
            if not stream.pack_next(self._ripe[stream], self):
                del self._ripe[stream]
            return True
        if self._again:
            chunk = self._again.popleft()
            if len(chunk):
                self.pack(chunk)
            return True
        if self._freed >= _SOME_FREED:
            self._give_back()
        return False

    def pack(self, chunk: Chunk) -> None:
        """Pack a closed chunk that is accounted for, if that saves enough."""
        before = chunk.size
        chunk.cold = self
        if before <= _MOST_BYTES and chunk.pack():
            self._freed += before - chunk.size

    def _give_back(self) -> None:
        self._freed = 0
        if self.on_freed is not None:
            self.on_freed()

    def meets_again(self, chunk: Chunk) -> bool:
        """A packed chunk is being read; whether it was not long ago, too."""
        met = self._met
        if chunk in met:
            del met[chunk]
            return True
        met[chunk] = None
        if len(met) > _MET:
            del met[next(iter(met))]
        return False

    def keep(self, chunk: Chunk) -> None:
        """A chunk was unpacked by a reader."""
        if not self.depth:
            chunk.packed = None
            return
        size = chunk.size
        self._shelf.append((chunk, size))
        self._shelf_bytes += size
        while self._shelf_bytes > self.limit and len(self._shelf) > 1:
            first, size = self._shelf.popleft()
            self._shelf_bytes -= size
            if first.packed:
                first.pack()
            elif first.packed is None:
                self._again.append(first)


class Packing:
    """The part of ``Stream`` that packs its chunks."""

    __slots__ = ("_cold", "_packed_to")

    groups: dict[bytes, Group]
    last_id: int
    _chunks: list[Chunk]
    _firsts: list[int]
    _nodes: Nodes

    def __init__(self) -> None:
        self._cold: Cold | None = None
        self._packed_to = 0  # chunks that begin before this ID have had their turn

    def chill(self, cold: Cold) -> None:
        """Let old chunks be packed from now on, and tell who packs of those that are read."""
        if self._cold is not cold:
            self._cold = cold
            for chunk in self._chunks:
                chunk.cold = cold
            cold.watch(self)

    def pack_next(self, border: int, cold: Cold) -> bool:
        """Pack the next chunk, or do what has to be done before; False if there is none up to the ID ``border``."""
        chunks, firsts = self._chunks, self._firsts
        index = bisect_left(firsts, self._packed_to)
        if index + cold.depth >= len(chunks) or firsts[index + 1] > border:
            return False
        if self._nodes.pending(chunks) >= len(chunks) - index:
            # It would have to be unpacked for that later.
            self._nodes.settle_chunk(chunks)
            return True
        self._pack_one(chunks[index], cold)
        self._packed_to = firsts[index + 1]
        return True

    def _pack_one(self, chunk: Chunk, cold: Cold) -> None:
        if type(chunk) is ColdChunk:
            return
        ms = chunk.ms
        chunk.ms, chunk.seq = others = ms[:], narrowed(chunk.seq)
        # Groups have no pending cleanup here: background jobs finish before anything is packed.
        for group in self.groups.values():
            group.pel.share(ms, others)
        cold.pack(chunk)
