"""The state of a stream as XINFO STREAM shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import ids
from .connection import Connection, ServerError, read_facts
from .key_names import key_of


@dataclass(frozen=True)
class StreamState:
    """The state of one stream at one moment, with ids as integers."""

    length: int  # the number of entries
    last: int  # the last generated id; its entry may be gone or, after XSETID, never existed
    first: int | None  # the first existing entry; None if the stream is empty
    added: int | None  # the number of entries ever added; None before Redis 7
    max_deleted: int | None  # the greatest deleted id; None before Redis 7
    newest: int | None  # the last existing entry; None if the stream is empty
    groups: int = 0  # the number of consumer groups
    # The fields and values of the first and the newest entry.
    samples: tuple[list[bytes], ...] = field(default=(), compare=False, repr=False)

    @property
    def removed(self) -> int | None:
        """The number of entries trimmed or deleted since the stream was created; None before Redis 7."""
        return None if self.added is None else self.added - self.length

    def added_at(self, stream_id: int) -> int | None:
        """Return the number of entries ever added up to an id, inclusive.

        None for an id between existing entries, which the server does not count, and before Redis 7.
        """
        if self.added is None:
            return None
        if stream_id >= self.last:
            return self.added
        if self.first is None or self.first > stream_id:
            return self.added - self.length
        return None


def fetch_states(connection: Connection, names: Iterable[str]) -> dict[str, StreamState | None]:
    """Return the state of several streams in one round trip; None for a missing key.

    Raises ServerError: a key is not a stream, or reading it is not allowed; the text names it.
    """
    wanted = list(names)
    replies = connection.pipeline([state_request(name) for name in wanted])
    found: dict[str, StreamState | None] = {}
    for name, reply in zip(wanted, replies, strict=True):
        if isinstance(reply, ServerError):
            if "no such key" not in reply.words.lower():
                raise ServerError(f"{reply.words} (stream {name!r})")
            found[name] = None
        else:
            found[name] = parse_state(reply)
    return found


def state_request(name: str) -> tuple[bytes | str, ...]:
    """Return the words of the command whose reply ``parse_state`` parses."""
    return ("XINFO", "STREAM", key_of(name))


def parse_state(reply: list[Any]) -> StreamState:
    """Parse the reply of XINFO STREAM."""
    fields = read_facts(reply)
    last_word = fields[b"last-generated-id"]
    last = ids.parse_reply(last_word)
    first, newest = fields[b"first-entry"], fields[b"last-entry"]
    deleted = fields.get(b"max-deleted-entry-id")
    # In many short streams most of these are the same id, which is parsed once.
    return StreamState(
        length=fields[b"length"],
        last=last,
        first=None if first is None else last if first[0] == last_word else ids.parse_reply(first[0]),
        added=fields.get(b"entries-added"),
        max_deleted=None if deleted is None else ids.parse_reply(deleted),
        newest=None if newest is None else last if newest[0] == last_word else ids.parse_reply(newest[0]),
        groups=fields[b"groups"],
        samples=tuple(each[1] for each in (first, newest) if each is not None),
    )
