"""A slow script: other clients get BUSY while it runs, and may end it."""

import signal
import socket
import ssl
from functools import partial

import pytest
from support.live import eventually
from support.ports import free_port
from support.servers import start_server
from support.tls import TlsWire, client_context, flags, make_certificates

BUSY = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
BUSY_FUNCTION = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
FOR_EVER = "while true do end"


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(request, tmp_path_factory):
    """Its `wire()` speaks TLS in the second round."""
    if request.param == "plain":
        with start_server("rillet", "--busy-reply-threshold", 20) as process:
            yield process
        return
    folder, port = make_certificates(tmp_path_factory.mktemp("certificates")), free_port()
    with start_server("rillet", "--busy-reply-threshold", 20, "--tls-port", port, *flags(folder)) as process:
        process.wire = partial(TlsWire, port, folder)
        process.tls_port, process.certificates = port, folder
        yield process
        assert "rror" not in process.log


def run_slowly(runner, others, *words):
    """Send a slow command once the server's loop knows all clients."""
    for wire in (runner, *others):
        assert str(wire.call("PING")) == "+PONG"
    runner.send(*words)


def wait_until_busy(wire, text=BUSY):
    eventually(lambda: str(wire.call("PING")) == text)


def test_other_clients_get_busy_and_one_of_them_ends_the_script(server):
    with server.wire() as runner, server.wire() as other:
        other.call("SET", "k", "v")
        run_slowly(runner, [other], "EVAL", FOR_EVER, 0)
        wait_until_busy(other)
        assert str(other.call("GET", "k")) == BUSY
        assert str(other.call("MULTI")) == "+OK"
        assert str(other.call("GET", "k")) == BUSY
        assert str(other.call("EXEC")) == f"-EXECABORT Transaction discarded because of: {BUSY[1:]}"
        assert str(other.call("FUNCTION", "KILL")) == BUSY
        assert str(other.call("SHUTDOWN")) == BUSY
        assert str(other.call("SCRIPT", "KILL")) == "+OK"
        assert str(runner.read()).startswith("-ERR Script killed by user with SCRIPT KILL. script: ")
        assert other.call("GET", "k").plain() == b"v"
        assert str(other.call("SCRIPT", "KILL")) == "-NOTBUSY No scripts in execution right now."


def test_a_client_that_connects_during_a_script_stays(server):
    with server.wire() as runner, server.wire() as other:
        run_slowly(runner, [other], "EVAL", FOR_EVER, 0)
        wait_until_busy(other)
        with server.wire(3) as late:
            assert str(late.call("GET", "k")) == BUSY
            assert str(late.call("SCRIPT", "KILL")) == "+OK"
            assert str(runner.read()).startswith("-ERR Script killed")
            assert str(late.call("SET", "k", "late")) == "+OK"
            late.send_raw(b"*2\r\n$3\r\nGET\r\n$1\r\n")
            late.send_raw(b"k\r\n")
            assert late.read().plain() == b"late"
            assert late.call("CLIENT", "ID").plain() > 0


def test_what_arrives_in_pieces_is_put_together(server):
    with server.wire() as runner, server.wire() as other, server.wire() as third:
        other.call("PING")
        other.send_raw(b"*2\r\n$3\r\nGET\r\n$1")
        run_slowly(runner, [third], "EVAL", FOR_EVER, 0)
        wait_until_busy(third)
        other.send_raw(b"\r\nk\r\n*1\r\n$4\r\nPI")
        assert str(other.read()) == BUSY
        third.call("SCRIPT", "KILL")
        runner.read()
        other.send_raw(b"NG\r\n")
        assert str(other.read()) == "+PONG"


@pytest.mark.parametrize("server", ["tls"], indirect=True)
def test_a_handshake_continues_during_a_script(server):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(server.certificates).wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    with (
        server.wire() as runner,
        server.wire() as other,
        socket.create_connection(("127.0.0.1", server.tls_port), 10) as sock,
    ):
        sock.sendall(hello[:50])
        run_slowly(runner, [other], "EVAL", FOR_EVER, 0)
        wait_until_busy(other)
        sock.sendall(hello[50:])
        done = False
        while not done:
            incoming.write(sock.recv(1 << 16))
            try:
                tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                pass
            sock.sendall(outgoing.read())
        tls.write(b"SCRIPT KILL\r\n")
        sock.sendall(outgoing.read())
        assert str(runner.read()).startswith("-ERR Script killed")


@pytest.mark.parametrize("server", ["tls"], indirect=True)
def test_bytes_that_are_not_tls_harm_only_their_sender(server):
    with server.wire() as runner, server.wire() as other:
        run_slowly(runner, [other], "EVAL", FOR_EVER, 0)
        wait_until_busy(other)
        with socket.create_connection(("127.0.0.1", server.tls_port), 10) as sock:
            sock.sendall(b"PING\r\n")
            wait_until_busy(other)
            assert str(other.call("SCRIPT", "KILL")) == "+OK"
            assert str(runner.read()).startswith("-ERR Script killed")
            while sock.recv(100):
                pass
        assert str(other.call("PING")) == "+PONG"


def test_a_client_that_disconnects_during_a_script_is_forgotten(server):
    with server.wire() as runner, server.wire() as other:
        with server.wire() as third:
            run_slowly(runner, [other, third], "EVAL", FOR_EVER, 0)
            wait_until_busy(other)
            wait_until_busy(third)
        wait_until_busy(other)
        assert str(other.call("SCRIPT", "KILL")) == "+OK"
        runner.read()
        eventually(lambda: other.call("CLIENT", "LIST").plain().count(b"\n") == 2)


def test_a_script_that_has_written_is_not_ended(server):
    until_refused = "repeat until string.find(redis.call('info', 'errorstats'), 'UNKILLABLE') return 2"
    code = f"redis.call('set', KEYS[1], 1) {until_refused}"
    with server.wire() as runner, server.wire() as other:
        other.call("CONFIG", "RESETSTAT")
        run_slowly(runner, [other], "EVAL", code, 1, "k")
        wait_until_busy(other)
        assert str(other.call("SCRIPT", "KILL")).startswith(
            "-UNKILLABLE Sorry the script already executed write"
        )
        assert runner.read().plain() == 2
        assert other.call("GET", "k").plain() == b"1"


def test_a_client_is_sent_its_own_invalidation_though_another_ran_a_command_during_its_script(server):
    until_busy = "repeat until string.find(redis.call('info', 'errorstats'), 'BUSY') return 1"
    with server.wire(3) as runner, server.wire() as other:
        runner.call("CONFIG", "RESETSTAT")
        runner.call("CLIENT", "TRACKING", "ON")
        runner.call("GET", "k")
        run_slowly(runner, [other], "EVAL", f"redis.call('set', KEYS[1], 1) {until_busy}", 1, "k")
        wait_until_busy(other)
        assert runner.read().plain() == 1
        assert runner.read().plain() == [b"invalidate", [b"k"]]
        assert str(other.call("PING")) == "+PONG"


def test_functions_have_a_kill_of_their_own(server):
    with server.wire() as runner, server.wire() as other:
        other.call(
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('spin', function() while true do end end)",
        )
        run_slowly(runner, [other], "FCALL", "spin", 0)
        wait_until_busy(other, BUSY_FUNCTION)
        running = other.call("FUNCTION", "STATS").plain()[1]
        assert running[:4] == [b"name", b"spin", b"command", [b"FCALL", b"spin", b"0"]]
        assert str(other.call("SCRIPT", "KILL")) == BUSY_FUNCTION
        assert str(other.call("FUNCTION", "KILL")) == "+OK"
        assert str(runner.read()).startswith("-ERR Script killed by user with FUNCTION KILL. script: spin")


def test_a_script_inside_a_transaction_can_be_ended(server):
    with server.wire() as runner, server.wire() as other:
        runner.call("MULTI")
        runner.call("SET", "k", "before")
        runner.call("EVAL", FOR_EVER, 0)
        runner.call("SET", "k", "after")
        other.call("PING")
        runner.send("EXEC")
        wait_until_busy(other)
        assert str(other.call("SCRIPT", "KILL")) == "+OK"
        first, second, third = runner.read().children
        assert (str(first), str(third)) == ("+OK", "+OK")
        assert str(second).startswith("-ERR Script killed")
        assert other.call("GET", "k").plain() == b"after"


def test_shutdown_nosave_ends_the_script_and_the_server():
    with start_server("rillet", "--busy-reply-threshold", 20, "--appendonly", "yes") as server:
        with server.wire() as runner, server.wire() as other:
            other.call("SET", "k", "v")
            code = "redis.call('set', 'k', 'cut') while true do pcall(function() while true do end end) end"
            run_slowly(runner, [other], "EVAL", code, 0)
            wait_until_busy(other)
            other.send("SHUTDOWN", "NOSAVE")
            assert server._process.wait(60) == 0
        log = b"".join(path.read_bytes() for path in (server.dir / "appendonlydir").glob("*.incr.aof"))
        assert b"cut" not in log


@pytest.fixture
def own_server():
    with start_server("rillet", "--busy-reply-threshold", 20) as process:
        yield process


def test_a_signal_ends_the_script_and_the_server(own_server):
    with own_server.wire() as runner, own_server.wire() as other:
        run_slowly(runner, [other], "EVAL", FOR_EVER, 0)
        wait_until_busy(other)
        own_server._process.send_signal(signal.SIGTERM)
        assert own_server._process.wait(60) == 0


# At the limit of C calls the look fails itself: the script meets it as an error inside `busy`, where no other can be.
AT_THE_LIMIT_OF_C = (
    "local inside local function busy() inside = true for i = 1, 2e5 do end inside = false end "
    "local function deep(n) if n == 0 then return busy() end string.gsub('x', 'x', function() deep(n - 1) end) end "
    "local function forever() while inside do end end "
    "for n = 150, 199 do %s end while true do end"
)
IN_PCALL = AT_THE_LIMIT_OF_C % "repeat inside = false pcall(deep, n) until not inside"
IN_A_HANDLER = AT_THE_LIMIT_OF_C % "inside = false xpcall(function() deep(n) end, forever)"


@pytest.mark.parametrize("code", [IN_PCALL, IN_A_HANDLER])
@pytest.mark.parametrize("by", ["SCRIPT KILL", "SHUTDOWN NOSAVE", "SIGTERM"])
def test_no_place_in_a_script_is_beyond_the_reach_of_others(own_server, code, by):
    with own_server.wire() as runner, own_server.wire() as other:
        other.call("CONFIG", "SET", "busy-reply-threshold", 1000)  # until it is at the limit
        run_slowly(runner, [other], "EVAL", code, 0)
        wait_until_busy(other)
        if by == "SCRIPT KILL":
            assert str(other.call("SCRIPT", "KILL")) == "+OK"
            assert str(runner.read()).startswith("-ERR Script killed by user with SCRIPT KILL. script: ")
            assert str(other.call("PING")) == "+PONG"
        elif by == "SIGTERM":
            own_server._process.send_signal(signal.SIGTERM)
        else:
            other.send(*by.split())
        assert by == "SCRIPT KILL" or own_server._process.wait(60) == 0


@pytest.mark.parametrize(
    "code",
    [
        "while true do redis.pcall('lrange', 'list', 0, -1) end",
        "while true do redis.pcall('get', 'huge') end",
        "while true do redis.pcall('sort', 'list', 'store', 'sorted') end",
    ],
)
def test_slow_commands_leave_no_minutes_between_two_looks(own_server, code):
    with own_server.wire() as runner, own_server.wire() as other:
        other.call("CONFIG", "SET", "lua-memory-limit", "64mb")
        other.call("RPUSH", "list", *range(100_000))
        other.call("SETRANGE", "huge", 70_000_000, "x")
        run_slowly(runner, [other], "EVAL", code, 0)
        wait_until_busy(other)
        other.send("SHUTDOWN", "NOSAVE")
        assert own_server._process.wait(60) == 0


TABLE = "local t = {} for i = 1, 1e6 do t[i] = i end"
LONG = "local s = ('x'):rep(1e7)"


@pytest.mark.parametrize(
    "code",
    [
        "while true do ('x'):rep(1e7) end",
        f"{LONG} while true do s:find('zz', 1, true) end",
        f"{LONG} while true do s:gsub('y', 'z') end",
        f"{LONG} while true do s:upper() end",
        f"{TABLE} while true do table.sort(t) end",
        f"{TABLE} while true do table.concat(t) end",
        f"{TABLE} while true do table.insert(t, 1, 0) table.remove(t, 1) end",
        f"{TABLE} for i = 1, 1e6 do t[i] = {{}} end while true do collectgarbage() end",
    ],
)
def test_slow_functions_of_c_leave_no_minutes_either(own_server, code):
    with own_server.wire() as runner, own_server.wire() as other:
        run_slowly(runner, [other], "EVAL", code, 0)
        for _ in range(3):
            wait_until_busy(other)
        assert str(other.call("SCRIPT", "KILL")) == "+OK"
        assert str(runner.read()).startswith("-ERR Script killed by user with SCRIPT KILL. script: ")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (FOR_EVER, "FUNCTION LOAD timeout"),
        ("local t while true do t = {t} end", "not enough memory"),
        ("local s = ('x'):gsub('x', function() while true do end end)", "FUNCTION LOAD timeout"),
        (
            "local f f = function(n) if n == 0 then while true do end end ('x'):gsub('x', function() f(n - 1) end) end f(%d)",
            "C stack overflow",
        ),
    ],
)
def test_no_library_loads_for_ever(own_server, code, error):
    with own_server.wire() as wire:
        wire.call("CONFIG", "SET", "lua-memory-limit", "8mb")
        # Lua's stack of C ends between these; each that it holds takes half a second.
        for depth in range(193, 200) if "%" in code else (0,):
            library = f"#!lua name=lib\n{code.replace('%d', str(depth))}"
            assert str(wire.call("FUNCTION", "LOAD", library)).startswith(
                "-ERR Error registering functions: "
            )
            assert str(wire.call("PING")) == "+PONG"
        # In a pause of the machine it may time out before it has taken the memory.
        eventually(lambda: error in str(wire.call("FUNCTION", "LOAD", library)))


def test_a_second_signal_does_not_wait_for_a_script_that_has_written(own_server):
    with own_server.wire() as runner, own_server.wire() as other:
        run_slowly(runner, [other], "EVAL", "redis.call('set', 'k', 1) while true do end", 0)
        wait_until_busy(other)
        own_server._process.send_signal(signal.SIGTERM)
        wait_until_busy(other)
        own_server._process.send_signal(signal.SIGTERM)
        assert own_server._process.wait(60) == 1


def test_a_threshold_of_zero_switches_it_off(server):
    with server.wire() as runner, server.wire() as other:
        other.call("CONFIG", "SET", "lua-time-limit", 0)
        runner.send("EVAL", "for i = 1, 5000000 do end return 1", 0)
        assert str(other.call("PING")) == "+PONG"
        assert runner.read().plain() == 1
        other.call("CONFIG", "SET", "lua-time-limit", 20)


def test_a_client_that_connects_just_before_the_script_is_heard(server):
    for _ in range(12):
        with server.wire() as runner, server.wire() as other:
            runner.send("EVAL", FOR_EVER, 0)
            other.send("SCRIPT", "KILL")
            answer = str(other.read())
            while answer != "+OK":  # it came before the script began
                assert answer.startswith(("-NOTBUSY", "-BUSY")), answer
                answer = str(other.call("SCRIPT", "KILL"))
            assert str(runner.read()).startswith("-ERR Script killed")


def test_a_client_that_sends_much_has_its_turns_during_a_script(server):
    with server.wire() as runner, server.wire() as other, server.wire() as third:
        run_slowly(runner, [other, third], "EVAL", FOR_EVER, 0)
        wait_until_busy(third)
        other.send_raw(b"PING\r\n" * 20_000 + b"SCRIPT KILL\r\n")
        for _ in range(20_000):
            assert str(other.read()) == BUSY
        assert str(other.read()) == "+OK"
        assert str(runner.read()).startswith("-ERR Script killed")
        other.send_raw(b"PING\r\n" * 20_000)
        for _ in range(20_000):
            assert str(other.read()) == "+PONG"
