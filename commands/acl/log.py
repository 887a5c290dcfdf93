"""The denials that ACL LOG shows: similar denials within a minute are one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ..runtime.client import Client
from ..runtime.client_line import client_line
from ..runtime.denials import Denial

if TYPE_CHECKING:
    from ..runtime.context import Server

_ENTRY_BYTES: Final = 1000  # with the line of the client
_TOGETHER: Final = 60_000  # milliseconds
_LATEST: Final = 10  # entries to compare with, as in Redis; earlier ones do not change


class Entry:
    """Similar denials within a minute. Times are in Unix milliseconds."""

    def __init__(
        self,
        number: int,
        reason: bytes,
        context: bytes,
        subject: bytes,
        username: bytes,
        client: bytes,
        created: int,
        updated: int,
        count: int = 1,
    ) -> None:
        self.number = number
        self.reason = reason
        self.context = context
        self.subject = subject
        self.username = username
        self.client = client  # as in CLIENT LIST
        self.created = created
        self.updated = updated
        self.count = count

    def encode(self, now: int, resp: int, *, numbered: bool) -> bytes:
        """Encode the entry as a map for ACL LOG.

        Args:
            now: the time in milliseconds.
            numbered: add the entry's ID and its two times, which 7.0 does not have.
        """
        bulk, integer = replies.bulk, replies.integer
        number: tuple[tuple[bytes, bytes], ...] = (
            (b"entry-id", integer(self.number)),
            (b"timestamp-created", integer(self.created)),
            (b"timestamp-last-updated", integer(self.updated)),
        )
        return replies.map_of(
            [
                (b"count", integer(self.count)),
                (b"reason", bulk(self.reason)),
                (b"context", bulk(self.context)),
                (b"object", bulk(self.subject)),
                (b"username", bulk(self.username)),
                (b"age-seconds", replies.double((now - self.updated) / 1000, resp)),
                (b"client-info", bulk(self.client)),
                *(number if numbered else ()),
            ],
            resp,
        )


class AclLog:
    """The latest denials of one server, newest first."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.entries: list[Entry] = []
        self._next = 0

    @property
    def size(self) -> int:
        """The approximate bytes of the log.

        Memory statistics count them, because clients choose the names in it.
        """
        return sum([_ENTRY_BYTES + len(entry.subject) + len(entry.username) for entry in self.entries])

    def note_denial(self, client: Client, denial: Denial, context: bytes | None = None) -> None:
        """Record a denial and count it for INFO; ``context`` is shown by ACL LOG (by default the client's own)."""
        stats = self.server.stats
        stats.denied[denial.reason.word] += 1
        self._note(client, denial.reason.word, denial.subject, client.user.name, context)

    def note_login(self, client: Client, username: bytes, command: bytes) -> None:
        """Record a failed login with ``username`` and count it for INFO; ``command``: AUTH or HELLO."""
        self.server.stats.denied[b"auth"] += 1
        self._note(client, b"auth", command, username, None)

    def _note(
        self, client: Client, reason: bytes, subject: bytes, username: bytes, context: bytes | None
    ) -> None:
        if context is None:
            context = b"multi" if client.transaction is not None else b"toplevel"
        now = self.server.clock.now
        line = client_line(client)
        for index, entry in enumerate(self.entries[:_LATEST]):
            like = (entry.reason, entry.context, entry.subject, entry.username)
            if like == (reason, context, subject, username) and now - entry.updated <= _TOGETHER:
                entry.count += 1
                entry.updated, entry.client = now, line
                self.entries.insert(0, self.entries.pop(index))
                return
        number, self._next = self._next, self._next + 1
        self.entries.insert(0, Entry(number, reason, context, subject, username, line, now, now))
        del self.entries[max(self.server.config.acllog_max_len, 0) :]
