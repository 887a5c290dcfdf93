"""Examples and error texts of commands, from the scripts that the tests compare with real servers.

Every simple case of ``tests/differential/scripts/`` is played on a server. What a command replies there is its example,
behind the steps that it needs; what it refuses is its error texts. ``examples.script`` has cases for commands that the
scripts show only in company, ``cluster.script`` those for a node of a cluster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rillet.testing
from rillet.commands import load_all
from rillet.commands.spec.command import REGISTRY

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from support.script import Case, Step, parse_script, play_case, split_words  # noqa: E402 - after the path is set
from support.wire import Node  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 2000  # characters of an example
LINES = 25  # of a reply
# They take the connection or the server away.
WITHOUT = frozenset({"monitor", "psync", "shutdown", "sync"})


@dataclass
class Shown:
    """What the scripts show of one command: steps with their replies, and the texts of errors."""

    example: list[tuple[str, str]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)  # by its text: a line that gets it


@cache
def shown() -> dict[str, Shown]:
    """Return what is shown of each command, by its name."""
    load_all()
    found: dict[str, Shown] = {name: Shown() for name in REGISTRY}
    paths = [
        *sorted((ROOT / "tests/differential/scripts").rglob("*.script")),
        Path(__file__).with_name("examples.script"),
    ]
    with rillet.testing.Server(enable_debug_command="yes") as server:
        for case in (case for path in paths for case in parse_script(path)):
            if case.file == "examples" or is_simple(case):
                note(found, play(server.port, case))
        play_wrong_counts(found, server.port)
        helps = [name.replace("|", " ").upper() for name in REGISTRY if name.endswith("|help")]
        case = Case("examples", "help", 0, (2,), [Step(0, line, "A", ":", line) for line in helps])
        for step, reply in play(server.port, case):
            note(found, iter([(step, reply)]))
    with rillet.testing.Cluster(shards=2) as cluster:
        for case in parse_script(Path(__file__).with_name("cluster.script")):
            note(found, play(cluster.nodes[0].port, case))
    return found


def play_wrong_counts(found: dict[str, Shown], port: int) -> None:
    """Note what each command replies to a word too few or too many."""
    for name, command in REGISTRY.items():
        words = name.upper().split("|")
        count = command.arity + 1 if command.arity > 0 else -command.arity - 1
        if not command.is_served or count < len(words):
            continue
        line = " ".join([*words, *("word" for _ in range(count - len(words)))])
        for step, reply in play(port, Case("examples", name, 0, (2,), [Step(0, line, "A", ":", line)])):
            if reply.kind == "-":
                note(found, iter([(step, reply)]))


def is_simple(case: Case) -> bool:
    """Whether one client alone sends commands that have one reply each, at once."""
    words = {step.rest.partition(" ")[0].upper() for step in case.steps}
    return (
        2 in case.protocols
        and all(step.connection == "A" and step.verb == ":" for step in case.steps)
        and not words & {"SHUTDOWN", "MONITOR", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "SYNC", "PSYNC"}
    )


def play(port: int, case: Case) -> Iterator[tuple[Step, Node]]:
    """Yield the steps of a case with their replies, as long as there are some."""
    for answer in play_case(port, 2, case):
        if not isinstance(answer.reply, Node):
            return
        yield answer.step, answer.reply


def note(found: dict[str, Shown], played: Iterator[tuple[Step, Node]]) -> None:
    """Keep the errors of a case, and its beginnings that are better examples than those known."""
    before: list[tuple[str, str]] = []
    for step, reply in played:
        name = name_of(split_words(step.rest))
        if reply.kind == "-":
            if name is not None:
                found[name].errors.setdefault(reply.value.decode(errors="replace"), step.rest)
            continue
        before.append((step.rest, shortened(formatted(reply))))
        if (
            before[-1][1] != "QUEUED"
            and name is not None
            and (not found[name].example or cost(before) < cost(found[name].example))
        ):
            found[name].example = list(before)


def name_of(words: list[bytes]) -> str | None:
    """Return the name under which the registry has a command line, or None."""
    name = words[0].decode(errors="replace").lower()
    longer = f"{name}|{words[1].decode(errors='replace').lower()}" if len(words) > 1 else name
    return longer if longer in REGISTRY else name if name in REGISTRY else None


def cost(steps: list[tuple[str, str]]) -> tuple[bool, bool, int]:
    """Compare examples: the shorter one that replies something, and that is no longer than a page."""
    last = steps[-1][1]
    length = sum(len(line) + len(reply) for line, reply in steps)
    return length > LONGEST, last in {"(nil)", "(integer) 0"} or "(empty array)" in last, length


def formatted(node: Node, indent: int = 0) -> str:
    """Format a reply as redis-cli does."""
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
