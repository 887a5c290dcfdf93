"""How 7.0 estimated what a group has read; newer versions count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.streams.chunk import ids_in

if TYPE_CHECKING:
    from ...storage.groups.group import Group
    from ...storage.streams.chunk import Piece
    from ...storage.streams.stream import Stream


def advance_7_0(group: Group, stream: Stream, pieces: list[Piece], last: int) -> None:
    """``Group.advance`` by the rules of 7.0: only deletions behind an entry make the counter doubtful."""
    read = group.entries_read
    for entry in ids_in(pieces):
        if read is not None and not has_tombstone_7_0(stream, entry):
            read += 1
        elif stream.entries_added:
            read = estimate_7_0(stream, entry)
    group.entries_read = read
    group.last_id = last


def estimate_7_0(stream: Stream, stream_id: int) -> int | None:
    """How many entries were ever added up to that ID; one before all deletions was thought as good as any."""
    if stream.length and 0 < stream_id < stream.max_deleted_id < stream.first_id:
        return stream.entries_added - stream.length
    return stream.entries_read_estimate(stream_id)


def has_tombstone_7_0(stream: Stream, stream_id: int) -> bool:
    """Whether an entry at or after that ID was deleted; deletions before the first entry were thought past."""
    return stream.first_id <= stream.max_deleted_id and stream.has_tombstone_from(stream_id)
