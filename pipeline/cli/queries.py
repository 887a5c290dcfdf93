"""``rillet pipeline queries URL|FILE…``: show the state of running queries, in one table or as JSON.

It reads the metrics that `LagListener`, or a job with ``--metrics-port``, provides to Prometheus, because Spark gives
other processes no information.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.parser import text_string_to_metric_families

from ..error_tokens import LabelledError
from ..monitoring.metrics import PREFIX

if TYPE_CHECKING:
    import argparse

_TIMEOUT_SECONDS: Final = 10
# Column → the metric. The second list is per stream, or per query if the query has one value for all its streams.
_OF_QUERY: Final = {"QUERY": "query", "STATE": "state", "BATCH": "batch_id", "ROWS": "batch_rows", "TOOK S": "batch_seconds"}  # fmt: skip
_OF_STREAM: Final = {
    "STREAM": "stream", "BEHIND": "entries_behind", "BEHIND S": "seconds_behind", "BEHIND BYTES": "bytes_behind",
    "PENDING": "pending", "GONE": "entries_gone_total", "DEAD LETTERS": "dead_letters_total",
}  # fmt: skip


class MetricsError(LabelledError, ValueError):
    """The text that was read has no metrics of a query."""

    label = "NO_METRICS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``queries``."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="URL|FILE",
        help="the metrics of a LagListener (serve, prometheus_file) or of a job with --metrics-port",
    )
    parser.add_argument("--json", action="store_true", help="a list of queries, each with its streams")


def run(arguments: argparse.Namespace) -> int:
    """Print the state of the queries; return 1 if one of them failed."""
    queries = [query for source in arguments.sources for query in read_queries(source)]
    if arguments.json:
        sys.stdout.write(json.dumps(queries, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in table(queries))
    return 1 if any(query["state"] == "failed" for query in queries) else 0


def read_queries(source: str) -> list[dict[str, Any]]:
    """Return the state of each query that a listener reports, as a dict for JSON.

    ``source``: the URL of its metrics, or a file with them.

    Raises:
        MetricsError: the text is not metrics, or has no query.
        OSError: it cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    try:
        for sample in (
            each for family in text_string_to_metric_families(_read(source)) for each in family.samples
        ):
            if not sample.name.startswith(PREFIX):
                continue
            fact = sample.name.removeprefix(PREFIX)
            name = sample.labels["query"]
            query = found.setdefault(name, {"query": name, "state": "running", "streams": {}})
            if fact == "running":
                query["state"] = (
                    "running" if sample.value else "failed" if "failed" in sample.labels else "ended"
                )
                continue
            value = sample.value if "seconds" in fact else int(sample.value)
            if (stream := sample.labels.get("stream")) is None:
                query[fact] = value
            else:
                query["streams"].setdefault(stream, {"stream": stream})[fact] = value
    except ValueError as error:
        raise MetricsError(f"{source} has no metrics of Prometheus: {error}") from None
    if not found:
        raise MetricsError(
            f"{source} has no query: is a LagListener added to the session, and has a query begun?"
        )
    return [query | {"streams": list(query["streams"].values())} for query in found.values()]


def table(queries: Iterable[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: one per stream of each query; the first one also has the query's own values."""
    rows = [[*_OF_QUERY, *_OF_STREAM]]
    for query in queries:
        own = {fact: value for fact, value in query.items() if fact in _OF_STREAM.values()}
        lines = [*([own] if own or not query["streams"] else []), *query["streams"]]
        for number, line in enumerate(lines):
            facts = [query.get(fact) if number == 0 else None for fact in _OF_QUERY.values()]
            facts += [line.get(fact) for fact in _OF_STREAM.values()]
            rows.append(["" if each is None else _cell(each) for each in facts])
    kept = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in kept]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*kept, strict=True)
    ]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isprintable() else ascii(value)[1:-1]
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _read(source: str) -> str:
    if not source.startswith(("http://", "https://")):
        return Path(source).read_text(encoding="utf-8")
    with urllib.request.urlopen(source, timeout=_TIMEOUT_SECONDS) as reply:  # noqa: S310 - of the two schemes above
        text: str = reply.read().decode()
        return text
