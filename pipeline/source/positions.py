"""Where a query stands in each stream, and the stream as it was then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..redis.stream_state import StreamState


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream as it was when a position was taken: entries that were there, None where it was empty, and counts."""

    first: int | None
    newest: int | None
    added: int | None
    removed: int | None

    @classmethod
    def of(cls, now: StreamState) -> StreamSnapshot:
        """Return what to remember of a stream."""
        return cls(now.first, now.newest, now.added, now.removed)


# Of a stream that is gone: no entry has the id 0-0.
ENDED: Final = StreamSnapshot(0, None, None, None)


@dataclass(frozen=True)
class Position:
    """Where a query stands in one stream."""

    id: int
    added: int | None = None
    generation: int = 0
    gone: int = 0
    snapshot: StreamSnapshot | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the stream was seen to be gone when all that was known of it was read."""
        return self.snapshot is not None and self.snapshot.first == ENDED.first

    @property
    def backlog(self) -> int | None:
        """How many entries behind it the stream was seen to have; None: some, which were not counted."""
        if self.snapshot is None or self.snapshot.newest is None or self.snapshot.newest <= self.id:
            return 0
        if self.added is None or self.snapshot.added is None:
            return None
        return self.snapshot.added - self.added

    def rows_to(self, end: Position) -> int | None:
        """Return how many entries there are to read up to another position; None where that is not known."""
        if end.added is None or (self.added is None and self.generation == end.generation):
            return None
        return (
            end.added
            - (end.gone - self.gone)
            - ((self.added or 0) if self.generation == end.generation else 0)
        )

    def moved(self, to: int, added: int | None, *, gone: int = 0) -> Position:
        """Return the position after reading up to an id, with so many more entries found missing."""
        return Position(to, added, self.generation, self.gone + gone, self.snapshot)

    def with_snapshot(self, now: StreamState) -> Position:
        """Return the position with the stream as it is now."""
        return Position(self.id, self.added, self.generation, self.gone, StreamSnapshot.of(now))
