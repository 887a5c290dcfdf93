"""Judge whether a stream is still the one in which a position was taken. No other module judges this.

No server keeps the history of a stream. A position therefore remembers numbers and entries that identify the stream
and give the number of unread entries:

- ``entries-added`` and the number of entries removed only grow, and so do the last id and the first entry;
- the newest entry that was seen still exists, unless something was removed since;
- entries ever added, minus the ones accounted for at the position, minus the ones that still exist after it: the lost
  ones.

``max-deleted-entry-id`` changes with XDEL only, not with trimming, not even with XTRIM ACKED, which may remove entries
from the middle.

A contradiction means that the stream's history changed: it was rolled back (a lagging replica was promoted, or a
server restarted from an older file), or it was deleted and created again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ..redis import ids
from ..redis.connection import Connection, checked
from ..redis.stream_state import StreamState
from .entry_lookup import Answers, EntryLookup, entry_words
from .positions import ENDED, Position, StreamSnapshot


class What(Enum):
    """What happened to a stream since a position was taken: one word."""

    GOES_ON = "goes on"
    GONE = "entries are gone"
    ROLLED_BACK = "was rolled back"
    RECREATED = "was deleted and created again"
    DELETED = "was deleted"
    BEGUN_ANEW = "was created again after all of it was read and it was seen deleted"


# A tuple, not a set: a plan looks up ten thousand streams, and hashing an Enum member calls a Python function.
_OTHER_HISTORIES: Final = (What.ROLLED_BACK, What.RECREATED, What.BEGUN_ANEW)


@dataclass(frozen=True)
class Verdict:
    """The judgement of a stream: what happened to it since a position was taken, and where to continue."""

    what: What
    position: Position  # where the query continues
    # The number of lost entries; None: unknown. After a rollback these are entries that were accounted for and that
    # the stream no longer has.
    lost: int | None = 0

    @property
    def is_loss(self) -> bool:
        """Whether ``failOnDataLoss`` stops the query.

        It does not if a stream was deleted after all its known entries were read.
        """
        if self.what is What.DELETED:
            return self.lost != 0
        return self.what is not What.GOES_ON and self.what is not What.BEGUN_ANEW

    @property
    def is_another_history(self) -> bool:
        """Whether the position was taken in a history that the stream no longer has."""
        return self.what in _OTHER_HISTORIES


def entry_to_check(at: Position, now: StreamState | None) -> int | None:
    """Return the id that ``reconcile`` will look up, or None, so that the caller can look up many at once."""
    snapshot = at.snapshot
    if now is None or snapshot is None or snapshot.newest is None or now.newest == snapshot.newest:
        return None
    return None if now.first is None or now.first > snapshot.newest else snapshot.newest


def reconcile(at: Position, now: StreamState | None, lookup: EntryLookup) -> Verdict:
    """Judge a stream by a position that was taken in it.

    Return the verdict. Continuing at its position skips no new entry and repeats no known one; judging the stream
    again from that position gives GOES_ON.

    Args:
        now: the current state; None: the key does not exist.
        lookup: queried only if the position and the counts do not decide.
    """
    if now is None:
        if at.is_ended or at == Position(0, 0):
            return Verdict(What.DELETED, at, 0)  # known, or it never was
        lost = at.backlog
        # Report it once: all entries that were seen in the stream are accounted for.
        known = (
            at.added if lost == 0 or at.snapshot is None or at.snapshot.added is None else at.snapshot.added
        )
        ended = replace(at, added=known, gone=at.gone + (lost or 0), snapshot=ENDED)
        return Verdict(What.DELETED, ended, lost)
    if at.is_ended:
        verdict = reconcile(replace(at, snapshot=None), now, lookup)
        is_the_same = at.added is None or now.added is None or now.added >= at.added
        if not verdict.is_another_history or (verdict.what is What.ROLLED_BACK and is_the_same):
            return verdict  # it is back, as by a failover to a replica and back
        start = Position(
            0, now.removed, at.generation + 1, at.gone + (now.removed or 0), StreamSnapshot.of(now)
        )
        return Verdict(What.BEGUN_ANEW, start, 0)
    if at.snapshot is not None and _contradicts(at.snapshot, at, now, lookup):
        return _another_history(at, now, lookup)
    if now.last < at.id:
        return _another_history(at, now, lookup)
    if now.added is None or at.added is None:
        return Verdict(What.GOES_ON, at)
    gone = _gone(at, at.added, now, now.added, lookup)
    if gone < 0:
        return _another_history(at, now, lookup)
    if gone == 0:
        return Verdict(What.GOES_ON, at)
    position = replace(at, added=at.added + gone, gone=at.gone + gone, snapshot=StreamSnapshot.of(now))
    return Verdict(What.GONE, position, gone)


def untouched(at: Position, end: Position, now: StreamState, lookup: EntryLookup) -> bool:
    """Return True if every entry planned between two positions certainly still exists."""
    snapshot = end.snapshot
    if snapshot is None or now.added is None or now.last < end.id or _contradicts(snapshot, end, now, lookup):
        return False
    if now.removed == snapshot.removed:
        return True
    is_head_there = now.first is not None and now.first <= max(at.id, snapshot.first or 0)
    return is_head_there and _is_trimmed_only(snapshot, at, now) and _is_there(end, now, lookup)


def _contradicts(snapshot: StreamSnapshot, at: Position, now: StreamState, lookup: EntryLookup) -> bool:
    """Return True if a stream in the earlier state cannot have reached the current one."""
    if _fell(snapshot.added, now.added) or _fell(snapshot.removed, now.removed):
        return True
    # A stream that was empty has only entries that came since.
    earliest = at.id + 1 if snapshot.newest is None else snapshot.first
    if _fell(earliest, now.first):
        return True
    if now.added is None or now.removed is None or snapshot.added is None:
        return False
    if snapshot.newest is not None and now.first is not None and now.first > snapshot.newest:
        return now.length > now.added - snapshot.added  # all there is was added since
    if now.removed != snapshot.removed:
        return False
    # Nothing was removed since, so every entry that existed still does.
    return not _is_there(at, now, lookup)


def _fell(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now < before


def _gone(at: Position, accounted: int, now: StreamState, added: int, lookup: EntryLookup) -> int:
    """Return the number of missing entries after a position; negative if there are more than were added."""
    unread = added - accounted
    if now.newest is None or now.newest <= at.id:
        return unread
    if now.first is None or now.first > at.id:
        return unread - now.length
    return 0 if unread > 0 and _surely_none(at, now, lookup) else unread - lookup.count_after(at.id)


def _surely_none(at: Position, now: StreamState, lookup: EntryLookup) -> bool:
    """Return True if certainly nothing after the position was removed since, as far as the numbers show without counting."""
    snapshot = at.snapshot
    if snapshot is None:
        return False
    if now.removed == snapshot.removed:
        return True
    return _is_trimmed_only(snapshot, at, now) and _is_there(at, now, lookup)


def _is_trimmed_only(snapshot: StreamSnapshot, at: Position, now: StreamState) -> bool:
    """Return True if what was removed since was trimmed from the head, or deleted before the position.

    Trimming moves the first entry. If that is still the same, something was removed from the middle, as by XTRIM
    ACKED, which needs a group.
    """
    if now.max_deleted is None or now.max_deleted > at.id:
        return False
    return not now.groups if snapshot.first is None else now.first != snapshot.first


def _is_there(at: Position, now: StreamState, lookup: EntryLookup) -> bool:
    """Return True if the newest entry that was seen still exists, or none was seen."""
    newest = at.snapshot.newest if at.snapshot else None
    if newest is None or newest == now.newest:
        return True
    asked = entry_to_check(at, now)
    return asked is not None and lookup.has(asked)


def _another_history(at: Position, now: StreamState, lookup: EntryLookup) -> Verdict:
    removed = now.removed
    if _is_recreated(at, now, lookup):
        start = Position(0, removed, at.generation + 1, at.gone + (removed or 0), StreamSnapshot.of(now))
        return Verdict(What.RECREATED, start, None)
    behind = min(at.id, now.last)
    added = None if now.added is None else now.added - _present_after(behind, now, lookup)
    lost = None if added is None or at.added is None or at.added <= added else at.added - added
    return Verdict(
        What.ROLLED_BACK, replace(at, id=behind, added=added, snapshot=StreamSnapshot.of(now)), lost
    )


def _is_recreated(at: Position, now: StreamState, lookup: EntryLookup) -> bool:
    """Return True if a stream with another history was created again; False if it was rolled back.

    This is certain only while nothing was removed from the stream. New entries usually have greater ids than the
    position. So look for entries at or below the position: after a rollback there are known ones; a new stream has
    some only if its ids started again from lower values.
    """
    snapshot = at.snapshot
    if now.removed:
        return False
    if now.first is None or now.first > at.id:
        return True
    if snapshot is None or now.first == snapshot.first:
        return False
    if snapshot.newest is not None:
        if snapshot.first is None:
            return False  # it is not known
        if now.first > snapshot.first:
            return True  # the first entry that was seen was never in it
        if lookup.has(snapshot.first):
            return False
    if now.added is None or snapshot.removed is None:
        return True
    # Such an entry would precede the first one that was seen: at that time all earlier ones had been removed.
    return now.added - _present_after(at.id, now, lookup) > snapshot.removed


def _present_after(stream_id: int, now: StreamState, lookup: EntryLookup) -> int:
    if now.newest is None or now.newest <= stream_id:
        return 0
    if now.first is None or now.first > stream_id:
        return now.length
    return lookup.count_after(stream_id)


def check_entries(
    connection: Connection, positions: Mapping[str, Position], states: Mapping[str, StreamState | None]
) -> Answers:
    """Look up the entries of ``entry_to_check`` for these streams, in one round trip.

    Return whether each exists, by (stream, id).
    """
    asked = [
        (name, wanted)
        for name, at in positions.items()
        if (wanted := entry_to_check(at, states.get(name))) is not None
    ]
    replies = checked(connection.pipeline([entry_words(*each) for each in asked]))
    return {each: bool(reply) for each, reply in zip(asked, replies, strict=True)}


def describe(name: str, at: Position, now: StreamState | None, verdict: Verdict) -> tuple[str, str]:
    """Return two texts: what happened to a stream, and how a query without failOnDataLoss continues."""
    where = ids.text(at.id)
    lost = "some" if verdict.lost is None else str(verdict.lost)
    if verdict.what is What.GONE:
        what = (
            f"{lost} entries of stream {name!r} after {where} were trimmed or deleted before they were read"
        )
        return what, "goes on without them"
    if now is None:
        what = f"stream {name!r} was deleted with {lost} entries after {where} that were not read"
        return what, "goes on without them, and reads the stream from its start when it is created again"
    facts = (
        f"read up to {where}{_after(at.added)}; now its last id is {ids.text(now.last)}{_after(now.added)}"
    )
    if verdict.what is What.RECREATED:
        what = f"stream {name!r} was deleted and created again while it was read ({facts})"
        return what, "reads the new one from its start"
    missing = "" if verdict.lost is None else f", {verdict.lost} of them are in it no more"
    what = (
        f"stream {name!r} was rolled back, as by a failover to a replica that lagged or a restart from an older file "
        f"({facts}{missing}). What this query wrote of those stays written: see whether their producers add them again"
    )
    return what, f"goes on after {ids.text(verdict.position.id)}, with the new entries"


def _after(added: int | None) -> str:
    return "" if added is None else f" after {added} entries"
