"""Group mode: a streaming query that is one consumer of a consumer group, alone or beside others.

The driver reads entries and puts their ids into the offset. Tasks fetch the entries by XRANGE, as often as needed.
When Spark has committed the batch, the driver acknowledges it. Entries that were delivered to us but are in no offset
(the driver died in between) are in our PEL and go into the next batch.

Acknowledging happens in ``latestOffset``, because Spark asks for the next offset only when the batch that ends at
``start`` is in its commit log, even after a restart. ``commit`` comes later, and never for the last batch of a query.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...storage.gc_pause import gc_paused
from ..redis import ids
from ..redis.connection import ServerError, in_spite_of_losses
from ..redis.key_names import key_of
from ..redis.options import OptionError, Options
from ..redis.shards import connect
from ..redis.stream_state import fetch_states
from ..source.column_clashes import ColumnClashes
from ..source.entry_batches import Columns, session_zone, spark_types
from ..source.losses import LOG, DataLossError
from ..source.missed import MissedEntries
from ..source.offsets import OffsetError, check_database
from ..source.positions import Position
from ..source.sizes import rows_worth
from ..spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from ..tcp_quick_ack import QuickAck
from .consumer_names import refuse_a_shared_name
from .dead_letters import move_poison
from .history import judge, take_positions
from .member import Member
from .next_batch import Batch, Gatherer, Limits
from .offset import GroupOffset, Run, shares
from .options import GroupOptions
from .repeated_batch import (
    LeftOut,
    by_stream,
    divide,
    first_kept,
    forget_first,
    joined,
    keep_first,
    leave_out_of_batch,
    left_out,
)
from .task import GROUP_COLUMNS, GroupPartition, read_pieces

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


__all__ = ["GROUP_COLUMNS", "GroupPartition", "GroupStreamReader", "group_columns"]

_NO_GROUP: Final = {
    False: "Create it (XGROUP CREATE), or let createGroup be true",
    True: "It was there before: create it again after the last entry that was read, or begin with a new checkpoint",
}


def group_columns() -> dict[str, DataType]:
    """Return the columns that group mode adds to a schema.

    ``consumer`` is the consumer that the entry was claimed from; for a new entry it is our own name.
    ``delivery_count`` includes this delivery; ``claimed`` is true if the entry was claimed from another consumer.
    """
    return spark_types(GROUP_COLUMNS)


class GroupStreamReader(QuickAck, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("redis-streams").option("mode", "group")``.

    Raises OptionError: an option is missing or malformed.
    """

    def __init__(self, schema: StructType, options: Options | Mapping[str, str]) -> None:
        self._schema = schema
        self._options = GroupOptions.of(options)
        self._column_clashes = ColumnClashes(schema, self._options.columns, group_columns())
        self._gatherer: Gatherer | None = None
        self._acknowledged = -1
        self._returned = -1
        self._gone = 0
        self._dead = 0
        self._until: dict[str, int] | None = None
        self._positions: dict[str, Position] = {}
        self._query = ""
        self._consumer = self._options.consumer or ""
        self._first_batch: GroupOffset | None = None
        self._without: tuple[int, LeftOut] = (-1, {})
        self._ensured: set[str] = set()
        self._missed_by_tasks = MissedEntries(stops=self._options.fail_on_data_loss)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy, which must not include the socket.
        return self.__dict__ | {"_gatherer": None}

    # Called in the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Create missing groups; return the offset before the first batch."""
        # By chance, because Spark gives no id to the planner of a source in Python: its runner has the options and the schema
        # (python_streaming_source_runner.py, 4.3.0), and PythonMicroBatchStream is made without the checkpoint's path.
        # `sql.streaming.queryId` is a local property that only tasks see: too late.
        query = uuid.uuid4().hex[:8]
        options = self._options
        consumer = options.consumer or f"spark-{query}"
        begin = GroupOffset(options.group, consumer, query=query, db=options.endpoint.db)
        self._become(begin)
        gatherer = self._gathering()
        if options.create_group:
            gatherer.member.create_groups({stream: options.start_of(stream) for stream in gatherer.streams()})
        return begin.as_json()

    def _become(self, offset: GroupOffset) -> None:
        """Take the name of a checkpoint's query, and its consumer name unless an option sets one."""
        self._query = self._query or offset.query or uuid.uuid4().hex[:8]
        consumer = self._options.consumer or offset.consumer
        if consumer != self._consumer:
            self.stop()  # what knew no name yet
        self._consumer = consumer

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record the present last ids of the streams; this run ends there."""
        self._until = self._gathering().ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options. Spark only displays it; this reader enforces it."""
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadMaxRows(self._options.max_rows)

    @gc_paused()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Acknowledge the batch that Spark has committed, gather the next one, and return the offset after it.

        Raises:
            OffsetError: the checkpoint belongs to another group.
            DataLossError: pending entries were deleted, or a stream has another history, and ``failOnDataLoss`` is on.
            OptionError: a field of the entries has the name of a metadata column.
            ServerError: the group is gone, or the server refuses.
            ConnectionLost: no answer after all retries.
        """
        committed = self._own(GroupOffset.of_json(start))
        self._become(committed)
        if committed.is_named_only:
            committed = self._first_batch = self._first_batch or self._kept(committed)
        if committed.batch != self._returned:
            # The query starts, or the last offset never became a batch: look into our PEL.
            self.stop()
            self._positions = dict(committed.positions)
        if committed.batch == 0 and self._options.consumer is None:
            gatherer = self._gathering()
            if not gatherer.has_any(self._until):
                self._returned = committed.batch
                return start
            return replace(self._following(committed, Batch()), is_named_only=True).as_json()
        batch, is_repaired = self._gathered(committed, self._limits(limit))
        if not batch.pieces and not is_repaired:
            self._returned = committed.batch
            return start
        return self._following(committed, batch).as_json()

    def _gathered(self, committed: GroupOffset, limits: Limits) -> tuple[Batch, bool]:
        """Gather the next batch, check it for losses and name clashes; also return whether positions were corrected."""
        batch, is_repaired = self._next(committed, limits)
        self._gone += len(batch.gone) + sum(
            self._missed_by_tasks.take(self._gathering().member.connection).values()
        )
        self._dead += batch.dead
        if batch.gone and self._options.fail_on_data_loss:
            self.stop()
            raise DataLossError(_gone_text(batch.gone, self._options.group))
        self._check_names(batch)
        return batch, is_repaired

    def _kept(self, named: GroupOffset) -> GroupOffset:
        return first_kept(self._gathering().member.connection, named) or named

    def _first(self, start: GroupOffset, named: GroupOffset) -> GroupOffset:
        """Return the first batch of a consumer that Spark's log names; gather it unless that was done before."""
        self._become(named)
        if self._first_batch is None:
            self._first_batch = first_kept(self._gathering().member.connection, named)
        if self._first_batch is None:
            batch, _ = self._gathered(start, self._limits(ReadAllAvailable()))
            self._first_batch = replace(
                named, pieces=tuple(batch.pieces), positions=dict(self._positions), is_named_only=False
            )
            keep_first(self._gathering().member.connection, self._first_batch)
            self._returned = named.batch
        return self._first_batch

    def _following(self, committed: GroupOffset, batch: Batch) -> GroupOffset:
        following = replace(
            committed,
            consumer=self._consumer,
            batch=committed.batch + 1,
            pieces=tuple(batch.pieces),
            gone=committed.gone + self._gone,
            dead=committed.dead + self._dead,
            positions=dict(self._positions),
            query=self._query,
            is_named_only=False,
        )
        self._gone = self._dead = 0
        self._returned = following.batch
        return following

    def _judge(self, member: Member) -> set[str]:
        """Return the streams whose history has changed, and adopt their current state."""
        options = self._options
        changed, broken = judge(
            member, self._positions, fail=options.fail_on_data_loss, page=options.fetch_size
        )
        self._ensured -= {name for name, at in changed.items() if at is None}
        positions = self._positions | changed
        self._positions = {name: at for name, at in positions.items() if at is not None}
        return broken

    def _check_names(self, batch: Batch) -> None:
        """Refuse fields with a column's name, before rows are read; delivered entries stay pending with us."""
        streams = self._column_clashes.unseen(piece.stream for piece in batch.pieces)
        try:
            self._column_clashes.check(fetch_states(self._gathering().member.connection, streams))
        except OptionError:
            self.stop()
            raise

    def _next(self, committed: GroupOffset, limits: Limits) -> tuple[Batch, bool]:
        """Acknowledge one batch and gather the next; start again if the connection breaks.

        Return the batch, and whether positions were corrected. A correction must be in the offset even if the batch
        is empty.
        """
        broken: set[str] = set()
        is_found_again = self._options.pattern is None
        while True:
            try:
                # Entries whose delivery was not confirmed are pending with us; a new gatherer looks there first.
                return in_spite_of_losses(
                    lambda: self._next_once(committed, limits, broken),
                    self._options.endpoint.retries,
                    self.stop,
                )
            except BaseException as error:
                self.stop()
                if not isinstance(error, ServerError) or error.code != "NOGROUP":
                    raise
                if is_found_again:
                    raise ServerError(f"{error.words}. {_NO_GROUP[bool(committed.batch)]}") from error
                is_found_again = True  # a stream of the pattern was deleted since it was looked up: a new gatherer does that

    def _next_once(self, committed: GroupOffset, limits: Limits, broken: set[str]) -> tuple[Batch, bool]:
        gatherer = self._gathering()
        broken |= self._judge(gatherer.member)
        if broken or gatherer.member.connection.breaks:
            # The server may lack our last acknowledgement, so look at our pending entries again.
            self.stop()
            self._acknowledged = -1
            gatherer = self._gathering()
        if committed.batch != self._acknowledged:
            # Entries that now have the ids of a lost batch may be different ones.
            ours = [piece for piece in committed.pieces if piece.stream not in broken]
            gatherer.member.acknowledge(ours, self._left_out(committed))
            self._acknowledged = committed.batch
            if self._first_batch is not None:
                forget_first(gatherer.member.connection, self._first_batch)
                self._first_batch = None
        self._ensure_groups(gatherer)
        batch = gatherer.gather(limits, self._until)
        if batch.pieces:
            if gatherer.member.connection.breaks:
                broken |= self._judge(gatherer.member)  # another server may have answered on the way
            self._positions |= take_positions(
                gatherer.member,
                {piece.stream for piece in batch.pieces} | (self._ensured - set(self._positions)),
            )
        return batch, bool(broken)

    def _ensure_groups(self, gatherer: Gatherer) -> None:
        """Create the group for streams that were added to option ``streams``, or deleted after all was read.

        If a group existed before and is missing now, that is an error.
        """
        options = self._options
        if options.pattern is not None or not options.create_group:
            return
        new = [name for name in options.streams if name not in self._positions and name not in self._ensured]
        gatherer.member.create_groups({name: options.later_start_of(name) for name in new})
        self._ensured.update(new)

    @gc_paused()
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return by stream: the group's last delivered id, the stream's last id, lag (null: unknown) and PEL size."""
        gatherer = self._gathering()
        rows = gatherer.member.all_facts(gatherer.streams())
        newest = gatherer.last_ids(rows)
        found = {
            stream: {
                "last_delivered": facts[b"last-delivered-id"].decode(),
                "newest": ids.text(newest[stream]),
                "lag": facts.get(b"lag"),
                "pending": facts[b"pending"],
            }
            for stream, facts in rows.items()
        }
        return {"v": 1, "mode": "group", "group": self._options.group, "streams": found}

    @gc_paused()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[GroupPartition]:
        """Return the partitions of a batch: its entries, distributed over tasks."""
        if start == end:
            return []
        batch = self._own(GroupOffset.of_json(end))
        if batch.is_named_only:
            batch = self._first(self._own(GroupOffset.of_json(start)), batch)
        rows = batch.rows
        if not rows:
            return []  # only positions were corrected
        without = self._left_out(batch) if batch.batch == self._returned else self._run_again(batch)
        worth = self._worth_of_entries(batch)
        weights = [piece.count * worth.get(piece.stream, 1) for piece in batch.pieces]
        parts = max(
            self._options.min_partitions, math.ceil(sum(weights) / self._options.max_rows_per_partition)
        )
        return [
            GroupPartition(
                batch.consumer,
                tuple(share),
                {piece.stream: without[piece.stream] for piece in share if piece.stream in without},
                self._missed_by_tasks.key,
            )
            for share in shares(batch.pieces, weights, parts)
        ]

    def _worth_of_entries(self, batch: GroupOffset) -> dict[str, float]:
        if self._options.max_bytes_per_partition is None:
            return {}
        places: dict[str, list[int]] = {}
        for piece in batch.pieces:
            places.setdefault(piece.stream, []).append(
                piece.first if isinstance(piece, Run) else piece.ids[0]
            )
        return rows_worth(self._gathering().member.connection, places, self._options)

    def _left_out(self, batch: GroupOffset) -> LeftOut:
        """Return the entries that a batch leaves out, by stream."""
        if batch.batch == self._returned:
            return {}  # it is ours, and was not run again
        if self._without[0] != batch.batch:
            connection = self._gathering().member.connection
            found = left_out(connection, batch) if batch.batch else {}
            self._without = batch.batch, found
        return self._without[1]

    def _run_again(self, batch: GroupOffset) -> LeftOut:
        """Count another delivery of a batch that an earlier driver planned; leave out entries delivered too often.

        Raises DataLossError: an entry for the dead letters was deleted, and ``failOnDataLoss`` is on.
        """
        if self._without[0] == batch.batch:
            return self._without[1]
        self._become(batch)
        return in_spite_of_losses(lambda: self._divide(batch), self._options.endpoint.retries, self.stop)

    def _divide(self, batch: GroupOffset) -> LeftOut:
        member = self._gathering().member
        before = left_out(member.connection, batch)
        again, waiting, dead = divide(member, self._options.max_deliveries, batch, before)
        without = joined(before, waiting + dead)
        if without:
            leave_out_of_batch(member.connection, batch, without)
        gone: list[tuple[str, int]] = []
        for stream, poison in by_stream(dead).items():
            moved, deleted = move_poison(member, self._options, stream, poison, 0)
            self._dead += moved
            gone += [(stream, each) for each in deleted]
        for stream, entries in by_stream(again).items():
            member.take(stream, entries, 0)
        LOG.warning(
            "batch %d of group %r is run again: %d entries are delivered again, %d wait for a batch of their own, %d were "
            "delivered too often and are dead letters now",
            batch.batch, batch.group, len(again), len(waiting), len(dead),
        )  # fmt: skip
        self._without = batch.batch, without
        if without:
            self.stop()  # a new gatherer looks for what waits
        self._gone += len(gone)
        if gone and self._options.fail_on_data_loss:
            self.stop()
            raise DataLossError(_gone_text(gone, self._options.group))
        return without

    def stop(self) -> None:
        """Close the connection to the server."""
        if self._gatherer is not None:
            self._gatherer.member.connection.close()
            self._gatherer = None

    def _gathering(self) -> Gatherer:
        if self._gatherer is None:
            connection = connect(self._options.endpoint, at_start=True)
            member = Member(connection, self._options.group, self._consumer)
            self._gatherer = Gatherer(member, self._options)
            try:
                for stream in self._gatherer.streams()[:1] if self._query else ():
                    connection.ask_server_of(
                        key_of(stream),
                        lambda server: refuse_a_shared_name(
                            server, self._options, self._consumer, self._query
                        ),
                    )
            except BaseException:
                self.stop()
                raise
        return self._gatherer

    def _limits(self, limit: ReadLimit) -> Limits:
        rows, size = self._options.max_rows, self._options.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = min(rows, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes if size is None else min(size, limit.max_bytes)
        elif not isinstance(limit, ReadAllAvailable):
            raise TypeError(f"group mode has no limit {type(limit).__name__}")
        return Limits(rows, size)

    def _own(self, offset: GroupOffset) -> GroupOffset:
        check_database(offset.db, self._options.endpoint.db)
        if offset.group != self._options.group:
            raise OffsetError(
                f"the checkpoint belongs to group {offset.group!r}, the query to {self._options.group!r}: "
                "another group needs another checkpoint"
            )
        return offset

    # Called in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of a partition as rows; they are always the same.

        Raises DataLossError: some were deleted since they were delivered, and ``failOnDataLoss`` is on.
        """
        assert isinstance(partition, GroupPartition)
        return read_pieces(
            partition,
            Columns(self._schema, self._options.columns, GROUP_COLUMNS, session_zone()),
            self._options,
        )


def _gone_text(gone: Sequence[tuple[str, int]], group: str) -> str:
    shown = ", ".join(f"{stream!r} {ids.text(each)}" for stream, each in gone[:3])
    return (
        f"{len(gone)} entries that were pending in group {group!r} had been deleted or trimmed "
        f"({shown}{', ...' if len(gone) > 3 else ''}); they are pending no more, so that starting again goes on "
        "without them, as failOnDataLoss=false does at once"
    )
