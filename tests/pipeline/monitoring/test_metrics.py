"""pipeline/monitoring/metrics.py: the state of queries as a scraper reads it."""

import urllib.request

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from rillet.pipeline.monitoring.lag import Lag, QueryState
from rillet.pipeline.monitoring.metrics import QueryMetrics

LAG = Lag('or"ders\n', 4, 2.5, 2, 1)
STATES = [QueryState("a\\b", 3, 5, 50, 0.25, (LAG,)), QueryState("c", running=False, failed=True)]


def samples(states):
    families = text_string_to_metric_families(QueryMetrics(lambda: states).text())
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families
        for each in family.samples
    }


def test_each_metric_is_declared_once():
    text = QueryMetrics(lambda: STATES).text()
    assert 'rillet_spark_running{failed="true",query="c"} 0.0' in text.splitlines()
    assert text.count("# TYPE rillet_spark_running gauge\n") == 1
    assert text.count("# TYPE rillet_spark_rows_total counter\n") == 1
    assert text.endswith("\n")


def test_every_metric_of_a_query_has_its_name_type_and_labels():
    state = QueryState(
        "q", 3, 5, 50, 0.25, (LAG, Lag(gone=7, dead=8), Lag(bytes_behind=9, seconds_behind=1.5))
    )
    query, stream = {("query", "q")}, {("query", "q"), ("stream", LAG.stream)}
    assert samples([state]) == {
        ("rillet_spark_entries_behind", frozenset(stream)): 4,
        ("rillet_spark_bytes_behind", frozenset(query)): 9,
        ("rillet_spark_seconds_behind", frozenset(query)): 1.5,
        ("rillet_spark_seconds_behind", frozenset(stream)): 2.5,
        ("rillet_spark_entries_gone_total", frozenset(query)): 7,
        ("rillet_spark_entries_gone_total", frozenset(stream)): 2,
        ("rillet_spark_dead_letters_total", frozenset(query)): 8,
        ("rillet_spark_pending", frozenset(stream)): 1,
        ("rillet_spark_rows_total", frozenset(query)): 50,
        ("rillet_spark_batch_id", frozenset(query)): 3,
        ("rillet_spark_batch_rows", frozenset(query)): 5,
        ("rillet_spark_batch_seconds", frozenset(query)): 0.25,
        ("rillet_spark_running", frozenset(query)): 1,
    }


def test_only_metrics_of_queries_are_exposed():
    assert all(name.startswith("rillet_spark_") for name, _ in samples(STATES))
    assert QueryMetrics(list).text() == ""


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_read_back_from_its_label(query, stream):
    found = samples([QueryState(query, lags=(Lag(stream, 1, None),))])
    labels = frozenset({("query", query), ("stream", stream)})
    assert found["rillet_spark_entries_behind", labels] == 1


def test_a_scraper_reads_the_state_of_the_moment():
    states = [STATES[1]]
    metrics = QueryMetrics(lambda: states)
    server = metrics.serve(0, "127.0.0.1")
    try:
        for expected in (0.0, 1.0):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=")
                lines = answer.read().decode().splitlines()
            assert any(
                line.startswith("rillet_spark_running{") and line.endswith(f"}} {expected}") for line in lines
            )
            states[:] = [QueryState("c")]
    finally:
        server.shutdown()
        server.server_close()
