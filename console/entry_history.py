"""Derive the history of stream entries from recorded commands and their replies.

Only a reply shows what a command did: XREADGROUP, XCLAIM and XAUTOCLAIM name the entries, XACK only counts them. Commands
between MULTI and EXEC have the replies of EXEC. The commands of a script are recorded beside it, except by an older Rillet,
and MAXLEN does not name the entries that it trims: such events are not certain.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .recorded import RecordedCommand

LOG: Final = logging.getLogger(__name__)

ADDED: Final = "added"
DELIVERED: Final = "delivered"
CLAIMED: Final = "claimed"
READ_AGAIN: Final = "read again"
ACKNOWLEDGED: Final = "acknowledged"
GIVEN_BACK: Final = "given back"
DROPPED: Final = "dropped from pending"
DELETED: Final = "deleted"
TRIMMED: Final = "trimmed"
REMOVED: Final = "removed with its stream"
CAME: Final = "came with its stream"
SCRIPT: Final = "perhaps changed by a script"

DELIVERIES: Final = {DELIVERED, CLAIMED, READ_AGAIN}
_ENDS: Final = {DELETED, REMOVED}
_SCRIPTS: Final = {"EVAL", "EVALSHA", "FCALL", "EVAL_RO", "EVALSHA_RO", "FCALL_RO"}
_ANY_DATABASE: Final = {"FLUSHALL", "SWAPDB", "COPY", "MOVE"}
_ID: Final = re.compile(r"\*|\d")


@dataclass(frozen=True, slots=True)
class Event:
    """What one command did to an entry."""

    # "added", "delivered", "claimed", "read again" (a consumer read its pending entries), "acknowledged", "given
    # back" (XNACK), "dropped from pending" (its consumer or group was removed), "deleted", "trimmed", "removed with
    # its stream", "came with its stream" (RENAME, COPY or RESTORE put another stream under this key), "perhaps
    # changed by a script" (an older Rillet does not record the commands of scripts).
    what: str
    # The server's time in milliseconds; for a blocked command, the time of its reply. None if an append-only file has
    # no time.
    time: int | None
    group: str = ""  # the group of a delivery, a claim or an acknowledgement; else ""
    consumer: str = ""  # the owner from then on, or the last owner; "" if unknown
    client: str = ""  # the name of the client that sent the command, or ``id=…``
    number: int = 0  # the command's number in the recording
    lost: bool = False  # a fault hit the command, so the client may not have received the reply
    certain: bool = True  # False if another command may have caused the event
    note: str = ""  # a detail, e.g. ``XACK inside EVAL`` for a command of a script; "" if there is none.
    origin: str = ""  # the previous owner of a claimed entry, if another; "" if unknown

    def __str__(self) -> str:
        """Return one line: when, what, for whom, by which client."""
        time = self.time or 0
        when = datetime.fromtimestamp(time / 1000, UTC)
        words = [f"{when:%Y-%m-%d %H:%M:%S}.{time % 1000:03d} {self.what}"]
        if self.consumer:
            words.append({DELIVERED: "to ", DROPPED: "of "}.get(self.what, "by ") + self.consumer)
        if self.group:
            words.append(f"in group {self.group}")
        words.append(f"(client {self.client})")
        if self.note:
            words.append(f"({self.note})")
        if self.lost:
            words.append("(a fault hit the command: its reply may be lost)")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class History:
    """The life of one entry."""

    stream: str  # the key
    id: str  # the entry's ID
    events: tuple[Event, ...]  # the events in chronological order
    gaps: tuple[str, ...] = ()  # what the recording does not show; empty if it covers the whole life

    def of(self, *what: str, group: str | None = None) -> list[Event]:
        """Return the events of the kinds ``what`` (see ``Event.what``); with ``group``, only those of that group."""
        return [each for each in self.events if each.what in what and group in {None, each.group}]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        """Return a title and a line for each event and each gap."""
        lines = [f"{self.stream} {self.id}", *(f"  {event}" for event in self.events)]
        return "\n".join(lines + [f"  ({gap})" for gap in self.gaps])


@dataclass(slots=True)
class _Life:
    events: list[Event] = field(default_factory=list)
    holders: dict[str, str] = field(default_factory=dict)  # by group, the consumer that has it pending


class Lives:
    """The lives of one stream's entries, as far as a recording shows them.

    Args:
        database: the index of the stream's database.
        only: the only entry whose events are kept; None for all.
    """

    def __init__(
        self, commands: Iterable[RecordedCommand], stream: str, database: int = 0, *, only: str | None = None
    ) -> None:
        self.stream = stream
        # The events of each entry, without those of the whole stream.
        self.by_id: dict[str, _Life] = defaultdict(_Life)
        self._only = only
        self._database = database
        self._wide: list[Event] = []  # events of the whole stream
        self._trims: list[Event] = []
        self._scene: RecordedCommand
        self._inside = ""  # e.g. "XACK inside EVAL", for a command of a script
        acts: dict[str, Callable[[Sequence[str], Any], None]] = {
            "XADD": self._add,
            "XREADGROUP": self._read,
            "XCLAIM": self._claim,
            "XAUTOCLAIM": self._autoclaim,
            "XACK": self._ack,
            "XNACK": self._nack,
            "XACKDEL": self._ack_and_delete,
            "XDEL": self._delete,
            "XDELEX": self._delete_each,
            "XTRIM": self._trim,
            "XGROUP": self._of_group,
            "DEL": self._remove,
            "UNLINK": self._remove,
            "FLUSHALL": self._remove,
            "FLUSHDB": self._remove,
            "RENAME": self._move,
            "RENAMENX": self._move,
            "COPY": self._move,
            "RESTORE": self._move,
            "MOVE": self._move,
            "SWAPDB": self._move,
            "EVAL": self._script,
            "EVALSHA": self._script,
            "FCALL": self._script,
        }
        for command, self._inside in in_effect(commands):
            name = command.words[0].upper()
            act = acts.get(name)
            if act is None or command.error is not None or command.reply is None:
                continue
            if command.database != database and name not in _ANY_DATABASE:
                continue
            if stream in command.keys or not command.keys:
                self._scene = command
                try:
                    act(command.words, command.reply)
                except (LookupError, TypeError, ValueError):  # a server of another version
                    LOG.exception(
                        "A history leaves out command %d of the recording: %a", command.number, name[:20]
                    )

    def history(self, entry: str, *, exists: bool) -> History:
        """Return the life of an entry; ``exists`` says whether the stream still has it."""
        own = self.by_id.get(entry, _Life()).events
        events = list(_undergone(_in_order(own + self._wide), exists=exists))
        gaps = []
        if not any(each.what in {ADDED, CAME} for each in events):
            gaps.append("its XADD was not recorded: the recording began later")
        if not exists and not any(each.what in _ENDS for each in events):
            trims = [each for each in self._trims if _lived(own, each)]
            trims = trims[1:] if len(trims) > 1 and trims[0].number == own[0].number else trims
            if trims:
                only = len(trims) == 1 and not self._wide
                unsure = "" if only else f"by this command or one of {len(trims) - 1} before it"
                note = "; ".join(filter(None, (unsure, trims[-1].note)))
                events.append(replace(trims[-1], certain=only, note=note))
            else:
                gaps.append("it is gone, and the command that removed it was not recorded")
        return History(self.stream, entry, tuple(events), tuple(gaps))

    # What commands do; `reply` is neither an error nor null

    def _add(self, words: Sequence[str], reply: Any) -> None:
        options = itertools.takewhile(lambda word: not _ID.match(word), words[2:])
        if any(word.upper() in {"MAXLEN", "MINID"} for word in options):
            self._trims.append(self._event(TRIMMED))
        again = any(each.what == ADDED for each in self.by_id.get(reply, _Life()).events)
        self._note(reply, ADDED, note="already there: the same producer and message" if again else "")

    def _read(self, words: Sequence[str], reply: Any) -> None:
        upper = [word.upper() for word in words]
        _, group, consumer = words[1:4]
        at = upper.index("STREAMS", 4)  # after the names of the group and the consumer
        asked = words[at + 1 :]
        starts = dict(zip(asked[: len(asked) // 2], asked[len(asked) // 2 :], strict=False))
        unowned = "NOACK" in upper[4:at]
        found = reply.items() if isinstance(reply, dict) else reply
        for key, entries in found:
            if key != self.stream:
                continue
            for entry in entries or ():
                # With CLAIM, each entry comes with its idle time and its number of previous deliveries.
                was_delivered = len(entry) > 3 and int(entry[3]) > 0
                what = READ_AGAIN if starts[key] != ">" else CLAIMED if was_delivered else DELIVERED
                self._note(entry[0], what, group, consumer, note="NOACK: never pending" if unowned else "")
                if not unowned:
                    self.by_id[entry[0]].holders[group] = consumer

    def _claim(self, words: Sequence[str], reply: Any) -> None:
        just_ids = any(word.upper() == "JUSTID" for word in words[5:])
        self._claimed(words, reply, just_ids=just_ids)
        # XCLAIM removes a deleted entry from the PEL.
        for word in itertools.takewhile(_ID.match, words[5:]):
            life = self.by_id.get(id_of(word))
            if (
                life is not None
                and words[2] in life.holders
                and any(each.what in _ENDS for each in life.events)
            ):
                holder = life.holders.pop(words[2])
                self._note(id_of(word), DROPPED, words[2], holder, note="it is no longer in the stream")

    def _autoclaim(self, words: Sequence[str], reply: Any) -> None:
        just_ids = any(word.upper() == "JUSTID" for word in words[6:])
        self._claimed(words, reply[1], just_ids=just_ids)
        for entry in reply[2] if len(reply) > 2 else ():
            holder = self.by_id.get(entry, _Life()).holders.pop(words[2], "")
            self._note(entry, DROPPED, words[2], holder, note="it is no longer in the stream")

    def _claimed(self, words: Sequence[str], entries: Any, *, just_ids: bool) -> None:
        _, _, group, consumer, *_ = words
        for entry in entries:
            if entry is None:  # deleted: 6.2 and older
                continue
            name = entry if just_ids else entry[0]
            self._note(
                name, CLAIMED, group, consumer, note="JUSTID: not counted as a delivery" if just_ids else ""
            )
            self.by_id[name].holders[group] = consumer

    def _ack(self, words: Sequence[str], reply: Any) -> None:
        self._leave_pending(words[2], [id_of(word) for word in words[3:]], reply, ACKNOWLEDGED)

    def _nack(self, words: Sequence[str], reply: Any) -> None:
        self._leave_pending(words[2], ids_behind(words, 3), reply, GIVEN_BACK)

    def _leave_pending(self, group: str, ids: list[str], count: int, what: str) -> None:
        """Record that these entries left the PEL: all if ``count`` covers them, else those known to be pending."""
        for entry in dict.fromkeys(ids):
            life = self.by_id.get(entry)
            holder = "" if life is None else life.holders.get(group, "")
            if count == len(ids) or (count and holder):
                self._note(entry, what, group, holder)
                self.by_id[entry].holders.pop(group, None)

    def _ack_and_delete(self, words: Sequence[str], reply: Any) -> None:
        for entry, result in zip(ids_behind(words, 3), reply, strict=True):
            if result > 0:
                holder = self.by_id.get(entry, _Life()).holders.get(words[2], "")
                self._note(entry, ACKNOWLEDGED, words[2], holder)
                self.by_id[entry].holders.pop(words[2], None)
            if result == 1:
                self._note_deleted(entry, words)

    def _delete(self, words: Sequence[str], reply: Any) -> None:
        ids = [id_of(word) for word in words[2:]]
        for entry in dict.fromkeys(ids):
            known = self.by_id.get(entry)
            there = known is not None and not any(each.what in _ENDS for each in known.events)
            if reply == len(ids) or (reply and there):
                self._note(entry, DELETED, certain=reply == len(ids))

    def _delete_each(self, words: Sequence[str], reply: Any) -> None:
        for entry, result in zip(ids_behind(words, 2), reply, strict=True):
            if result == 1:
                self._note_deleted(entry, words)

    def _note_deleted(self, entry: str, words: Sequence[str]) -> None:
        self._note(entry, DELETED)
        if any(word.upper() == "DELREF" for word in words[2:4]):
            self.by_id[entry].holders.clear()

    def _trim(self, words: Sequence[str], reply: Any) -> None:
        del words
        if reply:
            self._trims.append(self._event(TRIMMED))

    def _of_group(self, words: Sequence[str], reply: Any) -> None:
        action = words[1].upper()
        if action not in {"DESTROY", "DELCONSUMER"} or not reply:
            return
        group, consumer = words[3], words[4] if action == "DELCONSUMER" else None
        for entry, life in self.by_id.items():
            holder = life.holders.get(group)
            if holder is not None and consumer in {None, holder}:
                self._note(entry, DROPPED, group, holder, note=f"XGROUP {action}")
                del life.holders[group]

    def _remove(self, words: Sequence[str], reply: Any, note: str = "", *, certain: bool = True) -> None:
        del words
        if reply:
            self._wide.append(self._event(REMOVED, note=note, certain=certain))
            for life in self.by_id.values():
                life.holders.clear()

    def _move(self, words: Sequence[str], reply: Any) -> None:
        """Apply a command that removes the stream from its key, or puts another one there."""
        name, here, at = words[0].upper(), (self.stream, self._database), self._scene.database
        source: tuple[str, int] | None = (words[1], at)
        target: tuple[str, int] | None = None
        note = name
        if name == "SWAPDB":
            swapped = {int(word) for word in words[1:3]}
            if len(swapped) == 1 or self._database not in swapped:
                return
            source = target = here
        elif name == "MOVE":
            target = words[1], int(words[2])
            note += f" from database {at}" if target == here else f" to database {words[2]}"
        elif name == "RESTORE":
            source, target = None, source
        else:
            options = [word.upper() for word in words[3:]]
            target = words[2], int(options[options.index("DB") + 1]) if "DB" in options else at
            if source == target:
                return
            note += f" from {words[1]}" if target == here else f" to {words[2]}"
            if name == "COPY":
                source = None
        if reply and here in {source, target}:
            self._remove((), reply=True, note=note, certain=name != "SWAPDB")
            if target == here:
                self._wide.append(self._event(CAME, note=note))

    def _script(self, words: Sequence[str], reply: Any) -> None:
        del words, reply
        if self._scene.keys:
            self._wide.append(self._event(SCRIPT, certain=False))

    def _note(self, entry: str, what: str, group: str = "", consumer: str = "", **more: Any) -> None:
        if self._only in {None, entry}:
            life = self.by_id[entry]
            before = life.holders.get(group, "") if what == CLAIMED else ""
            origin = "" if before == consumer else before
            life.events.append(self._event(what, group, consumer, origin=origin, **more))

    def _event(
        self,
        what: str,
        group: str = "",
        consumer: str = "",
        *,
        note: str = "",
        certain: bool = True,
        origin: str = "",
    ) -> Event:
        by = self._scene
        client = by.client or f"id={by.client_id}"
        when = by.time if by.answered is None else by.answered
        note = "; ".join(filter(None, (note, self._inside)))
        lost = by.fault is not None
        return Event(what, when, group, consumer, client, by.number, lost, certain, note, origin)


def in_effect(commands: Iterable[RecordedCommand]) -> Iterator[tuple[RecordedCommand, str]]:
    """Yield commands in execution order, each with "" or, for a script's command, e.g. "XACK inside EVAL".

    The commands of a transaction come at its EXEC. The commands of a script replace it.
    """
    for command in _outside_transactions(commands):
        if command.words[0].upper() not in _SCRIPTS or command.scripted is None:
            yield command, ""
            continue
        for each in command.scripted:
            inner = replace(
                command,
                words=each.words,
                keys=each.keys,
                database=each.database,
                reply=each.reply,
                error=each.error,
            )
            yield inner, f"{each.words[0].upper()} inside {command.words[0].upper()}"


def _outside_transactions(commands: Iterable[RecordedCommand]) -> Iterator[RecordedCommand]:
    """Yield commands in execution order: those of a transaction at its EXEC, with their own replies."""
    queued: dict[int, list[RecordedCommand]] = {}
    for command in commands:
        name = command.words[0].upper()
        if name in {"MULTI", "DISCARD"}:
            queued.pop(command.client_id, None)
        elif name == "EXEC":
            known, answers = queued.pop(command.client_id, []), command.reply or ()
            # A recording that began after MULTI has only the last commands of the transaction.
            before = max(len(answers) - len(known), 0)
            for position, (each, reply) in enumerate(zip(known, answers[before:], strict=False), before):
                error = str(reply) if isinstance(reply, Exception) else None
                yield replace(
                    each,
                    reply=reply,
                    error=error,
                    number=command.number,
                    time=command.time,
                    answered=command.answered,
                    fault=command.fault,
                    scripted=command.scripted
                    and tuple(inner for inner in command.scripted if inner.position == position),
                )
        elif command.encoded == b"+QUEUED\r\n":
            queued.setdefault(command.client_id, []).append(command)
        else:
            yield command


def _in_order(events: list[Event]) -> list[Event]:
    """Sort events by time; put XADD before the blocked XREADGROUP that it served, whose number is lower."""
    ordered = sorted(events, key=lambda each: (each.time or 0, each.number))
    at = next((index for index, each in enumerate(ordered) if each.what == ADDED), 0)
    while at and ordered[at - 1].time == ordered[at].time and ordered[at - 1].what == DELIVERED:
        ordered[at - 1], ordered[at] = ordered[at], ordered[at - 1]
        at -= 1
    return ordered


def _undergone(events: Iterable[Event], *, exists: bool) -> Iterator[Event]:
    """Yield the entry's events, without events of the whole stream from times when it did not contain the entry."""
    is_there, came = False, None
    for event in events:
        if event.what == CAME:
            came = event
        elif event.what in {REMOVED, SCRIPT}:
            if event.what == REMOVED:
                came = None
            if is_there:
                yield event
            is_there = is_there and event.what != REMOVED
        else:
            if came is not None and event.what != ADDED:
                yield came
            came = None
            yield event
            is_there = event.what != DELETED and (is_there or event.what != DROPPED)
    if came is not None and exists:
        yield came


def _lived(own: list[Event], event: Event) -> bool:
    """Return True if an entry existed when an event of the whole stream happened."""
    first = min((each.number for each in own), default=0)
    ends = [each.number for each in own if each.what in _ENDS]
    return first <= event.number and (not ends or event.number < ends[0])


def ids_behind(words: Sequence[str], start: int) -> list[str]:
    """Return the IDs after the word IDS and their number; the names before ``start`` may also be "IDS"."""
    at = [word.upper() for word in words].index("IDS", start)
    return [id_of(word) for word in words[at + 2 : at + 2 + int(words[at + 1])]]


def id_of(word: str | bytes) -> str:
    """Return the full form of an entry ID: ``1`` is ``1-0``."""
    entry = word.decode(errors="surrogateescape") if isinstance(word, bytes) else word
    return entry if "-" in entry else f"{entry}-0"
