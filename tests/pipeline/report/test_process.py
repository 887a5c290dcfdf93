"""Verbs as they are called: processes that start a Spark of their own (make test-spark)."""

import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import rillet.testing

pytestmark = pytest.mark.many_jvms


def run(*words):
    command = [sys.executable, "-m", "rillet", "pipeline", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def ledger(tmp_path):
    with rillet.testing.Server(appendonly=True, dir=str(tmp_path), save="") as server:
        server.client().xadd("orders", {"n": 1})
    return tmp_path / "appendonlydir"


def steps(output):
    """The lines of a verb without what a step took."""
    return [re.sub(r" \([\d.]+ s\)$", "", line) for line in output.splitlines()]


def test_a_job_shows_its_steps_and_nothing_of_spark(ledger, tmp_path):
    lake = tmp_path / "lake"
    done = run("ledger", ledger, "--out", lake)
    assert (done.returncode, done.stdout) == (0, "")
    assert steps(done.stderr) == [
        "[1/2] starting Spark", "batch 0 is there", "[2/2] moving batches", f"{lake} is up to date: 1 new batch",
    ]  # fmt: skip


def test_verbose_shows_what_spark_logs(ledger, tmp_path):
    done = run("ledger", ledger, "--out", tmp_path / "lake", "--verbose")
    assert "WARN" in done.stderr
    assert "[2/2] moving batches" in steps(done.stderr)


def test_a_report_is_made_and_its_progress_shown(tmp_path):
    with rillet.testing.Server(
        appendonly=True, dir=str(tmp_path), aof_timestamp_enabled="ms", save=""
    ) as server:
        client = server.client()
        for n in range(20):
            client.xadd("orders", {"n": n})
        client.xgroup_create("orders", "billing", "0")
        client.xreadgroup("billing", "ann", {"orders": ">"}, count=15)
        client.xack("orders", "billing", *[entry for entry, _ in client.xrange("orders", count=9)])
    out = tmp_path / "report"
    done = run("report", tmp_path / "appendonlydir", "--out", out)
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert [line for line in steps(done.stderr) if not line.startswith(("[", "The report is at "))] == []
    assert "[1/5] starting Spark" in output
    assert "[5/5] drawing the page" in output
    assert f"The report is at {out.resolve()}" in output
    [group] = pq.read_table(out / "tables" / "groups").to_pylist()
    assert (group["deliveries"], group["acked"], group["pending"]) == (15, 9, 6)
    assert "6 of 15 delivered messages still unacknowledged" in (out / "index.html").read_text(
        encoding="utf-8"
    )
