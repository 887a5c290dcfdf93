"""Serialise the position of a query as the JSON that Spark keeps in its checkpoint.

Range mode::

    {"v": 3, "db": 0, "streams": {"orders": ["1526919030474-55", 1200, "1526919030474-2", 1526919030480, 1300, 200]}}

A stream's position is ``[id, added, first, newest, snapshot_added, removed, generation, gone]``. ``id`` is the last id
read. ``added`` counts the entries, of all ever added, that are accounted for up to that id: read, or counted as gone.
It is null if unknown (reading started in the middle of the stream and its first batch is not done, or the server is
older than Redis 7). A stream that is to be read from a moment in the future appears only after that moment. The next
four are the stream's state when the position was taken: its first and its newest entry (null if it was empty), and the
numbers of entries added and removed. They are compared with the stream later, to see whether it is still the same one.
``generation`` counts how often the stream was deleted and created again, ``gone`` the entries trimmed or deleted
before they were read.

Default values at the end are left out: a stream whose state was not taken (``first`` is false), one that was read to
its end (``newest`` is ``id`` and ``snapshot_added`` is ``added``), and zeros. An id with sequence number 0 is written
as its milliseconds.

With more than a hundred streams ``streams`` is one text, made by `packed_positions`, because Spark writes all of it
with each batch: ten thousand streams take 35 KB (all written to within seconds) to 87 KB (trimmed, within a month), and
as rows 0.6 MB. Version 2 had rows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..error_tokens import LabelledError
from ..redis import ids
from .packed_positions import pack, unpack
from .positions import Position, StreamSnapshot

Word = str | int | None
Row = list[Any]

VERSION: Final = 3
_READ: Final = (2, VERSION)
_ROWS_AT_MOST: Final = 100


class OffsetError(LabelledError, ValueError):
    """The checkpoint holds an offset that this version cannot read."""

    label = "BAD_OFFSET"


def dump(positions: Mapping[str, Position], db: int = 0) -> dict[str, Any]:
    """Return positions as the dict that Spark keeps, streams in order of their names: Spark compares offsets as text."""
    return {"v": VERSION, "db": db, "streams": dump_streams(positions)}


def dump_streams(positions: Mapping[str, Position]) -> dict[str, Row] | str:
    """Return the positions by stream, in order of their names: as rows or, for many streams, as one packed text."""
    in_order = dict(sorted(positions.items()))
    if len(in_order) > _ROWS_AT_MOST:
        return pack(in_order)
    return {name: _row(at) for name, at in in_order.items()}


def load(tree: Mapping[str, Any]) -> dict[str, Position]:
    """Return the positions in a dict from ``dump``.

    Raises OffsetError: another version, another mode, or no offset at all.
    """
    check_version(tree)
    if "streams" not in tree:
        raise OffsetError(
            "this checkpoint was written by another mode: the option 'mode' cannot change in a query"
        )
    return load_streams(tree["streams"])


def load_streams(streams: Mapping[str, Row] | str) -> dict[str, Position]:
    """Return the positions in the result of ``dump_streams``."""
    if isinstance(streams, str):
        return unpack(streams)
    return {name: _of_row(row) for name, row in streams.items()}


def check_database(kept: int, wanted: int) -> None:
    """Check that a query continues in the database of its checkpoint. Raises OffsetError: they differ."""
    if kept != wanted:
        raise OffsetError(
            f"the checkpoint is of database {kept}, the query reads database {wanted}: set option 'db', or begin a new checkpoint"
        )


def check_version(tree: Mapping[str, Any]) -> None:
    """Check that this is an offset of this version.

    Raises OffsetError: it belongs to another version of Rillet, or to another source.
    """
    if not isinstance(tree, dict) or "v" not in tree:
        raise OffsetError(
            f"this checkpoint is of another source, whose offsets are as {str(tree)[:60]}: another source needs another checkpoint"
        )
    if tree["v"] not in _READ:
        raise OffsetError(
            f"this checkpoint has offsets of version {tree['v']!r}; this Rillet reads versions 2 and 3. "
            "Go on with the Rillet that wrote it"
        )


def id_word(stream_id: int | None) -> Word:
    """Return an id in its shortest JSON form; None for a stream without entries."""
    if stream_id is None:
        return None
    ms, seq = stream_id >> 64, stream_id & ids.MAX_U64
    return f"{ms}-{seq}" if seq or not ms else ms  # never 0, which is equal to False


def id_of_word(word: Any) -> Any:
    """Return the id that the result of ``id_word`` stands for."""
    if isinstance(word, int):
        return word << 64
    return None if word is None else ids.parse(word)


def _row(at: Position) -> Row:
    snapshot = at.snapshot
    last = id_word(at.id)
    usual = _usual(last, at.added)
    row = usual[:6]
    if snapshot is not None:
        row[2:] = id_word(snapshot.first), id_word(snapshot.newest), snapshot.added, snapshot.removed
    row += at.generation, at.gone
    while len(row) > 2 and row[-1] == usual[len(row) - 1]:
        row.pop()
    return row


def _usual(last: Word, added: int | None) -> Row:
    return [last, added, False, last, added, 0, 0, 0]


def _of_row(row: Row) -> Position:
    last, added = row[:2]
    first, newest, snapshot_added, removed, generation, gone = [*row, *_usual(last, added)[len(row) :]][2:]
    snapshot = (
        None
        if first is False
        else StreamSnapshot(id_of_word(first), id_of_word(newest), snapshot_added, removed)
    )
    return Position(id_of_word(last), added, generation, gone, snapshot)
