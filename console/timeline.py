"""The history of a message, from a Rillet's recording of commands and replies, or from its append-only file.

``entry_history`` reads the recording. The append-only file has no replies, no clients and few times, but every change since its last rewrite, even those
before the console started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from redis.exceptions import RedisError

from .connection import Command, Link, Subject, Written, command
from .entry_history import Event, Lives, id_of, ids_behind
from .recorded import command_of, text

LAST: Final = 10_000  # commands that the server keeps
ROWS: Final = 1_000  # commands of the append-only file to keep of one message
_MESSAGES: Final = 32  # of which they are kept
_CLOCK_IDS: Final = 1_000_000_000_000  # a smaller ID is not a time
_READ_SECONDS: Final = 0.25  # reading the append-only file at a time
BEGIN: Final = command("DEBUG", "RECORD", "START", "LAST", LAST)
_KEPT: Final = frozenset(
    b"XADD XREADGROUP XCLAIM XAUTOCLAIM XACK XNACK XACKDEL XDEL XDELEX XTRIM XGROUP DEL UNLINK FLUSHALL FLUSHDB RENAME "
    b"RENAMENX COPY RESTORE MOVE SWAPDB EVAL EVALSHA FCALL MULTI EXEC DISCARD".split()
)
_QUEUED: Final = b"+QUEUED\r\n"
_WHATEVER_KEY: Final = frozenset({b"MULTI", b"EXEC", b"DISCARD", b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})


async def begin(link: Link) -> None:
    """Start a recording (DEBUG RECORD) on the server, and end the previous one."""
    await end(link)
    link.tape.id = int(await link.call(*BEGIN))


def end_of(link: Link) -> Command:
    """Return the command that ends the console's recording."""
    return command("DEBUG", "RECORD", "STOP", link.tape.id, 1 << 62)


async def end(link: Link) -> None:
    """End the console's recording, if there is one; ignore that the server has forgotten it."""
    tape = link.tape
    if tape.id:
        await link.send([end_of(link)])
    tape.forget()


@dataclass(frozen=True, slots=True)
class TapeSubject(Subject[bool]):
    """The console's recording on a Rillet. Each read fetches the new commands, and keeps those about streams."""

    async def read(self, link: Link) -> bool:
        """Fetch the new commands; return True if there is a recording."""
        tape = link.tape
        if not tape.id:
            return False
        waiting = [number for number, row in tape.rows.items() if row[2] is None]
        reply = (await link.send([command("DEBUG", "RECORD", "READ", tape.id, tape.read + 1, *waiting)]))[0]
        if isinstance(reply, RedisError):  # the server was started again, or reset
            tape.forget()
            return False
        tape.dropped, oldest, rows = reply
        for row in rows:
            tape.read = max(tape.read, row[0])
            if row[7][0].upper() in _KEPT or row[8] == _QUEUED or row[2] is None:
                tape.rows[row[0]] = row
            else:
                tape.rows.pop(row[0], None)
        for number in [number for number in tape.rows if number < oldest]:
            del tape.rows[number]
        return True


def waits(link: Link) -> dict[int, tuple[bytes, ...]]:
    """Return the recorded commands that have no reply yet, by client ID: a client's blocked command."""
    return {row[4]: tuple(row[7]) for row in link.tape.rows.values() if row[2] is None}


@dataclass(frozen=True, slots=True)
class FileSubject(Subject[Written | None]):
    """The history of a message in the append-only file; each read continues where the last one ended."""

    key: bytes
    id: str

    async def read(self, link: Link) -> Written | None:
        """Read on in the append-only file, and return everything found so far.

        Return None if the server has no such file, or if the recording has the whole history.
        """
        if not link.controls or self._is_recorded(link):
            return None
        place = self.key, self.id
        written = link.written.pop(place, None) or Written()
        until = time.monotonic() + _READ_SECONDS
        while True:
            cursor = [written.cursor] if written.cursor else []
            reply = (await link.send([command("DEBUG", "AOF-HISTORY", self.key, self.id, *cursor)]))[0]
            if isinstance(reply, RedisError):
                return None if "appendonly yes" in str(reply) else Written(error=str(reply))
            _add(written, reply)
            if not written.left or time.monotonic() > until:
                break
        link.written[place] = written
        if len(link.written) > _MESSAGES:
            del link.written[next(iter(link.written))]
        return written

    def _is_recorded(self, link: Link) -> bool:
        """Return True if the recording has the command that added it."""
        reply = b"$%d\r\n%b\r\n" % (len(self.id), self.id.encode())
        return any(
            row[8] == reply
            and row[3] == link.database
            and self.key in row[6]
            and row[7][0].upper() == b"XADD"
            for row in link.tape.rows.values()
        )


def _add(written: Written, reply: Any) -> None:
    if not written.cursor:
        written.base = bool(reply[2])
    written.cursor, written.left = reply[:2]
    written.rows += [(moment, words) for moment, words in reply[3]]
    extra = len(written.rows) - ROWS
    if extra > 0:
        del written.rows[1 : 1 + extra]
        written.dropped += extra


def events(
    rows: Iterable[Sequence[Any]], key: bytes, entry_id: str, database: int, *, exists: bool
) -> tuple[Event, ...]:
    """Return the history of a message, existing or not, as far as these commands show it."""
    commands = (
        command_of(row)
        for row in rows
        if key in row[6]
        or row[7][0].upper() in _WHATEVER_KEY
        or row[8] == _QUEUED
        or any(row[10:])  # parsing takes long
    )
    entry = id_of(entry_id)
    return Lives(commands, text(key), database, only=entry).history(entry, exists=exists).events


def written_events(
    rows: Iterable[tuple[int | None, list[bytes]]], entry_id: str, *, exists: bool
) -> tuple[Event, ...]:
    """Return the history of a message from the commands of the append-only file, in file order."""
    life = _WrittenLife(id_of(entry_id), exists=exists)
    for moment, words in rows:
        life.see(moment, [text(word) for word in words])
    return tuple(life.events)


class _WrittenLife:
    """Collects the events of one message from commands without replies.

    A delivery appears there as an XCLAIM with its time and delivery count.
    """

    def __init__(self, entry_id: str, *, exists: bool) -> None:
        self.events: list[Event] = []
        self._id = entry_id
        self._exists = exists
        self._is_deleted = False
        self._holders: dict[str, str] = {}
        self._moment: int | None = None
        self._acts: Final[dict[str, Callable[[list[str]], None]]] = {
            "XADD": self._xadd,
            "XTRIM": lambda _: self._delete("trimmed"),
            "XCLAIM": self._xclaim,
            "XACK": lambda words: self._leave(words[2], words[3:], "acknowledged"),
            "XNACK": lambda words: self._leave(words[2], ids_behind(words, 3), "given back"),
            "XACKDEL": self._xackdel,
            "XDEL": lambda words: self._delete(certain=not self._exists or len(words) == 3),
            "XDELEX": lambda _: self._delete(certain=False),
            "XGROUP": self._xgroup,
        }

    def see(self, moment: int | None, words: list[str]) -> None:
        """Add the effect of a command on the message."""
        self._moment = moment
        self._acts.get(words[0].upper(), self._remove)(words)

    def _note(self, what: str, group: str = "", consumer: str = "", **more: Any) -> None:
        self.events.append(Event(what, self._moment, group, consumer, **more))

    def _at(self, exact: int) -> bool:
        """Use the time that a command itself names; return whether it fits the annotation, which may have only seconds."""
        fits = self._moment is None or 0 <= exact - self._moment < 1_000
        if fits:
            self._moment = exact
        return fits

    def _xadd(self, words: list[str]) -> None:
        least = words[3 + (words[3] in {"=", "~"})] if words[2].upper() == "MINID" else "0"
        if _pair(least) > _pair(self._id):
            self._delete("trimmed")
            return
        unknown, stamp = self._moment is None, _pair(self._id)[0]
        self._is_deleted = False
        fits = stamp >= _CLOCK_IDS and self._at(stamp)
        self._note("added", note="the time of its ID" if unknown and fits else "")

    def _xclaim(self, words: list[str]) -> None:
        group, consumer = words[2], words[3]
        holder = self._holders.get(group)
        if self._is_deleted:  # XAUTOCLAIM found it without its entry
            self._drop(group, "it is no longer in the stream")
            return
        stamp, count = _number_after(words, "TIME"), _number_after(words, "RETRYCOUNT") or 0
        if stamp is not None:
            self._at(stamp)
        what = "delivered" if holder is None and count <= 1 else "claimed"
        times = f"delivered {count} times by then" if count > 1 else ""
        self._holders[group] = consumer
        self._note(what, group, consumer, note=times, origin="" if holder in {None, consumer} else holder)

    def _leave(self, group: str, ids: Sequence[str], what: str) -> None:
        holder = self._holders.pop(group, "")
        self._note(what, group, holder, certain=bool(holder) or len(ids) == 1)

    def _xackdel(self, words: list[str]) -> None:
        self._leave(words[2], ids_behind(words, 3), "acknowledged")
        self._delete(certain=False)

    def _delete(self, what: str = "deleted", *, certain: bool = True) -> None:
        if certain or not self._exists:
            self._is_deleted = self._is_deleted or certain
            self._note(what, certain=certain)

    def _xgroup(self, words: list[str]) -> None:
        if words[1].upper() == "DESTROY" or self._holders.get(words[3]) == words[4]:
            self._drop(words[3], " ".join(words[:2]))

    def _drop(self, group: str, note: str) -> None:
        holder = self._holders.pop(group, None)
        if holder is not None:
            self._note("dropped from pending", group, holder, note=note)

    def _remove(self, words: list[str]) -> None:
        """Apply a command that removes or replaces the whole stream."""
        if self.events:
            name = words[0].upper()
            self._holders.clear()
            self._note("removed with its stream", certain=name != "SWAPDB", note=name)


def _number_after(words: Sequence[str], option: str) -> int | None:
    """Return the number after an option of an XCLAIM that a server has propagated."""
    found = [after for word, after in pairwise(words[6:]) if word.upper() == option and after.isdigit()]
    return int(found[0]) if found else None


def _pair(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, id_of(entry_id).split("-")))
