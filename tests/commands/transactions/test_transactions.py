import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.client import watched_key_changed
from rillet.commands.runtime.state import State
from rillet.commands.transactions.handlers import unwatch_all

KEYS = [b"a", b"b", b"c"]


@pytest.fixture
def client():
    return WiredServer().connect()


def test_exec_returns_the_queued_replies_in_order(client):
    assert talk(client, "MULTI") == b"+OK\r\n"
    assert client.state is not State.PLAIN
    assert talk(client, "PING") == b"+QUEUED\r\n"
    talk(client, "SELECT", "x")
    talk(client, "ECHO", "hi")
    assert talk(client, "EXEC") == (
        b"*3\r\n+PONG\r\n-ERR value is not an integer or out of range\r\n$2\r\nhi\r\n"
    )
    assert client.state is State.PLAIN
    assert client.server.calls.ran == ["ping", "select", "echo"]


def test_nothing_may_block_while_exec_runs(client, monkeypatch):
    seen = []
    monkeypatch.setattr(client.server.calls, "call", lambda *_: seen.append(client.may_block) or b"+OK\r\n")
    talk(client, "MULTI")
    talk(client, "PING")
    talk(client, "EXEC")
    assert seen == [False]
    assert client.may_block


def test_a_selected_database_stays_after_exec(client):
    talk(client, "MULTI")
    talk(client, "SELECT", 2)
    talk(client, "EXEC")
    assert client.db.index == 2


def test_discard_forgets_the_queue_and_the_watched_keys(client):
    talk(client, "WATCH", "k")
    talk(client, "MULTI")
    talk(client, "PING")
    assert talk(client, "DISCARD") == b"+OK\r\n"
    assert client.state is State.PLAIN
    assert client.db.watched == {}
    assert client.server.calls.ran == []


def test_an_aborted_transaction_runs_nothing_even_if_a_watched_key_changed(client):
    talk(client, "WATCH", "k")
    client.db.modified(b"k")
    talk(client, "MULTI")
    talk(client, "PING")
    client.transaction.aborted = True
    assert talk(client, "EXEC") == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    assert client.transaction is None
    assert client.watched == []
    assert client.server.calls.ran == []


@pytest.mark.parametrize(("resp", "null"), [(2, b"*-1\r\n"), (3, b"_\r\n")])
def test_exec_fails_after_a_watched_key_changed_and_only_once(resp, null):
    client = WiredServer().connect(resp)
    talk(client, "WATCH", "k")
    client.db.modified(b"k")
    assert watched_key_changed(client)
    talk(client, "MULTI")
    assert talk(client, "EXEC") == null
    talk(client, "MULTI")
    assert talk(client, "EXEC") == b"*0\r\n"


def test_the_same_key_of_another_database_does_not_matter(client):
    talk(client, "WATCH", "k")
    client.server.keyspace.databases[1].modified(b"k")
    talk(client, "MULTI")
    assert talk(client, "EXEC") == b"*0\r\n"


def test_a_watched_key_that_expires_fails_exec_before_anybody_noticed(client):
    client.db.put(b"k", b"v")
    client.db.expires[b"k"] = client.server.keyspace.now + 10
    talk(client, "WATCH", "k")
    client.server.advance(20)
    talk(client, "MULTI")
    assert talk(client, "EXEC") == b"*-1\r\n"


@pytest.mark.parametrize("removed", [False, True])
def test_a_key_past_its_time_when_watched_did_not_exist(client, removed):
    client.db.put(b"k", b"v")
    client.db.expires[b"k"] = client.server.keyspace.now - 10
    talk(client, "WATCH", "k")
    if removed:
        assert client.db.expire_if_due(b"k")
    talk(client, "MULTI")
    assert talk(client, "EXEC") == b"*0\r\n"


def test_a_key_that_had_expired_when_watched_and_is_created_again_fails_exec(client):
    client.db.put(b"k", b"v")
    client.db.expires[b"k"] = client.server.keyspace.now - 10
    talk(client, "WATCH", "k")
    client.db.expire_if_due(b"k")
    client.db.put(b"k", b"new")
    client.db.modified(b"k")
    talk(client, "MULTI")
    assert talk(client, "EXEC") == b"*-1\r\n"


def test_keys_are_watched_once_however_often_they_are_named(client):
    talk(client, "WATCH", "k", "k")
    talk(client, "WATCH", "k", "l")
    assert client.db.watched == {b"k": [1, 0, -1], b"l": [1, 0, -1]}
    assert talk(client, "UNWATCH") == b"+OK\r\n"
    assert client.db.watched == {}


def test_exec_watches_no_more_while_it_runs(client):
    talk(client, "WATCH", "k")
    talk(client, "MULTI")
    seen = []
    client.server.calls.call = lambda *_: seen.append(dict(client.db.watched)) or b"+OK\r\n"
    talk(client, "PING")
    talk(client, "EXEC")
    assert seen == [{}]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["watch", "unwatch", "modify", "exec", "leave"]), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=80, deadline=None)
def test_exec_fails_exactly_if_a_key_changed_since_its_watch(steps):
    server = WiredServer()
    clients = [server.connect() for _ in range(3)]
    dirty: list[dict[bytes, bool]] = [{}, {}, {}]
    for action, who, what in steps:
        client, key = clients[who], KEYS[what]
        if action == "watch":
            talk(client, "WATCH", key)
            dirty[who].setdefault(key, False)
        elif action == "modify":
            client.db.modified(key)
            for known in dirty:
                if key in known:
                    known[key] = True
        elif action == "exec":
            assert watched_key_changed(client) == any(dirty[who].values())
            talk(client, "MULTI")
            assert talk(client, "EXEC") == (b"*-1\r\n" if any(dirty[who].values()) else b"*0\r\n")
            dirty[who] = {}
        else:
            if action == "unwatch":
                talk(client, "UNWATCH")
            else:
                unwatch_all(client)
            dirty[who] = {}
        watchers = {key: sum(key in known for known in dirty) for key in KEYS}
        assert {key: entry[0] for key, entry in client.db.watched.items()} == {
            k: n for k, n in watchers.items() if n
        }
