"""What the recording of a server says about a worker: how it reads, claims, acknowledges, and where its work is seen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from ...commands.spec.command import REGISTRY
from ...protocol.globs import matches
from ...server.families import load_specs
from ..history import ACKNOWLEDGED, CLAIMED, DELETED, DELIVERIES, Lives, in_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..history import Event
    from ..recording import RecordedCommand

load_specs()

SCRIPTS: Final = {"EVAL", "EVALSHA", "FCALL"}
# What a consumer does with a stream is not its work.
_HOUSEKEEPING: Final = {
    "XREADGROUP", "XACK", "XNACK", "XACKDEL", "XCLAIM", "XAUTOCLAIM", "XDEL", "XDELEX", "XTRIM", "XGROUP", "XSETID", "XADD",
}  # fmt: skip
_NUMBER: Final = re.compile(r"\d+")
_ENTRY: Final = re.compile(r"\d+-\d+")


@dataclass(frozen=True, slots=True)
class Read:
    """How a worker asks for entries: the words of one XREADGROUP."""

    group: str
    consumer: str
    streams: tuple[str, ...]
    count: int | None
    block: int | None
    noack: bool
    claim: int | None


def read_of(words: Sequence[str]) -> Read | None:
    """Return what an XREADGROUP says; None for another command."""
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
    """Return the consumer that a command speaks for; None without one."""
    name = words[0].upper()
    if name in {"XCLAIM", "XAUTOCLAIM", "XREADGROUP"} and len(words) > 3:
        return words[3]
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """The sign of a worker's work: a write command, at a key.

    Attributes:
        command: in upper case; "" for any.
        key: a glob.
        carrier: the command that a fault must hit: itself, or the script that runs it.
        says_which: whether its words have the number or the ID of the message.
    """

    command: str
    key: str
    carrier: str
    says_which: bool

    def __str__(self) -> str:
        """Return it as a person would say it."""
        return f"{self.command or 'a write'} at {self.key}"


class Sight:
    """The commands of one moment, as far as they concern one stream and one group.

    Args:
        commands: of a recording.
        database: its index.
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
        """All commands in the order in which they ran, those of scripts and transactions too."""
        return list(in_effect(self.commands))

    @cached_property
    def lives(self) -> Lives:
        """What became of each entry."""
        return Lives(self.commands, self.stream, self._database)

    def events(self, entry: str, *what: str) -> list[Event]:
        """Return what happened to an entry in the group."""
        life = self.lives.by_id.get(entry)
        found = [] if life is None else life.events
        return [each for each in found if each.group == self.group and (not what or each.what in what)]

    def acknowledged(self, entry: str) -> bool:
        """Whether it was; a read with NOACK is an acknowledgement, and a script about it where nobody sees what it ran.

        One whose acknowledgement was sent, even if it never ran, and that the worker has deleted comes to nobody any more.
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
        """Whether a command of a worker has deleted it by its ID; those of the audit are not recorded."""
        life = self.lives.by_id.get(entry)
        return life is not None and any(each.what == DELETED for each in life.events)

    def _hidden(self, entry: str) -> list[tuple[int, RecordedCommand, str]]:
        """Return scripts about an entry whose commands were not recorded, as ``works`` does."""
        return [
            (place, each, each.words[0].upper())
            for place, (each, _) in enumerate(self.effects)
            if each.scripted is None
            and each.error is None
            and each.words[0].upper() in SCRIPTS
            and mentions(each.words[2:], [entry])
        ]

    def delivered_to(self, entry: str) -> list[str]:
        """Return the consumers that it was delivered to, in order."""
        return [each.consumer for each in self.events(entry, *DELIVERIES) if not _is_just_id(each)]

    def reads(self, clients: set[int] | None = None, *, after: int = 0) -> list[tuple[RecordedCommand, Read]]:
        """Return the XREADGROUPs of this group and stream that the server took, of some connections."""
        found = []
        for each, _ in self.effects:
            if each.number <= after or (clients is not None and each.client_id not in clients):
                continue
            read = read_of(each.words)
            if read is None or each.error is not None or read.group != self.group:
                continue
            if self.stream in read.streams:
                found.append((each, read))
        return found

    def min_idles(self) -> list[int]:
        """Return the idle times that entries must have for a claim, in milliseconds, as they were sent."""
        found = []
        for each, _ in self.effects:
            name, words = each.words[0].upper(), each.words
            if name in {"XCLAIM", "XAUTOCLAIM"} and len(words) > 4 and words[1] == self.stream:
                # A heartbeat is a claim of one's own entry, however long it was idle.
                is_heartbeat = "JUSTID" in map(str.upper, words[5:])
                found += [int(words[4])] if words[4].isdigit() and not is_heartbeat else []
            elif name == "XPENDING" and "IDLE" in map(str.upper, words[3:5]) and words[4].isdigit():
                found.append(int(words[4]))
            elif (read := read_of(words)) is not None and read.claim is not None:
                found.append(read.claim)
        return found

    def written(self, command: RecordedCommand) -> bool:
        """Whether a command in effect may be somebody's work."""
        name = command.words[0].upper()
        if command.error is not None or not _writes(name):
            return False
        return not (name in _HOUSEKEEPING and self.stream in command.words[1:3])

    def works(self, work: Work) -> list[tuple[int, RecordedCommand, str]]:
        """Return the places in ``effects``, the commands and the scripts in which a sign of work was seen."""
        return [
            (place, each, inside)
            for place, (each, inside) in enumerate(self.effects)
            if self.written(each)
            and work.command in {"", each.words[0].upper()}
            and any(matches(work.key.encode(), key.encode(errors="surrogateescape")) for key in each.keys)
        ]

    def worked(self, work: Work, signs: Sequence[str]) -> bool:
        """Whether the work of a message was seen; its signs are its number and its ID."""
        return not self._worked(work).isdisjoint(signs)

    @cache  # noqa: B019 - a sight lives as long as one look
    def _worked(self, work: Work) -> set[str]:
        return {
            sign for _, each, _ in self.works(work) for word in each.words[1:] for sign in _signs_in(word)
        }

    def acks(self, entry: str) -> list[tuple[int, RecordedCommand, str]]:
        """Return the acknowledgements of an entry, as ``works`` does."""
        return [
            (place, each, inside)
            for place, (each, inside) in enumerate(self.effects)
            if _acknowledges(each.words, self.stream, self.group) and entry in each.words
        ] + self._hidden(entry)

    def find_work(self, messages: Sequence[tuple[str, Sequence[str]]], done: str | None) -> Work | None:
        """Find the sign of a worker's work.

        Args:
            messages: IDs that were delivered one after the other, each with its signs.
            done: the key at which the work is seen, if it is known.
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
        # A worker that reads ahead works a message after the next one was delivered: only the number of writes counts.
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
        if command.is_a("XREADGROUP") or not self.written(command):  # a delivery is no work
            return []
        return [(command.words[0].upper(), _NUMBER.sub("*", key)) for key in command.keys[:1]]

    def delivery(self, entry: str) -> int | None:
        """Return the place in ``effects`` of the first delivery of an entry."""
        for place, (each, _) in enumerate(self.effects):
            if each.words[0].upper() == "XREADGROUP" and entry in _entries_of(each.reply):
                return place
        return None

    def errors(self, after: int = 0) -> list[RecordedCommand]:
        """Return commands that were answered with an error."""
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
    """Whether a command has one of the signs of a message, or another text, among its words."""
    texts = [sign for sign in signs if not sign[0].isdigit()]
    return any(
        not _signs_in(word).isdisjoint(signs) or any(text in word for text in texts) for word in words[1:]
    )


def entries_in(text: str) -> list[str]:
    """Return the IDs in a text."""
    return _ENTRY.findall(text)


def _signs_in(word: str) -> set[str]:
    """Return the numbers and the IDs in a word."""
    return {*_NUMBER.findall(word), *_ENTRY.findall(word)}


def _entries_of(reply: Any) -> list[str]:
    if not reply:
        return []
    found = reply.values() if isinstance(reply, dict) else [each[1] for each in reply]
    return [entry[0] for entries in found for entry in entries or ()]
