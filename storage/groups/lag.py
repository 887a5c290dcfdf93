"""Compute a group's entries-read counter and its lag, as far as they can be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..streams.chunk import ChunkRun, ids_in
from ..streams.ids import MAX_COUNT

if TYPE_CHECKING:
    from ..streams.stream import Stream


def has_tombstone_from(stream: Stream, stream_id: int) -> bool:
    """Return True if an entry with this ID or a greater one may have been deleted.

    Then subtracting two counters of entries does not give the number of entries between them.
    """
    return stream.length > 0 and 0 < stream.max_deleted_id >= stream_id


def entries_read_estimate(stream: Stream, stream_id: int) -> int | None:
    """Return how many entries were ever added up to that ID, inclusive; None if that cannot be known."""
    added = stream.entries_added
    if not added:
        return 0
    if not stream.length and stream_id <= stream.last_id:
        return added
    deleted = stream.max_deleted_id
    if stream_id and stream_id < deleted:
        return None
    if stream_id >= stream.last_id:
        return added if stream_id == stream.last_id else None
    first = stream.first_id
    if not deleted or deleted < first:
        if stream_id < first:
            return added - stream.length
        if stream_id == first:
            return added - stream.length + 1
    return None


def lag(stream: Stream, last_id: int, entries_read: int | None) -> int | None:
    """Return how many entries a group has not read yet; None if that cannot be known.

    ``entries_read``: the group's counter; None if unknown.
    """
    if not stream.entries_added or not stream.length:
        return 0
    if last_id < stream.first_id and stream.max_deleted_id < stream.first_id:
        return stream.length
    if entries_read is not None and not has_tombstone_from(stream, last_id):
        return stream.entries_added - entries_read
    estimate = entries_read_estimate(stream, last_id)
    return None if estimate is None else stream.entries_added - estimate


def entries_read_after(
    stream: Stream, last_id: int, read: int | None, pieces: list[ChunkRun], number: int
) -> int | None:
    """Return a group's ``entries_read`` after the first delivery of entries; None if it cannot be known.

    Args:
        last_id: the group's ``last_id`` before.
        read: its ``entries_read`` before.
    """
    if read is not None and last_id >= stream.first_id and not has_tombstone_from(stream, last_id):
        return min(read + number, MAX_COUNT)
    if stream.entries_added:
        # The counter is unknown, or deletions make it unreliable: go entry by entry until it can be trusted.
        for at, entry in enumerate(ids_in(pieces), 1):
            if read is not None and last_id >= stream.first_id and not has_tombstone_from(stream, last_id):
                return min(read + number - at + 1, MAX_COUNT)
            read = entries_read_estimate(stream, entry)
            last_id = entry
    return read


def written_entries_read(stream: Stream, entries_read: int | None) -> int | None:
    """Return a group's ``entries_read`` for a file: never more than the stream's ``entries_added``.

    The counter can exceed that number after XSETID ENTRIESADDED, or when the group reads on after XGROUP CREATE
    ENTRIESREAD. Since 8.10 Redis refuses to load such a stream, even one that it wrote.
    """
    return None if entries_read is None else min(entries_read, stream.entries_added)
