"""``spark.read``: what lies between two bounds when the action starts, in ranges of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from ...storage.gc_pause import gc_paused
from ..quick_ack import QuickAck
from ..redis import stream_state
from ..redis.options import OptionError
from ..redis.shards import connect
from ..source.name_clashes import NameClashes
from ..source.options import EARLIEST, LATEST
from ..source.positions import Position
from .partitions import range_partitions, worth_of_entries
from .pushdown import COLUMNS, Narrowed, narrow
from .task import RangePartition, read_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from ..redis.stream_state import StreamState
    from ..source.options import BatchOptions


class RangeBatchReader(QuickAck, DataSourceReader):
    """Plans when an action starts, so a DataFrame that is used twice may see newer entries the second time.

    Raises:
        OptionError: a stream that was named does not exist, or fields have names of columns that are none.
    """

    def __init__(self, schema: StructType, options: BatchOptions) -> None:
        self._schema = schema
        self._options = options
        self._narrowed = Narrowed()

    @gc_paused()
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read."""
        options = self._options
        start: dict[str, Position] = {}
        end: dict[str, Position] = {}
        with connect(options.endpoint, at_start=True) as connection:
            names = filter(self._narrowed.wants, options.names(connection))
            states = stream_state.fetch_states(connection, names)
            NameClashes(self._schema, options.columns).check(states)
            for name, now in states.items():
                if now is None:
                    if options.pattern is None:
                        raise OptionError(f"there is no stream {name!r} at {options.endpoint}")
                    continue
                low, high = self._narrowed.low, self._narrowed.high
                start[name] = later(resolve(options.start.of(name), now), resolve(max(low - 1, 0), now))
                end[name] = earlier(resolve(options.end.of(name), now), resolve(max(high, 0), now))
            worth = worth_of_entries(start, end, options, connection)
            found: list[InputPartition] = list(
                range_partitions(start, end, states, options, connection, worth=worth)
            )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range; there is one without a range where there is nothing to read."""
        if isinstance(partition, RangePartition):
            yield from read_range(partition, self._schema, self._options)


class PushingBatchReader(RangeBatchReader):
    """The same, where Spark hands over the filters of a query.

    Spark 4.1 to 4.3 keep a plan with the frame that was loaded, not with the query: after ``frame.where(…)`` another query of
    the same frame reads no more than that ``where`` left, and of two in one query the last one counts for both. No code of a
    reader runs then that could notice. So this is for those who ask for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what bounds of ids and a choice of streams can say; return what Spark still has to evaluate."""
        prefix = self._options.columns.prefix
        ours = {prefix + name: name for name in COLUMNS if prefix + name in self._schema.names}
        self._narrowed, left = narrow(filters, ours)
        return left


def later(one: Position, other: Position) -> Position:
    """Return the position that is further on."""
    return other if other.id > one.id else one


def earlier(one: Position, other: Position) -> Position:
    """Return the position that is less far on."""
    return other if other.id < one.id else one


def resolve(bound: int | str, now: StreamState) -> Position:
    """Return a bound as a position in a stream as it is now: before what is there, after it, or at an id."""
    if bound == EARLIEST:
        return Position(0, now.removed)
    if bound == LATEST:
        return Position(now.last, now.added)
    assert isinstance(bound, int)
    return Position(min(bound, now.last), now.added_at(bound))
