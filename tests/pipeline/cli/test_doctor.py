"""`rillet pipeline doctor`: what is wrong is named with what to do about it."""

import argparse
import sys
from unittest.mock import MagicMock

import pytest
from support import servers

from rillet.pipeline import sessions
from rillet.pipeline.cli import doctor, main
from rillet.pipeline.cli.endpoint_arguments import add_endpoint_arguments, endpoint_options
from rillet.pipeline.java import NoJavaError
from rillet.pipeline.redis.options import Endpoint


def findings(check):
    return {finding.about: finding for finding in check}


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_good_machine_is_all_ok(running, kind, capsys):
    assert main.main(["doctor", "--port", str(running(kind).port)]) == 0
    out = capsys.readouterr().out
    assert "WRONG" not in out
    assert "ok      java: Java " in out
    says = {"rillet": "Redis", "redis810": "Redis 8.10", "redis7": "Redis 7.0", "valkey": "Valkey 9"}
    assert says[kind] in out
    assert "ok      clock: Redis is " in out


def test_a_server_that_does_not_answer_is_wrong(capsys):
    assert main.main(["doctor", "--port", "1"]) == 1
    assert "WRONG   redis: no answer from the Redis server at 127.0.0.1:1" in capsys.readouterr().out


def test_no_server_at_the_usual_place_is_nothing_wrong(monkeypatch, capsys):
    endpoint = Endpoint(port=1, retries=0)
    monkeypatch.setattr(
        doctor.Endpoint, "of", lambda given: endpoint if set(given) == {"retries", "timeoutMs"} else None
    )
    assert main.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "warning redis: no server at 127.0.0.1:1 yet\n          -> start one (rillet --port 1)" in out
    assert "WRONG" not in out


def test_a_contradiction_in_the_words_is_reported(capsys):
    assert main.main(["doctor", "--username", "u"]) == 2
    assert "needs a 'password'" in capsys.readouterr().err


def test_the_password_comes_from_the_environment(running, monkeypatch, capsys):
    with servers.start_server("redis7", "--requirepass", "from-the-environment") as server:
        assert main.main(["doctor", "--port", str(server.port)]) == 1
        assert "NOAUTH" in capsys.readouterr().out
        monkeypatch.setenv("REDIS_PASSWORD", "from-the-environment")
        assert main.main(["doctor", "--port", str(server.port)]) == 0


def test_a_clock_that_is_off_is_a_warning(running, monkeypatch):
    monkeypatch.setattr(doctor.time, "time", lambda: 1_000_000.0)
    clock = findings(doctor.check_redis(Endpoint(port=running("redis7").port)))["clock"]
    assert clock.state == "warning"
    assert "lag in seconds" in clock.advice


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("/nowhere/python", "does not run"),
        ("#!/bin/sh\necho no rillet >&2; exit 1", "cannot import rillet: no rillet"),
        ("#!/bin/sh\necho 3.1", "is 3.1, this is"),
    ],
)
def test_a_worker_python_that_cannot_work_is_wrong(tmp_path, monkeypatch, program, text):
    worker = tmp_path / "python"
    worker.write_text(program)
    worker.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(worker) if program.startswith("#!") else program)
    found = findings(doctor.check_python())
    assert found["python"].text.endswith(sys.executable)
    assert found["worker python"].state == "wrong"
    assert text in found["worker python"].text


def test_missing_packages_are_wrong(monkeypatch):
    def missing(_):
        raise doctor.metadata.PackageNotFoundError

    monkeypatch.setattr(doctor.metadata, "version", missing)
    assert findings(doctor.check_packages())["pyspark"].advice == "pip install 'rillet[spark]'"


@pytest.mark.parametrize(
    ("name", "version", "finding"),
    [
        ("pyspark", "4.0.5", ("ok", "4.0.5")), ("pyspark", "4.2.1", ("ok", "4.2.1")), ("hiredis", "3.2.0", ("ok", "3.2.0")),
        ("pyspark", "3.5.9", ("wrong", "3.5.9 is older than 4.0")), ("pyarrow", "17.9", ("wrong", "17.9 is older than 18")),
    ],
)  # fmt: skip
def test_the_version_of_a_package_is_named(monkeypatch, name, version, finding):
    monkeypatch.setattr(doctor.metadata, "version", lambda _: version)
    found = findings(doctor.check_packages())[name]
    assert (found.state, found.text) == finding


def test_no_java_is_wrong(monkeypatch):
    def nothing():
        raise NoJavaError("none was found")

    monkeypatch.setattr(doctor, "find_java", nothing)
    assert findings(doctor.check_java())["java"].state == "wrong"


def test_programs_that_spark_calls_are_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {about: finding.state for about, finding in findings(doctor.check_shell()).items()} == {
        "bash": "wrong", "chmod": "wrong", "ps": "warning",
    }  # fmt: skip


def test_spark_reaches_the_server_in_every_way_that_was_said(monkeypatch, capsys):
    spark = MagicMock(version="4.2.0")
    spark.read.format.return_value.options.return_value.load.return_value.count.return_value = 0
    monkeypatch.setattr(sessions, "session", lambda *_, **__: spark)
    monkeypatch.setenv("REDIS_PASSWORD", "from-the-environment")
    words = "--host localhost --port 1 --username u --db 3 --tls --tls-skip-verify"
    assert main.main(["doctor", "--spark", *words.split()]) == 1
    assert "ok      worker: read 0 entries" in capsys.readouterr().out
    spark.read.format.return_value.options.assert_called_once_with(
        host="localhost", port="1", username="u", password="from-the-environment", db="3", tls="true",
        tlsSkipVerify="true", retries="0", timeoutMs="5000", streamsPattern="rillet-doctor-*",
    )  # fmt: skip


PYTHONS = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):
  File "connection.py", line 1, in exchange
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "source.py", line 1, in partitions
rillet.pipeline.redis.connection.ConnectionLost: no answer
 SQLSTATE: 38000

\tat org.apache.spark.sql.errors.QueryCompilationErrors.pythonDataSourceError(QueryCompilationErrors.scala)
"""
JAVAS = """An error occurred while calling o187.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find it
\tat org.apache.spark.sql.errors.QueryExecutionErrors.dataSourceNotFoundError(QueryExecutionErrors.scala)
Caused by: java.lang.ClassNotFoundException: redis-streams
"""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (PYTHONS, "rillet.pipeline.redis.connection.ConnectionLost: no answer"),
        (JAVAS, "org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find it"),
    ],
    ids=["Python", "Java"],
)
def test_a_worker_that_cannot_read_is_wrong(monkeypatch, words, text):
    spark = MagicMock(version="4.2.0")
    spark.read.format.return_value.options.return_value.load.side_effect = RuntimeError(words)
    monkeypatch.setattr(sessions, "session", lambda *_, **__: spark)
    found = findings(doctor.check_spark({"port": "1"}))
    assert found["spark"].state == "ok"
    assert (found["worker"].state, found["worker"].text) == ("wrong", text)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited\nbefore"), "[JAVA_GATEWAY_EXITED]"),
        (RuntimeError(), "RuntimeError"),
        (NoJavaError("No Java was found"), "No Java was found"),
    ],
)
def test_a_session_that_does_not_start_is_wrong(monkeypatch, error, text):
    monkeypatch.setattr(sessions, "session", MagicMock(side_effect=error))
    [finding] = doctor.check_spark({})
    assert (finding.about, finding.state) == ("spark", "wrong")
    assert finding.text.startswith(text)


def test_a_missing_package_ends_a_verb_with_the_command_to_install_it(monkeypatch, capsys):
    def without(*_):
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")

    monkeypatch.setattr(main, "import_module", without)
    assert main.main(["doctor"]) == 1
    assert "needs pyspark, which is not installed: pip install 'rillet[spark]'" in capsys.readouterr().err


def test_an_unknown_verb_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main.main(["physician"])
    assert "doctor" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {"password": "from-the-environment"}),
        (["--password-file", "f"], {"passwordFile": "f"}),
        (["--password", "p", "--tls", "--timeout-ms", "5"], {"password": "p", "tls": "true", "timeoutMs": "5"}),
        (["--url", "redis://:p@h"], {"url": "redis://:p@h"}),
        (["--url", "redis://h"], {"url": "redis://h", "password": "from-the-environment"}),
    ],
)  # fmt: skip
def test_every_option_of_the_server_is_a_word_and_one_password_is_enough(words, given, monkeypatch):
    monkeypatch.setenv("REDIS_PASSWORD", "from-the-environment")
    parser = argparse.ArgumentParser()
    add_endpoint_arguments(parser)
    assert endpoint_options(parser.parse_args(words)) == given
