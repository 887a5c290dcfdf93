"""Keep old, unread chunks of streams packed, which reduces the memory of a large stream several times.

The background packs a chunk some seconds after its last entry was added, unless the chunk is among the newest of its
stream. Reading a packed chunk unpacks it (``Stream.open``). It then stays unpacked for a while: when the unpacked chunks
take more than a limit, the ones unpacked first return to their packed form, which was kept. If entries of a chunk were
deleted meanwhile, the background repacks it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary, WeakSet, ref

from .chunk import MAX_BYTES, Chunk
from .chunk_codec import Packed, narrowed
from .stream import Stream

# Weak references to a stream and one of its chunks.
Place: TypeAlias = tuple[ref[Stream], ref[Chunk]]

UNPACKED_BYTES: Final = 8 << 20
_MOST_READ_ONCE: Final = 256  # chunks
_MOST_BYTES: Final = 4 * MAX_BYTES  # largest chunk to pack; a larger one would take milliseconds
_MUCH_FREED: Final = 8 << 20  # returning more to the system at once would take many milliseconds
_SOME_FREED: Final = 1 << 20


class ChunkCache:
    """Packs the old chunks of one keyspace's streams; limits the memory of the chunks that reads have unpacked."""

    def __init__(self, limit: int = UNPACKED_BYTES) -> None:
        # How many of the newest chunks of each stream are never packed; 0 packs none, and a packed chunk stays packed
        # until it is read.
        self.depth = 0
        self.limit = limit  # maximum bytes of chunks unpacked by readers
        self.round = 15.0  # seconds; a chunk is packed one to two rounds after its last entry was added
        # Maximum size of the packed form, as a fraction of the chunk's; a larger one is discarded.
        self.worth_while = 0.75
        # Called when freed memory should return to the system; None for no call.
        self.on_freed: Callable[[], None] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all streams and chunks, after the keyspace has lost them."""
        self._freed = 0  # bytes
        # In each round, streams with chunks to pack move from one collection to the next: a chunk that was complete one
        # round ago is old enough. The values are the streams' last IDs at the first of the two rounds.
        self._grown: WeakSet[Stream] = WeakSet()
        self._young: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()
        self._ripe: WeakKeyDictionary[Stream, int] = WeakKeyDictionary()
        self._next_round = 0.0
        # Chunks unpacked by readers, oldest first, each with the bytes that it counts for.
        self._unpacked: deque[tuple[Place, int]] = deque()
        self._unpacked_bytes = 0
        # Chunks read whole while packed, oldest first. One pass through a stream should unpack nothing, but chunks
        # that are read often should stay unpacked.
        self._read_once: dict[Packed, None] = {}
        # Chunks to pack again: they no longer need to stay unpacked, and have lost entries since they were packed.
        self._again: deque[Place] = deque()

    def adopt(self, stream: Stream) -> None:
        """Begin to pack the old chunks of a stream, and to count those that readers unpack."""
        if stream.cold is not self:
            stream.cold = self
            self.watch(stream)

    def watch(self, stream: Stream) -> None:
        """Register a stream with a new chunk, or a new stream, so that the next rounds look for chunks to pack."""
        if self.depth:
            self._grown.add(stream)

    @property
    def has_young(self) -> bool:
        """Whether chunks are waiting to become old enough to pack, so that ``begin_round`` must be called again."""
        return bool(self._grown or self._young or self._ripe or self._again)

    def begin_round(self, now: float) -> bool:
        """Look for old chunks again if ``round`` seconds have passed; return True if ``step`` has work.

        ``now``: the time in seconds.
        """
        if (self._grown or self._young) and now >= self._next_round:
            self._next_round = now + self.round
            self._ripe.update(self._young)
            self._young = WeakKeyDictionary({stream: stream.last_id for stream in self._grown})
            self._grown.clear()
        return bool(self._ripe or self._again)

    def step(self) -> bool:
        """Pack one chunk, or do a step that must precede this; return False when nothing is left to do."""
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
            found = _find(self._again.popleft())
            if found is not None:
                self.pack(*found[:2])
            return True
        if self._freed >= _SOME_FREED:
            self._give_back()
        return False

    def pack_next(self, stream: Stream, border: int) -> bool:
        """Pack the next chunk of a stream, or do a step that must precede this.

        Return False if no chunk up to the ID ``border`` is left.
        """
        chunks, firsts = stream.chunks, stream.firsts
        index = bisect_left(firsts, stream.packed_to)
        if index + self.depth >= len(chunks) or firsts[index + 1] > border:
            return False
        if stream.macro_nodes.account_towards(index):
            return True  # accounting for a packed chunk later would unpack it
        chunk = chunks[index]
        if type(chunk) is Chunk:
            chunk.ms, chunk.seq = chunk.ms[:], narrowed(chunk.seq)
            self.pack(stream, index)
        stream.packed_to = firsts[index + 1]
        return True

    def pack(self, stream: Stream, index: int) -> None:
        """Replace a closed chunk by its packed form if that saves enough (``worth_while``).

        The macro nodes of its entries must be known.
        """
        chunk = stream.chunks[index]
        if type(chunk) is not Chunk or (before := chunk.memory) > _MOST_BYTES:
            return
        packed = chunk.pack(self.worth_while)
        if packed is not None:
            stream.chunks[index] = packed
            self._freed += before - packed.memory

    def _give_back(self) -> None:
        self._freed = 0
        if self.on_freed is not None:
            self.on_freed()

    def is_read_again(self, packed: Packed) -> bool:
        """Record a whole read of a packed chunk; return True if it follows another recent one, which is then forgotten."""
        read_once = self._read_once
        if packed in read_once:
            del read_once[packed]
            return True
        read_once[packed] = None
        if len(read_once) > _MOST_READ_ONCE:
            del read_once[next(iter(read_once))]
        return False

    def keep(self, stream: Stream, chunk: Chunk) -> None:
        """Leave a chunk that a reader unpacked unpacked for now.

        Above ``limit`` bytes, the oldest of them return to their packed form.
        """
        if not self.depth:
            chunk.packed = None
            return
        size = chunk.memory
        self._unpacked.append(((ref(stream), ref(chunk)), size))
        self._unpacked_bytes += size
        while self._unpacked_bytes > self.limit and len(self._unpacked) > 1:
            place, size = self._unpacked.popleft()
            self._unpacked_bytes -= size
            found = _find(place)
            if found is None:
                continue
            owner, index, first = found
            if first.packed:
                owner.chunks[index] = first.pack(self.worth_while) or first
            elif first.packed is None:
                self._again.append(place)


def _find(place: Place) -> tuple[Stream, int, Chunk] | None:
    """Return the stream of an unpacked chunk, the chunk's index, and the chunk; None if it was removed or packed meanwhile."""
    stream, chunk = place[0](), place[1]()
    if stream is None or chunk is None or not len(chunk):
        return None
    index = bisect_right(stream.firsts, chunk.id_at(0)) - 1
    return (stream, index, chunk) if index >= 0 and stream.chunks[index] is chunk else None
