"""Which commands a server runs, refuses or holds in a state: a pause, a stale replica, while it loads …

Each command goes through a connection of its own, so that one state serves all. What a command does is proved
elsewhere: a reply that says nothing about the state is `ran`.
"""

import contextlib
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from differential.anything import BEGINNING, Maker
from support.servers import ServerProcess, start_server
from support.wire import ConnectionClosedError, Node, Wire, encode_command

from rillet.commands.spec.command import REGISTRY

Words = list[str]

# Words that pass the arity and change nothing, for commands that would end or change the server, or wait.
HARMLESS: dict[str, str] = {
    "shutdown": "x", "replicaof": "a b", "slaveof": "a b", "failover": "x", "client|kill": "x y z", "client|pause": "x",
    "client|reply": "x", "debug": "x", "config|set": "nosuch 1", "migrate": "h x k 0 0 x", "acl|setuser": "u nosuch",
    "acl|deluser": "nosuch", "blpop": "l 0.01", "brpop": "l 0.01", "blmove": "l l2 LEFT LEFT 0.01",
    "brpoplpush": "l l2 0.01", "blmpop": "0.01 1 l LEFT", "bzpopmin": "z 0.01", "bzpopmax": "z 0.01",
    "bzmpop": "0.01 1 z MIN", "blmovem": "l l2 LEFT LEFT 0.01", "xread": "STREAMS s 0", "wait": "0 1", "waitaof": "0 0 1",
    "xreadgroup": "GROUP g alice STREAMS s 0", "hello": "", "auth": "x y", "reset": "", "quit": "", "monitor": "",
    "eval": "return_1 0", "script|load": "return_1", "script|flush": "x", "function|flush": "x", "function|load": "x",
    "function|restore": "x", "acl|load": "", "acl|save": "", "select": "0", "swapdb": "0 0", "psync": "? x", "sort": "l",
    "subscribe": "c", "psubscribe": "c", "ssubscribe": "c", "restore": "k 0 x", "restore-asking": "k 0 x", "replconf": "x y",
    "config|rewrite": "", "config|resetstat": "", "script|kill": "", "function|kill": "", "client|unblock": "0",
    "client|tracking": "x", "publish": "c m", "spublish": "c m", "evalsha": "x 0", "fcall": "f 0", "fcall_ro": "f 0",
    "eval_ro": "return_1 0", "evalsha_ro": "x 0", "pfcount": "p", "pfadd": "p z", "client|caching": "yes",
}  # fmt: skip
# What starts what would still run in the next state, or ends the state.
LEFT_OUT = {"sync", "save", "bgsave", "bgrewriteaof", "client|unpause", "pfselftest", "himport|set"}
ABOUT_STATES = (
    "NOAUTH", "NOPERM", "READONLY", "MASTERDOWN", "LOADING", "BUSY", "EXECABORT", "MISCONF", "NOREPLICAS", "OOM",
    "ERR Can't execute", "ERR Command not allowed inside", "ERR This Redis command is not allowed", "ERR Write commands",
    "ERR Can not execute", "ERR DEBUG", "ERR MODULE", "ERR Script attempted",
)  # fmt: skip
HELD = "held"

SCRIPTS = {
    "plain": "return 1",
    "that reads": "return redis.call('get','k')",
    "that writes": "return redis.call('set','k','v')",
    "without flags": "#!lua\nreturn 1",
    "that writes without flags": "#!lua\nreturn redis.call('set','k','v')",
    **{
        f"with {flag}": f"#!lua flags={flag}\nreturn 1"
        for flag in ("no-writes", "allow-oom", "allow-stale", "no-writes,allow-stale", "no-cluster")
    },
    "that reads with allow-stale": "#!lua flags=allow-stale\nreturn redis.call('get','k')",
    "that reads with both": "#!lua flags=allow-stale,no-writes\nreturn redis.call('get','k')",
    "that echoes with allow-stale": "#!lua flags=allow-stale\nreturn redis.call('echo','k')",
}
LIBRARY = "#!lua name=l\n" + "\n".join(
    f"redis.register_function{{function_name='f{number}', callback=function() {body.splitlines()[-1]} end"
    f"{', flags={' + _flags + '}' if (_flags := ','.join(repr(flag) for flag in body.partition('flags=')[2].splitlines()[0].split(',')) if 'flags=' in body else '') else ''}}}"
    for number, body in enumerate(SCRIPTS.values())
)


@cache
def commands(version: str) -> list[Words]:
    """One command of each record, and scripts and functions with each flag."""
    limit = tuple(map(int, version.split(".")))
    maker = Maker(11, version, newer_options=version == "8.10")
    maker.random = random.Random(11)
    maker._spoil = lambda words: words  # type: ignore[method-assign]
    out: list[Words] = []
    for name, record in REGISTRY.items():
        if (
            not record.is_served
            or record.ours
            or name in LEFT_OUT
            or (name.startswith("cluster|") and name != "cluster|info")
            or tuple(map(int, record.since.split(".")))[:2] > limit
        ):
            continue
        words = maker.of(record)
        if name in HARMLESS:
            words = [*name.split("|"), *HARMLESS[name].split()]
        out.append([word.replace("return_1", "return 1") for word in words])
    for number, body in enumerate(SCRIPTS.values()):
        out += [
            ["EVAL", body, "0"], ["EVAL_RO", body, "0"], ["FCALL", f"f{number}", "0"], ["FCALL_RO", f"f{number}", "0"],
        ]  # fmt: skip
    return out


def verdict(reply: Node) -> str:
    """What a reply says about the state."""
    if reply.kind == "+" and reply.value == b"QUEUED":
        return "queued"
    text = reply.value.decode("latin-1") if reply.kind == "-" else ""
    return text if text.startswith(ABOUT_STATES) else "ran"


def fill(server: ServerProcess) -> None:
    """Give a server data, functions and a script."""
    with server.wire() as wire:
        for words in BEGINNING:
            wire.call(*words)
        wire.call("FUNCTION", "LOAD", LIBRARY)


def ask(wires: list[Wire], lines: list[Words], before: list[Words] = []) -> list[str]:  # noqa: B006 - never changed
    """Send each command through its own connection behind others; returns the verdicts, `HELD` where nothing comes."""
    for wire, words in zip(wires, lines, strict=True):
        wire.send_raw(b"".join(encode_command(*each) for each in (*before, words)))
    out = []
    for wire in wires:
        try:
            for _ in before:
                wire.read()
            out.append(verdict(wire.read()))
        except ConnectionClosedError:
            out.append("closed")
    return out


@contextmanager
def connected(server: ServerProcess, number: int) -> Iterator[list[Wire]]:
    """So many connections."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(server.wire()) for _ in range(number)]


def _be_accepted(wires: list[Wire]) -> None:
    """Wait until the server has taken all connections: what is sent on one that waits is not read yet."""
    for wire in wires:
        assert wire.call("PING").kind == "+"


def _held(control: Wire, wires: list[Wire], lines: list[Words]) -> list[str]:
    """Which commands are held: those whose client has no reply although all was read.

    An unknown command is refused in each pause, in a turn of its own, and each turn reads all that has come.
    """
    for wire, words in zip(wires, lines, strict=True):
        wire.send(*words)
    for _ in range(20):
        assert control.call("NOSUCH").kind == "-"
    out = []
    for wire in wires:
        got = wire.pending()
        out.append(HELD if not got and not wire.is_over() else verdict(wire.read()) if got else "closed")
    return out


# The states


@dataclass(frozen=True)
class State:
    """What comes before the commands.

    Attributes:
        flags: of the server.
        first: what another client sends before these connect.
        each: what each client sends first.
        script: calls the commands, or nothing does.
        is_queued: the commands wait in MULTI for `then`, and EXEC is judged.
        then: what the other client sends once these have connected. A pause holds some of their commands.
    """

    flags: tuple[str, ...] = ()
    first: tuple[Words, ...] = ()
    each: tuple[Words, ...] = ()
    script: str = ""
    is_queued: bool = False
    then: tuple[Words, ...] = ()

    def verdicts(self, kind: str, lines: list[Words]) -> list[str]:
        with start_server(kind, *self.flags) as server, server.wire() as control:
            fill(server)
            for words in self.first:
                control.call(*words)
            with connected(server, len(lines)) as wires:
                if self.script:
                    lines = [["EVAL", self.script, "0", *words] for words in lines]
                if self.is_queued:  # AUTH goes by auth-at-exec
                    ask(wires, [["PING"] if words[0] == "auth" else words for words in lines], [["MULTI"]])
                    lines = [["EXEC"]] * len(lines)
                pauses = any("PAUSE" in words for words in self.then)
                if pauses and not self.is_queued:
                    _be_accepted(wires)
                for words in self.then:
                    control.call(*words)
                return _held(control, wires, lines) if pauses else ask(wires, lines, list(self.each))


def _follow_nobody(serves: str) -> tuple[Words, ...]:
    return ["CONFIG", "SET", "replica-serve-stale-data", serves], ["REPLICAOF", "127.0.0.1", "1"]


CALL = "return redis.pcall(unpack(ARGV))"
PAUSE = ["CLIENT", "PAUSE", "10000000"]
STATES: dict[str, Callable[[str, list[Words]], list[str]]] = {
    name: state.verdicts
    for name, state in {
        "plainly": State(),
        "queued": State(each=(["MULTI"],)),
        "subscribed": State(each=(["SUBSCRIBE", "c"],)),
        "without a password": State(first=(["CONFIG", "SET", "requirepass", "x"],)),
        "called by a script": State(script=CALL),
        "called by a script that must not write": State(script=f"#!lua flags=no-writes\n{CALL}"),
        "on a replica": State(first=_follow_nobody("yes")),
        "on a stale replica": State(first=_follow_nobody("no")),
        "queued before it was a stale replica": State(is_queued=True, then=_follow_nobody("no")),
        "queued before it was a replica": State(is_queued=True, then=_follow_nobody("yes")),
        "called on a stale replica": State(
            first=_follow_nobody("no"), script=f"#!lua flags=allow-stale\n{CALL}"
        ),
        "on a writable stale replica": State(("--replica-read-only", "no"), first=_follow_nobody("no")),
        "without replicas": State(first=(["CONFIG", "SET", "min-replicas-to-write", "1"],)),
        "in a pause": State(then=([*PAUSE, "WRITE"],)),
        "in a pause of all": State(then=([*PAUSE, "ALL"],)),
        "queued before a pause": State(is_queued=True, then=([*PAUSE, "WRITE"],)),
    }.items()
}


def while_busy(kind: str, lines: list[Words]) -> list[str]:
    return _while_busy(kind, lines, ["EVAL", "while true do end", "0"])


def while_function_runs(kind: str, lines: list[Words]) -> list[str]:
    return _while_busy(kind, lines, ["FCALL", "loop", "0"])


def _while_busy(kind: str, lines: list[Words], busy: Words) -> list[str]:
    with (
        start_server(kind, "--busy-reply-threshold", "5") as server,
        server.wire() as control,
        server.wire() as looping,
    ):
        fill(server)
        control.call(
            "FUNCTION",
            "LOAD",
            "#!lua name=loop\nredis.register_function('loop', function() while true do end end)",
        )
        ends = [busy[0] == "EVAL" and ["script", "kill"], busy[0] != "EVAL" and ["function", "kill"]]
        lines = [["PING"] if words[:2] in ends else words for words in lines]
        with connected(server, len(lines)) as wires:
            looping.send(*busy)
            while control.call("PING").kind != "-":
                time.sleep(0.005)
            out = ask(wires, lines)
        control.call("SCRIPT" if busy[0] == "EVAL" else "FUNCTION", "KILL")
        return out


class _Loading(ServerProcess):
    """A server that is used while it loads."""

    def _wait_until_it_answers(self, seconds: float = 60.0) -> bool:
        del seconds
        while True:
            with contextlib.suppress(OSError, ConnectionClosedError), self.wire() as wire:
                return wire.call("PING").value.startswith(b"LOADING")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
        super().stop()


def while_loading(kind: str, lines: list[Words]) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="rillet-loading-"))
    flags = ("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
    try:
        with start_server("redis7", folder=folder) as server, server.wire() as wire:
            for number in range(1500):
                wire.call("SET", f"key{number}", random.Random(number).randbytes(2000))
            wire.call("SAVE")
        with _Loading(kind, *flags, folder=folder) as server, connected(server, len(lines)) as wires:
            out = ask(wires, lines)
            with server.wire() as control:
                assert control.call("GET", "k").value.startswith(b"LOADING"), (
                    "it had loaded before all were asked"
                )
            return out
    finally:
        shutil.rmtree(folder, ignore_errors=True)


STATES |= {
    "while a script runs": while_busy,
    "while a function runs": while_function_runs,
    "while it loads": while_loading,
}
