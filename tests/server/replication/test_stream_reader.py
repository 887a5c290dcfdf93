import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire import encode_command

from rillet.server.replication.stream_reader import LostPlaceError, StreamError, UnitReader

WORD = st.binary(max_size=20)
COMMAND = st.lists(WORD, min_size=1, max_size=4).filter(
    lambda argv: argv[0].upper() not in {b"MULTI", b"EXEC"}
)
UNIT = st.one_of(
    COMMAND.map(lambda argv: [argv]),
    st.lists(COMMAND, max_size=3).map(lambda inside: [[b"MULTI"], *inside, [b"EXEC"]]),
)


def encode(unit):
    return b"".join(encode_command(*argv) for argv in unit)


@given(st.lists(UNIT, max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_units_come_out_whole_however_the_stream_is_cut(sent, pieces):
    data = b"".join(map(encode, sent))
    units = UnitReader()
    got, passed, at, turn = [], b"", 0, 0
    while at < len(data):
        piece = data[at : at + pieces[turn % len(pieces)]]
        at, turn = at + len(piece), turn + 1
        units.feed(piece)
        done = 0
        for unit, size in units.take():
            assert size == len(encode(unit))
            got.append(unit)
            done += size
        passed += units.forward(done)
        assert passed == b"".join(map(encode, got))
    assert got == sent
    assert passed == data


@pytest.mark.parametrize("data", [b"+OK\r\n", b"*0\r\n", b":1\r\n", b"*1\r\n:1\r\n", b"hello\r\n"])
def test_what_is_no_command_ends_the_link(data):
    units = UnitReader()
    units.feed(data)
    with pytest.raises(StreamError):
        list(units.take())


def test_a_spelling_that_would_lose_the_place_ends_the_link():
    units = UnitReader()
    units.feed(b"*1\r\n+PING\r\n" + encode([[b"PING"]]))
    with pytest.raises(LostPlaceError):
        units.forward(sum(size for _, size in units.take()))
