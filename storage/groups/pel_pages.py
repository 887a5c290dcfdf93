"""The pages of a PEL, and what stands at places in them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

from ..streams.ids import MAX_U64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .deliveries import Facts


class Page:
    """IDs in ascending order, each with its facts: mostly a batch, which others share.

    Attributes:
        ms, seq: the halves of the IDs. There may be more IDs than batches: those are not known here. Each number has
            eight bytes in a column of the page's own, and may have fewer in others.
        batches: None for what is not pending (any more).
        live: how many are pending.
        private: whether the columns are the page's own. Others are the chunk's, which may add to them.
    """

    __slots__ = ("batches", "live", "ms", "private", "seq")

    def __init__(
        self, ms: array[int], seq: array[int], batches: list[Facts | None], live: int, private: bool
    ) -> None:
        self.ms = ms
        self.seq = seq
        self.batches = batches
        self.live = live
        self.private = private

    def number(self, at: int) -> int:
        """The ID at a position."""
        return self.ms[at] << 64 | self.seq[at]

    def text(self, at: int) -> bytes:
        """The canonical text of an ID."""
        return b"%d-%d" % (self.ms[at], self.seq[at])

    def position(self, number: int) -> int:
        """The position of the first ID that is not smaller; the number of batches if there is none."""
        size = len(self.batches)
        ms, half = self.ms, number >> 64
        low = bisect_left(ms, half, 0, size)
        if low == size or ms[low] != half:
            return low
        return bisect_left(self.seq, number & MAX_U64, low, bisect_right(ms, half, low, size))

    def become_private(self) -> None:
        """Take columns of its own, with exactly the IDs that have batches."""
        if not self.private:
            size = len(self.batches)
            self.ms = self.ms[:size]
            self.seq = widened(self.seq[:size])
            self.private = True

    def compact(self) -> None:
        """Forget what is not pending."""
        ms, seq, batches = self.ms, self.seq, self.batches
        kept = [at for at, batch in enumerate(batches) if batch is not None]
        fewer = array("Q", [ms[at] for at in kept]), array("Q", [seq[at] for at in kept])
        # All or, where there is no memory for one of them, none.
        self.batches, (self.ms, self.seq), self.private = [batches[at] for at in kept], fewer, True

    def take_over(self, other: Page) -> None:
        """Add all that another page has, which follows; this one has columns of its own, and so has the other."""
        size = len(other.batches)
        self.ms += other.ms[:size]
        self.seq += other.seq[:size]
        self.batches += other.batches
        self.live += other.live

    def fill(self, positions: Sequence[int], facts: Facts) -> None:
        """What stands there, and is pending, has these facts now."""
        if type(positions) is range:
            self.batches[positions.start : positions.stop] = [facts] * len(positions)
        else:
            for at in positions:
                self.batches[at] = facts

    def clear(self, positions: Sequence[int]) -> None:
        """What stands there, and is pending, is so no more."""
        if type(positions) is range:
            self.batches[positions.start : positions.stop] = [None] * len(positions)
        else:
            for at in positions:
                self.batches[at] = None
        self.live -= len(positions)

    def copy(self, twins: dict[Facts, Facts]) -> Page:
        """The same with other facts for these."""
        ms, seq = (self.ms[:], self.seq[:]) if self.private else (self.ms, self.seq)
        batches = [None if batch is None else twins[batch] for batch in self.batches]
        return Page(ms, seq, batches, self.live, self.private)

    def check_invariants(self) -> None:
        """Assert that columns and count agree; for tests."""
        size = len(self.batches)
        assert min(len(self.ms), len(self.seq)) >= size > 0
        assert self.live == size - self.batches.count(None)
        assert all(self.number(at - 1) < self.number(at) for at in range(1, size))


def widened(column: array[int]) -> array[int]:
    """A column to which any number can be added."""
    return column if column.typecode == "Q" else array("Q", column)


Place: TypeAlias = "tuple[Page, int]"
Span: TypeAlias = "tuple[Page, int, int]"  # with the first position and that after the last one
# Entries by the pages they stand in and their positions there, which ascend. Good until something is added or goes.
PelRuns: TypeAlias = "list[tuple[Page, Sequence[int]]]"


def number_of(places: PelRuns) -> int:
    """How many entries these are."""
    return sum([len(positions) for _, positions in places])


def texts_of(places: PelRuns) -> list[bytes]:
    """Their IDs as canonical texts."""
    texts: list[bytes] = []
    for page, positions in places:
        if type(positions) is range:
            start, stop = positions.start, positions.stop
            texts += [
                b"%d-%d" % halves for halves in zip(page.ms[start:stop], page.seq[start:stop], strict=True)
            ]
        else:
            ms, seq = page.ms, page.seq
            texts += [b"%d-%d" % (ms[at], seq[at]) for at in positions]
    return texts


def numbers_of(places: PelRuns) -> list[int]:
    """Their IDs as integers."""
    return [page.number(at) for page, positions in places for at in positions]


def batches_of(places: PelRuns) -> list[Facts]:
    """Their batches; the entries are pending."""
    batches: list[Facts | None] = []
    if len(places) == 1:
        page, positions = places[0]
        if type(positions) is range:
            return page.batches[positions.start : positions.stop]  # type: ignore[return-value]  # none is None
    for page, positions in places:
        if type(positions) is range:
            batches += page.batches[positions.start : positions.stop]
        else:
            batches += [page.batches[at] for at in positions]
    return batches  # type: ignore[return-value]


def one_by_one(places: PelRuns) -> PelRuns:
    """The same entries, each a place for itself."""
    return [(page, (at,)) for page, positions in places for at in positions]


def first_of(runs: Iterable[tuple[Page, Sequence[int]]], count: int) -> PelRuns:
    """The first so many of these entries; what lies behind them is not looked at."""
    found: PelRuns = []
    if count > 0:
        for page, positions in runs:
            some = positions[:count]
            if type(some) is list and some[-1] - some[0] + 1 == len(some):
                some = range(some[0], some[-1] + 1)
            found.append((page, some))
            count -= len(positions)
            if count <= 0:
                break
    return found
