"""`rillet pipeline queries`: the metrics of listeners as one table and as JSON."""

import json

import pytest

from rillet.pipeline.cli import main
from rillet.pipeline.monitoring.lag import Lag, QueryState
from rillet.pipeline.monitoring.metrics import QueryMetrics

STATES = [
    QueryState("billing", 41, 200, 8000, 1.25, (Lag("orders", 3, 0.5, pending=7), Lag(gone=1, dead=2))),
    QueryState("copy", 3, 5, 50, 0.25, (Lag("a", 12000, 61.25, 0), Lag("b", 0, 0.0, 4))),
    QueryState("file", 9, 1, 9, 2.0, lags=(Lag(bytes_behind=4096, seconds_behind=1.5),), running=False),
    QueryState("\x1b[2J\n", failed=True, running=False),
]


@pytest.fixture
def metrics():
    """A listener's own answers to scrapes, without Spark."""
    metrics = QueryMetrics(lambda: STATES)
    server = metrics.serve(0, "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()


def test_running_queries_stand_in_one_table(metrics, capsys):
    assert main.main(["queries", metrics]) == 1  # one failed
    assert capsys.readouterr().out.splitlines() == [
        "QUERY      STATE    BATCH  ROWS  TOOK S  STREAM  BEHIND  BEHIND S  BEHIND BYTES  PENDING  GONE  DEAD LETTERS",
        "billing    running  41     200   1.2                                                      1     2",
        "                                         orders  3       0.5                     7",
        "copy       running  3      5     0.2     a       12,000  61.2                             0",
        "                                         b       0       0.0                              4",
        "file       ended    9      1     2.0                     1.5       4,096",
        r"\x1b[2J\n  failed   -1     0     0.0",
    ]


def test_the_same_is_read_from_a_file_as_json(tmp_path, capsys):
    file = tmp_path / "rillet.prom"
    file.write_text(QueryMetrics(lambda: STATES[:2]).text())
    assert main.main(["queries", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "query": "billing", "state": "running", "rows_total": 8000, "batch_id": 41, "batch_rows": 200, "batch_seconds": 1.25,
            "entries_gone_total": 1, "dead_letters_total": 2,
            "streams": [{"stream": "orders", "entries_behind": 3, "seconds_behind": 0.5, "pending": 7}],
        },
        {
            "query": "copy", "state": "running", "rows_total": 50, "batch_id": 3, "batch_rows": 5, "batch_seconds": 0.25,
            "streams": [
                {"stream": "a", "entries_behind": 12000, "seconds_behind": 61.25, "entries_gone_total": 0},
                {"stream": "b", "entries_behind": 0, "seconds_behind": 0.0, "entries_gone_total": 4},
            ],
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no query: is a LagListener added to the session"),
        ("up 1\n", "has no query"),
        ("<html>\n", "has no metrics of Prometheus"),
    ],
)
def test_what_has_no_queries_is_named(tmp_path, capsys, text, says):
    file = tmp_path / "rillet.prom"
    file.write_text(text)
    assert main.main(["queries", str(file)]) == 1
    assert says in capsys.readouterr().err


def test_a_listener_that_is_not_there_is_said_in_one_line(capsys):
    assert main.main(["queries", "http://127.0.0.1:1/metrics"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
