"""A listener for streaming queries: how far behind they are, in the log and for Prometheus.

::

    listener = LagListener(prometheus_file="/var/lib/node_exporter/rillet.prom")
    spark.streams.addListener(listener)
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from ...storage.files import replace_file
from .lag import QueryState, read_sources, read_whole
from .metrics import QueryMetrics

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

LOG: Final = logging.getLogger("rillet.pipeline")


class LagListener(StreamingQueryListener):
    """Records how far each query is behind, from its progress reports; a query without a name is listed by its id.

    ``prometheus_file``: rewritten after each batch, for node_exporter's textfile collector.
    """

    def __init__(self, prometheus_file: str | os.PathLike[str] | None = None) -> None:
        self._file = None if prometheus_file is None else Path(prometheus_file)
        self._lock = threading.Lock()
        self._queries: dict[str, QueryState] = {}
        self._metrics = QueryMetrics(lambda: self.queries)
        self._http: WSGIServer | None = None

    @property
    def queries(self) -> list[QueryState]:
        """The last known state of every query seen, by name."""
        with self._lock:
            return sorted(self._queries.values(), key=lambda query: query.name)

    def text(self) -> str:
        """Return the metrics of all queries in Prometheus' text format."""
        return self._metrics.text()

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve the metrics as ``GET /metrics`` in a thread until ``close``; return the port.

        Return the port.

        Args:
            port: 0: choose a free one.
            host: the address to listen on.
        """
        self._http = self._metrics.serve(port, host)
        return self._http.server_port

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    # Called by Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Record a new query; only this event and progress events have its name."""
        self._keep(str(event.id), QueryState(event.name or str(event.id)))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Record a finished batch."""
        progress = event.progress
        known = self._queries.get(str(progress.id)) or QueryState(progress.name or str(progress.id))
        rows = progress.numInputRows or 0
        sources = [
            {"endOffset": each.endOffset, "latestOffset": each.latestOffset} for each in progress.sources
        ]
        state = replace(
            known,
            batch_id=progress.batchId,
            rows=rows,
            rows_total=known.rows_total + rows,
            batch_seconds=progress.batchDuration / 1000,
            lags=read_sources(sources) + read_whole(sources),
        )
        self._keep(str(progress.id), state)
        if state.lags:
            LOG.info("%s", state)
        for at in state.lags:
            before = max((each.gone or 0 for each in known.lags if each.stream == at.stream), default=0)
            if at.gone and at.gone > before:
                which = "" if at.stream is None else f" of {at.stream}"
                LOG.warning("%s: %d entries%s are gone, unread", state.name, at.gone - before, which)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Record the end of a query, with or without an error."""
        known = self._queries.get(str(event.id)) or QueryState(str(event.id))
        failed = event.exception is not None
        self._keep(str(event.id), replace(known, running=False, failed=failed))
        LOG.log(
            logging.ERROR if failed else logging.INFO,
            "%s: ended%s",
            known.name,
            " with an error" if failed else "",
        )

    def _keep(self, query_id: str, state: QueryState) -> None:
        with self._lock:
            self._queries[query_id] = state
        if self._file is not None:
            replace_file(self._file, self.text().encode(), 0o644)
