"""Parse the options of DEBUG FAULT ADD: which commands a fault hits, and what happens to them.

Each option may be given once, in any order::

    COMMAND name        a command (XACK), or a subcommand ("XGROUP CREATE", XGROUP|CREATE)
    KEY glob            one of its keys matches
    CLIENT [!]glob      the name, user or library of the client matches, or it is the ID of the connection; !: all others
    NTH n | EVERY n | FIRST n | PROBABILITY p [SEED n]      hit only some of these commands
    EMPTY               NTH, EVERY and FIRST also count waits that end empty

    ERROR text          refuse it: a text, or the name of one in ``ERRORS``
    CLOSE before        close the connection; the command does not run
    CLOSE after         run it, and close the connection without a reply
    CLOSE midway        run it, send the first half of its reply, and close
    REPLY-BYTES n       run it, send n bytes of its reply, and close; with SILENCE stay open and send no more
    SILENCE             run it, and send no more on this connection
    SLOW n ms           run it, and send n bytes of its reply every ms milliseconds; with ERROR, of the error
    DELAY ms            wait before anything else, by the real time
    CLOCK-DELAY ms      the same, by the server's clock
    CONNECTIONS refuse  close new connections
    DISK append|fsync|rewrite       fail to write the append-only file, to sync it, to rewrite it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...commands.runtime.arguments import parse_integer
from ...commands.scripting.lua.script_kill import BUSY_SCRIPT
from ...protocol.errors import OOM, ReplyError
from ..cluster.redirects import DOWN, TRYAGAIN
from ..execution.checks import LOADING, NOAUTH, READONLY
from ..persistence.rdb import MISCONF

ERRORS: Final = {
    b"LOADING": LOADING,
    b"READONLY": READONLY,
    b"MISCONF": MISCONF,
    b"OOM": OOM,
    b"BUSY": BUSY_SCRIPT,
    b"NOAUTH": NOAUTH,
    b"CLUSTERDOWN": DOWN,
    b"MOVED": b"MOVED",
    b"ASK": b"ASK",
    b"TRYAGAIN": TRYAGAIN,
}
"""Errors that clients meet in production, by name; MOVED and ASK get the slot of the key and the server's own address."""

_WHICH: Final = ("COMMAND", "KEY", "CLIENT")
_COUNTERS: Final = ("NTH", "EVERY", "FIRST", "PROBABILITY")
_LONGEST: Final = 1 << 40  # milliseconds


@dataclass(slots=True)
class FaultSpec:
    """One parsed fault; the module docstring describes the options."""

    words: tuple[bytes, ...]  # the options as given
    command: str | None = None  # in lower case, such as ``xgroup|create``
    key: bytes | None = None
    client: bytes | None = None
    nth: int = 0
    every: int = 0
    first: int = 0
    probability: float | None = None
    seed: int = 0
    empty: bool = False
    error: bytes | None = None
    close: bytes | None = None
    reply_bytes: int | None = None
    silence: bool = False
    # The size of a piece in bytes, and the milliseconds before each piece.
    slow: tuple[int, int] | None = None
    delay: int = 0  # in milliseconds of real time
    clock_delay: int = 0  # in milliseconds of the server's clock
    connections: bytes | None = None
    disk: bytes | None = None
    given: set[str] = field(default_factory=set)

    @property
    def is_of_commands(self) -> bool:
        """Whether the fault hits commands, not connections or the disk."""
        return not self.connections and self.disk is None

    @property
    def delays(self) -> bool:
        """Whether the fault delays a command (DELAY, CLOCK-DELAY)."""
        return bool(self.delay or self.clock_delay)

    @property
    def passes_empty(self) -> bool:
        """Whether the fault skips waits that end empty (BLOCK timed out): it counts commands, without EMPTY."""
        return bool(self.nth or self.every or self.first) and not self.empty

    @property
    def acts_before(self) -> bool:
        """Whether the fault delays the command, or replaces it: DELAY, ERROR, CLOSE before."""
        return self.error is not None or self.close == b"before" or self.delays

    @property
    def spoils_reply(self) -> bool:
        """Whether the command runs, but its reply is cut, withheld or slowed (CLOSE after, SILENCE, SLOW and others)."""
        return self.close in {b"after", b"midway"} or bool({"REPLY-BYTES", "SILENCE", "SLOW"} & self.given)


def parse_fault(words: Sequence[bytes]) -> FaultSpec:
    """Parse the options of one fault.

    Raises ReplyError: an option is unknown, incomplete or given twice, or options contradict each other.
    """
    spec = FaultSpec(tuple(words))
    at = 0
    while at < len(words):
        name = words[at].upper().decode("latin-1")
        if name not in _OPTIONS:
            raise ReplyError(b"ERR Unknown option '%b' of a fault. Try DEBUG FAULT HELP." % words[at][:50])
        if name in spec.given:
            raise ReplyError(b"ERR %b is given twice" % name.encode())
        number, read = _OPTIONS[name]
        values = words[at + 1 : at + 1 + number]
        if len(values) < number:
            raise ReplyError(b"ERR %b needs a value" % name.encode())
        read(spec, *values)
        spec.given.add(name)
        at += 1 + number
    _check(spec)
    return spec


def _check(spec: FaultSpec) -> None:
    given = spec.given
    counters = given.intersection(_COUNTERS)
    if len(counters) > 1:
        raise _contradiction(*counters)
    if "SEED" in given and "PROBABILITY" not in given:
        raise ReplyError(b"ERR SEED needs PROBABILITY")
    if "EMPTY" in given and not counters - {"PROBABILITY"}:
        raise ReplyError(b"ERR EMPTY needs NTH, EVERY or FIRST")
    if {"DELAY", "CLOCK-DELAY"} <= given:
        raise _contradiction("DELAY", "CLOCK-DELAY")
    effects = given & {"ERROR", "CLOSE", "REPLY-BYTES", "SILENCE", "SLOW", "CONNECTIONS", "DISK"}
    if effects in ({"REPLY-BYTES", "SILENCE"}, {"ERROR", "SLOW"}):
        effects.pop()
    if len(effects) > 1:
        raise _contradiction(*effects)
    delays = given & {"DELAY", "CLOCK-DELAY"}
    if not effects and not delays:
        raise ReplyError(
            b"ERR A fault needs ERROR, CLOSE, REPLY-BYTES, SILENCE, SLOW, DELAY, CONNECTIONS or DISK"
        )
    for alone in effects & {"CONNECTIONS", "DISK"}:
        wrong = given.intersection((*_WHICH, "EMPTY")) | delays
        if spec.disk == b"fsync":
            wrong.discard("DELAY")
        if wrong:
            raise _contradiction(alone, *wrong)


def _contradiction(*names: str) -> ReplyError:
    return ReplyError(b"ERR A fault cannot have %b" % " and ".join(sorted(names)).encode())


# Options


def _command(spec: FaultSpec, word: bytes) -> None:
    names = word.lower().decode("latin-1").replace("|", " ").split()
    if not 1 <= len(names) <= 2:
        raise ReplyError(b"ERR COMMAND needs the name of a command or subcommand")
    if names[0] == "debug":
        raise ReplyError(b"ERR No fault hits DEBUG")
    spec.command = "|".join(names)


def _error(spec: FaultSpec, text: bytes) -> None:
    found = ERRORS.get(text.upper(), text)
    if (b" " not in found and found not in ERRORS) or found[:1] in b" -" or b"\r" in found or b"\n" in found:
        names = b" ".join(ERRORS)
        raise ReplyError(b"ERR ERROR needs a line 'CODE text', or one of " + names)
    spec.error = found


def _slow(spec: FaultSpec, size: bytes, milliseconds: bytes) -> None:
    spec.slow = _number("SLOW", size, 1), _number("SLOW", milliseconds, 1)


def _probability(spec: FaultSpec, word: bytes) -> None:
    try:
        spec.probability = float(word)
    except ValueError:
        spec.probability = -1.0
    if not 0 <= spec.probability <= 1:
        raise ReplyError(b"ERR PROBABILITY needs a number from 0 to 1")


def _number(name: str, word: bytes, least: int) -> int:
    error = b"ERR %b needs a number from %d on" % (name.encode(), least)
    number = parse_integer(word, error)
    if not least <= number <= _LONGEST:
        raise ReplyError(error)
    return number


def _numbered(name: str, attribute: str, least: int) -> Callable[[FaultSpec, bytes], None]:
    return lambda spec, word: setattr(spec, attribute, _number(name, word, least))


def _one_of(name: str, *choices: bytes) -> Callable[[FaultSpec, bytes], None]:
    def read(spec: FaultSpec, word: bytes) -> None:
        if word.lower() not in choices:
            raise ReplyError(b"ERR %b needs %b" % (name.encode(), b" or ".join(choices)))
        setattr(spec, name.lower(), word.lower())

    return read


def _text(attribute: str) -> Callable[[FaultSpec, bytes], None]:
    return lambda spec, word: setattr(spec, attribute, word)


# Option name: the number of its values, and the function that reads them.
_OPTIONS: Final[dict[str, tuple[int, Callable[..., None]]]] = {
    "COMMAND": (1, _command),
    "KEY": (1, _text("key")),
    "CLIENT": (1, _text("client")),
    "NTH": (1, _numbered("NTH", "nth", 1)),
    "EVERY": (1, _numbered("EVERY", "every", 1)),
    "FIRST": (1, _numbered("FIRST", "first", 1)),
    "PROBABILITY": (1, _probability),
    "SEED": (1, _numbered("SEED", "seed", 0)),
    "EMPTY": (0, lambda spec: setattr(spec, "empty", True)),
    "ERROR": (1, _error),
    "CLOSE": (1, _one_of("CLOSE", b"before", b"after", b"midway")),
    "REPLY-BYTES": (1, _numbered("REPLY-BYTES", "reply_bytes", 0)),
    "SILENCE": (0, lambda spec: setattr(spec, "silence", True)),
    "SLOW": (2, _slow),
    "DELAY": (1, _numbered("DELAY", "delay", 1)),
    "CLOCK-DELAY": (1, _numbered("CLOCK-DELAY", "clock_delay", 1)),
    "CONNECTIONS": (1, _one_of("CONNECTIONS", b"refuse")),
    "DISK": (1, _one_of("DISK", b"append", b"fsync", b"rewrite")),
}
