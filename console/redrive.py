"""Send dead letters back to the stream that they came from, each in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from redis.crc import key_slot
from redis.exceptions import ClusterCrossSlotError, NoPermissionError, RedisError

from . import replies
from .actions import Field, Outcome, Progress, Step, action
from .connection import Command, Link, command
from .model import Entry
from .names import command_line, quote, split_line, unquote
from .page_details import entries_of
from .pending_maxima import after
from .read_only import ReadOnlyError
from .selection import pair
from .values import MissingError, Values

SLICE: Final = 100  # entries of one script
ORIGIN: Final = (b"origin-stream", b"origin-group", b"origin-id")  # what *Dead-letter* adds to a message
EDITED: Final = 100_000  # characters of a message that a form edits
# Adds each entry to its stream, without some of its fields, and deletes it here, in one step. So it is in exactly one
# place, and sending the same IDs again does nothing. XDEL of no entry comes first: a user without the right to delete
# must not add. A missing stream is not created, because nobody would read it. An entry that cannot be added stays, and
# does not block others: the reply has the number sent, and an error for each entry that was not.
_BEGIN: Final = (
    b"redis.call('XDEL', KEYS[1], '0-0') if redis.call('EXISTS', KEYS[2]) == 0 then return -1 end "
)
SEND_BACK: Final = (
    _BEGIN
    + b"local function send(add) redis.call(unpack(add)) end "
    + b"local sent, errors, leave = 0, {}, {} for at = 2, ARGV[1] + 1 do leave[ARGV[at]] = true end "
    + b"for at = ARGV[1] + 2, #ARGV do local found = redis.call('XRANGE', KEYS[1], ARGV[at], ARGV[at]) if found[1] then "
    + b"local add, words = {'XADD', KEYS[2], '*'}, found[1][2] for place = 1, #words, 2 do if not leave[words[place]] then "
    + b"add[#add + 1] = words[place] add[#add + 1] = words[place + 1] end end "
    + b"if #add > 3 then local good, error = pcall(send, add) if good then redis.call('XDEL', KEYS[1], ARGV[at]) sent = sent + 1 "
    + b"else errors[#errors + 1] = error.err or error end end end end return {sent, errors}"
)
RESEND: Final = (
    _BEGIN
    + b"if not redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1] then return 0 end "
    + b"local add = {'XADD', KEYS[2], '*'} for at = 2, #ARGV do add[#add + 1] = ARGV[at] end "
    + b"redis.call(unpack(add)) return redis.call('XDEL', KEYS[1], ARGV[1])"
)
NO_ORIGIN: Final = "the field {} does not name the stream that they came from"
NO_STREAM: Final = "there is no stream {}"
OTHER_SLOT: Final = "{} is in another slot of the cluster, where no script can do both: two keys with the same {{tag}} are in one slot"
TOO_MANY_FIELDS: Final = "they have more fields than a script can add, which is about 4,000"
NOTHING_LEFT: Final = "they are no longer here (sent already, or deleted), or have no other fields"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters to send back, and to which stream."""

    key: bytes  # the dead-letter stream
    ids: tuple[str, ...] = ()  # the chosen ones; empty: all that match
    # Fields with a part of their value; all must match. An empty name stands for any field.
    filters: tuple[tuple[bytes, bytes], ...] = ()
    to: bytes = b""  # the target stream; empty: the stream that the field ``origin`` of each letter names
    origin: bytes = ORIGIN[0]
    leave: tuple[bytes, ...] = ORIGIN  # fields that are not sent

    def matches(self, entry: Entry) -> bool:
        """Return True if an entry matches all ``filters``; ``ids`` are not considered."""
        return all(
            any(name in {b"", own} and part in value for own, value in entry.fields)
            for name, part in self.filters
        )

    def target(self, entry: Entry) -> bytes:
        """Return the key of the stream to send an entry to; b"" if neither ``to`` nor the entry names one."""
        return self.to or next((value for name, value in entry.fields if name == self.origin), b"")

    def words(self, target: bytes, ids: list[str]) -> Command:
        """Return the command (a script) that moves these entries to ``target`` in one step."""
        leave = dict.fromkeys(self.leave if self.to else (*self.leave, self.origin))
        return command("EVAL", SEND_BACK, 2, self.key, target, len(leave), *leave, *ids)


@dataclass(slots=True)
class Sent:
    """The number of entries sent to each stream, and the number of entries that stay, by reason."""

    to: dict[bytes, int] = field(default_factory=dict)
    stay: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The total number of entries sent."""
        return sum(self.to.values())

    def keep(self, reason: str, number: int) -> None:
        """Count a number of entries that stay in the dead-letter stream for a reason."""
        if number:
            self.stay[reason] = self.stay.get(reason, 0) + number

    @property
    def reasons(self) -> list[str]:
        """A sentence for each reason why entries stay, with their number."""
        return [f"{number:,} not sent now: {reason}" for reason, number in self.stay.items()]


async def send_back(
    link: Link,
    wanted: Wanted,
    progress: Progress,
    sent: Sent,
    *,
    dry_run: bool = False,
    rate: int = 0,
    tell: Callable[[], None] = lambda: None,
) -> None:
    """Send back the dead letters that the stream has when this starts, in ID order.

    Args:
        progress: updated; ``stopped`` ends this after the current slice.
        sent: updated, so that it is right even if an error ends this.
        dry_run: only count.
        rate: entries per second; 0: no limit.
        tell: called after each slice.

    Raises:
        GoneError: the connection was lost; another run does not send entries again.
        RedisError: the server's error reply.
    """
    length = await link.call("XLEN", wanted.key)
    newest = replies.entries(await link.call("XREVRANGE", wanted.key, "+", "-", "COUNT", 1))
    progress.total = len(wanted.ids) if wanted.ids else 0 if wanted.filters else length
    ids = sorted(set(wanted.ids), key=pair)
    start, began = "-", asyncio.get_running_loop().time()
    while newest and not progress.stopped:
        size = await entries_of(link, wanted.key, min(SLICE, rate or SLICE))
        if wanted.ids:
            chosen, ids = ids[:size], ids[size:]
            got = await link.send([command("XRANGE", wanted.key, one, one) for one in chosen])
            page = [entry for reply in got for entry in replies.entries(_good(reply))]
            sent.keep(NOTHING_LEFT, len(chosen) - len(page))
            ended = not ids
        else:
            page = list(
                replies.entries(await link.call("XRANGE", wanted.key, start, newest[0].id, "COUNT", size))
            )
            ended = len(page) < size
            start = after(page[-1].id) if page else start
        targets: dict[bytes, list[str]] = {}
        for entry in page:
            if wanted.matches(entry):
                targets.setdefault(wanted.target(entry), []).append(entry.id)
        sent.keep(NO_ORIGIN.format(quote(wanted.origin)), len(targets.pop(b"", [])))
        for target, letters in targets.items():
            if dry_run:
                await _look(link, wanted.key, target, len(letters), sent)
            else:
                _count((await link.send([wanted.words(target, letters)]))[0], target, len(letters), sent)
            progress.done = sent.total
        tell()
        if ended:
            break
        if rate:
            await asyncio.sleep(max(0.0, began + sent.total / rate - asyncio.get_running_loop().time()))


def _count(reply: Any, target: bytes, number: int, sent: Sent) -> None:
    """Count the outcome of some entries from the script's reply. Raises an error that does not concern only this target."""
    name = quote(target)
    if isinstance(reply, ClusterCrossSlotError):
        sent.keep(OTHER_SLOT.format(name), number)
    elif isinstance(reply, NoPermissionError):
        sent.keep(f"to {name}: {reply}", number)
    elif _good(reply) == -1:
        sent.keep(NO_STREAM.format(name), number)
    else:
        went, errors = reply
        if went:
            sent.to[target] = sent.to.get(target, 0) + went
        for error in errors:
            said = error.decode("utf-8", "replace")
            sent.keep(TOO_MANY_FIELDS if "too many results" in said else f"to {name}: {said}", 1)
        sent.keep(NOTHING_LEFT, number - went - len(errors))


async def _look(link: Link, key: bytes, target: bytes, number: int, sent: Sent) -> None:
    """Count the expected outcome of some entries, as far as reading shows it."""
    kind = await link.call("TYPE", target)
    if link.is_cluster and key_slot(key) != key_slot(target):
        sent.keep(OTHER_SLOT.format(quote(target)), number)
    elif kind != b"stream":
        sent.keep(NO_STREAM.format(quote(target)), number)
    else:
        sent.to[target] = sent.to.get(target, 0) + number


def _good(reply: Any) -> Any:
    if isinstance(reply, RedisError):
        raise reply
    return reply


def _wanted(typed: Values) -> Wanted:
    ids = () if typed.text("all") else tuple(one.decode() for one in typed.ids())
    name, part = typed.text("field"), typed.text("contains")
    filters = ((unquote(name), unquote(part)),) if typed.text("all") and (name or part) else ()
    return Wanted(
        typed.word("key"),
        ids,
        filters,
        typed.word("to") if typed.text("to") else b"",
        typed.word("origin"),
        tuple(split_line(typed.text("leave"))),
    )


async def _run(link: Link, typed: Values, progress: Progress) -> Outcome:
    if link.read_only:
        raise ReadOnlyError("EVAL is not sent: the console is read-only")
    sent = Sent()
    shown = "\n".join(step.line for step in _steps(typed))
    try:
        await send_back(link, _wanted(typed), progress, sent)
    except RedisError as error:
        return Outcome(((shown, f"{error}; {sent.total:,} were sent back before"),), good=False)
    said = [f"{count:,} sent back to {quote(target)}" for target, count in sent.to.items()]
    said += sent.reasons or ([] if said else ["no message fits"])
    if progress.stopped:
        said.insert(0, "stopped")
    return Outcome(((shown, "\n".join(said)),), good=not progress.stopped and not sent.stay)


@action(
    "redrive",
    "Send back",
    "Each message is added to its original stream, without the fields that name that stream, and deleted here, in one "
    "step. So each message is sent once, even if this is stopped or killed and started again.",
    ("key",),
    (
        Field(
            "all",
            "Which",
            options=(("", "messages with the IDs below"), ("1", "all that match the filter below")),
        ),
        Field("id", "IDs", hint="separated by spaces"),
        Field("field", "Filter: with the field", hint="empty: any"),
        Field("contains", "Filter: whose value contains", hint="empty: anything"),
        Field("to", "To the stream", hint="empty: the stream that the message names"),
        Field("origin", "Field that names the stream", "origin-stream"),
        Field("leave", "Fields that are not sent", "origin-stream origin-group origin-id"),
    ),
    run=_run,
    danger="All groups of that stream receive the messages, even if they processed them before.",
)
def _steps(typed: Values) -> list[Step]:
    wanted = _wanted(typed)
    note = "of all messages that match, page by page; " if not wanted.ids else ""
    words = wanted.words(wanted.to or b"<stream>", list(wanted.ids) or ["<IDs>"])
    return [Step(words, f"{note}{SLICE} at a time, for each stream that they go to")]


async def _message(link: Link, typed: Values) -> dict[str, str]:
    """Return the initial values of the form *Edit and resend*: a line for each field, and the original stream."""
    first = typed.ids()[0]
    found = next(iter(replies.entries(await link.call("XRANGE", typed.word("key"), first, first))), None)
    if found is None:
        return {}
    lines = "\n".join(command_line(one) for one in found.fields if one[0] not in ORIGIN)
    target = Wanted(b"").target(found) or typed.word("key")
    return {"to": quote(target), "fields": lines} if len(lines) <= EDITED else {"to": quote(target)}


async def _run_resend(link: Link, typed: Values, _: Progress) -> Outcome:
    (step,) = _resend(typed)
    to = quote(typed.word("to"))
    reply = (await link.send([step.words]))[0]
    if isinstance(reply, RedisError):
        crossed = isinstance(reply, ClusterCrossSlotError)
        said = OTHER_SLOT.format(to) if crossed else str(reply)
    else:
        said = {-1: NO_STREAM.format(to), 0: "not sent: the message is gone from here"}.get(
            reply, f"sent to {to}"
        )
    return Outcome(((step.line, said),), good=reply == 1)


@action(
    "resend",
    "Edit and resend",
    "The message is added to a stream, with the fields below, and deleted here, in one step.",
    ("key", "id"),
    (
        Field("to", "To the stream"),
        Field(
            "fields", "Fields", hint='a line for each, as redis-cli takes it: note "two cups"', kind="lines"
        ),
    ),
    run=_run_resend,
    begin=_message,
    danger="All groups of that stream receive the message.",
)
def _resend(typed: Values) -> list[Step]:
    first, *others = typed.ids()
    if others:
        raise ValueError("one ID is enough")
    if not typed.text("fields"):
        raise MissingError("fields")
    words: list[bytes] = []
    for number, line in enumerate(typed.text("fields").replace("\r", "").split("\n"), 1):
        both = split_line(line)
        if both and len(both) != 2:
            raise ValueError(f"line {number} is not a name and a value: a value with spaces needs quotes")
        words += both
    return [Step(command("EVAL", RESEND, 2, typed.word("key"), typed.word("to"), first, *words))]
