"""DEBUG RECORD on the wire, as another language uses it."""

import pytest


def test_a_recording_is_started_read_and_stopped(wire):
    number = wire.call("DEBUG", "RECORD", "START").plain()
    wire.call("SET", "k", "v")
    dropped, oldest, [entry] = wire.call("DEBUG", "RECORD", "READ", number).plain()
    assert (dropped, oldest) == (0, entry[0])
    assert entry[1] == entry[2] > 0
    assert entry[3] == 0
    assert entry[5:] == [b"", [b"k"], [b"SET", b"k", b"v"], b"+OK\r\n", 0, []]
    wire.call("GET", "k")
    _, _, later = wire.call("DEBUG", "RECORD", "READ", number, oldest + 1).plain()
    assert [each[7] for each in later] == [[b"GET", b"k"]]
    assert len(wire.call("DEBUG", "RECORD", "STOP", number).plain()[2]) == 2
    assert wire.call("DEBUG", "RECORD", "READ", number).plain() == b"ERR There is no recording with this ID"


def test_what_scripts_ran_stands_beside_them(wire):
    number = wire.call("DEBUG", "RECORD", "START").plain()
    wire.call("EVAL", "redis.call('GET', 'k') redis.call('SELECT', 3) redis.call('SET', 'k', 'v')", 0)
    wire.do("MULTI; PING")
    wire.call("EVAL", "return redis.pcall('XADD', KEYS[1], '1-1', 'a', 'b', 'c')", 1, "s")
    wire.call("EVAL", "return redis.pcall('LPUSH', KEYS[1], 'a')", 1, "s")
    wire.call("EXEC")
    _, _, entries = wire.call("DEBUG", "RECORD", "STOP", number).plain()
    assert [each[10] for each in entries] == [
        [[0, 3, [b"k"], [b"SET", b"k", b"v"], b"+OK\r\n"]],
        [], [], [], [],
        [
            [1, 0, [b"s"], [b"XADD", b"s", b"1-1", b"a", b"b", b"c"], entries[5][10][0][4]],
            [2, 0, [b"s"], [b"LPUSH", b"s", b"a"], b":1\r\n"],
        ],
    ]  # fmt: skip
    assert entries[5][10][0][4].startswith(b"-ERR wrong number of arguments")
    wire.call("DEL", "s")


def test_single_commands_are_read_beside_those_from_a_number_on(wire):
    number = wire.call("DEBUG", "RECORD", "START").plain()
    for key in "abcde":
        wire.call("SET", key, "v")
    _, first, _ = wire.call("DEBUG", "RECORD", "READ", number).plain()
    _, _, read = wire.call("DEBUG", "RECORD", "READ", number, first + 4, first + 2, first, 0).plain()
    assert [each[7][1] for each in read] == [b"a", b"c", b"e"]
    wire.call("DEBUG", "RECORD", "STOP", number)


def test_a_reset_can_begin_a_recording(wire):
    wire.call("SET", "k", "v")
    number = wire.call("DEBUG", "RESET", "record", 2, "KEEP", "127.0.0.1:1", 0).plain()
    for word in "abc":
        wire.call("PING", word)
    dropped, _, entries = wire.call("DEBUG", "RECORD", "STOP", number).plain()
    assert (dropped, [each[7] for each in entries]) == (1, [[b"PING", b"b"], [b"PING", b"c"]])
    assert wire.call("DBSIZE").plain() == 0


@pytest.mark.parametrize("words", ["RECORD", "RECORD x", "RECORD 0", "RECORD 1 KEEP a", "RECORD 1 2"])
def test_a_refused_reset_resets_nothing(wire, words):
    wire.call("SET", "k", "v")
    assert wire.call("DEBUG", "RESET", *words.split()).kind == "-"
    assert wire.call("DEL", "k").plain() == 1


OTHERS = (
    "START 5; START LAST; START FIRST 5; READ; STOP; STOP 1 2 3; PLAY 1; START LAST 5 5"
    "; START LAST 0; START LAST x; READ x; READ 1 2 x; STOP 1 y"
)


@pytest.mark.parametrize("words", OTHERS.split("; "))
def test_other_words_and_numbers_that_are_none_are_refused(wire, words):
    assert wire.call("DEBUG", "RECORD", *words.split()).kind == "-"
