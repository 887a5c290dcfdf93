import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wired_server import WiredServer, read, talk, write

from rillet.commands.runtime.state import State


@pytest.fixture
def server():
    return WiredServer()


def track(client, *options):
    assert talk(client, "CLIENT", "TRACKING", "ON", *options) == b"+OK\r\n"


def invalid(*keys, head=b">2\r\n$10\r\ninvalidate\r\n"):
    return head + b"*%d\r\n" % len(keys) + b"".join(b"$%d\r\n%b\r\n" % (len(key), key) for key in keys)


NULL = b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def test_the_keyspace_hooks_are_unset_while_no_client_tracks(server):
    client, writer = server.connect(3), server.connect()
    assert (server.keyspace.on_modified, server.keyspace.on_flushed) == (None, None)
    track(client)
    assert None not in (server.keyspace.on_modified, server.keyspace.on_flushed)
    assert client.state is not State.PLAIN
    read(client, b"k")
    talk(client, "CLIENT", "TRACKING", "OFF")
    assert client.state is State.PLAIN
    write(writer, b"k")
    assert server.keyspace.on_modified is None
    assert client.take() == b""


def test_the_table_is_kept_within_its_limit(server):
    client = server.connect(3)
    server.config.tracking_table_max_keys = 2
    track(client)
    assert read(client, b"a", b"b") == b""
    assert read(client, b"c") == invalid(b"a")
    assert (server.tracking.total_keys, server.tracking.total_items) == (2, 2)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "on", "off", "flush"]),
        st.integers(0, 2),
        st.sampled_from([b"a", b"b"]),
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(100), deadline=None)
def test_every_client_that_read_a_key_gets_its_next_change(steps):
    server = WiredServer()
    clients = [server.connect(3) for _ in range(3)]
    tracking = [False] * 3
    notes: set[tuple[int, bytes]] = set()
    for action, who, key in steps:
        client = clients[who]
        expected = [b"", b"", b""]
        if action == "read":
            assert read(client, key) == b""
            if tracking[who]:
                notes.add((who, key))
        elif action == "write":
            expected = [invalid(key) if tracking[at] and (at, key) in notes else b"" for at in range(3)]
            notes = {note for note in notes if note[1] != key}
            client.received += write(client, key)
        elif action == "flush":
            expected = [NULL if on else b"" for on in tracking]
            server.tracking.flush()
            notes.clear()
        else:
            talk(client, "CLIENT", "TRACKING", action)
            tracking[who] = action == "on"
        assert [each.take() for each in clients] == expected
        assert (server.keyspace.on_modified is None) == (not any(tracking) and not server.tracking.total_keys)
