"""The PEL of a consumer group: which entries are pending, with whom, since when, and how often they were delivered.

An entry is pending from its delivery (XREADGROUP, XCLAIM with FORCE) until it is acknowledged. All that time it is one
``Pending``, which claims change in place. ``Pel.by_text`` finds it by the text of its ID. Before and afterwards its
consumer is ``GONE``: so the lists below show which entries have left the PEL, and an acknowledgement need not look for it there.

Everything else is an order of these objects:

* by ID, for XPENDING, XAUTOCLAIM and files: ``Pel.order``.
* by ID, for each consumer: made when a history or an XPENDING first asks for one consumer's entries.
* by delivery time, the longest idle first: made when XREADGROUP CLAIM or XPENDING IDLE first asks.

Measured with 100,000 pending, read ten at a time: 205 bytes each, those of the texts included (Redis 8.10.2: 255 to 258),
and 48 more once its ID was needed as an integer.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from itertools import chain, groupby, islice
from math import isqrt
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from ..freeing import Freeable
from ..streams.ids import MAX_COUNT, MAX_ID, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..streams.chunk import ChunkRun

    # Of some entries, in columns: the two halves of their IDs by turns, owners, delivery times, delivery counters.
    Rows: TypeAlias = "tuple[Sequence[int], Sequence[Consumer], Sequence[int], Sequence[int]]"
    # Delivery time and turn of an entry when the line was written, and the entry.
    Line: TypeAlias = "tuple[int, int, Pending]"

NEVER: Final = -1
MAX_MS: Final = (1 << 63) - 1  # no delivery time is greater
# The delivery time of entries without an owner (XNACK): they count as idle for longer than anybody can ask for.
UNOWNED_MS: Final = -(1 << 63)

_FEW: Final = 32  # so many late ones are put in their places one by one; of more the whole order is sorted
_SLACK: Final = 64  # waste up to here is not worth sweeping
_STEP: Final = 16  # entries that a walk looks at first, then twice as many, and so on
_PIECE: Final = 512  # entries between two pauses of long work
_SWEPT: Final = 4096  # items that a step of sweeping looks at, at least
_CLEARED: Final = 1 << 16  # entries that a dict loses at once in 1 ms
_NOWHERE: Final = array("Q")  # the column of an entry of which no place is known

_number: Final = attrgetter("number")
_ms_and_turn: Final = itemgetter(0, 1)

Item = TypeVar("Item")


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
        items: in order. Outdated ones linger.
        late: items out of order; they get their places when somebody walks.
    """

    __slots__ = ("_swept", "items", "late")

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.late: list[Item] = []
        self._swept = 0  # where the next step of sweeping begins

    def parts(self) -> Iterable[object]:
        """Return both lists."""
        return self.items, self.late

    @abstractmethod
    def living(self, items: list[Item]) -> list[Item]:
        """The valid ones of some items."""

    @abstractmethod
    def settled(self) -> list[Item]:
        """All of them in order, after the late ones got their places."""

    def sweep(self, living: int, gone: int) -> None:
        """Drop some outdated items, if more than half are; each step goes on where the last one stopped.

        All of a million at once took 90 ms. A step moves all that is behind it, so few of them go through the list.

        Args:
            living: how many items hold.
            gone: how many have ceased to since the last call.
        """
        if len(self.items) + len(self.late) <= 2 * living + _SLACK:
            return
        items = self.settled() if self.late else self.items
        start, size = self._swept, len(items)
        stop = start + max(_SWEPT, size >> 7, 4 * gone)
        left = self.living(items[start:stop])
        items[start:stop] = left
        self._swept = start + len(left) if stop < size else 0


class Order(_Order[Pending]):
    """Pending entries by ID: all of a group, or those of one owner.

    Attributes:
        owner: whose they are; None: anybody's.
        end: none of ``items`` has a greater ID.
    """

    __slots__ = ("end", "owner")

    def __init__(self, owner: Consumer | None = None) -> None:
        super().__init__([])
        self.owner = owner
        self.end = 0

    def extend(self, new: list[Pending], after: int, last: int) -> None:
        """List entries in ascending order, all of them after an ID; the last one is ``last``."""
        if after >= self.end or not self.items:
            self.items += new
            self.end = last
        else:
            self.late += new

    def living(self, items: list[Pending]) -> list[Pending]:
        """The entries of some that still belong here."""
        owner = self.owner
        if owner is None:
            return [entry for entry in items if entry.consumer is not GONE]
        return [entry for entry in items if entry.consumer is owner]

    def settled(self) -> list[Pending]:
        """All of them in order; the first and the last are valid."""
        entries = self.items
        is_changed = bool(self.late)
        if self.late:
            late, self.late = self.late, []
            if len(late) > _FEW:
                # An entry that went to another consumer and came back may be listed already.
                self.items = entries = list(dict.fromkeys(sorted(chain(entries, late), key=_number)))
            else:
                for entry in late:
                    at = bisect_left(entries, entry.number, key=_number)
                    if entry not in entries[at : bisect_right(entries, entry.number, at, key=_number)]:
                        entries.insert(at, entry)
        while entries and self._has_left(entries[-1]):
            entries.pop()
            is_changed = True
        if is_changed:
            self.end = entries[-1].number if entries else 0
        if entries and self._has_left(entries[0]):  # queues are eaten from here
            first = 0
            while not self.living(entries[first : first + _STEP]):
                first += _STEP
            while self._has_left(entries[first]):
                first += 1
            del entries[:first]
        return entries

    def _has_left(self, entry: Pending) -> bool:
        owner = self.owner
        return entry.consumer is GONE if owner is None else entry.consumer is not owner

    def walk(self, start: int = 0) -> Iterator[Pending]:
        """The entries from an ID on. They may change and go during the walk; others may not come."""
        entries = self.settled()
        at = bisect_left(entries, start, key=_number) if start else 0
        step = _STEP
        while at < len(entries):
            yield from self.living(entries[at : at + step])
            at += step
            step *= 2

    def find(
        self, start: int = 0, end: int = MAX_ID, count: int | None = None, latest: int = MAX_MS
    ) -> list[Pending]:
        """The first entries from start to end, both included, delivered at ``latest`` (milliseconds) or before.

        ``count``: at most so many, None for all.
        """
        entries = self.settled()
        at = bisect_left(entries, start, key=_number) if start else 0
        stop = bisect_right(entries, end, at, key=_number) if end < MAX_ID else len(entries)
        step = _STEP if count is None else max(count, _STEP)
        found: list[Pending] = []
        while at < stop:
            some = self.living(entries[at : min(at + step, stop)])
            found += some if latest == MAX_MS else [entry for entry in some if entry.ms <= latest]
            if count is not None and len(found) >= count:
                return found[:count]
            at += step
            step *= 2
        return found


class IdleOrder(_Order["Line"]):
    """The entries of a group by delivery time; those of one time by turns.

    A change of an entry adds a line. The one before is passed over, for the entry has another turn now.
    """

    __slots__ = ()

    def __init__(self, entries: list[Pending]) -> None:
        """``entries`` are in the order of their IDs."""
        lines = list(
            zip(map(attrgetter("ms"), entries), map(attrgetter("turn"), entries), entries, strict=True)
        )
        # Twice, as they are mostly in order already: one key of both takes 0.1 us each.
        lines.sort(key=itemgetter(1))
        lines.sort(key=itemgetter(0))
        super().__init__(lines)

    def add(self, entry: Pending) -> None:
        """An entry has come or changed; those of one turn come in the order of their IDs."""
        line = entry.ms, entry.turn, entry
        lines = self.items
        # Late are an explicit TIME or IDLE, an XNACK, a clock set back.
        (self.late if lines and line[:2] < lines[-1][:2] else lines).append(line)

    def living(self, items: list[Line]) -> list[Line]:
        """The valid ones of some lines."""
        return [line for line in items if line[2].turn == line[1] and line[2].consumer is not GONE]

    def oldest(self, latest: int) -> Iterator[Pending]:
        """The entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

        Nothing may come or change before the walk is over.
        """
        lines = self.settled()
        at, step = 0, _STEP
        while at < len(lines):
            some = lines[at : at + step]
            living = self.living(some)
            for ms, _, entry in living:
                if ms > latest:
                    return
                yield entry
            if living:
                at += step
            else:
                del lines[at : at + step]
            step *= 2

    def settled(self) -> list[Line]:
        """All lines in order."""
        lines = self.items
        if len(self.late) > _FEW:
            lines = self.items = sorted(chain(lines, self.late), key=_ms_and_turn)
        else:
            for line in self.late:
                insort(lines, line, key=_ms_and_turn)
        self.late = []
        return lines


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
        if after < order.end and order.items:
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
        owner = entry.consumer
        if owner is not consumer:
            owner.pending -= 1
            consumer.pending += 1
            entry.consumer = consumer
            if self._owned is not None:
                self._list_with(self._owned, consumer, [entry], entry.number - 1, entry.number)
        entry.ms = ms
        entry.count = count
        self._turn = entry.turn = self._turn + 1
        if self._idle is not None:
            self._queue(self._idle, [entry])

    def deliver_again(self, entries: list[Pending], ms: int) -> None:
        """Pending entries, ascending, are delivered to their owner once more."""
        self._turn = turn = self._turn + 1
        for entry in entries:
            entry.ms = ms
            if entry.count < MAX_COUNT:
                entry.count += 1
            entry.turn = turn
        if self._idle is not None:
            self._queue(self._idle, entries)

    def acknowledge(self, texts: Iterable[bytes]) -> int:
        """Take entries off the PEL; answers how many were there."""
        pop = self.by_text.pop
        gone = 0
        consumer = GONE
        for text in texts:
            entry = pop(text, None)
            if entry is not None:
                consumer = entry.consumer
                consumer.pending -= 1
                entry.consumer = GONE
                gone += 1
        # As ``sweep``, without its call: 3 % of an XACK of one.
        if len(self.order.items) + len(self.order.late) > 2 * len(self.by_text) + _SLACK:
            self.sweep(gone)
        if self._owned is not None and consumer in self._owned:
            self._owned[consumer].sweep(consumer.pending, gone)
        if self._idle is not None:
            self._idle.sweep(len(self.by_text), gone)
        return gone

    def drop(self, entry: Pending) -> None:
        """Take one entry off the PEL, also during a walk, whose caller then calls ``sweep``."""
        del self.by_text[entry.text]
        entry.consumer.pending -= 1
        entry.consumer = GONE

    def sweep(self, gone: int) -> None:
        """Drop some outdated items of the order by ID if they are more than half; ``gone``: how many have left lately."""
        self.order.sweep(len(self.by_text), gone)
        if not self.by_text:
            self._owned = self._idle = None

    def drop_all_of(self, consumer: Consumer) -> Iterator[None]:
        """Take the entries of a consumer off the PEL; yields now and then."""
        if self._owned is not None:
            self._owned.pop(consumer, None)
        order = self.order
        entries = order.settled()
        left: list[list[Pending]] = []
        while consumer.pending:
            # From the end, so that dropped entries are freed in steps, too.
            some = entries[-_PIECE:]
            del entries[-_PIECE:]
            for entry in some:
                if entry.consumer is consumer:
                    self.drop(entry)
            left.append(order.living(some))
            yield
        for some in reversed(left):
            entries += some
        order.end = entries[-1].number if entries else 0

    # Looking up

    def at(self, number: int) -> Pending | None:
        """The entry of an ID, None if it is not pending."""
        return self.by_text.get(encode(number))

    def first(self) -> Pending | None:
        """The entry of the smallest ID."""
        return next(self.order.walk(), None)

    def last(self) -> Pending | None:
        """The entry of the greatest ID."""
        entries = self.order.settled()
        return entries[-1] if entries else None

    def order_of(self, consumer: Consumer | None) -> Order:
        """The entries of a consumer (None: of anybody) by ID."""
        if consumer is None or consumer.pending == len(self.by_text):
            return self.order
        if self._owned is None:
            owned: dict[Consumer, Order] = {}
            entries = self.order.living(self.order.settled())
            for owner, run in groupby(entries, attrgetter("consumer")):
                if owner not in owned:
                    owned[owner] = Order(owner)
                owned[owner].items += run
            for order in owned.values():
                order.end = order.items[-1].number
            self._owned = owned
        return self._owned.get(consumer, Order(consumer))

    def oldest(self, latest: int = MAX_MS) -> Iterator[Pending]:
        """As ``IdleOrder.oldest``."""
        if self._idle is None:
            self._idle = IdleOrder(self.order.living(self.order.settled()))
        return self._idle.oldest(latest)

    def find_idle(
        self, latest: int, start: int, end: int, count: int, consumer: Consumer | None
    ) -> list[Pending]:
        """As ``Order.find``, of a consumer (None: of anybody).

        Few such entries are found by time; if there are many, a walk by ID meets enough of them soon.
        """
        # A walk by ID passes about wanted / old * all entries, a search by time the old ones.
        few = max(_SLACK, isqrt(min(count, len(self)) * len(self)))
        old = list(islice(self.oldest(latest), few + 1))
        if len(old) > few:
            return self.order_of(consumer).find(start, end, count, latest)
        found = [
            entry
            for entry in old
            if start <= entry.number <= end and (consumer is None or entry.consumer is consumer)
        ]
        return sorted(found, key=_number)[:count]

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
        assert len(self.order.items) <= 2 * len(alive) + _SLACK + _FEW
        assert {entry.consumer for entry in alive} <= owners
        for consumer in owners:
            own = [entry for entry in alive if entry.consumer is consumer]
            assert consumer.pending == len(own)
            assert self._owned is None or list(self._owned.get(consumer, Order()).walk()) == own
        if self._idle is not None:
            in_turn = sorted(alive, key=attrgetter("ms", "turn", "number"))
            assert list(self._idle.oldest(MAX_MS)) == in_turn
