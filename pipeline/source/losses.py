"""How many entries were lost before a query read them.

Nothing on the server counts the entries behind a position, and ``max-deleted-entry-id`` moves with XDEL only, not
with trimming. What is exact is ``entries-added``: of all entries ever added, those accounted for at a position and
those still there after it leave the ones that are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..redis import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..redis.stream_state import StreamState
    from .offsets import Position


class DataLossError(RuntimeError):
    """Entries were trimmed or deleted before they were read, or the stream is another one than before."""


class RecreatedError(DataLossError):
    """The key was deleted and created again: its ids and counts contradict the position."""


def entries_gone(
    at: Position, now: StreamState, before: StreamState | None, count_present: Callable[[], int] | None
) -> int | None:
    """Return how many entries after a position were trimmed or deleted and are not accounted for yet.

    Args:
        at: the position.
        now: the stream.
        before: the last state whose losses are accounted for in the position.
        count_present: reads the ids after the position up to ``now.last`` and counts them; called only where entries
            were deleted out of the middle. None: do not.

    Returns:
        None where it cannot be known: a start in the middle of the stream that was not counted, a server before Redis
        7, no ``count_present``.

    Raises:
        RecreatedError: ids or counts went backwards.
    """
    if now.last < at.id:
        raise RecreatedError(f"its last id went from {ids.text(at.id)} back to {ids.text(now.last)}")
    if now.added is None or at.added is None:
        return None
    unaccounted = now.added - at.added
    if now.first is None or now.first > at.id:
        gone = unaccounted - now.length
    elif unaccounted >= 0 and (
        (now.max_deleted is not None and now.max_deleted <= at.id)
        or (before is not None and before.removed == now.removed)
    ):
        gone = 0
    elif count_present is None:
        return None
    else:
        gone = unaccounted - (count_present() if unaccounted > 0 else 0)
    if gone < 0:
        raise RecreatedError(f"it has had {now.added} entries and more of them are unread than that leaves")
    return gone
