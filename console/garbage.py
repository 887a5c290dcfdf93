"""Entries that every group has delivered and acknowledged, and that nothing has trimmed: how many, and what would trim them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .backlog import after
from .selection import pair

if TYPE_CHECKING:
    from .model import Group, Stream


@dataclass(frozen=True, slots=True)
class Garbage:
    """The entries at the beginning of a stream that no group needs.

    Attributes:
        before: the ID that XTRIM MINID is given: that of the first entry which a group still needs, or the next one.
        entries: how many; ``exact``: counted by a group's lag, not estimated by the times of IDs.
        memory: about so many bytes; None where the stream's memory was not measured yet.
        since: milliseconds of the oldest one's ID.
    """

    before: str
    entries: int
    exact: bool
    memory: int | None
    since: int


def garbage(stream: Stream) -> Garbage | None:
    """Return what can be trimmed, from last delivered IDs and the smallest pending ones; None if nothing, or it is not known.

    A stream without groups has none: nobody says that its entries are done.
    """
    if not stream.groups or not stream.first_id or any(group.unread for group in stream.groups):
        return None
    slowest = min(stream.groups, key=lambda group: pair(_needs(group)))
    before, first, last = pair(_needs(slowest)), pair(stream.first_id), pair(stream.last_id)
    if before <= first:
        return None
    exact = not slowest.pending and slowest.lag is not None
    if exact:
        entries = stream.length - (slowest.lag or 0)
    else:
        most = min(stream.length - (group.lag or 0) - group.pending for group in stream.groups)
        share = (before[0] - first[0]) / max(1, last[0] - first[0])
        entries = max(1, min(most, int(stream.length * share)))
    if entries <= 0:
        return None
    memory = stream.memory * entries // max(1, stream.length) if stream.memory is not None else None
    return Garbage(_needs(slowest), entries, exact, memory, first[0])


def _needs(group: Group) -> str:
    """Return the smallest ID that a group may still need."""
    return group.first_pending if group.pending else after(group.last_delivered)
