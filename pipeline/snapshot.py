"""What XINFO STREAM says of a stream at one moment, and how many entries were lost before a query read them.

Nothing on the server counts the entries behind a position, and ``max-deleted-entry-id`` moves with XDEL only, not
with trimming. What is exact is ``entries-added``: of all entries ever added, those accounted for at a position and
those still there after it leave the ones that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import ids
from .names import key_of
from .wire import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .offsets import Position
    from .wire import Wire


class DataLossError(RuntimeError):
    """Entries were trimmed or deleted before they were read, or the stream is another one than before."""


class RecreatedError(DataLossError):
    """The key was deleted and created again: its ids and counts contradict the position."""


@dataclass(frozen=True)
class Snapshot:
    """One stream at one moment: ids as integers; ``added`` and ``max_deleted`` are None before Redis 7."""

    length: int
    last: int
    first: int | None
    added: int | None
    max_deleted: int | None

    @property
    def removed(self) -> int | None:
        """How many entries were trimmed or deleted since the stream was created."""
        return None if self.added is None else self.added - self.length

    def added_at(self, stream_id: int) -> int | None:
        """How many entries were added up to an id, None in the middle of what is there: nobody counts that."""
        if self.added is None:
            return None
        if stream_id >= self.last:
            return self.added
        if self.first is None or self.first > stream_id:
            return self.added - self.length
        return None


def take(wire: Wire, names: Iterable[str]) -> dict[str, Snapshot | None]:
    """Look at several streams in one round trip; None where there is no such key.

    Raises:
        ServerError: a key is no stream, or may not be read; the text names it.
    """
    wanted = list(names)
    replies = wire.pipeline([("XINFO", "STREAM", key_of(name)) for name in wanted])
    found: dict[str, Snapshot | None] = {}
    for name, reply in zip(wanted, replies, strict=True):
        if isinstance(reply, ServerError):
            if "no such key" not in str(reply).lower():
                raise ServerError(f"{reply} (stream {name!r})")
            found[name] = None
        else:
            found[name] = read(reply)
    return found


def read(reply: list[Any]) -> Snapshot:
    """Read the reply of XINFO STREAM: names and values in turn."""
    told = dict(zip(reply[::2], reply[1::2], strict=True))
    first = told[b"first-entry"]
    deleted = told.get(b"max-deleted-entry-id")
    return Snapshot(
        length=told[b"length"],
        last=ids.parse(told[b"last-generated-id"]),
        first=None if first is None else ids.parse(first[0]),
        added=told.get(b"entries-added"),
        max_deleted=None if deleted is None else ids.parse(deleted),
    )


def entries_gone(
    at: Position, now: Snapshot, before: Snapshot | None, count_present: Callable[[], int] | None
) -> int | None:
    """How many entries after a position were trimmed or deleted and are not accounted for yet.

    Args:
        at: the position.
        now: the stream.
        before: the last snapshot whose losses are accounted for in the position.
        count_present: reads the ids after the position up to ``now.last`` and counts them; called only where entries
            were deleted out of the middle. None: do not.

    Returns:
        None where it cannot be known: a start in the middle of the stream that nobody has counted, a server before Redis
        7, nobody to count.

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
