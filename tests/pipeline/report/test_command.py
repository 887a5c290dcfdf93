"""pipeline/report/command.py: what is done beside Spark, whose session is no real one here."""

import argparse
import threading
from types import SimpleNamespace

import pytest

from rillet.pipeline.cli.main import main
from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.report import command
from rillet.pipeline.report.gather import Gathering

MANIFEST = "file appendonly.aof.1.incr.aof seq 1 type i\n"


class Spark:
    """A session that can only be stopped."""

    def __init__(self):
        self.stopped = threading.Event()

    def stop(self):
        self.stopped.set()


@pytest.fixture
def spark(monkeypatch):
    found = Spark()
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("rillet.pipeline.sessions.session", lambda *_, **__: found)
    return found


@pytest.fixture
def arguments(tmp_path):
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.manifest").write_text(MANIFEST)
    (folder / "appendonly.aof.1.incr.aof").touch()
    parser = argparse.ArgumentParser()
    parser.set_defaults(verb="report")
    command.add_arguments(parser)
    return parser.parse_args([str(folder), "--out", str(tmp_path / "report")])


def test_spark_is_stopped_where_there_is_nothing_to_report_on(spark, arguments, monkeypatch, capsys):
    def run(_):
        raise LedgerError("holds nothing")

    monkeypatch.setattr(Gathering, "run", run)
    assert main(["report", arguments.aof, "--out", arguments.out]) == 1
    assert spark.stopped.is_set()
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "rillet pipeline report: [REDIS_STREAMS.LEDGER_UNREADABLE] holds nothing"


@pytest.mark.parametrize("option", [["--at", "yesterday"], ["--abandoned-after", "long"]])
def test_a_time_that_is_none_is_refused(arguments, capsys, option):
    with pytest.raises(SystemExit, match="2"):
        main(["report", arguments.aof, *option])
    assert f"argument {option[0]}: not " in capsys.readouterr().err


def test_a_page_that_cannot_be_drawn_says_so_and_leaves_no_spark(spark, arguments, monkeypatch):
    def draw(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Gathering, "run", lambda _: "report")
    monkeypatch.setattr(command, "draw", draw)
    with pytest.raises(OSError, match="disk full"):
        command.run(arguments)
    assert spark.stopped.is_set()


def test_a_session_of_others_is_left_running(spark, arguments, monkeypatch):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: spark)
    monkeypatch.setattr(Gathering, "run", lambda _: "report")
    monkeypatch.setattr(command, "draw", lambda *_: SimpleNamespace(resolve=lambda: "x"))
    assert command.run(arguments) == 0
    assert not spark.stopped.is_set()
