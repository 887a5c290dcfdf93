"""The PEL of a consumer group: its pending entries with their owners, delivery times and delivery counts.

An entry is pending from its delivery (XREADGROUP, XCLAIM with FORCE) until it is acknowledged. Throughout, one ``Pending``
object represents it, and claims change that object in place. ``Pel.by_text`` maps the text of its ID to it. An entry that is
not pending has the consumer ``GONE``. The lists below skip such entries, so XACK does not search them.

All other structures are orders of these objects:

* by ID, for XPENDING, XAUTOCLAIM and files: ``Pel.order``.
* by ID, for each consumer: created when a history or an XPENDING first asks for one consumer's entries.
* by delivery time, the longest idle first: created when XREADGROUP CLAIM or XPENDING IDLE first asks.

New entries are appended to a list. Entries that arrive out of order go into a ``SortedKeyList`` beside it, because an
insertion would move or sort a list of a million.

Measured with 100,000 pending entries, read ten at a time: 205 bytes each, including their ID texts (Redis 8.10.2: 255 to
258), and 48 more for an entry whose ID was needed as an integer.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from ..freeing import Freeable
from ..streams.chunk import ChunkRun
from ..streams.ids import MAX_COUNT, MAX_ID, encode
from .consumer import NEVER, Consumer

if TYPE_CHECKING:
    from sortedcontainers import SortedKeyList

    # Several entries in columns: IDs as alternating (ms, seq), owners, delivery times, delivery counts.
    Rows: TypeAlias = "tuple[Sequence[int], Sequence[Consumer], Sequence[int], Sequence[int]]"
    # An entry, after its delivery time and serial number when the line was written.
    Line: TypeAlias = "tuple[int, int, Pending]"

MAX_MS: Final = (1 << 63) - 1  # no delivery time is greater
# The delivery time of entries without an owner (XNACK): no IDLE or min-idle-time is too long for them.
UNOWNED_MS: Final = -(1 << 63)

_SLACK: Final = 64  # waste up to here is not worth sweeping
_STEP: Final = 16  # entries in the first step of a walk; each further step doubles the number
_PIECE: Final = 512  # entries between two pauses of long work
_MANY: Final = 1 << 14  # entries to list, or outdated items to skip, at once
_RUNS: Final = 8  # the most ascending runs to merge
_SWEPT: Final = 4096  # minimum number of items that a sweep step examines
_CLEARED: Final = 1 << 16  # entries that a dict loses at once in 1 ms
_NOWHERE: Final = array("Q")  # the column of an entry whose position is unknown

_number: Final = attrgetter("number")
_ms_and_turn: Final = itemgetter(0, 1)

Item = TypeVar("Item")


# Sorts before every place in time.
_BEGIN: Final[tuple[int, ...]] = ()


def _place_in_time(line: Line) -> tuple[int, int, int]:
    """Return the sort key of a line: delivery time, serial, ID."""
    return line[0], line[1], line[2].number


# The consumer of an entry that is not yet or no longer pending.
GONE: Final = Consumer(b"", NEVER)


class Pending:
    """A pending entry: its ID, its owner, and when and how often it was delivered.

    There is no ``__init__``, whose call took 0.15 of the 0.33 us of an instance: ``make_pending`` sets the slots.
    """

    __slots__ = ("at", "column", "consumer", "count", "id", "ms", "serial", "text")
    text: bytes  # its ID
    id: int  # the same as an integer, 0 until ``number`` computes it
    consumer: Consumer  # the owner; GONE if the entry is not pending
    ms: int  # delivery time, milliseconds since the epoch; UNOWNED_MS if XNACK released it
    count: int  # delivery count
    # The ``ms`` column of its chunk, and its position there. This is a hint, valid only while the chunk has that
    # column.
    column: array[int]
    at: int
    # The serial number of its last change; later changes have greater ones. Deliveries with no other change in between
    # share one, because their entries ascend by ID.
    serial: int

    @property
    def number(self) -> int:
        """Its ID as an integer, computed on first use (0.1 us, 48 bytes): most entries are acknowledged without it."""
        number = self.id
        if not number:
            ms, _, seq = self.text.partition(b"-")
            number = self.id = int(ms) << 64 | int(seq)
        return number


def make_pending(
    text: bytes,
    number: int = 0,
    consumer: Consumer = GONE,
    ms: int = 0,
    count: int = 0,
    serial: int = 0,
    column: array[int] = _NOWHERE,
    at: int = 0,
) -> Pending:
    """Return a record; ``number`` is the ID as an integer, 0 if the caller does not know it."""
    entry = Pending()
    entry.text = text
    entry.id = number
    entry.consumer = consumer
    entry.ms = ms
    entry.count = count
    entry.serial = serial
    entry.column = column
    entry.at = at
    return entry


class _Order(Freeable, Generic[Item]):
    """Items of pending entries in some order."""

    __slots__ = ("_first", "_swept", "items", "late")
    key: Callable[[Any], Any]  # returns the place of an item in the order

    def __init__(self) -> None:
        self.items: list[Item] = []  # the items that arrived in order. Some are outdated.
        # The items that arrived out of order; none is outdated. None if there never were any. It is a list, not a
        # dict keyed by ID, because clients could choose IDs with equal hashes.
        self.late: SortedKeyList[Item, Any] | None = None
        self._first = 0  # all items before it are outdated
        self._swept = 0  # where the next step of sweeping begins

    def parts(self) -> Iterable[object]:
        """Return the containers of the items."""
        if self.late is None:
            return (self.items,)
        # A SortedKeyList pops items one by one and rebalances each time; its inner lists can be emptied in steps.
        return self.items, self.late._lists, self.late._keys  # noqa: SLF001

    @abstractmethod
    def living(self, items: list[Item]) -> list[Item]:
        """Return the items among these that are not outdated."""

    def add_late(self, item: Item) -> None:
        """Add an item whose place is before the last item."""
        if self.late is None:
            from sortedcontainers import SortedKeyList

            self.late = SortedKeyList(key=self.key)
        self.late.add(item)

    def walk(self, low: Any = None) -> Iterator[Item]:
        """Yield the items that are not outdated, in order, from the key ``low`` on (inclusive; None: all).

        During the walk items may change and be removed, but not added.
        """
        timely = chain.from_iterable(self.pieces(low, _STEP))
        return self._merged(timely, low) if self.late else timely

    def pieces(self, low: Any, step: int) -> Iterator[list[Item]]:
        """Yield the valid ones of ``items`` from the key ``low`` on, in lists.

        The first list comes from ``step`` items, the next from twice as many, and so on up to a limit. A long run of
        outdated items, such as queues leave at the beginning, is skipped only once.
        """
        items, at = self.items, self._first
        if low:
            at = bisect_left(items, low, at, key=self.key)
        while at < len(items):
            living = self.living(items[at : at + step])
            if living:
                yield living
                at += step
            elif at == self._first:
                at += step
                self._first = min(at, len(items))
            else:
                del items[at : at + step]
            step = min(2 * step, _MANY)  # 131,072 at once took 9 ms

    def _merged(self, timely: Iterable[Item], low: Any) -> Iterator[Item]:
        before = None
        for item in merge(timely, self._late_from(low), key=self.key):
            if item is not before:  # an entry that went to another consumer and returned is in both
                yield item
            before = item

    def _late_from(self, low: Any) -> Iterator[Item]:
        late, is_new = self.late, True
        assert late is not None
        while some := list(islice(late.irange_key(low, inclusive=(is_new, True)), _STEP)):
            yield from some
            low, is_new = self.key(some[-1]), False

    def sweep(self, living: int, gone: int) -> None:
        """Drop some outdated items if more than half are outdated; each step continues where the last one stopped.

        Sweeping a million at once took 90 ms. A step moves all items behind it, so the steps are large and few.

        Args:
            living: number of valid items.
            gone: number of items that became outdated since the last call.
        """
        if len(self.items) > 2 * living + _SLACK:
            self._sweep_some(gone)

    def _sweep_some(self, gone: int = 0) -> bool:
        """Do one step; return False if it was the last one."""
        items = self.items
        start, size = self._swept, len(items)
        stop = min(start + max(_SWEPT, size >> 7, 4 * gone), size)
        left = self.living(items[start:stop])
        items[start:stop] = left
        if start < self._first:
            self._first = max(start, self._first - (stop - start))
        self._swept = start + len(left) if stop < size else 0
        return stop < size

    def is_wasteful(self, living: int) -> bool:
        """Return True if a walk might skip more than ``_MANY`` outdated items; ``living`` is the number of valid ones."""
        return len(self.items) - self._first + len(self.late or ()) - living > _MANY

    def clean(self) -> Iterator[None]:
        """Drop all outdated items; yield between steps."""
        self._swept = 0
        while self._sweep_some():
            yield


class Order(_Order[Pending]):
    """Pending entries by ID: all entries of a group, or of one owner."""

    __slots__ = ("end", "owner")
    key = _number

    def __init__(self, owner: Consumer | None = None) -> None:
        super().__init__()
        self.owner = owner  # the owner; None for all entries
        self.end = 0  # an ID that no entry exceeds

    def extend(self, new: list[Pending], after: int, last: int) -> None:
        """Add ascending entries: all have IDs greater than ``after``, and the last one has the ID ``last``."""
        if after < self.end:
            self._drop_last(_PIECE)
        if after >= self.end:
            self.items += new
            self.end = last
        else:
            for entry in new:
                self.add_late(entry)

    def forget(self, entry: Pending) -> None:
        """Remove an entry that arrived out of order (*late*) before it changes owner or leaves the PEL.

        Other entries stay in ``items`` as outdated, and walks skip them.
        """
        if self.late:
            self.late.discard(entry)

    def living(self, items: list[Pending]) -> list[Pending]:
        """Return the ``items`` that are not outdated: pending, and owned by ``owner`` (None: by anyone)."""
        owner = self.owner
        if owner is None:
            return [entry for entry in items if entry.consumer is not GONE]
        return [entry for entry in items if entry.consumer is owner]

    def _drop_last(self, most: int) -> None:
        """Drop at most ``most`` outdated items from the end."""
        items = self.items
        size = len(items)
        while items and most and not self.living(items[-1:]):
            items.pop()
            most -= 1
        if len(items) < size or not items:
            self._first = min(self._first, len(items))
            self.end = max(items[-1].number if items else 0, self.late[-1].number if self.late else 0)

    def last(self) -> Pending | None:
        """Return the entry with the greatest ID; None if there is none."""
        self._drop_last(len(self.items))
        lasts = self.items[-1:] + ([self.late[-1]] if self.late else [])
        return max(lasts, key=_number, default=None)

    def find(self, start: int = 0, end: int = MAX_ID, count: int | None = None) -> list[Pending]:
        """Return the first ``count`` entries (None: all) with IDs from ``start`` to ``end``, both inclusive."""
        pieces: Iterable[list[Pending]]
        if self.late:
            pieces = ([entry] for entry in self.walk(start))
        else:
            pieces = self.pieces(start, _STEP if count is None else max(count, _STEP))
        found: list[Pending] = []
        for some in pieces:
            is_last = end < MAX_ID and some[-1].number > end
            if is_last:
                del some[bisect_right(some, end, key=_number) :]
            found += some
            if count is not None and len(found) >= count:
                return found[:count]
            if is_last:
                break
        return found


class IdleOrder(_Order["Line"]):
    """The entries of a group by delivery time, and within one time in the order of their deliveries.

    Each change of an entry adds a line: its delivery time, its serial number and the entry. Walks skip earlier lines,
    whose serial number is no longer the entry's.
    """

    __slots__ = ("claimable",)
    key = staticmethod(_place_in_time)

    def __init__(self) -> None:
        super().__init__()
        # A place (delivery time, serial, …); the stream no longer has the entries before it (``claiming.pass_lost``).
        self.claimable: tuple[int, ...] = _BEGIN

    def add(self, entry: Pending) -> None:
        """Add a line for a new or changed entry. Entries with one serial number must be added in ID order."""
        line = entry.ms, entry.serial, entry
        if self.claimable and line[:2] < self.claimable:
            self.claimable = line[:2]
        lines = self.items
        # A line is late after an explicit TIME or IDLE, an XNACK, or when the clock was set back.
        if lines and line[:2] < lines[-1][:2]:
            self.add_late(line)
        else:
            lines.append(line)

    def forget(self, entry: Pending) -> None:
        """Remove an entry's late line before the entry changes or leaves the PEL.

        Other lines just become outdated.
        """
        if self.late:
            self.late.discard((entry.ms, entry.serial, entry))

    def living(self, items: list[Line]) -> list[Line]:
        """Return the ``items`` that are not outdated."""
        return [line for line in items if line[2].serial == line[1] and line[2].consumer is not GONE]

    def fill(self, entries: Iterator[Pending]) -> Iterator[None]:
        """Add all entries, which come in ID order; yield between steps.

        By time they usually form one ascending run, or a few, which are merged. An entry that fits into no run is late.
        """
        runs: list[list[Line]] = []
        while some := list(islice(entries, _PIECE)):
            for entry in some:
                line = entry.ms, entry.serial, entry
                for run in runs:
                    if run[-1][:2] <= line[:2]:
                        run.append(line)
                        break
                else:
                    if len(runs) < _RUNS:
                        runs.append([line])
                    else:
                        self.add_late(line)
            yield
        if len(runs) == 1:
            (self.items,) = runs
            return
        lines = merge(*runs, key=_ms_and_turn)
        while ordered := list(islice(lines, _PIECE)):
            self.items += ordered
            yield
        for run in runs:
            while run:  # 300,000 at once took 2.4 ms
                del run[-_MANY:]
                yield

    def oldest(self, latest: int, low: tuple[int, ...] = _BEGIN) -> Iterator[Pending]:
        """Yield the entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

        No entry may be added or changed during the walk.

        Args:
            latest: a delivery time, inclusive.
            low: the place to start at (delivery time, serial, …).
        """
        for ms, _, entry in self.walk(low):
            if ms > latest:
                return
            yield entry


class Pel(Freeable):
    """All pending entries of one group."""

    __slots__ = ("_delivered", "_idle", "_owned", "_serial", "by_text", "order")

    def __init__(self) -> None:
        self.by_text: dict[bytes, Pending] = {}  # the entries by the canonical text of their IDs; read only
        self.order = Order()  # the entries by ID
        self._owned: dict[Consumer, Order] | None = None  # None: not asked for yet
        self._idle: IdleOrder | None = None  # likewise
        self._serial = 0
        self._delivered = 0  # the serial number of the newest delivery

    def __len__(self) -> int:
        return len(self.by_text)

    def parts(self) -> Iterable[object]:
        """Return the containers of the entries and their orders."""
        if len(self.by_text) < _CLEARED:
            # The order holds the same entries. Removing one by one takes 0.1 us each, four times as long as freeing them.
            self.by_text.clear()
        return self.by_text, self.order, self._owned, self._idle

    # Adding entries

    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], texts: list[bytes], after: int, last: int, ms: int
    ) -> None:
        """Record the first delivery of entries to a consumer, which also becomes the owner of those already pending.

        Args:
            pieces: the entries in the stream, ascending.
            texts: their IDs.
            after: an ID that all of them exceed.
        """
        order, by_text = self.order, self.by_text
        rest = iter(texts)
        if after < order.end and (order.items or order.late):
            # The group's ID was set back (XGROUP SETID), or XCLAIM FORCE claimed entries.
            for chunk, start, stop in pieces:
                for at, text in enumerate(islice(rest, stop - start), start):
                    self.put(make_pending(text, column=chunk.ms, at=at), consumer, ms, 1)
            return
        if self._delivered != self._serial:
            # Deliveries share a serial number until another change: a new one takes 32 bytes for each entry read alone.
            self._delivered = self._serial = self._serial + 1
        serial = self._serial
        new: list[Pending] = []
        for chunk, at, stop in pieces:
            column = chunk.ms
            for text in islice(rest, stop - at):
                entry = Pending()  # as ``make_pending``, without the call
                entry.text = text
                entry.id = 0
                entry.consumer = consumer
                entry.ms = ms
                entry.count = 1
                entry.serial = serial
                entry.column = column
                entry.at = at
                at += 1  # noqa: PLW2901 - zip() takes 2 % of an XREADGROUP of one
                by_text[text] = entry
                new.append(entry)
        order.items += new
        order.end = last
        consumer.pending += len(new)
        if self._owned is not None:
            self._list_with(self._owned, consumer, new, after, last)
        if self._idle is not None:
            self._add_to_idle(self._idle, new)

    def put(self, entry: Pending, consumer: Consumer, ms: int, count: int) -> None:
        """Make an entry pending for a consumer, or change the pending entry that already has its ID."""
        there = self.by_text.get(entry.text)
        if there is not None:
            self.move(there, consumer, ms, count)
            return
        self.by_text[entry.text] = entry
        entry.consumer = GONE
        self.order.extend([entry], entry.number - 1, entry.number)
        self.move(entry, consumer, ms, count)

    def fill(self, rows: Iterable[Rows]) -> Iterator[None]:
        """Fill an empty PEL, in ID order, when a file is loaded or a PEL is repaired.

        Yields after each ``Rows``, which holds some of the entries in columns, so that the caller may pause. It must exhaust
        the iterator.
        """
        for halves, owners, times, counts in rows:
            texts = [b"%d-%d" % each for each in zip(halves[::2], halves[1::2], strict=True)]
            new = []
            for text, owner, time, count in zip(texts, owners, times, counts, strict=True):
                new.append(entry := Pending())  # as ``make_pending``, without the call
                entry.text = text
                entry.id = entry.serial = entry.at = 0
                entry.consumer = owner
                entry.ms = time
                entry.count = count
                entry.column = _NOWHERE
            self.by_text.update(zip(texts, new, strict=True))
            self.order.items += new
            if new:
                self.order.end = new[-1].number
            for consumer, number in Counter(owners).items():
                consumer.pending += number
            yield

    def copy_from(self, other: Pel, owners: dict[Consumer, Consumer]) -> None:
        """Copy the entries of another PEL; ``owners`` maps its consumers to new ones, which own nothing yet."""
        self._serial = other._serial
        for entry in other.order.walk():
            consumer = owners[entry.consumer]
            consumer.pending += 1
            self.by_text[entry.text] = twin = make_pending(
                entry.text, entry.id, consumer, entry.ms, entry.count, entry.serial, entry.column, entry.at
            )
            self.order.items.append(twin)
        self.order.end = other.order.end

    # Changing and removing entries

    def move(self, entry: Pending, consumer: Consumer, ms: int, count: int) -> None:
        """Change the owner, delivery time and delivery count of a pending entry."""
        idle = self._idle
        if idle is not None:
            idle.forget(entry)
        owner = entry.consumer
        if owner is not consumer:
            owner.pending -= 1
            consumer.pending += 1
            entry.consumer = consumer
            if self._owned is not None:
                self._list_with(self._owned, consumer, [entry], entry.number - 1, entry.number)
                if owner in self._owned:
                    self._owned[owner].forget(entry)
                    self._owned[owner].sweep(owner.pending, 1)
        entry.ms = ms
        entry.count = count
        self._serial = entry.serial = self._serial + 1
        if idle is not None:
            self._add_to_idle(idle, [entry])

    def deliver_again(self, entries: list[Pending], ms: int) -> None:
        """Redeliver pending entries, in ascending order, to their owner."""
        idle = self._idle
        if idle is not None:
            for entry in entries:
                idle.forget(entry)
        self._serial = serial = self._serial + 1
        for entry in entries:
            entry.ms = ms
            if entry.count < MAX_COUNT:
                entry.count += 1
            entry.serial = serial
        if idle is not None:
            self._add_to_idle(idle, entries)

    def acknowledge(self, texts: Iterable[bytes]) -> int:
        """Remove entries from the PEL; return how many were pending."""
        if self._owned is not None or self._idle is not None or self.order.late:
            return self._acknowledge_listed(texts)
        pop = self.by_text.pop
        gone = 0
        for text in texts:
            entry = pop(text, None)
            if entry is not None:
                entry.consumer.pending -= 1
                entry.consumer = GONE
                gone += 1
        # Inlined ``sweep``: its call takes 3 % of an XACK of one.
        if len(self.order.items) > 2 * len(self.by_text) + _SLACK:
            self.order.sweep(len(self.by_text), gone)
        return gone

    def _acknowledge_listed(self, texts: Iterable[bytes]) -> int:
        """Do the work of ``acknowledge`` if other orders exist, or entries are late."""
        owners: list[Consumer] = []
        for text in texts:
            entry = self.by_text.get(text)
            if entry is not None:
                owners.append(entry.consumer)
                self.drop(entry)
        self.sweep(owners)
        return len(owners)

    def drop(self, entry: Pending) -> None:
        """Remove one entry from the PEL. This is allowed during a walk; the caller then calls ``sweep``."""
        del self.by_text[entry.text]
        owner = entry.consumer
        self.order.forget(entry)
        if self._owned is not None and owner in self._owned:
            self._owned[owner].forget(entry)
        if self._idle is not None:
            self._idle.forget(entry)
        owner.pending -= 1
        entry.consumer = GONE

    def sweep(self, owners: list[Consumer]) -> None:
        """Drop some outdated items of each order in which more than half are outdated; call it after removals.

        ``owners``: the owner of each removed entry.
        """
        gone, living = len(owners), len(self.by_text)
        self.order.sweep(living, gone)
        if not living:
            self._owned = self._idle = None
        if self._owned is not None:
            for owner in {*owners} & self._owned.keys():
                self._owned[owner].sweep(owner.pending, gone)
        if self._idle is not None:
            self._idle.sweep(living, gone)

    def drop_all_of(self, consumer: Consumer) -> Iterator[None]:
        """Remove all pending entries of a consumer from the PEL; yield between steps."""
        order = self.order_of(consumer)
        while consumer.pending:
            some = list(islice(order.walk(), _PIECE))
            for entry in some:
                self.drop(entry)
            self.sweep([consumer] * len(some))
            yield
        if self._owned is not None:
            self._owned.pop(consumer, None)

    # Looking up

    def at(self, number: int) -> Pending | None:
        """Return the pending entry with an ID; None if that ID is not pending."""
        return self.by_text.get(encode(number))

    def first(self) -> Pending | None:
        """Return the entry with the smallest ID; None if nothing is pending."""
        return next(self.order.walk(), None)

    def order_of(self, consumer: Consumer | None) -> Order:
        """Return the order by ID of a consumer's entries (None: all); the first call creates one for each consumer."""
        if consumer is None or consumer.pending == len(self.by_text):
            return self.order
        if self._owned is None:
            deque(self._list_owners(), 0)
        assert self._owned is not None
        order = self._owned.get(consumer)
        return Order(consumer) if order is None else order

    def oldest(self, latest: int = MAX_MS) -> Iterator[Pending]:
        """Yield the entries delivered at ``latest`` (milliseconds) or before, the longest idle first."""
        return self.by_time().oldest(latest)

    def by_time(self) -> IdleOrder:
        """Return the order by delivery time; the first call creates it."""
        if self._idle is None:
            deque(self._list_times(), 0)
        assert self._idle is not None
        return self._idle

    def unmark_lost(self) -> None:
        """Remove the marks of ``claiming.pass_lost``: after XSETID the stream may get entries with lost IDs again."""
        if self._idle is not None:
            self._idle.claimable = _BEGIN

    def long_work(self, consumer: Consumer | None, *, by_time: bool) -> Iterator[None] | None:
        """Return the work that must precede the use of an order, if it is long, as an iterator that yields between steps.

        Return None if there is none.

        Args:
            consumer: as for ``order_of``.
            by_time: use the order by delivery time instead.
        """
        living = len(self.by_text)
        is_long = len(self.order.items) > _MANY
        if by_time:
            if self._idle is None:
                return self._list_times() if is_long else None
            return self._idle.clean() if self._idle.is_wasteful(living) else None
        if consumer is not None and consumer.pending != living:
            living = consumer.pending
            if self._owned is None:
                return self._list_owners() if is_long else None
        order = self.order_of(consumer)
        return order.clean() if order.is_wasteful(living) else None

    def _list_owners(self) -> Iterator[None]:
        """Create the orders of all consumers; yields now and then."""
        owned: dict[Consumer, Order] = {}
        entries = self.order.walk()
        while some := list(islice(entries, _PIECE)):
            for owner, run in groupby(some, attrgetter("consumer")):
                order = owned.get(owner)
                if order is None:
                    order = owned[owner] = Order(owner)
                order.items += run
            yield
        for order in owned.values():
            order.end = order.items[-1].number
        self._owned = owned

    def _list_times(self) -> Iterator[None]:
        """Create the order by time; yields now and then."""
        idle = IdleOrder()
        yield from idle.fill(self.order.walk())
        self._idle = idle

    def find_idle(
        self, latest: int, start: int, end: int, count: int, consumer: Consumer | None
    ) -> list[Pending]:
        """Return the first ``count`` entries from ``start`` to ``end``, inclusive, delivered at ``latest`` or before.

        They belong to ``consumer`` (None: any). If few entries match, the order by time finds them fast; if many
        match, a walk by ID soon meets enough. Which case applies is not known in advance, so both searches take steps
        alternately, and the cheaper one ends first.
        """
        by_id = self.order_of(consumer).walk(start)
        found: list[Pending] = []
        most = _STEP
        while True:
            old = list(islice(self.oldest(latest), most + 1))
            if len(old) <= most:
                found = [
                    entry
                    for entry in old
                    if start <= entry.number <= end and (consumer is None or entry.consumer is consumer)
                ]
                return sorted(found, key=_number)[:count]
            some = list(islice(by_id, most))
            found += [entry for entry in some if entry.ms <= latest and entry.number <= end]
            if len(found) >= count or len(some) < most or some[-1].number >= end:
                return found[:count]
            most *= 2

    def given_back(self, unowned: Consumer) -> list[Pending]:
        """Return the entries without an owner (XNACK) in the order in which claims will take them."""
        found = self.order_of(unowned).find() if unowned.pending else []
        return sorted(found, key=attrgetter("serial"))

    def _list_with(
        self, owned: dict[Consumer, Order], consumer: Consumer, new: list[Pending], after: int, last: int
    ) -> None:
        """Extend the order of the new owner (``Order.extend``); create it if it is missing."""
        order = owned.get(consumer)
        if order is None:
            order = owned[consumer] = Order(consumer)
        order.extend(new, after, last)
        order.sweep(consumer.pending, len(new))

    def _add_to_idle(self, idle: IdleOrder, changed: list[Pending]) -> None:
        """Add changed entries to the order by time."""
        for entry in changed:
            idle.add(entry)
        idle.sweep(len(self.by_text), len(changed))
