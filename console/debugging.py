"""The clock and the faults of a Rillet with debug commands: their state, and the actions that change them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from . import timeline
from .actions import Field, Outcome, Progress, Step, action, one_command
from .connection import Link, Subject, command
from .names import command_line, plain, split_line
from .values import Values

HITS: Final = 5
_LOOK_SECONDS: Final = 0.02  # seconds between two readings of a clock that may be frozen
PAGE: Final = "/time"
STEPS: Final = (("+1 s", 1_000), ("+1 min", 60_000), ("+1 h", 3_600_000))


@dataclass(frozen=True, slots=True)
class Hit:
    """A command that a fault hit; its time is in milliseconds of the server's clock."""

    time: int
    client_id: int
    client: str
    command: str
    key: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """An active fault: ``fitted`` commands might have been hit, ``hit`` were; ``hits``: the last ones, newest first."""

    id: int
    line: str
    fitted: int
    hit: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class DebugDetail:
    """The clock and the faults; ``frozen``: whether the clock is stopped."""

    now: int
    frozen: bool
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class DebugSubject(Subject[DebugDetail]):
    """The clock and the faults of a Rillet."""

    async def read(self, link: Link) -> DebugDetail:
        """Read the clock twice, a moment apart: its reply does not say whether it runs."""
        before = await link.node.call("DEBUG", "CLOCK", "NOW")
        await asyncio.sleep(_LOOK_SECONDS)
        now, faults = await link.node.send(
            [command("DEBUG", "CLOCK", "NOW"), command("DEBUG", "FAULT", "LIST")]
        )
        return DebugDetail(now, now == before, tuple(_fault(item) for item in faults))


def _fault(item: Any) -> Fault:
    number, words, fitted, hit, hits = item
    last = tuple(
        Hit(
            moment,
            client_id,
            plain(name.decode("utf-8", "replace")),
            plain(word.decode("utf-8", "replace")),
            key,
        )
        for moment, client_id, name, word, key in hits[-HITS:][::-1]
    )
    return Fault(number, command_line(words), fitted, hit, last)


# A table, as in `actions`.
# fmt: off
@action("advance", "Move the clock",
    "Idle times grow, keys expire, and blocked commands time out as if so much time had passed.", (),
    (Field("ms", "Milliseconds", "60000", kind="number"),), needs="DEBUG", back=PAGE)
def _advance(typed: Values) -> list[Step]:
    return [Step(command("DEBUG", "CLOCK", "ADVANCE", typed.number("ms", 60_000, 1)))]


one_command("freeze", "Freeze the clock", "The server's clock stands still until it is moved or resumed.",
    "DEBUG CLOCK FREEZE", needs="DEBUG", back=PAGE)
one_command("resume", "Let the clock run", "The server's clock continues from its present time.",
    "DEBUG CLOCK RESUME", needs="DEBUG", back=PAGE)
one_command("today", "Back to the time of day", "The server's clock shows the time of the machine again.",
    "DEBUG CLOCK RESET", needs="DEBUG", back=PAGE)
_EFFECTS: Final = (
    ("CLOSE after", "runs, and its reply is lost (CLOSE after)"),
    ("CLOSE before", "does not run, and the connection closes (CLOSE before)"),
    ("ERROR LOADING", "is refused with LOADING"),
    ("ERROR READONLY", "is refused with READONLY"),
    ("ERROR OOM", "is refused with OOM"),
    ("ERROR BUSY", "is refused with BUSY"),
    ("DELAY 1000", "waits a second (DELAY 1000)"),
    ("SILENCE", "runs, and its connection gets no more replies (SILENCE)"),
    ("", "only as written below"),
)


@action("fault", "Add a fault",
    "From now on it hits matching commands, of programs and of the prompt. The console's own commands are never hit.",
    (),
    (Field("command", "Command", "XACK", hint="XACK, XGROUP CREATE; * for all"),
        Field("key", "Key", hint="a glob; empty for any"),
        Field("client", "Client", hint="a name, a glob or an ID; empty for any"),
        Field("effect", "What happens", "CLOSE after", options=_EFFECTS),
        Field("first", "Only the first", hint="a number; empty for all", kind="number"),
        Field("more", "More options", hint="such as EVERY 3, NTH 2, PROBABILITY 0.1 SEED 7")),
    needs="DEBUG", back=PAGE)
def _fault_on(typed: Values) -> list[Step]:
    words: list[bytes | str | int] = ["DEBUG", "FAULT", "ADD"]
    if typed.text("command", "*") != "*":
        words += ["COMMAND", typed.word("command")]
    for name in ("key", "client"):
        if typed.text(name):
            words += [name.upper(), typed.word(name)]
    if typed.text("first"):
        words += ["FIRST", typed.number("first", 1, 1)]
    words += typed.text("effect").split()
    words += split_line(typed.text("more"))
    if len(words) == 3:
        raise ValueError("choose what happens, or write it below")
    return [Step(command(*words))]


@action("faultoff", "End a fault", "Its effects on earlier commands stay.", (), (Field("fault", "ID", kind="number"),),
    needs="DEBUG", back=PAGE)
def _fault_off(typed: Values) -> list[Step]:
    typed.word("fault")
    return [Step(command("DEBUG", "FAULT", "CLEAR", typed.number("fault", 0)))]


one_command("faultsoff", "End all faults", "Their effects on earlier commands stay.", "DEBUG FAULT CLEAR",
    needs="DEBUG", back=PAGE)


async def _begin_tape(link: Link, typed: Values, _progress: Progress) -> Outcome:
    line = _record(typed)[0].line
    await timeline.begin(link)
    return Outcome(((line, f"(integer) {link.tape.id}"),), good=True)


@action("record", "Begin a recording",
    "The server keeps the last commands of its clients with their replies, up to 64 MB. The page of a message then shows "
    "its timeline. The recording ends when the console does.", (), (), run=_begin_tape, needs="DEBUG")
def _record(_typed: Values) -> list[Step]:
    return [Step(timeline.BEGIN)]


async def _end_tape(link: Link, typed: Values, _progress: Progress) -> Outcome:
    del typed
    words = timeline.end_of(link)
    reply = (await link.send([words]))[0]
    link.tape.forget()
    is_error = isinstance(reply, RedisError)
    return Outcome(((command_line(words), str(reply) if is_error else "ended"),), good=not is_error)


@action("unrecord", "End the recording", "The recorded commands are forgotten.", (), (), run=_end_tape, needs="DEBUG")
def _unrecord(_typed: Values) -> list[Step]:
    return [Step(command("DEBUG", "RECORD", "STOP", "id"), "id: of the recording that this console began")]
