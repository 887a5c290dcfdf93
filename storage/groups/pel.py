"""The PEL itself: which IDs are pending, in order, and the batch of each (see ``deliveries``); eight bytes an entry.

IDs stand in pages, and beside each ID its batch. A page mostly shares its columns of IDs with the chunk of the stream
out of which the entries were delivered; so only the reference to the batch takes memory, and what is read together
costs next to nothing: no object is made for an ID. What becomes of the stream afterwards makes no difference, for a
chunk that loses entries takes new columns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from ..freeing import Freeable
from ..streams.chunk import ids_in
from ..streams.ids import MAX_ID, MAX_U64
from ..streams.tuning import DEFAULT
from .pel_pages import Page, batches_of, texts_of, widened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..streams.chunk import Chunk, ChunkRun
    from ..streams.tuning import Tuning
    from .deliveries import DeliveryBatch, Facts
    from .pel_pages import PelRuns, Place, Span

_SPARSE: Final = 4  # a page of which only one in so many is pending is made smaller
_LONGEST: Final = 41  # bytes of the text of an ID
_RUN: Final = 4  # so many neighbours are taken off sooner as a run than one by one


class Pel(Freeable):
    """All that is pending in one group. The owner counts for itself how many entries each batch has left.

    Attributes:
        highest: the greatest ID that was ever listed, -1 if there was none.
        appended: how many IDs ``append`` has ever listed.
    """

    __slots__ = ("_at", "_firsts", "_page", "_pages", "_size", "_tuning", "appended", "highest")

    def __init__(self, tuning: Tuning = DEFAULT) -> None:
        self._tuning = tuning
        self.highest = -1
        self.appended = 0
        self._size = 0
        self._pages: list[Page] = []
        # A lower bound for the IDs in each page, greater than all IDs in pages before it.
        self._firsts: list[int] = []
        # Where something was found last, and where the next is expected; a page of the list, or none of anybody's.
        self._page = Page(array("Q"), array("Q"), [], 0, private=True)
        self._at = 0

    def __len__(self) -> int:
        return self._size

    def parts(self) -> Iterable[object]:
        """Return the pages, and where they begin. Pages are freed whole."""
        return self._pages, self._firsts

    # Looking up

    def find(self, ms: int, seq: int) -> Place | None:
        """Where an ID stands, pending or not, given as its halves; None if no page has it."""
        index = bisect_right(self._firsts, ms << 64 | seq) - 1
        if index < 0:
            return None
        page = self._pages[index]
        column = page.ms
        size = len(page.batches)
        at = bisect_left(column, ms, 0, size)
        if at == size or column[at] != ms:
            return None
        if page.seq[at] != seq:
            stop = bisect_right(column, ms, at, size)
            at = bisect_left(page.seq, seq, at, stop)
            if at == stop or page.seq[at] != seq:
                return None
        self._page = page
        return page, at

    def place(self, number: int) -> Place | None:
        """Where a pending entry stands, None if it is not pending."""
        found = self.find(number >> 64, number & MAX_U64)
        return None if found is None or found[0].batches[found[1]] is None else found

    def at(self, number: int) -> Facts | None:
        """The batch of an ID, None if it is not pending."""
        found = self.find(number >> 64, number & MAX_U64)
        return None if found is None else found[0].batches[found[1]]

    def _run_of(self, page: Page, at: int, ids: list[bytes]) -> PelRuns | None:
        """Where two or more neighbours stand, the first of them at a place; None unless the words are their texts.

        All of them are pending.
        """
        if at + 1 < len(page.batches) and page.text(at + 1) != ids[1]:
            return None
        run = self._run(page, at, len(ids))
        return run if run is not None and texts_of(run) == ids and None not in batches_of(run) else None

    def _run(self, page: Page, at: int, number: int) -> PelRuns | None:
        """So many IDs from a position on, pending or not; None if there are fewer."""
        stop = at + number
        if stop <= len(page.batches):
            return [(page, range(at, stop))]
        places: PelRuns = []
        index = -1
        while True:
            stop = min(at + number, len(page.batches))
            places.append((page, range(at, stop)))
            number -= stop - at
            if not number:
                return places
            if index < 0:
                index = bisect_right(self._firsts, page.number(at)) - 1
            index += 1
            if index == len(self._pages):
                return None
            page, at = self._pages[index], 0

    def locate_run(self, pieces: list[ChunkRun]) -> PelRuns | None:
        """Where neighbours in the stream stand, if they are all pending, and neighbours here as well; else None."""
        places = self._line_up(pieces)
        if places is None or any(
            page.live < len(page.batches) and None in page.batches[at.start : at.stop] for page, at in places
        ):
            return None
        return list(places)

    def batches_at(self, piece: ChunkRun) -> list[Facts | None]:
        """The batch of each of these entries, None for what is not pending."""
        places = self._line_up([piece])
        if places is None:
            return list(map(self.at, ids_in([piece])))
        return [batch for page, at in places for batch in page.batches[at.start : at.stop]]

    def _line_up(self, pieces: list[ChunkRun]) -> list[tuple[Page, range]] | None:
        """Where neighbours in the stream stand, pending or not, if they are neighbours here as well; else None."""
        places: list[tuple[Page, range]] = []
        page = self._page
        for chunk, begin, stop in pieces:
            ms, seq = chunk.ms, chunk.seq
            start = begin
            while start < stop:
                if page.ms is ms and start < len(page.batches):
                    at = start
                else:
                    found = self.find(ms[start], seq[start])
                    if found is None:
                        return None
                    page, at = found
                end = at + min(stop - start, len(page.batches) - at)
                if page.ms is not ms and (
                    page.ms[at:end] != ms[start : start + end - at]
                    or page.seq[at:end] != seq[start : start + end - at]
                ):
                    return None
                places.append((page, range(at, end)))
                start += end - at
        self._page = page
        return places

    def spans(self, start: int = 0, end: int = MAX_ID) -> Iterator[Span]:
        """The IDs from start to end, both included: pages with their first position and that after their last one.

        What is not pending is among them. Nothing may be added or go before the walk is over.
        """
        pages, firsts = self._pages, self._firsts
        index = max(bisect_right(firsts, start) - 1, 0)
        while index < len(pages):
            if firsts[index] > end:
                return
            page = pages[index]
            at = page.position(start) if start else 0
            index += 1
            is_inside = end == MAX_ID or (index < len(pages) and firsts[index] <= end)
            stop = len(page.batches) if is_inside else page.position(end + 1)
            if at < stop:
                yield page, at, stop
            start = 0

    def pending_runs(self, start: int = 0, end: int = MAX_ID) -> Iterator[tuple[Page, Sequence[int]]]:
        """The pending IDs from start to end, page by page: positions, ascending. Nothing may be added or removed before the walk is over."""
        for page, at, stop in self.spans(start, end):
            batches = page.batches
            if page.live == len(batches):
                yield page, range(at, stop)
            elif page.live and (found := [i for i in range(at, stop) if batches[i] is not None]):
                yield page, found

    def first_run(self, start: int, end: int, count: int) -> PelRuns | None:
        """As the first ``count`` of ``pending_runs``, if the page where they begin has them side by side; else None."""
        pages = self._pages
        if not pages or count <= 0:
            return None
        page = pages[bisect_right(self._firsts, start) - 1 if start > self._firsts[0] else 0]
        at = page.position(start) if start else 0
        stop = at + count
        batches = page.batches
        if (
            stop > len(batches)
            or (page.live < len(batches) and None in batches[at:stop])
            or (end < MAX_ID and page.number(stop - 1) > end)
        ):
            return None
        return [(page, range(at, stop))]

    def of_batch(self, batch: DeliveryBatch) -> Iterator[Place]:
        """Where the entries of a batch stand, in the order in which they came."""
        ids = batch.ids
        if ids is None:
            yield from self._within(batch)
            if not self.are_close(batch.first, batch.last, batch.live):
                # Others have come between them since, whom the next one need not pass.
                batch.enlist([page.number(at) for page, at in self._within(batch)])
            return
        halves = iter(ids)
        for ms, seq in zip(halves, halves, strict=True):
            found = self.find(ms, seq)
            if found is not None and found[0].batches[found[1]] is batch:
                yield found

    def numbers(self, batch: DeliveryBatch) -> Iterator[int]:
        """The IDs of the entries of a batch, in the order in which they came."""
        return (page.number(at) for page, at in self.of_batch(batch))

    def _within(self, batch: DeliveryBatch) -> Iterator[Place]:
        """Where the entries of a batch stand between its first and its last."""
        for page, start, stop in self.spans(batch.first, batch.last):
            for at, other in enumerate(page.batches[start:stop], start):
                if other is batch:
                    yield page, at

    def listed(self) -> Iterator[tuple[int, Facts]]:
        """What is pending, in any order and maybe twice, even where a change was broken off in its middle."""
        for page in self._pages:
            for at, batch in enumerate(page.batches[: min(len(page.ms), len(page.seq))]):
                if batch is not None:
                    yield page.number(at), batch

    def first(self) -> Place | None:
        """The smallest ID that is pending."""
        for page in self._pages:
            if page.live:
                return page, page.batches.index(next(filter(None, page.batches)))
        return None

    def last(self) -> Place | None:
        """The greatest ID that is pending."""
        for page in reversed(self._pages):
            if page.live:
                at = len(page.batches) - 1
                while page.batches[at] is None:
                    at -= 1
                return page, at
        return None

    def are_close(self, first: int, last: int, number: int) -> bool:
        """Whether so many entries between two IDs are found soon by looking at all that lie there."""
        firsts = self._firsts
        index, end = max(bisect_right(firsts, first) - 1, 0), bisect_right(firsts, last) - 1
        between = sum([len(page.batches) for page in self._pages[index : min(end, index + number + 2)]])
        return between - self._pages[index].position(first) + self._pages[end].position(
            last
        ) < self._tuning.dense * (number + 1)

    def would_follow(self, number: int, other: int) -> bool:
        """Whether an ID, listed or not, has its place right behind the other one, in the same page."""
        index = bisect_right(self._firsts, number) - 1
        if index < 0:
            return False
        page = self._pages[index]
        at = page.position(number)
        return at > 0 and page.number(at - 1) == other

    # Adding

    def append(self, pieces: list[ChunkRun], facts: list[list[Facts | None]], last: int) -> None:
        """List neighbours greater than ``highest``; ``facts`` has a list of each piece, which becomes the PEL's own."""
        page = self._pages[-1] if self._pages else self._page
        rest = iter(facts)  # zip(…, strict=True) takes 2,000 instructions more
        for chunk, start, stop in pieces:
            batches = next(rest)
            number = stop - start
            size = len(page.batches)
            if page.ms is chunk.ms and size <= start:
                if size < start:  # what lies between was not delivered
                    page.batches += [None] * (start - size)
                page.batches += batches
            elif size and size + number <= self._most(page, chunk):
                page.become_private()
                page.ms += chunk.ms[start:stop]
                page.seq += widened(chunk.seq[start:stop])
                page.batches += batches
            elif not start or (start < self._tuning.short_page and chunk.id_at(0) > self.highest):
                if start:
                    batches[:0] = [None] * start
                page = self._begin(Page(chunk.ms, chunk.seq, batches, 0, private=False))
            else:
                seq = widened(chunk.seq[start:stop])
                page = self._begin(Page(chunk.ms[start:stop], seq, batches, 0, private=True))
            page.live += number
            self._size += number
            self.appended += number
        self.highest = last

    def share(self, ms: array[int], others: tuple[array[int], array[int]]) -> None:
        """A chunk has other columns now, of the same IDs: who shared the one of milliseconds takes those, too."""
        index = bisect_right(self._firsts, others[0][0] << 64 | others[1][0]) - 1
        if index >= 0 and (page := self._pages[index]).ms is ms:
            page.ms, page.seq = others

    def _most(self, page: Page, chunk: Chunk) -> int:
        """How many IDs a page may have after some of a chunk were copied to it.

        Only a small page takes entries of the next chunk: otherwise pages would never again begin where chunks do.
        """
        tuning = self._tuning
        return tuning.page if page.private and page.number(0) >= chunk.id_at(0) else tuning.tiny_page

    def extend(self, ms: array[int], seq: array[int], batches: list[DeliveryBatch]) -> None:
        """List IDs that ascend and are greater than ``highest``, about as many as a page has, each in a batch."""
        self._begin(Page(ms, seq, list(batches), len(batches), private=True))
        self._size += len(batches)
        self.highest = ms[-1] << 64 | seq[-1]

    def _begin(self, page: Page) -> Page:
        """Add a page behind all others; answers it."""
        pages = self._pages
        pages.append(page)
        self._firsts.append(page.number(0))
        if len(pages) > 1:
            before = pages[-2]
            if before.live * _SPARSE < len(before.batches):
                self._tidy(before)
        return page

    def put(self, number: int, batch: Facts) -> Facts | None:
        """Let any ID be pending, in a batch; answers the one that it was in before."""
        ms, seq = number >> 64, number & MAX_U64
        if number > self.highest:
            self._append_one(ms, seq, batch)
            self.highest = number
            return None
        found = self.find(ms, seq)
        if found is None:
            self._insert(number, batch)
            return None
        page, at = found
        before = page.batches[at]
        page.batches[at] = batch
        if before is None:
            page.live += 1
            self._size += 1
        return before

    def _append_one(self, ms: int, seq: int, batch: Facts) -> None:
        page = self._pages[-1] if self._pages else None
        if page is None or len(page.batches) >= (
            self._tuning.page if page.private else self._tuning.tiny_page
        ):
            page = self._begin(Page(array("Q", (ms,)), array("Q", (seq,)), [], 0, private=True))
        else:
            page.become_private()
            page.ms.append(ms)
            page.seq.append(seq)
        page.batches.append(batch)
        page.live += 1
        self._size += 1

    def _insert(self, number: int, batch: Facts) -> None:
        pages, firsts = self._pages, self._firsts
        if not pages:
            self._append_one(number >> 64, number & MAX_U64, batch)
            return
        index = max(bisect_right(firsts, number) - 1, 0)
        firsts[index] = min(firsts[index], number)
        page = pages[index]
        at = page.position(number)
        page.become_private()
        ms, seq = array("Q", (number >> 64,)), array("Q", (number & MAX_U64,))
        # No call comes between these: a page whose columns do not stand beside each other cannot be mended.
        page.ms[at:at], page.seq[at:at], page.batches[at:at] = ms, seq, [batch]
        page.live += 1
        self._size += 1
        if len(page.batches) > 2 * self._tuning.page:
            self._split(index)

    def _split(self, index: int) -> None:
        page = self._pages[index]
        size = self._tuning.page
        rest = page.batches[size:]
        more = Page(page.ms[size:], page.seq[size:], rest, len(rest) - rest.count(None), private=True)
        # First listed twice: where this is broken off nothing is lost (see `healing`).
        self._pages.insert(index + 1, more)
        self._firsts.insert(index + 1, more.number(0))
        del page.batches[size:], page.ms[size:], page.seq[size:]
        page.live -= more.live
        for half in (page, more):
            if half.live * _SPARSE < len(half.batches):
                self._tidy(half)

    # Changing and removing

    def remove(self, number: int) -> Facts | None:
        """Take an entry off; answers the batch it was in, None if it is not pending."""
        return self.take(number >> 64, number & MAX_U64)

    def take(self, ms: int, seq: int) -> Facts | None:
        """As ``remove``, by the halves of the ID."""
        page, at = self._page, self._at
        batches = page.batches
        # Mostly the next one is acknowledged next.
        if not (at < len(batches) and page.ms[at] == ms and page.seq[at] == seq):
            found = self.find(ms, seq)
            if found is None:
                return None
            page, at = found
            batches = page.batches
        batch = batches[at]
        if batch is None:
            return None
        batches[at] = None
        self._at = at + 1
        self._size -= 1
        page.live = live = page.live - 1
        if live * _SPARSE < len(batches):
            self._tidy(page)
        return batch

    def take_off(self, number: int, at: int, facts: Facts) -> None:
        """As ``remove``, by the facts that only this entry has, and its probable place in the page."""
        pages = self._pages
        page = pages[bisect_right(self._firsts, number) - 1]
        batches = page.batches
        if at >= len(batches) or batches[at] is not facts:
            at = page.position(number)
        batches[at] = None
        self._size -= 1
        page.live = live = page.live - 1
        if live * _SPARSE < len(batches) and page is not pages[-1]:
            self._tidy(page)

    def take_all(self, ids: list[bytes]) -> list[Facts] | None:
        """Take two or more entries off, wherever they stand; answers the batch of each.

        None, and nothing is done, if a word is not the text of a pending ID, or two name the same.
        """
        pages, firsts = self._pages, self._firsts
        if not pages:
            return None
        found: list[Place] = []
        batches: list[Facts] = []
        for word in ids:
            left, _, right = word.partition(b"-")
            if len(word) > _LONGEST or not (left.isdigit() and right.isdigit()):
                return None
            ms, seq = int(left), int(right)
            page = pages[bisect_right(firsts, ms << 64 | seq) - 1]
            column = page.ms
            size = len(page.batches)
            at = bisect_left(column, ms, 0, size)
            if at == size or column[at] != ms:
                return None
            if page.seq[at] != seq:  # after others of its millisecond
                at = bisect_left(page.seq, seq, at, bisect_right(column, ms, at, size))
                if at == size or page.seq[at] != seq or column[at] != ms:
                    return None
            batch = page.batches[at]
            if batch is None:
                return None
            if not found and len(ids) >= _RUN:
                places = self._run_of(page, at, ids)
                if places is not None:
                    run = batches_of(places)
                    self.clear(places)
                    return run
            found.append((page, at))
            batches.append(batch)
        if len(set(found)) < len(ids):
            return None
        for page, at in found:
            page.batches[at] = None
            page.live -= 1
        self._size -= len(found)
        for page, _ in found:
            if page.live * _SPARSE < len(page.batches):
                self._tidy(page)
        return batches

    def clear(self, places: PelRuns) -> None:
        """Take pending entries off."""
        for page, positions in places:
            page.clear(positions)
            self._size -= len(positions)
        for page, _ in places:
            if page.live * _SPARSE < len(page.batches):
                self._tidy(page)

    def _tidy(self, page: Page) -> None:
        """Make a page small that has few pending entries left, unless entries are still added to it."""
        pages = self._pages
        index = bisect_right(self._firsts, page.number(0)) - 1
        if page is pages[-1] or index < 0 or pages[index] is not page:
            return
        if page.live:
            page.compact()
            before = pages[index - 1] if index else page
            after = pages[index + 1]
            if before.private and before is not page and len(before.batches) + page.live <= self._tuning.page:
                before.take_over(page)
            elif (
                after.private
                and after is not pages[-1]
                and len(after.batches) + page.live <= self._tuning.page
            ):
                page.take_over(after)
                index += 1
            else:
                return
        del pages[index]
        del self._firsts[index]
        self._page = pages[-1]

    def copy(self, twins: dict[Facts, Facts]) -> Pel:
        """The same with other facts for these."""
        twin = Pel(self._tuning)
        twin.highest = self.highest
        twin.appended = self.appended
        twin._size = self._size
        twin._firsts = self._firsts.copy()
        twin._pages += [page.copy(twins) for page in self._pages]
        return twin

    def check_invariants(self) -> None:
        """Assert that pages, lower bounds and counts agree; for tests."""
        assert len(self._pages) == len(self._firsts)
        assert self._size == sum([page.live for page in self._pages])
        before = -1
        for index, (page, first) in enumerate(zip(self._pages, self._firsts, strict=True)):
            page.check_invariants()
            assert page.live or index == len(self._pages) - 1
            assert before < first <= page.number(0)
            before = page.number(len(page.batches) - 1)
        assert before <= self.highest
