"""XGROUP and XACK."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, ready_keys, run, wait_for
from support.groups import effects, forget, group_client
from support.streams.pending import pending_ids

NOW = 1_700_000_000_000
KEY_NEEDED = (
    b"-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM "
    b"option to create an empty stream automatically.\r\n"
)
BAD_ID = b"-ERR Invalid stream ID specified as stream command argument\r\n"
OK = b"+OK\r\n"


@pytest.fixture
def client():
    return group_client()


def group_of(client, name: bytes = b"g"):
    return client.db.entries[b"s"].groups[name]


def unknown(name: str) -> bytes:
    return f"-ERR unknown subcommand or wrong number of arguments for '{name}'. Try XGROUP HELP.\r\n".encode()


# XGROUP CREATE


def test_create_makes_a_group_at_an_id(client):
    assert run(client, "XGROUP", "CREATE", "s", "h", "2") == OK
    assert (group_of(client, b"h").last_id, group_of(client, b"h").entries_read) == (2 << 64, None)
    assert effects(client) == ["XGROUP CREATE s h 2"]
    assert client.server.events == [(b"xgroup-create", b"s")]
    assert client.server.keyspace.dirty == 1


def test_create_at_the_end_keeps_the_sign_when_it_is_propagated(client):
    assert run(client, "xgroup", "create", "s", "h", "$", "entriesread", "3") == OK
    assert (group_of(client, b"h").last_id, group_of(client, b"h").entries_read) == (3 << 64, 3)
    assert effects(client) == ["xgroup create s h $ entriesread 3"]


def test_create_makes_the_stream_on_request():
    client = make_client()
    assert run(client, "XGROUP", "CREATE", "s", "g", "$") == KEY_NEEDED
    assert run(client, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM", "ENTRIESREAD", "-1") == OK
    assert client.db.entries[b"s"].length == 0
    assert client.server.events == [(b"new", b"s"), (b"xgroup-create", b"s")]
    assert (group_of(client).last_id, group_of(client).entries_read) == (0, None)


def test_a_new_stream_counts_as_modified_but_a_new_group_does_not():
    client = make_client()
    client.db.watched[b"s"] = [1, 0]
    run(client, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    assert client.db.watched[b"s"] == [1, 1]
    run(client, "XGROUP", "CREATE", "s", "h", "0", "MKSTREAM")
    run(client, "XGROUP", "SETID", "s", "h", "1")
    run(client, "XGROUP", "DESTROY", "s", "h")
    assert client.db.watched[b"s"] == [1, 1]


def test_create_of_an_existing_group_is_busy_but_a_bad_id_is_reported_first(client):
    assert run(client, "XGROUP", "CREATE", "s", "g", "x") == BAD_ID
    assert (
        run(client, "XGROUP", "CREATE", "s", "g", "0") == b"-BUSYGROUP Consumer Group name already exists\r\n"
    )
    assert effects(client) == []


@pytest.mark.parametrize("options", [("NOPE",), ("ENTRIESREAD",), ("MKSTREAM", "1")])
def test_create_names_itself_when_its_options_are_wrong(client, options):
    client.db.entries[b"str"] = b"x"
    assert run(client, "XGROUP", "create", "str", "g", "0", *options) == unknown("create")


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("CREATE s h 0 MKSTREAM MKSTREAM MKSTREAM", True),
        ("CREATE s h 0 MKSTREAM MKSTREAM MKSTREAM MKSTREAM", False),
        ("CREATE s h 0 MKSTREAM ENTRIESREAD 1", True),
        ("CREATE s h 0 ENTRIESREAD 1 ENTRIESREAD 2", False),
        ("CREATE s h 0 ENTRIESREAD 1 MKSTREAM MKSTREAM", False),
        ("SETID s g 0 ENTRIESREAD 1", True),
        ("SETID s g 0 ENTRIESREAD 1 ENTRIESREAD 2", False),
    ],
)
def test_options_repeat_only_as_far_as_the_words_are_counted(client, words, accepted):
    assert run(client, "XGROUP", *words.split()) == (OK if accepted else unknown(words.split()[0]))


def test_a_bad_value_is_reported_before_too_many_words(client):
    words = ("XGROUP", "SETID", "s", "g", "0", "ENTRIESREAD", "x", "ENTRIESREAD", "3")
    assert run(client, *words) == b"-ERR value is not an integer or out of range\r\n"


@pytest.mark.parametrize("subcommand", ["CREATE", "SETID"])
def test_entries_read_is_an_integer_from_minus_one_on(client, subcommand):
    words = ("XGROUP", subcommand, "nokey", "h", "x", "ENTRIESREAD")
    assert run(client, *words, "x") == b"-ERR value is not an integer or out of range\r\n"
    assert run(client, *words, "-2") == b"-ERR value for ENTRIESREAD must be positive or -1\r\n"
    assert run(client, *words, "-1") == KEY_NEEDED


# The others


@pytest.mark.parametrize(
    ("word", "expected"),
    [("2", 2 << 64), ("$", 3 << 64), ("-", 0), ("+", (1 << 128) - 1), ("99-1", 99 << 64 | 1)],
)
def test_setid_moves_the_group_anywhere_and_forgets_the_counter(client, word, expected):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    forget(client)
    assert run(client, "XGROUP", "SETID", "s", "g", word) == OK
    assert (group_of(client).last_id, group_of(client).entries_read) == (expected, None)
    assert len(group_of(client).pel) == 3
    assert effects(client) == [f"XGROUP SETID s g {word}"]
    assert client.server.events == [(b"xgroup-setid", b"s")]


def test_setid_judges_the_group_before_the_id_and_the_options_before_both(client):
    assert run(client, "XGROUP", "SETID", "s", "g", "x") == BAD_ID
    assert run(client, "XGROUP", "SETID", "s", "nog", "x").startswith(b"-NOGROUP ")
    assert run(client, "XGROUP", "SETID", "s", "nog", "x", "MKSTREAM") == unknown("SETID")


def test_setid_sets_the_counter_and_wakes_no_client(client):
    wait_for(client, b"s")
    assert run(client, "XGROUP", "SETID", "s", "g", "1-0", "ENTRIESREAD", "1") == OK
    assert group_of(client).entries_read == 1
    assert ready_keys(client) == []


def test_destroy_removes_the_group_and_wakes_who_waits_for_it(client):
    wait_for(client, b"s")
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    forget(client)
    assert run(client, "XGROUP", "DESTROY", "s", "g") == b":1\r\n"
    assert ready_keys(client) == [b"s"]
    assert effects(client) == ["XGROUP DESTROY s g"]
    assert client.server.events == [(b"xgroup-destroy", b"s")]
    assert run(client, "XGROUP", "DESTROY", "s", "g") == b":0\r\n"
    assert ready_keys(client) == []
    assert effects(client) == []


def test_createconsumer_says_whether_it_did(client):
    assert run(client, "XGROUP", "CREATECONSUMER", "s", "g", "c") == b":1\r\n"
    assert effects(client) == ["XGROUP CREATECONSUMER s g c"]
    assert client.server.events == [(b"xgroup-createconsumer", b"s")]
    forget(client)
    client.server.advance(5)
    assert run(client, "XGROUP", "CREATECONSUMER", "s", "g", "c") == b":0\r\n"
    assert effects(client) == client.server.events == []
    consumer = group_of(client).consumers[b"c"]
    assert (consumer.seen_ms, consumer.active_ms) == (NOW, -1)


def test_delconsumer_drops_pending_entries_and_says_how_many(client):
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "s", ">")
    run(client, "XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", ">")
    forget(client)
    assert run(client, "XGROUP", "DELCONSUMER", "s", "g", "c") == b":2\r\n"
    assert pending_ids(group_of(client)) == [b"3-0"]
    assert effects(client) == ["XGROUP DELCONSUMER s g c"]
    assert client.server.events == [(b"xgroup-delconsumer", b"s")]
    assert run(client, "XGROUP", "DELCONSUMER", "s", "g", "c") == b":0\r\n"
    assert effects(client) == []


# XACK


def test_xack_counts_what_was_pending(client):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    forget(client)
    assert run(client, "XACK", "s", "g", "1-0", "9-0", "2", "1-0") == b":2\r\n"
    assert pending_ids(group_of(client)) == [b"3-0"]
    assert effects(client) == ["XACK s g 1-0 9-0 2 1-0"]
    assert client.server.keyspace.dirty == 2
    assert client.server.events == []


def test_xack_of_nothing_says_nothing(client):
    assert run(client, "XACK", "s", "g", "1-0") == b":0\r\n"
    assert effects(client) == []
    assert client.server.keyspace.dirty == 0


@pytest.mark.parametrize("ids", [("x",), ("1-0", "x"), ("1-0", "2-0", "-"), ("77-0", "1-")])
def test_one_bad_id_acknowledges_nothing(client, ids):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    forget(client)
    assert run(client, "XACK", "s", "g", *ids) == BAD_ID
    assert len(group_of(client).pel) == 3
    assert effects(client) == []


def test_ids_are_not_validated_where_there_is_no_group(client):
    assert run(client, "XACK", "nokey", "g", "x") == b":0\r\n"
    assert run(client, "XACK", "s", "nog", "x") == b":0\r\n"
    client.db.entries[b"str"] = b"x"
    assert run(client, "XACK", "str", "g", "x").startswith(b"-WRONGTYPE ")


def test_other_spellings_of_an_id_acknowledge_it(client):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    assert run(client, "XACK", "s", "g", "01-00") == b":1\r\n"
    assert run(client, "XACK", "s", "g", "+2", " 3-0") == b":2\r\n"


def test_acknowledging_does_not_touch_the_message_or_the_consumer(client):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    client.server.advance(50)
    run(client, "XACK", "s", "g", "1-0")
    assert client.db.entries[b"s"].length == 3
    assert group_of(client).consumers[b"c"].seen_ms == NOW
