"""How many entries to ask for at once, and to put into one batch, so that bytes bound a task's memory, and not rows.

A reply of XRANGE has a number of entries and no limit of bytes. So the first one is short, and each that follows is as long as
entries like those before may be. What was received is counted by the connection: adding up the words of entries would cost a
sixth of reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..error_tokens import LabelledError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..redis.connection import Connection

BATCH_BYTES: Final = 64 << 20
_REPLY_BYTES: Final = BATCH_BYTES // 2
_FIRST: Final = 32
_GROWTH: Final = 8
_COLUMN_BYTES: Final = 2**31 - 1


class EntryTooLargeError(LabelledError, ValueError):
    """An entry has more bytes than a column of Arrow and Spark can have."""

    label = "ENTRY_TOO_LARGE"


class Pace:
    """How many entries the next reply is to have.

    Args:
        connection: that receives them.
        most: entries in one reply, however short they are.
    """

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection = connection
        self.most = most
        self._received = connection.received
        self.count = min(_FIRST, most)
        self.size = 0

    def saw(self, entries: int) -> int:
        """Note a reply of so many entries; return its bytes."""
        now = self._connection.received
        self.size, self._received = now - self._received, now
        if entries:
            fitting = _REPLY_BYTES * entries // max(self.size, 1)
            self.count = max(1, min(self.most, self.count * _GROWTH, fitting))
        return self.size


def cut(entries: Sequence[Any], size: int) -> Iterator[tuple[Sequence[Any], int]]:
    """Yield entries in parts of at most half a batch, with their bytes; one that is larger is alone.

    Raises:
        EntryTooLargeError: a column cannot have one of them.
    """
    if size <= _REPLY_BYTES:
        yield entries, size
        return
    start = total = 0
    for at, (word, fields) in enumerate(entries):
        length = len(word) + sum(map(len, fields))
        if length > _COLUMN_BYTES:
            raise EntryTooLargeError(
                f"entry {word.decode()} has {length:,} bytes: a column of Spark has room for 2 GiB"
            )
        if at > start and total + length > _REPLY_BYTES:
            yield entries[start:at], total
            start, total = at, 0
        total += length
    yield entries[start:], total
