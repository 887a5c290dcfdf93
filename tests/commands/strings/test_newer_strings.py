"""String commands newer than 7.0 (DIGEST, DELEX, INCREX, SET IFNE …), and their effects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.hashes import fields as hashes  # noqa: F401 - they declare commands
from rillet.commands.keys import expiry  # noqa: F401 - they declare commands
from rillet.commands.spec.versions import compat_with
from rillet.commands.strings import increx  # noqa: F401 - they declare commands

NOW = 1_700_000_000_000
SYNTAX = b"-ERR syntax error\r\n"
DIGEST = b"00006c38adf31777"


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


def effects(client):
    server = client.server
    events = [b"%b %b" % event for event in server.events if event[0] != b"keymiss"]
    written = [b" ".join(argv) for argv in server.propagation.take()]
    dirty, server.keyspace.dirty = server.keyspace.dirty, 0
    server.events.clear()
    return events, written, dirty


def test_sixteen_characters_are_a_digest_even_if_they_are_not_hexadecimal(client):
    run(client, "SET", "k", "v")
    assert reply(client, "DELEX", "k", "IFDEQ", "g" * 16) == 0
    assert reply(client, "SET", "k", "w", "IFDNE", "g" * 16) == b"OK"


def test_conditions_came_with_8_4(client):
    client.server.compat = compat_with("8.2")
    assert run(client, "SET", "k", "v", "IFNE", "x") == SYNTAX


@pytest.mark.parametrize(
    "command",
    ["SET k w PXAT 5", "SET k w XX GET PXAT 5", "SET k w IFNE x EXAT 1", "INCREX k PXAT 5", "GETEX k PXAT 5"],
)
def test_a_value_whose_expiry_is_past_is_deleted_and_counted(client, command):
    run(client, "SET", "k", 1)
    effects(client)
    before = client.server.keyspace.expired
    run(client, *command.split())
    assert effects(client) == ([b"del k"], [b"DEL k"], 1)
    assert client.server.keyspace.expired == before + (not command.startswith("GETEX"))


@pytest.mark.parametrize("command", ["SET k w PXAT 5", "SET k w NX PXAT 5", "INCREX k PXAT 5"])
def test_a_value_whose_expiry_is_past_makes_no_key(client, command):
    run(client, *command.split())
    assert effects(client) == ([], [], 0)
    assert client.server.keyspace.expired == 1
    client.server.compat = compat_with("8.6")
    if command.startswith("SET"):
        run(client, *command.split())
        assert effects(client)[1] == [command.encode()]


def test_increx_sets_keeps_and_takes_away_times(client):
    assert reply(client, "INCREX", "n", "PX", 100, "ENX") == [1, 1]
    assert reply(client, "INCREX", "n", "PX", 900, "ENX") == [2, 1]
    assert reply(client, "PTTL", "n") == 100
    assert reply(client, "INCREX", "n", "UBOUND", 2, "PX", 900) == [2, 0]
    assert reply(client, "PTTL", "n") == 100
    assert reply(client, "INCREX", "n") == [3, 1]
    assert reply(client, "PTTL", "n") == 100
    effects(client)
    assert reply(client, "INCREX", "n", "PERSIST") == [4, 1]
    assert effects(client) == ([b"incrby n", b"persist n"], [b"SET n 4"], 1)
    assert reply(client, "PTTL", "n") == -1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("BYINT x", "Increment is not an integer or out of range"),
        ("BYFLOAT x", "Increment is not a valid float"),
        ("LBOUND 1.5", "LBOUND is not an integer or out of range"),
        ("UBOUND x BYFLOAT 1", "UBOUND is not a valid float"),
        ("ENX", "ENX flag requires an expiration"),
        ("EX 0", "invalid expire time in 'increx' command"),
        ("EX 1 PX 1", "syntax error"),
        ("EX 1 PERSIST", "syntax error"),
        ("BYINT 1 BYINT 2", "syntax error"),
        ("BYINT 1 BYFLOAT 2", "syntax error"),
        ("BYINT", "syntax error"),
        ("FOO", "syntax error"),
        ("BYINT x FOO", "Increment is not an integer or out of range"),
        ("LBOUND x FOO", "syntax error"),
        ("LBOUND x ENX", "LBOUND is not an integer or out of range"),
        ("LBOUND 2 UBOUND 1 ENX", "LBOUND can't be greater than UBOUND"),
        ("ENX PERSIST", "syntax error"),
        ("PERSIST ENX", "syntax error"),
        ("BYFLOAT -inf FOO", "BYFLOAT increment cannot be Infinity"),
        ("BYFLOAT 1 LBOUND inf", "LBOUND can't be greater than UBOUND"),
        ("BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", "applied increment would be Infinity"),
    ],
)
def test_increx_refuses(client, words, text):
    assert run(client, "INCREX", "n", *words.split()) == b"-ERR %b\r\n" % text.encode()
    assert effects(client) == ([], [], 0)


def test_increx_never_answers_beyond_64_bits(client):
    run(client, "SET", "n", -(1 << 63))
    effects(client)
    overflow = b"-ERR applied increment would overflow\r\n"
    assert run(client, "INCREX", "n", "LBOUND", 10, "SATURATE") == overflow
    assert reply(client, "INCREX", "n", "LBOUND", 10) == [-(1 << 63), 0]
    run(client, "SET", "n", "inf")
    assert run(client, "INCREX", "n", "BYFLOAT", 1) == b"-ERR value cannot be Infinity\r\n"
    run(client, "SET", "n", "1.5")
    assert reply(client, "INCREX", "n", "BYFLOAT", 1, "UBOUND", "inf") == [b"2.5", b"1"]
    great = [b"%d" % int(1e22)] * 2
    assert reply(client, "INCREX", "n", "BYFLOAT", "1e22") == great  # rounded to 64 bits of mantissa


SHORT = st.binary(max_size=12).map(lambda text: bytes(byte % 3 + 97 for byte in text))


@given(SHORT, SHORT)
def test_lcs_is_as_long_as_the_table_says_and_common(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    client = make_client(server=FakeServer(now=NOW))
    run(client, "MSET", "a", first, "b", second)
    found = reply(client, "LCS", "a", "b")
    assert len(found) == reply(client, "LCS", "a", "b", "LEN") == table[-1][-1]
    for text in (first, second):
        rest = iter(text)
        assert all(byte in rest for byte in found)
    places = reply(client, "LCS", "a", "b", "IDX", "WITHMATCHLEN")[1]
    pieces = [first[start : end + 1] for (start, end), _, _ in reversed(places)]
    assert b"".join(pieces) == found
    assert [second[start : end + 1] for _, (start, end), _ in reversed(places)] == pieces


def test_lcs_of_strings_too_long_for_a_table_is_refused(client):
    client.server.config.proto_max_bulk_len = 1000
    run(client, "MSET", "a", "x" * 20, "b", "y" * 20)
    assert run(client, "LCS", "a", "b").startswith(b"-ERR Insufficient memory")
