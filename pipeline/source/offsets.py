"""Where a query stands, as the JSON that Spark keeps in its checkpoint.

Range mode::

    {"v": 1, "streams": {"orders": {"id": "1526919030474-55", "added": 1200, "life": 0, "gone": 0}}}

``id`` is the last id read. ``added`` is how many of the entries that were ever added are accounted for up to there:
read, or counted as gone; ``null`` where that is not known (a start in the middle of a stream until its first batch, a
server before Redis 7). A stream whose start is a moment yet to come is not here before that. ``life`` counts how often the stream was seen deleted and created again, ``gone`` how many entries were trimmed or
deleted before they were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ..redis import ids

VERSION: Final = 1


class OffsetError(ValueError):
    """The checkpoint holds an offset that this version cannot read."""


@dataclass(frozen=True)
class Position:
    """Where a query stands in one stream."""

    id: int
    added: int | None = None
    life: int = 0
    gone: int = 0

    def moved(self, to: int, added: int | None, *, gone: int = 0) -> Position:
        """Return the position after reading up to an id, with so many more entries found missing."""
        return replace(self, id=to, added=added, gone=self.gone + gone)


def dump(positions: dict[str, Position]) -> dict[str, Any]:
    """Return the JSON tree, streams in order of their names: Spark compares offsets as text."""
    return {
        "v": VERSION,
        "streams": {
            name: {"id": ids.text(at.id), "added": at.added, "life": at.life, "gone": at.gone}
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
        name: Position(ids.parse(at["id"]), at["added"], at["life"], at["gone"])
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
