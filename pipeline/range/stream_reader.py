"""``spark.readStream`` in range mode: the checkpoint holds the last id read of each stream, and no other state.

Ids only grow, so the range between two positions always holds the same entries. A repeated task, a batch repeated
after a crash, and a DataFrame that is used twice therefore read the same entries.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from ...storage.gc_pause import gc_paused
from ..redis import ids, stream_state
from ..redis.key_names import key_of
from ..redis.shards import connect
from ..redis.sized_reads import SizedReads
from ..redis.stream_state import StreamState
from ..source import offsets
from ..source.column_clashes import ColumnClashes
from ..source.entry_lookup import Answers, EntryLookup
from ..source.first_batch import FirstBatch, begin_of
from ..source.loss_detection import check_entries, describe, reconcile, untouched
from ..source.losses import report_loss
from ..source.missed import MissedEntries
from ..source.options import RangeStreamOptions
from ..source.positions import Position, resolve
from ..source.sizes import Pace
from ..spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from ..tcp_quick_ack import QuickAck
from .partitions import names_to_cut, range_partitions, worth_of_entries
from .split import share_rows
from .task import RangePartition, read_range

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType


Steps = list[tuple[int, int]]
_ENDED_KEPT: Final = 100


class RangeStreamReader(QuickAck, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads ranges of ids for one streaming query. It lives in the driver; tasks get copies without the connection."""

    def __init__(self, schema: StructType, options: RangeStreamOptions) -> None:
        self._schema = schema
        self._options = options
        self._connection = connect(options.endpoint, at_start=True)
        self._sized = SizedReads(self._connection)
        self._column_clashes = ColumnClashes(schema, options.columns)
        self._names: list[str] = list(options.streams)
        self._names_at: float | None = None
        self._first_batch = FirstBatch()
        self._steps: dict[tuple[str, int, int], Steps] = {}
        # The latest offsets in Spark's form, each with its parsed form: Spark passes the same offset several times.
        self._offsets: deque[tuple[dict[str, Any], dict[str, Position]]] = deque(maxlen=2)
        self._targets: dict[str, StreamState | None] | None = None
        self._moved_at: float | None = None
        self._bytes_left: int | None = None
        self._seen: dict[str, StreamState | None] | None = None
        self._missed_by_tasks = MissedEntries(stops=options.fail_on_data_loss)
        self._missed: dict[str, int] = {}

    def __reduce__(self) -> tuple[type, tuple[StructType, RangeStreamOptions], dict[str, Any]]:
        """Pickle only the schema and the options, which is all that tasks need."""
        return type(self), (self._schema, self._options), {}

    # Called by Spark in the driver

    @gc_paused()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a new query starts."""
        found: dict[str, Position] = {}
        for name, now in stream_state.fetch_states(self._connection, self._find_names()).items():
            bound = self._options.start.of(name)
            if now is not None and _reaches(now, bound):
                found[name] = resolve(bound, now)
            elif not isinstance(bound, int):
                found[name] = Position(0, 0)  # it does not exist yet: it is read from its first entry on
        return self._first_batch.begins_at(offsets.dump(found, self._options.endpoint.db))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options, which Spark passes to ``latestOffset``."""
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_rows is not None:
            return ReadMinRows(options.min_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the present last ids of the streams; the query ends when it has read up to them."""
        self._targets = stream_state.fetch_states(self._connection, self._find_names())

    @gc_paused()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset after the next batch; ``start`` itself if there is nothing to read.

        Raises:
            DataLossError: entries are gone, or a stream was replaced, and ``failOnDataLoss`` is set.
            OptionError: a field of the entries has the name of a metadata column.
        """
        begin = self._positions(start)
        states = self._seen = self._states(begin)
        positions, corrected = self._reconciled(begin, states)
        for name, count in self._lost_since_planned().items():
            if name in positions:
                positions[name] = replace(positions[name], gone=positions[name].gone + count)
        limited = not isinstance(limit, ReadAllAvailable)
        ready: dict[str, tuple[Position, Position]] = {}  # from where to where at most
        backlogs: dict[str, int] = {}
        for name, now in states.items():
            if now is None:
                continue
            if name not in positions:
                # The stream joins with this batch, and is read from the next batch on, so that all its entries are
                # counted.
                bound = self._options.start.later(name)
                if _reaches(now, bound):
                    positions[name] = resolve(bound, now)
                continue
            if name in corrected:
                continue  # in a batch of its own, without rows: so that each batch is of one history
            at = positions[name]
            if at.added is None and now.added is not None and (limited or self._targets is not None):
                # Reading began in the middle of the stream and will not reach its end at once, so count from now on.
                unread = self._lookup(name, now).count_after(at.id)
                at = positions[name] = at.moved(at.id, now.added - unread)
            goal = self._goal(name, at, now)
            if goal.id > at.id:
                ready[name] = at, goal
                known = None if goal.added is None or at.added is None else goal.added - at.added
                backlogs[name] = max(now.length, 1) if known is None else known
        if limited and positions == begin and self._should_wait(sum(backlogs.values())):
            return start
        shares = (
            share_rows(self._options.max_rows, backlogs) if limited and self._options.max_rows else backlogs
        )
        self._steps.clear()
        self._bytes_left = self._options.max_bytes if limited else None
        for name, (at, goal) in ready.items():
            positions[name] = self._advance(name, at, goal, shares.get(name, 0), limited=limited)
        self._bytes_left = None
        self._forget_ended(positions, begin)
        for name, at in positions.items():
            if at != begin.get(name) and (now := states.get(name)) is not None:
                positions[name] = at.with_snapshot(now)
        if positions == begin:
            return start
        end = self._first_batch.following(start, offsets.dump(positions, self._options.endpoint.db))
        self._offsets.append((end, positions))
        self._moved_at = time.monotonic()
        return end

    @gc_paused()
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at the last ids of the streams; progress reports show it as ``latestOffset``.

        Spark calls this right after `latestOffset`, so its result is reused: with ten thousand streams reading it
        again would take a quarter of the planning time.
        """
        states, self._seen = self._seen, None
        if states is None:
            states = stream_state.fetch_states(self._connection, self._names)
        found = {name: Position(now.last, now.added) for name, now in states.items() if now is not None}
        return offsets.dump(found, self._options.endpoint.db)

    @gc_paused()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of one batch; planning it again gives the same ids."""
        begin, to = self._positions(begin_of(start, end)), self._positions(end)
        worth = worth_of_entries(begin, to, self._options, self._connection)
        states = stream_state.fetch_states(self._connection, names_to_cut(begin, to, self._options, worth))
        walked = {
            name: self._counted_steps(name, begin[name], to[name], now)
            for name, now in states.items()
            if now is not None
        }
        steps = {name: counted for name, counted in walked.items() if counted}
        found: list[InputPartition] = [
            replace(each, losses=self._missed_by_tasks.key)
            for each in range_partitions(begin, to, states, self._options, self._connection, steps, worth)
        ]
        return found

    def stop(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    # Called by Spark in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition: the entries in its ranges of ids."""
        assert isinstance(partition, RangePartition)
        return read_range(partition, self._schema, self._options)

    # Computing the end of a batch

    def _positions(self, tree: dict[str, Any]) -> dict[str, Position]:
        """Parse an offset, or return it from the cache; the caller must not change the result."""
        for known, positions in self._offsets:
            if known == tree:
                return positions
        found = offsets.load(tree)
        offsets.check_database(tree["db"], self._options.endpoint.db)
        self._offsets.append((tree, found))
        return found

    def _counted_steps(self, name: str, at: Position, to: Position, now: StreamState) -> Steps | None:
        """Return the counted steps of a range that is cut; walk over it if that has not been done and is necessary.

        Tasks that share a range do not know the number of its entries. So if an entry has disappeared since the range
        was planned (perhaps long ago, in another process), the entries are counted here.
        """
        if to.id <= at.id or to.generation != at.generation:
            return None
        if (walked := self._steps.get((name, at.id, to.id))) is not None:
            return walked
        rows = at.rows_to(to)
        if rows is None or untouched(at, to, now, self._lookup(name, now)):
            return None
        steps = self._walk(name, at.id, to.id, None)
        if (missing := rows - sum(count for _, count in steps)) > 0:
            report_loss(_gone_text(missing, name, at), fail=self._options.fail_on_data_loss)
            self._missed[name] = self._missed.get(name, 0) + missing
        return steps

    def _lost_since_planned(self) -> dict[str, int]:
        """Return the number of entries lost, by stream, when the last batch was planned again or read."""
        found, self._missed = self._missed, {}
        for name, count in self._missed_by_tasks.take(self._connection).items():
            found[name] = found.get(name, 0) + count
        return found

    def _forget_ended(self, positions: dict[str, Position], begin: Mapping[str, Position]) -> None:
        """Drop streams of a pattern that are gone for good, except the latest: a failover may bring those back."""
        if self._options.pattern is not None:
            ended = [name for name, at in positions.items() if at.is_ended and at.gone == begin[name].gone]
            ended.sort(key=lambda name: positions[name].id)
            for name in ended[:-_ENDED_KEPT]:
                del positions[name]

    def _find_names(self) -> list[str]:
        """Return the streams to read. A pattern is looked up regularly, but not after AvailableNow has its targets."""
        if self._options.pattern is None or self._targets is not None:
            return self._names
        now = time.monotonic()
        if self._names_at is None or now - self._names_at >= self._options.discovery_ms / 1000:
            self._names = self._options.names(self._connection)
            self._names_at = now
        return self._names

    def _states(self, positions: Mapping[str, Position]) -> dict[str, StreamState | None]:
        """Return the states of the streams to read, and of streams that the pattern found earlier and that are gone."""
        states = stream_state.fetch_states(self._connection, self._find_names())
        self._column_clashes.check(states)
        if self._options.pattern is not None:
            missed = [name for name, at in positions.items() if name not in states and not at.is_ended]
            found = stream_state.fetch_states(self._connection, missed)
            states |= {name: None for name, now in found.items() if now is None}
        return states

    def _lookup(self, name: str, now: StreamState | None, answers: Answers | None = None) -> EntryLookup:
        return EntryLookup(self._connection, name, now, answers or {}, self._options.fetch_size)

    def _reconciled(
        self, begin: Mapping[str, Position], states: Mapping[str, StreamState | None]
    ) -> tuple[dict[str, Position], set[str]]:
        """Adapt the positions to the current streams; also return the streams whose history has changed.

        Raises DataLossError: entries are gone, or a stream was replaced, and ``failOnDataLoss`` is set.
        """
        positions, corrected = dict(begin), set()
        known = {name: at for name, at in begin.items() if name in states}
        answers = check_entries(self._connection, known, states)
        for name, at in known.items():
            now = states[name]
            verdict = reconcile(at, now, self._lookup(name, now, answers))
            if verdict.is_loss:
                what, otherwise = describe(name, at, now, verdict)
                report_loss(what, fail=self._options.fail_on_data_loss, otherwise=otherwise)
            if verdict.is_another_history:
                corrected.add(name)
                if self._targets is not None:
                    self._targets[name] = now
            positions[name] = verdict.position
        return positions, corrected

    def _goal(self, name: str, at: Position, now: StreamState) -> Position:
        """Return the end of the stream, or its end when AvailableNow began."""
        if self._targets is None:
            return at.moved(now.last, now.added)
        target = self._targets.get(name)
        if target is None:
            return at
        if target.last >= now.last:
            return at.moved(now.last, now.added)
        # If entries after the target are gone, the stream's count does not give the number of entries before the
        # target.
        whole = now.max_deleted is not None and now.max_deleted <= target.last
        whole = whole and now.first is not None and now.first <= target.last
        return at.moved(max(target.last, at.id), target.added if whole else None)

    def _should_wait(self, rows: int) -> bool:
        options = self._options
        if options.min_rows is None or self._targets is not None or rows >= options.min_rows:
            return False
        return self._moved_at is not None and time.monotonic() - self._moved_at < options.max_delay_seconds

    def _advance(self, name: str, at: Position, goal: Position, rows: int, *, limited: bool) -> Position:
        """Return the end of the next batch in one stream: the goal, or where the row or byte limit is reached."""
        options = self._options
        max_rows = options.max_rows if limited else None
        known = None if goal.added is None or at.added is None else goal.added - at.added
        is_uncounted = goal.added is None and at.added is not None
        is_near = not is_uncounted if max_rows is None else known is not None and known <= rows
        if self._bytes_left is None and is_near:
            return goal
        if rows == 0 or (self._bytes_left is not None and self._bytes_left <= 0):
            return at
        steps = self._walk(name, at.id, goal.id, rows if max_rows is not None else None)
        read = sum(count for _, count in steps)
        passed = None if at.added is None else at.added + read
        self._steps[name, at.id, steps[-1][0] if steps else goal.id] = steps
        if not steps or steps[-1][0] == goal.id:
            missing = 0 if known is None else known - read
            if missing > 0:  # they went between the state and the walk
                report_loss(_gone_text(missing, name, at), fail=options.fail_on_data_loss)
            return goal.moved(goal.id, passed if is_uncounted else goal.added, gone=max(missing, 0))
        return at.moved(steps[-1][0], passed)

    def _walk(self, name: str, after: int, upto: int, rows: int | None) -> Steps:
        """Walk over entries until the row or byte limit is reached; end with ``upto`` if there are no more entries."""
        steps: Steps = []
        pace = Pace(self._connection, self._options.fetch_size, self._options.max_bytes_per_partition)
        while after < upto and rows != 0 and (self._bytes_left is None or self._bytes_left > 0):
            wanted = pace.count if rows is None else min(pace.count, rows)
            chunk, is_end = self._chunk(name, after, upto, wanted)
            pace.saw(len(chunk))
            taken = self._within_bytes(chunk)
            if is_end and taken == len(chunk):
                steps.append((upto, taken))
                return steps
            after = ids.parse(chunk[taken - 1][0])
            steps.append((after, taken))
            rows = None if rows is None else rows - taken
        return steps

    def _chunk(self, name: str, after: int, upto: int, wanted: int) -> tuple[list[Any], bool]:
        """Return the next entries, and whether they are the last; limit their bytes if the server can."""
        key = key_of(name)
        if self._bytes_left is None:
            chunk = self._connection.call(
                "XRANGE", key, ids.encode(after + 1), ids.encode(upto), "COUNT", wanted
            )
            return chunk, len(chunk) < wanted
        reply = self._sized.call(
            ("XREAD", "COUNT", wanted), self._bytes_left, ("STREAMS", key, ids.encode(after))
        )
        chunk = reply[0][1] if reply else []
        is_end = not chunk
        while chunk and ids.parse(chunk[-1][0]) > upto:
            chunk.pop()
            is_end = True
        return chunk, is_end

    def _within_bytes(self, chunk: list[Any]) -> int:
        """Return how many entries fit the byte limit; at least one, so that a big entry does not stop the query."""
        if self._bytes_left is None:
            return len(chunk)
        for index, (word, fields) in enumerate(chunk):
            self._bytes_left -= len(word) + sum(map(len, fields))
            if self._bytes_left <= 0:
                return index + 1
        return len(chunk)


def _reaches(now: StreamState, bound: int | str) -> bool:
    """Return True if the stream has reached the start of reading, which may be a moment in the future."""
    return not isinstance(bound, int) or bound <= now.last


def _gone_text(gone: int, name: str, at: Position) -> str:
    return f"{gone} entries of stream {name!r} after {ids.text(at.id)} were trimmed or deleted before they were read"
