"""A consumer group: its place in the stream, its consumers, and its pending entries."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ..freeing import Freeable
from ..streams.ids import MAX_COUNT, encode
from .lag import entries_read_after, lag
from .pending import NEVER, UNOWNED_MS, Consumer, Pel, pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..streams.chunk import ChunkRun
    from ..streams.stream import Stream
    from .pending import Pending

_FEW: Final = 64  # consumers or pending entries that are freed at once
_FAR_FROM_MAX: Final = MAX_COUNT >> 1  # of counters: no delivery goes from here beyond the maximum
_ENTRY_BYTES: Final = 250  # of a pending entry with its ID as integer and as text, in a dict and a list


class Group(Freeable):
    """One group of a stream.

    Attributes:
        last_id: last delivered ID (int).
        consumers: by name; they are added and removed through the methods of the group.
        pel: all pending entries.
        entries_read: how many entries were delivered in all, None if unknown.
        work: the rest of long work on the pending entries (they are removed, or put in order), None if there is nothing.
            The group is a ``BusyGroup`` then.
        unowned: a stand-in with an empty name for the owner of the entries given back by XNACK. Its ``pending`` is
            their number; it is none of the ``consumers``.
    """

    __slots__ = ("consumers", "entries_read", "last_id", "pel", "unowned", "work")

    def __init__(self, last_id: int = 0, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pel = Pel()
        self.unowned = Consumer(b"", NEVER)
        self.work: Iterator[None] | None = None

    def prepare_to_free(self) -> bool:
        """Do a step of the work that is left."""
        return self.work_some()

    def is_small(self) -> bool:
        """Return whether it has few consumers and pending entries."""
        return max(self.weight) < _FEW

    def parts(self) -> Iterable[object]:
        """Return consumers and PEL."""
        return self.consumers, self.pel

    def __iter__(self) -> Iterator[Pending]:
        """Every pending entry in ID order."""
        return self.pel.order.walk()

    def copy(self) -> Group:
        """A group of the same state that shares nothing that changes."""
        twin = Group(self.last_id, self.entries_read)
        owners = {self.unowned: twin.unowned}
        for consumer in self.consumers.values():
            owners[consumer] = twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        twin.pel.copy_from(self.pel, owners)
        return twin

    @property
    def weight(self) -> tuple[int, int]:
        """How many consumers and pending entries take memory."""
        return len(self.consumers), len(self.pel)

    @property
    def memory(self) -> int:
        """About the bytes of memory that the pending entries take."""
        return self.weight[1] * _ENTRY_BYTES

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
        return self.add_consumer(Consumer(name, seen_ms, active_ms))

    def add_consumer(self, consumer: Consumer) -> Consumer:
        """Likewise; it may own entries already."""
        self.consumers[consumer.name] = consumer
        return consumer

    def delete_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer with its pending entries; answers how many those were."""
        dropped = consumer.pending
        del self.consumers[consumer.name]
        deque(self.pel.drop_all_of(consumer), 0)
        return dropped

    def delete_consumer_later(self, consumer: Consumer) -> Callable[[], bool]:
        """As ``delete_consumer``, but the entries are removed in steps; returns ``work_some``."""
        del self.consumers[consumer.name]
        return self.do_later(self.pel.drop_all_of(consumer))

    # Long work

    def do_later(self, work: Iterator[None]) -> Callable[[], bool]:
        """Take over long work on the pending entries, which yields now and then; returns ``work_some``."""
        self.finish_work()
        self.work = work
        self.__class__ = BusyGroup
        return self.work_some

    def work_some(self) -> bool:
        """Do a step of ``work``, of some hundred entries; return False when nothing is left."""
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
        """Do all that is left of ``work``."""
        while self.work_some():
            pass

    # Entries come and go; changes in between are in ``claiming``

    def give_back(self, numbers: Iterable[int], counts: Iterable[int]) -> None:
        """Take entries from their owners (XNACK): they go, in this order, to the end of the entries without owner.

        Args:
            numbers: distinct IDs; all become pending.
            counts: the delivery counter of each.
        """
        for number, count in zip(numbers, counts, strict=True):
            self.add_pending(number, self.unowned, UNOWNED_MS, count)

    def add_pending(self, number: int, consumer: Consumer, ms: int, count: int) -> None:
        """Let one entry be pending with given facts, whether or not it is already."""
        self.pel.put(pending(encode(number), number), consumer, ms, count)

    def acknowledge_later(self, pieces: Iterable[list[bytes]]) -> Callable[[], bool]:
        """Take entries off the PEL in steps, by the texts of their IDs; returns ``work_some``."""

        def acknowledge() -> Iterator[None]:
            for texts in pieces:
                self.pel.acknowledge(texts)
                yield

        return self.do_later(acknowledge())

    def check_invariants(self) -> None:
        """Assert that PEL and consumers agree; for tests. It finishes ``work``."""
        self.pel.check_invariants({self.unowned, *self.consumers.values()})
        for entry in self:
            assert (entry.ms == UNOWNED_MS) == (entry.consumer is self.unowned)


class BusyGroup(Group):
    """A group while it has ``work``: a look at its consumers or its PEL finishes that first.

    So nobody sees an entry that was removed. A command that prefers to wait calls ``work_some`` now and then
    (``commands.streams.deferral``), or leaves that to the background.
    """

    __slots__ = ()

    @property
    def consumers(self) -> dict[bytes, Consumer]:  # type: ignore[override]
        """The consumers by name."""
        self.finish_work()
        return self.consumers

    @property
    def pel(self) -> Pel:  # type: ignore[override]
        """All pending entries."""
        self.finish_work()
        return self.pel

    @property
    def weight(self) -> tuple[int, int]:
        """How many consumers and pending entries take memory, those not removed yet included."""
        consumers, pel = (Group.__dict__[slot].__get__(self) for slot in ("consumers", "pel"))
        return len(consumers), len(pel)
