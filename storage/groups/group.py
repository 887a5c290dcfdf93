"""A consumer group: its last delivered ID, its consumers, and its pending entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ..freeing import Freeable
from ..streams.chunk import ChunkRun
from ..streams.ids import MAX_COUNT, encode
from ..streams.stream import Stream
from .consumer import NEVER, Consumer
from .lag import entries_read_after, lag
from .pending import UNOWNED_MS, Pel, Pending, make_pending

_FEW: Final = 64  # consumers or pending entries that are freed at once
_FAR_FROM_MAX: Final = MAX_COUNT >> 1  # no single delivery raises a counter below this beyond the maximum
_ENTRY_BYTES: Final = 250  # memory of a pending entry: ID as integer and as text, slots in a dict and a list


class Group(Freeable):
    """One consumer group of a stream."""

    __slots__ = ("consumers", "entries_read", "last_id", "pel", "unowned", "work")

    def __init__(self, last_id: int = 0, entries_read: int | None = None) -> None:
        self.last_id = last_id  # last delivered ID (int)
        self.entries_read = entries_read  # the total number of entries delivered, None if unknown
        # The consumers by name; the group's methods add and remove them.
        self.consumers: dict[bytes, Consumer] = {}
        self.pel = Pel()  # all pending entries
        # A consumer with an empty name that owns the entries released by XNACK. Its ``pending`` is their number. It
        # is not in ``consumers``.
        self.unowned = Consumer(b"", NEVER)
        # The rest of long work on the pending entries (removing or sorting them), None if there is none. While there
        # is work, the group is a ``BusyGroup``.
        self.work: Iterator[None] | None = None

    def prepare_to_free(self) -> bool:
        """Do a step of the group's unfinished ``work``, if any; return True if it is still not finished."""
        return self.work_some()

    def is_small(self) -> bool:
        """Return True if it has so few consumers and pending entries that lazyfree frees it at once."""
        return max(self.counts) < _FEW

    def parts(self) -> Iterable[object]:
        """Return the consumers and the PEL."""
        return self.consumers, self.pel

    def __iter__(self) -> Iterator[Pending]:
        """Iterate over all pending entries in ID order."""
        return self.pel.order.walk()

    def copy(self) -> Group:
        """Return an independent copy; it shares no mutable state."""
        twin = Group(self.last_id, self.entries_read)
        owners = {self.unowned: twin.unowned}
        for consumer in self.consumers.values():
            owners[consumer] = twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        twin.pel.copy_from(self.pel, owners)
        return twin

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of consumers and of pending entries that occupy memory."""
        return len(self.consumers), len(self.pel)

    @property
    def memory(self) -> int:
        """Approximate memory of the pending entries, in bytes."""
        return self.counts[1] * _ENTRY_BYTES

    # Place in the stream

    def lag(self, stream: Stream) -> int | None:
        """Return the number of entries not yet delivered to the group (XINFO GROUPS lag); None if it cannot be known."""
        return lag(stream, self.last_id, self.entries_read)

    def has_nothing_for(self, name: bytes, stream: Stream) -> bool:
        """Return True if a consumer exists and its next read of new entries would find none."""
        return self.last_id >= stream.last_id and name in self.consumers

    def advance(self, stream: Stream, pieces: list[ChunkRun], number: int, last: int) -> None:
        """Record a first delivery of entries: advance ``last_id`` and count them as read.

        ``pieces``: all entries of the stream after ``last_id``, up to and including ``last``.
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
        """Add a consumer that does not exist yet, and return it; the times are in milliseconds since the epoch."""
        return self.add_consumer(Consumer(name, seen_ms, active_ms))

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Add a consumer object, and return it; it may already own entries."""
        self.consumers[consumer.name] = consumer
        return consumer

    def delete_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer and its pending entries; return the number of these entries."""
        dropped = consumer.pending
        del self.consumers[consumer.name]
        deque(self.pel.drop_all_of(consumer), 0)
        return dropped

    def delete_consumer_later(self, consumer: Consumer) -> Callable[[], bool]:
        """Hide a consumer and its pending entries now, and remove the entries in steps.

        Return ``work_some``, which does a step.
        """
        del self.consumers[consumer.name]
        return self.do_later(self.pel.drop_all_of(consumer))

    # Long work

    def do_later(self, work: Iterator[None]) -> Callable[[], bool]:
        """Run ``work`` in steps, as the group's long ``work``; it yields between its steps.

        Return ``work_some``, which does a step.
        """
        self.finish_work()
        self.work = work
        self.__class__ = BusyGroup
        return self.work_some

    def work_some(self) -> bool:
        """Do a step of ``work``, a few hundred entries; return False when ``work`` is finished."""
        work = self.work
        if work is None:
            return False
        self.work = None  # the step itself uses the methods of the group
        self.__class__ = Group
        for _ in work:
            self.work = work
            self.__class__ = BusyGroup
            return True
        return False

    def finish_work(self) -> None:
        """Do all that is left of the group's ``work`` at once."""
        while self.work_some():
            pass

    # Adding and removing pending entries; ``claiming`` changes them

    def give_back(self, numbers: Iterable[int], counts: Iterable[int]) -> None:
        """Release entries (XNACK): append them, in this order, to the entries without an owner.

        Args:
            numbers: distinct IDs; all become pending.
            counts: the delivery count of each.
        """
        for number, count in zip(numbers, counts, strict=True):
            self.add_pending(number, self.unowned, UNOWNED_MS, count)

    def add_pending(self, number: int, consumer: Consumer, ms: int, count: int) -> None:
        """Make an entry pending with this owner, delivery time and count; if it is already pending, change it."""
        self.pel.put(make_pending(encode(number), number), consumer, ms, count)

    def acknowledge_later(self, pieces: Iterable[list[bytes]]) -> Callable[[], bool]:
        """Remove entries from the PEL in steps: one for each list of ID texts. Return ``work_some``, which does a step."""

        def acknowledge() -> Iterator[None]:
            for texts in pieces:
                self.pel.acknowledge(texts)
                yield

        return self.do_later(acknowledge())


class BusyGroup(Group):
    """A group with ``work``, a removal in steps: any access to its consumers or its PEL first finishes it.

    So no caller sees a removed entry. A command that prefers to wait calls ``work_some`` now and then
    (``commands.streams.deferral``), or lets the background do that.
    """

    __slots__ = ()

    @property
    def consumers(self) -> dict[bytes, Consumer]:  # type: ignore[override]
        """The consumers by name, after finishing the group's work."""
        self.finish_work()
        return self.consumers

    @property
    def pel(self) -> Pel:  # type: ignore[override]
        """The PEL, after finishing the group's work."""
        self.finish_work()
        return self.pel

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of consumers and pending entries that occupy memory, with entries that ``work`` will remove."""
        consumers, pel = (Group.__dict__[slot].__get__(self) for slot in ("consumers", "pel"))
        return len(consumers), len(pel)
