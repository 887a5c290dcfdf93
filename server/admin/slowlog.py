"""SLOWLOG: the last slow commands, with their words shortened. ``execution/call`` decides which commands are slow."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ...commands.runtime.arguments import parse_integer
from ...commands.runtime.client import Client
from ...commands.runtime.redaction import redacted
from ...commands.spec.command import handles
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import ReplyError, wrong_subcommand_arguments
from . import specs

if TYPE_CHECKING:
    from ..server import Server


class SlowCommand:
    """One recorded command. Words beyond slowlog-entry-max-argc and bytes beyond slowlog-entry-max-string-len are cut."""

    __slots__ = ("address", "client_name", "id", "microseconds", "unix_seconds", "word_count", "words")

    def __init__(
        self,
        id: int,  # noqa: A002 - the word of the protocol
        unix_seconds: int,
        microseconds: int,
        words: list[bytes],
        word_count: int,
        address: bytes,
        client_name: bytes,
    ) -> None:
        self.id = id
        self.unix_seconds = unix_seconds
        self.microseconds = microseconds
        self.words = words
        self.word_count = word_count
        self.address = address
        self.client_name = client_name


class Slowlog:
    """The commands that took longer than slowlog-log-slower-than, newest first."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._next_id = 0
        self.entries: deque[SlowCommand] = deque()
        self.reset_statistics()

    def reset_statistics(self) -> None:
        """Reset the statistics that INFO shows: the number of slow commands, and their microseconds."""
        self.count = self.longest = self.total = 0
        self.of_each: dict[str, tuple[int, int, int]] = {}  # by command: count, sum and longest

    def add(self, client: Client, name: str, argv: list[bytes], microseconds: int) -> None:
        """Record a slow command with its full name and its words; drop the oldest ones beyond slowlog-max-len."""
        count, total, longest = self.of_each.get(name, (0, 0, 0))
        self.of_each[name] = count + 1, total + microseconds, max(longest, microseconds)
        self.count += 1
        self.total += microseconds
        self.longest = max(self.longest, microseconds)
        limit = self._server.config.slowlog_max_len
        self.entries.appendleft(
            SlowCommand(
                self._next_id,
                self._server.clock.now // 1000,
                microseconds,
                self._shortened(redacted(argv, users=self._server.compat.knows("7.2"))),
                len(argv),
                client.address,
                client.name,
            )
        )
        self._next_id += 1
        while len(self.entries) > limit:
            self.entries.pop()

    def _shortened(self, argv: list[bytes]) -> list[bytes]:
        most_words = self._server.config.slowlog_entry_max_argc
        most_bytes = self._server.config.slowlog_entry_max_string_len
        words = argv if len(argv) <= most_words else argv[: most_words - 1]
        shown = [
            word
            if len(word) <= most_bytes
            else b"%b... (%d more bytes)" % (word[:most_bytes], len(word) - most_bytes)
            for word in words
        ]
        if len(words) < len(argv):
            shown.append(b"... (%d more arguments)" % (len(argv) - len(words)))
        return shown


@handles(specs.SLOWLOG_GET)
def slowlog_get(client: Client, args: list[bytes]) -> bytes:
    """Reply with ``[id, unix seconds, microseconds, [words], address, client name, word count]`` each, newest first.

    The word count exists since 8.10.
    """
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    entries = client.server.slowlog.entries
    count = 10
    if len(args) == 3:
        count = parse_integer(args[2], b"ERR count should be greater than or equal to -1")
        if count < -1:
            raise ReplyError(b"ERR count should be greater than or equal to -1")
        if count == -1:
            count = len(entries)
    shown = list(entries)[:count]
    columns = 7 if client.server.compat.knows("8.10") else 6
    rows = [
        (
            *(entry.id, entry.unix_seconds, entry.microseconds, entry.words),
            *(entry.address, entry.client_name, entry.word_count),
        )[:columns]
        for entry in shown
    ]
    return replies.plain(rows, client.resp)


@handles(specs.SLOWLOG_LEN)
def slowlog_len(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the number of slow commands that are kept."""
    return replies.integer(len(client.server.slowlog.entries))


@handles(specs.SLOWLOG_RESET)
def slowlog_reset(client: Client, _args: list[bytes]) -> bytes:
    """Forget all slow commands and reply OK; the numbering continues."""
    client.server.slowlog.entries.clear()
    return replies.OK


handles(specs.SLOWLOG_HELP, container="slowlog")(help_of)
