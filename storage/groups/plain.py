"""Books of singles: each entry has facts of its own, which are found by the text of its ID and changed in place.

That is the fastest way for a small group whose entries are claimed a few at a time: nothing is parsed, searched or
made. It takes ten times the memory of ``dense``, so only groups of up to some thousand entries have it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ..streams.chunk import Chunk, ids_in
from ..streams.ids import MAX_COUNT, MAX_U64, encode
from .books import Books
from .claims import SCAN_FACTOR, Claimed
from .deliveries import MAX_MS, UNOWNED_MS, Consumer, Facts
from .pel_pages import batches_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..streams.chunk import ChunkRun
    from ..streams.stream import Stream
    from ..streams.tuning import Tuning
    from .claims import ClaimTerms
    from .pel import Pel
    from .pel_pages import Page, PelRuns, Place

# The single with its ID as integer and as text, and its place in the dict.
_ENTRY_BYTES: Final = 300
_NOWHERE: Final = array("Q")  # the hint of a caller that knows no place
_in_turn: Final = attrgetter("ms", "turn")


class Single(Facts):
    """The facts of one pending entry.

    Attributes:
        number: its ID.
        text: the canonical text of that.
        column, at: the column of milliseconds where its ID was met last, and the position there; a hint: who uses it
            compares the column, or what stands there.
        turn: greater than that of everything that changed earlier.
    """

    __slots__ = ("at", "column", "number", "text", "turn")

    def __init__(
        self,
        consumer: Consumer,
        ms: int,
        count: int,
        number: int,
        column: array[int],
        at: int,
        turn: int,
    ) -> None:
        self.consumer = consumer
        self.ms = ms
        self.count = count
        self.number = number
        self.text = b"%d-%d" % (number >> 64, number & MAX_U64)
        self.column = column
        self.at = at
        self.turn = turn


class Plain(Books):
    """What the PEL has beside an ID is its ``Single``.

    Attributes:
        singles: all of them, by the canonical text of the ID.
    """

    __slots__ = ("_latest", "_times", "_turn", "_zone", "singles")

    def __init__(self, pel: Pel, tuning: Tuning, places: Iterable[Place] = ()) -> None:
        """Take over what is pending: ``places`` are in the order of turns."""
        super().__init__(pel, tuning)
        self.singles: dict[bytes, Single] = {}
        self._turn = 0
        # The singles in the order of their turns, those without owner apart; None until somebody asks for it, and after
        # something got a time before ``_latest``, the greatest one there.
        self._times: dict[Single, None] | None = None
        self._zone: dict[Single, None] = {}
        self._latest = UNOWNED_MS
        for page, at in places:
            facts = page.batches[at]
            assert facts is not None
            page.batches[at] = self._new(facts.consumer, facts.ms, facts.count, page.number(at), page.ms, at)

    @property
    def entry_bytes(self) -> int:
        """As of any books."""
        return _ENTRY_BYTES

    def parts(self) -> Iterable[object]:
        """Return the PEL and the singles."""
        return self.pel, self.singles, self._times, self._zone

    def copy(self, owners: dict[Consumer, Consumer]) -> Plain:
        """As of any books."""
        twins: dict[Facts, Facts] = {}
        singles: dict[bytes, Single] = {}
        for text, single in self.singles.items():
            owner = owners[single.consumer]
            owner.pending += 1
            twins[single] = singles[text] = Single(
                owner, single.ms, single.count, single.number, single.column, single.at, single.turn
            )
        twin = Plain(self.pel.copy(twins), self.tuning)
        twin.singles = singles
        twin._turn = self._turn
        return twin

    def in_turn(self) -> list[tuple[int, Facts]]:
        """All entries in the order of their turns."""
        return [(single.number, single) for single in sorted(self.singles.values(), key=_in_turn)]

    # Entries come and move

    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], number: int, after: int, last: int, now: int
    ) -> None:
        """As of any books."""
        del after
        consumer.pending += number
        listed: list[list[Facts | None]] = []
        is_ordered = self._times is not None
        turn = self._turn
        by_text = self.singles
        for chunk, start, stop in pieces:
            column, seq = chunk.ms, chunk.seq
            singles: list[Facts | None] = []
            for at in range(start, stop):
                turn += 1
                single = Single(consumer, now, 1, column[at] << 64 | seq[at], column, at, turn)
                by_text[single.text] = single
                singles.append(single)
                if is_ordered:
                    self._queue(single)
            listed.append(singles)
        self._turn = turn
        self.pel.append(pieces, listed, last)
        if consumer.order is not None:
            consumer.order.append(list(ids_in(pieces)))

    def move_each(
        self, singles: Sequence[Single], consumer: Consumer, ms: int, counts: Iterable[int]
    ) -> None:
        """Give entries to a consumer, who may have them already, each with its own delivery counter."""
        turn = self._turn
        came = 0
        for single, count in zip(singles, counts, strict=True):
            owner = single.consumer
            if owner is not consumer:
                owner.pending -= 1
                if owner.order is not None:
                    owner.forget_waste(self.tuning.slack)
                single.consumer = consumer
                came += 1
            turn += 1
            single.turn = turn
            single.ms = ms
            single.count = count
        self._turn = turn
        if came:
            if consumer.order is not None:
                self.will_own(consumer, [single.number for single in singles])
            consumer.pending += came
        if self._times is not None:
            for single in singles:
                self._queue(single)

    def _new(
        self, consumer: Consumer, ms: int, count: int, number: int, column: array[int], at: int
    ) -> Single:
        """The facts of an entry that had none here; the caller puts them into its page."""
        self._turn = turn = self._turn + 1
        single = Single(consumer, ms, count, number, column, at, turn)
        self.singles[single.text] = single
        self._queue(single)
        return single

    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """As of any books."""
        for number in numbers:
            single = self.singles.get(encode(number))
            if single is not None:
                self.move_each((single,), consumer, ms, (count,))
                continue
            self.will_own(consumer, [number])
            self.pel.put(number, self._new(consumer, ms, count, number, _NOWHERE, 0))
            consumer.pending += 1

    def reassign(
        self, consumer: Consumer, places: PelRuns, ms: int, count: int, facts: list[Facts] | None = None
    ) -> None:
        """As of any books."""
        singles = batches_of(places) if facts is None else facts
        self.move_each(singles, consumer, ms, [count] * len(singles))  # type: ignore[arg-type]  # as all here

    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Facts | None = None
    ) -> Single:
        """As of any books."""
        del target
        single = page.batches[at]
        if TYPE_CHECKING:
            assert isinstance(single, Single)
        self.move_each((single,), consumer, ms, (count,))
        return single

    def claim(
        self,
        stream: Stream,
        consumer: Consumer,
        singles: Iterable[Single],
        terms: ClaimTerms,
        most: int,
        *,
        with_changes: bool,
    ) -> Claimed:
        """As ``claiming.claim`` and ``claiming.autoclaim``, in less time; ``tests/commands/streams/test_plain_groups.py``.

        Args:
            stream: the stream.
            consumer: the new owner.
            singles: distinct pending entries, in the order in which they are claimed.
            terms: what is claimed, and the new facts.
            most: the walk ends when so many entries were claimed or deleted, or ``SCAN_FACTOR`` times so many looked at.
            with_changes: whether ``Claimed.changes`` is needed.
        """
        chunks, firsts = stream.chunks, stream.firsts
        latest, just_id = terms.latest, terms.just_id
        claimed = Claimed()
        items = claimed.items
        taken: list[Single] = []
        gone: list[Single] = []
        deleted_before: list[int] = []  # how many had been taken before each of these
        looks = most * SCAN_FACTOR
        for single in singles:
            if not most or not looks:
                claimed.cursor = single.text
                break
            looks -= 1
            number = single.number
            index = bisect_right(firsts, number) - 1
            at = -1
            if index >= 0:
                stored = chunks[index]
                chunk = stored if type(stored) is Chunk else stream.open(index)
                at = single.at
                if chunk.ms is not single.column:
                    at = chunk.find(number)
            if at < 0:
                gone.append(single)
                deleted_before.append(len(taken))
            elif single.ms > latest:
                continue
            else:
                taken.append(single)
                if not just_id:
                    offsets = chunk.offsets
                    items.append(chunk.data[offsets[at] : offsets[at + 1]])
            most -= 1
        if taken:
            claimed.count = len(taken)
            ms, retry_count = terms.ms, terms.retry_count
            if retry_count >= 0:
                counts = [retry_count] * len(taken)
            elif just_id:
                counts = [single.count for single in taken]
            else:
                counts = [
                    count + 1 if (count := single.count) < MAX_COUNT else count
                    for single in taken  # as min()
                ]
            if just_id:
                claimed.ids = [single.text for single in taken]
            if with_changes:
                name = consumer.name
                claimed.changes = [
                    ((single.text,), name, ms, count) for single, count in zip(taken, counts, strict=True)
                ]
            self.move_each(taken, consumer, ms, counts)
        if gone:
            for more, (single, place) in enumerate(zip(gone, deleted_before, strict=True)):
                claimed.deleted.append(single.text)
                if with_changes:
                    claimed.changes.insert(
                        place + more, ((single.text,), single.consumer.name, single.ms, single.count)
                    )
                self.drop(single)
        return claimed

    # Entries go

    def release(self, facts: Facts, count: int) -> None:
        """As of any books."""
        del count
        if TYPE_CHECKING:
            assert isinstance(facts, Single)
        del self.singles[facts.text]
        owner = facts.consumer
        owner.pending -= 1
        if owner.order is not None:
            owner.forget_waste(self.tuning.slack)
        if self._times is not None:
            self._times.pop(facts, None)
            self._zone.pop(facts, None)

    def drop(self, single: Single) -> None:
        """Take an entry off the PEL."""
        self.pel.take_off(single.number, single.at, single)
        self.release(single, 1)

    def acknowledge_all(self, ids: list[bytes]) -> int | None:
        """As of any books."""
        if len(ids) == 1:
            single = self.singles.get(ids[0])
            if single is None:
                return None
            self.drop(single)
            return 1
        found = list(map(self.singles.get, ids))
        if not all(found) or len(set(found)) < len(found):
            return None
        for each in found:
            assert each is not None
            self.drop(each)
        return len(found)

    def let_go(self, consumer: Consumer) -> Iterator[None]:
        """As of any books."""
        consumer.order = None
        mine = [single for single in self.singles.values() if single.consumer is consumer]
        while some := mine[-self.tuning.piece :]:
            del mine[-self.tuning.piece :]
            for single in some:
                self.drop(single)
            yield

    # Searching by name and by time

    def named(self, words: list[bytes], start: int) -> list[Single] | None:
        """What the words name from a position on, up to one that begins with a letter.

        None if there is nothing, an ID is named twice, or a word is not the canonical text of a pending ID.
        """
        found = list(map(self.singles.get, words[start:]))
        if not all(found):
            stop = found.index(None)
            if not stop or not words[start + stop][:1].isalpha():
                return None
            del found[stop:]
        if len(found) > 1 and len(set(found)) < len(found):
            return None
        return found  # type: ignore[return-value]  # None is not among them

    def singles_from(self, start: int) -> Iterator[Single]:
        """The entries in ID order. Nothing may be added or go before the walk is over."""
        for page, at, stop in self.pel.spans(start):
            for single in islice(page.batches, at, stop):
                if single is not None:
                    yield single  # type: ignore[misc]  # as all there

    def _queue(self, single: Single) -> None:
        """Put what has changed behind all of its time, or leave the order to be made again."""
        times = self._times
        if times is None:
            return
        times.pop(single, None)
        self._zone.pop(single, None)
        if single.ms == UNOWNED_MS:
            self._zone[single] = None
        elif single.ms < self._latest:
            self._times = None
        else:
            times[single] = None
            self._latest = single.ms

    def _by_turn(self, latest: int) -> Iterator[Single]:
        """What was delivered at ``latest`` or before, the longest idle first."""
        times = self._times
        if times is None:
            in_turn = sorted(self.singles.values(), key=_in_turn)
            self._zone = dict.fromkeys([single for single in in_turn if single.ms == UNOWNED_MS])
            times = self._times = dict.fromkeys(in_turn[len(self._zone) :])
            self._latest = in_turn[-1].ms if times else UNOWNED_MS
        for single in chain(self._zone, times):
            if single.ms > latest:
                return
            yield single

    def oldest(self, latest: int) -> Iterator[Place]:
        """As of any books."""
        for single in self._by_turn(latest):
            place = self.pel.place(single.number)
            assert place is not None
            yield place

    def oldest_ms(self) -> int | None:
        """As of any books."""
        return next((single.ms for single in self._by_turn(MAX_MS)), None)

    def few_idle(self, latest: int, few: int) -> list[tuple[int, Facts]] | None:
        """As of any books."""
        if self._times is None:
            return None
        found: list[tuple[int, Facts]] = [
            (single.number, single) for single in islice(self._by_turn(latest), few + 1)
        ]
        return found if len(found) <= few else None

    def numbers_of(self, consumer: Consumer) -> list[int]:
        """As of any books."""
        return self.all_of(consumer)

    def check_invariants(self, owners: dict[int, Consumer]) -> None:
        """As of any books."""
        listed = list(self.pel.listed())
        assert len(listed) == len(self.singles)
        for number, single in listed:
            assert isinstance(single, Single)
            assert single.number == number
            assert self.singles[encode(number)] is single
            assert single.text == encode(number)
            assert owners[id(single.consumer)] is single.consumer
        for consumer in owners.values():
            assert consumer.pending == sum([single.consumer is consumer for single in self.singles.values()])
            assert not consumer.batches
        assert len({single.turn for single in self.singles.values()}) == len(self.singles)
        if self._times is not None:
            in_turn = sorted(self.singles.values(), key=_in_turn)
            assert [*self._zone, *self._times] == in_turn
            assert all(single.ms == UNOWNED_MS for single in self._zone)
            assert all(single.ms > UNOWNED_MS for single in self._times)
