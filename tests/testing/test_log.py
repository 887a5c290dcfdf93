"""The log of a test server: kept, and passed to the logger `rillet`."""

import logging
import subprocess
import sys

from support.live import eventually

import rillet.testing
from rillet.testing.log import ServerLog


def test_the_logger_rillet_receives_the_log_with_levels(process, caplog):
    with (
        caplog.at_level(logging.DEBUG, logger="rillet"),
        rillet.testing.Server(process=process, loglevel="debug") as server,
        server.client() as client,
    ):
        client.execute_command("DEBUG", "LOG", "hello\nworld")
    found = {text: level for name, level, text in caplog.record_tuples if name == "rillet"}
    assert found["Ready to accept connections tcp"] == logging.INFO
    assert found["Server initialized"] == logging.INFO
    assert any("hello\\nworld" in text for text in found)


def test_bytes_of_clients_do_not_spoil_a_report(process, caplog):
    with (
        caplog.at_level(logging.DEBUG, logger="rillet"),
        rillet.testing.Server(process=process) as server,
        server.client() as client,
    ):
        client.execute_command("REPLICAOF", b"\xff.invalid", 1)
        eventually(lambda: ".invalid" in caplog.text)
    caplog.text.encode()  # as pytest-xdist does


def test_nothing_is_printed_where_logging_is_not_configured(process):
    code = f"import rillet.testing\nwith rillet.testing.Server(process={process}): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_the_log_is_kept_over_a_restart(process):
    with rillet.testing.Server(process=process) as server:
        before = server.log.count
        server.restart()
        assert server.log.text().count("Ready to accept connections tcp") == 2
        assert server.log.text(before).count("Ready to accept connections tcp") == 1


def test_a_name_of_any_bytes_in_the_log_ends_nothing(process):
    with rillet.testing.Server(process=process) as server, server.client() as client:
        client.execute_command("DEBUG", "LOG", b"\xff\x00{}%s")
        client.execute_command("DEBUG", "LOG", "afterwards")
        eventually(lambda: "afterwards" in server.log.text())
        assert client.ping()


def test_a_line_without_a_stamp_has_the_level_of_the_line_before_it(caplog):
    log = ServerLog()
    with caplog.at_level(logging.DEBUG, logger="rillet"):
        log.feed("1:M 23 Nov 2026 15:00:00.000 # Internal error:\nTraceback\n\n")
        log.feed("1:M 23 Nov 2026 15:00:00.000 - Accepted\n")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "Internal error:"),
        ("WARNING", "Traceback"),
        ("DEBUG", "Accepted"),
    ]


def test_the_kept_log_is_bounded():
    log = ServerLog()
    for number in range(3000):
        log.feed(f"{number}\n")
    assert log.count == 3000
    assert log.text().startswith("2000\n")
    assert log.text(since=2998) == "2998\n2999"
    assert log.text(since=0) == log.text(since=2000)
    assert log.text(since=3000) == ""
