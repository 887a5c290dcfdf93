"""Clients that outlive a reset: the socket stays, and everything that a client can see is new."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from support.background import aside
from support.programs.pytest_run import run_tests
from support.sessions import ACTS as COMMON
from support.sessions import LOOKS, RESP3, TAKING, WAYS, comparable
from support.until import until

import rillet.testing
from rillet.server.net.sockets_across_resets import _commands
from rillet.testing.clients_across_resets import KeptClient, _state_of
from rillet.testing.control import encode


@pytest.fixture(
    scope="module",
    params=[{}, {"transport": "tcp"}, {"process": True}],
    ids=["thread", "thread by tcp", "process"],
)
def running(request):
    with rillet.testing.Server(**request.param, slowlog_log_slower_than=-1) as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


def place(client: redis.Redis) -> bytes:
    [connection] = client.connection_pool._available_connections
    return connection._sock.getsockname() if connection._sock is not None else None


def use(server: rillet.testing.Server, act: Callable[[redis.Redis], Any], **options: Any) -> redis.Redis:
    """Be a test that does something with its client; return the client of the next test."""
    server.reset()
    with server.client_of_test(**options) as client, contextlib.suppress(redis.RedisError):
        act(client)
    server.reset()
    with server.client_of_test(**options) as again:
        return again


# What stays


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_client_and_socket_are_those_of_the_test_before(server, options):
    with server.client_of_test(**options) as first:
        first.set("k", "v")
        before, number = place(first), first.client_id()
    server.reset()
    with server.client_of_test(**options) as second:
        assert second.dbsize() == 0
        assert second is first
        assert place(second) == before
        assert second.client_id() == number + 1


def sleep(server: rillet.testing.Server, **options: Any) -> None:
    """Use the client of a test, whose socket sleeps then."""
    with server.client_of_test(**options) as client:
        client.ping()
    server.reset()


def test_a_client_of_a_wider_fixture_keeps_its_socket(server):
    with server.client() as client:
        client.set("k", "v")
        before = place(client)
        for _ in range(3):
            server.reset()
            assert client.get("k") is None
            assert place(client) == before


def test_clients_with_other_options_are_others(server):
    with server.client_of_test() as one, server.client_of_test(db=1) as two, server.client_of_test() as three:
        assert len({id(one), id(two), id(three)}) == 3
        one.set("k", "one")
        assert (two.get("k"), three.get("k")) == (None, b"one")


def test_a_restart_and_a_shutdown_only_close_the_socket(server):
    for end in (server.restart, lambda: server.client().shutdown(nosave=True)):
        with server.client_of_test() as client:
            client.ping()
        end()
        server.start()
        server.reset()
        with server.client_of_test() as client:
            assert client.ping()


# What is new


def seen(server: rillet.testing.Server, client: redis.Redis) -> dict[str, Any]:
    """Return all that a client can see of its session and of the clients of its server."""
    with server.recording() as recording:
        replies = {name: look(client) for name, look in LOOKS.items()}
    return comparable(replies, recording)


def taken(client: redis.Redis) -> Any:
    """Take a connection out of the pool."""
    return client.connection_pool.get_connection(*TAKING)


def met(client: redis.Redis) -> Any:
    """Take a connection that the server has accepted: before redis-py 5 a new one says nothing, so it may still wait for that.

    What it sends then belongs to the test after the reset.
    """
    connection = taken(client)
    if not connection.greeting:
        connection.send_command("PING")
        connection.read_response()
    return connection


def raw(client: redis.Redis, *words: str) -> None:
    connection = met(client)
    connection.send_command(*words)
    client.connection_pool.release(connection)


def unheard(client: redis.Redis, *words: str) -> None:
    """Send what has no reply, or leads to none, and do not wait 5 seconds and longer for those of the next act."""
    connection = met(client)
    connection.send_command(*words)
    connection._sock.settimeout(0.01)
    client.connection_pool.release(connection)


def subscribe(client: redis.Redis) -> None:
    pubsub = client.pubsub()
    pubsub.subscribe("c")  # it reads no reply, and connects again if there is one from before
    if not pubsub.connection.greeting:
        pubsub.parse_response()  # as for `met`


def half(client: redis.Redis) -> None:
    connection = met(client)
    connection._sock.sendall(b"*2\r\n$3\r\nGET\r\n$1")
    client.connection_pool.release(connection)


ACTS: dict[str, Callable[[redis.Redis], Any]] = COMMON | {
    "a pipeline that watches": lambda c: c.pipeline().watch("k"),
    "broadcasts": lambda c: c.execute_command("CLIENT", "TRACKING", "ON", "BCAST"),
    "subscription": subscribe,
    "a raw subscription": lambda c: unheard(c, "SUBSCRIBE", "c"),
    "replies skipped": lambda c: unheard(c, "CLIENT", "REPLY", "SKIP"),
    "replies off": lambda c: unheard(c, "CLIENT", "REPLY", "OFF"),
    "a reply that nobody reads": lambda c: raw(c, "PING"),
    "half a command": half,
    "monitor": lambda c: c.execute_command("MONITOR"),
    "pause": lambda c: unheard(c, "CLIENT", "PAUSE", "1000000", "WRITE"),
    "an error": lambda c: c.lpush("k", "a") and c.get("k"),
    "another user": lambda c: (c.acl_setuser("u", enabled=True, nopass=True, categories=["+@all"]), c.auth("u", "u")),
    "quit": lambda c: c.execute_command("QUIT"),
    "close": lambda c: c.close(),
}  # fmt: skip


@pytest.mark.parametrize("options", WAYS, ids=str)
@settings(max_examples=20, deadline=None)
@given(acts=st.lists(st.sampled_from(sorted(ACTS)), max_size=5))
def test_whatever_a_test_does_the_next_sees_a_new_client(running, options, acts):
    def act(client: redis.Redis) -> None:
        for name in acts:
            with contextlib.suppress(redis.RedisError):
                ACTS[name](client)

    # Before redis-py 8 a client waits for ever for replies that it has switched off.
    options = {"socket_timeout": 5} | options
    kept = seen(running, use(running, act, **options))
    running.reset()
    with running.client(**options) as new:
        assert kept == seen(running, new)


def test_nobody_sees_the_socket_before_it_is_used(server):
    sleep(server)
    with server.client() as other:
        assert len(other.client_list()) == other.info("clients")["connected_clients"] == 1
        assert other.info("stats")["total_connections_received"] == 1
        assert other.config_set("maxclients", 1)
        with (
            server.client_of_test() as client,
            pytest.raises(redis.ConnectionError, match="max number of clients"),
        ):
            client.ping()


def test_a_server_that_refuses_connections_refuses_this_one(server):
    sleep(server)
    with server.client_of_test() as client, server.fault(connections="refuse") as fault:
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert fault.count


def test_a_greeting_that_fails_fails_as_at_any_connection(server):
    sleep(server, **RESP3)
    with server.client_of_test(**RESP3) as client:
        server.client().config_set("requirepass", "secret")
        with pytest.raises(redis.AuthenticationError):
            client.ping()


def test_a_slow_script_answers_a_client_that_has_slept(server):
    sleep(server)
    with server.client_of_test() as client, server.client() as other, server.client() as third:
        third.config_set("busy-reply-threshold", 1)
        looping = aside(other.eval, "while true do end", 0)
        until(lambda: is_busy(third))
        try:
            assert is_busy(client)
        finally:
            third.script_kill()
            with pytest.raises(redis.ResponseError, match="killed"):
                looping.result(60)


def is_busy(client: redis.Redis) -> bool:
    try:
        client.get("k")
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


def test_a_thread_that_uses_the_client_during_the_reset_is_cut_off(server):
    with server.client_of_test() as client:
        waiting = aside(client.blpop, "q", 0)
        until(lambda: server._command(b"INFO", b"clients").find(b"blocked_clients:1") > 0)
        server.reset()
        with pytest.raises(redis.ConnectionError):
            waiting.result(60)


CHANGES: dict[str, Callable[[redis.Redis], Any]] = {
    "a callback": lambda c: c.set_response_callback("GET", lambda *_: 1),
    "no callback": lambda c: c.response_callbacks.pop("GET", None) or c.response_callbacks.clear(),
    "a method": lambda c: setattr(c, "get", lambda *_: 1),
    "another pool": lambda c: setattr(c, "connection_pool", redis.ConnectionPool()),
    "closed": lambda c: c.close(),
    "options of connections": lambda c: c.connection_pool.connection_kwargs.update(db=1),
    "retries": lambda c: c.set_retry(redis.retry.Retry(redis.backoff.NoBackoff(), 3)),
    "a retry": lambda c: c.get_retry() and c.get_retry().update_supported_errors([redis.ResponseError]),
    "a limit": lambda c: setattr(c.connection_pool, "max_connections", 1),
    "a transaction": lambda c: [pipeline := c.pipeline(), pipeline.watch("k")],
    "a connection that is in use": taken,
    "a timeout of the connection": lambda c: setattr(idle(c), "socket_timeout", 0.001),
    "the database of the connection": lambda c: setattr(idle(c), "db", 7),
    "the encoder": lambda c: setattr(idle(c).encoder, "decode_responses", not idle(c).encoder.decode_responses),
    "a callback of the connection": lambda c: idle(c).register_connect_callback(c.connection_pool.release),
}  # fmt: skip


def idle(client: redis.Redis) -> Any:
    client.ping()
    return client.connection_pool._available_connections[0]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_client_that_the_test_has_changed_is_replaced(server, name):
    with server.client_of_test(**RESP3) as first:
        first.ping()
    server.reset()
    with server.client_of_test(**RESP3) as second:
        assert second is first
        left = CHANGES[name](second)
        if name == "a retry" and second.get_retry() is None:
            return
        if name == "closed" and place(second) is not None:  # before redis-py 5 it closes no pool
            return
    server.reset()
    del left
    with server.client_of_test(**RESP3) as third:
        assert third is not first
        assert third.ping()


def test_the_fixture_keeps_its_client(tmp_path):
    run_tests(
        tmp_path,
        """
        seen = []

        @pytest.mark.parametrize("n", range(3))
        def test_it(n, rillet):
            assert rillet.incr("k") == 1
            seen.append(rillet)
            assert rillet is seen[0]
        """,
    ).outcome(passed=3)


def test_a_client_whose_parts_hold_each_other_serves_the_next_test(server):
    """With RESP3, the options of redis-py 7's pool hold the pool."""
    client = server.client()
    client.connection_pool.connection_kwargs["itself"] = client.connection_pool
    kept = KeptClient(client)
    assert kept.is_as_new()
    assert _state_of(client) == _state_of(client)
    client.connection_pool.connection_kwargs["db"] = 1
    assert not kept.is_as_new()


def test_what_redis_py_may_ask_in_vain_is_refused_after_the_reset_too(server):
    notifications = pytest.importorskip("redis.maint_notifications")
    options = RESP3 | {"maint_notifications_config": notifications.MaintNotificationsConfig(enabled="auto")}
    for _ in range(2):
        server.reset()
        with server.client_of_test(**options) as client:
            assert client.set("k", "v")


def test_the_first_pipeline_arrives_in_one_piece_behind_the_greeting(server):
    def reads(client: redis.Redis) -> bytes:
        with client.pipeline(transaction=False) as pipeline:
            replies = pipeline.set("k", "v").execute_command("CLIENT", "INFO").get("k").execute()
        return replies[1].partition(b"read-events=")[2].partition(b" ")[0]

    sleep(server)
    with server.client_of_test() as client:
        kept = reads(client)
    server.reset()
    with server.client() as client:
        assert reads(client) == kept


def test_a_client_that_subscribes_first_hears_its_messages(server):
    sleep(server)
    with server.client_of_test() as client, server.client() as other, client.pubsub() as pubsub:
        pubsub.subscribe("c")
        assert pubsub.get_message(timeout=60)["type"] == "subscribe"
        other.publish("c", "m")
        assert pubsub.get_message(timeout=60)["data"] == b"m"


def test_a_connection_that_sends_nothing_sleeps_on(server):
    for _ in range(2):
        sleep(server)
    with server.client_of_test() as client:
        client.connection_pool.release(taken(client))
    server.reset()
    with server.client_of_test() as client:
        assert client.ping()
        assert len(client.client_list()) == 1


@given(
    words=st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=3), max_size=4),
    rest=st.binary(max_size=9),
)
def test_first_bytes_are_cut_after_each_command(words, rest):
    pieces = list(_commands(b"".join(encode(*each) for each in words) + rest))
    assert b"".join(pieces) == b"".join(encode(*each) for each in words) + rest
    assert pieces[: len(words)] == [encode(*each) for each in words]


@given(data=st.text("*$-019\r\nab").map(str.encode))
def test_no_bytes_are_lost_by_cutting(data):
    assert b"".join(_commands(data)) == data
