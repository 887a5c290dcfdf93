"""What one XREAD or XREADGROUP may take in all: MAXCOUNT, MAXSIZE, and the longer items that CLAIM answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.streams.chunk import ids_in, length_of
from ...storage.streams.ids import MAX_ID

if TYPE_CHECKING:
    from ...storage.streams.chunk import Piece
    from ...storage.streams.stream import Stream

_STEP = 16  # entries looked at first where bytes are counted
_NEVER_DELIVERED = b":0\r\n:0\r\n"  # neither idle nor delivered before


class Allowance:
    """The limits of one call and what it has taken so far, over all its streams.

    An entry goes out if fewer than MAXCOUNT went out before and fewer than MAXSIZE bytes; the first one always does.
    The bytes are those of the reply, without the lengths that Redis fills in at the end.

    Attributes:
        claim: min-idle-time of CLAIM, None without.
        max_count, max_size: None for no limit.
        entries: how many have been taken.
        size: their bytes, and those around them.
    """

    __slots__ = ("claim", "entries", "max_count", "max_size", "size")

    def __init__(self, claim: int | None, max_count: int | None, max_size: int | None) -> None:
        self.claim = claim
        self.max_count = max_count
        self.max_size = max_size
        self.entries = 0
        self.size = 0

    def is_spent(self) -> bool:
        """Whether no entry more may go out; streams that are still to come are not even looked at."""
        if not self.entries:
            return False
        if self.max_count is not None and self.entries >= self.max_count:
            return True
        return self.max_size is not None and self.size >= self.max_size

    def within(self, count: int | None) -> int | None:
        """How many entries the next stream may give, if it may give ``count`` (None: all)."""
        if self.max_count is None:
            return count
        left = self.max_count - self.entries
        return left if count is None else min(count, left)

    def add(self, size: int) -> None:
        """One entry of so many bytes is taken."""
        self.entries += 1
        self.size += size

    def take(self, stream: Stream, after: int, count: int | None) -> tuple[list[Piece], bytes, int]:
        """As ``Stream.take_after``, within the limits; with CLAIM each entry has the two numbers of a new one."""
        count = self.within(count)
        if self.max_size is None and self.claim is None:
            pieces, entries, last = stream.take_after(after, count)
            self.entries += length_of(pieces)
            return pieces, entries, last
        parts: list[bytes] = []
        last = after
        step = _STEP
        while not self.is_spent():
            most = step if count is None else min(step, count - len(parts))
            pieces, _, _ = stream.take_after(last, most)
            if not pieces:
                break
            for number in ids_in(pieces):
                if self.is_spent():
                    break
                entry = stream.entry(number)
                assert entry is not None
                if self.claim is not None:
                    entry = b"*4%b%b" % (entry[2:], _NEVER_DELIVERED)
                parts.append(entry)
                last = number
                self.add(len(entry))
            step *= 2
        pieces, _, last = stream.take_after(after, len(parts))
        return pieces, b"".join(parts), last


def take_after(
    stream: Stream, after: int, count: int | None, allowance: Allowance | None
) -> tuple[int, bytes]:
    """XREAD's entries of one stream: how many, and their encoded forms one after the other."""
    if allowance is None:
        return stream.range(after + 1, MAX_ID, count)
    pieces, entries, _ = allowance.take(stream, after, count)
    return length_of(pieces), entries
