"""The Spark format ``redis-aof``: the delivery ledger of an append-only folder, for batches and streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from ..redis.options import FLAG, Kind, OptionError, Options, number, option, words
from ..source.first_batch import FirstBatch, begin_of
from ..spark_versions import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow, stream_reader
from ..tcp_quick_ack import QuickAck
from . import schema as columns
from .files.follower import Follower, Place
from .files.piece import read_piece
from .files.plan import PIECE_SIZE, plan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, kw_only=True)
class FilesOptions:
    """The options of ``spark.read.format("redis-aof")``."""

    path: str = option(
        "path",
        Kind("path"),
        None,
        "the folder, its manifest or one file; what `load` is given",
        required=True,
    )
    split_bytes: int = option(
        "splitBytes", number("bytes"), PIECE_SIZE, "the size of a task's part of a file; 0: no file is split"
    )
    history: bool = option(
        "history", FLAG, True, "begin with the files that rewrites have replaced and that are kept"
    )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Read the options. Raises OptionError: one is unknown, missing or malformed."""
        given = Options(options)
        given.refuse_unknown(cls)
        return cls(**given.read(cls))


@dataclass(frozen=True, kw_only=True)
class FollowingOptions(FilesOptions):
    """The options of ``spark.readStream.format("redis-aof")``."""

    max_bytes: int = option("maxBytesPerTrigger", number("bytes", 1), PIECE_SIZE, "the most in a micro-batch")
    start: str = option(
        "startingOffsets", words("earliest", "latest"), "earliest", "where a new query begins"
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss", FLAG, True, "stop when files are gone unread; else report it and go on"
    )


class LedgerDataSource(DataSource):
    """The Spark data source ``redis-aof``.

    Register it with ``rillet.pipeline.register(spark)``; then ``format("redis-aof")`` reads.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``redis-aof``."""
        return "redis-aof"

    def schema(self) -> StructType:
        """Return the schema: one row per event, see ``ledger.schema``."""
        return columns.struct()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ``spark.read``."""
        _refuse_other(schema)
        return LedgerReader(FilesOptions.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of ``spark.readStream``."""
        _refuse_other(schema)
        return stream_reader(LedgerStreamReader(FollowingOptions.of(self.options)))


class LedgerReader(QuickAck, DataSourceReader):
    """Reads a folder as it is when the reader plans; what is appended later is ignored."""

    def __init__(self, options: FilesOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the pieces of the ledger's files, in the order of their rows."""
        options = self._options
        pieces = plan(options.path, piece_size=options.split_bytes, history=options.history)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ledger's rows of a piece of a file."""
        return read_piece(partition.value)


class LedgerStreamReader(QuickAck, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a folder for one query. It lives in the driver; tasks get copies without files."""

    def __init__(self, options: FollowingOptions) -> None:
        self._options = options
        self._ahead: Place | None = None
        self._first_batch = FirstBatch()
        self._follower = Follower(
            options.path,
            piece_size=options.split_bytes,
            history=options.history,
            tolerate_loss=not options.fail_on_data_loss,
        )

    def __reduce__(self) -> tuple[type, tuple[FollowingOptions], dict[str, Any]]:
        """Pickle only the options: each task gets its own reader."""
        return LedgerStreamReader, (self._options,), {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a new query: the first record of the ledger."""
        follower = self._follower
        start = follower.first() if self._options.start == "earliest" else follower.last()
        return self._first_batch.begins_at(start.encode())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a batch in bytes of the files."""
        return ReadMaxBytes(self._options.max_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset after the next batch; ``start`` if nothing is new."""
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else 1 << 62
        at = Place.decode(start)
        self._ahead = self._follower.ahead(at, most)
        return start if self._ahead == at else self._first_batch.following(start, self._ahead.encode())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the present end of the files as the end of this run."""
        self._follower.stop_here()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the server's position in the file, and the bytes and seconds that the query is behind."""
        if self._ahead is None:
            return None
        return {"v": 1, "mode": "ledger", **self._follower.backlog(self._ahead)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of a batch: one piece of a file each."""
        pieces = self._follower.pieces(Place.decode(begin_of(start, end)), Place.decode(end))
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ledger's rows of a piece of a file."""
        return read_piece(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Close the files before ``end``: their batch is committed."""
        self._follower.forget(Place.decode(end))

    def stop(self) -> None:
        """Close all files of the folder."""
        self._follower.close()


def _refuse_other(schema: StructType) -> None:
    if schema != columns.struct():
        raise OptionError("redis-aof has columns of its own: load it without .schema()")
