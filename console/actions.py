"""What the console changes: each action is a form, the very commands it would send, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from . import replies
from .link import Command, Link, command
from .names import command_line, quote, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HANDED: Final = 100  # entries a call of XAUTOCLAIM
# Deletes a consumer only if it has nothing, in one step: what it reads while this runs is not lost.
DELETE_IF_EMPTY: Final = (
    b"if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return -1 end "
    b"return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])"
)


class MissingError(ValueError):
    """Nothing was typed into a field; the text is its name."""


class Values:
    """What was typed into a form, as words in the way redis-cli takes them."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._typed = typed

    def text(self, name: str, default: str = "") -> str:
        """Return what was typed, without spaces around it."""
        return self._typed.get(name, "").strip() or default

    def word(self, name: str) -> bytes:
        """Return the bytes of a name.

        Raises:
            ValueError: it is missing, or its quotes are not closed.
        """
        text = self.text(name)
        if not text:
            raise MissingError(name)
        return unquote(text)

    def number(self, name: str, default: int, least: int = 0) -> int:
        """Return a whole number.

        Raises:
            ValueError: it is none, or too small.
        """
        text = self.text(name, str(default))
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise ValueError(f"{name} is a whole number from {least} on, not {text}")
        return int(text)

    def ids(self, name: str = "id") -> list[bytes]:
        """Return IDs that were separated by spaces or commas.

        Raises:
            ValueError: there is none, or one is of another form.
        """
        found = self.text(name).replace(",", " ").split()
        if not found:
            raise MissingError(name)
        for entry_id in found:
            if not all(part.isdecimal() for part in entry_id.split("-", 1)):
                raise ValueError(f"{entry_id} is no ID: an ID is milliseconds-sequence")
        return [entry_id.encode() for entry_id in found]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        suggest: what to suggest: "consumers" of the group, or nothing.
        options: values to choose from with their labels; empty for a field to type into.
    """

    name: str
    label: str
    default: str = ""
    hint: str = ""
    suggest: str = ""
    options: tuple[tuple[str, str], ...] = ()
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what is to be known of it."""

    words: Command
    note: str = ""

    @property
    def line(self) -> str:
        """The command as redis-cli takes it."""
        return command_line(self.words)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: a line for each command that was sent, and whether all went well."""

    lines: tuple[tuple[str, str], ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do.

    Attributes:
        scope: the names that its address carries: key, group, consumer, id.
        steps: makes the commands of what was typed; raises ValueError where something is wrong.
        run: sends them; None: one after the other.
        needs: a command that the server must know.
        back: the page that shows what came of it, where that is all there is to see.
        danger: what cannot be undone, in a sentence.
    """

    name: str
    title: str
    about: str
    scope: tuple[str, ...]
    fields: tuple[Field, ...]
    steps: Callable[[Values], list[Step]]
    run: Callable[[Link, Values], Any] | None = None
    needs: str = ""
    danger: str = ""
    back: str = ""


ACTIONS: Final[dict[str, Action]] = {}


def action(
    name: str, title: str, about: str, scope: tuple[str, ...], fields: tuple[Field, ...], **more: Any
) -> Callable[[Callable[[Values], list[Step]]], Callable[[Values], list[Step]]]:
    """Add an action of which a function makes the commands."""

    def keep(steps: Callable[[Values], list[Step]]) -> Callable[[Values], list[Step]]:
        ACTIONS[name] = Action(name, title, about, scope, fields, steps, **more)
        return steps

    return keep


_IDS = Field("id", "IDs", hint="separated by spaces")
_TO = Field("to", "To consumer", hint="one that exists, or a new one", suggest="consumers")


@action(
    "claim",
    "Claim entries",
    "The chosen entries become pending with another consumer, and their delivery count grows by one.",
    ("key", "group"),
    (
        _IDS,
        _TO,
        Field(
            "idle",
            "Only if idle for at least (ms)",
            "0",
            hint="protects an entry that was just taken",
            kind="number",
        ),
        Field(
            "count",
            "Delivery count",
            "grow",
            options=(("grow", "grows by one: this is a delivery"), ("keep", "stays as it is (JUSTID)")),
        ),
    ),
)
def _claim(typed: Values) -> list[Step]:
    words: tuple[bytes | str | int, ...] = (
        "XCLAIM",
        typed.word("key"),
        typed.word("group"),
        typed.word("to"),
        typed.number("idle", 0),
        *typed.ids(),
    )
    return [Step(command(*words, *(["JUSTID"] if typed.text("count") == "keep" else [])))]


@action(
    "ack",
    "Acknowledge entries",
    "The chosen entries leave the group's PEL: they count as done, and are delivered to no other consumer.",
    ("key", "group"),
    (_IDS,),
    danger="An entry that was not really processed is not delivered again.",
)
def _ack(typed: Values) -> list[Step]:
    return [Step(command("XACK", typed.word("key"), typed.word("group"), *typed.ids()))]


@action(
    "giveback",
    "Give entries back",
    "The chosen entries lose their consumer and are the first that XREADGROUP CLAIM or XAUTOCLAIM takes.",
    ("key", "group"),
    (
        _IDS,
        Field(
            "mode",
            "Why",
            "FAIL",
            options=(
                ("FAIL", "FAIL: it was tried; the delivery count stays"),
                ("SILENT", "SILENT: it was not tried; the delivery count falls by one"),
                ("FATAL", "FATAL: nothing can process it; the delivery count becomes the greatest"),
            ),
        ),
    ),
    needs="XNACK",
)
def _give_back(typed: Values) -> list[Step]:
    ids = typed.ids()
    mode = typed.text("mode", "FAIL")
    if mode not in {"FAIL", "SILENT", "FATAL"}:
        raise ValueError(f"{mode} is none of FAIL, SILENT, FATAL")
    return [Step(command("XNACK", typed.word("key"), typed.word("group"), mode, "IDS", len(ids), *ids))]


async def _retire(link: Link, typed: Values) -> Outcome:
    """Hand over, look whether anything is left, and only then delete."""
    key, group, dead, to = (typed.word(name) for name in ("key", "group", "consumer", "to"))
    first, *rest = _retire_steps(typed)
    done: list[tuple[str, str]] = []
    moved, cursor = 0, b"0-0"
    while True:
        words = (*first.words[:5], cursor, *first.words[6:])
        reply = (await link.send([words]))[0]
        if isinstance(reply, RedisError):
            return Outcome((*done, (command_line(words), str(reply))), good=False)
        moved += len(reply[1])
        cursor = bytes(reply[0])
        if cursor == b"0-0":
            break
    done.append((first.line, f"{moved:,} entries handed over, from the cursor 0-0 round to 0-0"))
    while True:
        # Entries that were claimed with an IDLE of their own may look younger than their consumer.
        left = replies.pending(await link.call("XPENDING", key, group, "-", "+", HANDED, dead))
        if not left:
            break
        words = command("XCLAIM", key, group, to, 0, *(entry.id for entry in left), "JUSTID")
        reply = (await link.send([words]))[0]
        if isinstance(reply, RedisError):
            return Outcome((*done, (command_line(words), str(reply))), good=False)
        done.append((command_line(words), f"{len(reply):,} entries handed over, which XAUTOCLAIM left"))
        gone = [entry.id for entry in left if entry.id.encode() not in reply]
        if gone and not reply:
            # Before Redis 7 XCLAIM leaves entries alone whose message was deleted.
            words = command("XACK", key, group, *gone)
            done.append(
                (command_line(words), f"{await link.call(*words)} entries whose messages were deleted")
            )
    last = rest[-1]
    reply = (await link.send([last.words]))[0]
    if isinstance(reply, RedisError):
        return Outcome((*done, (last.line, str(reply))), good=False)
    if reply == -1:
        done.append((last.line, "not deleted: it has read new entries since then, so it is not dead"))
        return Outcome(tuple(done), good=False)
    return Outcome((*done, (last.line, f"deleted; {reply} pending entries were lost")), good=reply == 0)


@action(
    "retire",
    "Retire a consumer",
    "All that a dead consumer holds goes to another one; then the dead one is deleted. In this order nothing is lost. "
    "XAUTOCLAIM chooses by idle time, so it takes what other consumers have left as long, too.",
    ("key", "group", "consumer"),
    (
        _TO,
        Field(
            "idle",
            "Entries idle for at least (ms)",
            "60000",
            hint="no more than the dead consumer is idle",
            kind="number",
        ),
    ),
    run=_retire,
    danger="The consumer is deleted at the end, if nothing is left with it.",
)
def _retire_steps(typed: Values) -> list[Step]:
    key, group, dead, to = (typed.word(name) for name in ("key", "group", "consumer", "to"))
    if dead == to:
        raise ValueError("choose another consumer than the one to retire")
    idle = typed.number("idle", 60_000)
    return [
        Step(
            command("XAUTOCLAIM", key, group, to, idle, "0-0", "COUNT", HANDED, "JUSTID"),
            "again from the cursor that it returns, until that is 0-0",
        ),
        Step(
            command("XPENDING", key, group, "-", "+", HANDED, dead),
            "what is left goes over by XCLAIM … JUSTID",
        ),
        Step(
            command("EVAL", DELETE_IF_EMPTY, 1, key, group, dead),
            "XGROUP DELCONSUMER, if nothing is pending with it, in one step",
        ),
    ]


@action(
    "delconsumer",
    "Delete a consumer",
    "The consumer leaves the group.",
    ("key", "group", "consumer"),
    (),
    danger="What is pending with it leaves the PEL and is not delivered again. Retire it to keep that.",
)
def _delete_consumer(typed: Values) -> list[Step]:
    return [
        Step(command("XGROUP", "DELCONSUMER", typed.word("key"), typed.word("group"), typed.word("consumer")))
    ]


@action(
    "newconsumer",
    "Add a consumer",
    "A consumer is added without reading anything.",
    ("key", "group"),
    (Field("consumer", "Name"),),
)
def _create_consumer(typed: Values) -> list[Step]:
    return [
        Step(
            command(
                "XGROUP", "CREATECONSUMER", typed.word("key"), typed.word("group"), typed.word("consumer")
            )
        )
    ]


def _group_id(typed: Values) -> str:
    entry_id = typed.text("id", "$")
    if entry_id not in {"$", "0"}:
        typed.ids()
    return entry_id


@action(
    "setid",
    "Set the last delivered ID",
    "The group goes on behind this ID: a smaller one delivers messages again, $ leaves out all that waits.",
    ("key", "group"),
    (Field("id", "ID", "0", hint="an ID, 0 for the beginning, $ for the end"),),
    danger="Messages are delivered twice, or not at all. What is pending stays pending.",
)
def _set_id(typed: Values) -> list[Step]:
    return [Step(command("XGROUP", "SETID", typed.word("key"), typed.word("group"), _group_id(typed)))]


@action(
    "newgroup",
    "Create a group",
    "A group that reads from an ID on. A stream that does not exist is made.",
    (),
    (
        Field("key", "Stream"),
        Field("group", "Group"),
        Field("id", "From ID", "$", hint="0: all there is; $: only what comes"),
    ),
)
def _create_group(typed: Values) -> list[Step]:
    return [
        Step(
            command("XGROUP", "CREATE", typed.word("key"), typed.word("group"), _group_id(typed), "MKSTREAM")
        )
    ]


@action(
    "delgroup",
    "Destroy a group",
    "The group, its consumers and its PEL are deleted. The messages of the stream stay.",
    ("key", "group"),
    (),
    danger="What was pending is not known any more.",
)
def _destroy(typed: Values) -> list[Step]:
    return [Step(command("XGROUP", "DESTROY", typed.word("key"), typed.word("group")))]


@action(
    "add",
    "Add an entry",
    "A message at the end of the stream.",
    (),
    (
        Field("key", "Stream"),
        Field("field", "Field", "item"),
        Field("value", "Value"),
        Field("id", "ID", "*", hint="*: the server's time"),
    ),
)
def _add(typed: Values) -> list[Step]:
    entry_id = typed.text("id", "*")
    if entry_id != "*":
        typed.ids()
    words = ("XADD", typed.word("key"), entry_id, typed.word("field"), unquote(typed.text("value")))
    return [Step(command(*words))]


@action(
    "delete",
    "Delete entries",
    "The chosen messages leave the stream. In groups where they are pending they stay pending, without content.",
    ("key",),
    (_IDS,),
    danger="The messages are gone.",
)
def _delete(typed: Values) -> list[Step]:
    return [Step(command("XDEL", typed.word("key"), *typed.ids()))]


@action(
    "example",
    "Try the XCLAIM story",
    "A stream of orders, a group that bills them, Bob who takes two and falls silent, and Alice who claims one.",
    (),
    (Field("key", "Stream", "orders"),),
)
def _example(typed: Values) -> list[Step]:
    key = unquote(typed.text("key", "orders"))
    return [
        Step(command("XGROUP", "CREATE", key, "billing", "$", "MKSTREAM"), "a group that reads what comes"),
        *(
            Step(command("XADD", key, f"{number}-0", "item", item, "amount", amount), note)
            for number, item, amount, note in (
                (1, "teapot", 2, "three orders, with IDs of our own to make the story short"),
                (2, "cup", 6, ""),
                (3, "sugar", 1, ""),
            )
        ),
        Step(
            command("XREADGROUP", "GROUP", "billing", "Bob", "COUNT", 2, "STREAMS", key, ">"),
            "Bob takes two …",
        ),
        Step(command("XCLAIM", key, "billing", "Alice", 0, "1-0"), "… and Alice claims the first from him"),
    ]


@dataclass(slots=True)
class Plan:
    """An action with what was typed: its commands, or why there are none yet (``missing``: too little was typed)."""

    action: Action
    typed: Mapping[str, str]
    steps: list[Step] = field(default_factory=list)
    problem: str = ""
    missing: bool = False

    @property
    def text(self) -> str:
        """The commands as they are shown, to copy."""
        return "\n".join(step.line for step in self.steps)


def plan(action: Action, typed: Mapping[str, str]) -> Plan:
    """Return the commands that an action would send."""
    defaults = {one.name: one.default for one in action.fields if one.default}
    filled = {**defaults, **{name: text for name, text in typed.items() if text.strip()}}
    try:
        return Plan(action, filled, action.steps(Values(filled)))
    except MissingError as error:
        labels = {one.name: one.label for one in action.fields}
        name = str(error)
        return Plan(action, filled, problem=f"{labels.get(name, name)}: still to be filled in", missing=True)
    except ValueError as error:
        return Plan(action, filled, problem=str(error))


async def run(link: Link, made: Plan) -> Outcome:
    """Send the commands of a plan; an error ends it.

    Raises:
        GoneError: the server cannot be reached.
    """
    if made.action.run is not None:
        outcome: Outcome = await made.action.run(link, Values(made.typed))
        return outcome
    done: list[tuple[str, str]] = []
    for step in made.steps:
        reply = (await link.send([step.words]))[0]
        done.append((step.line, reply_text(reply)))
        if isinstance(reply, RedisError):
            return Outcome(tuple(done), good=False)
    return Outcome(tuple(done), good=True)


def reply_text(reply: Any, depth: int = 0) -> str:
    """Return a reply as redis-cli shows it, cut after many lines."""
    pad = "   " * depth
    if isinstance(reply, RedisError):
        return f"(error) {reply}"
    if reply is None:
        return "(nil)"
    if isinstance(reply, bool):
        return f"({str(reply).lower()})"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if isinstance(reply, float):
        return f"(double) {reply}"
    if isinstance(reply, bytes):
        text = quote(reply[:500])
        return text if len(reply) <= 500 else f"{text} … ({len(reply):,} bytes)"
    if isinstance(reply, dict):
        lines = [
            f"{number}# {reply_text(k, depth + 1)} => {reply_text(v, depth + 1)}"
            for number, (k, v) in enumerate(reply.items(), 1)
        ]
    else:
        lines = [f"{number}) {reply_text(item, depth + 1)}" for number, item in enumerate(reply, 1)]
    if len(lines) > 200:
        lines = [*lines[:200], f"… {len(lines) - 200:,} more"]
    return f"\n{pad}".join(lines) if lines else "(empty)"
