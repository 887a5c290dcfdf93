"""redis-cli and redis-benchmark of a real Redis, in every mode that makes sense here."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from support.live import DEADLINE, LiveServer, eventually
from support.programs.clients import require_program
from support.tool import run_program
from support.wire import encode_command


@pytest.fixture(params=["redis7", "redis810"])
def kind(request):
    """Whose redis-cli and redis-benchmark: the system's 7.0, and 8.10."""
    return request.param


@pytest.fixture
def cli(server, kind):
    """`cli(words...)` runs redis-cli to its end and gives what it printed."""
    program = require_program("redis-cli", kind)

    def run(*words, stdin: bytes | None = None, place=("-p", server.port), status=0) -> str:
        done = subprocess.run(
            [program, *map(str, (*place, *words))],
            **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
            capture_output=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return done.stdout.decode()

    return run


class Terminal:
    """A program in a terminal of its own; `screen` is everything it wrote."""

    def __init__(self, *words) -> None:
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm", "HOME": "/nonexistent", "REDISCLI_HISTFILE": "/dev/null"})
            # Of size 0 the terminal would be asked where its cursor is, and there is no answer.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.execvp(words[0], list(map(str, words)))

    def type(self, text: str) -> None:
        os.write(self.fd, text.replace("\n", "\r").encode())  # what the Enter key sends

    def wait_for(self, pattern: str) -> re.Match[str]:
        until = time.monotonic() + DEADLINE
        while not (found := re.search(pattern, self.screen, re.DOTALL)):
            assert time.monotonic() < until, f"{pattern!r} never came:\n{self.screen}"
            ready, _, _ = select.select([self.fd], [], [], 0.05)
            if ready:
                try:
                    self.screen += re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", os.read(self.fd, 65536).decode())
                except OSError:
                    raise AssertionError(f"ended before {pattern!r} came:\n{self.screen}") from None
        self.screen = self.screen[found.end() :]
        return found

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(server, kind):
    program = require_program("redis-cli", kind)
    opened = []

    def start(*words):
        opened.append(Terminal(program, "-p", server.port, *words))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def fill(server, entries=20):
    with server.wire() as wire:
        for number in range(entries):
            wire.call("XADD", "big", f"{number + 1}-0", "field", "x" * 10)
        wire.call("XADD", "small", "1-0", "a", "b")
        wire.call("SET", "text", "v" * 50)


# One command


def test_every_kind_of_reply_is_printed(server, cli):
    fill(server, 2)
    assert cli("--no-raw", "XLEN", "big") == "(integer) 2\n"
    assert cli("--no-raw", "XRANGE", "small", "-", "+") == '1) 1) "1-0"\n   2) 1) "a"\n      2) "b"\n'
    assert cli("--no-raw", "GET", "none") == "(nil)\n"
    assert cli("--no-raw", "XREAD", "STREAMS", "none", "0") == "(nil)\n"
    assert cli("--no-raw", "XLEN", "text").startswith("(error) WRONGTYPE")
    assert cli("XRANGE", "small", "-", "+") == "1-0\na\nb\n"
    assert cli("--csv", "XRANGE", "small", "-", "+") == '"1-0","a","b"\n'
    assert cli("--json", "XRANGE", "small", "-", "+") == '[["1-0",["a","b"]]]\n'
    assert cli("-n", "3", "DBSIZE") == "0\n"


def test_resp3_gives_maps(server, cli):
    fill(server, 1)
    assert cli("-3", "--no-raw", "XREAD", "STREAMS", "small", "0") == (
        '1# "small" => \n   1) 1) "1-0"\n      2) 1) "a"\n         2) "b"\n'
    )
    assert cli("-3", "--json", "CONFIG", "GET", "databases") == '{"databases":"16"}\n'
    assert cli("-3", "--no-raw", "HELLO").startswith('1# "server" => "redis"\n')


def test_a_repeated_command_and_a_file_of_commands(server, cli):
    assert cli("-r", 3, "INCR", "n") == "1\n2\n3\n"
    assert cli(stdin=b'XADD s 1-1 "a field" value\nXLEN s\nXLEN\n').splitlines()[:2] == ["1-1", "1"]
    assert cli("-x", "SET", "k", stdin=b"from stdin") == "OK\n"
    assert cli("GET", "k") == "from stdin\n"


def test_a_password_is_given(tmp_path, cli):
    with LiveServer(requirepass="secret", unixsocket=tmp_path / "sock") as server:
        for place in (["-p", server.port], ["-s", tmp_path / "sock"]):
            for flags in (["-a", "secret"], ["--user", "default", "--pass", "secret", "-3"]):
                assert cli("--no-auth-warning", *flags, "PING", place=place) == "PONG\n"


# Whole-database modes


def test_pipe_inserts_in_mass(server, cli):
    data = b"".join(encode_command("XADD", "s", f"{number}-1", "n", number) for number in range(1, 20_001))
    output = cli("--pipe", stdin=data)
    assert "errors: 0, replies: 20000" in output
    assert cli("XLEN", "s") == "20000\n"


def test_pipe_counts_errors(cli):
    data = encode_command("XADD", "s", "0-0", "a", "b") + encode_command("SET", "k", "v")
    assert "errors: 1, replies: 2" in cli("--pipe", stdin=data, status=1)


def test_scan_walks_all_keys(server, cli):
    fill(server)
    assert sorted(cli("--scan").split()) == ["big", "small", "text"]
    assert cli("--scan", "--pattern", "s*").split() == ["small"]


def test_bigkeys_finds_the_biggest_stream(server, cli):
    fill(server)
    output = cli("--bigkeys")
    assert "Sampled 3 keys in the keyspace!" in output
    assert re.search(r"""Biggest stream found '?"big"'? has 20 entries""", output)
    assert re.search(r"""Biggest string found '?"text"'? has 50 bytes""", output)


def test_memkeys_finds_what_takes_most(server, cli):
    fill(server)
    output = cli("--memkeys")
    assert re.search(r"""Biggest stream found '?"big"'? has \d+ bytes""", output)


@pytest.mark.parametrize("kind", ["redis810"])  # --keystats came with 8.0
def test_keystats_weighs_and_counts(server, cli):
    fill(server)
    output = cli("--keystats")
    assert "Keys sampled: 3" in output
    assert re.search(r'stream +"big" has 20 entries', output)


def test_stat_prints_figures(server, terminal):
    fill(server)
    screen = terminal("--stat", "-i", "0.01")
    screen.wait_for(r"keys +mem +clients +blocked +requests +connections")
    for _ in range(3):
        screen.wait_for(r"\n3 +[\d.]+[BKM] +\d+ +0 +\d+ \(\+\d+\) +\d+")


def test_latency_modes_measure(server, cli, terminal):
    assert re.match(r"[\d.]+ [\d.]+ \d+\.\d+ \d+\n", cli("--latency", "--raw", "-i", "0.1"))
    screen = terminal("--latency-history", "-i", "0.1")
    screen.wait_for(r"min: [\d.]+, max: [\d.]+, avg: \d+\.\d+ \(\d+ samples\) -- 0\.\d+ seconds range")


# Interactive

# A prompt that waits for a line; while one is typed it is written again and again, but not at the start of a line.
# What is typed before it comes is thrown away by redis-cli.
PROMPT = r"(?:^|\n)\r?127\.0\.0\.1:\d+(\[\d+\])?(\(TX\))?> "


def test_interactive_hints_and_help(terminal):
    screen = terminal()
    screen.wait_for(PROMPT)
    screen.type("xclaim ")
    screen.wait_for(r"key group consumer min-idle-time id \[id \.\.\.\]")
    screen.type("\x15help XCLAIM\n")
    help_text = screen.wait_for(r"\n\s*XCLAIM key group consumer min-idle-time id.*?since: (\d\.\d\.\d)")
    assert help_text[1] == "5.0.0"
    assert "[FORCE]" in help_text[0]
    screen.wait_for(PROMPT)
    screen.type("help @stream\n")
    screen.wait_for(r"XACK .*XADD .*XAUTOCLAIM .*XCLAIM .*XREADGROUP .*XTRIM ")
    screen.wait_for(PROMPT)
    screen.type("xgroup create s g $ mkstream\n")
    screen.wait_for("OK")
    screen.wait_for(PROMPT)
    screen.type("xinfo stream none\n")
    screen.wait_for(r"\(error\) ERR no such key")
    screen.wait_for(PROMPT)
    screen.type("xgr\t")
    screen.wait_for("XGROUP")


def test_interactive_transactions_and_databases_show_in_the_prompt(terminal):
    screen = terminal()
    for line, reply, database, transaction in (
        ("select 2", "OK", None, None),
        ("multi", "OK", "[2]", None),
        ("set k v", "QUEUED", "[2]", "(TX)"),
        ("exec", r"1\) OK", "[2]", "(TX)"),
        ("reset", "RESET", "[2]", None),
        ("ping", "PONG", None, None),
    ):
        assert screen.wait_for(PROMPT).groups() == (database, transaction)
        screen.type(f"{line}\n")
        screen.wait_for(reply)


def test_subscribed_mode_shows_messages(server, terminal):
    for subscribers, flags in enumerate(([], ["-3"]), 1):
        screen = terminal(*flags)
        screen.wait_for(PROMPT)
        screen.type("subscribe news\n")
        screen.wait_for(r'"subscribe".*"news".*\(integer\) 1')
        with server.wire() as wire:
            assert wire.call("PUBLISH", "news", "hello").plain() == subscribers
        screen.wait_for(r'"message".*"news".*"hello"')


def test_monitor_shows_what_others_do(server, terminal):
    screen = terminal("MONITOR")
    screen.wait_for("OK")
    with server.wire() as wire:
        wire.call("XADD", "s", "1-1", "a", "b\n")
    screen.wait_for(r'\d{10}\.\d{6} \[0 127\.0\.0\.1:\d+\] "XADD" "s" "1-1" "a" "b\\n"')


# redis-benchmark


@pytest.fixture
def benchmark(server, kind):
    program = require_program("redis-benchmark", kind)

    def run(*words) -> list[str]:
        """The lines of its CSV without the header: a name and requests per second each."""
        done = run_program(program, "-p", server.port, "--csv", "-n", "2000", "-c", "20", *words)
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stdout + done.stderr
        return [line.split(",")[0].strip('"') for line in done.stdout.splitlines()[1:]]

    return run


def test_benchmark_runs_its_own_tests(benchmark, server):
    names = benchmark("-t", "ping,set,get,incr")
    assert [name.split()[0] for name in names] == ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"]
    assert benchmark("-t", "ping,set", "-P", "16", "-3")
    # It leaves a key behind whose name it made up.
    with server.wire() as wire:
        assert wire.call("DBSIZE").plain() >= 1


def test_benchmark_runs_stream_commands(benchmark, server):
    assert len(benchmark("-r", "1000", "XADD", "s", "*", "field", "__rand_int__")) == 1
    assert len(benchmark("-P", "16", "XADD", "s", "*", "field", "value")) == 1
    with server.wire() as wire:
        assert wire.call("XLEN", "s").plain() >= 4000
        wire.call("XGROUP", "CREATE", "s", "g", "0")
    assert len(benchmark("XRANGE", "s", "-", "+", "COUNT", "10")) == 1
    assert len(benchmark("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")) == 1
    with server.wire() as wire:
        assert wire.call("XPENDING", "s", "g").plain()[0] >= 2000


# Everything at once


def test_two_modes_side_by_side_do_not_disturb_each_other(server, cli, terminal):
    screen = terminal("--stat", "-i", "0.01")
    workers = [threading.Thread(target=cli, args=("-r", "200", "XADD", "s", "*", "a", "b")) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    eventually(lambda: cli("XLEN", "s") == "600\n")
    screen.wait_for(r"\n1 +[\d.]+[BKM] +")
