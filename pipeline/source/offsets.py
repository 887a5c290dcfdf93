"""Where a query stands, as the JSON that Spark keeps in its checkpoint.

Range mode::

    {"v": 1, "streams": {"orders": {"id": "1526919030474-55", "added": 1200, "life": 0, "gone": 0,
                                    "seen": ["1526919030474-2", "1526919030480-0", 1300, 200]}}}

``id`` is the last id read. ``added`` is how many of the entries that were ever added are accounted for up to there:
read, or counted as gone; ``null`` where that is not known (a start in the middle of a stream until its first batch, a
server before Redis 7). A stream whose start is a moment yet to come is not here before that. ``life`` counts how often
the stream was seen deleted and created again, ``gone`` how many entries were trimmed or deleted before they were read.
``seen`` is the stream as it was when the position was taken: its first and its newest entry, and how many had been added
and removed. A later look compares it with the stream, to see whether that is still the same one. Offsets that
were written before there was such a thing have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..error_tokens import Tokened
from ..redis import ids

if TYPE_CHECKING:
    from ..redis.stream_state import StreamState

VERSION: Final = 1


class OffsetError(Tokened, ValueError):
    """The checkpoint holds an offset that this version cannot read."""

    label = "BAD_OFFSET"


@dataclass(frozen=True)
class Seen:
    """A stream as it was when a position was taken: entries that were there, None where it was empty, and counts."""

    first: int | None
    newest: int | None
    added: int | None
    removed: int | None

    @classmethod
    def of(cls, now: StreamState) -> Seen:
        """Return what to remember of a stream."""
        return cls(now.first, now.newest, now.added, now.removed)

    def as_json(self) -> list[str | int | None]:
        """Return the form of the checkpoint."""
        return [_text(self.first), _text(self.newest), self.added, self.removed]

    @classmethod
    def of_json(cls, words: list[Any]) -> Seen:
        """Read what ``as_json`` returned."""
        first, newest, added, removed = words
        return cls(_parsed(first), _parsed(newest), added, removed)


@dataclass(frozen=True)
class Position:
    """Where a query stands in one stream."""

    id: int
    added: int | None = None
    life: int = 0
    gone: int = 0
    seen: Seen | None = None

    @property
    def backlog(self) -> int | None:
        """How many entries behind it the stream was seen to have; None: some, which were not counted."""
        if self.seen is None or self.seen.newest is None or self.seen.newest <= self.id:
            return 0
        if self.added is None or self.seen.added is None:
            return None
        return self.seen.added - self.added

    def rows_to(self, end: Position) -> int | None:
        """Return how many entries there are to read up to another position; None where that is not known."""
        if end.added is None or (self.added is None and self.life == end.life):
            return None
        return end.added - (end.gone - self.gone) - ((self.added or 0) if self.life == end.life else 0)

    def moved(self, to: int, added: int | None, *, gone: int = 0) -> Position:
        """Return the position after reading up to an id, with so many more entries found missing."""
        return Position(to, added, self.life, self.gone + gone, self.seen)

    def seen_as(self, now: StreamState) -> Position:
        """Return the position with the stream as it is now."""
        return Position(self.id, self.added, self.life, self.gone, Seen.of(now))


def dump(positions: dict[str, Position]) -> dict[str, Any]:
    """Return the JSON tree, streams in order of their names: Spark compares offsets as text."""
    return {
        "v": VERSION,
        "streams": {
            name: {"id": ids.text(at.id), "added": at.added, "life": at.life, "gone": at.gone}
            | ({} if at.seen is None else {"seen": at.seen.as_json()})
            for name, at in sorted(positions.items())
        },
    }


def load(tree: dict[str, Any]) -> dict[str, Position]:
    """Read what ``dump`` wrote.

    Raises:
        OffsetError: another version, another mode, or no offset at all.
    """
    check_version(tree)
    if "streams" not in tree:
        raise OffsetError(
            "this checkpoint was written by another mode: the option 'mode' cannot change in a query"
        )
    return {
        name: Position(
            ids.parse(at["id"]),
            at["added"],
            at["life"],
            at["gone"],
            Seen.of_json(at["seen"]) if "seen" in at else None,
        )
        for name, at in tree["streams"].items()
    }


def check_version(tree: dict[str, Any]) -> None:
    """Refuse offsets of a later Rillet.

    Raises:
        OffsetError: see above.
    """
    version = tree.get("v")
    if version != VERSION:
        raise OffsetError(
            f"this checkpoint has offsets of version {version!r}; this Rillet reads version {VERSION}"
        )


def _text(stream_id: int | None) -> str | None:
    return None if stream_id is None else ids.text(stream_id)


def _parsed(word: str | None) -> int | None:
    return None if word is None else ids.parse(word)
