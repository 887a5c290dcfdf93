"""The server's life as a process: start, signals, SHUTDOWN, files, log, command line."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.live import DEADLINE, eventually
from support.servers import require_binary
from support.wire import ConnectionClosedError, Wire

VERSION = r"Redis server v={} sha=[0-9a-f]{{8}}:\d malloc=\S+ bits=64 build=\w+ \(Rillet \d+\.\d+\.\d+\S*\)"
# Redis' own shape: pid, role, time with milliseconds, mark.
LINE = re.compile(r"^(\d+):M \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} [.\-*#] .+$")


def run_rillet(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What the command line does that ends by itself."""
    command = [sys.executable, "-m", "rillet", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)


def is_closed(wire: Wire) -> bool:
    try:
        wire.read()
    except (ConnectionClosedError, ConnectionError):
        return True
    return False


# The end


ENDS = [signal.SIGTERM, signal.SIGINT, "SHUTDOWN", "SHUTDOWN NOSAVE NOW FORCE", "SHUTDOWN SAVE"]


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_an_orderly_end(launch, tmp_path, end):
    """Blocked clients are released, the AOF is complete, files of a living server are gone, the status is 0."""
    unix, pidfile = tmp_path / "sock", tmp_path / "pid"
    process = launch("--port", 0, "--appendonly", "yes", "--unixsocket", unix, "--pidfile", pidfile).ready()
    assert pidfile.read_text() == f"{process.popen.pid}\n"
    with process.wire() as wire, process.wire() as blocked, process.wire() as subscriber:
        subscriber.call("SUBSCRIBE", "c")
        blocked.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        for number in range(100):
            wire.send("SET", f"k{number}", "v")
        wire.send("PING")
        replies = [wire.read().value for _ in range(101)]
        assert replies[-1] == b"PONG"
        if isinstance(end, str):
            wire.send(*end.split())
        else:
            process.popen.send_signal(end)
        assert all(is_closed(each) for each in (wire, blocked, subscriber))
    assert process.wait() == 0
    assert not unix.exists()
    assert not pidfile.exists()
    assert "bye bye" in process.output
    assert "Traceback" not in process.output
    again = launch("--port", 0, "--appendonly", "yes", folder=process.folder).ready()
    with again.wire() as wire:
        assert wire.call("DBSIZE").plain() == 100


SLOW_DISK = """
import sys, time
from rillet.storage import files
def slow(fd):
    print("syncing", flush=True)
    time.sleep(600)
class Slow(files.FileOperations):
    def __init__(self):
        super().__init__(fdatasync=slow)
files.FileOperations = Slow  # before anybody imports it from there
from rillet.__main__ import main
sys.exit(main())
"""


def test_a_second_signal_forces_the_end(launch):
    process = launch("--port", 0, "--appendonly", "yes", "--appendfsync", "no", program=SLOW_DISK).ready()
    with process.wire() as wire:
        wire.call("SET", "k", "v")
        process.popen.send_signal(signal.SIGTERM)
        eventually(lambda: "scheduling shutdown" in process.output)
        eventually(lambda: "syncing" in process.output)
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 1
    assert "You insist... exiting now." in process.output


# Where it listens


def test_a_start_on_a_port_in_use_says_so_and_leaves_the_files_of_the_running_server(launch, tmp_path):
    unix, pidfile = tmp_path / "sock", tmp_path / "pid"
    flags = ("--unixsocket", unix, "--pidfile", pidfile, "--bind", "127.0.0.1")
    first = launch("--port", 0, *flags).ready()
    second = launch("--port", first.port, *flags)
    assert second.wait() == 1
    assert f"Warning: Could not create server TCP listening socket 127.0.0.1:{first.port}:" in second.output
    assert f"Failed listening on port {first.port} (tcp), aborting." in second.output
    assert "Traceback" not in second.output
    assert pidfile.read_text() == f"{first.popen.pid}\n"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(unix))
        sock.sendall(b"PING\r\n")
        assert sock.recv(100) == b"+PONG\r\n"


def test_port_0_takes_a_free_port_and_says_which(launch):
    process = launch("--port", 0).ready()
    with process.wire() as wire:
        port = str(process.port).encode()
        assert wire.call("CONFIG", "GET", "port").plain() == [b"port", port]
        assert b"tcp_port:" + port in wire.call("INFO", "server").value


def test_a_unix_socket_serves_with_its_permissions(launch, tmp_path):
    unix = tmp_path / "sock"
    unix.write_text("left behind by a server that was killed")
    process = launch("--port", 0, "--unixsocket", unix, "--unixsocketperm", "700").ready()
    assert oct(unix.stat().st_mode & 0o777) == "0o700"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(DEADLINE)
        sock.connect(str(unix))
        sock.sendall(b"CLIENT INFO\r\n")
        text = sock.recv(4096).decode()
        assert f"addr={unix}:0" in text
        assert " flags=U " in text
    assert process.popen.poll() is None


def test_a_unix_socket_that_cannot_be_made_ends_the_start(launch, tmp_path):
    process = launch("--port", 0, "--unixsocket", tmp_path / "none" / "sock")
    assert process.wait() == 1
    assert "Failed opening Unix socket: bind:" in process.output
    assert "Traceback" not in process.output


def test_a_pidfile_that_cannot_be_written_is_only_a_warning(launch, tmp_path):
    process = launch("--port", 0, "--pidfile", tmp_path / "none" / "pid").ready()
    assert "Failed to write PID file" in process.output


# What it says


def test_the_log_has_the_shape_of_redis(launch):
    process = launch("--port", 0).ready()
    lines = [line for line in process.output.splitlines() if line and not line.startswith(" ")]
    assert len(lines) >= 4
    for line in lines:
        match = LINE.match(line)
        assert match, line
        assert int(match[1]) == process.popen.pid
    assert any("Server initialized" in line for line in lines)
    assert lines[-1].endswith("* Ready to accept connections tcp")


def test_a_logfile_takes_everything(launch, tmp_path):
    log = tmp_path / "log"
    process = launch("--port", 0, "--logfile", log)
    eventually(lambda: log.exists() and "Ready to accept connections" in log.read_text())
    log.rename(tmp_path / "rotated")
    process.popen.terminate()
    assert process.wait() == 0
    assert "bye bye" in log.read_text(), "the file is opened again for each line, so it can be rotated"
    assert process.output == ""


def test_a_closed_log_pipe_does_not_end_the_server(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rillet", "--port", "0", "--dir", tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "Ready to accept" in line:
                break
        process.stdout.close()
        port = int(re.search(r"port=(\d+)", "".join(seen))[1])
        with Wire(port) as wire:
            wire.call("CONFIG", "SET", "loglevel", "debug")
            wire.send("DEBUG", "LOG", "x")
            wire.read()
            assert wire.call("PING").value == b"PONG"
    finally:
        process.terminate()
        assert process.wait(DEADLINE) == 0


# How it is configured


def test_a_config_file_and_flags_on_top_of_it(launch, tmp_path):
    file = tmp_path / "redis.conf"
    file.write_text('# a comment\nport 0\nmaxmemory 100mb\nslowlog-max-len 5\nrequirepass "a b"\n')
    process = launch(file, "--slowlog-max-len", "7").ready()
    with process.wire() as wire:
        assert wire.call("AUTH", "a b").value == b"OK"
        assert wire.call("CONFIG", "GET", "maxmemory").plain() == [b"maxmemory", b"104857600"]
        assert wire.call("CONFIG", "GET", "slowlog-max-len").plain() == [b"slowlog-max-len", b"7"]
        assert f"config_file:{file}".encode() in wire.call("INFO", "server").value


def test_an_error_in_a_config_file_names_its_line(launch, tmp_path):
    file = tmp_path / "redis.conf"
    file.write_text("port 0\n\nnonsense yes\n")
    process = launch(file)
    assert process.wait() == 1
    assert "FATAL CONFIG FILE ERROR" in process.output
    assert ">>> 'nonsense yes'" in process.output
    assert "at line 3" in process.output
    assert "Traceback" not in process.output


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--version"], rf"{VERSION.format('8.10.2')}\n"),
        (["-v"], rf"{VERSION.format('8.10.2')}\n"),
        (["--version", "--compat-version", "7.0"], rf"{VERSION.format('7.0.15')}\n"),
        (["--help"], r"Usage: rillet [\s\S]+"),
        (["-h"], r"Usage: rillet [\s\S]+"),
    ],
)
def test_the_version_and_the_help_start_nothing(words, printed, tmp_path):
    done = run_rillet(*words, folder=tmp_path)
    assert (done.returncode, bool(re.fullmatch(printed, done.stdout)), done.stderr) == (0, True, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "compat"), [("redis7", "7.0"), ("redis810", "8.10")])
def test_the_version_line_has_the_shape_and_the_version_of_redis_server(kind, compat, tmp_path):
    real = subprocess.run(
        [require_binary(kind), "--version"], capture_output=True, text=True, check=True
    ).stdout
    ours = run_rillet("--version", "--compat-version", compat, folder=tmp_path).stdout
    shapes = [re.sub(r"(?<=(sha|loc|ild)=)\S+", "…", line) for line in (real, ours)]
    assert shapes[0].strip() == shapes[1].partition(" (Rillet")[0]


def test_the_version_is_printed_without_the_data_types_and_the_server():
    print_it = "import sys, runpy; sys.argv = ['rillet', '--version']; runpy.run_module('rillet', run_name='__main__')"
    shown = f"import atexit, sys; atexit.register(lambda: print(*sys.modules)); {print_it}"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert not {"rillet.storage.value_types", "rillet.server.server"} & set(done.stdout.split())


def test_a_version_that_is_unknown_is_an_error(tmp_path):
    done = run_rillet("--version", "--compat-version", "6.2", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "must be one of the following: 7.0" in done.stderr
