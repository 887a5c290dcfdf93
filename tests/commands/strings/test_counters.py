import pytest
from support.fake_server import FakeServer, make_client, run

from rillet.commands.strings import counters  # noqa: F401 - it declares commands
from rillet.storage.streams.stream import Stream

MAX = (1 << 63) - 1
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
NOT_A_FLOAT = b"-ERR value is not a valid float\r\n"
OVERFLOW = b"-ERR increment or decrement would overflow\r\n"


@pytest.fixture
def client():
    return make_client(server=FakeServer())


def put(client, value):
    client.db.put(b"n", value)
    client.server.events.clear()


def test_counting_begins_at_zero_and_keeps_the_expiry(client):
    assert run(client, "INCR", "n") == b":1\r\n"
    assert client.server.events == [(b"new", b"n"), (b"incrby", b"n")]
    client.db.set_expiry(b"n", 1 << 60)
    assert run(client, "DECR", "n") == b":0\r\n"
    assert run(client, "INCRBY", "n", 41) == b":41\r\n"
    assert run(client, "DECRBY", "n", -1) == b":42\r\n"
    assert client.server.events[2:] == [(b"incrby", b"n")] * 3
    assert client.server.propagation.take() == [
        [b"INCR", b"n"],
        [b"DECR", b"n"],
        [b"INCRBY", b"n", b"41"],
        [b"DECRBY", b"n", b"-1"],
    ]
    assert client.server.keyspace.dirty == 4
    assert (client.db.entries, client.db.expires) == ({b"n": b"42"}, {b"n": 1 << 60})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"%d" % MAX, ("INCR", "n")),
        (b"%d" % MAX, ("INCRBY", "n", 1)),
        (b"%d" % MAX, ("DECRBY", "n", -1)),
        (b"%d" % (-MAX - 1), ("DECR", "n")),
        (b"%d" % (-MAX - 1), ("INCRBY", "n", -1)),
    ],
)
def test_overflow_is_refused(client, value, words):
    put(client, value)
    assert run(client, *words) == OVERFLOW
    assert client.db.entries == {b"n": value}
    assert client.server.events == []


def test_the_smallest_number_cannot_be_subtracted(client):
    assert run(client, "DECRBY", "n", -MAX - 1) == b"-ERR decrement would overflow\r\n"
    assert run(client, "INCRBY", "n", -MAX - 1) == b":%d\r\n" % (-MAX - 1)


@pytest.mark.parametrize("value", [b" 11", b"007", b"", b"1.0", b"+1", b"9223372036854775808"])
def test_what_is_no_integer(client, value):
    put(client, value)
    assert run(client, "INCR", "n") == NOT_AN_INTEGER
    assert run(client, "INCRBY", "other", value) == NOT_AN_INTEGER


def test_a_stream_is_the_wrong_type_whatever_the_increment(client):
    client.db.add(b"n", Stream())
    assert run(client, "INCR", "n").startswith(b"-WRONGTYPE")
    assert run(client, "INCRBYFLOAT", "n", "abc").startswith(b"-WRONGTYPE")


def test_incrbyfloat_propagates_the_result(client):
    put(client, b"10.1")
    client.db.set_expiry(b"n", 1 << 60)
    assert run(client, "INCRBYFLOAT", "n", "0.2") == b"$4\r\n10.3\r\n"
    assert client.server.propagation.take() == [[b"SET", b"n", b"10.3", b"KEEPTTL"]]
    assert client.server.events == [(b"incrbyfloat", b"n")]
    assert client.server.keyspace.dirty == 1
    assert (client.db.entries, client.db.expires) == ({b"n": b"10.3"}, {b"n": 1 << 60})


def test_incrbyfloat_refuses_what_is_no_number_and_what_is_not_finite(client):
    assert run(client, "INCRBYFLOAT", "n", "abc") == NOT_A_FLOAT
    assert run(client, "INCRBYFLOAT", "n", "nan") == NOT_A_FLOAT
    assert run(client, "INCRBYFLOAT", "n", "inf") == b"-ERR increment would produce NaN or Infinity\r\n"
    put(client, b"")
    assert run(client, "INCRBYFLOAT", "n", 1) == NOT_A_FLOAT
    put(client, b"1e4932")
    assert run(client, "INCRBYFLOAT", "n", "1e4932") == b"-ERR increment would produce NaN or Infinity\r\n"
    assert client.server.events == []
