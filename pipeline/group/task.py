"""Tasks of group mode: fetch the entries of a batch by their ids, and verify that none is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...storage.gc_pause import gc_paused
from ..redis import ids
from ..redis.connection import Connection, checked
from ..redis.key_names import key_of
from ..redis.shards import connect
from ..source.entry_batches import Columns
from ..source.losses import DataLossError
from ..source.missed import note_missed
from ..source.row_batches import RowBatches
from ..source.sizes import Pace
from .offset import BatchPart, Run

if TYPE_CHECKING:
    from .options import GroupOptions

GROUP_COLUMNS: Final = {"consumer": pa.string(), "delivery_count": pa.int64(), "claimed": pa.bool_()}


@dataclass
class GroupPartition(InputPartition):
    """The entries that one task reads, and the facts of its batch that it needs."""

    consumer: str
    pieces: tuple[BatchPart, ...]
    # Ids that the batch leaves out, by stream.
    without: dict[str, frozenset[int]] = field(default_factory=dict)
    missed: str = ""  # where the task records entries that it does not find (`source.missed`)


def read_pieces(
    partition: GroupPartition, columns: Columns, options: GroupOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition; short pieces of several streams share a batch of rows.

    Raises DataLossError: some entries were deleted since they were delivered, and ``failOnDataLoss`` is on.
    """
    endpoint, size = options.endpoint, options.fetch_size
    rows = RowBatches(columns, size, tuple(GROUP_COLUMNS))
    with (
        connect(endpoint) as master,
        connect(endpoint, replica=True) if endpoint.read_replicas else nullcontext(master) as connection,
        gc_paused(),
    ):
        pace = Pace(connection, size)
        for piece, found, length in _fetched(connection, partition.pieces, pace):
            without = partition.without.get(piece.stream)
            entries, missing = _kept(piece, found, without)
            if missing and connection is not master:
                # The replica lags.
                entries, missing = _kept(piece, _fetch(master, piece, Pace(master, size))[0], without)
            if missing and options.fail_on_data_loss:
                raise DataLossError(_missing_text(piece, piece.count - missing))
            if missing > 0:
                note_missed(endpoint, partition.missed, (piece.stream, *_bounds(piece)), missing)
            owner = partition.consumer if isinstance(piece, Run) else piece.owner
            deliveries = 1 if isinstance(piece, Run) else piece.deliveries
            yield from rows.add(piece.stream, entries, length, owner, deliveries, owner != partition.consumer)
        yield from rows.rest()


def _kept(piece: BatchPart, found: list[Any], without: frozenset[int] | None) -> tuple[list[Any], int]:
    """Return the entries of a piece that belong to the batch, and how many are missing (negative: there are too many)."""
    if not without:
        return found, piece.count - len(found)
    kept = [entry for entry in found if ids.parse(entry[0]) not in without]
    left = sum(_holds(piece, each) for each in without)
    return kept, piece.count - left - len(kept)


def _holds(piece: BatchPart, stream_id: int) -> bool:
    return piece.first <= stream_id <= piece.last if isinstance(piece, Run) else stream_id in piece.ids


def _fetched(
    connection: Connection, pieces: Sequence[BatchPart], pace: Pace
) -> Iterator[tuple[BatchPart, list[Any], int]]:
    """Fetch pieces in order, with their bytes; many short runs in one round trip."""
    page: list[Run] = []
    rows = 0
    for piece in pieces:
        is_short = isinstance(piece, Run) and piece.count < pace.count
        if page and (not is_short or rows >= pace.count):
            yield from _short(connection, page, pace)
            page, rows = [], 0
        if isinstance(piece, Run) and is_short:
            page.append(piece)
            rows += piece.count
        else:
            entries, size = _fetch(connection, piece, pace)
            yield piece, entries, size
    yield from _short(connection, page, pace)


def _short(
    connection: Connection, page: Sequence[Run], pace: Pace
) -> Iterator[tuple[BatchPart, list[Any], int]]:
    asked = [
        ("XRANGE", key_of(each.stream), ids.text(each.first), ids.text(each.last), "COUNT", pace.most)
        for each in page
    ]
    replies = checked(connection.pipeline(asked))
    entries = sum(map(len, replies))
    size = pace.saw(entries)
    for piece, found in zip(page, replies, strict=True):
        yield piece, found, size * len(found) // max(entries, 1)


def _fetch(connection: Connection, piece: BatchPart, pace: Pace) -> tuple[list[Any], int]:
    """Return the entries of a piece that still exist, and their bytes."""
    entries: list[Any] = []
    size = 0
    key = key_of(piece.stream)
    if isinstance(piece, Run):
        start, end = ids.text(piece.first), ids.text(piece.last)
        while True:
            wanted = pace.count
            page = connection.call("XRANGE", key, start, end, "COUNT", wanted)
            size += pace.saw(len(page))
            entries += page
            if len(page) < wanted:
                return entries, size
            start = f"({page[-1][0].decode()}"
    words = [ids.text(each) for each in piece.ids]
    while words:
        asked, words = words[: pace.count], words[pace.count :]
        for found in checked(connection.pipeline([("XRANGE", key, word, word) for word in asked])):
            entries += found
        size += pace.saw(len(asked))
    return entries, size


def _bounds(piece: BatchPart) -> tuple[int, int]:
    return (piece.first, piece.last) if isinstance(piece, Run) else (piece.ids[0], piece.ids[-1])


def _missing_text(piece: BatchPart, found: int) -> str:
    first, last = _bounds(piece)
    if found > piece.count:
        return (
            f"stream {piece.stream!r} has {found} entries from {ids.text(first)} to {ids.text(last)}, where {piece.count} "
            "were delivered: it was deleted and made again"
        )
    return (
        f"{piece.count - found} of {piece.count} entries of stream {piece.stream!r} from {ids.text(first)} to "
        f"{ids.text(last)} were deleted or trimmed after they had been delivered and before they were read; "
        "failOnDataLoss=false goes on without them"
    )
