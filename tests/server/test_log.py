"""The log's lines, levels and files."""

import os
import re

import pytest

from rillet.server.clock import Clock
from rillet.server.log import Log


@pytest.fixture
def clock():
    clock = Clock()
    clock.freeze(1_700_000_000_042)
    return clock


def test_a_line_has_the_shape_of_redis(clock, capsys):
    Log(clock).notice("Ready")
    assert re.fullmatch(
        rf"{os.getpid()}:M 1[45] Nov 2023 \d\d:\d\d:20\.042 \* Ready\n", capsys.readouterr().out
    )


def test_each_level_has_its_mark(clock, capsys):
    log = Log(clock, "debug")
    for say in (log.debug, log.verbose, log.notice, log.warning):
        say("x")
    assert [line.split()[-2] for line in capsys.readouterr().out.splitlines()] == [".", "-", "*", "#"]


@pytest.mark.parametrize(
    ("level", "lines"), [("debug", 4), ("verbose", 3), ("notice", 2), ("warning", 1), ("nothing", 0)]
)
def test_a_level_leaves_out_what_is_below_it(clock, capsys, level, lines):
    log = Log(clock, "debug")
    log.level = level
    for say in (log.debug, log.verbose, log.notice, log.warning):
        say("x")
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_a_file_is_opened_for_each_line_so_that_it_can_be_rotated(clock, tmp_path, capsys):
    path = tmp_path / "log"
    log = Log(clock, path=str(path))
    log.notice("one")
    path.rename(tmp_path / "old")
    log.notice("two")
    assert (tmp_path / "old").read_text().endswith("* one\n")
    assert path.read_text().endswith("* two\n")
    assert capsys.readouterr().out == ""


def test_a_file_that_cannot_be_written_does_not_stop_the_server(clock, tmp_path):
    Log(clock, path=str(tmp_path / "none" / "log")).warning("lost")


def test_a_quiet_log_writes_only_to_its_listener(clock, capsys):
    log = Log(clock, quiet=True)
    log.warning("unheard")
    lines = []
    log.listener = lines.append
    log.warning("heard")
    assert [line.split(" # ")[1] for line in lines] == ["heard\n"]
    assert capsys.readouterr().out == ""
