import sys
from contextlib import suppress
from types import FunctionType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.failing import Failing, Trial
from support.thorough import examples
from support.wired_server import WiredServer, talk

from rillet.commands.runtime import client as runtime_client
from rillet.commands.runtime.client import watched_key_changed
from rillet.commands.runtime.client_line import client_line
from rillet.commands.transactions.handlers import must_fail, unwatch_all
from rillet.storage.keyspace.watches import unwatch_keys, was_modified, watch_key

KEYS = [b"a", b"b", b"c"]


@pytest.fixture
def client():
    return WiredServer().connect()


def test_nothing_may_block_while_exec_runs(client, monkeypatch):
    seen = []
    monkeypatch.setattr(client.server.calls, "call", lambda *_: seen.append(client.may_block) or b"+OK\r\n")
    talk(client, "MULTI")
    talk(client, "PING")
    talk(client, "EXEC")
    assert seen == [False]
    assert client.may_block


@pytest.fixture
def looked_at(monkeypatch):
    """The watched keys that were looked at, each time one was."""
    keys = []
    was_modified = runtime_client.was_modified
    monkeypatch.setattr(
        runtime_client, "was_modified", lambda watched: keys.append(watched.key) or was_modified(watched)
    )
    return keys


def test_no_watched_key_is_looked_at_while_none_changes(client, looked_at):
    talk(client, "WATCH", *KEYS)
    talk(client, "MULTI")
    for _ in range(10):
        assert not must_fail(client)
        assert b"flags=x " in client_line(client)
        client.db.modified(b"of no watcher")
    assert looked_at == []


def test_a_watched_key_is_looked_at_once_for_a_change(client, looked_at):
    other = client.server.connect()
    talk(client, "WATCH", *KEYS)
    talk(other, "WATCH", "d")
    talk(client, "MULTI")
    client.db.modified(b"b")
    for _ in range(10):
        assert must_fail(client)
        client.db.modified(b"a")
    assert looked_at == [b"b"]
    assert b"watch=0 " in client_line(client)
    assert talk(client, "EXEC") == b"*-1\r\n"
    assert not watched_key_changed(client)


def test_what_others_change_costs_nothing_to_a_client_that_watches_other_keys(client, looked_at):
    other = client.server.connect()
    talk(client, "WATCH", *map(str, range(1000)))
    talk(other, "WATCH", "other's")
    talk(client, "MULTI")
    for _ in range(100):
        other.db.modified(b"other's")
        assert not must_fail(client)
    assert looked_at == []


def test_a_change_that_is_none_to_the_client_is_looked_at_once_and_the_next_one_noticed(client, looked_at):
    """The removal of a key that had expired when it was watched."""
    client.db.put(b"a", b"v")
    client.db.expires[b"a"] = client.server.keyspace.now - 10
    talk(client, "WATCH", *KEYS)
    talk(client, "MULTI")
    assert client.db.expire_if_due(b"a")
    assert [must_fail(client) for _ in range(10)] == [False] * 10
    assert looked_at == [b"a"]
    client.db.modified(b"a")
    assert must_fail(client)


def test_a_key_that_changes_again_and_again_lists_each_of_its_watches_once(client):
    others = [client.server.connect() for _ in range(3)]
    for each in others:
        talk(each, "WATCH", "a", "b")
    for _ in range(100):
        client.db.modified(b"a")
    assert [[watched.key for watched in each.watched_touched] for each in others] == [[b"a"]] * 3
    for each in others:
        talk(each, "UNWATCH")
        assert not each.watched_touched
    assert not client.db.untouched


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["watch", "unwatch", "modify", "exec", "leave"]), st.integers(0, 2), st.integers(0, 2)
    ),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(80), deadline=None)
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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["watch", "unwatch", "put", "put past its time", "look", "delete", "swap", "flush", "ask"]
            ),
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        max_size=60,
    )
)
@settings(max_examples=examples(200), deadline=None)
def test_a_client_that_asks_for_changes_now_and_then_hears_what_a_walk_over_its_keys_finds(steps):
    """With keys past their time, in two databases that are swapped and flushed."""
    server = WiredServer()
    clients = [server.connect() for _ in range(3)]
    talk(clients[2], "SELECT", 1)
    databases = server.keyspace.databases[:2]
    for key in KEYS[:2]:
        databases[0].put(key, b"v")
        databases[0].set_expiry(key, server.keyspace.now - 10)
    for client in clients:
        talk(client, "WATCH", *KEYS)
    for action, who, what in steps:
        client, key = clients[who], KEYS[what]
        db = client.db
        if action == "watch":
            talk(client, "WATCH", key)
        elif action == "unwatch":
            talk(client, "UNWATCH")
        elif action == "put":
            db.put(key, b"v")
            db.modified(key)
        elif action == "put past its time":
            db.put(key, b"v")
            db.set_expiry(key, server.keyspace.now - 10)
            db.modified(key)
        elif action == "look":
            db.expire_if_due(key)
        elif action == "delete":
            if db.remove(key) is not None:
                db.modified(key)
        elif action == "swap":
            server.keyspace.swap(*databases)
        elif action == "flush":
            db.clear()
        else:
            assert watched_key_changed(client) == any(map(was_modified, client.watched))
        listed = [watched for each in clients for watched in each.watched_touched]
        waiting = [watched for db in databases for watches in db.untouched.values() for watched in watches]
        assert len(set(listed)) == len(listed)
        assert {*listed, *waiting} <= {watched for each in clients for watched in each.watched}
        assert set(listed).isdisjoint(waiting)


def fails_at(place, function, *args):
    """Call a function in which the call at a place fails; return whether there is that place."""
    # Python 3.11 does not report calls that it has specialised: a copy has none.
    cold = FunctionType(function.__code__.replace(), function.__globals__)
    failing = Failing(place)
    with suppress(MemoryError):
        try:
            sys.setprofile(failing)
            cold(*args)
        finally:
            sys.setprofile(None)
    return bool(failing.raised)


WHOLE_OR_NOT_AT_ALL = {b"+OK\r\n+QUEUED\r\n*-1\r\n", b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"}


def test_a_transaction_runs_whole_or_not_at_all_after_a_watch_that_failed_halfway():
    trial = Trial()
    client = trial.client(0)
    failed = 0
    for place in range(1, 12):
        failed += fails_at(place, watch_key, client.watched, client.db, b"a", client.watched_touched)
        client.db.modified(b"a")
        assert trial.send([[b"MULTI"], [b"PING"], [b"EXEC"]]) in WHOLE_OR_NOT_AT_ALL
        assert not any(client.db.untouched.values())
    assert failed > 3


def test_a_transaction_runs_whole_or_not_at_all_after_keys_were_forgotten_halfway():
    trial = Trial()
    client = trial.client(0)
    failed = 0
    for place in range(1, 20):
        trial.send([[b"WATCH", *KEYS]])
        for key in KEYS:
            client.db.modified(key)
        failed += fails_at(place, unwatch_all, client)
        assert trial.send([[b"MULTI"], [b"PING"], [b"EXEC"]]) in WHOLE_OR_NOT_AT_ALL
    assert failed > 3


def test_keys_are_forgotten_once_even_if_that_fails_halfway(client):
    failed = 0
    for place in range(1, 20):
        keys = []
        for key in KEYS:
            watch_key(keys, client.db, key, [])
        failed += fails_at(place, unwatch_keys, keys)
        unwatch_keys(keys)
        assert not keys
        assert all(entry[0] <= failed for entry in client.db.watched.values())
        assert all(len(watches) <= failed for watches in client.db.untouched.values())
    assert failed > 3
