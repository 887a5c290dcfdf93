"""How a job ends: by itself, by a signal, by an error; with a query that is a stub."""

import os
import signal
import threading

import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.folders import LocalFolder, local_folder
from rillet.pipeline.jobs.parquet_batches import CHECKPOINT, begun, committed
from rillet.pipeline.jobs.runner import stopping, wait


class Query:
    """Commits the batch that has begun a moment after the job is asked to stop; `said` is what became of it."""

    def __init__(self, folder, asked):
        self.folder, self.asked, self.said = LocalFolder(folder), asked, []
        for log, numbers in (("offsets", 3), ("commits", 2)):
            (folder / CHECKPOINT / log).mkdir(parents=True)
            for number in range(numbers):
                (folder / CHECKPOINT / log / str(number)).touch()
        (folder / CHECKPOINT / "commits" / ".1.crc").touch()
        self.looks = 0

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        if self.asked.is_set():
            self.looks += 1
            if self.looks == 3:
                (self.folder.local / CHECKPOINT / "commits" / "2").touch()
        return not self.said

    def stop(self):
        self.said.append(f"stopped after {committed(self.folder)}")

    def awaitTermination(self):  # noqa: N802 - Spark's name
        self.said.append("awaited")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_batch_under_way_be_committed(number, tmp_path):
    before = signal.getsignal(number)
    with stopping() as asked:
        query = Query(tmp_path, asked)
        assert (begun(query.folder), committed(query.folder)) == (2, 1)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
        timer.start()
        wait(query, query.folder, asked)
        assert query.said == ["stopped after 2"]
        assert signal.getsignal(number) is before  # a second signal is not waited for
        timer.join()
    assert signal.getsignal(number) is before


def test_a_query_that_ends_by_itself_says_why(tmp_path):
    with stopping() as asked:
        query = Query(tmp_path, asked)
        query.said.append("failed")
        wait(query, query.folder, asked)
    assert query.said == ["failed", "awaited"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    new = LocalFolder(tmp_path / "new")
    assert (begun(new), committed(new)) == (-1, -1)


def test_signals_are_left_alone_where_they_cannot_be_taken(tmp_path):
    def run():
        with stopping() as asked:
            found.append(asked.is_set())

    found = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


def test_a_folder_is_a_path_or_a_file_uri():
    assert str(local_folder("a b/day=1")) == "a b/day=1"
    assert str(local_folder("file:///a%20b")) == str(local_folder("file:/a b")) == "/a b"
    assert str(local_folder("odd:name")) == "odd:name"


@pytest.mark.parametrize("place", ["s3a://bucket/lake", "hdfs://host:8020/lake", "file://elsewhere/lake"])
def test_folders_elsewhere_are_refused_by_what_works_without_spark(place, capsys):
    assert main(["replay", "--stream", "s", place]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        f"rillet pipeline replay: [REDIS_STREAMS.JOB_REFUSED] {place} is not on this machine"
    )
