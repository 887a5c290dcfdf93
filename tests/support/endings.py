"""Ends of a server while something is under way: what it answers, whether it ends, and what the next start has."""

import contextlib
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from support.deployments.replication import FakeReplica
from support.servers import ServerProcess, start_server
from support.until import until
from support.wire import ConnectionClosedError, Wire

KEYS = 20
SLOW, QUICK = ("CONFIG", "SET", "rdb-key-save-delay", "150000"), ("CONFIG", "SET", "rdb-key-save-delay", "0")
LEAST = KEYS * 0.15  # seconds for which a slow child writes
TRIES = 3
# What the log of either server says of an end.
LINES = (
    "Writing initial AOF, can't exit", "Writing initial AOF. Exit anyway", "There is a child saving an .rdb",
    "There is a child rewriting the AOF", "Saving the final RDB", "DB saved on disk",
    "Error trying to save the DB, can't exit", "Error trying to save the DB. Exit anyway",
    "Calling fsync() on the AOF file", "replicas are in sync when shutting down",
    "Waiting for replicas before shutting down", "Errors trying to shut down the server", "ready to exit, bye bye",
)  # fmt: skip


@dataclass(frozen=True)
class Ending:
    """What one end was like."""

    reply: str
    status: int | None  # None: the server lives
    said: tuple[str, ...]
    kept: int  # keys of the next start

    def __str__(self) -> str:
        end = "stays" if self.status is None else f"ends with {self.status}"
        return f"{self.reply or 'no reply'}; {end}; {self.kept} keys; {' | '.join(self.said)}"


def fill(wire: Wire) -> None:
    for number in range(KEYS):
        wire.call("SET", f"k{number}", "v")


def info(wire: Wire, name: str) -> str:
    found = re.search(rf"^{name}:(.*)\r$", wire.call("INFO", "everything").value.decode(), re.MULTILINE)
    return found[1] if found else ""


def _begin(wire: Wire, field: str, *words: str) -> float:
    wire.call(*SLOW)
    begun = time.monotonic()
    wire.call(*words)
    until(lambda: info(wire, field) == "1" or not is_under_way(begun))
    wire.call(*QUICK)
    return begun


def is_under_way(begun: float | None) -> bool:
    """Whether a child that began at that time, or later, is writing for certain, however long the machine paused."""
    return begun is None or time.monotonic() - begun < LEAST


# What is under way, once some keys are there; each yields when its child began


def nothing(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    yield None


def first_file(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    begun = _begin(wire, "aof_rewrite_in_progress", "CONFIG", "SET", "appendonly", "yes")
    wire.call("SET", "behind", "v")
    yield begun


def first_file_behind_a_save(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    begun = _begin(wire, "rdb_bgsave_in_progress", "BGSAVE")
    wire.call("CONFIG", "SET", "appendonly", "yes")
    until(lambda: info(wire, "aof_rewrite_scheduled") == "1" or not is_under_way(begun))
    yield begun


def rewrite(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    begun = _begin(wire, "aof_rewrite_in_progress", "BGREWRITEAOF")
    wire.call("SET", "behind", "v")
    yield begun


def save(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    begun = _begin(wire, "rdb_bgsave_in_progress", "BGSAVE")
    wire.call("SET", "behind", "v")
    yield begun


def failed_save(server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    """No file can take the place of a folder."""
    (server.dir / "dump.rdb").mkdir()
    (server.dir / "dump.rdb" / "x").touch()
    wire.call("BGSAVE")
    until(lambda: info(wire, "rdb_last_bgsave_status") == "err")
    yield None
    (server.dir / "dump.rdb" / "x").unlink()
    (server.dir / "dump.rdb").rmdir()


def full_sync(server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    wire.call(*SLOW)
    with FakeReplica(server, "psync2", "eof") as replica:
        begun = time.monotonic()
        replica.send("PSYNC", "?", "-1")
        until(
            lambda: (
                "state=send_bulk" in info(wire, "slave0")
                or info(wire, "rdb_bgsave_in_progress") == "1"
                or not is_under_way(begun)
            )
        )
        wire.call(*QUICK)
        yield begun


def lagging_replica(server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    """It has all, and has acknowledged nothing."""
    with FakeReplica(server, "psync2", "eof") as replica:
        replica.full_sync()
        replica.send("REPLCONF", "ACK", "0")
        until(lambda: "state=online" in info(wire, "slave0"))
        fill(wire)
        yield None


def mute_master(_server: ServerProcess, wire: Wire) -> Iterator[float | None]:
    """REPLICAOF of a port that accepts and says nothing: the data is still that of before."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        wire.call("REPLICAOF", "127.0.0.1", str(mute.getsockname()[1]))
        yield None


AOF, POINTS = ("--appendonly", "yes"), ("--save", "3600 1000000")
Begin = Callable[[ServerProcess, Wire], Iterator[float | None]]


def _filled(begin: Begin) -> Callable[[ServerProcess, Wire], AbstractContextManager[float | None]]:
    @contextlib.contextmanager
    def filled(server: ServerProcess, wire: Wire) -> Iterator[float | None]:
        fill(wire)
        yield from begin(server, wire)

    return filled


_UNDER_WAY: dict[str, tuple[Begin, tuple[str, ...]]] = {
    "nothing": (nothing, ()),
    "nothing, with save points": (nothing, POINTS),
    "nothing, with a file": (nothing, AOF),
    "the first file": (first_file, ()),
    "the first file, with save points": (first_file, POINTS),
    "the first file behind a save": (first_file_behind_a_save, ()),
    "the first file behind a save, with save points": (first_file_behind_a_save, POINTS),
    "a rewrite": (rewrite, AOF),
    "a rewrite without a file": (rewrite, ()),
    "a save": (save, ()),
    "a save, with save points": (save, POINTS),
    "a save that failed": (failed_save, ()),
    "a save that failed, with save points": (failed_save, POINTS),
    "a full sync": (full_sync, AOF),
    "a full sync, with save points": (full_sync, POINTS),
    "a replica that lags": (lagging_replica, AOF),
    "a master that is silent": (mute_master, AOF),
    "a master that is silent, with save points": (mute_master, POINTS),
}
UNDER_WAY = {name: (_filled(begin), flags) for name, (begin, flags) in _UNDER_WAY.items()}
ENDS = (
    "TERM",
    "INT",
    *(
        f"{name} {words}"
        for name in ("TERM", "INT")
        for words in ("save", "nosave", "now", "force", "save force")
    ),
    "SHUTDOWN",
    *(
        f"SHUTDOWN {words}"
        for words in (
            "NOSAVE", "SAVE", "NOW", "FORCE", "NOSAVE FORCE", "SAVE FORCE", "NOSAVE NOW FORCE", "ABORT",
        )
    ),
    "MULTI SHUTDOWN",
    "MULTI SHUTDOWN NOW",
)  # fmt: skip


def end_with(kind: str, way: str, end: str, policy: str) -> Ending:
    """End one server while that is under way, and start it again."""
    for _ in range(TRIES):
        ending, was_under_way = _end_once(kind, way, end, policy)
        if was_under_way:
            break
    return ending


def _end_once(kind: str, way: str, end: str, policy: str) -> tuple[Ending, bool]:
    begin, flags = UNDER_WAY[way]
    flags = (*flags, "--appendfsync", policy, "--shutdown-timeout", "1")
    with start_server(kind, *flags) as server, server.wire() as wire, server.wire() as other:
        with begin(server, wire) as begun:
            on = info(wire, "aof_enabled") == "1"
            reply, status, said, was_under_way = _end(server, wire, other, end, begun)
        if status is None:
            settle(wire)
            server._process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
            server._process.wait(30)  # type: ignore[union-attr]
        server.flags = (*flags, "--appendonly", "yes" if on else "no")
        server.start()
        with server.wire() as after:
            return Ending(reply, status, said, int(str(after.call("DBSIZE").plain()))), was_under_way


def settle(wire: Wire) -> None:
    """Wait until nothing is written any more, and nothing is scheduled: one reply says so, as one begins where another ends."""
    busy = re.compile(
        r"^(aof_rewrite_in_progress|aof_rewrite_scheduled|rdb_bgsave_in_progress):1\r$", re.MULTILINE
    )
    until(lambda: not busy.search(wire.call("INFO", "persistence").value.decode()))


def _end(
    server: ServerProcess, wire: Wire, other: Wire, end: str, begun: float | None
) -> tuple[str, int | None, tuple[str, ...], bool]:
    """Ask a server to end: its reply, its status, lines of its log, and whether that was decided in the middle for certain."""
    name, _, words = end.partition(" ")
    before = len(server.log)
    process = server._process
    assert process is not None
    reply = ""
    if name in {"TERM", "INT"}:
        if words:
            wire.call("CONFIG", "SET", f"shutdown-on-sig{name.lower()}", words)
        process.send_signal(signal.SIGTERM if name == "TERM" else signal.SIGINT)
        until(lambda: process.poll() is not None or "Errors trying to shut down" in server.log[before:], 30)
    else:
        with contextlib.suppress(ConnectionClosedError, ConnectionError):
            if name == "MULTI":
                wire.call("MULTI")
                wire.call(*words.split())
                reply = str(wire.call("EXEC"))
            else:
                reply = str(wire.call(*end.split()))
    was_under_way = is_under_way(begun)
    if not reply:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20 if name not in {"TERM", "INT"} else 0.3)
    log = server.log[before:]
    places = sorted((log.index(line), line) for line in LINES if line in log)
    return reply, process.poll(), tuple(line for _, line in places), was_under_way
