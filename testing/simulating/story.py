"""The story of a simulation: the events by host, and the part of them that an error is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...server.clock import EPOCH
from ..log import escaped

if TYPE_CHECKING:
    from ...console.recorded import RecordedCommand

DRIVER: Final = "driver"
# What the simulator calls messages that are lost or held up.
LOST_OR_HELD: Final = frozenset({"lost", "hold"})
_SHOWN: Final = 80
_AROUND: Final = 6  # lines before and after something that went wrong
_WIDE: Final = 160
_FOLLOWED: Final = 3  # entries; an error about more entries is considered to be about all
_READS: Final = {"XREADGROUP", "XREAD", "XAUTOCLAIM", "BLPOP", "BRPOP", "BZPOPMIN"}
_DELIVERS: Final = {"XREADGROUP", "XREAD", "XAUTOCLAIM", "XCLAIM"}
_CONNECTS: Final = {"HELLO", "CLIENT"}
_SCRIPTS: Final = {"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"}
# Replies that depend on the process and its speed.
_VOLATILE: Final = {"INFO", "MEMORY", "SLOWLOG", "LATENCY"}
_ID: Final = re.compile(r"\d+-\d+")
_QUOTED: Final = re.compile(r"""'([^']+)'|"([^"]+)\"""")
_NUMBER: Final = re.compile(r"(?<![\w.:-])\d+(?![\w.:-])")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the story of a simulation."""

    time: float  # virtual time in milliseconds
    host: str  # the host where it happened
    text: str  # what happened
    is_idle: bool = False  # it is a read that found nothing or timed out, or a new connection
    command: RecordedCommand | None = None  # the command; None for another event

    def __str__(self) -> str:
        return f"{self.time / 1000:10.3f} {self.host:10} {self.text}"


def event_of(command: RecordedCommand, lost: Mapping[int, str]) -> Event:
    """Return the event of a command; ``lost`` maps the ID of each fault to a description of its effect."""
    name = command.words[0].upper()
    is_lost = command.fault is not None and command.fault in lost
    if is_lost:
        reply = f"({lost[command.fault or 0]})"
    elif command.answered is None:
        reply = "(no reply)"
    elif name in _VOLATILE:
        reply = "…"
    else:
        reply = repr(command.reply) if command.error is None else f"(error) {escaped(command.error)}"
    words = " ".join(map(_word, command.words))
    is_empty = (name in _READS or name in _SCRIPTS) and command.error is None and not _found(command.reply)
    return Event(
        command.time - EPOCH,
        command.client,
        f"{_cut(words)} -> {_cut(reply)}",
        is_idle=(is_empty or name in _CONNECTS) and not is_lost,
        command=command,
    )


def _found(reply: Any) -> bool:
    """Return True if the reply of a read contains anything, apart from the cursor of XAUTOCLAIM."""
    return bool(reply[1] or reply[2:] != [[]] if isinstance(reply, list) and reply[:1] == ["0-0"] else reply)


def _cut(text: str) -> str:
    return text if len(text) < _WIDE else f"{text[:_WIDE]}…"


def _word(word: str) -> str:
    """Return a word as a user would type it; quote it if needed, and escape bytes that are not text."""
    if word.isprintable() and word and " " not in word:
        return word
    try:
        word.encode()
    except UnicodeEncodeError:
        return repr(word.encode(errors="surrogateescape"))[1:]
    return repr(word)


# The lines of a story


def told(story: Sequence[Event], error: BaseException, *, whole: bool = False) -> list[str]:
    """Return a story as lines, reduced to the entries and keys that an error is about; show repeated polls once.

    ``whole``: leave nothing out.
    """
    if whole:
        return [escaped(str(event)) for event in story]
    tracks = _Tracks(story)
    entries, keys = tracks.of_error(_text_of(error))
    busy = [event for event in story if not event.is_idle]
    shown = [event for event in busy if tracks.is_about(event, entries, keys)] if entries or keys else busy
    lines = _folded(shown)
    folded = len(story) - len(busy) + len(shown) - len(lines)
    names = [f"entry {entry}" for entry in entries] + [f"key {_word(key)}" for key in keys]
    begin = f"What happened to {', '.join(names)}:" if names else "What happened:"
    others = len(busy) - len(shown)
    hidden = [f"other entries and keys: {others} commands"] if others else []
    hidden += [f"empty reads, repetitions and beginnings of connections: {folded}"] if folded else []
    end = [f"(left out: {', '.join(hidden)}; pytest -vv shows all)"] if hidden else []
    return [escaped(line) for line in (begin, *_shortened(lines), *end)]


def _folded(events: Iterable[Event]) -> list[tuple[str, bool]]:
    """Return one line per event, but a single line for a host's repeated commands with equal replies.

    Returns:
        Each line, and whether it shows something that went wrong.
    """
    lines: list[tuple[str, bool]] = []
    again: dict[tuple[object, ...], tuple[int, int]] = {}  # the line, and how often
    for event in events:
        seen = _poll_of(event)
        if seen not in again:
            for other in [other for other in again if other[0] == event.host]:
                del again[other]
        line, times = again.get(seen, (len(lines), 0))
        again[seen] = line, times + 1
        if not times:
            lines.append((str(event), event.command is None or event.command.fault is not None))
        else:
            text, is_wrong = lines[line]
            end = f" (again until {event.time / 1000:.3f}, {times + 1} times)"
            lines[line] = text.split(" (again until ")[0] + end, is_wrong
    return lines


def _shortened(lines: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Yield all lines; if there are many, only those at both ends and around what went wrong."""
    kept = {*range(len(lines))}
    if len(lines) > _SHOWN:
        wrong = [at for at, (_, is_wrong) in enumerate(lines) if is_wrong][: _SHOWN // (2 * _AROUND)]
        kept = {each for at in (*wrong, 0, len(lines) - 1) for each in range(at - _AROUND, at + _AROUND + 1)}
    left_out = 0
    for at, (line, _) in enumerate(lines):
        if at not in kept:
            left_out += 1
            continue
        if left_out:
            yield f"           … {left_out} more …"
            left_out = 0
        yield line


def _poll_of(event: Event) -> tuple[object, ...]:
    """Return a key that is equal for events that repeat each other; for scripts it ignores the arguments."""
    command = event.command
    if command is None:
        return event.host, event.time, event.text
    if command.words[0].upper() in _SCRIPTS:
        return event.host, command.words[:2], command.keys, repr(command.reply), command.fault
    return event.host, event.text


# What an error is about


def _text_of(error: BaseException) -> str:
    """Return the texts of an error, of the errors in its group and of its causes."""
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    causes = [each for each in (error.__cause__, error.__context__) if each is not None]
    return "\n".join([str(error), *map(_text_of, inside), *map(_text_of, causes[:1])])


class _Tracks:
    """Maps events to the entries that they are about.

    A command is about the entries that it or its reply names. A worker's command that names none is about the entries that
    the worker received last; if a word of the command is in the fields of some of them, it is about those alone.
    """

    def __init__(self, story: Sequence[Event]) -> None:
        self._fields: dict[str, set[str]] = {}
        self._keys: dict[str, set[str]] = {}  # by key, the entries of its commands
        self._path: dict[str, list[str]] = {}  # by entry, the names of its commands
        self._about: dict[int, set[str]] = {}
        self._last_key: list[str] = []
        self._last: Event | None = None
        in_hand: dict[str, set[str]] = {}
        for event in story:
            command = event.command
            if command is None:
                if event.text.startswith(("crashes", "ends", "fails")):
                    self._about[id(event)] = in_hand.pop(event.host, set())
                continue
            name = command.words[0].upper()
            if name == "XADD" and isinstance(command.reply, str):
                self._fields.setdefault(command.reply, set()).update(command.words[3:])
            named = {each for each in _ID.findall(event.text) if each in self._fields}
            named |= {
                each for each in _ID.findall(f"{command.words} {command.reply}") if each in self._fields
            }
            if name in _DELIVERS or (name in _SCRIPTS and named):
                in_hand[event.host] = named
            elif not named and event.host != DRIVER:
                given = in_hand.get(event.host, set())
                words = {part for word in command.words for part in (word, *word.split(":"))}
                named = {each for each in given if words & self._fields[each]} or given
            self._about[id(event)] = named
            for entry in named if event.host != DRIVER or name == "XADD" else ():
                self._path.setdefault(entry, []).append(name)
            for key in command.keys:
                self._keys.setdefault(key, set()).update(named)
            if event.host == DRIVER and command.keys and name != "XADD":
                self._last_key, self._last = list(command.keys), event

    def of_error(self, text: str) -> tuple[list[str], list[str]]:
        """Return the entries and the keys to follow; if both are empty, follow everything."""
        ways = (set(_ID.findall(text)) & self._fields.keys(), self._with_value(text), self._odd())
        keys = {
            key for key in self._keys if key and re.search(rf"(?<![\w:.-]){re.escape(key)}(?![\w:.-])", text)
        }
        by_key = [entries for key in keys if 0 < len(entries := self._keys[key]) <= _FOLLOWED]
        chosen = ways[0] or set().union(*by_key) or ways[1]
        special = {key for key in keys if len(self._keys[key]) <= _FOLLOWED}
        if not chosen and not special:
            chosen = ways[2]
        if not chosen and not special:
            special = {*self._last_key}
        return (sorted(chosen), sorted(special)) if len(chosen) <= _FOLLOWED else ([], [])

    def is_about(self, event: Event, entries: Sequence[str], keys: Container[str]) -> bool:
        """Return True if an event belongs to the story of entries and keys: so do non-commands and the test's last read."""
        return (
            event.command is None
            or event is self._last
            or any(each in self._about[id(event)] for each in entries)
            or any(key in keys for key in event.command.keys)
        )

    def _with_value(self, text: str) -> set[str]:
        """Return the entries with a field whose value an error quotes or has as a number."""
        lines = [
            line for line in text.splitlines() if not line.lstrip().startswith(("assert ", "+", "Use -v"))
        ]
        quoted = {one or other for line in lines for one, other in _QUOTED.findall(line)}
        first = lines[0] if lines and text.startswith(lines[0]) else ""
        numbers = {*_NUMBER.findall(first), *(line.strip() for line in lines if line.strip().isdigit())}
        for values in (quoted, numbers):
            found = {entry for entry, words in self._fields.items() if words & values}
            if 0 < len(found) <= _FOLLOWED:
                return found
        return set()

    def _odd(self) -> set[str]:
        """Return the entries whose commands differ from those of most entries, if they are few."""
        paths = {entry: tuple(path) for entry, path in self._path.items()}
        if not paths:
            return set()
        [(usual, count)] = Counter(paths.values()).most_common(1)
        odd = {entry for entry, path in paths.items() if path != usual}
        return odd if len(odd) <= _FOLLOWED and count > len(paths) // 2 else set()


def of_network(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield an event for each message that the network lost or held up, from the simulator's trace."""
    for event in trace:
        verb, _, ends = event.label.partition(" ")
        if event.kind == "net" and verb in LOST_OR_HELD and ends:
            source, _, target = ends.partition(">")
            what = "is lost" if verb == "lost" else "is held up"
            yield Event(event.when * 1000, "network", f"a message from {source} to {target} {what}")
