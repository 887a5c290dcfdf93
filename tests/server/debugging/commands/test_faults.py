"""DEBUG FAULT on the wire, as redis-cli or another language uses it."""

import pytest


@pytest.fixture(autouse=True)
def faultless(wire):
    yield
    wire.call("DEBUG", "FAULT", "CLEAR")


def fault(wire, text: str):
    return wire.call("DEBUG", "FAULT", *text.split())


def test_a_fault_is_added_listed_and_cleared(wire):
    number = fault(wire, "ADD command set KEY user:* ERROR loading").plain()
    wire.call("CLIENT", "SETNAME", "Bob")
    assert wire.call("SET", "user:1", 1).value.startswith(b"LOADING ")
    assert wire.call("SET", "other", 1).plain() == b"OK"
    [found] = fault(wire, "LIST").plain()
    assert found[:4] == [number, [b"command", b"set", b"KEY", b"user:*", b"ERROR", b"loading"], 1, 1]
    [[time, _, name, command, key]] = found[4]
    assert time > 0
    assert (name, command, key) == (b"Bob", b"SET", b"user:1")
    assert fault(wire, f"LIST {number}").plain() == fault(wire, "CLEAR").plain() == [found]
    assert fault(wire, "LIST").plain() == []
    assert wire.call("SET", "user:1", 1).plain() == b"OK"


def test_one_fault_of_several_is_cleared(wire):
    first = fault(wire, "ADD COMMAND GET ERROR OOM").plain()
    second = fault(wire, "ADD COMMAND SET ERROR OOM").plain()
    assert fault(wire, f"CLEAR {first}").plain()[0][0] == first
    assert [each[0] for each in fault(wire, "LIST").plain()] == [second]
    assert fault(wire, f"CLEAR {first}").plain() == b"ERR There is no fault with this ID"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("COMMAND GET", "A fault needs ERROR, CLOSE, REPLY-BYTES, SILENCE, SLOW, DELAY, CONNECTIONS or DISK"),
        ("COMMAND NONSENSE ERROR OOM", "There is no command 'nonsense'"),
        ("COMMAND XGROUP|NONSENSE ERROR OOM", "There is no command 'xgroup|nonsense'"),
        ("COMMAND DEBUG ERROR OOM", "No fault hits DEBUG"),
        ("COMMAND", "COMMAND needs a value"),
        ("SLOW 5", "SLOW needs a value"),
        ("SLOW 0 5", "SLOW needs a number from 1 on"),
        ("KEYS a ERROR OOM", "Unknown option 'KEYS' of a fault. Try DEBUG FAULT HELP."),
        ("CLOSE never", "CLOSE needs before or after or midway"),
        ("CLOSE after CLOSE after", "CLOSE is given twice"),
        ("CLOSE after SILENCE", "A fault cannot have CLOSE and SILENCE"),
        ("CLOSE midway REPLY-BYTES 5", "A fault cannot have CLOSE and REPLY-BYTES"),
        ("ERROR OOM DELAY 5 CLOCK-DELAY 5", "A fault cannot have CLOCK-DELAY and DELAY"),
        ("ERROR OOM NTH 1 EVERY 2", "A fault cannot have EVERY and NTH"),
        ("ERROR OOM NTH 0", "NTH needs a number from 1 on"),
        ("ERROR OOM NTH x", "NTH needs a number from 1 on"),
        ("ERROR OOM SEED 5", "SEED needs PROBABILITY"),
        ("ERROR OOM PROBABILITY 1.5", "PROBABILITY needs a number from 0 to 1"),
        ("ERROR OOM PROBABILITY nan", "PROBABILITY needs a number from 0 to 1"),
        ("ERROR OOM PROBABILITY x", "PROBABILITY needs a number from 0 to 1"),
        ("CONNECTIONS accept", "CONNECTIONS needs refuse"),
        ("CONNECTIONS refuse CLIENT a", "A fault cannot have CLIENT and CONNECTIONS"),
        ("DISK append KEY a", "A fault cannot have DISK and KEY"),
        ("DISK append DELAY 5", "A fault cannot have DELAY and DISK"),
        ("DISK fsync CLOCK-DELAY 5", "A fault cannot have CLOCK-DELAY and DISK"),
        ("DISK fsync ERROR OOM", "A fault cannot have DISK and ERROR"),
        ("DISK format", "DISK needs append or fsync or rewrite"),
        ("DELAY 0", "DELAY needs a number from 1 on"),
        ("DELAY 99999999999999", "DELAY needs a number from 1 on"),
    ],
)
def test_bad_options_are_refused_at_once(wire, options, error):
    assert fault(wire, f"ADD {options}").value == f"ERR {error}".encode()
    assert fault(wire, "LIST").plain() == []


@pytest.mark.parametrize("text", ["NONSENSE", "OOM\r\n+OK a", "-OOM a b", " a b", ""])
def test_an_error_is_one_line_with_a_code(wire, text):
    assert wire.call("DEBUG", "FAULT", "ADD", "ERROR", text).value.startswith(b"ERR ERROR needs a line")


@pytest.mark.parametrize("words", ["ADD", "REMOVE 1", "LIST 1 2", "LIST x", "CLEAR 0", "HELP me"])
def test_other_words_are_refused(wire, words):
    assert fault(wire, words).kind == "-"


def test_the_options_are_explained(wire):
    text = b"\n".join(fault(wire, "HELP").plain())
    for word in (b"CLOSE after", b"CLOCK-DELAY", b"DISK", b"PROBABILITY p"):
        assert word in text
