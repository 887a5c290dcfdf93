"""The PEL of a consumer group: which entries are pending, with whom, since when, and how often they were delivered.

An entry is pending from its delivery (XREADGROUP, XCLAIM with FORCE) until it is acknowledged. All that time it is one
``Pending``, which claims change in place. ``Pel.by_text`` finds it by the text of its ID. Before and afterwards its
consumer is ``GONE``: so the lists below show which entries have left the PEL, and an acknowledgement need not look for it there.

Everything else is an order of these objects:

* by ID, for XPENDING, XAUTOCLAIM and files: ``Pel.order``.
* by ID, for each consumer: made when a history or an XPENDING first asks for one consumer's entries.
* by delivery time, the longest idle first: made when XREADGROUP CLAIM or XPENDING IDLE first asks.

New entries are appended to a list. What comes out of order goes into a sorted list of pieces beside it: lists of a million would be
moved or sorted for it.

Measured with 100,000 pending, read ten at a time: 205 bytes each, those of the texts included (Redis 8.10.2: 255 to 258),
and 48 more once its ID was needed as an integer.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from sortedcontainers import SortedKeyList

from ..freeing import Freeable
from ..streams.ids import MAX_COUNT, MAX_ID, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..streams.chunk import ChunkRun

    # Several entries in columns: IDs as alternating (ms, seq), owners, delivery times, delivery counts.
    Rows: TypeAlias = "tuple[Sequence[int], Sequence[Consumer], Sequence[int], Sequence[int]]"
    # Delivery time and turn of an entry when the line was written, and the entry.
    Line: TypeAlias = "tuple[int, int, Pending]"

NEVER: Final = -1
MAX_MS: Final = (1 << 63) - 1  # no delivery time is greater
# The delivery time of entries without an owner (XNACK): they count as idle for longer than anybody can ask for.
UNOWNED_MS: Final = -(1 << 63)

_SLACK: Final = 64  # waste up to here is not worth sweeping
_STEP: Final = 16  # entries that a walk looks at first, then twice as many, and so on
_PIECE: Final = 512  # entries between two pauses of long work
_MANY: Final = 1 << 14  # entries that are listed, or outdated items that are passed over, within a turn
_RUNS: Final = 8  # ascending ones that are merged
_SWEPT: Final = 4096  # items that a step of sweeping looks at, at least
_CLEARED: Final = 1 << 16  # entries that a dict loses at once in 1 ms
_NOWHERE: Final = array("Q")  # the column of an entry of which no place is known

_number: Final = attrgetter("number")
_ms_and_turn: Final = itemgetter(0, 1)

Item = TypeVar("Item")


# Before each place in time.
_BEGIN: Final[tuple[int, ...]] = ()


def _place_in_time(line: Line) -> tuple[int, int, int]:
    """Delivery time, turn, ID."""
    return line[0], line[1], line[2].number


class Consumer:
    """A member of a group.

    Attributes:
        seen_ms: last time a command named it.
        active_ms: last time it was given entries, NEVER (-1) if it never was.
        pending: number of entries it owns.
    """

    __slots__ = ("active_ms", "name", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = active_ms
        self.pending = 0

    def see(self, now: int) -> None:
        """Note that a command names this consumer."""
        self.seen_ms = now


# The consumer of an entry that is not pending yet, or no longer.
GONE: Final = Consumer(b"", NEVER)


class Pending:
    """One pending entry.

    Attributes:
        text: its ID.
        id: the same as an integer, 0 until ``number`` makes it.
        consumer: the owner; GONE: the entry is not pending.
        ms: delivery time, milliseconds since the epoch; UNOWNED_MS if it was given back by XNACK.
        count: how often it was delivered.
        column, at: the ``ms`` column of its chunk, and its position there. This is a hint: it holds if the chunk still has
            that column.
        turn: greater than that of entries that changed before. Those of deliveries with no other change in between
            share it: they are in the order of their IDs.

    It has no ``__init__``, whose call takes 0.15 of the 0.33 us that a record cost: ``pending`` and loops set the slots.
    """

    __slots__ = ("at", "column", "consumer", "count", "id", "ms", "text", "turn")
    text: bytes
    id: int
    consumer: Consumer
    ms: int
    count: int
    column: array[int]
    at: int
    turn: int

    @property
    def number(self) -> int:
        """Its ID as an integer, made when it is first asked for: most are read and acknowledged without (0.1 us, 48 bytes)."""
        number = self.id
        if not number:
            ms, _, seq = self.text.partition(b"-")
            number = self.id = int(ms) << 64 | int(seq)
        return number


def pending(
    text: bytes,
    number: int = 0,
    consumer: Consumer = GONE,
    ms: int = 0,
    count: int = 0,
    turn: int = 0,
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
    entry.turn = turn
    entry.column = column
    entry.at = at
    return entry


class _Order(Freeable, Generic[Item]):
    """Items of pending entries in some order.

    Attributes:
        items: the ones that came in order. Some are outdated.
        late: the ones that came out of order; none of them is outdated. None: there never were any. A list, because keys of a
            dict would be IDs, and clients could choose IDs with one hash.
        key: gives the place of an item in the order.
    """

    __slots__ = ("_first", "_swept", "items", "late")
    key: Callable[[Any], Any]

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.late: SortedKeyList[Item, Any] | None = None
        self._first = 0  # all items before it are outdated
        self._swept = 0  # where the next step of sweeping begins

    def parts(self) -> Iterable[object]:
        """Return both collections."""
        return self.items, self.late

    @abstractmethod
    def living(self, items: list[Item]) -> list[Item]:
        """The valid ones of some items."""

    def add_late(self, item: Item) -> None:
        """Add an item that belongs before others."""
        if self.late is None:
            self.late = SortedKeyList(key=self.key)
        self.late.add(item)

    def walk(self, low: Any = None) -> Iterator[Item]:
        """The items from a key on. They may change and go during the walk; others may not come."""
        timely = chain.from_iterable(self.pieces(low, _STEP))
        return self._merged(timely, low) if self.late else timely

    def pieces(self, low: Any, step: int) -> Iterator[list[Item]]:
        """The items that came in order, so many at first, then twice as many, and so on up to a limit.

        Long runs of outdated ones are passed over once: what queues leave at the beginning, and any other.
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
            if item is not before:  # an entry that went to another consumer and came back is in both
                yield item
            before = item

    def _late_from(self, low: Any) -> Iterator[Item]:
        late, is_new = self.late, True
        assert late is not None
        while some := list(islice(late.irange_key(low, inclusive=(is_new, True)), _STEP)):
            yield from some
            low, is_new = self.key(some[-1]), False

    def sweep(self, living: int, gone: int) -> None:
        """Drop some outdated items, if more than half are; each step goes on where the last one stopped.

        All of a million at once took 90 ms. A step moves all that is behind it, so few of them go through the list.

        Args:
            living: how many items hold.
            gone: how many have ceased to since the last call.
        """
        if len(self.items) > 2 * living + _SLACK:
            self._sweep_some(gone)

    def _sweep_some(self, gone: int = 0) -> bool:
        """Do one step; False if that was the last one."""
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
        """Whether a walk might pass over very many outdated items, if so many hold."""
        return len(self.items) - self._first + len(self.late or ()) - living > _MANY

    def clean(self) -> Iterator[None]:
        """Drop all outdated items; yields now and then."""
        self._swept = 0
        while self._sweep_some():
            yield


class Order(_Order[Pending]):
    """Pending entries by ID: all of a group, or those of one owner.

    Attributes:
        owner: whose they are; None: anybody's.
        end: no entry has a greater ID.
    """

    __slots__ = ("end", "owner")
    key = _number

    def __init__(self, owner: Consumer | None = None) -> None:
        super().__init__()
        self.owner = owner
        self.end = 0

    def extend(self, new: list[Pending], after: int, last: int) -> None:
        """List entries in ascending order, all of them after an ID; the last one is ``last``."""
        if after < self.end:
            self._drop_last(_PIECE)
        if after >= self.end:
            self.items += new
            self.end = last
        else:
            for entry in new:
                self.add_late(entry)

    def forget(self, entry: Pending) -> None:
        """An entry ceases to belong here."""
        if self.late:
            self.late.discard(entry)

    def living(self, items: list[Pending]) -> list[Pending]:
        """The entries of some that still belong here."""
        owner = self.owner
        if owner is None:
            return [entry for entry in items if entry.consumer is not GONE]
        return [entry for entry in items if entry.consumer is owner]

    def _drop_last(self, most: int) -> None:
        """Drop outdated items at the end, at most so many."""
        items = self.items
        size = len(items)
        while items and most and not self.living(items[-1:]):
            items.pop()
            most -= 1
        if len(items) < size or not items:
            self._first = min(self._first, len(items))
            self.end = max(items[-1].number if items else 0, self.late[-1].number if self.late else 0)

    def last(self) -> Pending | None:
        """The entry of the greatest ID."""
        self._drop_last(len(self.items))
        lasts = self.items[-1:] + ([self.late[-1]] if self.late else [])
        return max(lasts, key=_number, default=None)

    def find(
        self, start: int = 0, end: int = MAX_ID, count: int | None = None, latest: int = MAX_MS
    ) -> list[Pending]:
        """The first entries from start to end, both included, delivered at ``latest`` (milliseconds) or before.

        ``count``: at most so many, None for all.
        """
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
            found += some if latest == MAX_MS else [entry for entry in some if entry.ms <= latest]
            if count is not None and len(found) >= count:
                return found[:count]
            if is_last:
                break
        return found


class IdleOrder(_Order["Line"]):
    """The entries of a group by delivery time; entries of one time in the order of their deliveries.

    A change of an entry adds a line. The one before is passed over, for the entry has another turn now.

    Attributes:
        claimable: the stream has lost all entries before this place (``claiming.pass_lost``).
    """

    __slots__ = ("claimable",)
    key = staticmethod(_place_in_time)

    def __init__(self) -> None:
        super().__init__()
        self.claimable: tuple[int, ...] = _BEGIN

    def add(self, entry: Pending) -> None:
        """An entry has come or changed; those of one turn come in the order of their IDs."""
        line = entry.ms, entry.turn, entry
        if self.claimable and line[:2] < self.claimable:
            self.claimable = line[:2]
        lines = self.items
        # Late are an explicit TIME or IDLE, an XNACK, a clock set back.
        if lines and line[:2] < lines[-1][:2]:
            self.add_late(line)
        else:
            lines.append(line)

    def forget(self, entry: Pending) -> None:
        """An entry is about to change or to go."""
        if self.late:
            self.late.discard((entry.ms, entry.turn, entry))

    def living(self, items: list[Line]) -> list[Line]:
        """The valid ones of some lines."""
        return [line for line in items if line[2].turn == line[1] and line[2].consumer is not GONE]

    def fill(self, entries: Iterator[Pending]) -> Iterator[None]:
        """Add all entries, in the order of their IDs; yields now and then.

        They are in few ascending runs by time, mostly in one: these are merged. What fits into none is late.
        """
        runs: list[list[Line]] = []
        while some := list(islice(entries, _PIECE)):
            for entry in some:
                line = entry.ms, entry.turn, entry
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
        """The entries delivered at ``latest`` (milliseconds) or before, the longest idle first, from a place on.

        Nothing may come or change before the walk is over.
        """
        for ms, _, entry in self.walk(low):
            if ms > latest:
                return
            yield entry


class Pel(Freeable):
    """All that is pending in one group.

    Attributes:
        by_text: the entries by the canonical text of their IDs; to be read only.
        order: the same by ID.
    """

    __slots__ = ("_delivered", "_idle", "_owned", "_turn", "by_text", "order")

    def __init__(self) -> None:
        self.by_text: dict[bytes, Pending] = {}
        self.order = Order()
        self._owned: dict[Consumer, Order] | None = None  # None: not asked for yet
        self._idle: IdleOrder | None = None  # likewise
        self._turn = 0
        self._delivered = 0  # the turn of the newest delivery

    def __len__(self) -> int:
        return len(self.by_text)

    def parts(self) -> Iterable[object]:
        """Return the entries and their orders."""
        if len(self.by_text) < _CLEARED:
            # All of them are in the order, too. One by one takes 0.1 us each, four times what freeing them takes.
            self.by_text.clear()
        return self.by_text, self.order, self._owned, self._idle

    # Entries come

    def deliver(
        self,
        consumer: Consumer,
        pieces: list[ChunkRun],
        texts: list[bytes],
        after: int,
        last: int,
        ms: int,
        count: int = 1,
    ) -> None:
        """Entries are delivered to a consumer; pending ones among them become its own.

        Args:
            consumer: the owner from now on.
            pieces: the entries as they stand in the stream, ascending.
            texts: their IDs.
            after: an ID that all of them exceed.
            last: the last ID.
            ms: delivery time.
            count: delivery counter.
        """
        order, by_text = self.order, self.by_text
        rest = iter(texts)
        if after < order.end and (order.items or order.late):
            # The group was set back, or entries were claimed by FORCE.
            for chunk, start, stop in pieces:
                for at, text in enumerate(islice(rest, stop - start), start):
                    self.put(pending(text, column=chunk.ms, at=at), consumer, ms, count)
            return
        if self._delivered != self._turn:
            # One turn serves until something else changes: 32 bytes for each entry that is read alone.
            self._delivered = self._turn = self._turn + 1
        turn = self._turn
        new: list[Pending] = []
        for chunk, at, stop in pieces:
            column = chunk.ms
            for text in islice(rest, stop - at):
                entry = Pending()  # as ``pending``, without the call
                entry.text = text
                entry.id = 0
                entry.consumer = consumer
                entry.ms = ms
                entry.count = count
                entry.turn = turn
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
            self._queue(self._idle, new)

    def put(self, entry: Pending, consumer: Consumer, ms: int, count: int) -> None:
        """Let an entry be pending with a consumer, whether or not one of that ID is already."""
        there = self.by_text.get(entry.text)
        if there is not None:
            self.move(there, consumer, ms, count)
            return
        self.by_text[entry.text] = entry
        entry.consumer = GONE
        self.order.extend([entry], entry.number - 1, entry.number)
        self.move(entry, consumer, ms, count)

    def fill(self, rows: Iterable[Rows]) -> Iterator[None]:
        """Let entries be pending in a PEL that has none, as a loader knows them, in the order of their IDs.

        Yields behind each of the ``rows``, which are columns of some entries.
        """
        for halves, owners, times, counts in rows:
            texts = [b"%d-%d" % each for each in zip(halves[::2], halves[1::2], strict=True)]
            new = []
            for text, owner, time, count in zip(texts, owners, times, counts, strict=True):
                new.append(entry := Pending())  # as ``pending``, without the call
                entry.text = text
                entry.id = entry.turn = entry.at = 0
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
        """Let the same be pending as in another PEL, with other consumers, who have nothing yet."""
        self._turn = other._turn
        for entry in other.order.walk():
            consumer = owners[entry.consumer]
            consumer.pending += 1
            self.by_text[entry.text] = twin = pending(
                entry.text, entry.id, consumer, entry.ms, entry.count, entry.turn, entry.column, entry.at
            )
            self.order.items.append(twin)
        self.order.end = other.order.end

    # Entries move and go

    def move(self, entry: Pending, consumer: Consumer, ms: int, count: int) -> None:
        """Change the facts of a pending entry."""
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
        self._turn = entry.turn = self._turn + 1
        if idle is not None:
            self._queue(idle, [entry])

    def deliver_again(self, entries: list[Pending], ms: int) -> None:
        """Pending entries, ascending, are delivered to their owner once more."""
        idle = self._idle
        if idle is not None:
            for entry in entries:
                idle.forget(entry)
        self._turn = turn = self._turn + 1
        for entry in entries:
            entry.ms = ms
            if entry.count < MAX_COUNT:
                entry.count += 1
            entry.turn = turn
        if idle is not None:
            self._queue(idle, entries)

    def acknowledge(self, texts: Iterable[bytes]) -> int:
        """Take entries off the PEL; answers how many were there."""
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
        # As ``sweep``, without its call: 3 % of an XACK of one.
        if len(self.order.items) > 2 * len(self.by_text) + _SLACK:
            self.order.sweep(len(self.by_text), gone)
        return gone

    def _acknowledge_listed(self, texts: Iterable[bytes]) -> int:
        """The same where entries are in other orders, too, or late."""
        owners: list[Consumer] = []
        for text in texts:
            entry = self.by_text.get(text)
            if entry is not None:
                owners.append(entry.consumer)
                self.drop(entry)
        self.sweep(owners)
        return len(owners)

    def drop(self, entry: Pending) -> None:
        """Take one entry off the PEL, also during a walk, whose caller then calls ``sweep``."""
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
        """Drop some outdated items of orders if they are more than half; ``owners``: of each entry that left, who had it."""
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
        """Take the entries of a consumer off the PEL; yields now and then."""
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
        """The entry of an ID, None if it is not pending."""
        return self.by_text.get(encode(number))

    def first(self) -> Pending | None:
        """The entry of the smallest ID."""
        return next(self.order.walk(), None)

    def order_of(self, consumer: Consumer | None) -> Order:
        """The entries of a consumer (None: of anybody) by ID."""
        if consumer is None or consumer.pending == len(self.by_text):
            return self.order
        if self._owned is None:
            deque(self._list_owners(), 0)
        assert self._owned is not None
        order = self._owned.get(consumer)
        return Order(consumer) if order is None else order

    def oldest(self, latest: int = MAX_MS) -> Iterator[Pending]:
        """As ``IdleOrder.oldest``."""
        return self.by_time().oldest(latest)

    def by_time(self) -> IdleOrder:
        """The entries by delivery time."""
        if self._idle is None:
            deque(self._list_times(), 0)
        assert self._idle is not None
        return self._idle

    def look_again(self) -> None:
        """The stream may get entries back that it had lost."""
        if self._idle is not None:
            self._idle.claimable = _BEGIN

    def long_work(self, consumer: Consumer | None, *, by_time: bool) -> Iterator[None] | None:
        """The work before a look at an order that takes long: it yields now and then. None: the look takes no time.

        Args:
            consumer: as for ``order_of``.
            by_time: the look is at the order by time instead.
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
        """Make the orders of all consumers; yields now and then."""
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
        """Make the order by time; yields now and then."""
        idle = IdleOrder()
        yield from idle.fill(self.order.walk())
        self._idle = idle

    def find_idle(
        self, latest: int, start: int, end: int, count: int, consumer: Consumer | None
    ) -> list[Pending]:
        """As ``Order.find``, of a consumer (None: of anybody).

        Few such entries are found by time; many by a walk by ID, which meets enough of them soon. Nobody knows which before:
        both take steps alternately, so that the cheaper one ends.
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
        """The entries without owner, in the order in which they will be claimed."""
        found = self.order_of(unowned).find() if unowned.pending else []
        return sorted(found, key=attrgetter("turn"))

    def _list_with(
        self, owned: dict[Consumer, Order], consumer: Consumer, new: list[Pending], after: int, last: int
    ) -> None:
        """As ``Order.extend``, for the order of the new owner."""
        order = owned.get(consumer)
        if order is None:
            order = owned[consumer] = Order(consumer)
        order.extend(new, after, last)
        order.sweep(consumer.pending, len(new))

    def _queue(self, idle: IdleOrder, changed: list[Pending]) -> None:
        """Note changes in the order by time."""
        for entry in changed:
            idle.add(entry)
        idle.sweep(len(self.by_text), len(changed))

    def check_invariants(self, owners: set[Consumer]) -> None:
        """Assert that all orders agree and consumers count their entries; for tests."""
        alive = sorted(self.by_text.values(), key=_number)
        assert all(encode(entry.number) == text == entry.text for text, entry in self.by_text.items())
        assert list(self.order.walk()) == alive
        assert len(self.order.items) <= 2 * len(alive) + _SLACK
        assert self.order.end >= max(map(_number, alive), default=0)
        assert {entry.consumer for entry in alive} <= owners
        for consumer in owners:
            own = [entry for entry in alive if entry.consumer is consumer]
            assert consumer.pending == len(own)
            order = None if self._owned is None else self._owned.get(consumer, Order(consumer))
            if order is not None:
                assert list(order.walk()) == own
                assert len(order.items) <= 2 * len(own) + _SLACK
                assert order.living(list(order.late or ())) == list(order.late or ())
        if self._idle is not None:
            in_turn = sorted(alive, key=attrgetter("ms", "turn", "number"))
            assert list(self._idle.oldest(MAX_MS)) == in_turn
