"""A consumer group: its place in the stream, its consumers, and what was delivered and not yet acknowledged."""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ..freeing import Freeable
from ..streams.chunk import ids_in
from ..streams.ids import MAX_COUNT
from ..streams.tuning import DEFAULT
from .deliveries import MAX_MS, NEVER, UNOWNED_MS, Consumer
from .dense import Dense
from .lag import entries_read_after, lag
from .pel import Pel
from .pel_pages import batches_of
from .plain import Plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..streams.chunk import ChunkRun
    from ..streams.stream import Stream
    from ..streams.tuning import Tuning
    from .books import Books
    from .deliveries import Facts, Filling
    from .pel_pages import Page, PelRuns

_FEW: Final = 64  # consumers or pending entries that are freed at once
_FAR_FROM_MAX: Final = MAX_COUNT >> 1  # of counters: no delivery goes from here beyond the maximum


class Group(Freeable):
    """One group of a stream.

    The PEL has the facts of each pending entry: consumer, delivery time, count. They are kept by its books, plain ones
    while the group is small and its entries are claimed a few at a time, else dense ones (see ``books``).

    Attributes:
        last_id: last delivered ID (int).
        members: as ``consumers``, for a caller that knows that ``pending_cleanup`` is None; it costs no call.
        entries_read: how many entries were delivered in all, None if unknown.
        pending_cleanup: what is left of the removal of very many pending entries, None if there is nothing. Callers
            never see these entries: ``pel`` and ``consumers`` finish the removal first. A caller that prefers to wait
            calls ``clean_up_some`` now and then, or leaves that to the background.
        tuning: sizes and thresholds.
        unowned: a stand-in with an empty name for the owner of the entries given back by XNACK. Its ``pending`` is
            their number; it is none of the ``consumers``.
    """

    __slots__ = (
        "_books",
        "_pel",
        "_unsuited",
        "entries_read",
        "last_id",
        "members",
        "pending_cleanup",
        "tuning",
        "unowned",
    )

    def __init__(self, last_id: int = 0, entries_read: int | None = None, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.last_id = last_id
        self.entries_read = entries_read
        self.members: dict[bytes, Consumer] = {}
        self._pel = Pel(tuning)
        self.unowned = Consumer(b"", NEVER, NEVER, tuning.slack)
        self._books: Books = Dense(self._pel, tuning)
        self._unsuited = 0  # entries that were asked for in the way that the other books are made for
        self.pending_cleanup: Iterator[None] | None = None

    @property
    def pel(self) -> Pel:
        """All pending entries; to be read only, changes go through the methods of the group."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._pel

    @property
    def consumers(self) -> dict[bytes, Consumer]:
        """The consumers by name; they are added and removed through the methods of the group."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self.members

    @property
    def books(self) -> Books:
        """Who has what; to be read only."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._books

    def prepare_to_free(self) -> bool:
        """Do a step of the cleanup that is pending."""
        return self.clean_up_some()

    def is_small(self) -> bool:
        """Return whether it has few consumers and pending entries."""
        return max(self.weight) < _FEW

    def parts(self) -> Iterable[object]:
        """Return consumers, PEL and books."""
        return self.members, self.unowned, self._pel, self._books

    def __iter__(self) -> Iterator[tuple[int, Consumer, int, int]]:
        """Every pending entry in ID order: (ID, consumer, delivery ms, count).

        Those without owner have the consumer ``unowned`` and the time ``deliveries.UNOWNED_MS``.
        """
        for page, start, stop in self.pel.spans():
            for at, batch in enumerate(page.batches[start:stop], start):
                if batch is not None:
                    yield page.number(at), batch.consumer, batch.ms, batch.count

    def copy(self) -> Group:
        """A group of the same state that shares nothing that changes."""
        twin = Group(self.last_id, self.entries_read, self.tuning)
        for consumer in self.consumers.values():
            twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        owners = {consumer: twin.consumers[name] for name, consumer in self.consumers.items()}
        owners[self.unowned] = twin.unowned
        twin._books = self._books.copy(owners)
        twin._pel = twin._books.pel
        return twin

    def fill(self, pending: Iterable[Filling]) -> Iterator[None]:
        """Let entries be pending in a group that has none yet, as a loader knows them.

        Yields now and then; the group can be used only when it is through.

        Args:
            pending: all of them, about ``Tuning.page`` at a time.
        """
        books = self._books
        assert isinstance(books, Dense)  # which a new group has
        return books.fill(pending)

    @property
    def weight(self) -> tuple[int, int]:
        """How many consumers and pending entries take memory, those that are still to be removed among them."""
        return len(self.members), len(self._pel)

    @property
    def memory(self) -> int:
        """About the bytes of memory that the pending entries take."""
        return len(self._pel) * self._books.entry_bytes

    # Books

    def plain_for(self, number: int) -> Plain | None:
        """The books for a claim of so many entries, if they are plain or become so now; else None.

        Rewriting the books costs time for each pending entry, so it is done only after some such work has come
        together. Whether it is done makes no difference but time and memory.
        """
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        books = self._books
        tuning = self.tuning
        if number >= tuning.together:
            return self._strain(books, number) if type(books) is Plain else None
        if type(books) is Plain:
            self._unsuited = 0
            return books
        self._unsuited = unsuited = self._unsuited + number
        pending = len(self._pel)
        if pending < tuning.plain and unsuited * tuning.rewriting > pending:
            return self.become_plain()
        return None

    def _strain(self, books: Plain, number: int) -> Plain | None:
        """Ask plain books for so many entries, by a delivery or a claim of many; None if they become dense by that."""
        self._unsuited += number
        pending = len(books.singles)
        if pending > 2 * self.tuning.plain or self._unsuited > pending + self.tuning.together:
            self.become_dense()
            return None
        return books

    def become_plain(self) -> Plain:
        """Rewrite the books: each pending entry has facts of its own."""
        places = list(self.books.oldest(MAX_MS))
        self._books = plain = Plain(self._pel, self.tuning, places)
        for consumer in (self.unowned, *self.members.values()):
            consumer.batches.clear()
        self._unsuited = 0
        return plain

    def become_dense(self) -> None:
        """Rewrite the books: entries that have the same facts share them."""
        books = self.books
        assert isinstance(books, Plain)
        self._books = dense = Dense(self._pel, self.tuning)
        dense.adopt(books.in_turn())
        self._unsuited = 0

    # Place in the stream

    def lag(self, stream: Stream) -> int | None:
        """How many entries of the stream wait to be delivered, None if that is not known."""
        return lag(stream, self.last_id, self.entries_read)

    def has_nothing_for(self, name: bytes, stream: Stream) -> bool:
        """Return whether a consumer exists and its next read of new entries would find none."""
        return self.last_id >= stream.last_id and name in self.consumers

    def advance(self, stream: Stream, pieces: list[ChunkRun], number: int, last: int) -> None:
        """Entries are being delivered for the first time: move ``last_id`` and count them as read.

        Args:
            stream: the group's stream.
            pieces: the entries, all that the stream has between ``last_id`` and ``last``.
            number: how many these are.
            last: the last of them.
        """
        read = self.entries_read
        if (
            read is not None
            and read < _FAR_FROM_MAX
            and self.last_id >= stream.first_id
            and not stream.max_deleted_id
        ):
            self.entries_read = read + number
        else:
            self.entries_read = entries_read_after(stream, self.last_id, read, pieces, number)
        self.last_id = last

    # Consumers

    def create_consumer(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> Consumer:
        """Add a consumer that does not exist yet."""
        consumer = self.consumers[name] = Consumer(name, seen_ms, active_ms, self.tuning.slack)
        return consumer

    def delete_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer with its pending entries; answers how many those were."""
        dropped = consumer.pending
        del self.consumers[consumer.name]
        deque(self._books.let_go(consumer), 0)
        return dropped

    def delete_consumer_later(self, consumer: Consumer) -> Callable[[], bool]:
        """As ``delete_consumer``, but the entries are removed in steps; returns ``clean_up_some``."""
        del self.consumers[consumer.name]
        return self._clean_up_later(self._books.let_go(consumer))

    def clean_up_some(self) -> bool:
        """Remove some hundred entries of ``pending_cleanup``; False when there are no more."""
        work = self.pending_cleanup
        if work is None:
            return False
        self.pending_cleanup = None  # the step itself uses the methods of the group
        for _ in work:
            self.pending_cleanup = work
            return True
        return False

    def finish_cleanup(self) -> None:
        """Remove all that is left of ``pending_cleanup``."""
        while self.clean_up_some():
            pass

    def _clean_up_later(self, work: Iterator[None]) -> Callable[[], bool]:
        self.finish_cleanup()
        self.pending_cleanup = work
        return self.clean_up_some

    # Entries come, move and go

    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], number: int, after: int, last: int, now: int
    ) -> None:
        """New entries are delivered to a consumer for the first time.

        Args:
            consumer: who gets them.
            pieces: the entries as they stand in the stream, ascending.
            number: how many these are.
            after: all their IDs are greater than this ID.
            last: the last of them.
            now: delivery time in milliseconds.
        """
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        if type(self._books) is Plain:
            self._strain(self._books, number)
        books = self._books
        if after < self._pel.highest:
            # The group was set back or entries were claimed by FORCE: some may be pending already.
            books.assign(consumer, list(ids_in(pieces)), now, 1)
        else:
            books.deliver(consumer, pieces, number, after, last, now)

    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """Let entries be pending with a consumer, whether they are pending already or not.

        Args:
            consumer: the owner from now on.
            numbers: distinct IDs in any order.
            ms: delivery time.
            count: delivery counter.
        """
        self.books.assign(consumer, numbers, ms, count)

    def reassign(
        self, consumer: Consumer, places: PelRuns, ms: int, count: int, facts: list[Facts] | None = None
    ) -> None:
        """As ``assign``, for entries that are pending already; no place may be named twice.

        A caller that knows the facts of these entries passes them.
        """
        self.books.reassign(consumer, places, ms, count, facts)

    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Facts | None = None
    ) -> Facts:
        """As ``reassign``, for one entry that is pending, at a place of a page; returns its facts.

        ``target`` is what the entry before it in the same claim got: entries with the same counter may share it.
        """
        return self._books.take(consumer, page, at, ms, count, target)

    def reassign_each(self, consumer: Consumer, places: PelRuns, ms: int, counts: list[int]) -> None:
        """As ``reassign``, each entry with its own delivery counter."""
        if not places:
            return
        if counts.count(counts[0]) == len(counts):
            self.reassign(consumer, places, ms, counts[0])
            return
        target: Facts | None = None
        following = iter(counts)
        for page, positions in places:
            for at in positions:
                target = self.take(consumer, page, at, ms, next(following), target)

    def assign_each(self, consumer: Consumer, numbers: list[int], ms: int, counts: list[int]) -> None:
        """As ``assign``, each ID with its own delivery counter."""
        if len(numbers) == 1:
            self.assign(consumer, numbers, ms, counts[0])
            return
        at = 0
        for count, run in groupby(counts):
            size = len(list(run))
            self.assign(consumer, numbers[at : at + size], ms, count)
            at += size

    def give_back(self, numbers: list[int], counts: list[int]) -> None:
        """Take entries from their owners (XNACK): they go, in this order, to the end of those that wait for anybody.

        Args:
            numbers: distinct IDs; those that are not pending become so.
            counts: the delivery counter of each.
        """
        self.assign_each(self.unowned, numbers, UNOWNED_MS, counts)

    def add_pending(self, stream_id: int, consumer: Consumer, ms: int, count: int) -> None:
        """Let one entry be pending with given facts, as a loader knows them."""
        self.assign(consumer, [stream_id], ms, count)

    def acknowledge(self, numbers: Iterable[int]) -> int:
        """Take entries off the PEL; answers how many were there."""
        remove, release = self.pel.remove, self._books.release
        gone = 0
        for number in numbers:
            facts = remove(number)
            if facts is not None:
                release(facts, 1)
                gone += 1
        return gone

    def acknowledge_places(self, places: PelRuns) -> None:
        """Take entries off the PEL that are known to be there; none of the places is good any more."""
        gone = Counter(batches_of(places))
        self._pel.clear(places)
        for facts, count in gone.items():
            self._books.release(facts, count)

    def acknowledge_later(self, pieces: Iterable[list[ChunkRun]]) -> Callable[[], bool]:
        """Take distinct entries off the PEL in steps; returns ``clean_up_some``."""

        def let_go() -> Iterator[None]:
            for some in pieces:
                places = self.pel.locate_run(some)
                if places is None:
                    self.acknowledge(ids_in(some))
                elif places:
                    self.acknowledge_places(places)
                yield

        return self._clean_up_later(let_go())

    def acknowledge_all(self, ids: list[bytes]) -> int | None:
        """Take entries off the PEL by the words of their IDs; answers how many were there.

        None, and nothing is done, if there may be less simple ones among the words: those that are no IDs, not pending
        or repeated. The caller parses them then.
        """
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._books.acknowledge_all(ids)

    def check_invariants(self) -> None:
        """Assert that PEL, batches, order by time and consumers agree; for tests. It finishes ``pending_cleanup``."""
        self.pel.check_invariants()
        owners = {id(consumer): consumer for consumer in (self.unowned, *self.members.values())}
        assert self._books.pel is self._pel
        self._books.check_invariants(owners)
        pending = list(self._pel.listed())
        for _, facts in pending:
            assert (facts.ms == UNOWNED_MS) == (facts.consumer is self.unowned)
        for consumer in owners.values():
            if consumer.order is not None:
                consumer.order.check_invariants({at for at, facts in pending if facts.consumer is consumer})
        assert len(self._pel) == sum([consumer.pending for consumer in owners.values()])
