"""prometheus-redis-exporter on Rillet gives the metrics that it gives on Redis: names, labels, values of streams."""

import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.ports import free_port
from support.programs.clients import require_program
from support.servers import ServerProcess, start_server
from support.tool import run_program
from support.until import until

# What the machine has, and counters of the exporter itself.
LINE = re.compile(r"^(?P<name>redis_\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Metrics = dict[tuple[str, frozenset[tuple[str, str]]], float]


@contextmanager
def exporter(server: ServerProcess) -> Iterator[str]:
    """The exporter of Debian on a server; gives the address of its metrics."""
    program = require_program("prometheus-redis-exporter", "exporter")
    port = free_port()
    words = [
        "-redis.addr", f"redis://127.0.0.1:{server.port}", "-web.listen-address", f"127.0.0.1:{port}",
        "-check-streams", "*,db3=*", "-redis-only-metrics",
    ]  # fmt: skip
    with subprocess.Popen([program, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            address = f"http://127.0.0.1:{port}/metrics"
            until(lambda: fetched(address) is not None)
            yield address
        finally:
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()


def fetched(address: str) -> str | None:
    with suppress(OSError), urllib.request.urlopen(address, timeout=20) as reply:
        return reply.read().decode()
    return None


def metrics_of(text: str) -> Metrics:
    return {
        (found["name"], frozenset(LABEL.findall(found["labels"] or ""))): float(found["value"])
        for found in LINE.finditer(text)
    }


def fill(server: ServerProcess) -> None:
    """Streams in two databases: groups that lag, hold entries, have none; names of all kinds."""
    with server.wire() as wire:
        for number in range(1, 21):
            wire.call("XADD", "orders", f"{number}-0", "n", number)
        wire.call("XADD", 'odd "name"', "5-1", "a", "b")
        wire.call("XGROUP", "CREATE", "empty", "waiting", "$", "MKSTREAM")
        for group, start in ("billing", "0"), ("shipping", "5-0"), ("idle", "$"):
            wire.call("XGROUP", "CREATE", "orders", group, start)
        wire.call("XREADGROUP", "GROUP", "billing", "Bob", "COUNT", 7, "STREAMS", "orders", ">")
        wire.call("XREADGROUP", "GROUP", "billing", "Alice", "COUNT", 3, "STREAMS", "orders", ">")
        wire.call("XACK", "orders", "billing", "1-0", "2-0")
        wire.call("XDEL", "orders", "3-0", "20-0")
        wire.call("XGROUP", "CREATECONSUMER", "orders", "shipping", "Carol")
        wire.call("SELECT", 3)
        wire.call("XADD", "other", "1-0", "a", "b")
        wire.call("SET", "text", "no stream")


@pytest.fixture(
    scope="module", params=[("rillet-7.0", "redis7"), ("rillet", "redis810")], ids=["7.0", "8.10"]
)
def pair(request) -> tuple[Metrics, Metrics]:
    """What is measured of Rillet and of a real server of its version."""
    found = []
    for kind in request.param:
        with start_server(kind) as server:
            fill(server)
            with exporter(server) as address:
                found.append(metrics_of(fetched(address) or ""))
    ours, theirs = found
    return ours, theirs


def of_streams(metrics: Metrics) -> Metrics:
    return {key: value for key, value in metrics.items() if key[0].startswith("redis_stream_")}


def test_streams_groups_and_consumers_have_the_values_that_they_have_on_redis(pair):
    ours, theirs = map(of_streams, pair)
    timed = {key for key in theirs if "idle" in key[0]}
    assert ours.keys() == theirs.keys()
    assert {key: ours[key] for key in ours.keys() - timed} == {
        key: theirs[key] for key in theirs.keys() - timed
    }
    assert ("redis_stream_length", frozenset({("db", "db3"), ("stream", "other")})) in theirs


def test_the_metrics_are_the_same(pair):
    ours, theirs = ({name for name, _ in each} for each in pair)
    assert ours == theirs


def test_the_scrape_finds_no_error(pair):
    for each in pair:
        last = [value for (name, _), value in each.items() if name == "redis_exporter_last_scrape_error"]
        assert last == [0.0]
        assert each["redis_up", frozenset()] == 1.0


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "grafana.md").read_text(encoding="utf-8")


def test_the_page_on_grafana_asks_for_metrics_that_there_are(pair):
    asked = set(re.findall(r"\bredis_[a-z_]+", PAGE)) - {"redis_exporter"}
    newer = {"redis_stream_group_lag"}
    for each in pair:
        assert asked - newer <= {name for name, _ in each}
    assert len(asked) > 10


def test_the_page_on_grafana_starts_the_exporter_with_options_that_it_has():
    program = require_program("prometheus-redis-exporter", "exporter")
    shown = run_program(program, "-help")
    known = set(re.findall(r"^  (-[\w.-]+)", shown.stdout + shown.stderr, re.MULTILINE))
    assert set(re.findall(r"(?<=[ `])-[a-z][\w.-]+", PAGE)) <= known
