"""String commands newer than 7.0 (DIGEST, DELEX, INCREX, SET IFNE …), and their effects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, effects, make_client, reply, run

from rillet.commands.hashes import fields as hashes  # noqa: F401 - they declare commands
from rillet.commands.keys import expiry  # noqa: F401 - they declare commands
from rillet.commands.spec.versions import compat_with
from rillet.commands.strings import increx  # noqa: F401 - they declare commands

NOW = 1_700_000_000_000
SYNTAX = b"-ERR syntax error\r\n"
# Its digest begins with zeros.


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


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


def test_floats_of_increx_are_doubles_in_resp3(client):
    client.resp = 3
    assert run(client, "INCREX", "n", "BYFLOAT", "0.1") == b"*2\r\n,0.1\r\n,0.1\r\n"
    assert run(client, "INCREX", "m") == b"*2\r\n:1\r\n:1\r\n"


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


def test_delex_and_conditional_set_are_propagated(client):
    run(client, "SET", "k", "v", "IFNE", "x")
    run(client, "SET", "k", "w", "IFEQ", "v", "GET", "KEEPTTL")
    run(client, "SET", "k", "x", "IFEQ", "w", "PX", 10)
    run(client, "SET", "k", "x", "IFEQ", "w")
    run(client, "DELEX", "k", "IFEQ", "no")
    run(client, "DELEX", "k", "IFEQ", "x")
    events, written, _ = effects(client)
    assert written == [
        b"SET k v IFNE x",
        b"SET k w IFEQ v KEEPTTL",
        b"SET k x PXAT %d" % (NOW + 10),
        b"DEL k",
    ]
    run(client, "SET", "k", "GET")
    run(client, "SET", "k", "v", "GET", "IFEQ", "GET")
    run(client, "DELEX", "k")
    events, written, _ = effects(client)
    assert written == [b"SET k GET", b"SET k v IFEQ GET", b"DELEX k"]
    assert events[-1] == b"del k"


def test_only_the_last_time_of_msetex_is_propagated(client):
    assert reply(client, "MSETEX", 1, "a", 1, "EX", 10, "NX", "EX", 20) == 1
    assert effects(client)[1] == [b"MSETEX 1 a 1 NX PXAT %d" % (NOW + 20_000)]
    assert reply(client, "MSETEX", 1, "a", 1, "exat", 1_700_000_001) == 1
    assert effects(client)[1] == [b"MSETEX 1 a 1 exat 1700000001"]
