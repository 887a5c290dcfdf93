"""The state of queries as Prometheus metrics named ``rillet_spark_…``, for a scraper or a text file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from .lag import QueryState

PREFIX: Final = "rillet_spark_"
_METRICS: Final = {
    "entries_behind": ("gauge", "Entries that the stream has and the query has not read yet."),
    "bytes_behind": ("gauge", "Bytes that the append-only file has and the query has not read yet."),
    "seconds_behind": ("gauge", "Time between the last entry of the stream, or write to the file, and the last one read."),
    "entries_gone_total": ("counter", "Entries trimmed or deleted before they were read; in group mode of all streams."),
    "dead_letters_total": ("counter", "Entries that group mode has moved to the dead-letter stream."),
    "pending": ("gauge", "Entries delivered to the group and not acknowledged."),
    "rows_total": ("counter", "Rows that the query has read since it was started."),
    "batch_id": ("gauge", "Number of the last batch."),
    "batch_rows": ("gauge", "Rows of the last batch."),
    "batch_seconds": ("gauge", "How long the last batch took."),
    "running": ("gauge", '1 while the query runs, 0 after it ended, and failed="true" if it did so badly.'),
}  # fmt: skip


class QueryMetrics(Collector):
    """Collects the metrics of queries at each scrape.

    It has its own registry, because the default one would add metrics of this Python process.

    ``queries``: returns the last known state of each query.
    """

    def __init__(self, queries: Callable[[], Iterable[QueryState]]) -> None:
        self._queries = queries
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of all queries, leaving out those without a sample."""
        found = {
            name: Metric(PREFIX + name.removesuffix("_total"), text, kind)
            for name, (kind, text) in _METRICS.items()
        }
        for query in self._queries():
            for name, labels, value in _samples(query):
                found[name].add_sample(PREFIX + name, {"query": query.name, **labels}, value)
        return (metric for metric in found.values() if metric.samples)

    def text(self) -> str:
        """Return the metrics of all queries in Prometheus' text format."""
        return generate_latest(self._registry).decode()

    def serve(self, port: int, host: str) -> WSGIServer:
        """Serve ``/metrics`` in a thread; return the server, which the caller must shut down."""
        return start_http_server(port, host, self._registry)[0]


def _samples(query: QueryState) -> Iterator[tuple[str, dict[str, str], float]]:
    """Return name, labels beside the query, and value of each sample."""
    yield "rows_total", {}, query.rows_total
    yield "batch_id", {}, query.batch_id
    yield "batch_rows", {}, query.rows
    yield "batch_seconds", {}, query.batch_seconds
    yield "running", {"failed": "true"} if query.failed else {}, int(query.running)
    for lag in query.lags:
        labels = {} if lag.stream is None else {"stream": lag.stream}
        values = {
            "entries_behind": lag.entries_behind,
            "bytes_behind": lag.bytes_behind,
            "seconds_behind": lag.seconds_behind,
            "entries_gone_total": lag.gone,
            "dead_letters_total": lag.dead,
            "pending": lag.pending,
        }
        yield from ((name, labels, value) for name, value in values.items() if value is not None)
