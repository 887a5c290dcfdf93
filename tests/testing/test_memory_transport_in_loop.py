"""Connections of a LoopServer's own clients, without sockets: what arrives, who waits and how they end."""

import asyncio
import gc
import time
from contextlib import asynccontextmanager, suppress

import pytest
import redis
import redis.asyncio
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.testing import LoopServer
from rillet.testing.clients import close
from rillet.testing.memory_transport_in_loop import End, connect

WAIT = 60  # seconds; for what comes at once


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
async def test_a_client_that_does_not_read_is_cut_off_at_its_limit(way):
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
        assert info["client_output_buffer_limit_disconnections"] == 1


async def test_a_client_that_reads_later_gets_all_replies_and_has_to_wait_meanwhile():
    number, value = 20_000, b"x" * 1000

    async def send(writer):
        for _ in range(number):
            writer.write(request(b"GET", b"k"))
            await writer.drain()

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
        assert answer == b"$1000\r\n%b\r\n" % value * number


@pytest.mark.parametrize("way", ["memory", "TCP"])
async def test_a_client_that_closes_without_having_read_its_replies_is_forgotten(way):
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


@pytest.mark.parametrize("way", ["memory", "TCP"])
async def test_a_writer_that_waits_for_a_server_learns_that_it_was_cut_off(way):
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


async def test_what_arrived_before_the_end_is_read_although_more_was_written_after_it():
    protocols = Noting(), Noting()
    one, other = joined(protocols)
    one.write(b"last words")
    one.close()
    other.write(b"too late")
    for _ in range(5):
        await asyncio.sleep(0)
    assert protocols[1].received == b"last words"
    assert [len(each.lost) for each in protocols] == [1, 1]


@pytest.mark.parametrize("way", ["memory", "TCP"])
async def test_a_blocked_read_that_is_cancelled_takes_nothing_and_monitor_shows_others(way):
    options = {"connection_class": redis.asyncio.Connection} if way == "TCP" else {}
    async with asyncio.timeout(WAIT), LoopServer() as server:
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
        assert (seen["command"], await client.lpop("list")) == ("RPUSH list 1", "1")


def test_clients_are_made_outside_a_loop_and_used_in_another_one():
    with asyncio.Runner() as runner:
        server = runner.run(LoopServer().start())
        client = server.client()
        assert runner.run(client.ping())
        elsewhere = server.client()

        async def ask():
            assert await elsewhere.ping()
            await close(elsewhere)
            return True

        async def look():
            return await asyncio.to_thread(asyncio.run, ask())

        assert runner.run(asyncio.wait_for(look(), WAIT))
        runner.run(server.stop())


async def test_a_connection_runs_no_command_in_another_loop():
    """As by TCP, where asyncio refuses it: otherwise two threads might run the server at the same time."""
    async with LoopServer() as server:
        client = server.client()
        await client.set("k", "v")

        async def get():
            await client.get("k")

        with pytest.raises(RuntimeError, match="is attached to a different loop"):
            await asyncio.to_thread(lambda: asyncio.run(get()))
        assert await client.get("k") == b"v"


async def test_clients_are_told_apart_by_their_addresses():
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


async def test_nobody_is_connected_to_a_server_that_is_not_running():
    server = LoopServer()
    async with server:
        client = server.client(retry=None)
        assert await client.ping()
        await server.crash()
        with pytest.raises(redis.asyncio.ConnectionError):
            await client.ping()
        await server.start()
        assert await client.ping()


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
@example([("pause", 1, 1), ("write", 0, 1), ("resume", 1, 1), ("write", 0, 2)])
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


# Clients of redis-py


@pytest.fixture(params=["memory", "tcp"])
def transport(request):
    return request.param


@pytest.fixture
async def server(transport):
    """A server in the loop of the test, in which nothing runs longer than a minute."""
    loop = asyncio.get_running_loop()
    end = loop.call_later(WAIT * 2, lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
    async with LoopServer(transport=transport) as server:
        yield server
    end.cancel()


@pytest.fixture
async def client(server, transport):
    client = server.client(socket_timeout=None)
    assert await client.ping()
    [connection] = client.connection_pool._available_connections
    assert isinstance(connection._writer.transport, End) == (transport == "memory")
    return client


def test_a_server_has_one_of_two_transports():
    with pytest.raises(ValueError, match="tcp, memory"):
        LoopServer(transport="pigeons")


async def test_each_command_gives_other_tasks_a_turn(client):
    async def count():
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    turns = []
    counting = asyncio.ensure_future(count())
    for _ in range(20):
        for act in (lambda: client.get("k"), lambda: client.pipeline().get("k").execute()):
            before = len(turns)
            await act()
            assert len(turns) > before
    counting.cancel()


@pytest.mark.parametrize("appendonly", ["no", "yes"])
async def test_a_task_that_polls_alone_does_not_stop_timers_and_threads(server, client, appendonly):
    await client.config_set("appendonly", appendonly)
    loop, came = asyncio.get_running_loop(), []
    loop.call_later(0.005, came.append, "timer")
    asyncio.ensure_future(asyncio.to_thread(time.sleep, 0.005)).add_done_callback(
        lambda _: came.append("thread")
    )
    while len(came) < 2:
        await client.incr("n")


@pytest.mark.parametrize("rounds", range(1, 8))
async def test_after_a_cancelled_command_the_next_one_gets_its_own_reply(client, rounds):
    await client.mset({"one": 1, "two": 2})
    for act in (
        lambda: client.get("one"),
        lambda: client.pipeline().get("one").get("one").execute(),
        lambda: client.blpop("nothing", 0),
        lambda: client.xread({"nothing": "$"}, block=0),
    ):
        task = asyncio.ensure_future(act())
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert await client.get("two") == b"2"
        assert await client.pipeline().get("one").get("two").execute() == [b"1", b"2"]


async def test_a_socket_timeout_ends_a_command_that_waits(server):
    hasty = server.client(socket_timeout=0.05)
    with server.fault(command="GET", delay=10), pytest.raises(redis.TimeoutError):
        await hasty.get("k")
    while True:  # a pause of the machine ends a command, too
        with suppress(redis.TimeoutError):
            assert await hasty.set("k", "v")
            assert await hasty.get("k") == b"v"
            return


async def test_subscribers_get_all_messages_in_order_under_load(server, client):
    async def listen():
        async with server.client(socket_timeout=None).pubsub() as subscriber:
            await subscriber.subscribe("c")
            got = []
            while len(got) < 1000:
                message = await subscriber.get_message(timeout=WAIT)
                if message["type"] == "subscribe":
                    ready.release()
                else:
                    got.append(int(message["data"]))
            return got

    ready = asyncio.Semaphore(0)
    listening = [asyncio.ensure_future(listen()) for _ in range(5)]
    for _ in listening:
        await ready.acquire()

    async def publish(start):
        for number in range(start, 1000, 2):
            assert await client.publish("c", number) == 5

    await asyncio.gather(publish(0), publish(1))
    found = await asyncio.gather(*listening)
    assert all(each == found[0] for each in found)
    assert sorted(found[0]) == list(range(1000))
    assert [n for n in found[0] if n % 2] == list(range(1, 1000, 2))


async def test_faults_close_delay_and_refuse(server, client):
    for when, left in (("before", None), ("after", b"v")):
        await client.delete("k")
        with server.fault(command="SET", close=when), pytest.raises(redis.ConnectionError):
            await client.set("k", "v")
        assert await client.get("k") == left
    with server.fault(command="GET", error="ERR no"), pytest.raises(redis.ResponseError, match="no"):
        await client.get("k")
    with server.fault(command="GET", delay=0.05):
        begun = asyncio.get_running_loop().time()
        slow, fast = asyncio.ensure_future(client.get("k")), await server.client().strlen("k")
        assert (await slow, fast) == (b"v", 1)
        assert asyncio.get_running_loop().time() - begun >= 0.04


async def test_an_error_of_the_server_is_reported_by_the_loop_and_ends_the_connection_only(
    server, client, monkeypatch
):
    from rillet.server.net.connection import Connection

    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    other = server.client()
    assert await other.ping()
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "data_received", lambda *_: 1 / 0)
        with pytest.raises(redis.ConnectionError):
            await client.ping()
    assert [type(each["exception"]) for each in reports] == [ZeroDivisionError]
    assert await other.ping()
    assert await client.ping()


async def test_a_closed_server_leaves_no_open_transport(server, client):
    """Warnings are errors in this suite: an unclosed transport would fail it."""
    subscriber = client.pubsub()
    await subscriber.subscribe("c")
    waiting = asyncio.ensure_future(server.client(socket_timeout=None).blpop("q", 0))
    while not (await client.info("clients"))["blocked_clients"]:
        await asyncio.sleep(0)
    await server.stop()
    with pytest.raises(redis.ConnectionError):
        await waiting
    await (subscriber.aclose() if hasattr(subscriber, "aclose") else subscriber.close())
    gc.collect()


LONG = {"long": "v" * 70_000, "longer": "w" * 300_000}
WORDS = {
    "K": st.sampled_from(["a", "b", "s"]),
    "V": st.sampled_from(["1", "x", "long", "longer"]),
    "N-1": st.integers(1, 9).map(lambda n: f"{n}-1"),
}
LINES = """
SET K V | GET K | INCR K | TYPE K | LPOP K | SMEMBERS K | DEL K | XLEN K | RPUSH K V V | LRANGE K 0 -1 | BLPOP K 0.001
XADD K N-1 f V | XREAD BLOCK 1 STREAMS K 0 | XGROUP CREATE K g 0 MKSTREAM | XREADGROUP GROUP g c STREAMS K > | PUBLISH c V
EVAL return(redis.call('GET',KEYS[1])) 1 K | NOSUCH | FLUSHALL
"""
COMMANDS = st.sampled_from(LINES.strip().replace("\n", " | ").split(" | ")).flatmap(
    lambda line: st.tuples(*(WORDS.get(word, st.just(word)) for word in line.split()))
)
HISTORY = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["one", "many", "transaction", "killed"]),
        st.lists(COMMANDS, min_size=1, max_size=4),
    ),
    max_size=12,
)


@given(HISTORY)
def test_random_histories_have_the_same_replies_by_both(history):
    async def replay(server):
        clients = [server.client(retry=None, socket_timeout=None) for _ in range(3)]
        found = []
        async with server.client().pubsub() as subscriber:
            await subscriber.subscribe("c")
            await subscriber.get_message(timeout=WAIT)
            for at, how, words in history:
                client = clients[at]
                commands = [[LONG.get(word, word) for word in each] for each in words]
                if how == "killed":
                    await clients[at - 1].client_kill_filter(_type="normal", skipme=True)
                    for each in clients:
                        if each is not clients[at - 1]:
                            await until_ended(each)
                if how in {"many", "transaction"}:
                    pipeline = client.pipeline(transaction=how == "transaction")
                    for each in commands:
                        pipeline.execute_command(*each)
                    found.append(await outcome(pipeline.execute(raise_on_error=False)))
                else:
                    found += [await outcome(client.execute_command(*each)) for each in commands]
            await clients[0].publish("c", "end")
            while not found or found[-1] != b"end":
                message = await subscriber.get_message(timeout=WAIT)
                found.append(message["data"])
        return found

    async def until_ended(client):
        for connection in client.connection_pool._available_connections:
            while connection._reader is not None and not connection._reader.at_eof():
                await asyncio.sleep(0)

    async def outcome(awaitable):
        try:
            return repr(await awaitable)
        except redis.RedisError as error:
            return f"{type(error).__name__} {error}"

    async def act():
        async with LoopServer() as memory, LoopServer(transport="tcp") as tcp:
            for one, other in zip(await replay(memory), await replay(tcp), strict=True):
                assert one[:1000] == other[:1000]
                assert one == other

    asyncio.run(act())
