"""The actions that change a server: each is a form, the exact commands that it sends, and their outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from redis.exceptions import RedisError

from . import replies
from .connection import Command, Link, command
from .names import command_line, quote, unquote
from .pending_maxima import PAGE, after
from .selection import selection
from .values import MissingError, Values

SLICE: Final = 100  # entries of one command of an action on many
# Hands over all pending entries of a consumer, and none of others, in one step; deleted entries leave the PEL, as with
# XCLAIM itself since Redis 7.
HAND_OVER: Final = (
    b"local held = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', ARGV[4], ARGV[2]) "
    b"if #held == 0 then return {0, 0} end "
    b"local claim, drop = {'XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0}, {'XACK', KEYS[1], ARGV[1]} "
    b"for _, entry in ipairs(held) do claim[#claim + 1] = entry[1] end claim[#claim + 1] = 'JUSTID' "
    b"local moved = {} for _, id in ipairs(redis.call(unpack(claim))) do moved[id] = true end "
    b"for _, entry in ipairs(held) do if not moved[entry[1]] then drop[#drop + 1] = entry[1] end end "
    b"if #drop > 3 then redis.call(unpack(drop)) end "
    b"return {#held - (#drop - 3), #drop - 3}"
)
# Adds each pending message to another stream and acknowledges it, in one step: it is always in exactly one place.
# XACK without entries comes first: a user without the right to acknowledge must not add.
MOVE: Final = (
    b"redis.call('XACK', KEYS[1], ARGV[1], '0-0') local moved = 0 for at = 3, #ARGV do local id = ARGV[at] local found = redis.call('XRANGE', KEYS[1], id, id) "
    b"if found[1] and #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1) > 0 then "
    b"local add = {'XADD', KEYS[2], '*'} for _, word in ipairs(found[1][2]) do add[#add + 1] = word end "
    b"if ARGV[2] == 'dead' then for _, word in ipairs({'origin-stream', KEYS[1], 'origin-group', ARGV[1], 'origin-id', id}) "
    b"do add[#add + 1] = word end end "
    b"redis.call(unpack(add)) moved = moved + redis.call('XACK', KEYS[1], ARGV[1], id) end end return moved"
)
# Deletes a consumer only if it has no pending entries, in one step: entries that it reads meanwhile are not lost.
DELETE_IF_EMPTY: Final = (
    b"if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return -1 end "
    b"return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])"
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an action's form."""

    name: str
    label: str
    default: str = ""
    hint: str = ""
    suggest: str = ""  # what to suggest: "consumers" of the group, or nothing
    # Values to choose from with their labels; empty for a field to type into.
    options: tuple[tuple[str, str], ...] = ()
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Step:
    """A command that an action sends, and its effects in words."""

    words: Command
    note: str = ""

    @property
    def line(self) -> str:
        """The step's command in redis-cli's syntax."""
        return command_line(self.words)


@dataclass(slots=True)
class Progress:
    """The progress of an action on many entries: ``done`` of ``total``. ``stopped``: end it after the current slice."""

    done: int = 0
    total: int = 0
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an action: each command sent with its reply as text, and whether all succeeded."""

    lines: tuple[tuple[str, str], ...]
    good: bool


@dataclass(frozen=True, slots=True)
class Action:
    """An action that changes a server: its form and its commands."""

    name: str
    title: str
    about: str
    scope: tuple[str, ...]  # the names in its address: key, group, consumer, id
    fields: tuple[Field, ...]
    # Returns the commands for the typed values; raises ValueError if a value is wrong.
    steps: Callable[[Values], list[Step]]
    # Sends the commands; None: send one after the other.
    run: Callable[[Link, Values, Progress], Any] | None = None
    many: bool = False  # whether it can apply to all entries that match a filter
    needs: str = ""  # a command that the server must support
    danger: str = ""  # a sentence about what cannot be undone
    back: str = ""  # the page that shows the outcome, if the outcome needs no page of its own
    # Reads the initial values of the form, before anything was typed.
    begin: Callable[[Link, Values], Awaitable[dict[str, str]]] | None = None


ACTIONS: Final[dict[str, Action]] = {}


def action(
    name: str, title: str, about: str, scope: tuple[str, ...], fields: tuple[Field, ...], **more: Any
) -> Callable[[Callable[[Values], list[Step]]], Callable[[Values], list[Step]]]:
    """Register an action; the decorated function returns its commands for the values typed into the form."""

    def keep(steps: Callable[[Values], list[Step]]) -> Callable[[Values], list[Step]]:
        ACTIONS[name] = Action(name, title, about, scope, fields, steps, **more)
        return steps

    return keep


def one_command(
    name: str, title: str, about: str, words: str, fields: tuple[Field, ...] = (), **more: Any
) -> None:
    """Register an action of one command.

    Args:
        name: the action's name in addresses.
        words: the command; a word in braces stands for the field, or the part of the address, with that name.
    """
    split = words.split()
    scope = tuple(word[1:-1] for word in split if word.startswith("{"))[: -len(fields) or None]

    def steps(typed: Values) -> list[Step]:
        return [Step(command(*(typed.word(word[1:-1]) if word.startswith("{") else word for word in split)))]

    ACTIONS[name] = Action(name, title, about, scope, fields, steps, **more)


_IDS = Field("id", "IDs", hint="separated by spaces")
_TO = Field("to", "To consumer", hint="an existing consumer, or a new one", suggest="consumers")
_PLACE: Final = b"<IDs>"  # in a command that is shown before the entries are known


def on_entries(
    name: str, title: str, about: str, fields: tuple[Field, ...] = (), **more: Any
) -> Callable[[Callable[[Values, list[bytes], int], Command]], None]:
    """Register an action on pending entries; the decorated function returns the command for a slice of them.

    It applies to the chosen IDs or, if the form has ``all``, to all entries that match a filter: then it walks the
    PEL in slices. The function gets the typed values, the IDs, and the shortest idle time in the slice in
    milliseconds (0 for chosen IDs): an entry that another consumer claimed meanwhile has a shorter one, and stays.
    """

    def keep(make: Callable[[Values, list[bytes], int], Command]) -> None:
        def steps(typed: Values) -> list[Step]:
            if not typed.text("all"):
                return [Step(make(typed, typed.ids(), 0))]
            chosen = selection(typed)
            filters = [
                words
                for words in (
                    chosen.idle and f"idle for {chosen.idle:,} ms or more",
                    chosen.deliveries and f"delivered {chosen.deliveries} times or more",
                    chosen.consumer == b"" and "without a consumer",
                )
                if words
            ]
            note = (
                f"page by page; of each page, the entries that are {' and '.join(filters)}"
                if filters
                else "page by page"
            )
            return [
                Step(chosen.page(chosen.start), note),
                Step(
                    make(typed, [_PLACE], chosen.idle),
                    f"{SLICE} at a time, until all are done or you stop it",
                ),
            ]

        async def run_all(link: Link, typed: Values, progress: Progress) -> Outcome:
            if not typed.text("all"):
                return await _one_by_one(link, steps(typed))
            chosen = selection(typed)
            progress.total = typed.number("fit", 0)
            start, looked = chosen.start, 0
            while not progress.stopped:
                page = replies.pending(await link.call(*chosen.page(start)))
                fit = [entry for entry in page if chosen.matches(entry)]
                for at in range(0, len(fit), SLICE):
                    if progress.stopped:
                        break
                    part = fit[at : at + SLICE]
                    words = make(
                        typed,
                        [entry.id.encode() for entry in part],
                        max(0, min(entry.idle for entry in part)),
                    )
                    reply = (await link.send([words]))[0]
                    if isinstance(reply, RedisError):
                        return Outcome(
                            (
                                (command_line(words)[:2000], str(reply)),
                                (title, f"{progress.done:,} entries were done before the error"),
                            ),
                            good=False,
                        )
                    progress.done += reply if isinstance(reply, int) else len(reply)
                looked += len(page)
                if len(page) < PAGE:
                    break
                start = after(page[-1].id)
            shown = "\n".join(step.line for step in steps(typed))
            ended = "stopped: " if progress.stopped else ""
            return Outcome(
                ((shown, f"{ended}{progress.done:,} entries done, {looked:,} looked at"),),
                good=not progress.stopped,
            )

        fields_of_all = (_IDS, *fields)
        ACTIONS[name] = Action(
            name, title, about, ("key", "group"), fields_of_all, steps, run=run_all, many=True, **more
        )

    return keep


# A table: the formatter would give each word of a form a line of its own.
# fmt: off
@on_entries("claim", "Claim entries",
    "The chosen entries become pending with another consumer, and their delivery count grows by one.",
    (_TO,
        Field("idle", "Only if idle for at least (ms)", "0", hint="protects an entry that was just taken",
            kind="number"),
        Field("count", "Delivery count", "grow",
            options=(("grow", "grows by one: this is a delivery"), ("keep", "stays as it is (JUSTID)")))))
def _claim(typed: Values, ids: list[bytes], idle: int) -> Command:
    least = max(typed.number("idle", 0), idle)
    words = command("XCLAIM", typed.word("key"), typed.word("group"), typed.word("to"), least, *ids)
    return (*words, b"JUSTID") if typed.text("count") == "keep" else words


@on_entries("ack", "Acknowledge entries",
    "The chosen entries leave the group's PEL: they count as done, and no other consumer receives them.",
    danger="An entry that was not really processed is not delivered again.")
def _ack(typed: Values, ids: list[bytes], _idle: int) -> Command:
    return command("XACK", typed.word("key"), typed.word("group"), *ids)


@on_entries("giveback", "Give entries back",
    "The chosen entries lose their consumer and are the first that XREADGROUP CLAIM or XAUTOCLAIM takes.",
    (Field("mode", "Why", "FAIL", options=(
        ("FAIL", "FAIL: it was tried; the delivery count stays"),
        ("SILENT", "SILENT: it was not tried; the delivery count falls by one"),
        ("FATAL", "FATAL: nothing can process it; the delivery count becomes the maximum"))),),
    needs="XNACK")
def _give_back(typed: Values, ids: list[bytes], _idle: int) -> Command:
    mode = typed.text("mode", "FAIL")
    if mode not in {"FAIL", "SILENT", "FATAL"}:
        raise ValueError(f"{mode} is not one of FAIL, SILENT, FATAL")
    return command("XNACK", typed.word("key"), typed.word("group"), mode, "IDS", len(ids), *ids)


@on_entries("deadletter", "Move to a dead-letter stream",
    "Each chosen message is added to another stream, with the fields origin-stream, origin-group and origin-id, and "
        "acknowledged here, in one step. A message that is no longer in the stream stays pending.",
    (Field("dead", "Dead-letter stream", hint="empty: the name of this stream with :dead"),))
def _dead_letter(typed: Values, ids: list[bytes], _idle: int) -> Command:
    key = typed.word("key")
    dead = typed.word("dead") if typed.text("dead") else key + b":dead"
    return command("EVAL", MOVE, 2, key, dead, typed.word("group"), "dead", *ids)


@on_entries("replay", "Replay entries",
    "Each chosen message is copied to the end of its stream, and the original is acknowledged, in one step. Every group "
        "of the stream receives the copy as a new message, with its own delivery count.",
    danger="All groups of the stream receive the copies, even if they had processed the messages.")
def _replay(typed: Values, ids: list[bytes], _idle: int) -> Command:
    key = typed.word("key")
    return command("EVAL", MOVE, 2, key, key, typed.word("group"), "again", *ids)


async def _retire(link: Link, typed: Values, progress: Progress) -> Outcome:
    """Hand over the entries a slice at a time until none is left, and only then delete the consumer."""
    hand_over, last = _retire_steps(typed)
    dead = typed.word("consumer")
    summary = await link.call("XPENDING", typed.word("key"), typed.word("group"))
    progress.total = next((int(held) for name, held in replies.listed(summary[3]) if name == dead), 0)
    moved = dropped = 0
    while not progress.stopped:
        reply = (await link.send([hand_over.words]))[0]
        if isinstance(reply, RedisError):
            return Outcome(((hand_over.line, str(reply)),), good=False)
        moved, dropped = moved + reply[0], dropped + reply[1]
        progress.done = moved + dropped
        # A consumer that goes on reading is not dead: the deletion below detects that.
        if not any(reply) or progress.done >= progress.total:
            break
    said = f"{moved:,} entries handed over" + (
        f", {dropped:,} whose messages were deleted left the PEL" if dropped else ""
    )
    done = [(hand_over.line, f"stopped: {said}" if progress.stopped else said)]
    if progress.stopped:
        return Outcome(tuple(done), good=False)
    reply = (await link.send([last.words]))[0]
    if isinstance(reply, RedisError):
        return Outcome((*done, (last.line, str(reply))), good=False)
    if reply == -1:
        done.append((last.line, "not deleted: it has read new entries since then, so it is not dead"))
        return Outcome(tuple(done), good=False)
    return Outcome((*done, (last.line, f"deleted; {reply} pending entries were lost")), good=reply == 0)


@action("retire", "Retire a consumer",
    "Another consumer claims all pending entries of a dead consumer, then the dead consumer is deleted. This order "
        "loses nothing. The delivery counts stay, and the entries of other consumers are not touched.",
    ("key", "group", "consumer"), (_TO,), run=_retire,
    danger="The consumer is deleted at the end, if it has no pending entries left.")
def _retire_steps(typed: Values) -> list[Step]:
    key, group, dead, to = (typed.word(name) for name in ("key", "group", "consumer", "to"))
    if dead == to:
        raise ValueError("choose a consumer other than the one to retire")
    return [
        Step(
            command("EVAL", HAND_OVER, 1, key, group, dead, to, SLICE),
            "XPENDING of this consumer, and XCLAIM … JUSTID of its entries, in one step; repeated until none is left",
        ),
        Step(
            command("EVAL", DELETE_IF_EMPTY, 1, key, group, dead),
            "XGROUP DELCONSUMER, if the consumer has no pending entries, in one step",
        ),
    ]


one_command("delconsumer", "Delete a consumer", "The consumer leaves the group.",
    "XGROUP DELCONSUMER {key} {group} {consumer}",
    danger="Its pending entries leave the PEL and are not delivered again. Retire the consumer to keep them.")
one_command("newconsumer", "Add a consumer", "A consumer is added without reading anything.",
    "XGROUP CREATECONSUMER {key} {group} {consumer}", (Field("consumer", "Name"),))


def _group_id(typed: Values) -> str:
    entry_id = typed.text("id", "$")
    if entry_id not in {"$", "0"}:
        typed.ids()
    return entry_id


@action("setid", "Set the last delivered ID",
    "The group continues after this ID. A smaller ID delivers messages again; $ skips all undelivered messages.",
    ("key", "group"), (Field("id", "ID", "0", hint="an ID, 0 for the beginning, $ for the end"),),
    danger="Messages are delivered twice, or not at all. Pending entries stay pending.")
def _set_id(typed: Values) -> list[Step]:
    return [Step(command("XGROUP", "SETID", typed.word("key"), typed.word("group"), _group_id(typed)))]


@action("newgroup", "Create a group",
    "A group that reads from an ID on. A missing stream is created.", (),
    (Field("key", "Stream"), Field("group", "Group"),
        Field("id", "From ID", "$", hint="0: all messages; $: only new ones")))
def _create_group(typed: Values) -> list[Step]:
    return [
        Step(
            command("XGROUP", "CREATE", typed.word("key"), typed.word("group"), _group_id(typed), "MKSTREAM")
        )
    ]


one_command("delgroup", "Destroy a group",
    "The group, its consumers and its PEL are deleted. The messages of the stream stay.",
    "XGROUP DESTROY {key} {group}", danger="The group's pending entries are forgotten.")


@action("add", "Add an entry", "A message at the end of the stream.", (),
    (Field("key", "Stream"), Field("field", "Field", "item"), Field("value", "Value"),
        Field("id", "ID", "*", hint="*: the server's time")))
def _add(typed: Values) -> list[Step]:
    entry_id = typed.text("id", "*")
    if entry_id != "*":
        typed.ids()
    words = ("XADD", typed.word("key"), entry_id, typed.word("field"), unquote(typed.text("value")))
    return [Step(command(*words))]


@action("delete", "Delete entries",
    "The chosen messages leave the stream. In groups where they are pending they stay pending, without content.",
    ("key",), (_IDS,), danger="The messages are gone.")
def _delete(typed: Values) -> list[Step]:
    return [Step(command("XDEL", typed.word("key"), *typed.ids()))]


@action("trim", "Trim a stream", "Entries before an ID leave the stream.", ("key",),
    (Field("id", "Before the ID"),
        Field("acked", "Which", options=(("", "all of them"),
            ("1", "entries that every group has acknowledged (ACKED, from Redis 8.2 on)")))),
    danger="The messages are gone. Groups that are created later do not read them.")
def _trim(typed: Values) -> list[Step]:
    first, *others = typed.ids()
    if others:
        raise ValueError("one ID is enough")
    acked = ("ACKED",) if typed.text("acked") else ()
    return [Step(command("XTRIM", typed.word("key"), "MINID", first, *acked))]


@action("example", "Try the XCLAIM story",
    "A stream of orders and a group that bills them. Bob takes two orders and stops responding; Alice claims one.",
    (), (Field("key", "Stream", "orders"),))
def _example(typed: Values) -> list[Step]:
    key = unquote(typed.text("key", "orders"))
    return [
        Step(command("XGROUP", "CREATE", key, "billing", "$", "MKSTREAM"), "a group that reads new entries"),
        *(
            Step(command("XADD", key, f"{number}-0", "item", item, "amount", amount), note)
            for number, item, amount, note in (
                (1, "teapot", 2, "three orders, with short IDs"),
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

# fmt: on


@dataclass(slots=True)
class Plan:
    """An action with its typed values: the commands, or why there are none yet (``missing``: a value is missing)."""

    action: Action
    typed: Mapping[str, str]
    steps: list[Step] = field(default_factory=list)
    problem: str = ""
    missing: bool = False

    @property
    def text(self) -> str:
        """The plan's commands in redis-cli's syntax, one per line."""
        return "\n".join(step.line for step in self.steps)


def plan(action: Action, typed: Mapping[str, str]) -> Plan:
    """Return the plan of an action: the commands that it would send, or why there are none yet."""
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


async def run(link: Link, made: Plan, progress: Progress | None = None) -> Outcome:
    """Send the commands of a plan, until an error or ``progress.stopped``; return the outcome.

    Raises GoneError: the server cannot be reached.
    """
    if made.action.run is not None:
        outcome: Outcome = await made.action.run(link, Values(made.typed), progress or Progress())
        return outcome
    return await _one_by_one(link, made.steps)


async def _one_by_one(link: Link, steps: Iterable[Step]) -> Outcome:
    done: list[tuple[str, str]] = []
    for step in steps:
        reply = (await link.send([step.words]))[0]
        done.append((step.line, reply_text(reply)))
        if isinstance(reply, RedisError):
            return Outcome(tuple(done), good=False)
    return Outcome(tuple(done), good=True)


def reply_text(reply: Any, depth: int = 0) -> str:
    """Return a reply in redis-cli's notation, cut to a limited number of lines."""
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
