"""``spark.read``: read the entries between two bounds, resolved when the action starts, in ranges of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from ...storage.gc_pause import gc_paused
from ..redis import stream_state
from ..redis.options import OptionError
from ..redis.shards import connect
from ..source.column_clashes import ColumnClashes
from ..source.options import BatchOptions
from ..source.positions import Position, earlier, later, resolve
from ..tcp_quick_ack import QuickAck
from .partitions import range_partitions, worth_of_entries
from .pushdown import COLUMNS, Narrowed, narrow
from .task import RangePartition, read_range

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType


class RangeBatchReader(QuickAck, DataSourceReader):
    """Reads ranges of ids for ``spark.read``; they are planned when an action starts.

    A second action on the same DataFrame may therefore see newer entries.

    Raises OptionError: a named stream does not exist, or a field of the entries has the name of a metadata column.
    """

    def __init__(self, schema: StructType, options: BatchOptions) -> None:
        self._schema = schema
        self._options = options
        self._narrowed = Narrowed()

    @gc_paused()
    def partitions(self) -> list[InputPartition]:
        """Return the partitions: the ranges of ids to read, distributed over tasks."""
        options = self._options
        start: dict[str, Position] = {}
        end: dict[str, Position] = {}
        with connect(options.endpoint, at_start=True) as connection:
            names = filter(self._narrowed.wants, options.names(connection))
            states = stream_state.fetch_states(connection, names)
            ColumnClashes(self._schema, options.columns).check(states)
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
        """Yield the rows of one partition. If there is nothing to read, there is one partition without a range."""
        if isinstance(partition, RangePartition):
            yield from read_range(partition, self._schema, self._options)


class PushingBatchReader(RangeBatchReader):
    """A batch reader to which Spark pushes the filters of a query.

    Spark 4.1 to 4.3 keep the plan with the loaded frame, not with the query: after ``frame.where(…)`` another query of
    the same frame reads only what that ``where`` left, and if one query has two filters on it, the last one applies to
    both. No code of a reader runs at that point, so it cannot detect this. Therefore push-down is off unless an option
    asks for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters on ids and stream names to read less; return the filters that Spark still has to evaluate."""
        prefix = self._options.columns.prefix
        ours = {prefix + name: name for name in COLUMNS if prefix + name in self._schema.names}
        self._narrowed, left = narrow(filters, ours)
        return left
