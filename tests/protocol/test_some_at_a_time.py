"""One call of the parser does a limited amount of work, whatever it is given."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.protocol import requests
from rillet.protocol.requests import RequestParser

PING = b"*1\r\n$4\r\nPING\r\n"


def parse(data, size, most):
    """What a parser gives of data that comes in pieces; the commands of each call, and the error."""
    before = requests._AT_ONCE
    requests._AT_ONCE = most
    try:
        parser = RequestParser()
        calls = []
        for at in range(0, len(data), size):
            calls.append(parser.feed(data[at : at + size]))
            while parser.more:
                calls.append(parser.feed(b""))
        return calls, parser.error
    finally:
        requests._AT_ONCE = before


def test_inline_commands_come_a_few_hundred_at_a_time():
    calls, error = parse(b"PING\r\n" * 40_000, 1 << 18, requests._AT_ONCE)
    assert max(map(len, calls)) <= requests._AT_ONCE + 1
    assert sum(map(len, calls)) == 40_000
    assert error is None


def test_what_waits_in_the_parser_is_counted():
    parser = RequestParser()
    data = b"PING\r\n" * 10_000
    taken = len(parser.feed(data))
    assert parser.buffered == len(data) - 6 * taken


@pytest.mark.parametrize(
    "empty", [b"\n", b"\r\n", b" \n", b"*0\r\n", b"*-1\r\n", b"\t\r\n*0\r\n", b"*0\r\n\n"]
)
def test_empty_requests_are_skipped_together(empty, monkeypatch):
    parser = RequestParser()
    steps = []
    for name in ("_read_inline", "_read_count"):
        real = getattr(RequestParser, name)
        monkeypatch.setattr(
            RequestParser, name, lambda self, real=real, name=name: steps.append(name) or real(self)
        )
    assert parser.feed(empty * 10_000 + b"PING\r\n") == [[b"PING"]]
    assert len(steps) <= 3


pieces = st.sampled_from(
    [
        PING,
        b"PING\r\n",
        b"\n",
        b"\r\n",
        b" \t\n",
        b"*0\r\n",
        b"*0\rx",
        b"*-7\r\n",
        b"*2\r\n$4\r\nECHO\r\n$300\r\n" + b"x" * 300 + b"\r\n",
        b"ECHO 'a b'\n",
        b"ECHO 'a\n",
        b"*x\r\n",
        b"*-\r\n",
        b"\0\r\n",
        b"\x0b\n",
        b" " * 70 + b"\n",
        b"post x\n",
        b"*1\r\n$4\r\nPI",
    ]
)


@given(
    st.lists(pieces, max_size=40).map(b"".join), st.integers(1, 200), st.integers(1, 5), st.integers(1, 2000)
)
@example(b"PING\r\n" * 3 + PING * 3, 1000, 1, 1000)
def test_the_commands_are_the_same_however_many_come_at_a_time(data, size, most, other_size):
    some, error = parse(data, size, most)
    whole, expected = parse(data, other_size, 1 << 30)
    assert [command for call in some for command in call] == [command for call in whole for command in call]
    assert error == expected
