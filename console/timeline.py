"""The history of a message, from a Rillet's recording of commands and replies, or from its append-only file.

Only the reply shows the effect of a command: XREADGROUP and XCLAIM list the entries, XACK counts them. Commands
between MULTI and EXEC have their replies in EXEC's. The commands of a script are recorded beside it (an older Rillet
did not record them), and MAXLEN does not name what it trims: such events are uncertain.

The append-only file has no replies, no clients and few times, but every change since its last rewrite, even those
before the console started.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import hiredis
from redis.exceptions import RedisError

from .link import Subject, Written, command
from .names import ids_behind, number_behind, plain, whole_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .link import Command, Link

LOG: Final = logging.getLogger(__name__)
LAST: Final = 10_000  # commands that the server keeps
ROWS: Final = 1_000  # commands of the append-only file to keep of one message
_MESSAGES: Final = 32  # of which they are kept
_CLOCK_IDS: Final = 1_000_000_000_000  # IDs below are no times
_READ_SECONDS: Final = 0.25  # reading the append-only file at a time
BEGIN: Final = command("DEBUG", "RECORD", "START", "LAST", LAST)
_KEPT: Final = frozenset(
    b"XADD XREADGROUP XCLAIM XAUTOCLAIM XACK XNACK XACKDEL XDEL XDELEX XTRIM XGROUP DEL UNLINK FLUSHALL FLUSHDB RENAME "
    b"RENAMENX COPY RESTORE MOVE SWAPDB EVAL EVALSHA FCALL MULTI EXEC DISCARD".split()
)
_SCRIPTS: Final = frozenset({b"EVAL", b"EVALSHA", b"FCALL"})
_QUEUED: Final = b"+QUEUED\r\n"
_WHATEVER_KEY: Final = frozenset({b"MULTI", b"EXEC", b"DISCARD", b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})
_ANY_DATABASE: Final = frozenset({b"FLUSHALL", b"SWAPDB", b"COPY", b"MOVE"})


async def begin(link: Link) -> None:
    """Start a recording, and end the previous one. Raises RedisError: the server is no Rillet with debug commands."""
    await end(link)
    link.tape.id = int(await link.call(*BEGIN))


def end_of(link: Link) -> Command:
    """Return the command that ends the recording."""
    return command("DEBUG", "RECORD", "STOP", link.tape.id, 1 << 62)


async def end(link: Link) -> None:
    """End the recording, if there is one; ignore that the server has forgotten it."""
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


@dataclass(frozen=True, slots=True)
class Event:
    """What one command did to a message.

    Attributes:
        what: "added", "delivered", "read again", "claimed", "given back", "acknowledged", "dropped from pending",
            "deleted", "trimmed", "removed with its stream", "came with its stream" (by a command that put another
            stream in this place) or "perhaps changed by a script" (an older Rillet does not record what scripts did).
        time: milliseconds of the server's clock; of a blocked command the time of its reply. None if the append-only
            file has no time.
        consumer: the owner afterwards, or the last one.
        certain: False if another command may have done it.
        note: a remark, such as ``XACK inside EVAL`` for a command of a script.
        origin: the previous owner of a claimed entry.
    """

    what: str
    time: int | None
    group: bytes = b""
    consumer: bytes = b""
    client: str = ""
    certain: bool = True
    note: str = ""
    origin: bytes = b""


def events(
    rows: Iterable[Sequence[Any]], key: bytes, entry_id: str, database: int, *, exists: bool
) -> tuple[Event, ...]:
    """Return the history of a message, existing or not, as far as these commands show it."""
    life = _Life(key, whole_id(entry_id.encode()), database)
    rows = [
        row
        for row in rows
        if key in row[6]
        or row[7][0].upper() in _WHATEVER_KEY
        or row[8] == _QUEUED
        or any(row[10:])  # parsing takes long
    ]
    for row, reply, inside in _in_effect(rows):
        name = row[7][0].upper()
        concerns = (key in row[6] or name in _WHATEVER_KEY) and (row[3] == database or name in _ANY_DATABASE)
        if concerns and reply is not None and not isinstance(reply, Exception):
            life.see(row, reply, inside)
    found = life.events + ([life.arrival] if exists and life.arrival else [])
    if (
        not exists
        and life.trims
        and not any(one.what in {"deleted", "removed with its stream"} for one in found)
    ):
        found = [*found, replace(life.trims[-1], certain=len(life.trims) == 1)]
    found = sorted(found, key=lambda one: one.time or 0)
    at = next((at for at, one in enumerate(found) if one.what == "added"), 0)
    # A blocked reader has a lower number than the XADD that it waited for.
    while at and found[at - 1].time == found[at].time and found[at - 1].what == "delivered":
        found[at - 1], found[at] = found[at], found[at - 1]
        at -= 1
    return tuple(found)


def _in_effect(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Any, str]]:
    """Yield commands in the order in which they ran; those of a script take its place and name it."""
    for row, reply in _outside_transactions(rows):
        name = row[7][0].upper()
        if name not in _SCRIPTS or len(row) < 11:
            yield row, reply, ""
            continue
        for _, database, keys, words, encoded in row[10]:
            inside = b"%b inside %b" % (words[0].upper(), name)
            inner = [*row[:3], database, *row[4:6], keys, words, encoded, row[9], []]
            yield inner, _parsed(encoded), inside.decode("ascii")


def _outside_transactions(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], Any]]:
    """Yield the commands with their replies; those of a transaction when EXEC ran them."""
    queued: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        name, client = row[7][0].upper(), row[4]
        reply = None if row[8] is None else _parsed(row[8])
        if name in {b"MULTI", b"DISCARD"}:
            queued.pop(client, None)
        elif name == b"EXEC":
            known, results = queued.pop(client, []), reply if isinstance(reply, list) else []
            # A recording that starts after MULTI has only the last of its commands.
            before = max(len(results) - len(known), 0)
            for position, (one, result) in enumerate(zip(known, results[before:], strict=False), before):
                inner = [[each for each in scripted if each[0] == position] for scripted in row[10:]]
                yield [*one[:1], row[1], row[2], *one[3:8], b"", row[9], *inner], result
        elif row[8] == _QUEUED:
            queued.setdefault(client, []).append(row)
        else:
            yield row, reply


def _parsed(encoded: bytes) -> Any:
    reader = hiredis.Reader(notEnoughData=None)
    reader.feed(encoded)
    return reader.gets()


class _Life:
    """Collects the events of one message, and the trims of its stream since it was added."""

    def __init__(self, key: bytes, entry_id: bytes, database: int) -> None:
        self.events: list[Event] = []
        self.arrival: Event | None = None  # of its stream, until something shows that the message is in it
        self._is_gone = False
        self._key = key
        self._database = database
        self._id = entry_id
        self._holders: dict[bytes, bytes] = {}  # consumers by group, while it is pending
        self._row: Sequence[Any] = ()
        self._inside = ""
        self.trims: list[Event] = []
        self._acts: Final[dict[bytes, Callable[[list[bytes], Any], None]]] = {
            b"XADD": self._xadd,
            b"XREADGROUP": self._xreadgroup,
            b"XCLAIM": self._xclaim,
            b"XAUTOCLAIM": self._xautoclaim,
            b"XACK": self._xack,
            b"XNACK": self._xnack,
            b"XACKDEL": self._xackdel,
            b"XDEL": self._xdel,
            b"XDELEX": self._xdelex,
            b"XTRIM": self._xtrim,
            b"XGROUP": self._xgroup,
            **dict.fromkeys((b"DEL", b"UNLINK", b"FLUSHALL", b"FLUSHDB"), self._del),
            **dict.fromkeys((b"RENAME", b"RENAMENX", b"COPY", b"RESTORE", b"MOVE", b"SWAPDB"), self._move),
            **dict.fromkeys(_SCRIPTS, self._script),
        }

    def see(self, row: Sequence[Any], reply: Any, inside: str) -> None:
        """Add the effect of a command on the message. A command that cannot be understood is logged and skipped."""
        self._row, self._inside = row, inside
        words: list[bytes] = row[7]
        seen = self._acts.get(words[0].upper())
        if seen is None:
            return
        try:
            seen(words, reply)
        except Exception:
            LOG.exception("A timeline leaves out command %d of the recording: %a", row[0], words[0][:20])

    def _event(
        self,
        what: str,
        group: bytes = b"",
        consumer: bytes = b"",
        *,
        certain: bool = True,
        note: str = "",
        origin: bytes = b"",
    ) -> Event:
        row = self._row
        client = plain(row[5].decode("utf-8", "replace")) or f"id {row[4]}"
        lost = "a fault hit the command: its reply may be lost" if row[9] else ""
        moment = row[1] if row[2] is None else row[2]
        said = "; ".join(filter(None, (note, self._inside, lost)))
        return Event(what, moment, group, consumer, client, certain, said, origin)

    def _note(self, what: str, group: bytes = b"", consumer: bytes = b"", **more: Any) -> None:
        if more.get("certain", True):
            came = [self.arrival] if self.arrival is not None and what != "added" else []
            self.events += came
            self.arrival = None
            if what in {"deleted", "removed with its stream"}:
                self._is_gone = True
            elif came or what == "added":
                self._is_gone = False
        self.events.append(self._event(what, group, consumer, **more))

    def _xadd(self, words: list[bytes], reply: Any) -> None:
        if reply == self._id:
            self._note("added")
        elif any(word.upper() in {b"MAXLEN", b"MINID"} for word in words[2:5]):
            self._xtrim(words, 1)

    def _xreadgroup(self, words: list[bytes], reply: Any) -> None:
        upper = [word.upper() for word in words]
        at = upper.index(b"STREAMS", 4)  # behind the names of the group and the consumer
        streams = words[at + 1 :]
        start = streams[len(streams) // 2 :][streams.index(self._key)]
        unowned = b"NOACK" in upper[4:at]
        for key, found in reply.items() if isinstance(reply, dict) else reply:
            for entry in (found or ()) if key == self._key else ():
                if entry[0] == self._id:
                    # With CLAIM each entry has its idle time and its earlier delivery count.
                    again = len(entry) > 3 and int(entry[3]) > 0
                    what = "read again" if start != b">" else "claimed" if again else "delivered"
                    note = "NOACK: never pending" if unowned else ""
                    before = _other(self._holders.get(words[2]), words[3]) if again else b""
                    self._note(what, words[2], words[3], note=note, origin=before)
                    if not unowned:
                        self._holders[words[2]] = words[3]

    def _xclaim(self, words: list[bytes], reply: Any) -> None:
        just_ids = any(word.upper() == b"JUSTID" for word in words[5:])
        for entry in reply:
            if entry is not None and (entry if just_ids else entry[0]) == self._id:
                note = "JUSTID: not counted as a delivery" if just_ids else ""
                before = _other(self._holders.get(words[2]), words[3])
                self._note("claimed", words[2], words[3], note=note, origin=before)
                self._holders[words[2]] = words[3]

    def _xautoclaim(self, words: list[bytes], reply: Any) -> None:
        self._xclaim(words, reply[1])
        if len(reply) > 2 and self._id in reply[2]:
            self._drop(words[2], "it is no longer in the stream")

    def _xack(self, words: list[bytes], reply: Any) -> None:
        self._left(words[2], words[3:], reply, "acknowledged")

    def _xnack(self, words: list[bytes], reply: Any) -> None:
        self._left(words[2], ids_behind(words, 3), reply, "given back")

    def _left(self, group: bytes, ids: Sequence[bytes], count: int, what: str) -> None:
        if self._id not in map(whole_id, ids) or not count:
            return
        holder = self._holders.pop(group, b"")
        if holder or count == len(ids):
            self._note(what, group, holder)
        else:
            self._note(what, group, certain=False)

    def _xackdel(self, words: list[bytes], reply: Any) -> None:
        for entry, result in zip(ids_behind(words, 3), reply, strict=False):
            if whole_id(entry) == self._id and result > 0:
                self._note("acknowledged", words[2], self._holders.pop(words[2], b""))
                if result == 1:
                    self._note("deleted")

    def _xdel(self, words: list[bytes], reply: Any) -> None:
        ids = {whole_id(word) for word in words[2:]}
        if self._id in ids and reply:
            self._note("deleted", certain=reply == len(ids))

    def _xdelex(self, words: list[bytes], reply: Any) -> None:
        for entry, result in zip(ids_behind(words, 2), reply, strict=False):
            if whole_id(entry) == self._id and result == 1:
                self._note("deleted")

    def _xtrim(self, words: list[bytes], reply: Any) -> None:
        del words
        if reply:
            self.trims.append(self._event("trimmed"))

    def _xgroup(self, words: list[bytes], reply: Any) -> None:
        action = words[1].upper()
        if reply and action == b"DESTROY":
            self._drop(words[3], "XGROUP DESTROY")
        elif action == b"DELCONSUMER" and self._holders.get(words[3]) == words[4]:
            self._drop(words[3], "XGROUP DELCONSUMER")

    def _drop(self, group: bytes, note: str) -> None:
        if group in self._holders:
            self._note("dropped from pending", group, self._holders.pop(group), note=note)

    def _del(self, words: list[bytes], reply: Any) -> None:
        del words
        if reply:
            self._lose()

    def _lose(self, *, certain: bool = True, note: str = "") -> None:
        """Record that the key no longer holds the stream."""
        self.arrival = None
        if self.events and not self._is_gone:
            self._note("removed with its stream", certain=certain, note=note)
        self._holders.clear()

    def _move(self, words: list[bytes], reply: Any) -> None:
        """Apply a command that removes the stream from its key, or puts another one there."""
        name, here, at = words[0].upper(), (self._key, self._database), self._row[3]
        source: tuple[bytes, int] | None = (words[1], at)
        target: tuple[bytes, int] | None = None
        if name == b"SWAPDB":
            swapped = {int(word) for word in words[1:3]}
            if len(swapped) == 1 or self._database not in swapped:
                return
            source = target = here
        elif name == b"MOVE":
            target = words[1], int(words[2])
        elif name == b"RESTORE":
            source, target = None, source
        else:
            database = number_behind(words, b"DB", 3)
            target = words[2], at if database is None else database
            if source == target:
                return
            if name == b"COPY":
                source = None
        if not reply or here not in {source, target}:
            return
        note = name.decode()
        if name in {b"RENAME", b"RENAMENX", b"COPY"}:
            other = words[1] if target == here else words[2]
            note += f" {'from' if target == here else 'to'} {plain(other[:100].decode('utf-8', 'replace'))}"
        self._lose(certain=name != b"SWAPDB", note=note)
        if target == here:
            self.trims.clear()
            self._is_gone = True
            self.arrival = self._event("came with its stream", note=note)

    def _script(self, words: list[bytes], reply: Any) -> None:
        del words, reply
        self._note("perhaps changed by a script", certain=False)


def written_events(
    rows: Iterable[tuple[int | None, list[bytes]]], entry_id: str, *, exists: bool
) -> tuple[Event, ...]:
    """Return the history of a message from the commands of the append-only file, in file order."""
    life = _WrittenLife(whole_id(entry_id.encode()), exists=exists)
    for moment, words in rows:
        life.see(moment, words)
    return tuple(life.events)


class _WrittenLife:
    """Collects the events of one message from commands without replies.

    A delivery appears there as an XCLAIM with its time and delivery count.
    """

    def __init__(self, entry_id: bytes, *, exists: bool) -> None:
        self.events: list[Event] = []
        self._id = entry_id
        self._exists = exists
        self._is_deleted = False
        self._holders: dict[bytes, bytes] = {}
        self._moment: int | None = None
        self._acts: Final[dict[bytes, Callable[[list[bytes]], None]]] = {
            b"XADD": self._xadd,
            b"XTRIM": lambda _: self._delete("trimmed"),
            b"XCLAIM": self._xclaim,
            b"XACK": lambda words: self._leave(words[2], words[3:], "acknowledged"),
            b"XNACK": lambda words: self._leave(words[2], ids_behind(words, 3), "given back"),
            b"XACKDEL": self._xackdel,
            b"XDEL": lambda words: self._delete(certain=not self._exists or len(words) == 3),
            b"XDELEX": lambda _: self._delete(certain=False),
            b"XGROUP": self._xgroup,
        }

    def see(self, moment: int | None, words: list[bytes]) -> None:
        """Add the effect of a command on the message."""
        self._moment = moment
        self._acts.get(words[0].upper(), self._remove)(words)

    def _note(self, what: str, group: bytes = b"", consumer: bytes = b"", **more: Any) -> None:
        self.events.append(Event(what, self._moment, group, consumer, **more))

    def _at(self, exact: int) -> bool:
        """Use the time that a command itself names; return whether it fits the annotation, which may have only seconds."""
        fits = self._moment is None or 0 <= exact - self._moment < 1_000
        if fits:
            self._moment = exact
        return fits

    def _xadd(self, words: list[bytes]) -> None:
        least = words[3 + (words[3] in {b"=", b"~"})] if words[2].upper() == b"MINID" else b"0"
        if _pair(least) > _pair(self._id):
            self._delete("trimmed")
            return
        unknown, stamp = self._moment is None, _pair(self._id)[0]
        self._is_deleted = False
        fits = stamp >= _CLOCK_IDS and self._at(stamp)
        self._note("added", note="the time of its ID" if unknown and fits else "")

    def _xclaim(self, words: list[bytes]) -> None:
        group, consumer = words[2], words[3]
        holder = self._holders.get(group)
        if self._is_deleted:  # XAUTOCLAIM found it without its entry
            self._drop(group, "it is no longer in the stream")
            return
        stamp, count = number_behind(words, b"TIME", 6), number_behind(words, b"RETRYCOUNT", 6) or 0
        if stamp is not None:
            self._at(stamp)
        what = "delivered" if holder is None and count <= 1 else "claimed"
        times = f"delivered {count} times by then" if count > 1 else ""
        self._holders[group] = consumer
        self._note(what, group, consumer, note=times, origin=_other(holder, consumer))

    def _leave(self, group: bytes, ids: Sequence[bytes], what: str) -> None:
        holder = self._holders.pop(group, b"")
        self._note(what, group, holder, certain=bool(holder) or len(ids) == 1)

    def _xackdel(self, words: list[bytes]) -> None:
        self._leave(words[2], ids_behind(words, 3), "acknowledged")
        self._delete(certain=False)

    def _delete(self, what: str = "deleted", *, certain: bool = True) -> None:
        if certain or not self._exists:
            self._is_deleted = self._is_deleted or certain
            self._note(what, certain=certain)

    def _xgroup(self, words: list[bytes]) -> None:
        if words[1].upper() == b"DESTROY" or self._holders.get(words[3]) == words[4]:
            self._drop(words[3], b" ".join(words[:2]).decode("ascii", "replace"))

    def _drop(self, group: bytes, note: str) -> None:
        holder = self._holders.pop(group, None)
        if holder is not None:
            self._note("dropped from pending", group, holder, note=note)

    def _remove(self, words: list[bytes]) -> None:
        """Apply a command that removes or replaces the whole stream."""
        if self.events:
            name = words[0].upper()
            self._holders.clear()
            note = name.decode("ascii", "replace")
            self._note("removed with its stream", certain=name != b"SWAPDB", note=note)


def _other(holder: bytes | None, consumer: bytes) -> bytes:
    """Return the previous owner of an entry that a consumer claims; empty if unknown, or the same."""
    return b"" if holder is None or holder == consumer else holder


def _pair(entry_id: bytes) -> tuple[int, ...]:
    return tuple(map(int, whole_id(entry_id).split(b"-")))
