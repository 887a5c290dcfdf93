"""Configurations that redis-server starts with: Rillet starts the same, in the same folders, or refuses as it does."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from support import needs
from support.ports import free_port
from support.servers import find_binary, peers_folder, require_binary
from support.until import until
from support.wire import ConnectionClosedError, Wire

USERS = "user default on nopass ~* &* +@all\nuser z on nopass +@read\n"
SUB = {"sub/file": "", "sub/u.acl": USERS}
# Names, files (PORT stands for the port), words of the command line, commands to ask.
STARTS = {
    "relative files lie in dir, which comes last": (
        {"r.conf": "port PORT\nlogfile y.log\npidfile x.pid\naclfile u.acl\nunixsocket s.sock\ndir sub\n", **SUB},
        ["r.conf"],
        ["CONFIG GET logfile", "CONFIG GET pidfile", "CONFIG GET unixsocket", "ACL USERS", "ACL SAVE"],
    ),
    "relative files lie in dir, which comes first": (
        {"r.conf": "dir sub\nport PORT\naclfile u.acl\nlogfile y.log\n", **SUB},
        ["r.conf"],
        ["ACL USERS"],
    ),
    "dir is a flag": (
        {"r.conf": "port PORT\naclfile u.acl\nlogfile y.log\n", **SUB},
        ["r.conf", "--dir", "sub"],
        ["ACL USERS"],
    ),
    "an include after dir lies there": (
        {"r.conf": "port PORT\ndir sub\ninclude m.conf\n", "sub/m.conf": "maxmemory 5mb\n"},
        ["r.conf"],
        ["CONFIG GET maxmemory"],
    ),
    "an include before dir lies beside": (
        {"r.conf": "port PORT\ninclude m.conf\ndir sub\n", "m.conf": "maxmemory 5mb\n", **SUB},
        ["r.conf"],
        ["CONFIG GET maxmemory"],
    ),
    "globs are read in order, and may match nothing": (
        {
            "r.conf": "port PORT\ninclude inc/*.conf\ninclude none*.conf\n",
            "inc/b.conf": "maxmemory 2mb\n",
            "inc/a.conf": "maxmemory 1mb\nmaxclients 77\n",
        },
        ["r.conf"],
        ["CONFIG GET maxmemory", "CONFIG GET maxclients"],
    ),
    "includes are flags": (
        {"r.conf": "port PORT\n", "x.conf": "maxmemory 3mb\n", "y.conf": "maxclients 33\n"},
        ["r.conf", "--include", "x.conf", "--include", "y*.conf"],
        ["CONFIG GET maxmemory", "CONFIG GET maxclients"],
    ),
    "an include that is missing": ({"r.conf": "port PORT\ninclude x.conf\n"}, ["r.conf"], []),
    "an include without a name": ({"r.conf": "port PORT\ninclude\n"}, ["r.conf"], []),
    "a log in no folder": ({"r.conf": "port PORT\nlogfile no/y.log\n"}, ["r.conf"], []),
    "a dir that is missing": ({"r.conf": "port PORT\ndir no\n"}, ["r.conf"], []),
    "an aclfile that is missing": ({"r.conf": "port PORT\naclfile u.acl\ndir sub\n", "sub/x": ""}, ["r.conf"], []),
    "commands renamed and taken away": (
        {
            "r.conf": 'port PORT\nrename-command FLUSHALL nuke\nrename-command CONFIG ""\nrename-command get GeT2\n'
            "rename-command xgroup XG\nrename-command eval e\n"
        },
        ["r.conf"],
        [
            "FLUSHALL", "NUKE", "nuke", "CONFIG GET port", "CONFIG", "GET a", "SET a 1", "GET2 a", "get2", "XG",
            "XG CREATE s g $ MKSTREAM", "xg create", "XG FOO", "XGROUP CREATE s h $", "COMMAND INFO get",
            "COMMAND GETKEYS get2 a", "COMMAND GETKEYS get a", "COMMAND DOCS get", "ACL SETUSER y +get2",
            "ACL SETUSER y +get -flushall +config|get", "ACL DRYRUN default nuke", "ACL DRYRUN default flushall",
            "EVAL return(1) 0", "E return(redis.call('get2','a')) 0", "E return(redis.call('get','a')) 0",
            "MULTI", "GET a", "EXEC", "MULTI", "GET2 a", "EXEC", "COMMAND INFO config", "LATENCY HISTOGRAM get",
        ],
    ),
    "names that pass from one to another": (
        {"r.conf": "port PORT\nrename-command get g2\nrename-command g2 g3\nrename-command set get\n"},
        ["r.conf"],
        ["G3 a", "G2 a", "GET a b", "G3 a", "SET a b"],
    ),
    "a command that is renamed to itself": (
        {"r.conf": "port PORT\nrename-command get GET\n"},
        ["r.conf"],
        ["GET a", "COMMAND INFO get"],
    ),
    "a rename of no command": ({"r.conf": "port PORT\nrename-command nope x\n"}, ["r.conf"], []),
    "a rename to a name that is taken": ({"r.conf": "port PORT\nrename-command get set\n"}, ["r.conf"], []),
    "a rename without a name": ({"r.conf": "port PORT\nrename-command get\n"}, ["r.conf"], []),
    "a rename of what was taken away": (
        {"r.conf": 'port PORT\nrename-command get ""\nrename-command get x\n'},
        ["r.conf"],
        [],
    ),
    "users have Redis' own names": (
        {"r.conf": "port PORT\nuser x on +nuke\nrename-command flushall nuke\n"},
        ["r.conf"],
        [],
    ),
    "a daemon with a pidfile": (
        {"r.conf": "port PORT\ndaemonize yes\npidfile x.pid\nlogfile y.log\ndir sub\n", **SUB},
        ["r.conf"],
        ["CONFIG GET daemonize", "CONFIG GET pidfile"],
    ),
    "a daemon from standard input": ({}, ["-"], ["CONFIG GET pidfile"]),
    "a supervised server without a supervisor": (
        {"r.conf": "port PORT\nsupervised systemd\n"},
        ["r.conf"],
        ["CONFIG GET supervised"],
    ),
}  # fmt: skip
STDIN = "port PORT\ndaemonize yes\npidfile p.pid\nlogfile y.log\n"


class Started:
    """A server that was started in a folder of its own: whether it serves, and the first process' status if it left."""

    def __init__(
        self, kind: str, folder: Path, files: dict[str, str], words: list[str], **environment: str
    ) -> None:
        self.folder, self.port = folder, free_port()
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.replace("PORT", str(self.port)))
        (folder / "in").write_text(STDIN.replace("PORT", str(self.port)))
        with (folder / "in").open("rb") as given, (folder / "out").open("wb") as said:
            self.process = subprocess.Popen(
                [require_binary(kind), *(word.replace("PORT", str(self.port)) for word in words)],
                cwd=folder,
                stdin=given,
                stdout=said,
                stderr=said,
                env={**os.environ, **environment},
            )
        until(lambda: self.serves() or self.process.poll() not in (None, 0), seconds=120)
        self.is_up = self.serves()
        if self.is_up and (words == ["-"] or "daemonize yes" in files.get("r.conf", "")) and not environment:
            self.process.wait(60)

    def serves(self) -> bool:
        with contextlib.suppress(OSError, ConnectionClosedError), Wire(self.port, timeout=10) as wire:
            return wire.call("PING") is not None
        return False

    def files(self) -> list[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if not path.is_dir())
        return sorted(
            str(path) for path in found if path.name not in {"in", "out", "rillet.lock", "dump.rdb"}
        )

    def stop(self) -> None:
        with contextlib.suppress(OSError, ConnectionClosedError), Wire(self.port, timeout=60) as wire:
            wire.call("SHUTDOWN", "NOSAVE")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        until(lambda: not self.serves())


def seen(
    kind: str, folder: Path, case: tuple[dict[str, str], list[str], list[str]], **environment: str
) -> dict[str, object]:
    folder.mkdir()
    files, words, commands = case
    server = Started(kind, folder, files, words, **environment)
    try:
        found: dict[str, object] = {"up": server.is_up, "status": server.process.poll()}
        if server.is_up:
            with Wire(server.port) as wire:
                found["replies"] = [(line, wire.call(*line.split(" ")).plain()) for line in commands]
            found["files"] = server.files()
            if server.process.poll() == 0:
                (pidfile,) = (server.folder / name for name in server.files() if name.endswith(".pid"))
                found["pid"] = _asks_pid(server) == int(pidfile.read_text())
    finally:
        server.stop()
    until(lambda: not [name for name in server.files() if name.endswith(".pid")])
    found["afterwards"] = server.files()
    return found


def _asks_pid(server: Started) -> int:
    with Wire(server.port) as wire:
        text = wire.call("INFO", "server").plain()
    return int(str(text).partition("process_id:")[2].split("\\r")[0])


@pytest.mark.parametrize("name", STARTS)
def test_a_configuration_starts_as_with_redis_server(name, tmp_path):
    real = seen("redis810", tmp_path / "redis", STARTS[name])
    own = seen("rillet", tmp_path / "rillet", STARTS[name])
    if not real["up"]:
        assert (own["up"], own["status"]) == (False, 1), own
        return
    assert own == real


SHIPPED = {
    "Debian's": Path("/etc/redis/redis.conf"),
    "that of Redis 8.10": peers_folder() / "redis-8.10.2" / "redis.conf",
}


@pytest.mark.parametrize("whose", SHIPPED)
def test_a_file_that_others_ship_starts_unchanged(whose, tmp_path):
    if not SHIPPED[whose].exists():
        needs.leave_out("redis7" if whose == "Debian's" else "redis810")
    flags = [*"--port PORT --logfile l.log --pidfile p.pid --daemonize yes --dir".split(), str(tmp_path)]
    server = Started("rillet", tmp_path, {}, [str(SHIPPED[whose]), *flags])
    try:
        assert server.is_up
        assert server.process.wait(60) == 0
        assert (tmp_path / "p.pid").exists()
        assert " # " not in (tmp_path / "l.log").read_text()
    finally:
        server.stop()


def test_a_daemon_that_fails_says_why_and_ends_with_an_error(tmp_path):
    """redis-server has left by then, with status 0."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--bind", "127.0.0.1", "--daemonize", "yes", "--dir", str(tmp_path), "--port", str(port)]
        done = subprocess.run(
            [require_binary("rillet"), *words], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert (
        f"Could not create server TCP listening socket 127.0.0.1:{port}: bind: Address already in use"
        in done.stderr
    )
    assert not list(tmp_path.glob("*.pid"))


def test_a_daemon_is_there_when_its_starter_ends(tmp_path):
    port = free_port()
    words = ["--port", str(port), "--daemonize", "yes", "--dir", str(tmp_path), "--pidfile", "p.pid"]
    subprocess.run([require_binary("rillet"), *words], timeout=120, check=True)
    with Wire(port) as wire:
        assert wire.call("PING").plain() == b"PONG"
        pid = int((tmp_path / "p.pid").read_text())
        assert os.getsid(pid) == pid
        wire.send("SHUTDOWN", "NOSAVE")
    until(lambda: not (tmp_path / "p.pid").exists())


def test_without_fork_a_daemon_is_refused_in_one_line(monkeypatch, capsys):
    from rillet.server import supervisor
    from rillet.server.config.config import Config
    from rillet.storage import system

    monkeypatch.setattr(system, "HERE", system.Windows())
    assert supervisor.Launch(Config(daemonize=True)).status == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("daemonize", ["no", "yes"])
@pytest.mark.parametrize("mode", ["systemd", "auto", "no"])
def test_systemd_is_notified(mode, daemonize, tmp_path):
    """A supervised process stays in the foreground, whatever ``daemonize`` says."""
    if mode == "no" and daemonize == "yes":
        pytest.skip("a plain daemon")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(60)
        text = f"port PORT\nsupervised {mode}\ndaemonize {daemonize}\n"
        server = Started(
            "rillet", tmp_path, {"r.conf": text}, ["r.conf"], NOTIFY_SOCKET=str(tmp_path / "notify")
        )
        try:
            assert server.process.poll() is None
            with Wire(server.port) as wire:
                supervised = "no" if mode == "no" else "systemd"
                assert f"process_supervised:{supervised}" in str(wire.call("INFO", "server").plain())
        finally:
            server.stop()
        sock.setblocking(False)
        said = b""
        with contextlib.suppress(BlockingIOError):
            while True:
                said += sock.recv(4096)
    wanted = [
        b"STATUS=Rillet is loading...",
        b"STATUS=Ready to accept connections",
        b"READY=1",
        b"STOPPING=1",
    ]
    assert said.splitlines() == ([] if mode == "no" else wanted)


MOVES = [
    "CONFIG SET bind 127.0.0.1", "CONFIG GET bind", "CONFIG SET port TAKEN", "CONFIG GET port", "CONFIG SET port OTHER",
    "CONFIG SET bind 203.0.113.4", "CONFIG SET bind -203.0.113.4", "CONFIG GET bind", "CONFIG SET bind 127.0.0.1",
    "CONFIG SET port 0", "CONFIG SET port PORT bind *", "CONFIG SET port -1", "CONFIG SET port 99999",
    "CONFIG SET port TAKEN maxmemory 5mb", "CONFIG GET maxmemory", "CONFIG SET maxmemory 6mb port OTHER", "PING",
]  # fmt: skip


def moved(kind: str, folder: Path) -> list[object]:
    """What each change of the address answers, and which of two ports is open afterwards."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = Started(kind, folder, {}, ["--port", "PORT"])
        other = free_port()
        ports = {"TAKEN": taken.getsockname()[1], "OTHER": other, "PORT": server.port}
        found: list[object] = []
        try:
            with Wire(server.port) as wire:
                for line in MOVES:
                    words = [str(ports.get(word, word)) for word in line.split(" ")]
                    reply = str(wire.call(*words).plain())
                    for name, port in ports.items():
                        reply = reply.replace(str(port), name)
                    found.append((line, reply, *(_is_open(port) for port in (server.port, other))))
                wire.send("SHUTDOWN", "NOSAVE")
        finally:
            server.process.terminate()
            server.process.wait()
    return found


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 60):
        return True
    return False


def test_port_and_bind_change_while_clients_stay(tmp_path):
    assert moved("rillet", tmp_path / "rillet") == moved("redis810", tmp_path / "redis")


HIDDEN = (
    "aof-disable-auto-gc", "cluster-ping-interval", "cluster-slot-migration-sync-buffer-drain-timeout",
    "cluster-slot-migration-max-archived-tasks", "key-load-delay", "lazyexpire-nested-arbitrary-keys",
    "loading-process-events-interval-bytes", "lua-enable-deprecated-api", "prefetch-batch-max-size",
    "rdb-key-save-delay", "repl-rdb-channel", "use-exit-on-panic", "watchdog-period",
)  # fmt: skip
VALUES = ("0", "1", "-1", "yes", "no", "x", "99999999999999999999", "129")


@pytest.mark.parametrize(("real", "own"), [("redis810", "rillet"), ("redis7", "rillet-7.0")])
def test_hidden_settings_are_known_as_redis_server_knows_them(real, own, running):
    """Found by asking redis-server for every name among its own texts."""

    def answers(kind: str) -> list[object]:
        with running(kind).wire() as wire:
            # Its default is that of 8.10 in both.
            same = [
                name for name in HIDDEN if name != "loading-process-events-interval-bytes" or real != "redis7"
            ]
            asked = [wire.call("CONFIG", "GET", name).plain() for name in same]
            tried = [
                (name, value, wire.call("CONFIG", "SET", name, value).plain())
                for name in HIDDEN
                for value in VALUES
            ]
            return [
                asked,
                tried,
                [name for name in HIDDEN if name in str(wire.call("CONFIG", "GET", "*").plain())],
            ]

    assert answers(own) == answers(real)


def test_the_log_moves_with_dir(tmp_path):
    """redis-server opens it in its folder for each line."""
    logs = {}
    for kind in ("rillet", "redis810"):
        if find_binary(kind) is None:
            needs.leave_out(kind)
        folder = tmp_path / kind
        (folder / "b").mkdir(parents=True)
        text = "port PORT\nlogfile l.log\nenable-protected-configs yes\nloglevel verbose\n"
        server = Started(kind, folder, {"r.conf": text}, ["r.conf"])
        try:
            with Wire(server.port) as wire:
                assert wire.call("CONFIG", "SET", "dir", "b").plain() == b"OK"
                wire.call("CONFIG", "SET", "dir", "no")
        finally:
            server.stop()
        logs[kind] = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.log"))
        shutil.rmtree(folder)
    assert logs["rillet"] == logs["redis810"] == ["b/l.log", "l.log"]


def test_an_append_only_file_with_redis_own_names_is_loaded_where_they_are_renamed(tmp_path):
    """redis-server refuses it, and so what it has written itself before the setting came."""
    renamed = "rename-command xadd xa\nrename-command xgroup xg\n"
    for number, names in enumerate(("", renamed, renamed)):
        text = f"port PORT\nappendonly yes\n{names}"
        server = Started("rillet", tmp_path, {"r.conf": text}, ["r.conf"])
        try:
            assert server.is_up, (tmp_path / "out").read_text()
            with Wire(server.port) as wire:
                assert wire.call("XLEN", "s").plain() == number
                wire.call("XA" if names else "XADD", "s", "*", "a", "b")
                wire.call("XG" if names else "XGROUP", "CREATE", "s", f"g{number}", "$")
        finally:
            server.stop()
