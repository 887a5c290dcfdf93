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
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
SYNTAX = b"-ERR syntax error\r\n"
# Its digest begins with zeros.
TEXT = b"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd"
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


def test_a_digest_is_xxh3_in_16_digits(client):
    run(client, "SET", "k", TEXT)
    assert reply(client, "DIGEST", "k") == DIGEST
    assert reply(client, "DIGEST", "missing") is None
    run(client, "HSET", "h", "f", "v")
    assert run(client, "DIGEST", "h") == WRONG_TYPE


@pytest.mark.parametrize(
    ("condition", "operand", "met", "of_missing"),
    [
        ("IFEQ", TEXT, True, False),
        ("ifeq", b"other", False, False),
        ("IFNE", TEXT, False, True),
        ("IFNE", b"other", True, True),
        ("IFDEQ", DIGEST, True, False),
        ("IFDEQ", DIGEST.upper(), True, False),
        ("IFDEQ", b"0" * 16, False, False),
        ("IFDNE", DIGEST, False, True),
        ("ifdne", b"0" * 16, True, True),
    ],
)
def test_set_and_delex_know_the_same_conditions(client, condition, operand, met, of_missing):
    run(client, "SET", "k", TEXT)
    assert reply(client, "SET", "k", "new", "GET", condition, operand) == TEXT
    assert reply(client, "GET", "k") == (b"new" if met else TEXT)
    run(client, "SET", "k", TEXT)
    assert reply(client, "DELEX", "k", condition, operand) == int(met)
    assert reply(client, "SET", "missing", "v", condition, operand) == (b"OK" if of_missing else None)
    assert reply(client, "DELEX", "gone", condition, operand) == 0


def test_conditions_are_about_strings_and_digests(client):
    run(client, "HSET", "h", "f", "v")
    run(client, "SET", "k", "v")
    effects(client)
    assert run(client, "SET", "h", "v", "IFNE", "x") == WRONG_TYPE
    not_a_string = b"-ERR Key should be of string type if conditions are specified\r\n"
    assert run(client, "DELEX", "h", "IFEQ", "v") == run(client, "DELEX", "h", "IF", "v") == not_a_string
    bad = b"-ERR must be exactly 16 hexadecimal characters\r\n"
    for digest in ("", "0" * 15, "0" * 17):
        assert run(client, "SET", "k", "v", "IFDEQ", digest) == bad
        assert run(client, "DELEX", "k", "IFDNE", digest) == bad
    assert run(client, "DELEX", "missing", "IFDEQ", "12") == b":0\r\n"
    for condition in ("IF", ""):
        assert run(client, "DELEX", "k", condition, "v").startswith(b"-ERR Invalid condition")
        assert run(client, "DELEX", "missing", condition, "v") == b":0\r\n"
    for words in (["IFEQ"], ["IFEQ", "v", "x"]):
        assert run(client, "DELEX", "k", *words) == b"-ERR wrong number of arguments for 'delex' command\r\n"
    for words in (["IFEQ", "v", "NX"], ["XX", "IFEQ", "v"], ["IFEQ", "v", "IFNE", "v"], ["IFEQ"]):
        assert run(client, "SET", "k", "v", *words) == SYNTAX
    assert effects(client) == ([], [], 0)
    assert reply(client, "DELEX", "h") == 1


def test_sixteen_characters_are_a_digest_even_if_they_are_not_hexadecimal(client):
    run(client, "SET", "k", "v")
    assert reply(client, "DELEX", "k", "IFDEQ", "g" * 16) == 0
    assert reply(client, "SET", "k", "w", "IFDNE", "g" * 16) == b"OK"


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


def test_conditions_came_with_8_4(client):
    client.server.compat = compat_with("8.2")
    assert run(client, "SET", "k", "v", "IFNE", "x") == SYNTAX


def test_msetex_has_redis_errors_and_is_propagated_with_an_absolute_time(client):
    assert run(client, "MSETEX", 0, "a", 1) == b"-ERR invalid numkeys value\r\n"
    assert run(client, "MSETEX", "a", 1, "EX", 10) == b"-ERR invalid numkeys value\r\n"
    assert run(client, "MSETEX", 2147483648, "a", 1) == b"-ERR invalid numkeys value\r\n"
    assert run(client, "MSETEX", 2, "a", 1, "b") == b"-ERR wrong number of key-value pairs\r\n"
    assert reply(client, "MSETEX", 2, "a", 1, "b", 2, "EX", 10, "NX") == 1
    events, written, dirty = effects(client)
    assert written == [b"MSETEX 2 a 1 b 2 PXAT %d NX" % (NOW + 10_000)]
    assert [event for event in events if not event.startswith(b"new")] == [
        b"expire a",
        b"set a",
        b"expire b",
        b"set b",
    ]
    assert dirty == 2
    assert reply(client, "MSETEX", 2, "b", 1, "c", 2, "NX") == 0
    assert effects(client) == ([], [], 0)


def test_only_the_last_time_of_msetex_is_propagated(client):
    assert reply(client, "MSETEX", 1, "a", 1, "EX", 10, "NX", "EX", 20) == 1
    assert effects(client)[1] == [b"MSETEX 1 a 1 NX PXAT %d" % (NOW + 20_000)]
    assert reply(client, "MSETEX", 1, "a", 1, "exat", 1_700_000_001) == 1
    assert effects(client)[1] == [b"MSETEX 1 a 1 exat 1700000001"]


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


@pytest.mark.parametrize(
    ("words", "answer", "stored", "events"),
    [
        ("", [11, 1], b"11", b"SET n 11 KEEPTTL"),
        ("BYINT -20", [-10, -20], b"-10", b"SET n -10 KEEPTTL"),
        ("BYINT 5 UBOUND 12", [10, 0], b"10", None),
        ("BYINT 5 UBOUND 12 SATURATE", [12, 2], b"12", b"SET n 12 KEEPTTL"),
        ("SATURATE LBOUND 5 BYINT -50", [5, -5], b"5", b"SET n 5 KEEPTTL"),
        ("BYINT 9223372036854775807", [10, 0], b"10", None),
        ("BYINT 9223372036854775807 SATURATE", [(1 << 63) - 1, (1 << 63) - 11], b"9223372036854775807", None),
        ("BYFLOAT 0.5", [b"10.5", b"0.5"], b"10.5", b"SET n 10.5 KEEPTTL"),
        ("BYFLOAT 1e3 UBOUND 20.25 SATURATE", [b"20.25", b"10.25"], b"20.25", b"SET n 20.25 KEEPTTL"),
        ("BYFLOAT 1e3 UBOUND 20.25", [b"10", b"0"], b"10", None),
        ("EX 10", [11, 1], b"11", b"SET n 11 PXAT %d" % (NOW + 10_000)),
        ("PXAT 1700000000009 ENX", [11, 1], b"11", b"SET n 11 PXAT 1700000000009"),
        ("PERSIST", [11, 1], b"11", b"SET n 11"),
    ],
)
def test_increx_adds_within_bounds(client, words, answer, stored, events):
    run(client, "SET", "n", 10)
    effects(client)
    assert reply(client, "INCREX", "n", *words.split()) == answer
    assert reply(client, "GET", "n") == stored
    written = effects(client)[1]
    if events is not None:
        assert written == [events]
    elif answer[1] in (0, b"0"):
        assert written == []


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
