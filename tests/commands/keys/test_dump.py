import pytest
from support.fake_server import FakeServer, make_client, run
from support.groups import FAMILIES, effects, forget

from rillet.commands.keys import dump
from rillet.commands.spec.versions import compat_with
from rillet.commands.strings import get_set as strings
from rillet.storage.rdb import dump_value, restore_value

assert FAMILIES, dump
assert strings
NOW = 1_700_000_000_000


@pytest.fixture
def client():
    client = make_client(server=FakeServer(NOW, rdb_version=11, lazyfree_lazy_server_del=False))
    run(client, "XADD", "s", "1-0", "f", "v")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    run(client, "XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
    run(client, "SET", "k", "text")
    forget(client)
    return client


def payload_of(client, key):
    reply = run(client, "DUMP", key)
    head, _, rest = reply.partition(b"\r\n")
    assert head == b"$%d" % (len(rest) - 2)
    return rest[:-2]


@pytest.mark.parametrize("version", [10, 11])
def test_the_version_is_chosen_by_the_configuration(client, version):
    client.server.config.rdb_version = version
    payload = payload_of(client, "s")
    assert payload[0] == {10: 19, 11: 21}[version]
    assert payload[-10:-8] == version.to_bytes(2, "little")


def test_a_missing_key_is_null_in_either_protocol(client):
    assert run(client, "DUMP", "x") == b"$-1\r\n"
    client.resp = 3
    assert run(client, "DUMP", "x") == b"_\r\n"


@pytest.mark.parametrize(
    ("version", "newest"), [("7.0", 10), ("7.2", 11), ("8.2", 12), ("8.6", 13), ("8.10", 15)]
)
def test_a_payload_newer_than_the_server_answers_as_is_refused(client, version, newest):
    client.server.compat = compat_with(version)
    client.server.config.rdb_version = 0
    value = client.db.entries[b"k"]
    assert run(client, "RESTORE", "l", 0, dump_value(value, version=newest)) == b"+OK\r\n"
    assert run(client, "RESTORE", "m", 0, dump_value(value, version=newest + 1)) == (
        b"-ERR DUMP payload version or checksum are wrong\r\n"
    )


def test_a_restored_stream_has_groups_of_its_own(client):
    assert run(client, "RESTORE", "t", 0, payload_of(client, "s")) == b"+OK\r\n"
    run(client, "XACK", "t", "g", "1-0")
    assert run(client, "XPENDING", "s", "g").startswith(b"*4\r\n:1\r\n")


def test_what_is_propagated_has_an_absolute_time(client):
    payload = payload_of(client, "k")
    run(client, "RESTORE", "l", 5000, payload, "IDLETIME", 7)
    (sent,) = client.server.propagation.take()
    assert sent == [b"RESTORE", b"l", b"%d" % (NOW + 5000), payload, b"IDLETIME", b"7", b"ABSTTL"]
    assert client.db.expires[b"l"] == NOW + 5000
    assert client.db.accessed[b"l"] == NOW - 7000


@pytest.mark.parametrize("words", [["0"], [NOW + 1, "ABSTTL"], ["0", "replace"]])
def test_otherwise_it_is_propagated_as_it_came(client, words):
    payload = payload_of(client, "k")
    command = ["RESTORE", "l", words[0], payload, *words[1:]]
    run(client, *command)
    assert client.server.propagation.take() == [
        [word if isinstance(word, bytes) else str(word).encode() for word in command]
    ]


def test_events_changes_and_watchers(client):
    payload = payload_of(client, "k")
    client.db.watched[b"k"] = [1, 0]
    run(client, "RESTORE", "k", 0, payload, "REPLACE")
    run(client, "RESTORE", "l", 0, payload)
    assert client.server.events == [(b"new", b"k"), (b"restore", b"k"), (b"new", b"l"), (b"restore", b"l")]
    assert client.server.keyspace.dirty == 2
    assert client.db.watched[b"k"] == [1, 1]


def test_a_time_that_is_over_deletes_what_would_be_replaced(client):
    payload = payload_of(client, "k")
    assert run(client, "RESTORE", "k", 1, payload, "REPLACE", "ABSTTL") == b"+OK\r\n"
    assert effects(client) == ["DEL k"]
    assert client.server.events == [(b"del", b"k")]
    assert run(client, "RESTORE", "l", 1, payload, "ABSTTL") == b"+OK\r\n"
    assert effects(client) == []
    assert b"k" not in client.db.entries
    assert b"l" not in client.db.entries


def test_a_replay_brings_even_what_is_over(client):
    payload = payload_of(client, "k")
    client.trusted = client.replays = True
    run(client, "RESTORE", "l", 1, payload, "ABSTTL")
    assert client.db.entries[b"l"] == b"text"


def test_a_ttl_never_runs_over(client):
    run(client, "RESTORE", "l", (1 << 63) - 1, payload_of(client, "k"))
    assert client.db.expires[b"l"] == (1 << 63) - 1


def test_restoring_for_another_node_is_the_same(client):
    payload = payload_of(client, "s")
    assert run(client, "RESTORE-ASKING", "t", 0, payload) == b"+OK\r\n"
    assert restore_value(payload_of(client, "t")).length == 1


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_an_entry_given_back_by_xnack_is_restored_without_a_consumer_of_its_own(running, kind):
    with running(kind).wire() as wire:
        wire.call("FLUSHALL")
        wire.call("XADD", "s", "1-0", "f", "v")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
        wire.call("XNACK", "s", "g", "SILENT", "IDS", "1", "1-0")
        payload = wire.call("DUMP", "s").value
        wire.call("RESTORE", "t", "0", payload)
        assert str(wire.call("XPENDING", "t", "g", "-", "+", "9")) == '*[*[$"1-0" $"" :-1 :0]]'
        assert str(wire.call("XINFO", "CONSUMERS", "t", "g")).count('$"name"') == 1
