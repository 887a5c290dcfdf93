"""Tasks of range mode: read ranges of ids by XRANGE, and verify that no entry is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...storage.gc_pause import gc_paused
from ..redis import ids
from ..redis.connection import Connection, checked
from ..redis.key_names import key_of
from ..redis.replicas import Written, reading
from ..redis.stream_state import fetch_states, parse_state, state_request
from ..source.entry_batches import Columns, session_zone
from ..source.losses import report_loss
from ..source.missed import note_missed
from ..source.row_batches import RowBatches
from ..source.sizes import Pace

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ..source.options import SourceOptions

_ROWS_PER_BATCH: Final = 4000  # servers answer best 1000 at a time, Arrow likes more
_SHORT_ROWS: Final = 100


@dataclass(frozen=True)
class StreamRange:
    """A range of ids of one stream: greater than ``after``, up to and including ``upto``."""

    stream: str
    after: int
    upto: int
    rows: int | None = None  # the exact number of entries; None if unknown
    # The first entry and the greatest deleted id when the batch was planned: without ``rows`` they reveal whether an
    # entry was removed since.
    first: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The work of one task: a part of one stream, or many short ranges of streams on one shard."""

    ranges: tuple[StreamRange, ...]
    shard: str = ""
    # A replica is read instead of the master once it has this replication offset; None: read the master.
    written: Written | None = None
    # The key at which tasks report entries that were lost after planning; empty: they do not report.
    losses: str = ""


def read_range(
    partition: RangePartition, schema: StructType, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition.

    Raises:
        DataLossError: some entries are gone and ``failOnDataLoss`` is set.
        RedisError: the server cannot be reached or answers with an error.
    """
    columns = Columns(schema, options.columns, zone=session_zone())
    key = key_of(partition.ranges[0].stream)
    with reading(options.endpoint, partition.shard, partition.written, key) as connection, gc_paused():
        rows = RowBatches(columns, _ROWS_PER_BATCH)
        pace = Pace(connection, options.fetch_size)
        for name, chunk in _chunks(connection, partition, options, pace):
            yield from rows.add(name, chunk, pace.size)
        yield from rows.rest()


def _chunks(
    connection: Connection, partition: RangePartition, options: SourceOptions, pace: Pace
) -> Iterator[tuple[str, list[Any]]]:
    """Read the ranges in order, many short ones in one round trip."""
    for is_short, ranges in groupby(partition.ranges, lambda each: _is_short(each, options)):
        if is_short:
            yield from _short(connection, list(ranges), options, partition.losses, pace)
            continue
        for each in ranges:
            read = _counted if each.rows is not None else _watched
            for chunk in read(connection, each, options, partition.losses, pace):
                yield each.stream, chunk


def _is_short(part: StreamRange, options: SourceOptions) -> bool:
    return part.rows is not None and part.rows < min(options.fetch_size, _SHORT_ROWS)


def _short(
    connection: Connection, ranges: Sequence[StreamRange], options: SourceOptions, losses: str, pace: Pace
) -> Iterator[tuple[str, list[Any]]]:
    """Read ranges of few entries, so many in a round trip that the reply is about as large as one of a long range."""
    at = 0
    while at < len(ranges):
        page: list[StreamRange] = []
        rows = 0
        while at < len(ranges) and rows < pace.count:
            page.append(ranges[at])
            rows += 1 + (ranges[at].rows or 0)
            at += 1
        asked = [_xrange(part, part.after + 1, options.fetch_size) for part in page]
        replies = checked(connection.pipeline(asked))
        entries = sum(map(len, replies))
        size = pace.saw(entries)
        for part, found in zip(page, replies, strict=True):
            pace.size = size * len(found) // max(entries, 1)
            for chunk in _counted(connection, part, options, losses, pace, found):
                yield part.stream, chunk


def _counted(
    connection: Connection,
    part: StreamRange,
    options: SourceOptions,
    losses: str,
    pace: Pace,
    first: list[Any] | None = None,
) -> Iterator[list[Any]]:
    """Read a range whose number of entries is known; the caller may already have its first reply."""
    assert part.rows is not None
    seen = 0
    cursor = part.after
    while cursor < part.upto:
        wanted = pace.count if first is None else options.fetch_size
        chunk = _fetch(connection, part, cursor + 1, wanted) if first is None else first
        if first is None:
            pace.saw(len(chunk))
        first = None
        if not chunk:
            break
        seen += len(chunk)
        yield chunk
        if len(chunk) < wanted:
            break
        cursor = ids.parse(chunk[-1][0])
    if seen < part.rows:
        _report(f"{part.rows - seen} of {part.rows} entries", part, options)
        _note(part, part.rows - seen, options, losses)
    elif seen > part.rows:
        report_loss(
            f"stream {part.stream!r} holds {seen} entries from {ids.text(part.after)} to "
            f"{ids.text(part.upto)} where {part.rows} were counted: since then it was rolled back, or deleted and "
            "created again",
            fail=options.fail_on_data_loss,
            otherwise="reads all of them",
        )


def _watched(
    connection: Connection, part: StreamRange, options: SourceOptions, losses: str, pace: Pace
) -> Iterator[list[Any]]:
    """Read a range that was not counted. Detect trimming that overtakes the reader, and XDEL in the range.

    Each fetch begins with the last entry of the previous one. While that entry exists, trimming, which removes the
    oldest entries first, has not reached the next ones.
    """
    whole = True
    cursor = part.after
    last: bytes | None = None
    while cursor < part.upto:
        wanted = pace.count
        if last is None:
            chunk, info = connection.pipeline([_xrange(part, cursor + 1, wanted), state_request(part.stream)])
            for reply in (chunk, info):
                if isinstance(reply, Exception):
                    raise reply
            # The oldest entry of the planned range still exists, or was never part of it.
            head = parse_state(info).first
            whole = head is not None and head <= max(part.after, part.first)
        else:
            chunk = _fetch(connection, part, cursor, wanted + 1)
            if chunk and chunk[0][0] == last:
                chunk = chunk[1:]
            else:
                whole = False
        pace.saw(len(chunk))
        if chunk:
            last = chunk[-1][0]
            cursor = ids.parse(chunk[-1][0])
            yield chunk
        if len(chunk) < wanted:
            break
    after = fetch_states(connection, [part.stream])[part.stream]
    deleted = after.max_deleted if after else None
    if after is None or not whole:
        _report("some entries", part, options)
        _note(part, 1, options, losses)
    elif deleted is not None and deleted > max(part.after, part.deleted):
        _report("(or while they were read; only one task per batch can detect) some entries", part, options)
        _note(part, 1, options, losses)


def _fetch(connection: Connection, part: StreamRange, start: int, count: int) -> list[Any]:
    found: list[Any] = connection.call(*_xrange(part, start, count))
    return found


def _xrange(part: StreamRange, start: int, count: int) -> tuple[bytes | str | int, ...]:
    return ("XRANGE", key_of(part.stream), ids.encode(start), ids.encode(part.upto), "COUNT", count)


def _report(what: str, part: StreamRange, options: SourceOptions) -> None:
    report_loss(
        f"{what} of stream {part.stream!r} from {ids.text(part.after)} to {ids.text(part.upto)} were "
        "trimmed or deleted before they were read",
        fail=options.fail_on_data_loss,
    )


def _note(part: StreamRange, count: int, options: SourceOptions, losses: str) -> None:
    note_missed(options.endpoint, losses, (part.stream, part.after, part.upto), count)
