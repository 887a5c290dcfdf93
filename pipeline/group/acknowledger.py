"""Acknowledge a batch of group mode when Spark commits it, not when Spark asks for the next one.

A source learns of a commit only when the next batch is made. With a long trigger interval that is late, and for the
last batch before ``query.stop()`` it happens at the next start. Spark notifies listeners in the driver at once,
though::

    query = frame.writeStream.trigger(processingTime="10 minutes").start()
    acknowledger = Acknowledger(query, options)  # the options of the source
    spark.streams.addListener(acknowledger)
    ...
    query.stop()
    spark.streams.removeListener(acknowledger)
    acknowledger.settle("/path/to/checkpoint")

Do not use it for queries with asyncProgressTrackingEnabled: they commit later than they report.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ..folders import Folder, LocalFolder, folder_of
from ..redis.connection import RedisError
from ..redis.shards import connect
from ..source.losses import LOG
from ..source.offsets import OffsetError
from .member import Member
from .offset import GroupOffset
from .options import GroupOptions
from .repeated_batch import first_kept, left_out

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
    from pyspark.sql.streaming.query import StreamingQuery


class Acknowledger(StreamingQueryListener):
    """Listens to one query and acknowledges over its own connection. Acknowledging an entry twice has no effect.

    Raises OptionError: one is missing or malformed.
    """

    def __init__(self, query: StreamingQuery, options: Mapping[str, str]) -> None:
        self._query = str(query.id)
        found = GroupOptions.of(options)
        self._member = Member(connect(found.endpoint, at_start=True), found.group, found.consumer or "")
        self._lock = threading.Lock()

    def settle(self, checkpoint: str | os.PathLike[str]) -> int:
        """Acknowledge the last batch that a checkpoint records as committed; return its number, -1 without one.

        Call it after the query has stopped: it closes the connection.

        Args:
            checkpoint: a local folder, or as a string the address of a folder on any file system that Spark can reach.

        Raises:
            JobError: Spark cannot reach it.
            OSError: it cannot be read.
            RedisError: the server cannot be reached, or refuses. The next start of the query acknowledges the batch.
        """
        try:
            if isinstance(checkpoint, str):
                folder: Folder = folder_of(checkpoint, SparkSession.getActiveSession())
            else:
                folder = LocalFolder(Path(checkpoint))
            number = max((int(name) for name in folder.names("commits") if name.isdigit()), default=-1)
            if number >= 0:
                # An offset file holds a version, Spark's metadata, then the offset of each source.
                self._acknowledge(folder.text("offsets", str(number)).splitlines()[2:])
            return number
        finally:
            self.close()

    def close(self) -> None:
        """Close the acknowledger's connection to the server."""
        with self._lock:
            self._member.connection.close()

    def _acknowledge(self, offsets: list[Any]) -> None:
        for text in offsets:
            batch = self._own(text)
            if batch is not None:
                with self._lock:
                    connection = self._member.connection
                    if batch.is_named_only:
                        batch = first_kept(connection, batch) or batch
                    without = left_out(connection, batch)
                    self._member.acknowledge(batch.pieces, without)

    def _own(self, text: Any) -> GroupOffset | None:
        """Return this offset if it is of our group; other sources of the query may read other groups."""
        try:
            offset = GroupOffset.of_json(text) if isinstance(text, str) and text.startswith("{") else None
        except OffsetError:
            return None
        return offset if offset is not None and offset.group == self._member.group else None

    # Called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: no batch is committed yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Acknowledge the batch, which is now in the commit log."""
        if str(event.progress.id) != self._query:
            return
        try:
            self._acknowledge([source.endOffset for source in event.progress.sources])
        except RedisError as error:
            # The source acknowledges it with the next batch.
            LOG.warning("batch %d is not acknowledged yet: %s", event.progress.batchId, error)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: all commits were reported before, or ``settle`` reads them."""
