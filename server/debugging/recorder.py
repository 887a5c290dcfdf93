"""DEBUG RECORD: record the commands of clients and their replies.

Each recording keeps the last commands within two limits, their number and their bytes, and counts those that it
dropped. All recordings that are active when a command runs share one record of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from ...commands.runtime.redaction import redacted
from ...commands.runtime.state import BLOCKED
from ...commands.spec.command import keys_of
from ...protocol.errors import ReplyError

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ..server import Server

MOST_BYTES: Final = 64 << 20
"""The limit for the words and replies of one recording."""
_ENTRY_BYTES: Final = 500  # bytes of a command without its words and its reply


class Scripted:
    """A write command that a recorded script ran."""

    __slots__ = ("database", "position", "reply", "words")

    def __init__(self, position: int, database: int, words: list[bytes], reply: bytes) -> None:
        # Of the script's command in its transaction, from 0; 0 outside a transaction.
        self.position = position
        self.database = database  # the database that the script has selected
        self.words = words  # with passwords redacted
        self.reply = reply  # encoded


class Recorded:
    """One command of a client."""

    __slots__ = (
        "answered", "client_id", "client_name", "database", "fault", "number", "reply", "scripted", "scripted_bytes",
        "time", "words",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        time: int,
        answered: int | None,
        database: int,
        client_id: int,
        client_name: bytes,
        words: list[bytes],
        reply: bytes | None,
        fault: int = 0,
    ) -> None:
        self.number = number  # its position among all commands that the server ran; 0 before it has run
        self.time = time  # when it ran, in milliseconds of the server's clock
        # When its reply was due; None while it is blocked, and if its client disconnected while blocked.
        self.answered = answered
        self.database = database  # the database that was selected when it ran
        self.client_id = client_id
        self.client_name = client_name  # when it ran
        self.words = words  # as sent, with passwords redacted
        self.reply = reply  # encoded, as the command returned it; None if there is none (yet)
        # The ID of the fault that hit it, or 0; after a fault the client may not have received the reply.
        self.fault = fault
        self.scripted: list[Scripted] = []  # of one script for EVAL and its like, of any number for EXEC
        self.scripted_bytes = 0  # the approximate memory of ``scripted``

    @property
    def size(self) -> int:
        """The approximate memory of the record in bytes."""
        return _size(self.words, self.reply) + self.scripted_bytes


def _size(words: list[bytes], reply: bytes | None) -> int:
    return _ENTRY_BYTES + sum(map(len, words)) + 50 * len(words) + len(reply or b"")


class Recording:
    """The last commands since the recording began. ``last``: the maximum number of commands to keep."""

    def __init__(self, last: int) -> None:
        self.entries: deque[Recorded] = deque()
        self.dropped = 0  # the number of commands that were dropped
        self._last = last
        self._bytes = 0

    def add(self, entry: Recorded, size: int) -> None:
        """Keep a command of ``size`` bytes; drop the oldest ones beyond the two limits."""
        self.entries.append(entry)
        self._bytes += size
        if len(self.entries) > self._last or self._bytes > MOST_BYTES:
            self._drop()

    def grow(self, entry: Recorded, size: int) -> None:
        """Add the ``size`` of the reply of a command that was recorded while blocked; drop the oldest beyond the limits."""
        if self.entries and self.entries[0].number <= entry.number:
            self._bytes += size
            self._drop()

    def _drop(self) -> None:
        entries = self.entries
        while len(entries) > self._last or (self._bytes > MOST_BYTES and entries):
            self._bytes -= entries.popleft().size
            self.dropped += 1


def first_id(run_id: str) -> int:
    """Return the first ID of recordings and faults, made from the run ID, so that it differs after each start.

    A client that uses an ID from before a restart then gets an error, not a newer recording or fault.
    """
    return int(run_id[:6], 16) * 1000 + 1


def finish(
    entry: Recorded, recordings: Sequence[Recording], now: int, reply: bytes | None, fault: int
) -> None:
    """Complete a command that was recorded while blocked.

    Args:
        recordings: the recordings that hold the command.
        now: the time in milliseconds.
        reply: its reply; None if a fault ended it before it ran.
        fault: the ID of that fault, or 0.
    """
    entry.answered, entry.reply = now, reply
    entry.fault = entry.fault or fault
    for recording in recordings:
        recording.grow(entry, len(reply or b""))


class Recordings(ABC):
    """The running recordings of a server or of a proxy."""

    def __init__(self, first_id: int) -> None:
        self.recordings: dict[int, Recording] = {}  # the running recordings by ID
        self._ids = count(first_id)
        self._numbers = count(1)

    def start(self, last: int) -> int:
        """Begin a recording that keeps the last ``last`` commands; return its ID."""
        number = next(self._ids)
        self.recordings[number] = Recording(last)
        return number

    def stop(self, number: int) -> Recording:
        """End a recording and return it. Raises KeyError: no recording has this ID."""
        return self.recordings.pop(number)

    def keep(self, entry: Recorded) -> list[Recording]:
        """Give a command the next number and add it to all recordings; return these recordings."""
        recordings = list(self.recordings.values())
        entry.number = next(self._numbers)
        size = entry.size
        for recording in recordings:
            recording.add(entry, size)
        return recordings

    @abstractmethod
    def keys(self, words: list[bytes]) -> list[bytes]:
        """Return the keys that a command names; none if it is unknown or cannot be parsed."""


class Recorder(Recordings):
    """The recordings of one server."""

    def __init__(self, server: Server) -> None:
        super().__init__(first_id(server.run_id))
        self._server = server
        self._running: dict[Client, Recorded] = {}
        # Blocked commands without a reply yet, with the recordings that contain them.
        self._blocked: dict[Client, tuple[Recorded, list[Recording]]] = {}

    def start(self, last: int) -> int:
        """Begin a recording of the server's clients that keeps the last ``last`` commands; return its ID."""
        number = super().start(last)
        self._server.update_checks()
        return number

    def stop(self, number: int) -> Recording:
        """End a recording of the server's clients, and return it."""
        recording = super().stop(number)
        if not self.recordings:
            self._blocked.clear()
        self._server.update_checks()
        return recording

    def clear(self) -> None:
        """End all recordings of the server."""
        self.recordings.clear()
        self._blocked.clear()
        self._server.update_checks()

    def arrival(self, client: Client, argv: list[bytes]) -> Recorded:
        """Return a new record of a command that is about to run; it is in no recording yet."""
        return Recorded(
            0, self._server.clock.now, None, client.db.index, client.id, client.name, redacted(argv), None
        )

    def begin(self, client: Client, argv: list[bytes]) -> Recorded:
        """Like ``arrival``; also let ``add_scripted`` add commands to the record."""
        entry = self._running[client] = self.arrival(client, argv)
        return entry

    def add_scripted(
        self, caller: Client, script: list[bytes], database: int, argv: list[bytes], reply: bytes
    ) -> None:
        """Add a write command of a script to the record of the command that runs the script.

        Args:
            script: the words of its EVAL or FCALL, which locate it in a transaction.
            database: the database that the script has selected.
        """
        entry = self._running.get(caller)
        # Do not collect more than a whole recording holds: it would drop the command anyway.
        if entry is None or not self.recordings or entry.scripted_bytes > MOST_BYTES:
            return
        position = 0
        if caller.transaction is not None:
            position = entry.scripted[-1].position if entry.scripted else 0
            queued = caller.transaction.commands
            while queued[position][1] is not script:
                position += 1
        words = redacted(argv)
        entry.scripted.append(Scripted(position, database, words, reply))
        entry.scripted_bytes += _size(words, reply)

    def add(self, client: Client, entry: Recorded, reply: bytes | None) -> None:
        """Add a command that has run to all recordings. If it blocks, ``answer`` adds its reply later."""
        self._running.pop(client, None)
        entry.reply = reply
        is_blocked = reply is None and client.state is BLOCKED
        if not is_blocked:
            entry.answered = self._server.clock.now
        recordings = self.keep(entry)
        if is_blocked:
            self._blocked[client] = entry, recordings

    def answer(self, client: Client, reply: bytes | None, fault: int) -> None:
        """Add the reply to the record of a client's blocked command.

        Args:
            reply: the reply; None if a fault ended the command before it ran.
            fault: the ID of the fault that hit it, or 0.
        """
        waiting = self._blocked.pop(client, None)
        if waiting is not None:
            finish(*waiting, self._server.clock.now, reply, fault)

    def forget(self, client: Client) -> None:
        """Forget a disconnected client; if its command is blocked, the record stays without a reply."""
        self._running.pop(client, None)
        self._blocked.pop(client, None)

    def keys(self, words: list[bytes]) -> list[bytes]:
        """Return the keys that a command names; none if it is unknown or cannot be parsed."""
        try:
            found = self._server.dispatcher.find(words)
        except ReplyError:
            return []
        if not found.minimum <= len(words) <= found.maximum:
            return []
        return [words[reference.index] for reference in keys_of(found.command, words)]
