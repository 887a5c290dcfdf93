import pytest
from support.fake_server import FakeServer, make_client, run

from rillet.commands.strings import counters  # noqa: F401 - it declares commands

MAX = (1 << 63) - 1
OVERFLOW = b"-ERR increment or decrement would overflow\r\n"


@pytest.fixture
def client():
    return make_client(server=FakeServer())


def put(client, value):
    client.db.put(b"n", value)
    client.server.events.clear()


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
