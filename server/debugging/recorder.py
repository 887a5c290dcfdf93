"""DEBUG RECORD: what clients sent, and what they were answered.

Each recording keeps the last commands within two limits, their number and their bytes, and counts those that it
dropped. A command is kept once, by all the recordings that were on when it ran.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
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
"""Of the words and replies that one recording keeps."""
_ENTRY_BYTES: Final = 500  # of a command without its words and its reply


@dataclass(slots=True, eq=False)
class Recorded:
    """One command of a client.

    Attributes:
        number: of the server, in the order in which the commands ran; 0 before.
        time: when it ran, in milliseconds of the server's clock.
        answered: when its reply was due; None while it is blocked, and if its connection ended then.
        database: the one selected when it ran.
        client_name: the name that the client had then.
        words: as sent, passwords redacted.
        reply: encoded, as the command returned it; None if there is none (yet).
        fault: the ID of the fault that hit it, 0 without one; then the client may not have got the reply.
    """

    number: int
    time: int
    answered: int | None
    database: int
    client_id: int
    client_name: bytes
    words: list[bytes]
    reply: bytes | None
    fault: int = 0

    @property
    def size(self) -> int:
        """The approximate bytes of memory."""
        return _ENTRY_BYTES + sum(map(len, self.words)) + 50 * len(self.words) + len(self.reply or b"")


class Recording:
    """The last commands since a moment.

    Args:
        last: the most commands to keep.

    Attributes:
        dropped: how many commands it no longer has.
    """

    def __init__(self, last: int) -> None:
        self.entries: deque[Recorded] = deque()
        self.dropped = 0
        self._last = last
        self._bytes = 0

    def add(self, entry: Recorded) -> None:
        """Keep a command."""
        self.entries.append(entry)
        self._bytes += entry.size
        self._drop()

    def grow(self, entry: Recorded, size: int) -> None:
        """Count the reply of a command that was kept without it."""
        if self.entries and self.entries[0].number <= entry.number:
            self._bytes += size
            self._drop()

    def _drop(self) -> None:
        entries = self.entries
        while len(entries) > self._last or (self._bytes > MOST_BYTES and entries):
            self._bytes -= entries.popleft().size
            self.dropped += 1


def first_id(server: Server) -> int:
    """Return where the IDs of recordings and faults begin: elsewhere after each start.

    So a client that still has an ID of the time before a restart gets an error, not something that began since.
    """
    return int(server.run_id[:6], 16) * 1000 + 1


class Recorder:
    """The recordings of one server.

    Attributes:
        recordings: those that are on, by their ID.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.recordings: dict[int, Recording] = {}
        self._ids = count(first_id(server))
        self._numbers = count(1)
        # Commands that wait for their reply, with the recordings that keep them.
        self._blocked: dict[Client, tuple[Recorded, list[Recording]]] = {}

    def start(self, last: int) -> int:
        """Begin a recording of the last commands; returns its ID."""
        number = next(self._ids)
        self.recordings[number] = Recording(last)
        self._server.update_checks()
        return number

    def stop(self, number: int) -> Recording:
        """End a recording and forget it, but return it.

        Raises:
            KeyError: there is none with this ID.
        """
        recording = self.recordings.pop(number)
        if not self.recordings:
            self._blocked.clear()
        self._server.update_checks()
        return recording

    def clear(self) -> None:
        """End all recordings."""
        self.recordings.clear()
        self._blocked.clear()
        self._server.update_checks()

    def arrival(self, client: Client, argv: list[bytes]) -> Recorded:
        """Return what is known of a command before it runs."""
        return Recorded(
            0, self._server.clock.now, None, client.db.index, client.id, client.name, redacted(argv), None
        )

    def add(self, client: Client, entry: Recorded, reply: bytes | None) -> None:
        """Record a command that has run; one that is blocked gets its reply later."""
        recordings = list(self.recordings.values())
        entry.number = next(self._numbers)
        entry.reply = reply
        if reply is None and client.state is BLOCKED:
            self._blocked[client] = entry, recordings
        else:
            entry.answered = self._server.clock.now
        for recording in recordings:
            recording.add(entry)

    def answer(self, client: Client, reply: bytes, fault: int) -> None:
        """Add the reply of a command that was blocked."""
        waiting = self._blocked.pop(client, None)
        if waiting is not None:
            entry, recordings = waiting
            entry.answered, entry.reply = self._server.clock.now, reply
            entry.fault = entry.fault or fault
            for recording in recordings:
                recording.grow(entry, len(reply))

    def forget(self, client: Client) -> None:
        """Wait no longer for the reply of a client whose connection is gone."""
        self._blocked.pop(client, None)

    def keys(self, entry: Recorded) -> list[bytes]:
        """Return the keys that a command names; none if it is unknown or cannot be parsed."""
        try:
            found = self._server.dispatcher.find(entry.words)
        except ReplyError:
            return []
        if not found.minimum <= len(entry.words) <= found.maximum:
            return []
        return [entry.words[reference.index] for reference in keys_of(found.command, entry.words)]
