"""Entries that every group has delivered and acknowledged, and that nothing has trimmed: how many, and what would trim them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .backlog import after
from .link import Command, command
from .selection import pair

if TYPE_CHECKING:
    from .model import Group, ServerFacts, Stream


@dataclass(frozen=True, slots=True)
class Garbage:
    """Entries of a stream that no group needs.

    Attributes:
        before: the ID that XTRIM MINID is given.
        acked: XTRIM passes over the entries that a group still needs (ACKED, from Redis 8.2 on); else all are before them.
        entries: how many; ``exact``: counted by a group's lag. Else there are about so many, with ``acked`` at least so many.
        memory: about so many bytes; None where the stream's memory was not measured yet.
        since: milliseconds of the oldest one's ID, or of the first entry that a group still needs, if it is older.
        held_by: the first pending entry, and ``holder`` its group, where they keep all of them: this server's XTRIM cannot pass
            over what is pending.
    """

    before: str
    acked: bool
    entries: int
    exact: bool
    memory: int | None
    since: int
    held_by: str = ""
    holder: bytes = b""

    def trim(self, key: bytes) -> Command | None:
        """Return the command that deletes them; None while they are held."""
        if self.held_by:
            return None
        return command("XTRIM", key, "MINID", self.before, *(("ACKED",) if self.acked else ()))


def garbage(stream: Stream, facts: ServerFacts | None) -> Garbage | None:
    """Return what can be trimmed, from last delivered IDs and the smallest pending ones; None if nothing, or it is not known.

    A stream without groups has none: nobody says that its entries are done.
    """
    if not stream.groups or not stream.first_id or any(group.unread for group in stream.groups):
        return None
    slowest = min(stream.groups, key=lambda group: pair(_needs(group)))
    passed = after(min((group.last_delivered for group in stream.groups), key=pair))
    before, first, last = pair(_needs(slowest)), pair(stream.first_id), pair(stream.last_id)
    lags = [group.lag for group in stream.groups if group.lag is not None]
    exact = False
    entries = 0
    if before > first:
        exact = not slowest.pending and slowest.lag is not None
        if exact:
            entries = stream.length - (slowest.lag or 0)
        else:
            most = min(stream.length - (group.lag or 0) - group.pending for group in stream.groups)
            share = (before[0] - first[0]) / max(1, last[0] - first[0])
            entries = max(1, min(most, int(stream.length * share)))
    acked, held_by = False, ""
    if facts and len(lags) == len(stream.groups) and not exact and before < pair(passed):
        # Groups may have the same entry pending: then there are more.
        least = stream.length - max(lags) - stream.pending
        acked = least > 0 and "XACKDEL" in facts.commands
        held_by = slowest.first_pending if not entries and not acked else ""
        entries = least if acked or held_by else entries
    if entries <= 0:
        return None
    memory = stream.memory * entries // max(1, stream.length) if stream.memory is not None else None
    before_id = passed if acked else _needs(slowest)
    return Garbage(
        before_id, acked, entries, exact, memory, first[0], held_by, slowest.name if held_by else b""
    )


def _needs(group: Group) -> str:
    """Return the smallest ID that a group may still need."""
    return group.first_pending if group.pending else after(group.last_delivered)
