"""Group mode: a streaming query that is one consumer of a consumer group, beside others if there are others.

The driver has entries delivered and puts their ids into the offset; tasks fetch the entries by XRANGE, as often as
they must; when Spark has committed the batch, the driver acknowledges it. Whatever is delivered to us and in no offset
(the driver died in between) is in our pending list, and goes into the next batch.

Why in ``latestOffset``: Spark asks for the next offset only when the batch that ends at ``start`` is in its commit
log, after a restart too. ``commit`` comes later, and never for the last batch of a query.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ..quick_ack import QuickAck
from ..redis import ids
from ..redis.connection import ConnectionLost, ServerError
from ..redis.no_cycles import no_cycles
from ..redis.options import OptionError, Options
from ..redis.shards import connect
from ..redis.stream_state import fetch_states
from ..source.entry_batches import ColumnOptions, Columns
from ..source.losses import DataLossError
from ..source.offsets import OffsetError
from ..source.own_names import OwnNames
from .batch import Batch, Gatherer, Limits
from .history import judge, take_positions
from .member import Member
from .offset import GroupOffset, shares
from .options import GroupOptions
from .task import GROUP_COLUMNS, GroupPartition, read_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from ..source.offsets import Position

__all__ = ["GROUP_COLUMNS", "GroupPartition", "GroupStreamReader", "group_columns"]

_NO_GROUP: Final = {
    False: "Create it (XGROUP CREATE), or let createGroup be true",
    True: "It was there before: create it again after the last entry that was read, or begin with a new checkpoint",
}


def group_columns() -> dict[str, DataType]:
    """Return the columns that group mode adds, for a schema.

    ``consumer`` is the consumer that the entry was claimed from, or for a new one our own name; ``delivery_count`` counts this
    delivery, too; ``claimed`` says whether it was taken over from another consumer.
    """
    from pyspark.sql.types import BooleanType, LongType, StringType

    return {"consumer": StringType(), "delivery_count": LongType(), "claimed": BooleanType()}


class GroupStreamReader(QuickAck, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("redis-streams").option("mode", "group")``.

    Args:
        schema: of the rows.
        options: as `GroupOptions` and `ColumnOptions` have them.

    Raises:
        OptionError: an option is missing or malformed.
    """

    def __init__(self, schema: StructType, options: Options | Mapping[str, str]) -> None:
        given = options if isinstance(options, Options) else Options(options)
        self._schema = schema
        self._columns = ColumnOptions.of(given)
        self._options = GroupOptions.of(given)
        self._own_names = OwnNames(schema, self._columns, group_columns())
        self._gatherer: Gatherer | None = None
        self._acknowledged = -1
        self._returned = -1
        self._gone = 0
        self._dead = 0
        self._until: dict[str, int] | None = None
        self._positions: dict[str, Position] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy, which must not drag a socket along.
        return self.__dict__ | {"_gatherer": None}

    # In the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Create the groups that are missing, and begin before the first batch."""
        gatherer = self._gathering()
        if self._options.create_group:
            gatherer.member.create_groups(
                {stream: self._options.start_of(stream) for stream in gatherer.streams()}
            )
        return GroupOffset(self._options.group, self._options.consumer).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the streams end now: entries added later are for another run."""
        self._until = self._gathering().ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limits of the options; Spark shows them, we keep them ourselves."""
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadMaxRows(self._options.max_rows)

    @no_cycles()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Acknowledge the batch that Spark has committed, and have the next one delivered.

        Raises:
            OffsetError: the checkpoint belongs to another group.
            DataLossError: pending entries were deleted, or a stream has another history, and ``failOnDataLoss`` is on.
            OptionError: fields of the entries have names of columns that are none.
            ServerError: the group is gone, or the server refuses.
            ConnectionLost: no answer, after all retries.
        """
        committed = self._own(GroupOffset.of_json(start))
        if committed.batch != self._returned:
            # We begin, or what we returned last never became a batch: look into our pending list.
            self.stop()
            self._positions = dict(committed.positions)
        batch, is_repaired = self._next(committed, self._limits(limit))
        self._gone += len(batch.gone)
        self._dead += batch.dead
        if batch.gone and self._options.fail_on_data_loss:
            self.stop()
            raise DataLossError(_gone_text(batch.gone, self._options.group))
        if not batch.pieces and not is_repaired:
            self._returned = committed.batch
            return start
        self._check_names(batch)
        following = committed.following(
            batch.pieces,
            consumer=self._options.consumer,
            gone=self._gone,
            dead=self._dead,
            positions=dict(self._positions),
        )
        self._gone = self._dead = 0
        self._returned = following.batch
        return following.as_json()

    def _judge(self, member: Member) -> set[str]:
        """Return the streams that are not what they were, from now on known as they are."""
        options = self._options
        changed, broken = judge(
            member, self._positions, fail=options.fail_on_data_loss, page=options.fetch_size
        )
        positions = self._positions | changed
        self._positions = {name: at for name, at in positions.items() if at is not None}
        return broken

    def _check_names(self, batch: Batch) -> None:
        """Refuse what a schema would read wrongly; what was delivered stays pending with us."""
        streams = self._own_names.unseen(piece.stream for piece in batch.pieces)
        try:
            self._own_names.check(fetch_states(self._gathering().member.connection, streams))
        except OptionError:
            self.stop()
            raise

    def _next(self, committed: GroupOffset, limits: Limits) -> tuple[Batch, bool]:
        """Acknowledge one batch and gather the next, again from the start when the connection breaks.

        Returns:
            The batch, and whether positions were corrected, which is to be in the offset even without one.
        """
        losses = 0
        broken: set[str] = set()
        is_found_again = self._options.pattern is None
        while True:
            gatherer = self._gathering()
            try:
                broken |= self._judge(gatherer.member)
                if broken or gatherer.member.connection.breaks:
                    # The server may not have our last acknowledgement: what is pending with us is looked at again.
                    self.stop()
                    self._acknowledged = -1
                    gatherer = self._gathering()
                if committed.batch != self._acknowledged:
                    # What has the ids of a lost batch now is perhaps of another one.
                    ours = [piece for piece in committed.pieces if piece.stream not in broken]
                    gatherer.member.acknowledge(ours)
                    self._acknowledged = committed.batch
                batch = gatherer.gather(limits, self._until)
                if batch.pieces:
                    if gatherer.member.connection.breaks:
                        broken |= self._judge(gatherer.member)  # another server may have answered on the way
                    self._positions |= take_positions(
                        gatherer.member, {piece.stream for piece in batch.pieces}
                    )
                return batch, bool(broken)
            except ConnectionLost:
                # Entries whose delivery we did not hear of are pending with us, where a new gatherer looks first.
                self.stop()
                losses += 1
                if losses > self._options.endpoint.retries:
                    raise
            except BaseException as error:
                self.stop()
                if not isinstance(error, ServerError) or error.code != "NOGROUP":
                    raise
                if is_found_again:
                    raise ServerError(f"{error.words}. {_NO_GROUP[bool(committed.batch)]}") from error
                is_found_again = True  # a stream of the pattern was deleted since it was looked up: a new gatherer does that

    @no_cycles()
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return where the group stands, by stream: how far it and the stream are, entries not delivered (null if unknown), pending."""
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

    @no_cycles()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[GroupPartition]:
        """Share the entries of a batch among tasks."""
        if start == end:
            return []
        batch = self._own(GroupOffset.of_json(end))
        rows = batch.rows
        if not rows:
            return []  # only positions were corrected
        parts = max(self._options.min_partitions, -(-rows // self._options.max_rows_per_partition))
        return [GroupPartition(batch.consumer, tuple(share)) for share in shares(batch.pieces, parts)]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: see above."""

    def stop(self) -> None:
        """Close the connection."""
        if self._gatherer is not None:
            self._gatherer.member.connection.close()
            self._gatherer = None

    def _gathering(self) -> Gatherer:
        if self._gatherer is None:
            member = Member(
                connect(self._options.endpoint, at_start=True), self._options.group, self._options.consumer
            )
            self._gatherer = Gatherer(member, self._options, time.monotonic)
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
        if offset.group != self._options.group:
            raise OffsetError(
                f"the checkpoint belongs to group {offset.group!r}, the query to {self._options.group!r}: "
                "another group needs another checkpoint"
            )
        return offset

    # In a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Fetch the entries of a partition; the same ones whenever it is asked.

        Raises:
            DataLossError: some were deleted since they were delivered, and ``failOnDataLoss`` is on.
        """
        assert isinstance(partition, GroupPartition)
        return read_pieces(partition, Columns(self._schema, self._columns, GROUP_COLUMNS), self._options)


def _gone_text(gone: Sequence[tuple[str, int]], group: str) -> str:
    shown = ", ".join(f"{stream!r} {ids.text(each)}" for stream, each in gone[:3])
    return (
        f"{len(gone)} entries that were pending in group {group!r} had been deleted or trimmed "
        f"({shown}{', ...' if len(gone) > 3 else ''}); they are pending no more, so that starting again goes on "
        "without them, as failOnDataLoss=false does at once"
    )
