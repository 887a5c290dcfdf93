"""Analysis of a recording: how a worker reads, claims and acknowledges, and where its work shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from ...commands.spec.command import REGISTRY
from ...console.entry_history import ACKNOWLEDGED, CLAIMED, DELETED, DELIVERIES, Event, Lives, in_effect
from ...console.recorded import RecordedCommand
from ...protocol.globs import matches
from ...server.families import load_specs

load_specs()

SCRIPTS: Final = {"EVAL", "EVALSHA", "FCALL"}
# A consumer's operations on its stream do not count as work.
_HOUSEKEEPING: Final = {
    "XREADGROUP", "XACK", "XNACK", "XACKDEL", "XCLAIM", "XAUTOCLAIM", "XDEL", "XDELEX", "XTRIM", "XGROUP", "XSETID", "XADD",
}  # fmt: skip
_NUMBER: Final = re.compile(r"\d+")
_ENTRY: Final = re.compile(r"\d+-\d+")


@dataclass(frozen=True, slots=True)
class Read:
    """The arguments of one XREADGROUP; `block` and `claim` are in milliseconds, and an option not given is None."""

    group: str
    consumer: str
    streams: tuple[str, ...]
    count: int | None
    block: int | None
    noack: bool
    claim: int | None


def read_of(words: Sequence[str]) -> Read | None:
    """Parse an XREADGROUP; return None for another command."""
    if words[0].upper() != "XREADGROUP":
        return None
    upper = [word.upper() for word in words]
    # The group and the consumer may be called STREAMS.
    at = next((place for place in range(4, len(words)) if upper[place] == "STREAMS"), None)
    if at is None:
        return None
    options = upper[4:at]

    def number(name: str) -> int | None:
        if name not in options[:-1]:
            return None
        value = options[options.index(name) + 1]
        return int(value) if value.isdigit() else None

    rest = words[at + 1 :]
    streams = tuple(rest[: len(rest) // 2])
    return Read(
        words[2], words[3], streams, number("COUNT"), number("BLOCK"), "NOACK" in options, number("CLAIM")
    )


def consumer_of(words: Sequence[str]) -> str | None:
    """Return the consumer that an XREADGROUP, XCLAIM or XAUTOCLAIM names; None for any other command."""
    name = words[0].upper()
    if name in {"XCLAIM", "XAUTOCLAIM", "XREADGROUP"} and len(words) > 3:
        return words[3]
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """The write command that shows a worker's work: its name and its key."""

    command: str  # the name in upper case; "" for any
    key: str  # a glob for the key
    carrier: str  # the command that a fault must hit: the write command, or the script that runs it
    says_which: bool  # whether its words contain the number or the ID of the message

    def __str__(self) -> str:
        """Describe it for a reader."""
        return f"{self.command or 'a write'} at {self.key}"


class Analysis:
    """An analysis of the commands that were recorded up to now, for one stream and one group.

    ``database``: the index of the stream's database.
    """

    def __init__(
        self, commands: Iterable[RecordedCommand], stream: str, group: str, database: int = 0
    ) -> None:
        self.commands = list(commands)
        self.stream = stream
        self.group = group
        self._database = database

    @cached_property
    def effects(self) -> list[tuple[RecordedCommand, str]]:
        """All commands in execution order, each with "" or its script (``XACK inside EVAL``).

        A script is replaced by its commands, and those of a transaction come at its EXEC.
        """
        return list(in_effect(self.commands))

    @cached_property
    def lives(self) -> Lives:
        """The events of every entry of the stream, by entry ID (see ``console/entry_history.py``)."""
        return Lives(self.commands, self.stream, self._database)

    def events(self, entry: str, *what: str) -> list[Event]:
        """Return an entry's events in this group; ``what`` limits them to some kinds (see ``history.Event``)."""
        life = self.lives.by_id.get(entry)
        found = [] if life is None else life.events
        return [each for each in found if each.group == self.group and (not what or each.what in what)]

    def acknowledged(self, entry: str) -> bool:
        """Return True if an entry was acknowledged, by XACK, XACKDEL, XDELEX or a read with NOACK.

        Two more cases count: a successful script that mentions the entry and whose commands were not recorded; and a
        deletion if the worker also sent an acknowledgement, even one that never ran, because the entry is gone.
        """
        return (
            any(
                each.what == ACKNOWLEDGED or each.note.startswith("NOACK")
                for each in self.events(entry, ACKNOWLEDGED, *DELIVERIES)
            )
            or (self._deleted(entry) and bool(self.acks(entry)))
            or bool(self._hidden(entry))
        )

    def _deleted(self, entry: str) -> bool:
        """Return True if a worker deleted the entry by its ID; the audit's own commands are not recorded."""
        life = self.lives.by_id.get(entry)
        return life is not None and any(each.what == DELETED for each in life.events)

    def _hidden(self, entry: str) -> list[tuple[int, RecordedCommand, str]]:
        """Return the scripts about an entry whose commands were not recorded, in the form of ``works``."""
        return [
            (place, each, each.words[0].upper())
            for place, (each, _) in enumerate(self.effects)
            if each.scripted is None
            and each.error is None
            and each.words[0].upper() in SCRIPTS
            and mentions(each.words[2:], [entry])
        ]

    def delivered_to(self, entry: str) -> list[str]:
        """Return the consumers that an entry was delivered to, in order; a consumer may occur several times."""
        return [each.consumer for each in self.events(entry, *DELIVERIES) if not _is_just_id(each)]

    def reads(self, clients: set[int] | None = None) -> list[tuple[RecordedCommand, Read]]:
        """Return the successful XREADGROUPs of this group and stream, parsed; ``clients`` limits them to client IDs."""
        found = []
        for each, _ in self.effects:
            if clients is not None and each.client_id not in clients:
                continue
            read = read_of(each.words)
            if read is None or each.error is not None or read.group != self.group:
                continue
            if self.stream in read.streams:
                found.append((each, read))
        return found

    def min_idles(self) -> list[int]:
        """Return the minimum idle times, in milliseconds, with which the worker claims or looks for pending entries.

        Claims with JUSTID are left out: these are heartbeats.
        """
        found = []
        for each, _ in self.effects:
            name, words = each.words[0].upper(), each.words
            if name in {"XCLAIM", "XAUTOCLAIM"} and len(words) > 4 and words[1] == self.stream:
                # A claim with JUSTID is a heartbeat: the worker claims its own entry, whatever its idle time.
                is_heartbeat = "JUSTID" in map(str.upper, words[5:])
                found += [int(words[4])] if words[4].isdigit() and not is_heartbeat else []
            elif name == "XPENDING" and "IDLE" in map(str.upper, words[3:5]) and words[4].isdigit():
                found.append(int(words[4]))
            elif (read := read_of(words)) is not None and read.claim is not None:
                found.append(read.claim)
        return found

    def written(self, command: RecordedCommand) -> bool:
        """Return True if a command may be a worker's work: a successful write, but no consumer's command on the stream."""
        name = command.words[0].upper()
        if command.error is not None or not _writes(name):
            return False
        return not (name in _HOUSEKEEPING and self.stream in command.words[1:3])

    def works(self, work: Work) -> list[tuple[int, RecordedCommand, str]]:
        """Return the commands that match ``work``: the index in ``effects``, the command, and its script ("" if none)."""
        return [
            (place, each, inside)
            for place, (each, inside) in enumerate(self.effects)
            if self.written(each)
            and work.command in {"", each.words[0].upper()}
            and any(matches(work.key.encode(), key.encode(errors="surrogateescape")) for key in each.keys)
        ]

    def worked(self, work: Work, signs: Sequence[str]) -> bool:
        """Return True if a command of the work mentions one of ``signs``: a message's number or entry ID."""
        return not self._worked(work).isdisjoint(signs)

    @cache  # noqa: B019 - an analysis is short-lived
    def _worked(self, work: Work) -> set[str]:
        return {
            sign for _, each, _ in self.works(work) for word in each.words[1:] for sign in _signs_in(word)
        }

    def acks(self, entry: str) -> list[tuple[int, RecordedCommand, str]]:
        """Return the commands that acknowledge an entry, including failed ones, as tuples like those of ``works``."""
        return [
            (place, each, inside)
            for place, (each, inside) in enumerate(self.effects)
            if _acknowledges(each.words, self.stream, self.group) and entry in each.words
        ] + self._hidden(entry)

    def find_work(self, messages: Sequence[tuple[str, Sequence[str]]], done: str | None) -> Work | None:
        """Find the command by which a worker's work shows; None if there is none.

        Args:
            messages: entries that were delivered one after another: the ID of each, and its signs (number and ID).
            done: the key at which the work shows, if it is known.
        """
        if done is not None:
            found = self.works(Work("", done, "", says_which=False))
            if not found:
                return None
            says = all(any(mentions(each.words, signs) for _, each, _ in found) for _, signs in messages)
            _, first, inside = found[0]
            return Work(first.words[0].upper() if not inside else "", done, _carrier(first, inside), says)
        begin = self.delivery(messages[0][0])
        if begin is None:
            return None
        before = {kind for each, _ in self.effects[:begin] for kind in self._kinds(each)}
        # A worker that reads ahead processes a message after the next was delivered, so only the number of writes counts.
        for says_which in (True, False):
            kinds: dict[tuple[str, str], list[tuple[RecordedCommand, str]]] = {}
            for each, inside in self.effects[begin:]:
                if says_which and not any(mentions(each.words, signs) for _, signs in messages):
                    continue
                for kind in self._kinds(each):
                    if says_which or kind not in before:
                        kinds.setdefault(kind, []).append((each, inside))
            for (name, key), writes in kinds.items():
                each_one = (
                    all(any(mentions(each.words, signs) for each, _ in writes) for _, signs in messages)
                    if says_which
                    else len(writes) >= len(messages)
                )
                if each_one:
                    return Work(name, key, _carrier(*writes[0]), says_which)
        return None

    def _kinds(self, command: RecordedCommand) -> list[tuple[str, str]]:
        if command.is_a("XREADGROUP") or not self.written(command):  # a delivery is not work
            return []
        return [(command.words[0].upper(), _NUMBER.sub("*", key)) for key in command.keys[:1]]

    def delivery(self, entry: str) -> int | None:
        """Return the index in ``effects`` of the XREADGROUP that first delivered an entry; None if there is none."""
        for place, (each, _) in enumerate(self.effects):
            if each.words[0].upper() == "XREADGROUP" and entry in _entries_of(each.reply):
                return place
        return None

    def errors(self, after: int = 0) -> list[RecordedCommand]:
        """Return the commands that failed and whose number in the recording is greater than ``after``."""
        return [each for each in self.commands if each.number > after and each.error is not None]


def _acknowledges(words: Sequence[str], stream: str, group: str) -> bool:
    name = words[0].upper()
    if name == "XDELEX":  # in every group
        return words[1] == stream and words[2].upper() == "DELREF"
    return name in {"XACK", "XACKDEL"} and tuple(words[1:3]) == (stream, group)


def _writes(name: str) -> bool:
    found = REGISTRY.get(name.lower())
    return found is not None and "write" in found.flags


def _is_just_id(event: Event) -> bool:
    return event.what == CLAIMED and "JUSTID" in event.note


def _carrier(command: RecordedCommand, inside: str) -> str:
    return inside.rpartition(" ")[2] if inside else command.words[0].upper()


def mentions(words: Sequence[str], signs: Sequence[str]) -> bool:
    """Return True if the arguments contain one of ``signs``: a number or an ID as a whole, other text as a substring."""
    texts = [sign for sign in signs if not sign[0].isdigit()]
    return any(
        not _signs_in(word).isdisjoint(signs) or any(text in word for text in texts) for word in words[1:]
    )


def entries_in(text: str) -> list[str]:
    """Return the entry IDs that occur in a text, such as a verdict."""
    return _ENTRY.findall(text)


def _signs_in(word: str) -> set[str]:
    """Return the numbers and the IDs in a word."""
    return {*_NUMBER.findall(word), *_ENTRY.findall(word)}


def _entries_of(reply: Any) -> list[str]:
    if not reply:
        return []
    found = reply.values() if isinstance(reply, dict) else [each[1] for each in reply]
    return [entry[0] for entries in found for entry in entries or ()]
