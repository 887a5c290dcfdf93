"""Random commands of every family on three connections: replies, the append-only file, events and invalidations.

These are a few thousand, always the same; `make differential COMMANDS=1000000` goes on with long_run.py.
"""

from __future__ import annotations

import os
import signal

import pytest
from differential import long_run
from differential.anything import BEGINNING, LOOKS, Maker, _with_long_times
from differential.pairs import JUDGES, VERSIONS
from differential.player import Comparison, Difference, _is_one_of, batches, describe, waits_forever
from support.servers import compared
from support.wire import parse

COMMANDS = 6_000
# Workers share them.
PARTS = 4
SIZE = 40
RUNS = COMMANDS // PARTS // SIZE
COMPARED = [mine for mine, judges in JUDGES.items() if compared(*judges) == list(judges)]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mine", COMPARED)
def test_random_commands_leave_the_same_as_on_the_real_server(mine, part):
    comparison = Comparison(mine, *JUDGES[mine])
    try:
        for seed in range(part * RUNS, (part + 1) * RUNS):
            run = Maker(seed, VERSIONS[mine], newer_options=len(JUDGES[mine]) == 1).run(SIZE)
            first = comparison.first_difference(run)
            if first is not None:
                pytest.fail(f"seed {seed}\n{describe(*comparison.shrink(run, first))}", pytrace=False)
    finally:
        comparison.close()


def test_a_seed_makes_the_same_run_again():
    assert Maker(7).run(50) == Maker(7).run(50) != Maker(8).run(50)


def test_a_run_begins_with_data_and_ends_with_looks():
    run = [words for _, words in Maker(1).run(10)]
    assert run[: len(BEGINNING)] == BEGINNING
    assert run[-len(LOOKS) :] == LOOKS


@pytest.mark.parametrize(
    "family", ["stream", "hash", "list", "set", "sorted-set", "string", "geo", "bitmap", "generic"]
)
def test_every_family_is_played_and_mostly_meant(family):
    maker = Maker(3, family=family)
    names = {maker.command()[0] for _ in range(2_000)}
    served = {record.name.partition("|")[0].upper() for record in maker.commands}
    assert served <= names


def test_a_command_that_may_block_is_sent_alone():
    run = [
        (0, ["GET", "k"]),
        (0, ["GET", "n"]),
        (0, ["BLPOP", "l", "0"]),
        (0, ["BLPOP", "l", "0"]),
        (1, ["PING"]),
    ]
    assert list(batches(run)) == [(0, [0, 1]), (0, [2]), (0, [3]), (1, [4])]


@pytest.mark.parametrize(
    ("command", "forever"),
    [
        ("BLPOP l 0", True),
        ("BLPOP l 0.01", False),
        ("BLMPOP 0 1 l LEFT", True),
        ("BLMPOP 0.01 1 l LEFT", False),
        ("BLMOVEM l l2 LEFT RIGHT 0 EXACTLY 3", True),
        ("XREAD BLOCK 5 BLOCK 0 STREAMS s $", True),
        ("XREAD BLOCK 0 BLOCK 5 STREAMS s $", False),
    ],
)
def test_a_client_stays_blocked_where_no_time_ends_its_wait(command, forever):
    assert waits_forever(command.split()) is forever


def test_a_blocked_client_is_served_while_others_go_on():
    comparison = Comparison("rillet", "redis810")
    try:
        run = [
            (1, ["BLPOP", "l9", "0"]),
            (2, ["BRPOP", "l9", "0"]),
            (0, ["RPUSH", "l9", "a"]),
            (0, ["LLEN", "l9"]),
        ]
        assert comparison.first_difference(run) is None
        replies = [str(reply) for reply in comparison.mine.play(run).replies]
    finally:
        comparison.close()
    assert replies == ['*[$"l9" $"a"]', "null*", ":1", ":0"]


def test_a_long_run_shrinks_what_differs_and_sums_up(monkeypatch, capsys):
    monkeypatch.setitem(JUDGES, "rillet-7.0", ("redis810",))
    monkeypatch.setattr(long_run, "SIZE", 60)
    assert long_run.main(["--commands", "180", "--as", "rillet-7.0", "--seed", "1"]) == 1
    printed = capsys.readouterr().out
    assert "--- rillet-7.0, seed 1\n" in printed
    assert "rillet-7.0 beside redis810: 180 commands" in printed


def test_a_long_run_without_differences_says_so(capsys):
    assert long_run.main(["--commands", "240", "--as", "rillet"]) == 0
    assert "rillet beside redis810: 240 commands" in capsys.readouterr().out


def test_a_difference_that_does_not_come_again_is_counted_too(monkeypatch, capsys):
    once = [Difference("reply", "1", "2")]
    monkeypatch.setattr(Comparison, "first_difference", lambda *_: once.pop() if once else None)
    assert long_run.main(["--commands", "240", "--as", "rillet", "--seed", "5"]) == 1
    printed = capsys.readouterr().out
    assert "--- rillet, seed 5, not again" in printed
    assert "differed once and not again: 5" in printed


def test_a_server_that_ends_is_started_again_and_its_seed_is_printed(monkeypatch, capsys):
    play, killed = Comparison.first_difference, []

    def first_difference(comparison, run):
        if not killed:
            killed.append(comparison.reals[0].server)
            os.kill(killed[0].pid, signal.SIGKILL)
        return play(comparison, run)

    monkeypatch.setattr(Comparison, "first_difference", first_difference)
    assert long_run.main(["--commands", "240", "--as", "rillet", "--seed", "5"]) == 1
    printed = capsys.readouterr().out
    assert "--- rillet, seed 5, ended redis810" in printed
    assert "240 commands" in printed
    assert "ended a server: 5" in printed


def test_short_times_become_long():
    for words in (
        ["PSETEX", "n", "17", "v"],
        ["EXPIRE", "k", "5"],
        ["SET", "k", "v", "PX", "3"],
        ["SET", "k", "v", "px", "3"],
    ):
        assert "100000" in _with_long_times(words)
    for words in (
        ["EXPIRE", "k", "-1"],
        ["EXPIRE", "k", "0"],
        ["SETRANGE", "k", "5", "v"],
        ["SET", "k", "v", "PXAT", "3"],
    ):
        assert _with_long_times(words) == words


def test_options_that_the_version_does_not_know_are_left_out():
    for newer in (False, True):
        maker = Maker(1, "7.0", "bitmap", newer_options=newer)
        commands = [maker.command() for _ in range(1_000)]
        assert any("DIFF" in map(str.upper, words) for words in commands) is newer


@pytest.mark.parametrize(
    ("mine", "right"),
    [("*[:1 :2]", True), ("*[:1 :4]", True), ("*[:3 :2]", True), ("*[:1 :3]", False), ("*[:1]", False)],
)
def test_elements_of_a_reply_may_follow_different_servers(mine, right):
    nodes = {text: _node(text) for text in (mine, "*[:1 :2]", "*[:3 :4]", "-ERR")}
    assert _is_one_of(nodes[mine], [nodes["-ERR"], nodes["*[:1 :2]"], nodes["*[:3 :4]"]]) is right
    assert _is_one_of(nodes[mine], [nodes["*[:1 :2]"]]) is (mine == "*[:1 :2]")


def _node(text):
    words = text[2:-1].split()
    raw = f"*{len(words)}\r\n" + "".join(f"{word}\r\n" for word in words) if text[0] == "*" else f"{text}\r\n"
    node, _ = parse(raw.encode())
    return node
