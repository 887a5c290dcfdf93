"""A server whose clients are connected in memory answers as by TCP, whatever happens around it."""

import asyncio
import contextlib
import gc
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
import redis
from support.background import aside
from support.tool import run_program
from support.until import until

import rillet.testing
from rillet.testing.control import encode
from rillet.testing.memory_transport import (
    ChannelSocket,
    _hold_signals,
    _may_take_long,
    _release_signals,
    dial,
)
from rillet.testing.turn_loop import TurnLoop

HISTORIES = int(os.environ.get("RILLET_HISTORIES", "60"))
RESP3 = {"protocol": 3} if int(redis.__version__.partition(".")[0]) >= 5 else {}
RESP2 = RESP3 and {"protocol": 2}


@pytest.fixture(scope="module")
def running():
    with rillet.testing.Server(transport="memory", slowlog_log_slower_than=-1) as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


@pytest.fixture
def client(server):
    with server.client(**RESP3) as client:
        yield client


def is_in_memory(client: redis.Redis) -> bool:
    client.ping()
    return isinstance(idle(client)._sock, ChannelSocket)


def idle(client: redis.Redis) -> Any:
    [connection] = client.connection_pool._available_connections
    return connection


# Who gets it


def test_clients_of_the_server_need_no_socket(server, client):
    assert is_in_memory(client)
    assert client.client_info()["fd"] == "-1"
    assert client.client_info()["laddr"] == f"127.0.0.1:{server.port}"


def test_the_server_is_controlled_in_memory_too():
    with rillet.testing.Server(transport="memory", requirepass="secret") as server:
        for end in (server.reset, server.restart, server.reset):
            end()
            server.clock.advance(seconds=1)
            assert isinstance(server._control._socket, ChannelSocket)
            with server.client() as client:
                assert len(client.client_list()) == 1  # it does not show the control connection
    with rillet.testing.Server(transport="tcp") as server:
        assert not isinstance(server._control._socket, ChannelSocket)


def test_commands_that_may_take_long_run_in_the_thread_of_the_loop():
    reset, record = encode(b"DEBUG", b"RESET"), encode(b"debug", b"record", b"START", b"100")
    for one in (encode(b"GET", b"EVALUATION"), encode(b"PING"), reset, record):
        assert not _may_take_long(one)
    for words in (
        (b"EVAL", b"return 1", b"0"),
        (b"fcall_ro", b"f", b"0"),
        (b"DEBUG", b"SLEEP", b"1"),
        (b"Config", b"GET", b"*"),
    ):
        for before in (b"", encode(b"PING"), reset):
            assert _may_take_long(before + encode(*words))


def test_a_large_request_is_not_searched_but_runs_in_the_thread_of_the_loop(server):
    """A value of 10 MB was copied twice for the search, which took longer than the command."""
    value = b"x" * 70_000
    assert _may_take_long(encode(b"SET", b"a", value))
    with server.client() as client:
        client.set("a", value)
        assert client.get("a") == value


def test_it_is_switched_on_and_off_by_name():
    with rillet.testing.Server() as server:  # with `-p support.by_tcp` it is TCP
        assert is_in_memory(server.client()) == (rillet.testing.Server._default_transport == "memory")
    with rillet.testing.Server(transport="memory") as server:
        assert is_in_memory(server.client())
    with rillet.testing.Server(transport="tcp") as server:
        assert not is_in_memory(server.client())
    assert rillet.testing.Server(process=True)._transport == "tcp"
    assert rillet.testing.AsyncServer()._transport == "tcp"
    with pytest.raises(ValueError, match="tcp, memory"):
        rillet.testing.Server(transport="pigeons")
    with pytest.raises(ValueError, match="process"):
        rillet.testing.Server(transport="memory", process=True)


def test_a_socket_that_always_has_input_stops_neither_timers_nor_callbacks_nor_the_end():
    for schedule in (
        lambda loop: loop.call_later(0.001, loop.stop),
        lambda loop: loop.call_soon(loop.stop),
        lambda loop: loop.call_soon_threadsafe(loop.stop),
        lambda loop: loop.stop(),
    ):
        loop, (mine, theirs), scheduled = TurnLoop(), socket.socketpair(), []

        def act(loop=loop, schedule=schedule, scheduled=scheduled) -> None:
            if not scheduled:
                scheduled.append(schedule(loop))

        with contextlib.closing(loop), mine, theirs:
            theirs.send(b"never read")
            loop.add_reader(mine, act)
            loop.run_forever()


@pytest.fixture(params=["epoll", "another selector"])
def turn_loop(request, monkeypatch):
    if request.param != "epoll":
        monkeypatch.setattr(rillet.testing.turn_loop, "_HAS_EPOLL", False)
    elif not rillet.testing.turn_loop._HAS_EPOLL:
        pytest.skip("this system has no epoll")
    with contextlib.closing(TurnLoop()) as loop:
        yield loop


@pytest.fixture
def pairs():
    """Connected pairs of sockets: the first of each has input."""
    with contextlib.ExitStack() as stack:
        pairs = [tuple(map(stack.enter_context, socket.socketpair())) for _ in range(2)]
        for _, theirs in pairs:
            theirs.send(b"input")
        yield pairs


def run_both(loop: TurnLoop, pairs: Any, change: Any) -> None:
    """Run the loop with two sockets that have input; the callback that comes first changes what the other has registered."""

    def act(mine: socket.socket, other: socket.socket) -> None:
        mine.recv(100)
        change(other)

    for (mine, _), (other, _) in zip(pairs, reversed(pairs), strict=True):
        loop.add_reader(mine, act, mine, other)
    loop.run_forever()


CHANGES = {
    "another reader": lambda loop, other: loop.add_reader(other, loop.stop),
    "nothing": lambda loop, other: (loop.remove_reader(other), loop.stop()),
    "a writer": lambda loop, other: (loop.remove_reader(other), loop.add_writer(other, loop.stop)),
}


@pytest.mark.parametrize("instead", CHANGES)
def test_a_callback_that_another_replaces_in_the_same_round_does_not_run(turn_loop, pairs, instead):
    changed = []

    def change(other: socket.socket) -> None:
        changed.append(other)
        CHANGES[instead](turn_loop, other)

    run_both(turn_loop, pairs, change)
    assert len(changed) == 1


def test_a_callback_that_a_thread_removes_while_the_loop_waits_for_its_turn_does_not_run(turn_loop, pairs):
    (mine, _), (other, theirs) = pairs
    other.recv(100)
    ran: list[str] = []
    turn_loop.add_reader(other, ran.append, "late")
    turn_loop.turn.release()

    def run() -> None:
        with turn_loop.turn:
            turn_loop.run_forever()

    running = aside(run)
    until(turn_loop.is_running)
    with turn_loop.turn:
        theirs.send(b"input")
        turn_loop.remove_reader(other)
        turn_loop.add_reader(mine, turn_loop.stop)
    running.result(60)
    turn_loop.turn.acquire()
    assert ran == []


def test_a_peer_that_hangs_up_is_seen_with_and_without_input(turn_loop, pairs):
    ended = []

    class Peer(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            ended.append(data)

        def connection_lost(self, exc: Exception | None) -> None:
            ended.append(exc)
            if len(ended) == 4:
                turn_loop.stop()

    async def connect() -> None:
        for mine, theirs in pairs:
            await turn_loop.create_connection(Peer, sock=mine)
            theirs.close()

    task = turn_loop.create_task(connect())
    turn_loop.run_forever()
    assert task.done()
    assert sorted(map(str, ended)) == ["None", "None", "b'input'", "b'input'"]


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_a_loop_closes_the_clients_that_it_accepts_in_its_last_rounds(before, after):
    clients = []

    async def end_early() -> None:
        listener = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        clients.extend(socket.create_connection(listener.sockets[0].getsockname()) for _ in range(3))
        for _ in range(before):
            await asyncio.sleep(0)
        listener.close()
        for _ in range(after):
            await asyncio.sleep(0)

    with contextlib.closing(TurnLoop()) as loop:
        loop.run_until_complete(end_early())
        for task in asyncio.all_tasks(loop):  # as asyncio.Runner does
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    gc.collect()  # an open socket is a ResourceWarning
    for client in clients:
        client.settimeout(60)
        with client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_client_by_tcp_gets_replies_that_its_socket_does_not_take_at_once(server):
    value = os.urandom(1 << 20) * 20
    with redis.Redis(port=server.port) as client:
        client.set("k", value)
        assert client.get("k") == value
        assert client.ping()


def test_a_large_reply_is_read_in_pieces_without_copies_of_the_rest(server):
    value = os.urandom(1 << 20)
    server.client().set("k", value)
    sock = dial(server._server, 60)
    sock.sendall(encode(b"GET", b"k"))
    pieces = [sock.recv(4096)]
    [rest] = sock.channel._arrived
    while sum(map(len, pieces)) < len(value) + len("$1048576\r\n\r\n"):
        assert sock.channel._arrived[0].obj is rest.obj
        assert sock.recv(100, socket.MSG_PEEK) == bytes(sock.channel._arrived[0][:100])
        pieces.append(sock.recv(30_000))
    assert b"".join(pieces) == b"$1048576\r\n" + value + b"\r\n"
    sock.close()


def test_a_class_of_the_users_own_keeps_its_socket(server):
    with server.client(connection_class=redis.Connection) as client:
        assert not is_in_memory(client)


def python_parsers() -> list[dict[str, Any]]:
    """Return options of clients that do without hiredis."""
    if not RESP3:
        return [{"parser_class": redis.connection.PythonParser}]
    from redis import _parsers

    return [{"parser_class": _parsers._RESP2Parser} | RESP2, {"parser_class": _parsers._RESP3Parser} | RESP3]


@pytest.mark.parametrize("options", python_parsers(), ids=["RESP2", "RESP3"][: len(python_parsers())])
def test_parsers_in_python_read_from_memory_as_well(server, options):
    value = b"v\r\n" * 50_000
    for _ in range(2):
        server.reset()
        with server.client_of_test(**options) as client:
            assert is_in_memory(client)
            assert type(idle(client)._parser) is options["parser_class"]
            assert client.set("k", value)
            assert client.get("k") == value
            assert client.pipeline().incr("a").incr("a").execute() == [1, 2]
            assert not idle(client).can_read(0)
            assert client.blpop("q", 0.01) is None
            assert client.rpush("q", "v")
            assert list(client.blpop("q", 30)) == [b"q", b"v"]


def test_a_parser_in_python_hears_messages_from_memory(server):
    with server.client(**python_parsers()[0]) as client, client.pubsub() as pubsub:
        pubsub.subscribe("c")
        assert pubsub.get_message(timeout=60)["type"] == "subscribe"
        assert pubsub.get_message(timeout=0) is None
        client.publish("c", "m")
        assert pubsub.get_message(timeout=60)["data"] == b"m"


def test_another_process_gets_a_socket(server):
    code = f"import redis; redis.Redis(port={server.port}).set('k', 'v')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert server.client().get("k") == b"v"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_socket(client):
    client.set("k", "v")
    child = os.fork()
    if not child:
        status = 1
        with contextlib.suppress(BaseException):
            client.set("child", client.get("k"))
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert client.get("child") == b"v"


# The same replies

WORDS = ["a", "b", "c", "s", "1", "0", "-1", "x", "", "10", "$", ">", "*", "g", "é", "NX", "COUNT"]
COMMANDS = [
    "SET", "GET", "INCR", "APPEND", "DEL", "LPUSH", "LRANGE", "LPOP", "HSET", "HGETALL", "SADD", "SMEMBERS", "ZADD", "ZRANGE",
    "XADD", "XLEN", "XRANGE", "XDEL", "TYPE", "EXPIRE", "PERSIST", "RENAME", "MULTI", "EXEC", "DISCARD", "WATCH", "SELECT", "ECHO",
    "EVAL", "SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH", "RESET", "HELLO", "NONSENSE", "CLIENT", "CONFIG", "QUIT",
]  # fmt: skip
FIXED = [
    ["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"], ["XADD", "s", "1-*", "f", "v"], ["EVAL", "return redis.call('incr', 'n')", "0"],
    ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"], ["XACK", "s", "g", "1-0"], ["XPENDING", "s", "g"], ["HELLO", "3"],
    ["CLIENT", "REPLY", "SKIP"], ["BLPOP", "a", "0.001"], ["CLIENT", "SETNAME", "me"], ["CONFIG", "SET", "maxmemory", "0"],
    ["CLIENT", "TRACKING", "ON"], ["FLUSHALL"], ["DEBUG", "SLEEP", "0"], ["XADD", "s", "2-1", "f", "v" * 300],
]  # fmt: skip


def history(source: random.Random) -> list[bytes]:
    """Return what one client writes at a time: commands, some of them several at once, some cut in two."""
    pieces = []
    for _ in range(source.randint(1, 8)):
        data = b""
        for _ in range(source.choice([1, 1, 1, 4, 40])):
            words = source.choice(FIXED)
            if source.random() < 0.6:
                words = [source.choice(COMMANDS), *source.choices(WORDS, k=source.randint(0, 4))]
            encoded = [word.encode() for word in words]
            data += b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%b\r\n" % (len(each), each) for each in encoded
            )
        at = source.randrange(len(data)) if source.random() < 0.2 else 0
        pieces += [data[:at], data[at:]] if at else [data]
    return pieces


def replies(server: rillet.testing.Server, pieces: list[bytes]) -> bytes:
    """Return all that the server sends; it is in memory or not, as its clients are."""
    server.reset()
    server.clock.freeze(at=1_000_000)
    with server.client(**RESP2) as client:
        connection = client.connection_pool.make_connection()
        connection.connect()
        sock = connection._sock
        sock.settimeout(60)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                sock.sendall(piece)
            sock.sendall(
                b"*1\r\n$7\r\nDISCARD\r\n*1\r\n$5\r\nRESET\r\n*2\r\n$4\r\nECHO\r\n$3\r\nEND\r\n*1\r\n$4\r\nQUIT\r\n"
            )
        received = b""
        with contextlib.suppress(ConnectionError):
            while data := _received(sock, server):
                received += data
        connection.disconnect()
    return received


def _received(sock: Any, server: rillet.testing.Server) -> bytes:
    """Receive; whatever waits for a time does not wait any longer."""
    sock.settimeout(0.05)
    while True:
        try:
            return bytes(sock.recv(65536))
        except TimeoutError:
            server.clock.advance(hours=1)


MOVING = re.compile(
    rb"\$2\r\nid\r\n:\d+|(?:laddr|addr|id|fd|age|idle|tot-mem|read-events|avg-[a-z-]+)=\S+|\$\d+\r\n\d{7,}-\d+"
)


def without_ids(data: bytes) -> bytes:
    """Remove numbers of clients, and IDs that the clock has made."""
    return MOVING.sub(b"", data)


def test_random_histories_have_the_same_replies_by_both(running):
    with rillet.testing.Server(transport="tcp", slowlog_log_slower_than=-1) as plain:
        assert [each._transport for each in (running, plain)] == ["memory", "tcp"]
        for seed in range(HISTORIES):
            pieces = history(random.Random(seed))
            found = [without_ids(replies(each, pieces)) for each in (running, plain)]
            assert found[0] == found[1], f"seed {seed}: {pieces}"


# Others at the same time


def test_a_client_by_tcp_serves_one_in_memory_and_the_reverse(server, client):
    tcp = redis.Redis(port=server.port)
    for blocked, other in ((client, tcp), (tcp, client)):
        waiting = aside(blocked.blpop, "q", 0)
        until(lambda: server._command(b"INFO", b"clients").find(b"blocked_clients:1") > 0)
        other.rpush("q", "v")
        assert list(waiting.result(60)) == [b"q", b"v"]
    with tcp.pubsub() as one, client.pubsub() as two:
        for each in (one, two):
            each.subscribe("c")
            assert each.get_message(timeout=60)["type"] == "subscribe"
        assert client.publish("c", "m") == 2
        assert {each.get_message(timeout=60)["data"] for each in (one, two)} == {b"m"}
        assert two.get_message(timeout=0.001) is None


def test_threads_lose_nothing(server):
    def work(number: int) -> None:
        with server.client() as own:
            for _ in range(200):
                own.incr("n")
                own.xadd("s", {"by": number})

    for each in [aside(work, number) for number in range(8)]:
        each.result(60)
    with server.client() as client:
        assert (client.get("n"), client.xlen("s")) == (b"1600", 1600)


def test_timers_run_without_a_call(server, client):
    client.set("k", "v", px=1)
    tcp = redis.Redis(port=server.port)
    until(lambda: tcp.dbsize() == 0)
    assert client.blpop("q", 0.01) is None


def test_clients_that_the_collector_closes_leave_the_server(server, client):
    for _ in range(50):
        other = server.client()
        other.ping()
        other.itself = other
        del other
        client.ping()
    gc.collect()
    until(lambda: len(client.client_list()) == 1)


def test_what_clients_have_closed_gets_nothing_from_later_commands(server, client, monkeypatch):
    """A consumer whose read timed out still got the next entry, which Redis never sends to a closed socket."""
    late = []
    with server.client() as consumer, server.client() as subscriber, server.client() as sender:
        connections = [each.connection_pool.make_connection() for each in (consumer, subscriber, sender)]
        for connection in connections:
            connection.connect()
        connections[0].send_command("BLPOP", "q", 0)
        connections[1].send_command("SUBSCRIBE", "c")
        monkeypatch.setattr(
            server._server.loop, "call_soon_threadsafe", lambda act, *words: late.append((act, words))
        )
        connections[2].send_command(
            "SET", "k", "v" * 100_000
        )  # runs in the thread of the loop, so it must not be lost
        for connection in connections:
            connection.disconnect()
        assert client.rpush("q", "v") == 1
        assert client.llen("q") == 1
        assert client.publish("c", "m") == 0
        monkeypatch.undo()
    for act, words in late:
        server._server.loop.call_soon_threadsafe(act, *words)
    until(lambda: client.strlen("k") == 100_000)
    until(lambda: len(client.client_list()) == 1)


# What takes long


def test_a_timeout_comes_while_the_server_is_busy(server):
    goes_on = threading.Event()
    with server.client(socket_timeout=0.05) as hasty:
        with pytest.raises(redis.TimeoutError):
            hasty.execute_command("DEBUG", "SLEEP", "4")
        server._server.loop.call_soon_threadsafe(goes_on.wait, 60)
        try:
            with pytest.raises(redis.TimeoutError):  # another client, whose command is short
                hasty.get("k")
        finally:
            goes_on.set()


def test_a_client_that_does_not_read_runs_no_more_commands(server, client):
    client.set("k", b"v" * 100_000)
    with server.client() as lazy:
        connection = lazy.connection_pool.make_connection()
        connection.connect()
        for _ in range(100):
            connection._sock.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        assert client.info("commandstats")["cmdstat_get"]["calls"] < 20
        connection._sock.settimeout(60)
        unread = 100 * len(b"$100000\r\n%b\r\n" % (b"v" * 100_000))
        while unread:  # replies may arrive together
            unread -= len(connection._sock.recv(1 << 20))
        assert client.info("commandstats")["cmdstat_get"]["calls"] == 100
        connection.disconnect()


def test_a_subscriber_that_does_not_read_is_closed_at_its_limit(server, client):
    client.config_set("client-output-buffer-limit", "pubsub 100000 0 0")
    with client.pubsub() as lazy:
        lazy.subscribe("c")
        assert lazy.get_message(timeout=60)
        for _ in range(30):
            client.publish("c", b"v" * 10_000)
        until(lambda: client.pubsub_numsub("c") == [(b"c", 0)])


# Signals


INTERRUPTED = """
import signal
import rillet.testing, redis, redis.connection

# hiredis.pack_command, 3.5, crashes where a handler raises within it; redis-py 4.5 has a name of its own for it
by = "HIREDIS_PACK_AVAILABLE" if hasattr(redis.connection, "HIREDIS_PACK_AVAILABLE") else "HIREDIS_AVAILABLE"
setattr(redis.connection, by, False)
armed = False
UNIT = (
    b"*1\\r\\n$5\\r\\nMULTI\\r\\n*2\\r\\n$4\\r\\nINCR\\r\\n$1\\r\\nn\\r\\n"
    b"*5\\r\\n$4\\r\\nXADD\\r\\n$1\\r\\ns\\r\\n$1\\r\\n*\\r\\n$1\\r\\nf\\r\\n$1\\r\\nv\\r\\n*1\\r\\n$4\\r\\nEXEC\\r\\n"
)

def raise_it(*_):
    global armed
    if armed:
        armed = False
        raise KIND

signal.signal(signal.SIGALRM, raise_it)
sigint = signal.getsignal(signal.SIGINT)  # ignored in what a shell runs in the background
interrupted = 0
with rillet.testing.Server(transport="memory") as server:
    client = server.client(max_connections=1000)
    for number in range(60):
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + number * 0.00002)
            connection = client.connection_pool.make_connection()
            connection.connect()
            for _ in range(3000):
                connection._sock.sendall(UNIT)
                connection._sock.recv(1000)
        except (KIND, redis.ConnectionError):
            interrupted += 1
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    n, entries = client.pipeline().get("n").xlen("s").execute()  # what was cut off may still run
    assert int(n or 0) == entries
    with server._server.loop.turn:
        pass
    assert signal.getsignal(signal.SIGALRM) is raise_it
    assert signal.getsignal(signal.SIGINT) is sigint
print(interrupted)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of the system")
@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "ValueError"])
def test_an_exception_of_a_handler_leaves_the_server_whole(kind):
    code = INTERRUPTED.replace("KIND", kind)
    done = run_program(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


def test_a_signal_within_the_servers_code_comes_after_it():
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        held = _hold_signals()
        signal.raise_signal(signal.SIGTERM)
        assert came == []
        _release_signals(held)
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


# Ends


def test_a_restart_and_a_kill_end_a_connection_as_a_socket_would(server, client):
    number = client.client_id()
    with server.client(single_connection_client=True) as other:
        other.client_kill_filter(_id=number)
        assert client.client_id() != number
        server.restart()
        with pytest.raises(redis.ConnectionError):
            other.ping()
        assert client.ping()
        server._halt()
        with pytest.raises(redis.ConnectionError, match="refused"):
            client.ping()
        server.start()
        assert client.ping()


def test_faults_spoil_replies_in_memory_as_well(server, client):
    with server.fault(command="SET", close="after") as fault, pytest.raises(redis.ConnectionError):
        client.set("k", "v")
    assert client.get("k") == b"v"
    assert fault.hits
    with server.fault(command="GET", error="LOADING"), pytest.raises(redis.ConnectionError):
        client.get("k")
    with server.fault(command="GET", slow=(1, 0.001)):
        assert client.get("k") == b"v"
    with server.fault(command="GET", reply_bytes=2), pytest.raises(redis.ConnectionError):
        client.get("k")
