import pytest
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.keys import object as object_commands  # noqa: F401 - it declares commands
from rillet.commands.spec.versions import compat_with
from rillet.storage.keyspace.frequency import Settings
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


@pytest.mark.parametrize(
    ("value", "count"),
    [(b"0", 2147483647), (b"9999", 2147483647), (b"10000", 1), (b"-1", 1), (b"x", 1), (Stream(), 1)],
)
def test_small_integers_look_shared(client, value, count):
    client.db.add(b"k", value)
    assert reply(client, "OBJECT", "refcount", "k") == 1
    client.server.compat = compat_with("7.0")
    assert reply(client, "OBJECT", "refcount", "k") == count


def test_the_idle_time_is_in_whole_seconds_and_asking_does_not_end_it(client):
    client.db.add(b"k", b"v")
    client.server.advance(2999)
    assert reply(client, "OBJECT", "IDLETIME", "k") == 2
    assert reply(client, "OBJECT", "IDLETIME", "k") == 2
    client.db.read(b"k")
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0


def test_a_clock_that_was_set_back_gives_no_negative_idle_time(client):
    client.db.add(b"k", b"v")
    client.server.advance(-5000)
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0


def test_the_frequency_needs_an_lfu_policy_and_the_idle_time_any_other(client):
    client.db.add(b"k", b"v")
    tail = (
        b" Please note that when switching between policies at runtime LRU and LFU data will take some time to "
        b"adjust.\r\n"
    )
    assert run(client, "OBJECT", "FREQ", "k") == (
        b"-ERR An LFU maxmemory policy is not selected, access frequency not tracked." + tail
    )
    client.server.keyspace.usage = Settings()
    assert reply(client, "OBJECT", "FREQ", "k") == 5
    assert run(client, "OBJECT", "IDLETIME", "k") == (
        b"-ERR An LFU maxmemory policy is selected, idle time not tracked." + tail
    )
