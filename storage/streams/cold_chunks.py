"""Old chunks of streams that are not read are kept packed, which cuts the memory of a large stream several times.

A chunk is packed in the background, some seconds after its last entry came, unless it is among the newest of its
stream. Reading a packed chunk unpacks it (``ColdChunk``). It then stays as it is for a while, on a *shelf*: when other
chunks need the place there, those that came first go back to their packed form, which was kept. One from which
entries were deleted meanwhile is packed again, in the background.
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

    from .chunk import Chunk
    from .stream import Stream

SHELF_BYTES: Final = 8 << 20
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
        round: seconds; chunks are packed one to two rounds after their last entry came.
        worth_while: a packed chunk may keep this part of its bytes; otherwise it stays as it is.
        on_freed: called when memory was freed that the system should have back; None: no call.
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
        "round",
        "worth_while",
    )

    def __init__(self, limit: int = SHELF_BYTES) -> None:
        self.depth = 0
        self.limit = limit
        self.round = 15.0
        self.worth_while = 0.75
        self.on_freed: Callable[[], None] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all streams and chunks."""
        self._freed = 0  # bytes
        # Streams with chunks to pack go from one to the next in each round: a chunk that was complete one round ago
        # is old enough. The values are their last IDs at the first of the two rounds.
        self._grown: WeakSet[Stream] = WeakSet()
        self._young: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()
        self._ripe: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()
        self._next_round = 0.0
        # Unpacked by a reader, the first one first, with the bytes they are counted as.
        self._shelf: deque[tuple[Chunk, int]] = deque()
        self._shelf_bytes = 0
        # Read whole while they stayed packed, the first one first: one pass through a stream should not fill the
        # shelf, but what is read again and again belongs there.
        self._met: dict[Chunk, None] = {}
        # Left the shelf with fewer entries than they were packed with.
        self._again: deque[Chunk] = deque()

    def adopt(self, stream: Stream) -> None:
        """Pack old chunks of a stream from now on, and keep those that are read."""
        if stream.cold is not self:
            stream.cold = self
            for chunk in stream.chunks:
                chunk.cold = self
            self.watch(stream)

    def watch(self, stream: Stream) -> None:
        """A stream has a new chunk, or is new itself."""
        if self.depth:
            self._grown.add(stream)

    def look(self, now: float) -> bool:
        """Whether there is something to do for ``step``; to be called now and then with the time in seconds."""
        if (self._grown or self._young) and now >= self._next_round:
            self._next_round = now + self.round
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
            if not self.pack_next(stream, self._ripe[stream]):
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

    def pack_next(self, stream: Stream, border: int) -> bool:
        """Pack the next chunk of a stream, or do what has to be done before.

        Returns:
            False if there is none up to the ID ``border``.
        """
        chunks, firsts = stream.chunks, stream.firsts
        index = bisect_left(firsts, stream.packed_to)
        if index + self.depth >= len(chunks) or firsts[index + 1] > border:
            return False
        if stream.macro_nodes.settle_to(index):
            return True  # otherwise it would have to be unpacked for that later
        chunk = chunks[index]
        if type(chunk) is not ColdChunk:
            ms = chunk.ms
            chunk.ms, chunk.seq = others = ms[:], narrowed(chunk.seq)
            # Groups have no pending cleanup here: background jobs finish before anything is packed.
            for group in stream.groups.values():
                group.pel.share(ms, others)
            self.pack(chunk)
        stream.packed_to = firsts[index + 1]
        return True

    def pack(self, chunk: Chunk) -> None:
        """Pack a closed chunk that is accounted for, if that saves enough."""
        before = chunk.size
        chunk.cold = self
        if before <= _MOST_BYTES and chunk.pack(self.worth_while):
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
                first.pack(self.worth_while)
            elif first.packed is None:
                self._again.append(first)

    def check_invariants(self) -> None:
        """Assert that the shelf is counted and bounded; for tests."""
        sizes = [size for _, size in self._shelf]
        assert self._shelf_bytes == sum(sizes)
        assert self._shelf_bytes <= self.limit or len(sizes) == 1
        assert len(self._met) <= _MET
