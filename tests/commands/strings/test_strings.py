import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.strings import get_set as strings
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000
MAX = (1 << 63) - 1
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
SYNTAX = b"-ERR syntax error\r\n"
NULL = b"$-1\r\n"


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


@pytest.fixture
def with_stream(client):
    client.db.add(b"s", Stream())
    forget(client)
    return client


def forget(client):
    client.server.events.clear()
    client.server.propagation.take()
    client.server.keyspace.dirty = 0


def set_quietly(client, *words):
    run(client, "SET", *words)
    forget(client)


def effects(client):
    """Events, propagated commands and changes since the last time."""
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    spread = [b" ".join(argv) for argv in server.propagation.take()]
    dirty = server.keyspace.dirty
    forget(client)
    return events, spread, dirty


def ms(offset):
    return str(NOW + offset).encode()


def test_a_plain_set_and_get(client):
    assert run(client, "set", "k", "v") == b"+OK\r\n"
    assert effects(client) == ([b"new k", b"set k"], [b"set k v"], 1)
    assert run(client, "GET", "k") == b"$1\r\nv\r\n"
    assert effects(client) == ([], [], 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["SET", "set", "sEt"]),
            st.sampled_from(["a", "b", "s"]),
            st.binary(max_size=6),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_a_set_of_three_words_is_one_with_options(steps, notified):
    """One without any: what its shortcut gives, the general way gives."""
    twins = []
    for general in (False, True):
        client = make_client(server=FakeServer(now=NOW))
        client.db.add(b"s", Stream())
        forget(client)
        if not notified:
            client.server.keyspace.notify_mask = 0
        seen = []
        for verb, key, value, is_old in steps:
            if is_old and key.encode() in client.db.entries:
                client.db.set_expiry(key.encode(), NOW - 1)
            words = [verb.encode(), key.encode(), value]
            answer = strings._set_with_options(client, words) if general else run(client, *words)
            seen.append((answer, effects(client)))
        entries = {key: value if type(value) is bytes else None for key, value in client.db.entries.items()}
        twins.append((seen, entries, client.db.expires, client.db.accessed, client.server.keyspace.hits))
    assert twins[0] == twins[1]


def test_a_missing_key_is_null_in_both_protocols(client):
    assert run(client, "GET", "k") == NULL
    assert effects(client) == ([b"keymiss k"], [], 0)
    client.resp = 3
    assert run(client, "GET", "k") == b"_\r\n"


def test_a_plain_set_replaces_a_stream_and_drops_an_expiry(with_stream):
    with_stream.db.set_expiry(b"s", NOW + 5)
    run(with_stream, "SET", "s", "v")
    assert (with_stream.db.entries, with_stream.db.expires) == ({b"s": b"v"}, {})


@pytest.mark.parametrize("options", [(), ("EX", 9), ("KEEPTTL",), ("XX", "GET")])
def test_every_set_is_a_modification(client, options):
    set_quietly(client, "k", "v")
    client.db.watched[b"k"] = [1, 0]
    run(client, "SET", "k", "w", *options)
    assert client.db.watched[b"k"][1] == 1


@pytest.mark.parametrize(
    ("options", "when"),
    [
        (("EX", 100), NOW + 100_000),
        (("px", 100), NOW + 100),
        (("EXAT", 1_800_000_000), 1_800_000_000_000),
        (("PXAT", NOW + 7), NOW + 7),
        (("EX", 1, "EX", 2), NOW + 2000),
        (("EX", 100, "NX"), NOW + 100_000),
    ],
)
def test_a_set_with_expiry_is_propagated_with_the_absolute_time(client, options, when):
    assert run(client, "SET", "k", "v", *options) == b"+OK\r\n"
    assert client.db.expires == {b"k": when}
    assert effects(client) == ([b"new k", b"set k", b"expire k"], [b"SET k v PXAT %d" % when], 1)


def test_keepttl_keeps_the_expiry(client):
    set_quietly(client, "k", "v", "PX", 50)
    run(client, "SET", "k", "w", "keepttl")
    assert client.db.expires == {b"k": NOW + 50}
    assert effects(client) == ([b"set k"], [b"SET k w keepttl"], 1)


def test_a_condition_that_fails_changes_nothing(client):
    assert run(client, "SET", "k", "v", "XX") == NULL
    set_quietly(client, "k", "v")
    assert run(client, "SET", "k", "w", "NX") == NULL
    assert run(client, "SET", "k", "w", "NX", "GET") == b"$1\r\nv\r\n"
    assert effects(client) == ([], [], 0)


def test_get_returns_the_old_value_and_is_not_propagated(client):
    set_quietly(client, "k", "v")
    assert run(client, "SET", "k", "GET", "XX", "get") == b"$1\r\nv\r\n"
    assert effects(client)[1] == [b"SET k GET XX"]
    assert run(client, "SET", "other", "v", "NX", "GET") == NULL
    assert client.db.entries[b"other"] == b"v"


def test_get_refuses_another_type_before_any_condition(with_stream):
    assert run(with_stream, "SET", "s", "v", "NX", "GET") == WRONG_TYPE
    assert run(with_stream, "SET", "s", "v", "EX", 0, "GET") == (
        b"-ERR invalid expire time in 'set' command\r\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        ("XX", "NX"),
        ("KEEPTTL", "EX", 1),
        ("PERSIST",),
        ("IFEQ", "v", "NX"),
    ],
)
def test_options_of_set_that_do_not_go_together(client, options):
    assert run(client, "SET", "k", "v", *options) == SYNTAX


@pytest.mark.parametrize(
    ("unit", "amount"),
    [
        ("EX", 0),
        ("EX", -1),
        ("EX", MAX),
        ("EX", MAX // 1000),
        ("PX", MAX),
        ("PX", 0),
        ("EXAT", MAX),
        ("PXAT", 0),
    ],
)
def test_expire_times_that_set_refuses(client, unit, amount):
    assert run(client, "SET", "k", "v", unit, amount) == b"-ERR invalid expire time in 'set' command\r\n"
    assert len(client.db) == 0


def test_the_latest_time_of_all_is_taken(client):
    assert run(client, "SET", "k", "v", "PXAT", MAX) == b"+OK\r\n"
    assert client.db.expires == {b"k": MAX}


def test_a_set_over_a_key_past_its_time_expires_it_first(client):
    client.server.keyspace.on_expired = lambda db, key: client.server.propagation.add(db.index, [b"DEL", key])
    set_quietly(client, "k", "v", "PX", 1)
    client.server.advance(10)
    assert run(client, "SET", "k", "w", "XX") == NULL
    assert effects(client) == ([b"expired k"], [b"DEL k"], 0)
    set_quietly(client, "k", "v", "PX", 1)
    client.server.advance(10)
    run(client, "SET", "k", "w", "KEEPTTL")
    assert effects(client) == ([b"expired k", b"new k", b"set k"], [b"DEL k", b"SET k w KEEPTTL"], 1)
    assert client.db.expires == {}


def test_setnx_sets_once(client):
    assert run(client, "SETNX", "k", "v") == b":1\r\n"
    assert effects(client) == ([b"new k", b"set k"], [b"SETNX k v"], 1)
    assert run(client, "SETNX", "k", "w") == b":0\r\n"
    assert effects(client) == ([], [], 0)


@pytest.mark.parametrize(("name", "milliseconds"), [("SETEX", 9000), ("PSETEX", 9)])
def test_setex_and_psetex(client, name, milliseconds):
    assert run(client, name, "k", 9, "v") == b"+OK\r\n"
    assert effects(client) == ([b"new k", b"set k", b"expire k"], [b"SET k v PXAT " + ms(milliseconds)], 1)
    assert (
        run(client, name, "k", 0, "v")
        == b"-ERR invalid expire time in '%b' command\r\n" % name.lower().encode()
    )


def test_getset_returns_the_old_value(client):
    assert run(client, "GETSET", "k", "v") == NULL
    assert effects(client) == ([b"keymiss k", b"new k", b"set k"], [b"SET k v"], 1)
    client.db.set_expiry(b"k", NOW + 5)
    assert run(client, "GETSET", "k", "w") == b"$1\r\nv\r\n"
    assert client.db.expires == {}


def test_getdel_takes_the_value_away(client):
    set_quietly(client, "k", "v")
    assert run(client, "GETDEL", "k") == b"$1\r\nv\r\n"
    assert effects(client) == ([b"del k"], [b"DEL k"], 1)
    assert run(client, "GETDEL", "k") == NULL


def test_a_plain_getex_only_reads(client):
    set_quietly(client, "k", "v", "PX", 9)
    assert run(client, "GETEX", "k") == b"$1\r\nv\r\n"
    assert effects(client) == ([], [], 0)


def test_getex_sets_and_removes_the_expiry(client):
    set_quietly(client, "k", "v")
    assert run(client, "GETEX", "k", "EX", 5) == b"$1\r\nv\r\n"
    assert effects(client) == ([b"expire k"], [b"PEXPIREAT k " + ms(5000)], 1)
    assert run(client, "GETEX", "k", "PERSIST") == b"$1\r\nv\r\n"
    assert effects(client) == ([b"persist k"], [b"PERSIST k"], 1)
    assert run(client, "GETEX", "k", "PERSIST") == b"$1\r\nv\r\n"
    assert effects(client) == ([], [], 0)


def test_getex_deletes_a_key_whose_time_is_past(client):
    set_quietly(client, "k", "v")
    assert run(client, "GETEX", "k", "EXAT", 1) == b"$1\r\nv\r\n"
    assert effects(client) == ([b"del k"], [b"DEL k"], 1)


def test_getex_looks_at_the_key_before_the_amount(with_stream):
    assert run(with_stream, "GETEX", "none", "EX", 0) == NULL
    assert run(with_stream, "GETEX", "s", "EX", 0) == WRONG_TYPE
    set_quietly(with_stream, "k", "v")
    assert run(with_stream, "GETEX", "k", "EX", 0) == b"-ERR invalid expire time in 'getex' command\r\n"


@pytest.mark.parametrize(
    "options", [("KEEPTTL",), ("EX", 1, "PERSIST"), ("PERSIST", "EX", 1), ("NX",), ("GET",)]
)
def test_options_getex_refuses_whatever_the_key(client, options):
    assert run(client, "GETEX", "k", *options) == SYNTAX


def test_mset_sets_all_and_the_last_of_a_key_named_twice(client):
    assert run(client, "MSET", "a", 1, "b", 2, "a", 3) == b"+OK\r\n"
    assert client.db.entries == {b"a": b"3", b"b": b"2"}
    assert effects(client) == (
        [b"new a", b"set a", b"new b", b"set b", b"set a"],
        [b"MSET a 1 b 2 a 3"],
        3,
    )


def test_msetnx_sets_all_or_none(client):
    assert run(client, "MSETNX", "a", 1, "b", 2) == b":1\r\n"
    assert effects(client)[1:] == ([b"MSETNX a 1 b 2"], 2)
    assert run(client, "MSETNX", "c", 1, "b", 2) == b":0\r\n"
    assert effects(client) == ([], [], 0)
    assert b"c" not in client.db.entries


@pytest.mark.parametrize("name", ["MSET", "MSETNX"])
def test_a_key_without_a_value_is_an_arity_error(client, name):
    assert run(client, name, "a", 1, "b") == (
        b"-ERR wrong number of arguments for '%b' command\r\n" % name.lower().encode()
    )


@pytest.mark.parametrize(
    "words", [("GET", "s"), ("GETDEL", "s"), ("GETSET", "s", "v"), ("APPEND", "s", "v"), ("STRLEN", "s"),
              ("GETRANGE", "s", 0, 1), ("SETRANGE", "s", 0, "")],
)  # fmt: skip
def test_a_stream_is_the_wrong_type(with_stream, words):
    assert run(with_stream, *words) == WRONG_TYPE
    assert effects(with_stream) == ([], [], 0)


def test_append_keeps_the_expiry_and_counts_even_nothing(client):
    assert run(client, "APPEND", "k", "ab") == b":2\r\n"
    assert effects(client) == ([b"new k", b"append k"], [b"APPEND k ab"], 1)
    client.db.set_expiry(b"k", NOW + 5)
    assert run(client, "APPEND", "k", "c") == b":3\r\n"
    assert run(client, "APPEND", "k", "") == b":3\r\n"
    assert (client.db.entries, client.db.expires) == ({b"k": b"abc"}, {b"k": NOW + 5})
    assert effects(client) == ([b"append k"] * 2, [b"APPEND k c", b"APPEND k "], 2)


@pytest.mark.parametrize(("start", "end", "part"), [(-1, -100, b""), (-100, -50, b"h"), (1, 100, b"ello")])
def test_getrange_replies_as_redis(client, start, end, part):
    set_quietly(client, "k", "hello")
    assert reply(client, "GETRANGE", "k", start, end) == part
    assert reply(client, "SUBSTR", "k", start, end) == part


def test_getrange_of_a_missing_key_checks_the_numbers_first(client):
    assert run(client, "GETRANGE", "k", 0, 1) == b"$0\r\n\r\n"
    assert run(client, "GETRANGE", "k", "x", 1) == b"-ERR value is not an integer or out of range\r\n"


def test_setrange_overwrites_and_fills_gaps(client):
    set_quietly(client, "k", "hello", "PX", 9)
    assert run(client, "SETRANGE", "k", 1, "XY") == b":5\r\n"
    assert run(client, "SETRANGE", "k", 7, "z") == b":8\r\n"
    assert (client.db.entries, client.db.expires) == ({b"k": b"hXYlo\0\0z"}, {b"k": NOW + 9})
    assert effects(client) == ([b"setrange k"] * 2, [b"SETRANGE k 1 XY", b"SETRANGE k 7 z"], 2)


def test_an_empty_setrange_changes_nothing(client):
    assert run(client, "SETRANGE", "k", 5, "") == b":0\r\n"
    set_quietly(client, "k", "hello")
    assert run(client, "SETRANGE", "k", 1 << 40, "") == b":5\r\n"
    assert effects(client) == ([], [], 0)


def test_setrange_checks_the_offset_before_the_key(with_stream):
    assert run(with_stream, "SETRANGE", "s", -1, "") == b"-ERR offset is out of range\r\n"


def test_no_string_grows_beyond_the_limit(client):
    client.server.config.proto_max_bulk_len = 8
    too_long = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
    assert run(client, "SETRANGE", "k", 8, "x") == too_long
    assert run(client, "SETRANGE", "k", 7, "x") == b":8\r\n"
    assert run(client, "APPEND", "k", "x") == too_long
    assert run(client, "SETRANGE", "k", MAX, "x") == too_long
    assert len(client.db.entries[b"k"]) == 8
