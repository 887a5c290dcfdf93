"""DEBUG RECORD on the wire, as another language uses it."""

from __future__ import annotations

import pytest


def test_a_recording_is_started_read_and_stopped(wire):
    number = wire.call("DEBUG", "RECORD", "START").plain()
    wire.call("SET", "k", "v")
    dropped, oldest, [entry] = wire.call("DEBUG", "RECORD", "READ", number).plain()
    assert (dropped, oldest) == (0, entry[0])
    assert entry[1] == entry[2] > 0
    assert entry[3] == 0
    assert entry[5:] == [b"", [b"k"], [b"SET", b"k", b"v"], b"+OK\r\n", 0]
    wire.call("GET", "k")
    _, _, later = wire.call("DEBUG", "RECORD", "READ", number, oldest + 1).plain()
    assert [each[7] for each in later] == [[b"GET", b"k"]]
    assert len(wire.call("DEBUG", "RECORD", "STOP", number).plain()[2]) == 2
    assert wire.call("DEBUG", "RECORD", "READ", number).plain() == b"ERR There is no recording with this ID"


def test_single_commands_are_read_beside_those_from_a_number_on(wire):
    number = wire.call("DEBUG", "RECORD", "START").plain()
    for key in "abcde":
        wire.call("SET", key, "v")
    _, first, _ = wire.call("DEBUG", "RECORD", "READ", number).plain()
    _, _, read = wire.call("DEBUG", "RECORD", "READ", number, first + 4, first + 2, first, 0).plain()
    assert [each[7][1] for each in read] == [b"a", b"c", b"e"]
    wire.call("DEBUG", "RECORD", "STOP", number)


def test_a_recording_of_the_last_commands(wire):
    number = wire.call("DEBUG", "RECORD", "START", "LAST", 1).plain()
    wire.call("SET", "k", "v")
    wire.call("GET", "k")
    dropped, _, entries = wire.call("DEBUG", "RECORD", "STOP", number).plain()
    assert (dropped, [each[7][0] for each in entries]) == (1, [b"GET"])


@pytest.mark.parametrize(
    "words",
    ["START 5", "START LAST", "START FIRST 5", "READ", "STOP", "STOP 1 2 3", "PLAY 1", "START LAST 5 5"],
)
def test_other_words_are_refused(wire, words):
    assert wire.call("DEBUG", "RECORD", *words.split()).kind == "-"


@pytest.mark.parametrize("words", ["START LAST 0", "START LAST x", "READ x", "READ 1 2 x", "STOP 1 y"])
def test_numbers_that_are_none_are_refused(wire, words):
    assert wire.call("DEBUG", "RECORD", *words.split()).kind == "-"
