"""Ends of servers at random moments of a rewrite, a full synchronization or a failover, while clients write.

A writer counts: each command adds the next number to a key of its own. So a server must have 1 … n, without a hole and
without a number twice, and n lies between the last number that was acknowledged and the last one that was sent.

`python -m support.ends rewrites 200 7`: the ends by fork, which need a process of their own.
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

from support import until as waiting
from support.servers import ServerProcess, start_server
from support.wire import ConnectionClosedError, Node, Wire, encode_command

from rillet.testing import Server
from rillet.testing.process import StopError

WRITERS = ("list", "stream", "unit")
POLICIES = ("always", "everysec", "no")
# A file of the keys below takes some 50 ms, so that most ends come in the midst of it.
FLAGS = {
    "appendonly": "yes", "save": "", "rdb-key-save-delay": "2500", "auto-aof-rewrite-percentage": "0",
    "repl-diskless-sync-delay": "0", "enable-debug-command": "yes",
}  # fmt: skip
FILLERS = [word for number in range(20) for word in (f"filler{number}", "v")]
REFUSED = ("READONLY", "LOADING", "MASTERDOWN", "UNBLOCKED", "EXECABORT")


# Servers


class Process(ServerProcess):
    """A server that is killed or terminated, and comes back at its port."""

    ends = ("kill", "TERM")

    def __init__(self, kind: str) -> None:
        super().__init__(kind, *(word for name, value in FLAGS.items() for word in (f"--{name}", value)))

    def end(self, how: str) -> None:
        process = self._process
        assert process is not None
        if how == "kill":
            process.kill()
            process.wait()
            return
        # An end that would lose the first file is refused as long as it is written.
        while process.poll() is None:
            before = len(self.log)
            process.terminate()
            until(
                lambda before=before: (
                    process.poll() is not None or "Errors trying to shut down" in self.log[before:]
                )
            )

    def come_back(self) -> None:
        self.start(self.port)


class Held:
    """A server of a test, which is restarted, or whose process forks."""

    ends = ("restart", "fork")

    def __init__(self, *, process: bool) -> None:
        self.kind = "rillet"
        self.dir = Path(tempfile.mkdtemp(prefix="rillet-held-"))
        directives = {name.replace("-", "_"): value for name, value in FLAGS.items()}
        self.server = Server(process=process, transport="tcp", dir=str(self.dir), **directives).start()

    @property
    def port(self) -> int:
        return self.server.port

    def wire(self) -> Wire:
        return Wire(self.port)

    def end(self, how: str) -> None:
        if how == "restart":
            self.server.restart()
            return
        child = os.fork()
        if not child:
            signal.alarm(60)
            with contextlib.suppress(StopError):
                chance.choice([self.server.stop, self.server.restart, lambda: None])()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    def come_back(self) -> None:
        """It has."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        shutil.rmtree(self.dir)


chance = random.Random()
# Seldom: each look costs a server a connection and an INFO.
until = partial(waiting.until, every=0.02)
Party = Process | Held


def party(kind: str, how: str) -> Party:
    return Process(kind) if kind != "rillet" or how in Process.ends else Held(process=chance.random() < 0.5)


def info(server: Party, *fields: str) -> list[str]:
    with server.wire() as wire:
        text = wire.call("INFO", "everything").value.decode()
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return [found.get(field, "") for field in fields]


def call(server: Party, *words: str | int) -> object:
    def answered() -> Node | None:
        with server.wire() as wire:
            reply = wire.call(*words)
        return None if reply.value.startswith(b"LOADING") else reply

    reply = until(answered)
    assert reply.kind != "-", (words, str(reply))
    return reply.plain()


# Writers


class Writer(threading.Thread):
    """Counts at the first of these servers that takes writes, until its connection is gone.

    Attributes:
        acknowledged: by port, the last number that this server has acknowledged.
        confirmed: by the name of the command (WAIT, WAITAOF), the last number before one that succeeded.
    """

    def __init__(
        self, name: str, key: str, servers: list[Party], *confirmations: tuple[str | int, ...]
    ) -> None:
        super().__init__(daemon=True)
        self.what, self.key = name, f"{key}:{name}"
        self.sent = 0
        self.acknowledged: Counter[int] = Counter()
        self.confirmed: Counter[str] = Counter()
        self.enough = threading.Event()
        self.failure: BaseException | None = None
        self._ports = [server.port for server in servers]
        self._confirmations = confirmations
        self._wire = Wire(self._ports[0])

    @property
    def last(self) -> int:
        return max(self.acknowledged.values(), default=0)

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                if self._count():
                    self._confirm()
                else:
                    self._move()
        except (OSError, ConnectionClosedError):
            pass
        except BaseException as error:  # noqa: BLE001 - finish raises it
            self.failure = error
        self._wire.close()

    def finish(self) -> None:
        self.enough.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def _count(self) -> bool:
        number = self.sent + 1
        commands = {
            "list": [("RPUSH", self.key, number)],
            "stream": [("XADD", self.key, "*", "n", number)],
            "unit": [("MULTI",), ("RPUSH", self.key, number), ("INCR", self.key + ":n"), ("EXEC",)],
        }[self.what]
        self.sent = number
        self._wire.send_raw(b"".join(encode_command(*words) for words in commands))
        reply = [self._wire.read() for _ in commands][-1]
        if reply.kind == "-":
            assert reply.value.decode().startswith(REFUSED), str(reply)
            self.sent -= 1
            return False
        self.acknowledged[self._ports[0]] = number
        return True

    def _confirm(self) -> None:
        if self._confirmations and self.sent % 4 == 0:
            words = self._confirmations[self.sent // 4 % len(self._confirmations)]
            reply = self._wire.call(*words)
            counts = [reply, *(reply.children or ())][-len(words[1:-1]) :]
            if all(
                each.kind == ":" and int(each.header) >= wanted
                for each, wanted in zip(counts, words[1:-1], strict=True)
            ):
                self.confirmed[str(words[0])] = self.sent

    def _move(self) -> None:
        """Go to the next server; one that is not there is passed over."""
        self._wire.close()
        self._ports.append(self._ports.pop(0))
        with contextlib.suppress(OSError):
            self._wire = Wire(self._ports[0])


@contextlib.contextmanager
def writing(servers: list[Party], key: str, *confirmations: tuple[str | int, ...]) -> Iterator[list[Writer]]:
    """Writers of every kind at the first server, once each has counted; they are stopped at the end."""
    writers = [Writer(name, key, servers, *confirmations) for name in WRITERS]
    for writer in writers:
        writer.start()
    until(lambda: all(writer.last >= 3 or not writer.is_alive() for writer in writers))
    try:
        yield writers
    finally:
        for writer in writers:
            writer.finish()


def counted(server: Party, writer: Writer) -> int:
    """How far a server has counted; fails where a number is missing or there twice."""
    read = ("XRANGE", writer.key, "-", "+") if writer.what == "stream" else ("LRANGE", writer.key, 0, -1)

    def look() -> object:
        with server.wire() as wire:
            replies = [
                wire.call(*words) for words in (("MULTI",), read, ("GET", writer.key + ":n"), ("EXEC",))
            ]
        assert replies[-1].kind == "*" or "LOADING" in str(replies), str(replies)
        return replies[-1].plain() if replies[-1].kind == "*" else None

    values, number = until(look)
    numbers = [int(value[1][1] if writer.what == "stream" else value) for value in values]
    assert numbers == [*range(1, len(numbers) + 1)], (server.kind, writer.key, numbers)
    assert int(number or 0) == (len(numbers) if writer.what == "unit" else 0)
    return len(numbers)


def check(server: Party, writers: list[Writer], least: Callable[[Writer], int]) -> None:
    """Fail unless the server has all that it must have, and nothing that was not sent."""
    for writer in writers:
        number = counted(server, writer)
        assert least(writer) <= number <= writer.sent, (
            f"{server.kind} at {server.port}: {writer.key} counts to {number}, sent {writer.sent}, "
            f"acknowledged {dict(writer.acknowledged)}, confirmed {dict(writer.confirmed)}"
        )


# Rounds: each gives whether the end came in the midst of it


def rewrites(server: Party, how: str, key: str) -> bool:
    """An end in a rewrite, or while the first file is written after CONFIG SET appendonly yes."""
    way = chance.choice(["first", "asked", "automatic"])
    with server.wire() as wire:
        wire.call("FLUSHALL")
        wire.call("MSET", *FILLERS)
        wire.call("CONFIG", "SET", "appendfsync", chance.choice(POLICIES))
        wire.call("CONFIG", "SET", "aof-use-rdb-preamble", chance.choice(["yes", "no"]))
        if way == "first":
            wire.call("CONFIG", "SET", "appendonly", "no")
            shutil.rmtree(server.dir / "appendonlydir")
    with writing([server], key, ("WAITAOF", 1, 0, 20)) as writers:
        if way == "first":
            call(server, "CONFIG", "SET", "appendonly", "yes")
        elif way == "asked":
            call(server, "BGREWRITEAOF")
        else:
            call(server, "CONFIG", "SET", "auto-aof-rewrite-min-size", 1, "auto-aof-rewrite-percentage", 1)
        time.sleep(chance.uniform(0, 0.08))
        [midst] = info(server, "aof_rewrite_in_progress")
        server.end(how)
    # Before the first file is whole, what is acknowledged is in memory alone; WAITAOF says when it no longer is.
    in_memory = way == "first" and how == "kill"
    least = (lambda writer: writer.confirmed["WAITAOF"]) if in_memory else (lambda writer: writer.last)
    if how in Process.ends and (server.dir / "appendonlydir" / "appendonly.aof.manifest").exists():
        with tempfile.TemporaryDirectory() as folder:  # another server reads the same
            shutil.copytree(server.dir / "appendonlydir", Path(folder) / "appendonlydir")
            with start_server("redis810", "--appendonly", "yes", folder=Path(folder)) as other:
                check(other, writers, least)
    server.come_back()
    check(server, writers, least)
    if how == "fork":
        call(server, "CONFIG", "SET", "auto-aof-rewrite-percentage", 0)
        server.end("restart")
        check(server, writers, least)
    return midst == "1"


def full_syncs(master: Party, replica: Party, how: str, key: str) -> bool:
    """An end of the master or of the replica in a full synchronization."""
    ends = choose(master, replica, how)
    call(replica, "REPLICAOF", "NO", "ONE")
    for server in (master, replica):
        call(server, "CONFIG", "SET", "repl-diskless-sync", chance.choice(["yes", "no"]))
        call(
            server,
            "CONFIG",
            "SET",
            "repl-diskless-load",
            chance.choice(["disabled", "on-empty-db", "swapdb"]),
        )
    call(master, "FLUSHALL")
    call(master, "MSET", *FILLERS)
    with writing([master], key, ("WAIT", 1, 20), ("WAITAOF", 1, 1, 20)) as writers:
        call(replica, "REPLICAOF", "127.0.0.1", master.port)
        time.sleep(chance.uniform(0, 0.12))
        [midst] = info(replica, "master_link_status")
        ends.end(how)
    if ends is master and how != "fork":
        check(replica, writers, lambda writer: max(writer.confirmed.values(), default=0))
    ends.come_back()
    check(master, writers, lambda writer: writer.last)
    if ends is replica:
        # A replica's file begins with each full synchronization: what WAIT confirms is in memory until it is written.
        check(replica, writers, lambda writer: writer.confirmed["WAITAOF"])
    if chance.random() < 0.8:  # else its link comes up by itself, after up to a second
        call(replica, "REPLICAOF", "NO", "ONE")
    agree(master, replica, writers)
    return midst == "down"


def failovers(master: Party, replica: Party, how: str, key: str) -> bool:
    """An end of the old or of the new master in a failover."""
    ends = choose(master, replica, how)
    for server in (master, replica):
        call(server, "REPLICAOF", "NO", "ONE")
        call(server, "CONFIG", "SET", "rdb-key-save-delay", 0)
    call(master, "FLUSHALL")
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    until(
        lambda: "state=online" in info(master, "slave0")[0] and info(replica, "master_link_status") == ["up"]
    )
    until(lambda: info(replica, "aof_rewrite_in_progress", "aof_rewrite_scheduled") == ["0", "0"])
    with writing([master, replica], key, ("WAIT", 1, 20)) as writers:
        stopped = replica.pid if isinstance(replica, Process) and chance.random() < 0.5 else 0
        if stopped:  # so that it lacks what is written meanwhile
            os.kill(stopped, signal.SIGSTOP)
        try:
            call(master, "FAILOVER", *chance.choice([(), ("TO", "127.0.0.1", replica.port)]))
            time.sleep(chance.uniform(0, 0.02))
        finally:
            if stopped:
                os.kill(stopped, signal.SIGCONT)
        time.sleep(chance.choice([0, 0.02]) * chance.random())
        [midst] = info(master, "master_failover_state")
        if ends is replica or how == "restart":  # nobody is to write to the one that comes back alone
            for writer in writers:
                writer.enough.set()
        ends.end(how)
        time.sleep(chance.uniform(0, 0.01))
        if how == "fork":
            until(lambda: info(master, "master_failover_state", "role") == ["no-failover", "slave"])
        elif ends is replica:
            with master.wire() as wire:
                wire.call("FAILOVER", "ABORT")  # it is over now and then
    [role] = info(replica if ends is master else master, "role")
    promoted = how == "fork" or (role == ("master" if ends is master else "slave"))
    promoted = promoted or any(writer.acknowledged[replica.port] for writer in writers)
    leader, other = (replica, master) if promoted else (master, replica)
    ends.come_back()
    if how != "fork":
        check(ends, writers, lambda writer: max(writer.acknowledged[ends.port], writer.confirmed["WAIT"]))
        call(leader, "REPLICAOF", "NO", "ONE")
        call(other, "REPLICAOF", "NO", "ONE")
    check(leader, writers, lambda writer: writer.last)
    agree(leader, other, writers)
    return midst != "no-failover"


def choose(master: Party, replica: Party, how: str) -> Party:
    """Whose end it is: mostly Rillet's."""
    able = [server for server in (master, replica) if how in server.ends]
    return chance.choice([server for server in able for _ in range(3 if server.kind == "rillet" else 1)])


def agree(master: Party, replica: Party, writers: list[Writer]) -> None:
    """Fail unless a replica comes to have what its master has."""
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    until(lambda: info(replica, "master_link_status") == ["up"])
    until(lambda: info(replica, "slave_repl_offset") == info(master, "master_repl_offset"))
    for writer in writers:
        assert counted(replica, writer) == counted(master, writer)


THEMES: dict[str, Callable[..., bool]] = {
    "rewrites": rewrites,
    "full syncs": full_syncs,
    "failovers": failovers,
}
PAIRS = [("rillet", "rillet"), ("rillet", "redis810"), ("redis810", "rillet")]


def play(theme: str, how: str, times: int, seed: int) -> str:
    """Rounds of one kind; says how many ends came in the midst of it."""
    begun = time.monotonic()
    midst = 0
    chance.seed(f"{seed} {theme} {how}")
    kinds = [("rillet",)] if theme == "rewrites" else chance.sample(PAIRS, len(PAIRS))
    for place, each in enumerate(kinds[:times]):
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(party(kind, how)) for kind in each]
            for number in range(place, times, len(kinds)):
                try:
                    midst += THEMES[theme](*servers, how, str(number))
                except BaseException as error:
                    kept = Path(tempfile.mkdtemp(prefix="rillet-end-failed-"))
                    for server in servers:
                        shutil.copytree(server.dir, kept / str(server.port))
                    error.add_note(f"{theme}, {how}, {each}, {seed=}, round {number}; files in {kept}")
                    raise
    return f"{theme}, {how}: {times} rounds, {midst} of them in the midst, {time.monotonic() - begun:.0f} s, {seed=}"


if __name__ == "__main__":
    print(play(sys.argv[1], "fork", int(sys.argv[2]), int(sys.argv[3])))  # noqa: T201 - a program
