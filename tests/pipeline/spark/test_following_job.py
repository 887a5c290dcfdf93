"""`rillet pipeline ingest --follow` as a process of its own: it goes on, tells how far it is, and ends when it is told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pyarrow.dataset as ds
import pytest
from support.until import until

from rillet.pipeline.cli import main
from rillet.pipeline.jobs.batches import begun, committed


class Job:
    """The process; its folder, and what it says."""

    def __init__(self, folder, *words):
        self.log = folder.parent / "job.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rillet", "pipeline", *words, "--out", str(folder), "--master", "local[1]"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder.parent,
                env=os.environ | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
            )  # fmt: skip

    def said(self):
        return self.log.read_text()

    def metrics(self):
        """What it tells over HTTP: numbers by metric name, of its one query and one stream; none before it serves."""
        assert self.process.poll() is None, self.said()[-3000:]
        found = re.search(r"^metrics at (http://\S+)$", self.said(), re.MULTILINE)
        if found is None:
            return {}
        with urllib.request.urlopen(found[1], timeout=30) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain")
            text = reply.read().decode()
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {
            name.partition("{")[0].removeprefix("rillet_spark_"): float(value) for name, _, value in lines
        }


def add(redis, stream, numbers):
    redis.pipeline([("XADD", stream, f"{86_400_000 + n}-0", "n", n) for n in numbers])


@pytest.mark.parametrize("redis", ["rillet"], indirect=True)
def test_a_job_follows_tells_its_lag_and_stops_when_told(redis, stream, tmp_path, spark):
    folder = tmp_path / "out"
    ingest = [
        "ingest",
        "--streams",
        stream,
        "--port",
        redis.options["port"],
        "--option",
        "maxRowsPerTrigger=40",
    ]
    add(redis, stream, range(1, 11))
    job = Job(folder, *ingest, "--follow", "300 milliseconds", "--metrics-port", "0")
    try:
        until(lambda: job.metrics().get("rows_total") == 10, 120)
        add(redis, stream, range(11, 131))
        seen = []
        until(lambda: (seen.append(job.metrics()) or seen[-1]["rows_total"]) == 130, 60)
        assert any(0 < each["rows_total"] - 10 == 120 - each["entries_behind"] < 120 for each in seen), seen
        assert max(each["seconds_behind"] for each in seen) <= 0.119
        last = job.metrics()
        assert (last["entries_behind"], last["seconds_behind"], last["running"]) == (0, 0, 1)
        add(redis, stream, range(131, 171))
        until(lambda: begun(folder) > last["batch_id"], 30)
        under_way = begun(folder)
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(60) == 0, job.said()[-3000:]
    finally:
        job.process.kill()
        job.process.wait()
    assert committed(folder) >= under_way
    assert "has all until it was stopped" in job.said()
    assert "Traceback" not in job.said()
    assert main([*ingest, "--out", str(folder)]) == 0
    ids = ds.dataset(folder, format="parquet").to_table()["id"].to_pylist()
    assert sorted(ids) == [f"{86_400_000 + n}-0" for n in range(1, 171)]
