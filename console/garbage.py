"""Find entries that every group has acknowledged and nothing has trimmed; estimate them, and suggest a trim."""

from __future__ import annotations

from dataclasses import dataclass

from .connection import Command, command
from .model import Group, ServerFacts, Stream
from .pending_maxima import after
from .selection import pair


@dataclass(frozen=True, slots=True)
class Garbage:
    """Entries of a stream that no group needs."""

    before: str  # the ID for XTRIM MINID
    # Use ACKED (from Redis 8.2 on), with which XTRIM keeps the entries that a group still needs. If False, no group
    # needs an entry below ``before``.
    acked: bool
    # Their number; ``exact``: derived from a group's lag. Otherwise it is an estimate, and with ``acked`` a minimum.
    entries: int
    exact: bool
    memory: int | None  # approximate bytes; None if the stream's memory was not measured yet
    # Milliseconds of the oldest entry's ID, or of the first entry that a group still needs, if that is older.
    since: int
    # The first pending entry, and ``holder`` its group, if they keep all entries: this server's XTRIM cannot skip
    # pending entries.
    held_by: str = ""
    holder: bytes = b""

    def trim(self, key: bytes) -> Command | None:
        """Return the XTRIM that removes these entries; None if a pending entry holds them."""
        if self.held_by:
            return None
        return command("XTRIM", key, "MINID", self.before, *(("ACKED",) if self.acked else ()))


def garbage(stream: Stream, facts: ServerFacts | None) -> Garbage | None:
    """Return what XTRIM could remove from a stream, None if nothing or unknown.

    It follows from the groups' last delivered IDs and smallest pending IDs. A stream without groups has no
    garbage: nothing shows that its entries are done.
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
        # Several groups may have the same entry pending; then there is more garbage.
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
