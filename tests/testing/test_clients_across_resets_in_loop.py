"""Connections of a LoopServer's clients outlive a reset, and everything that a client can see is new."""

import asyncio
import contextlib
from typing import Any

import pytest
import redis
import redis.asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sessions import ACTS as COMMON
from support.sessions import LOOKS, RESP3, TAKING, WAYS, comparable
from support.virtual_loop import run_virtually

from rillet.testing import LoopServer
from rillet.testing.clients import close

WAIT = 60  # seconds; for what comes at once


@pytest.fixture
async def server():
    """A server in the loop of the test, in which nothing runs longer than a minute."""
    loop = asyncio.get_running_loop()
    end = loop.call_later(WAIT, lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
    async with LoopServer(slowlog_log_slower_than=-1) as server:
        yield server
    end.cancel()


def idle(client: Any) -> Any:
    [connection] = client.connection_pool._available_connections
    return connection


def place(client: Any) -> Any:
    writer = idle(client)._writer
    return writer and writer.get_extra_info("sockname")


async def asleep(server: LoopServer, **options: Any) -> Any:
    """A client that was used before a reset."""
    client = server.client(**options)
    await client.ping()
    await server.reset()
    return client


async def keeps(server: LoopServer, **options: Any) -> bool:
    """Return True if a new client has the same connection after a reset."""
    client = server.client(**options)
    assert await client.ping()
    before = place(client)
    await server.reset()
    assert await client.ping()
    return place(client) == before


async def met(client: Any) -> Any:
    """Take a connection out of the pool that the server has accepted; before redis-py 5 a new one says nothing."""
    connection = await client.connection_pool.get_connection(*TAKING)
    if not connection.greeting:
        await connection.send_command("PING")
        await connection.read_response()
    return connection


async def raw(client: Any, *words: str) -> None:
    """Send a command whose reply nobody reads."""
    connection = await met(client)
    await connection.send_command(*words)
    await client.connection_pool.release(connection)


async def half_read(client: Any) -> None:
    """Leave a reply in the parser."""
    connection = await met(client)
    for _ in range(2):
        await connection.send_command("ECHO", "x")
    await connection.read_response()
    await client.connection_pool.release(connection)


async def half(client: Any) -> None:
    connection = await met(client)
    connection._writer.write(b"*2\r\n$3\r\nGET\r\n$1")
    await client.connection_pool.release(connection)


async def read_push(client: Any) -> None:
    """Leave a reply and a push in the parser."""
    await raw(client, "CLIENT", "TRACKING", "ON", "BCAST")
    await client.set("k", "v")


async def cancelled(client: Any) -> None:
    task = asyncio.ensure_future(client.blpop("q", 0))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})


LEFT: list[Any] = []


def left(thing: Any) -> Any:
    """Leave a pipeline or a subscriber to the next test."""
    LEFT.append(thing)
    return thing


ACTS: dict[str, Any] = COMMON | {
    "a pipeline that watches": lambda c: left(c.pipeline()).watch("k"),
    "broadcasts": read_push,
    "subscription": lambda c: left(c.pubsub()).subscribe("c"),
    "a raw subscription": lambda c: raw(c, "SUBSCRIBE", "c"),
    "replies skipped": lambda c: raw(c, "CLIENT", "REPLY", "SKIP"),
    "replies off": lambda c: raw(c, "CLIENT", "REPLY", "OFF"),
    "a reply that nobody reads": lambda c: raw(c, "PING"),
    "a second reply that nobody reads": half_read,
    "a blocked read that nobody waits for": lambda c: raw(c, "BLPOP", "q", "0"),
    "a cancelled read": cancelled,
    "half a command": half,
    "monitor": lambda c: raw(c, "MONITOR"),
    "pause": lambda c: raw(c, "CLIENT", "PAUSE", "1000000", "WRITE"),
    "an error": lambda c: c.incr("k", 2**70),
    "quit": lambda c: raw(c, "QUIT"),
    "close": close,
}


async def seen(server: LoopServer, client: Any) -> dict[str, Any]:
    """Return all that a client can see of its session and of the clients of its server."""
    with server.recording() as recording:
        replies = {name: await look(client) for name, look in LOOKS.items()}
    return comparable(replies, recording)


@pytest.mark.parametrize("options", WAYS, ids=str)
@settings(max_examples=20, deadline=None)
@given(acts=st.lists(st.sampled_from(sorted(ACTS)), max_size=5))
def test_whatever_a_test_does_the_next_sees_a_new_client(options, acts):
    async def test():
        async with LoopServer(slowlog_log_slower_than=-1) as server:
            # Replies that are switched off or delayed end by the timeout.
            client = server.client(**{"socket_timeout": 0.2} | options)
            for name in acts:
                with contextlib.suppress(redis.RedisError):
                    await ACTS[name](client)
            await server.reset()
            found = await seen(server, client)
            while LEFT:
                thing = LEFT.pop()
                await (thing.aclose() if hasattr(thing, "aclose") else thing.reset())
            await client.connection_pool.disconnect()
            await server.reset()
            assert found == await seen(server, server.client(**options))

    run_virtually(asyncio.wait_for(test(), WAIT))


@pytest.mark.parametrize("options", WAYS, ids=str)
async def test_the_connection_stays_and_the_session_is_new(server, options):
    client = server.client(**options)
    await client.set("k", "v")
    before, number = place(client), await client.client_id()
    for at in range(1, 4):
        await server.reset()
        assert await client.dbsize() == 0
        assert place(client) == before
        assert await client.client_id() == number + at


async def test_a_reset_that_keeps_all_need_not_be_awaited(server):
    client = server.client()
    await client.set("k", "v")
    assert server.reset().done()
    assert await client.get("k") is None


async def test_nobody_sees_the_connection_before_it_is_used(server):
    client = await asleep(server)
    await server.reset()
    other = server.client()
    assert len(await other.client_list()) == 1
    assert (await other.info("stats"))["total_connections_received"] == 1
    assert await other.config_set("maxclients", 1)
    with pytest.raises(redis.ConnectionError, match="max number of clients"):
        await client.ping()
    assert await other.config_set("maxclients", 2)
    assert await client.ping()


async def test_a_server_that_refuses_connections_refuses_this_one(server):
    client = await asleep(server, **RESP3)
    with server.fault(connections="refuse") as fault:
        with pytest.raises(redis.ConnectionError):
            await client.ping()
        assert fault.count == 1
    assert await client.ping()


async def test_a_greeting_that_fails_fails_as_at_any_connection(server):
    client = await asleep(server, **RESP3)
    await server.client().config_set("requirepass", "secret")
    for _ in range(2):
        with pytest.raises(redis.AuthenticationError):
            await client.ping()


@pytest.mark.parametrize("rounds", range(1, 5))
async def test_a_client_that_is_cancelled_while_it_greets_connects_again(server, rounds):
    client = await asleep(server)
    task = asyncio.ensure_future(client.set("k", "v"))
    for _ in range(rounds):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert await client.echo("mine") == b"mine"
    assert len(await client.client_list()) == 1


@pytest.mark.parametrize("crash", [False, True])
async def test_a_restart_closes_it(server, crash):
    client = await asleep(server)
    await server.restart(crash=crash)
    assert await client.ping()
    await server.reset()
    assert await client.ping()


async def test_a_connection_in_use_is_cut(server):
    client = server.client(socket_timeout=None)
    waiting = asyncio.ensure_future(client.blpop("q", 0))
    other = server.client()
    while not (await other.info("clients"))["blocked_clients"]:
        await asyncio.sleep(0)
    await server.reset()
    with pytest.raises(redis.ConnectionError):
        await waiting
    assert len(await client.client_list()) == 1


async def connect_as_usual(connection: Any) -> None:
    await connection.on_connect()


@pytest.mark.parametrize(
    "options",
    [
        {"retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 1)},
        {"redis_connect_func": connect_as_usual},
        {"credential_provider": redis.UsernamePasswordCredentialProvider("default", "x")},
        {"health_check_interval": 10},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_client_whose_connection_does_more_connects_again(server, options):
    assert not await keeps(server, **options)


async def test_a_server_without_client_setinfo_keeps_it():
    async with LoopServer(compat_version="7.0") as server:
        assert await keeps(server)


async def test_a_client_of_a_closed_connection_connects_again(server):
    client = await asleep(server)
    await client.connection_pool.disconnect()
    assert await client.ping()
    assert len(await client.client_list()) == 1
    assert not server._server.clients.dormant


async def test_a_subscriber_hears_its_messages_after_a_reset(server):
    client = server.client()
    for _ in range(3):
        async with client.pubsub() as subscriber:
            await subscriber.subscribe("c")
            assert (await subscriber.get_message(timeout=WAIT))["type"] == "subscribe"
            await client.publish("c", "m")
            assert (await subscriber.get_message(timeout=WAIT))["data"] == b"m"
        await server.reset()
        assert await client.pubsub_channels() == []


async def test_by_tcp_it_connects_again(server):
    assert not await keeps(server, connection_class=redis.asyncio.Connection)
