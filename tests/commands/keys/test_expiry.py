import pytest
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.keys import expiry  # noqa: F401 - it declares commands

NOW = 1_700_000_000_000
MAX = (1 << 63) - 1


@pytest.fixture
def client():
    client = make_client(server=FakeServer(now=NOW))
    client.db.add(b"k", b"v")
    client.server.events.clear()
    return client


def effects(client):
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    server.events.clear()
    dirty, server.keyspace.dirty = server.keyspace.dirty, 0
    return events, [b" ".join(argv) for argv in server.propagation.take()], dirty


@pytest.mark.parametrize(
    ("words", "when"),
    [
        (("EXPIRE", "k", 100), NOW + 100_000),
        (("PEXPIRE", "k", 100), NOW + 100),
        (("EXPIREAT", "k", 1_800_000_000), 1_800_000_000_000),
        (("PEXPIREAT", "k", NOW + 1), NOW + 1),
        (("PEXPIREAT", "k", MAX), MAX),
    ],
)
def test_an_expiry_is_propagated_as_an_absolute_time(client, words, when):
    client.db.watched[b"k"] = [1, 0]
    assert run(client, *words) == b":1\r\n"
    assert client.db.expires == {b"k": when}
    assert effects(client) == ([b"expire k"], [b"PEXPIREAT k %d" % when], 1)
    assert client.db.watched[b"k"][1] == 1


@pytest.mark.parametrize("name", ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
def test_a_missing_key_cannot_expire(client, name):
    assert run(client, name, "none", MAX // 10_000) == b":0\r\n"
    assert effects(client) == ([], [], 0)


@pytest.mark.parametrize(("lazy", "deletion"), [(False, b"DEL k"), (True, b"UNLINK k")])
@pytest.mark.parametrize(
    "words", [("EXPIRE", "k", -1), ("PEXPIRE", "k", 0), ("EXPIREAT", "k", 1), ("PEXPIREAT", "k", NOW)]
)
def test_a_time_that_is_past_deletes_the_key(client, words, lazy, deletion):
    client.server.config.lazyfree_lazy_expire = lazy
    client.db.watched[b"k"] = [1, 0]
    assert run(client, *words) == b":1\r\n"
    assert effects(client) == ([b"del k"], [deletion], 1)
    assert len(client.db) == 0
    assert client.db.watched[b"k"][1] == 1


def test_while_a_file_is_loaded_a_past_time_is_only_noted(client):
    client.server.keyspace.expiring = False
    assert run(client, "PEXPIREAT", "k", 1) == b":1\r\n"
    assert client.db.expires == {b"k": 1}


@pytest.mark.parametrize(
    ("present", "conditions", "new", "answer"),
    [
        (None, "NX", 50, 1),
        (40, "NX", 50, 0),
        (None, "XX", 50, 0),
        (40, "XX", 50, 1),
        (None, "GT", 50, 0),
        (40, "GT", 50, 1),
        (50, "GT", 50, 0),
        (60, "gt", 50, 0),
        (None, "LT", 50, 1),
        (40, "LT", 50, 0),
        (50, "LT", 50, 0),
        (60, "lt", 50, 1),
        (None, "LT XX", 50, 0),
        (60, "XX LT", 50, 1),
        (60, "XX XX", 50, 1),
    ],
)
def test_conditions(client, present, conditions, new, answer):
    if present is not None:
        client.db.set_expiry(b"k", NOW + present)
    assert reply(client, "PEXPIRE", "k", new, *conditions.split()) == answer
    if answer:
        assert effects(client)[1] == [b"PEXPIREAT k %d %b" % (NOW + new, conditions.encode())]
    else:
        assert effects(client) == ([], [], 0)
        assert client.db.expires == ({} if present is None else {b"k": NOW + present})


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("EXPIRE", "k", "x", "NX", "XX"),
            b"NX and XX, GT or LT options at the same time are not compatible",
        ),
        (("EXPIRE", "k", 1, "GT", "LT"), b"GT and LT options at the same time are not compatible"),
        (("EXPIRE", "k", 1, "GT", "NX", "Foo"), b"Unsupported option Foo"),
        (("EXPIRE", "none", "x"), b"value is not an integer or out of range"),
        (("EXPIRE", "none", MAX), b"invalid expire time in 'expire' command"),
        (("EXPIRE", "k", MAX // 1000), b"invalid expire time in 'expire' command"),
        (("EXPIRE", "k", -MAX), b"invalid expire time in 'expire' command"),
        (("PEXPIRE", "k", MAX), b"invalid expire time in 'pexpire' command"),
        (("EXPIREAT", "k", MAX), b"invalid expire time in 'expireat' command"),
        (("EXPIREAT", "k", -(MAX // 1000) - 1), b"invalid expire time in 'expireat' command"),
    ],
)
def test_what_is_refused_before_the_key_is_looked_at(client, words, error):
    assert run(client, *words) == b"-ERR %b\r\n" % error
    assert client.db.expires == {}


def test_the_earliest_times_are_no_overflow(client):
    assert run(client, "EXPIREAT", "k", -(MAX // 1000)) == b":1\r\n"
    client.db.add(b"k", b"v")
    assert run(client, "PEXPIRE", "k", -MAX - 1) == b":1\r\n"


def test_times_are_rounded_to_the_nearest_second(client):
    client.db.set_expiry(b"k", NOW + 1499)
    assert reply(client, "TTL", "k") == 1
    assert reply(client, "PTTL", "k") == 1499
    client.db.set_expiry(b"k", NOW + 1500)
    assert reply(client, "TTL", "k") == 2
    assert reply(client, "EXPIRETIME", "k") == NOW // 1000 + 2
    assert reply(client, "PEXPIRETIME", "k") == NOW + 1500


@pytest.mark.parametrize("name", ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"])
def test_keys_without_time_and_without_existence(client, name):
    assert reply(client, name, "k") == -1
    assert effects(client)[0] == []
    assert reply(client, name, "none") == -2
    assert effects(client)[0] == [b"keymiss none"]


def test_asking_for_the_time_is_no_access(client):
    client.server.advance(5)
    run(client, "TTL", "k")
    assert client.db.accessed == {b"k": NOW}


def test_persist(client):
    assert run(client, "PERSIST", "k") == b":0\r\n"
    assert run(client, "PERSIST", "none") == b":0\r\n"
    assert effects(client) == ([], [], 0)
    client.db.set_expiry(b"k", NOW + 5)
    client.db.watched[b"k"] = [1, 0]
    assert run(client, "PERSIST", "k") == b":1\r\n"
    assert effects(client) == ([b"persist k"], [b"PERSIST k"], 1)
    assert (client.db.expires, client.db.watched[b"k"][1]) == ({}, 1)
