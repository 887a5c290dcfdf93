"""A session whose workers run another Python says so when our formats are registered."""

import sys
import warnings
from types import SimpleNamespace

import pytest

from rillet.pipeline import sessions, worker_python


def session_with(worker, master="local[2]"):
    return SimpleNamespace(_sc=SimpleNamespace(pythonExec=str(worker), master=master))


@pytest.fixture
def other(tmp_path):
    """A Python that is installed elsewhere, without Rillet."""
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho \"No module named 'rillet'\" >&2; exit 1\n")
    program.chmod(0o755)
    return program


def test_a_python_without_rillet_is_a_warning(other):
    with pytest.warns(
        UserWarning, match="workers will fail: .*python3 cannot import rillet: No module.*PYSPARK_PYTHON"
    ):
        sessions._check_workers(session_with(other))


def test_the_name_that_spark_takes_without_a_setting_is_looked_up(other, monkeypatch):
    monkeypatch.setenv("PATH", str(other.parent))
    assert not worker_python.is_this_one("python3")
    with pytest.warns(UserWarning, match="python3 cannot import"):
        sessions._check_workers(session_with("python3"))


def test_this_python_is_not_tried(monkeypatch):
    monkeypatch.setattr(worker_python, "what_is_wrong", lambda _: pytest.fail("it was tried"))
    sessions._check_workers(session_with(sys.executable))


def test_another_python_with_rillet_is_fine(tmp_path):
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sessions._check_workers(session_with(program))


def test_workers_on_other_machines_are_not_judged_here(other):
    sessions._check_workers(session_with(other, master="spark://elsewhere:7077"))
    sessions._check_workers(SimpleNamespace())  # Spark Connect
