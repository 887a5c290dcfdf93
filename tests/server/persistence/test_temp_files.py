"""Temporary dump files of servers that were killed, and whose they must be to be taken away."""

import os
import subprocess
import sys

import pytest
from support.servers import start_server

from rillet.server.persistence.folder import remove_orphans


@pytest.fixture
def dead_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def ours(pid):
    return [f"temp-{pid}-0123abcd-7.rdb", f"temp-repl-{pid}-0123abcd.rdb", f"temp-sync-{pid}-ab_cd9xy.rdb"]


def make(folder, names):
    for name in names:
        (folder / name).write_bytes(b"REDIS0011")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_of_a_process_that_is_gone_are_removed(tmp_path, dead_process):
    make(tmp_path, ours(dead_process))
    assert remove_orphans(tmp_path, owns_process=True) == sorted(ours(dead_process))
    assert names_in(tmp_path) == []


def test_files_of_a_process_that_lives_stay(tmp_path):
    make(tmp_path, ours(os.getppid()))
    assert remove_orphans(tmp_path, owns_process=True) == []
    assert names_in(tmp_path) == sorted(ours(os.getppid()))


def test_a_process_of_another_user_counts_as_alive(tmp_path, dead_process, monkeypatch):
    def kill(_pid, _signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    make(tmp_path, ours(dead_process))
    assert remove_orphans(tmp_path, owns_process=True) == []


@pytest.mark.parametrize("owns_process", [True, False])
def test_files_with_our_own_number_are_orphans_where_no_other_server_lives_here(tmp_path, owns_process):
    make(tmp_path, ours(os.getpid()))
    remove_orphans(tmp_path, owns_process=owns_process)
    assert names_in(tmp_path) == ([] if owns_process else sorted(ours(os.getpid())))


def test_files_with_other_names_stay(tmp_path, dead_process):
    others = [
        f"temp-{dead_process}.rdb",  # as Redis calls its own
        f"temp-{dead_process}-0123abcd-7.rdb.bak",
        f"old-temp-{dead_process}-0123abcd-7.rdb",
        f"temp-other-{dead_process}-0123abcd.rdb",
        f"temp-0{dead_process}-0123abcd-7.rdb",
        "dump.rdb",
    ]
    make(tmp_path, others)
    assert remove_orphans(tmp_path, owns_process=True) == []
    assert names_in(tmp_path) == sorted(others)


def test_a_folder_of_that_name_or_none_at_all_is_no_trouble(tmp_path, dead_process):
    (tmp_path / ours(dead_process)[0]).mkdir()
    assert remove_orphans(tmp_path, owns_process=True) == []
    assert remove_orphans(tmp_path / "missing", owns_process=True) == []


@pytest.mark.parametrize("appendonly", ["no", "yes"])
def test_a_starting_server_removes_orphans_and_logs_it(tmp_path, dead_process, appendonly):
    make(tmp_path, [*ours(dead_process), *ours(os.getpid())])
    with start_server("rillet", "--appendonly", appendonly, folder=tmp_path) as server:
        assert [name for name in names_in(tmp_path) if name.startswith("temp-")] == sorted(ours(os.getpid()))
        assert f"Removed {ours(dead_process)[0]}, " in server.log
