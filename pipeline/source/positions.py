"""The position of a query in each stream: from earliest, latest or an id, with the stream's state at that time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .options import EARLIEST, LATEST

if TYPE_CHECKING:
    from ..redis.stream_state import StreamState


@dataclass(frozen=True)
class StreamSnapshot:
    """The state of a stream when a position was taken."""

    # The id of its first entry; None if it was empty, or if a packed offset (`packed_positions`) has not kept it.
    first: int | None
    newest: int | None  # the id of its newest entry; None if it was empty
    added: int | None  # the number of entries ever added; None before Redis 7
    removed: int | None  # the number of entries trimmed or deleted; None before Redis 7

    @classmethod
    def of(cls, now: StreamState) -> StreamSnapshot:
        """Return the part of a stream's state that a position remembers."""
        return cls(now.first, now.newest, now.added, now.removed)


# Marks a stream that no longer exists: no entry has the id 0-0.
ENDED: Final = StreamSnapshot(0, None, None, None)


@dataclass(frozen=True)
class Position:
    """The position of a query in one stream."""

    id: int  # the last id read
    # The number of entries ever added up to it, read or counted as gone; None if unknown.
    added: int | None = None
    generation: int = 0  # how often the stream was deleted and created again
    gone: int = 0  # the number of entries trimmed or deleted before they were read
    # The stream's state when the position was taken; None if it was not taken.
    snapshot: StreamSnapshot | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the stream has been deleted and all its known entries are accounted for."""
        return self.snapshot is not None and self.snapshot.first == ENDED.first

    @property
    def backlog(self) -> int | None:
        """The number of entries after the position when the stream was last seen; None: some, not counted."""
        if self.snapshot is None or self.snapshot.newest is None or self.snapshot.newest <= self.id:
            return 0
        if self.added is None or self.snapshot.added is None:
            return None
        return self.snapshot.added - self.added

    def rows_to(self, end: Position) -> int | None:
        """Return the number of entries between here and another position; None if unknown."""
        if end.added is None or (self.added is None and self.generation == end.generation):
            return None
        return (
            end.added
            - (end.gone - self.gone)
            - ((self.added or 0) if self.generation == end.generation else 0)
        )

    def moved(self, to: int, added: int | None, *, gone: int = 0) -> Position:
        """Return the position after reading up to the id ``to``; ``gone`` is the number of entries found missing."""
        return Position(to, added, self.generation, self.gone + gone, self.snapshot)

    def with_snapshot(self, now: StreamState) -> Position:
        """Return the position with the stream's current state."""
        return Position(self.id, self.added, self.generation, self.gone, StreamSnapshot.of(now))


def later(one: Position, other: Position) -> Position:
    """Return the later of two positions in a stream."""
    return other if other.id > one.id else one


def earlier(one: Position, other: Position) -> Position:
    """Return the earlier of two positions in a stream."""
    return other if other.id < one.id else one


def resolve(bound: int | str, now: StreamState) -> Position:
    """Return the position of a bound (earliest, latest, or an id) in a stream with this state.

    An id greater than the stream's last one is replaced by the last one.
    """
    if bound == EARLIEST:
        return Position(0, now.removed)
    if bound == LATEST:
        return Position(now.last, now.added)
    assert isinstance(bound, int)
    return Position(min(bound, now.last), now.added_at(bound))
