"""Sorted sets: members ordered by score and, if scores are equal, by their bytes.

A dict holds the score of each member, and a sorted list holds all (score, member). Every range, by rank, score or name,
is a half-open pair of places in that list (``start``, ``stop``); counting, reading and removing need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import copysign, inf, nextafter
from random import sample
from typing import TYPE_CHECKING, ClassVar, Final

from ...protocol.replies import format_double
from .base import Collection
from .scan_order import ScanOrder

if TYPE_CHECKING:
    from sortedcontainers import SortedList

    from .encoding_limits import Limits

LISTPACK: Final = b"listpack"
SKIPLIST: Final = b"skiplist"
_A_COMMAND: Final = 64  # members in one ZADD of a rewritten AOF
_SAMPLE: Final = 32


@cache
def _sorted_list() -> type[SortedList[tuple[float, bytes]]]:
    """Import SortedList once: most tests have no sorted set."""
    from sortedcontainers import SortedList

    kind: type[SortedList[tuple[float, bytes]]] = SortedList
    return kind


class SortedSet(Collection):
    """Members with their scores."""

    OWN_BYTES: ClassVar[int] = 600
    __slots__ = ("_scan", "order", "scores")

    def __init__(self, scores: dict[bytes, float] | None = None) -> None:
        self.encoding = LISTPACK
        # Member to score; read only, ``put`` and ``discard`` change it.
        self.scores: dict[bytes, float] = {} if scores is None else scores
        # All (score, member), sorted; read only.
        self.order: SortedList[tuple[float, bytes]] = (
            _sorted_list()()
            if scores is None
            else _sorted_list()((score, member) for member, score in scores.items())
        )

        self._scan: ScanOrder | None = None  # for ZSCAN; created at the first request

    def __len__(self) -> int:
        return len(self.scores)

    # Changes

    def put(self, member: bytes, score: float, limits: Limits) -> None:
        """Set the score of a member; it must not be NaN. An equal score (0 and -0) changes nothing."""
        before = self.scores.get(member)
        if self.encoding is LISTPACK:
            if before is None and (
                len(self.scores) >= limits.zset_max_listpack_entries
                or len(member) > limits.zset_max_listpack_value
            ):
                self.encoding = SKIPLIST
            else:
                score += 0.0  # turns -0 into 0; see _lose_signs_of_zeros
        if before is None:
            self.scores[member] = score
            self.order.add((score, member))
            if self._scan is not None:
                self._scan.add(member)
        elif before != score:
            self.order.remove((before, member))
            self.scores[member] = score
            self.order.add((score, member))

    def discard(self, member: bytes) -> bool:
        """Remove a member from the sorted set; return False if it is not present."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        self.order.remove((score, member))
        if self._scan is not None:
            self._scan.remove(member)
        return True

    def pop(self, place: int) -> tuple[float, bytes]:
        """Remove and return the item at a place: 0 is the lowest, -1 the highest."""
        item: tuple[float, bytes] = self.order.pop(place)
        del self.scores[item[1]]
        if self._scan is not None:
            self._scan.remove(item[1])
        return item

    def remove_range(self, start: int, stop: int) -> int:
        """Remove the items from place ``start`` up to but not including ``stop``; return their number."""
        if stop <= start:
            return 0
        for _, member in self.order.islice(start, stop):
            del self.scores[member]
            if self._scan is not None:
                self._scan.remove(member)
        del self.order[start:stop]
        return stop - start

    def expect(self, members: Sequence[bytes], limits: Limits, *, lengths: bool = True) -> None:
        """Convert to a skiplist before an insert of too many members or, with ``lengths``, of one that is too long."""
        too_long = lengths and max(map(len, members)) > limits.zset_max_listpack_value
        if too_long or len(members) > limits.zset_max_listpack_entries:
            self.encoding = SKIPLIST

    # Ranges

    def rank(self, member: bytes) -> int | None:
        """Return the place of a member, from 0 for the lowest; None if it is not present."""
        score = self.scores.get(member)
        return None if score is None else self.order.index((score, member))

    def slice(self, start: int, stop: int, *, reverse: bool = False) -> Iterator[tuple[float, bytes]]:
        """Yield the (score, member) items from place ``start`` up to but not including ``stop``; ``reverse``: backwards."""
        items: Iterator[tuple[float, bytes]] = self.order.islice(start, stop, reverse)
        return items

    def score_range(self, low: float, high: float, *, after: bool, before: bool) -> tuple[int, int]:
        """Return the places (start, stop) of the scores from ``low`` to ``high``, inclusive; stop is exclusive.

        ``after`` excludes ``low``, and ``before`` excludes ``high``.
        """
        start = self._place(low, behind=after)
        return start, max(start, self._place(high, behind=not before))

    def _place(self, score: float, *, behind: bool) -> int:
        """Return the first place with this score or a higher one; with ``behind``, with a higher one."""
        if behind:
            if score == inf:
                return len(self.scores)
            score = nextafter(score, inf)
        place: int = self.order.bisect_left((score,))
        return place

    def lex_range(
        self, low: bytes | None, high: bytes | None, *, after: bool, before: bool, reverse: bool = False
    ) -> tuple[int, int]:
        """Return the places (start, stop) of the members from ``low`` to ``high`` if all scores are equal.

        Both bounds are inclusive, and None is no bound; ``after`` excludes ``low``, and ``before`` excludes ``high``.
        With different scores, ZRANGEBYLEX has no defined result: this returns the one of Redis' walk, which starts at
        the highest score if ``reverse``. That is: from the first member past the near bound up to the next member
        beyond the far bound.
        """
        order = self.order
        size = len(order)
        if not size:
            return 0, 0
        score = order[0][0]
        if score != order[-1][0]:
            return self._walk(low, high, after=after, before=before, reverse=reverse)
        start = 0
        if low is not None:
            start = order.bisect_right((score, low)) if after else order.bisect_left((score, low))
        stop = size
        if high is not None:
            stop = order.bisect_left((score, high)) if before else order.bisect_right((score, high))
        return start, max(start, stop)

    def _walk(
        self, low: bytes | None, high: bytes | None, *, after: bool, before: bool, reverse: bool
    ) -> tuple[int, int]:
        """Walk over members in no lexical order; empty if the last member is too small or the first one too large."""
        large = [low is None or (member > low if after else member >= low) for _, member in self.order]
        small = [high is None or (member < high if before else member <= high) for _, member in self.order]
        if not large[-1] or not small[0]:
            return 0, 0
        if reverse:
            stop = len(small) - small[::-1].index(True)
            start = stop
            while start and large[start - 1]:
                start -= 1
            return start, stop
        start = stop = large.index(True)
        while stop < len(small) and small[stop]:
            stop += 1
        return start, stop

    # Random choice and iteration

    def sample(self, count: int) -> list[tuple[float, bytes]]:
        """Return ``count`` different items (score, member) at random; if there are no more, all of them, highest first."""
        size = len(self.scores)
        order = self.order
        if count >= size:
            return list(reversed(order))
        return [order[place] for place in sample(range(size), count)]

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next page of a ZSCAN, like ``ScanOrder.page``; a listpack is one page."""
        if self.encoding is LISTPACK:
            return 0, [member for _, member in self.order]
        if self._scan is None:
            self._scan = ScanOrder(self.scores)
        return self._scan.page(cursor, count)

    # The interface of collections

    def copy(self) -> SortedSet:
        """Return a copy that shares no mutable state."""
        twin = SortedSet()
        twin.encoding = self.encoding
        twin.scores = self.scores.copy()
        twin.order = self.order.copy()

        return twin

    def choose_encoding(self, limits: Limits) -> None:
        """Choose the encoding by size, as for a loaded set.

        A listpack with too many members becomes a skiplist; a skiplist becomes a listpack if it fits.
        """
        if len(self.scores) > limits.zset_max_listpack_entries:
            self.encoding = SKIPLIST
        elif self.encoding != LISTPACK and _longest(self.scores) <= limits.zset_max_listpack_value:
            self.encoding = LISTPACK
            self._lose_signs_of_zeros()

    def _lose_signs_of_zeros(self) -> None:
        """Replace each -0 by 0: a listpack stores both as the integer 0."""
        order = self.order
        start, stop = self.score_range(0.0, 0.0, after=False, before=False)
        for score, member in list(order.islice(start, stop)):
            if copysign(1.0, score) < 0:
                order.remove((score, member))
                order.add((0.0, member))
                self.scores[member] = 0.0

    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """Yield ``ZADD key score member ...`` with up to 64 members each, lowest score first."""
        for start in range(0, len(self.scores), _A_COMMAND):
            words = [b"ZADD", key]
            for score, member in self.order.islice(start, start + _A_COMMAND):
                words += (format_double(score), member)
            yield tuple(words)

    def parts(self) -> Iterable[object]:
        """Return the containers of the scores, of the order and of the scan order."""
        # SortedList pops items one by one and rebalances each time; its inner lists can be emptied in steps.
        return self.scores, self.order._lists, self._scan  # noqa: SLF001

    def digest_parts(self) -> Iterator[bytes]:
        """Yield members and scores, lowest score first."""
        for score, member in self.order:
            yield member
            yield format_double(score)

    def make_whole(self) -> None:
        """Repair the sorted set after an interrupted change: rebuild the order from the scores."""
        self.order = SortedSet(self.scores).order

    @property
    def payload_bytes(self) -> int:
        """Estimated bytes of members with their scores, pairs and slots."""
        size = len(self.scores)
        sample = [member for member, _ in zip(self.scores, range(_SAMPLE), strict=False)]
        members = sum([len(member) + 33 for member in sample]) * size // max(len(sample), 1)
        return members + size * (24 + 56 + 8 + 56)


def _longest(members: Iterable[bytes]) -> int:
    return max(map(len, members), default=0)
