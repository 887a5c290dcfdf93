"""Examples and error texts of commands, from the scripts that the tests compare with real servers.

Every simple case of ``tests/differential/scripts/`` is played on a server. What a command replies there is its example,
behind the steps that it needs; what it refuses is its error texts. A reply that is an error is no example. ``examples/``
has cases that are shown instead where there is one: ``server.script`` on the same server, ``files.script`` on one with a
configuration file and an ACL file, ``replica.script`` on a master (and ``R:`` its replica), ``cluster.script`` on a node
of a cluster (and ``R:`` its replica), where ``{node}``, ``{replica}`` and ``{other}`` stand for IDs of nodes.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rillet.testing
from rillet.commands.spec.command import REGISTRY
from rillet.server.families import load_all

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from support.programs.readme import running  # noqa: E402 - after the path is set
from support.script import IMPATIENCE, Case, Player, Step, parse_script, split_words  # noqa: E402
from support.until import until  # noqa: E402
from support.wire import Node, Wire  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    # The ports of connections, and what stands for names in braces.
    Scene = tuple[Mapping[str, int], Mapping[str, str]]

SCRIPTS = ROOT / "tests/differential/scripts"
EXAMPLES = Path(__file__).with_name("examples")
LONGEST = 2000  # characters of an example
LINES = 25  # of a reply
CALLERS = {"A": "", "B": "another client", "R": "replica"}  # who sends a step, by its connection

_REPLICA = "it turns the connection into that of a replica, and the reply has no end"
_MODULE = "Rillet has no modules, so it is always refused"
_NODE = "the nodes of a cluster are chosen when it is started, so it is always refused"
# Served commands whose page has no example, and why.
OURS = "it is a command of Rillet's own, which the scripts of all servers leave out"
WITHOUT = {
    "cluster|reset": _NODE,
    "cluster|set-config-epoch": _NODE,
    "cluster|syncslots": "nodes of Rillet do not send it, so it is always refused",
    "module|load": _MODULE,
    "module|loadex": _MODULE,
    "module|unload": _MODULE,
    "psync": _REPLICA,
    "shutdown": "there is no reply, the server ends",
    "sync": _REPLICA,
}


@dataclass
class Shown:
    """What the scripts show of one command: steps with their replies, and the texts of errors."""

    example: list[tuple[Step, str]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)  # by its text: a line that gets it

    @property
    def text(self) -> str:
        """The example as a session."""
        lines = ((f"{CALLERS[step.connection]}> {step.rest}", reply) for step, reply in self.example)
        return "\n".join(part for line in lines for part in line if part)


@cache
def shown() -> dict[str, Shown]:
    """Return the example of each command, by its name."""
    load_all()
    found: dict[str, Shown] = {name: Shown() for name in REGISTRY}
    with rillet.testing.Server(enable_debug_command="yes", busy_reply_threshold=1) as server:
        for case in written("server"):
            note(found, play(case, server.port))
        for name, scene in (("files", files), ("replica", replica), ("cluster", cluster)):
            for case in written(name):
                with scene() as (ports, names):
                    note(found, play(case, ports["A"], ports, names))
        others: dict[str, Shown] = {name: Shown(errors=each.errors) for name, each in found.items()}
        for path in sorted(SCRIPTS.rglob("*.script")):
            for case in filter(is_simple, parse_script(path)):
                note(others, play(case, server.port))
        play_wrong_counts(others, server.port)
        helps = [name.replace("|", " ").upper() for name in REGISTRY if name.endswith("|help")]
        for line in helps:
            note(others, play(one_step(line), server.port))
        for name, each in found.items():
            each.example = each.example or others[name].example
            if all(step.connection == "A" for step, _ in each.example):
                each.example = without_the_needless(each.example, server.port)
    return found


def written(name: str) -> Iterator[Case]:
    """Yield the cases of a script of ``examples/``; each step of one that is titled ``each alone: …`` is a case."""
    for case in parse_script(EXAMPLES / f"{name}.script"):
        if case.title.startswith("each alone: "):
            yield from (replace(case, steps=[step]) for step in case.steps)
        else:
            yield case


def one_step(line: str) -> Case:
    """Return a case of one command."""
    return Case("examples", line, 0, (2,), [Step(0, line, "A", ":", line)])


@contextmanager
def files() -> Iterator[Scene]:
    """Start a server with a configuration file and an ACL file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "users.acl").touch()
        Path(folder, "redis.conf").write_text('port 0\nsave ""\naclfile users.acl\n', encoding="utf-8")
        words = [sys.executable, "-m", "rillet", str(Path(folder, "redis.conf"))]
        with running(words, dict(os.environ), Path(folder)) as port:
            yield {"A": int(port)}, {}
            with Wire(int(port)) as wire:
                wire.send("SHUTDOWN", "NOSAVE")


@contextmanager
def replica() -> Iterator[Scene]:
    """Start a master, and a replica that has its data."""
    with (
        rillet.testing.Server(repl_diskless_sync_delay=0) as master,
        rillet.testing.Server(replicaof=("127.0.0.1", master.port)) as other,
        master.client() as client,
    ):
        until(lambda: client.info("replication").get("slave0", {}).get("state") == "online")
        yield {"A": master.port, "R": other.port}, {}


@contextmanager
def cluster() -> Iterator[Scene]:
    """Start a cluster of two shards, each with a replica."""
    with rillet.testing.Cluster(shards=2, replicas=1) as nodes:
        first, other = nodes.shards
        ports = {"A": first.master.port, "R": first.replicas[0].port}
        names = {"node": first.master.id, "replica": first.replicas[0].id, "other": other.master.id}
        yield ports, names | {"port": str(other.master.port)}


def play_wrong_counts(found: dict[str, Shown], port: int) -> None:
    """Note what each command replies to a word too few or too many."""
    for name, command in REGISTRY.items():
        words = name.upper().split("|")
        count = command.arity + 1 if command.arity > 0 else -command.arity - 1
        if not command.is_served or count < len(words):
            continue
        line = " ".join([*words, *("word" for _ in range(count - len(words)))])
        for step, reply in play(one_step(line), port):
            if reply is not None and reply.kind == "-":
                note(found, iter([(step, reply)]))


def is_simple(case: Case) -> bool:
    """Whether one client alone sends commands that have one reply each, at once."""
    words = {step.rest.partition(" ")[0].upper() for step in case.steps}
    return (
        2 in case.protocols
        and all(step.connection == "A" and step.verb == ":" for step in case.steps)
        and not words & {"SHUTDOWN", "MONITOR", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "SYNC", "PSYNC"}
    )


def play(
    case: Case,
    port: int,
    ports: Mapping[str, int] | None = None,
    names: Mapping[str, str] | None = None,
    patience: float = 5,
) -> Iterator[tuple[Step, Node | None]]:
    """Yield the steps of a case with their replies, as long as there are some; None for a reply that is awaited later.

    Args:
        case: is played.
        port: of the server.
        ports: those of other connections.
        names: what stands for names in braces.
        patience: the seconds after which a reply does not come.
    """
    player = Player(port, 2, ports, patience)
    try:
        for step in case.steps:
            filled = step
            for name, value in (names or {}).items():
                filled = replace(filled, rest=filled.rest.replace(f"{{{name}}}", value))
            if step.verb == "wait":
                assert player.wait(step.rest), step
            elif step.verb == ">":
                assert not list(player.take(filled)), step
                yield filled, None
            for reply in player.take(filled) if step.verb == ":" else ():
                if not isinstance(reply, Node):
                    return
                yield filled, reply
    finally:
        player.close()


def note(found: dict[str, Shown], played: Iterator[tuple[Step, Node | None]]) -> None:
    """Keep the errors of a case, and its beginnings that are better examples than those known."""
    before: list[tuple[Step, str]] = []
    for step, reply in played:
        name = name_of(split_words(step.rest))
        if reply is not None and reply.kind == "-":
            if name is not None:
                found[name].errors.setdefault(reply.value.decode(errors="replace"), step.rest)
            continue
        before.append((step, shortened(formatted(reply))))
        if (
            before[-1][1] not in {"", "QUEUED"}
            and name is not None
            and (not found[name].example or cost(before) < cost(found[name].example))
        ):
            found[name].example = list(before)


def name_of(words: list[bytes]) -> str | None:
    """Return the name under which the registry has a command line, or None."""
    name = words[0].decode(errors="replace").lower()
    longer = f"{name}|{words[1].decode(errors='replace').lower()}" if len(words) > 1 else name
    return longer if longer in REGISTRY else name if name in REGISTRY else None


def cost(steps: list[tuple[Step, str]]) -> tuple[bool, bool, int]:
    """Compare examples: the shorter one that replies something, and that is no longer than a page."""
    last = steps[-1][1]
    length = sum(len(step.rest) + len(reply) for step, reply in steps)
    return length > LONGEST, last in {"(nil)", "(integer) 0"} or "(empty array)" in last, length


def without_the_needless(example: list[tuple[Step, str]], port: int) -> list[tuple[Step, str]]:
    """Return an example without the steps that its last reply does not depend on."""
    if len(example) < 2:
        return example
    played = replayed([step for step, _ in example], port)
    if played is None:
        return example  # the server's own numbers are in the steps
    varies = played[-1][1] != example[-1][1]  # times and numbers of clients

    def lasting(reply: str) -> str:
        return re.sub(r"\d+", "0", reply) if varies else reply

    def attempt(kept: list[tuple[Step, str]]) -> bool:
        nonlocal example
        shorter = replayed([step for step, _ in kept], port)
        if shorter is None or lasting(shorter[-1][1]) != lasting(example[-1][1]):
            return False
        example = shorter
        return True

    *others, last = example
    if attempt([last]) or not attempt([*(each for each in others if not only_reads(each[0])), last]):
        others = example[:-1]
    for at in range(len(example) - 2, -1, -1):
        attempt([*example[:at], *example[at + 1 :]])
    return example


def replayed(steps: list[Step], port: int) -> list[tuple[Step, str]] | None:
    """Return steps with their replies on an empty server, or None if one is an error or has no reply."""
    # Without a step before it, a command that blocks may wait forever.
    played = list(play(Case("examples", "again", 0, (2,), steps), port, patience=IMPATIENCE))
    if len(played) < len(steps) or any(reply is None or reply.kind == "-" for _, reply in played):
        return None
    return [(step, shortened(formatted(reply))) for step, reply in played]


def only_reads(step: Step) -> bool:
    """Whether a step is a command that changes no data."""
    name = name_of(split_words(step.rest))
    return name is not None and "readonly" in REGISTRY[name].flags


def formatted(node: Node | None, indent: int = 0) -> str:
    """Format a reply as redis-cli does."""
    if node is None:
        return ""
    if node.is_null:
        return "(nil)"
    if node.children is not None:
        if not node.children:
            return "(empty array)"
        width = len(str(len(node.children)))
        lines = [
            f"{number:>{width}}) {formatted(child, indent + width + 2)}"
            for number, child in enumerate(node.children, 1)
        ]
        return ("\n" + " " * indent).join(lines)
    if node.kind == ":":
        return f"(integer) {node.value.decode()}"
    if node.kind == "+":
        return node.value.decode()
    return quoted(node.value)


def shortened(text: str) -> str:
    """Leave out the end of a long reply."""
    lines = [line if len(line) <= 120 else f"{line[:117]}…" for line in text.split("\n")]
    return "\n".join(lines if len(lines) <= LINES else [*lines[:LINES], "…"])


def quoted(value: bytes) -> str:
    """Quote a bulk as redis-cli does."""
    text = (
        value.decode("latin-1")
        .replace("\\", "\\\\")
        .replace('"', '\\"')
        .replace("\n", "\\n")
        .replace("\r", "\\r")
    )
    return (
        '"'
        + "".join(char if char.isprintable() and char < "\x7f" else f"\\x{ord(char):02x}" for char in text)
        + '"'
    )
