"""XGROUP and XACK."""

import pytest
from support.fake_server import make_client, ready_keys, run, wait_for
from support.groups import effects, forget, group_client

NOW = 1_700_000_000_000
OK = b"+OK\r\n"


@pytest.fixture
def client():
    return group_client()


def group_of(client, name: bytes = b"g"):
    return client.db.entries[b"s"].groups[name]


# XGROUP CREATE


def test_a_new_stream_counts_as_modified_but_a_new_group_does_not():
    client = make_client()
    client.db.watched[b"s"] = [1, 0]
    run(client, "XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    assert client.db.watched[b"s"] == [1, 1]
    run(client, "XGROUP", "CREATE", "s", "h", "0", "MKSTREAM")
    run(client, "XGROUP", "SETID", "s", "h", "1")
    run(client, "XGROUP", "DESTROY", "s", "h")
    assert client.db.watched[b"s"] == [1, 1]


# The others


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


# XACK


def test_acknowledging_does_not_touch_the_message_or_the_consumer(client):
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    client.server.advance(50)
    run(client, "XACK", "s", "g", "1-0")
    assert client.db.entries[b"s"].length == 3
    assert group_of(client).consumers[b"c"].seen_ms == NOW
