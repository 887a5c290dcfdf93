import pytest
from support.fake_server import FakeServer, make_client, run
from support.groups import forget

from rillet.commands.spec.versions import compat_with
from rillet.storage.rdb import dump_value

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


def test_a_replay_brings_even_what_is_over(client):
    payload = payload_of(client, "k")
    client.trusted = client.replays = True
    run(client, "RESTORE", "l", 1, payload, "ABSTTL")
    assert client.db.entries[b"l"] == b"text"


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
