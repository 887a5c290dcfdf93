"""Random commands of every family on three connections: replies, the append-only file, events and invalidations.

These are a few thousand, always the same; `make differential COMMANDS=1000000` goes on with long_run.py.
"""

import os
import signal

import pytest
from differential import long_run
from differential.about_servers import LIBRARIES
from differential.anything import BEGINNING, LOOKS, Maker, _with_long_times
from differential.hiding import hide_of_message
from differential.pairs import JUDGES, VERSIONS
from differential.player import (
    Comparison,
    Difference,
    _is_one_of,
    _without_references,
    batches,
    describe,
    waits_forever,
)
from support.servers import compared
from support.thorough import examples
from support.wire import Node, parse

COMMANDS = 6_000
# Workers share them.
PARTS = 4
SIZE = 40
RUNS = examples(COMMANDS // PARTS // SIZE)
COMPARED = [mine for mine, judges in JUDGES.items() if compared(*judges) == list(judges)]


def compare(mine, seeds, family=None):
    with Comparison(mine, *compared(*JUDGES[mine])) as comparison:
        for seed in seeds:
            run = Maker(seed, VERSIONS[mine], family, newer_options=len(JUDGES[mine]) == 1).run(SIZE)
            first = comparison.first_difference(run)
            if first is not None:
                pytest.fail(f"seed {seed}\n{describe(*comparison.shrink(run, first))}", pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mine", COMPARED)
def test_random_commands_leave_the_same_as_on_the_real_server(mine, part):
    compare(mine, range(part * RUNS, (part + 1) * RUNS))


@pytest.mark.parametrize("family", ["stream", "hash", "list", "set", "sorted-set", "bitmap"])
@pytest.mark.parametrize("mine", COMPARED)
def test_random_commands_of_one_type_leave_the_same_as_on_the_real_server(mine, family):
    compare(mine, range(RUNS), family)


def test_random_stream_commands_leave_as_7_2_what_they_leave_on_the_versions_before_and_after_it():
    compare("rillet-7.2", range(RUNS), "stream")


def test_a_seed_makes_the_same_run_again():
    assert Maker(7).run(50) == Maker(7).run(50) != Maker(8).run(50)


def test_a_run_begins_with_data_and_ends_with_looks():
    run = [words for _, words in Maker(1).run(10)]
    assert run[: len(BEGINNING)] == BEGINNING
    assert run[-len(LOOKS) :] == LOOKS


@pytest.mark.parametrize(
    "family",
    [
        *("stream", "hash", "list", "set", "sorted-set", "string", "geo", "bitmap", "generic"),
        *("server", "connection", "pubsub", "scripting", "cluster", "hyperloglog"),
    ],
)
def test_every_family_is_played_and_mostly_meant(family):
    maker = Maker(3, family=family)
    names = {maker.command()[0] for _ in range(2_000)}
    served = {record.name.partition("|")[0].upper() for record in maker.commands}
    assert served <= names


def test_commands_about_the_server_are_played_with_words_that_mean_something():
    maker = Maker(3)
    lines = {" ".join(maker.command()) for _ in range(30_000)}
    for meant in (
        *(
            "ACL SETUSER u1 on", "AUTH u1 pw", "CLIENT TRACKING ON", "CONFIG SET hash-max-", "SELECT 1", "DUMP h",
        ),
        *("RESTORE k 0 {payload", "SUBSCRIBE ch1", "FUNCTION LOAD #!lua", "FCALL f1 1", "SCRIPT LOAD return"),
        *(
            "OBJECT FREQ k", "DEBUG RELOAD", "CLIENT KILL ID {id", "FUNCTION RESTORE {functions", "RESET", "HELLO 3",
        ),
    ):  # fmt: skip
        assert any(line.startswith(meant) for line in lines), meant


def test_messages_to_subscribers_of_both_protocols_and_closed_connections_are_compared():
    run = [
        (0, ["SUBSCRIBE", "ch1", "ch2"]), (1, ["PSUBSCRIBE", "ch*", "*1"]), (2, ["PUBLISH", "ch1", "hello"]),
        (1, ["GET", "k"]), (0, ["UNSUBSCRIBE"]), (2, ["CLIENT", "KILL", "ID", "{id0}"]), (0, ["PING"]),
    ]  # fmt: skip
    with Comparison("rillet", "redis810") as comparison:
        assert comparison.first_difference(run) is None
        seen = comparison.mine.play(run)
    assert seen.messages == [
        '0: *[$"message" $"ch1" $"hello"]',
        "0: closed",
        '1: >[$"pmessage" $"*1" $"ch1" $"hello"]',
        '1: >[$"pmessage" $"ch*" $"ch1" $"hello"]',
    ]
    assert str(seen.replies[0]) == '*[*[$"subscribe" $"ch1" :1] *[$"subscribe" $"ch2" :2]]'
    assert str(seen.replies[-1]) == "+PONG"


def test_runs_leave_out_what_differs_on_purpose_behind_an_earlier_command():
    with Comparison("rillet", "redis810") as comparison:
        # In these runs of a million commands OBJECT FREQ followed CONFIG SET, and DEBUG RELOAD an expired key or an XDEL.
        for seed in (461132905, 461133915, 461136674):
            assert comparison.first_difference(Maker(seed).run(120)) is None


def test_a_run_leaves_no_users_functions_or_settings_to_the_next():
    run = [
        (0, ["ACL", "SETUSER", "u1", "on"]), (0, ["CONFIG", "SET", "hash-max-listpack-entries", "2"]),
        (0, ["FUNCTION", "LOAD", LIBRARIES[0]]), (0, ["RESTORE", "k", "0", "{payload5}"]), (0, ["HGETALL", "k"]),
    ]  # fmt: skip
    after = [
        (0, ["ACL", "USERS"]),
        (0, ["CONFIG", "GET", "hash-max-listpack-entries"]),
        (0, ["FUNCTION", "LIST"]),
    ]
    with Comparison("rillet", "redis810") as comparison:
        for each in (run, after):
            assert comparison.first_difference(each) is None
        assert str(comparison.mine.play(run).replies[-1]) == '*[$"f" $"v" $"g" $"1"]'
        left = [str(reply) for reply in comparison.mine.play(after).replies]
    assert left == ['*[$"default"]', '*[$"hash-max-listpack-entries" $"512"]', "*[]"]


def test_a_command_that_may_block_is_sent_alone():
    run = [
        (0, ["GET", "k"]), (0, ["GET", "n"]), (0, ["BLPOP", "l", "0"]), (0, ["BLPOP", "l", "0"]), (1, ["PING"]),
    ]  # fmt: skip
    assert list(batches(run)) == [(0, [0, 1]), (0, [2]), (0, [3]), (1, [4])]


@pytest.mark.parametrize(
    ("command", "forever"),
    [
        ("BLPOP l 0", True), ("BLPOP l 0.01", False), ("BLMPOP 0 1 l LEFT", True), ("BLMPOP 0.01 1 l LEFT", False),
        ("BLMOVEM l l2 LEFT RIGHT 0 EXACTLY 3", True), ("XREAD BLOCK 5 BLOCK 0 STREAMS s $", True),
        ("XREAD BLOCK 0 BLOCK 5 STREAMS s $", False),
    ],
)  # fmt: skip
def test_a_client_stays_blocked_where_no_time_ends_its_wait(command, forever):
    assert waits_forever(command.split()) is forever


def test_a_blocked_client_is_served_while_others_go_on():
    with Comparison("rillet", "redis810") as comparison:
        run = [
            (1, ["BLPOP", "l9", "0"]), (2, ["BRPOP", "l9", "0"]), (0, ["RPUSH", "l9", "a"]), (0, ["LLEN", "l9"]),
        ]  # fmt: skip
        assert comparison.first_difference(run) is None
        replies = [str(reply) for reply in comparison.mine.play(run).replies]
    assert replies == ['*[$"l9" $"a"]', "null*", ":1", ":0"]


def test_a_long_run_shrinks_what_differs_and_sums_up(monkeypatch, capsys):
    monkeypatch.setitem(JUDGES, "rillet-7.0", ("redis810",))
    monkeypatch.setattr(long_run, "SIZE", 60)
    assert long_run.main(["--commands", "180", "--as", "rillet-7.0", "--seed", "1"]) == 1
    printed = capsys.readouterr().out
    assert "--- rillet-7.0, seed 1\n" in printed
    assert "rillet-7.0 beside redis810: 180 commands" in printed


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
        ["PSETEX", "n", "17", "v"], ["EXPIRE", "k", "5"], ["SET", "k", "v", "PX", "3"], ["SET", "k", "v", "px", "3"],
    ):  # fmt: skip
        assert "100000" in _with_long_times(words)
    for words in (
        ["EXPIRE", "k", "-1"], ["EXPIRE", "k", "0"], ["SETRANGE", "k", "5", "v"], ["SET", "k", "v", "PXAT", "3"],
    ):  # fmt: skip
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


REMOVES = ["XDELEX", "s", "DELREF", "IDS", "1", "1-0"]
EFFECT = b"XDELEX s DELREF IDS 1 1-0"


@pytest.mark.parametrize(
    ("effects", "reply", "left"),
    [
        ([b"SET k v", EFFECT], "*[:-1]", [b"SET k v"]),
        ([b"SET k v", EFFECT], "*[:1]", [b"SET k v", EFFECT]),
        ([b"MULTI", b"SET k v", EFFECT, b"EXEC"], "*[:-1]", [b"SET k v"]),
        ([b"MULTI", EFFECT, b"SET k v", b"EXEC"], "*[:-1]", [b"SET k v"]),
        (
            [b"MULTI", EFFECT, b"SET k v", b"SET k w", b"EXEC"],
            "*[:-1]",
            [b"MULTI", b"SET k v", b"SET k w", b"EXEC"],
        ),
    ],
)
def test_only_an_xdelex_that_removed_no_entry_may_be_propagated_by_rillet_alone(effects, reply, left):
    assert _without_references(effects, [(0, REMOVES)], [_node(reply)]) == left


def test_in_a_transaction_each_xdelex_is_judged_by_its_own_reply():
    other = ["XDELEX", "s", "DELREF", "IDS", "1", "2-0"]
    run = [(0, words) for words in (["MULTI"], REMOVES, other, ["EXEC"])]
    replies = [*map(_node, ("+OK", "+QUEUED", "+QUEUED")), _nested("*[:1]", "*[:-1]")]
    effects = [b"MULTI", EFFECT, " ".join(other).encode(), b"EXEC"]
    assert _without_references(effects, run, replies) == [EFFECT]


def _nested(*parts):
    return Node("*", b"%d" % len(parts), None, tuple(map(_node, parts)))


def test_a_message_does_not_show_the_id_of_the_client_that_it_names():
    broken = b">2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n"
    one, other = (hide_of_message(parse(broken % number)[0]) for number in (7, 12))
    assert str(one) == str(other)
    message = parse(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:7\r\n")[0]
    assert hide_of_message(message) == message


def test_references_to_entries_that_are_gone_are_removed_from_file_and_replicas_too():
    run = [
        (0, line.split())
        for line in (
            "XADD s 1-0 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g alice STREAMS s >", "XDEL s 1-0",
            "XDELEX s DELREF IDS 1 1-0", "XPENDING s g",
        )
    ]  # fmt: skip
    with Comparison("rillet", "redis810") as comparison:
        assert comparison.first_difference(run) is None
        assert EFFECT in comparison.mine.play(run).effects
        assert EFFECT not in comparison.reals[0].play(run).effects  # else: no purpose any more


def test_effects_before_a_loadaof_in_a_transaction_are_lost_in_memory_and_file():
    run = [(0, words.split()) for words in ("MULTI", "SET b 2", "DEBUG LOADAOF", "SET c 3", "EXEC", "KEYS *")]
    with Comparison("rillet", "redis810") as comparison:
        ours, theirs = comparison.mine.play(run), comparison.reals[0].play(run)
    assert [str(reply) for reply in ours.replies] == [str(reply) for reply in theirs.replies]
    assert str(ours.replies[-1]) == '*[$"c"]'
    assert ours.effects == [b"SET c 3"]
    assert b"SET b 2" in theirs.effects  # else: no purpose any more
