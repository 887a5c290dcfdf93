"""Connections of a LoopServer's own clients, without sockets: what arrives, who waits and how they end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from rillet.testing import LoopServer
from rillet.testing.in_memory import End, connect

WAIT = 30  # seconds; for what comes at once


@asynccontextmanager
async def connected(server, way="memory"):
    """A client of one of the ways, as asyncio's streams."""
    if way == "TCP":
        reader, writer = await asyncio.open_connection(server.host, server.port)
    else:
        _, meet = server._server.listeners.doors[0]
        reader, writer = connect(meet, server.host, server.port)
    yield reader, writer
    writer.transport.abort()


def request(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


async def read_all(reader):
    """All that comes before the end; resets are ends."""
    parts = []
    with suppress(ConnectionResetError):
        while part := await asyncio.wait_for(reader.read(1 << 16), WAIT):
            parts.append(part)
    return b"".join(parts)


CONVERSATIONS = {
    "commands and QUIT": [b"PING\r\n" + request(b"SET", b"k", b"v") + request(b"GET", b"k") + b"QUIT\r\n"],
    "a request in pieces": [b"*2\r\n$4\r\nEC", b"HO\r\n$2\r\n", b"ab\r\nQUIT\r\n"],
    "a protocol error": [b"*1\r\n$x\r\nPING\r\n"],
    "its own end by CLIENT KILL": [request(b"CLIENT", b"KILL", b"SKIPME", b"no", b"TYPE", b"normal")],
    "a long pipeline and long replies": [
        request(b"SET", b"k", b"x" * (1 << 20)) + request(b"GET", b"k") * 10 + b"QUIT\r\n"
    ],
    "many requests in one write": [request(b"INCR", b"n") * 50_000 + b"QUIT\r\n"],
    "pushes and QUIT": [request(b"SUBSCRIBE", b"c"), request(b"PING"), b"QUIT\r\n"],
    "a blocked read and QUIT": [request(b"BLPOP", b"nothing", b"0.05"), request(b"PING") + b"QUIT\r\n"],
    "a value of 10 MB both ways": [
        request(b"SET", b"k", b"x" * (10 << 20)) + request(b"GET", b"k") + b"QUIT\r\n"
    ],
    "the end of the server": [request(b"SHUTDOWN", b"NOSAVE")],
}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_a_conversation_has_the_same_bytes_and_end_as_by_tcp(conversation):
    async def hold(way):
        async with LoopServer() as server, connected(server, way) as (reader, writer):
            for data in CONVERSATIONS[conversation]:
                writer.write(data)
                await asyncio.sleep(0.01)
            return await read_all(reader)

    assert asyncio.run(hold("memory")) == asyncio.run(hold("TCP"))


@pytest.mark.parametrize("way", ["memory", "TCP"])
def test_a_client_that_does_not_read_is_cut_off_at_its_limit(way):
    async def starve():
        async with (
            LoopServer(client_output_buffer_limit="pubsub 100kb 0 0") as server,
            connected(server, way) as (reader, writer),
        ):
            writer.write(request(b"SUBSCRIBE", b"c"))
            await reader.readexactly(len(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"))
            writer.transport.pause_reading()
            client = server.client()
            while await client.publish("c", b"x" * 500_000):
                await asyncio.sleep(0)
            info = await client.info("stats")
            return info["client_output_buffer_limit_disconnections"]

    assert asyncio.run(starve()) == 1


def test_a_client_that_reads_later_gets_all_replies_and_has_to_wait_meanwhile():
    number, value = 20_000, b"x" * 1000

    async def linger():
        async with LoopServer() as server, connected(server) as (reader, writer):
            writer.write(request(b"SET", b"k", value))
            assert await reader.readexactly(5) == b"+OK\r\n"
            writer.transport.pause_reading()
            sending = asyncio.ensure_future(send(writer))
            done, _ = await asyncio.wait({sending}, timeout=0.3)
            assert not done
            [connection] = server._server.clients.values()
            assert writer.transport.get_write_buffer_size() < 1 << 20 > connection.query_buffer
            assert connection.unread < 4 << 20
            writer.transport.resume_reading()
            answer = await reader.readexactly(number * len(b"$1000\r\n%b\r\n" % value))
            await sending
            return answer == b"$1000\r\n%b\r\n" % value * number

    async def send(writer):
        for _ in range(number):
            writer.write(request(b"GET", b"k"))
            await writer.drain()

    assert asyncio.run(linger())


@pytest.mark.parametrize("way", ["memory", "TCP"])
def test_a_client_that_closes_without_having_read_its_replies_is_forgotten(way):
    async def leave():
        async with LoopServer() as server:
            async with connected(server, way) as (_, writer):
                writer.transport.pause_reading()
                writer.write(request(b"SET", b"k", b"x" * 100_000) + request(b"GET", b"k") * 500)
                while not server._server.clients.congested:
                    await asyncio.sleep(0)
                writer.close()
            async with asyncio.timeout(WAIT):
                while server._server.clients:
                    await asyncio.sleep(0)
            assert not server._server.clients.congested

    asyncio.run(leave())


@pytest.mark.parametrize("way", ["memory", "TCP"])
def test_a_writer_that_waits_for_a_server_learns_that_it_was_cut_off(way):
    async def flood():
        async with LoopServer() as server, connected(server, way) as (_, writer):
            writer.write(request(b"SET", b"k", b"x" * 1_000_000) + request(b"GET", b"k") * 100)
            while not server._server.clients.congested:
                await asyncio.sleep(0)
            writer.write(request(b"PING") * 1_000_000)
            sending = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            assert not sending.done()
            assert await server.client().client_kill_filter(_type="normal", skipme=True) == 1
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(sending, WAIT)

    asyncio.run(flood())


def test_what_arrived_before_the_end_is_read_although_more_was_written_after_it():
    async def act():
        protocols = Noting(), Noting()
        one, other = joined(protocols)
        one.write(b"last words")
        one.close()
        other.write(b"too late")
        for _ in range(5):
            await asyncio.sleep(0)
        assert protocols[1].received == b"last words"
        assert [len(each.lost) for each in protocols] == [1, 1]

    asyncio.run(act())


@pytest.mark.parametrize("way", ["memory", "TCP"])
def test_a_blocked_read_that_is_cancelled_takes_nothing_and_monitor_shows_others(way):
    options = {"connection_class": redis.asyncio.Connection} if way == "TCP" else {}

    async def act():
        async with LoopServer() as server:
            client = server.client(decode_responses=True, **options)
            reading = asyncio.ensure_future(client.blpop("list", 0))
            while not any(line["cmd"] == "blpop" for line in await client.client_list()):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait({reading})
            while any(line["cmd"] == "blpop" for line in await client.client_list()):
                await asyncio.sleep(0)
            async with client.monitor() as monitor:
                await client.rpush("list", "1")
                seen = await monitor.next_command()
            return seen["command"], await client.lpop("list")

    assert asyncio.run(asyncio.wait_for(act(), WAIT)) == ("RPUSH list 1", "1")


def test_clients_are_made_outside_a_loop_and_used_in_another_one():
    with asyncio.Runner() as runner:
        server = runner.run(LoopServer().start())
        client = server.client()
        assert runner.run(client.ping())
        elsewhere = server.client()

        async def ask():
            assert await elsewhere.ping()
            await elsewhere.aclose()
            return True

        async def look():
            return await asyncio.to_thread(asyncio.run, ask())

        assert runner.run(asyncio.wait_for(look(), WAIT))
        runner.run(server.stop())


def test_clients_are_told_apart_by_their_addresses():
    async def look():
        async with LoopServer() as server:
            one, other = server.client(), server.client()
            assert await one.ping()
            assert await other.ping()
            lines = await one.client_list()
            assert len({line["addr"] for line in lines}) == len(lines) == 2
            assert {line["laddr"] for line in lines} == {f"{server.host}:{server.port}"}
            assert await one.client_kill_filter(addr=(await other.client_info())["addr"]) == 1
            [left] = await one.client_list()
            assert left["addr"] == (await one.client_info())["addr"]

    asyncio.run(look())


def test_nobody_is_connected_to_a_server_that_is_not_running():
    async def ask():
        server = LoopServer()
        async with server:
            client = server.client(retry=None)
            assert await client.ping()
            await server.crash()
            with pytest.raises(redis.asyncio.ConnectionError):
                await client.ping()
            await server.start()
            assert await client.ping()

    asyncio.run(ask())


class Noting(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self):
        self.received = b""
        self.lost = []
        self.paused = 0
        self.is_calling = False

    def data_received(self, data):
        assert not self.is_calling, "within a call of its own transport"
        self.received += data

    def pause_writing(self):
        self.paused += 1

    def resume_writing(self):
        self.paused -= 1

    def connection_lost(self, exc):
        self.lost.append(exc)


def joined(protocols):
    """Two ends of one connection."""
    ends = [End(each, ("127.0.0.1", at), ("127.0.0.1", 1 - at)) for at, each in enumerate(protocols)]
    ends[0].other, ends[1].other = ends[1], ends[0]
    return ends


STEPS = st.tuples(
    st.sampled_from(["write", "pause", "resume", "turn", "turn", "close", "abort"]),
    st.integers(0, 1),
    st.integers(1, 200_000),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_two_ends_do_bytes_come_in_order_and_each_learns_of_the_end_once(steps):
    async def act():
        protocols = Noting(), Noting()
        ends = joined(protocols)
        sent = [b"", b""]
        aborted = set()
        for name, at, number in steps:
            end, protocol = ends[at], protocols[at]
            protocol.is_calling = True
            if name == "write":
                data = bytes([number % 251]) * number
                if not end.is_closing() and not ends[1 - at].is_closing():
                    sent[at] += data
                end.write(data)
            elif name in {"pause", "resume"}:
                getattr(end, f"{name}_reading")()
            elif name != "turn":
                aborted |= {at} if name == "abort" else set()
                getattr(end, name)()
            protocol.is_calling = False
            if name == "turn":
                await asyncio.sleep(0)
            for side in (0, 1):
                assert sent[side].startswith(protocols[1 - side].received)
                assert protocols[side].paused in {0, 1}
        for end in ends:
            end.resume_reading()
        for _ in range(200):
            await asyncio.sleep(0)
        is_over = any(end.is_closing() for end in ends)
        for side in (0, 1):
            assert len(protocols[side].lost) == is_over
            if not is_over:
                assert protocols[1 - side].received == sent[side]
                assert not protocols[side].paused

    asyncio.run(act())
