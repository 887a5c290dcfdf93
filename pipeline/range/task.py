"""What a task of range mode does: read one range of ids by XRANGE, and make sure that all of it was still there."""

from __future__ import annotations

import gc
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from ..redis import ids
from ..redis.connection import Connection
from ..redis.key_names import key_of
from ..redis.stream_state import StreamState, fetch_states, parse_state
from ..source.entry_batches import Columns
from ..source.losses import DataLossError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ..source.options import SourceOptions

LOG: Final = logging.getLogger("rillet.pipeline")
_ROWS_PER_BATCH: Final = 4000  # servers answer best 1000 at a time, Arrow likes more


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The ids of one stream after one, up to and including another.

    ``rows`` is how many entries there are, where that is known exactly. Elsewhere ``first`` and ``deleted``, the first
    entry and the greatest deleted id when the batch was planned, show whether something was removed since.
    """

    stream: str
    after: int
    upto: int
    rows: int | None = None
    first: int = 0
    deleted: int = 0


def read_range(
    partition: RangePartition, schema: StructType, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition.

    Raises:
        DataLossError: some entries are gone and ``failOnDataLoss`` is set.
        RedisError: the server cannot be reached or answers with an error.
    """
    columns = Columns(schema, options.columns)
    with Connection(options.endpoint) as connection, _no_cycles():
        chunks = (
            _counted(connection, partition, options)
            if partition.rows is not None
            else _watched(connection, partition, options)
        )
        gathered: list[Any] = []
        for chunk in chunks:
            gathered += chunk
            if len(gathered) >= _ROWS_PER_BATCH:
                yield columns.batch(partition.stream, gathered)
                gathered = []
        if gathered:
            yield columns.batch(partition.stream, gathered)


@contextmanager
def _no_cycles() -> Iterator[None]:
    """Replies are trees of lists: looking for cycles in them costs a third of the time and finds none."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _counted(
    connection: Connection, partition: RangePartition, options: SourceOptions
) -> Iterator[list[Any]]:
    """Read a range whose number of entries is known."""
    assert partition.rows is not None
    seen = 0
    cursor = partition.after
    while cursor < partition.upto and (
        chunk := _fetch(connection, partition, cursor + 1, options.fetch_size)
    ):
        seen += len(chunk)
        yield chunk
        if len(chunk) < options.fetch_size:
            break
        cursor = ids.parse(chunk[-1][0])
    if seen < partition.rows:
        _report(f"{partition.rows - seen} of {partition.rows} entries", partition, options)
    elif seen > partition.rows:
        raise DataLossError(
            f"stream {partition.stream!r} holds {seen} entries from {ids.text(partition.after)} to "
            f"{ids.text(partition.upto)} where {partition.rows} were counted: it was deleted and created again"
        )


def _watched(
    connection: Connection, partition: RangePartition, options: SourceOptions
) -> Iterator[list[Any]]:
    """Read a range that was not counted: detect trimming that got ahead of us, and XDEL in the range.

    Each fetch begins with the last entry of the one before. As long as it is still there, trimming, which goes from
    the oldest entry on, has not reached the next ones.
    """
    whole = True
    cursor = partition.after
    last: bytes | None = None
    while cursor < partition.upto:
        if last is None:
            chunk, info = connection.pipeline(
                [_xrange(partition, cursor + 1, options.fetch_size), _xinfo(partition)]
            )
            for reply in (chunk, info):
                if isinstance(reply, Exception):
                    raise reply
            whole = _head_is_there(parse_state(info), partition)
        else:
            chunk = _fetch(connection, partition, cursor, options.fetch_size + 1)
            if chunk and chunk[0][0] == last:
                chunk = chunk[1:]
            else:
                whole = False
        if chunk:
            last = chunk[-1][0]
            cursor = ids.parse(chunk[-1][0])
            yield chunk
        if len(chunk) < options.fetch_size:
            break
    after = fetch_states(connection, [partition.stream])[partition.stream]
    deleted = after.max_deleted if after else None
    if after is None or not whole:
        _report("some entries", partition, options)
    elif deleted is not None and deleted > max(partition.after, partition.deleted):
        _report(
            "(or while they were read; only one task per batch can detect) some entries", partition, options
        )


def _head_is_there(now: StreamState, partition: RangePartition) -> bool:
    """Return whether the oldest entry of the planned range is still there, or was never part of it."""
    return now.first is not None and now.first <= max(partition.after, partition.first)


def _fetch(connection: Connection, partition: RangePartition, start: int, count: int) -> list[Any]:
    found: list[Any] = connection.call(*_xrange(partition, start, count))
    return found


def _xrange(partition: RangePartition, start: int, count: int) -> tuple[bytes | str | int, ...]:
    return ("XRANGE", key_of(partition.stream), ids.encode(start), ids.encode(partition.upto), "COUNT", count)


def _xinfo(partition: RangePartition) -> tuple[bytes | str, ...]:
    return ("XINFO", "STREAM", key_of(partition.stream))


def _report(what: str, partition: RangePartition, options: SourceOptions) -> None:
    report_loss(
        f"{what} of stream {partition.stream!r} from {ids.text(partition.after)} to {ids.text(partition.upto)} were "
        "trimmed or deleted before they were read",
        fail=options.fail_on_data_loss,
    )


def report_loss(text: str, *, fail: bool) -> None:
    """Stop, or go on and say so.

    Raises:
        DataLossError: ``fail`` is set.
    """
    if fail:
        raise DataLossError(f"{text}; option failOnDataLoss=false goes on without them")
    LOG.warning("%s", text)
