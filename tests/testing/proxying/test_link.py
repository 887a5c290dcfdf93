"""One client of a proxy: what passes unchanged, what counts as a reply, and how each side learns of the other's end."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from support import tls
from support.ports import free_port
from support.servers import require_binary, start_server
from support.until import until
from support.wire import ConnectionClosedError, Wire, encode_command

import rillet.testing
from rillet.testing.proxying.upstream import Upstream


def wire(proxy, protocol=2):
    return Wire(proxy.port, protocol)


def pending(proxy):
    """How many replies each client waits for, by the proxy's count."""

    def counted(listener):
        for link in listener._links:
            link.count()
        return [len(link._unanswered) for link in listener._links]

    return proxy._run(counted)


@contextlib.contextmanager
def lost(proxy, command, **options):
    """Let the reply to a command be lost, and expect that exactly this one is."""
    with proxy.fault(command=command, close="after", **options) as fault:
        yield fault
    assert fault.count == 1


def closed(one):
    """The values that still arrive before the end of the connection."""
    found = []
    with contextlib.suppress(ConnectionClosedError):
        while True:
            found.append(str(one.read()))
    return found


# Which reply belongs to which request; behind each state of a connection: test_states.py


def send(one, *lines):
    one.send_raw(b"".join(encode_command(*line.split()) for line in lines))


def test_a_message_beside_a_reply_is_none_in_either_protocol(proxy):
    for protocol in (2, 3):
        with wire(proxy, protocol) as one, wire(proxy) as other:
            send(one, "SUBSCRIBE a")
            one.read()
            other.call("PUBLISH", "a", "hello")
            send(one, "PING")
            assert [one.read().children[0].value, str(one.read())] == [
                b"message",
                "+PONG" if protocol == 3 else '*[$"pong" $""]',
            ]
            with lost(proxy, "PING"):
                other.call("PUBLISH", "a", "again")
                send(one, "PING")
                [message] = closed(one)
                assert '"again"' in message


def test_a_list_that_looks_like_a_message_is_a_reply(proxy):
    with wire(proxy) as one:
        send(one, "RPUSH l message a b", "LRANGE l 0 -1", "LRANGE l 0 -1")
        assert [one.read().kind for _ in range(3)] == [":", "*", "*"]
        assert pending(proxy) == [0]


def test_lines_of_monitor_are_no_replies(proxy):
    with wire(proxy) as one, wire(proxy) as other:
        assert one.call("MONITOR").value == b"OK"
        other.call("SET", "k", "v")
        assert b'"SET" "k" "v"' in one.read().value
        with lost(proxy, "PING", client="!nobody"):
            send(one, "PING")
            assert not [line for line in closed(one) if "PONG" in line]


def test_tracking_and_pushes_of_the_test_come_between_replies(proxy):
    with wire(proxy, 3) as one, wire(proxy) as other:
        send(one, "CLIENT TRACKING ON", "GET k")
        one.read(), one.read()
        other.call("SET", "k", "v")
        assert one.read().children[0].value == b"invalidate"
        assert proxy.push("MOVING", 1, 15, "10.0.0.1:6379") == 1
        send(one, "GET k")
        assert str(one.read()) == '>[$"MOVING" $"1" $"15" $"10.0.0.1:6379"]'
        assert str(one.read()) == '$"v"'
        assert proxy.push("MOVING", client="nobody") == 0
        assert pending(proxy) == [0, 0]


def test_a_blocked_client_is_unblocked_and_its_later_commands_run(proxy):
    with wire(proxy) as one, wire(proxy) as other, proxy.fault(command="NOPE.X", close="after"):
        send(one, "BLPOP l 0", "ECHO after")
        until(lambda: b"blocked_clients:1" in other.call("INFO", "clients").value)
        other.call("RPUSH", "l", "x")
        assert [str(one.read()), str(one.read())] == ['*[$"l" $"x"]', '$"after"']


def test_debug_is_the_proxys_own_in_order_and_everything_else_of_it_passes(proxy):
    with wire(proxy) as one:
        fault = ["DEBUG FAULT ADD COMMAND GET ERROR OOM", "GET k", "DEBUG FAULT LIST", "DEBUG FAULT CLEAR"]
        send(one, "ECHO a", *fault, "GET k")
        assert one.read().value == b"a"
        number = int(one.read().value)
        assert one.read().value.startswith(b"OOM ")
        assert [each[0] for each in (one.read().plain(), one.read().plain())[0]] == [number]
        assert one.read().is_null
        for wrong in (
            "DEBUG FAULT",
            "DEBUG FAULT ADD COMMAND XAKC ERROR OOM",
            "DEBUG FAULT ADD DISK append",
            "DEBUG FAULT ADD CLOCK-DELAY 5",
        ):
            send(one, wrong)
            assert one.read().value.startswith(b"ERR ")
        assert one.call("DEBUG", "OBJECT", "nothing").value == b"ERR no such key"
        assert one.call("DEBUG", "CONTROL").value == b"OK"
        with proxy.fault(error="OOM"):
            assert one.call("ECHO", "never hit").value == b"never hit"


# What a proxy does not understand passes unchanged


INPUTS = [
    b"PING\r\nECHO 'a b'\nPING\r\n", b"\r\n\r\n*0\r\n*-1\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", b"*x\r\nPING\r\n", b"*1\r\n$x\r\nPING\r\n",
    b"*1\r\n:1\r\nPING\r\n", b"ECHO 'unbalanced\r\nPING\r\n", b"*2\r\n$4\r\nECHO\r\n$-1\r\nPING\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"PING\r\n" * 1000,
]  # fmt: skip


ENDS = (b"+END\r\n", b"$3\r\nEND\r\n")


def answer(port, data, cuts=()):
    """All that comes back up to the reply to ECHO END, or to the end of the connection."""
    found = b""
    with (
        socket.create_connection(("127.0.0.1", port), 60) as one,
        contextlib.suppress(ConnectionError),
    ):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            one.sendall(data[begin:end])
        while not found.endswith(ENDS) and (more := one.recv(1 << 16)):
            found += more
    return found


@pytest.mark.parametrize("data", INPUTS, ids=range(len(INPUTS)))
@pytest.mark.parametrize("looks", [False, True])
def test_anything_is_answered_as_without_a_proxy(proxy, real, data, looks):
    data += b"ECHO END\r\n"
    with contextlib.ExitStack() as stack:
        if looks:
            stack.enter_context(proxy.recording())
        assert answer(proxy.port, data) == answer(real.port, data)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_requests_may_be_cut_anywhere(shared, data):
    commands = data.draw(
        st.lists(
            st.one_of(
                st.lists(st.binary(max_size=20), min_size=1, max_size=4).map(
                    lambda words: encode_command("ECHO", *words)
                ),
                st.sampled_from([b"PING\r\n", b"\r\n", b"*0\r\n", b"SET k v\r\n", b"INCR k\n"]),
            ),
            max_size=8,
        )
    )
    every = b"SET k v\r\n" + b"".join(commands) + b"ECHO END\r\n"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(every)), max_size=8)))
    proxy, real = shared
    assert answer(proxy.port, every, cuts) == answer(real.port, every)
    with proxy.recording() as seen:
        assert answer(proxy.port, every, cuts) == answer(real.port, every)
        assert seen[-1].words == ("ECHO", "END")


@pytest.mark.parametrize("looks", [False, True])
def test_a_request_that_is_under_way_when_a_fault_begins_ends_as_it_began(proxy, looks):
    """Its value ends like a request, where it is cut, and goes on like one."""
    value = b"a\n*1\r\n$7\r\nMONITOR\r\n"
    beginning = encode_command("SET", "k", "v") + encode_command("APPEND", "n", value)
    with contextlib.ExitStack() as stack, wire(proxy) as one:
        if looks:
            stack.enter_context(proxy.recording())
        one.call("PING")
        one.send_raw(beginning[: -len(value) - 2 + 2])
        until(lambda: proxy._command(b"EXISTS", b"k"))
        assert one.read().value == b"OK"
        with lost(proxy, "GET"):
            one.send_raw(value[2:] + b"\r\n" + encode_command("STRLEN", "n"))
            assert [one.read().value, one.read().value] == [b"%d" % len(value)] * 2
            send(one, "GET n")
            assert closed(one) == []


@pytest.mark.parametrize(
    "line",
    [b"monitor\r\n", b"'monitor'\r\n", b'"\\x4dONITOR"\n', b"\t MONITOR\r\n", encode_command("mOnItOr")],
)
def test_a_command_that_changes_replies_is_seen_behind_others_however_it_is_written(proxy, line):
    with wire(proxy) as one:
        one.call("SET", "n", 1)
        one.send_raw(encode_command("GET", "n") + line)
        assert [one.read().value, one.read().value] == [b"1", b"OK"]
        assert proxy._run(lambda listener: [link.session.monitors for link in listener._links]) == [True]


@pytest.fixture(scope="module")
def shared():
    with start_server("redis810") as real, rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}") as proxy:
        yield proxy, real


# Large values and slow clients


LARGE = int(os.environ.get("RILLET_LARGE_MB", "128"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at /proc")
@pytest.mark.parametrize("looks", [False, True])
def test_large_values_pass_in_pieces(shared, looks):
    proxy, real = shared
    size = LARGE << 20
    program = f"""
import sys, rillet.testing
from pathlib import Path

def peak():
    # Not ru_maxrss, which begins with that of the process that started this one.
    facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(facts["VmHWM"].split()[0])

with rillet.testing.Proxy("redis://127.0.0.1:{real.port}") as proxy:
    if {looks}:
        recording = proxy.recording().start()
    client = proxy.client(socket_timeout=None)
    print(proxy.port, peak(), flush=True)
    sys.stdin.readline()
    if {looks}:
        assert [each.keys for each in recording.of(command="SET")] == [("big",)], str(recording)[:300]
    print(peak(), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        port, before = map(int, run.stdout.readline().split())
        piece = b"x" * (1 << 20)
        with socket.create_connection(("127.0.0.1", port), 120) as one:
            one.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % size)
            for _ in range(size >> 20):
                one.sendall(piece)
            one.sendall(b"\r\n")
            assert one.recv(100) == b"+OK\r\n"
            one.sendall(b"GET big\r\nPING\r\n")
            got, last = 0, b""
            while not last.endswith(b"+PONG\r\n"):
                last = last[-20:] + (data := one.recv(1 << 20))
                got += len(data)
            assert got == size + len(b"$%d\r\n\r\n+PONG\r\n" % size)
        run.stdin.write("\n")
        run.stdin.flush()
        after = int(run.stdout.readline())
    proxy._command(b"DEL", b"big")
    assert after - before < 32 << 10, f"{before} to {after} KB"


def test_a_client_that_does_not_read_holds_the_server_up_and_not_the_proxy(shared):
    proxy, _ = shared
    proxy.client().set("large", b"x" * (1 << 20))
    with socket.create_connection(("127.0.0.1", proxy.port), 60) as one:
        one.sendall(b"GET large\r\n" * 100)
        until(
            lambda: proxy._run(
                lambda listener: [len(link._server_pauses) for link in listener._links if link._server_pauses]
            )
        )
        held = proxy._run(
            lambda listener: max(link.transport.get_write_buffer_size() for link in listener._links)
        )
        assert held < 8 << 20
        got = 0
        while got < 100 * (len(b"$1048576\r\n\r\n") + (1 << 20)):
            got += len(one.recv(1 << 20))
        one.sendall(b"PING\r\n")
        assert one.recv(100) == b"+PONG\r\n"


def test_a_thousand_clients(shared):
    proxy, _ = shared
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    before = len(pending(proxy))
    wires = [wire(proxy) for _ in range(1000)]
    try:
        for number, one in enumerate(wires):
            one.send("ECHO", number)
        assert [one.read().value for one in wires] == [b"%d" % number for number in range(1000)]
    finally:
        for one in wires:
            one.close()
    until(lambda: len(pending(proxy)) <= before)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The end of each party


def test_a_server_that_is_killed_ends_its_clients_and_one_that_is_back_serves_new_ones():
    with start_server("redis810") as real, rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}") as proxy:
        with wire(proxy) as idle, wire(proxy) as waiting:
            idle.call("PING")
            waiting.send("BLPOP", "l", "0")
            until(lambda: b"blocked_clients:1" in idle.call("INFO", "clients").value)
            os.kill(real.pid, signal.SIGKILL)
            assert closed(idle) == closed(waiting) == []
        real._process.wait()
        with pytest.raises((ConnectionClosedError, ConnectionError)), wire(proxy) as refused:
            refused.call("PING")
        real.start(real.port)
        with wire(proxy) as again:
            assert again.call("PING").value == b"PONG"


def test_a_client_that_is_killed_is_gone_for_the_server(shared):
    proxy, real = shared
    with real.wire() as look:
        one = wire(proxy)
        one.call("CLIENT", "SETNAME", "victim")
        one.send("BLPOP", "l", "0")
        until(lambda: b"blocked_clients:1" in look.call("INFO", "clients").value)
        one._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()
        until(lambda: b"name=victim" not in look.call("CLIENT", "LIST").value)


def test_what_a_client_has_sent_before_it_hangs_up_runs(shared):
    proxy, real = shared
    for port in (real.port, proxy.port):
        with socket.create_connection(("127.0.0.1", port), 60) as one:
            one.sendall(b"DEL n\r\n" + b"INCR n\r\n" * 100)
            one.shutdown(socket.SHUT_WR)
            while one.recv(1 << 16):
                pass
        with real.wire() as look:
            until(lambda look=look: look.call("GET", "n").value == b"100")


def test_what_waits_for_earlier_replies_runs_before_a_client_hangs_up(shared):
    proxy, real = shared
    for port in (real.port, proxy.port):
        for _ in range(20):  # the end has to come before the reply to the first command
            with socket.create_connection(("127.0.0.1", port), 60) as one:
                one.sendall(b"SET n 1\r\nCLIENT REPLY ON\r\n")
                one.shutdown(socket.SHUT_WR)
                got = b""
                while data := one.recv(1 << 16):
                    got += data
            assert got == b"+OK\r\n+OK\r\n"


@pytest.mark.parametrize(
    ("options", "ends"),
    [({"silence": True}, True), ({"reply_bytes": 1, "silence": True}, True), ({"slow": (1, 60)}, False)],
)
def test_a_reply_that_comes_after_the_end_of_its_fault_is_not_held(proxy, real, options, ends):
    with wire(proxy) as one, real.wire() as look:
        fault = proxy.fault(command="INCR", **options).start()
        look.call("CLIENT", "PAUSE", 60_000, "WRITE")
        one.send("INCR", "n")
        until(lambda: fault.count)
        fault.stop()
        look.call("CLIENT", "UNPAUSE")
        if ends:
            assert closed(one) == []
        else:
            assert one.read().value == b"1"


def test_a_long_reply_is_not_that_of_a_request_that_gets_none(proxy, real):
    with wire(proxy) as one, real.wire() as look:
        look.call("ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "resetchannels")
        look.call("SETRANGE", "large", (3 << 20) - 1, "x")
        assert one.call("AUTH", "bob", "pw").value == b"OK"
        with lost(proxy, "INCR"):
            send(one, "CLIENT REPLY SKIP", "SUBSCRIBE a", "DEBUG FAULT NOPE", "GET large", "ECHO a", "INCR n")
            assert one.read().value.startswith(b"ERR")  # the proxy's own
            assert len(one.read().value) == 3 << 20
            assert closed(one) == ['$"a"']
        look.call("ACL", "DELUSER", "bob")


def test_a_command_that_is_refused_uses_up_client_reply_skip(proxy):
    with wire(proxy) as one, proxy.fault(command="INCR", error="OOM", first=1, expect_hits=True):
        one.send_raw(
            b"CLIENT REPLY SKIP\r\nINCR n\r\nECHO a\r\nCLIENT REPLY SKIP\r\nDEBUG FAULT LIST\r\nECHO b\r\n"
        )
        assert [one.read().value, one.read().value] == [b"a", b"b"]
        assert one.call("INCR", "n").value == b"1"


def test_a_proxy_ends_at_once_beside_a_closed_client_that_does_not_read(shared):
    _, real = shared
    with rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}") as proxy, wire(proxy) as one:
        one.call("SETRANGE", "big", 8 << 20, "x")
        one.send_raw(b"GET big\r\n" * 4)
        until(lambda: proxy._run(lambda listener: any(link._server_pauses for link in listener._links)))
        proxy._run(lambda listener: [link.close() for link in list(listener._links)])
        thread = proxy._thread
        proxy.stop()
        assert not thread.is_alive()


def test_a_partition_holds_everything_and_loses_nothing(proxy):
    with wire(proxy) as one, wire(proxy) as other:
        one.call("SET", "n", 1)
        proxy.partition()
        one.send("INCR", "n")
        with wire(proxy) as late:
            late.send("INCR", "n")
            assert not one.pending()
            assert not late.pending()
            assert proxy._command(b"GET", b"n") == b"1"
            proxy.heal()
            assert {one.read().value, late.read().value} == {b"2", b"3"}
            assert other.call("GET", "n").value == b"3"


def test_a_partition_heals_for_all_where_a_fault_closes_one_that_came_during_it(proxy, monkeypatch):
    connect = Upstream.connect

    async def connect_after_requests(self, made):
        while not all(link._unread for link in proxy._listener._links):
            await asyncio.sleep(0)
        return await connect(self, made)

    monkeypatch.setattr(Upstream, "connect", connect_after_requests)
    proxy.partition()
    with proxy.fault(command="INCR", close="before"), wire(proxy) as one, wire(proxy) as other:
        one.send("INCR", "n")
        other.send("PING")
        until(lambda: len(proxy._listener.open_sides) == 4)
        proxy.heal()
        assert other.read().value == b"PONG"
        until(one.is_over)


# The way to the server


def refuses(url, why):
    with pytest.raises(rillet.testing.StartError, match=why), rillet.testing.Proxy(url):
        pass


def test_tls_to_the_server(tmp_path):
    folder = tls.make_certificates(tmp_path)
    flags = {"tls_cert_file": folder / "server.crt", "tls_key_file": folder / "server.key"}
    with rillet.testing.Server(
        port=free_port(), tls_port=free_port(), tls_auth_clients="no", **flags
    ) as server:
        port = server._server.config.tls_port
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={folder}/ca.crt&ssl_check_hostname=false"
        with rillet.testing.Proxy(url) as proxy:
            assert proxy.client().set("k", "v")
            assert proxy.url.startswith("redis://127.0.0.1")
        refuses(f"rediss://127.0.0.1:{port}", "certificate")


def test_a_unix_socket_a_password_and_a_database(tmp_path):
    path = tmp_path / "redis.sock"
    with start_server("redis810", "--unixsocket", str(path), "--requirepass", "pass word"):
        with rillet.testing.Proxy(f"unix://:pass%20word@{path}?db=3") as proxy:
            client = proxy.client()
            client.set("k", "v")
            assert client.info("keyspace").keys() == {"db3"}
            assert proxy._command(b"GET", b"k") == b"v"
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(port=proxy.port, retry=None).ping()
        refuses(f"unix://:wrong@{path}", "refuses")


@pytest.mark.parametrize(
    "url", ["http://x", "redis://x?nope=1", "redis://x/a", "rediss://x?ssl_ca_certs=/no/such/file"]
)
def test_a_url_that_means_nothing_is_refused(url):
    with pytest.raises(ValueError):
        rillet.testing.Proxy(url)


def test_a_server_that_is_not_there_and_a_cluster_are_refused():
    refuses(f"redis://127.0.0.1:{free_port()}", "cannot be reached")
    with start_server("redis810", "--cluster-enabled", "yes") as node:
        refuses(f"redis://127.0.0.1:{node.port}", "one address")


def test_a_sentinel_is_refused(tmp_path):
    port, file = free_port(), tmp_path / "sentinel.conf"
    file.write_text(f"port {port}\nbind 127.0.0.1\n")
    words = [str(require_binary("redis810")), str(file), "--sentinel"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: is_there(port))
            refuses(f"redis://127.0.0.1:{port}", "not of a sentinel")
        finally:
            process.kill()


def is_there(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 60).close()
        return True
    return False


def test_a_port_in_use_is_refused_and_no_thread_is_left(shared):
    proxy, real = shared
    before = threads()
    with pytest.raises(rillet.testing.StartError, match="cannot listen"):
        rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}", port=proxy.port).start()
    assert threads() == before


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "rillet proxy"]
