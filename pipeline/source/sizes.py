"""Limit a task's memory by bytes: choose how many entries a reply and a batch hold.

XRANGE limits the number of entries, not their bytes. So the first reply is short, and each further reply is as long as
the size of the previous entries allows. The connection counts received bytes; adding up the lengths of words would
cost a sixth of the time for reading them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..error_tokens import LabelledError
from ..redis import ids
from ..redis.connection import Connection, checked
from ..redis.key_names import key_of

if TYPE_CHECKING:
    from .options import SourceOptions

BATCH_BYTES: Final = 64 << 20
_REPLY_BYTES: Final = BATCH_BYTES // 2
_FIRST: Final = 32
_GROWTH: Final = 8
_COLUMN_BYTES: Final = 2**31 - 1
_SAMPLES: Final = 8


class EntryTooLargeError(LabelledError, ValueError):
    """An entry has more bytes than a column of Arrow or Spark can hold."""

    label = "ENTRY_TOO_LARGE"


class Pace:
    """Chooses how many entries to ask for in the next reply (``count``), from the bytes of the previous one.

    ``most_bytes``: the most bytes in one reply, once the size of entries is known.
    """

    def __init__(self, connection: Connection, most: int, most_bytes: int | None = None) -> None:
        self._connection = connection
        self.most = most
        self._most_bytes = min(most_bytes or _REPLY_BYTES, _REPLY_BYTES)
        self._received = connection.received
        self.count = min(_FIRST, most)
        self.size = 0

    def saw(self, entries: int) -> int:
        """Record the number of entries in the last reply; return their bytes."""
        now = self._connection.received
        self.size, self._received = now - self._received, now
        if entries:
            fitting = self._most_bytes * entries // max(self.size, 1)
            self.count = max(1, min(self.most, self.count * _GROWTH, fitting))
        return self.size


def cut(entries: Sequence[Any], size: int) -> Iterator[tuple[Sequence[Any], int]]:
    """Split entries of ``size`` bytes into parts of at most half a batch, each with its bytes.

    A larger entry is a part of its own.

    Raises EntryTooLargeError: an entry is too large for a column.
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


def rows_worth(
    connection: Connection, places: Mapping[str, Sequence[int]], options: SourceOptions
) -> dict[str, float]:
    """Return how many rows an entry of each stream counts for, so that maxRowsPerPartition enforces maxBytesPerPartition.

    It is the mean size of sampled entries, in units of maxBytesPerPartition / maxRowsPerPartition bytes; at least 1.
    ``places``: ids by stream, in order; the entries at some of these ids, or the next ones, are sampled.
    """
    assert options.max_bytes_per_partition is not None
    asked = [(name, at) for name, each in places.items() for at in each[:: max(-(-len(each) // _SAMPLES), 1)]]
    commands = [("XRANGE", key_of(name), ids.encode(at), "+", "COUNT", 1) for name, at in asked]
    lengths: dict[str, list[int]] = {}
    for (name, _), reply in zip(asked, checked(connection.pipeline(commands)), strict=True):
        lengths.setdefault(name, []).extend(len(word) + sum(map(len, fields)) for word, fields in reply)
    scale = options.max_rows_per_partition / options.max_bytes_per_partition
    return {name: max(sum(each) / max(len(each), 1) * scale, 1.0) for name, each in lengths.items()}


def evenly(after: int, upto: int) -> list[int]:
    """Return evenly spaced ids, greater than ``after`` and up to ``upto``: as many as `rows_worth` samples."""
    return [after + 1 + (upto - after) * step // _SAMPLES for step in range(min(_SAMPLES, upto - after))]
