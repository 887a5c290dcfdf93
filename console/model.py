"""What pages show: plain records, read from a server and never changed.

Times are milliseconds since 1970 by the server's clock, idle times milliseconds; None is what this server's version does
not say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .style import POISON_DELIVERIES


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as INFO describes it.

    Attributes:
        kind: "Rillet", "Redis" or "Valkey".
        version: its own.
        commands: upper-case names of optional commands that it knows, of those the console asks for.
        debug: whether DEBUG CLOCK and DEBUG FAULT may be used: a Rillet with debug commands for us.
    """

    kind: str
    version: str
    mode: str
    role: str
    memory: int
    clients: int
    commands: frozenset[str] = frozenset()
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as XINFO GROUPS describes it.

    Attributes:
        oldest_id: the pending entry that is idle longest.
        oldest_idle: its idle time at ``read_at``; None where nothing is pending with a consumer, or nothing was read yet.
        most_id: the pending entry that was delivered most, so many times: ``most_deliveries``.
        looked: entries of the PEL that these are true of; None: of all.
        first_pending: the smallest ID of its PEL when that was read.
        read_at: milliseconds by the server's clock; 0: its PEL was not read yet.
    """

    name: bytes
    consumers: int
    pending: int
    last_delivered: str
    entries_read: int | None
    lag: int | None
    oldest_id: str = ""
    oldest_idle: int | None = None
    most_id: str = ""
    most_deliveries: int = 0
    looked: int | None = 0
    read_at: int = 0
    first_pending: str = ""

    @property
    def unread(self) -> bool:
        """Whether its PEL holds something and was not read yet."""
        return bool(self.pending) and not self.read_at


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: XLEN or XINFO STREAM, MEMORY USAGE, and its groups.

    Attributes:
        added: entries added since it exists; None before Redis 7.
        rate_in: entries a second since the last round; None at the first sight.
        rate_out: deliveries a second, of all groups together.
        gone: an error that came instead, such as a key of another type by now.
    """

    key: bytes
    length: int
    last_id: str = ""
    first_id: str = ""
    added: int | None = None
    memory: int | None = None
    groups: tuple[Group, ...] = ()
    rate_in: float | None = None
    rate_out: float | None = None
    gone: str = ""

    @property
    def pending(self) -> int:
        """Entries in the PELs of all groups."""
        return sum(group.pending for group in self.groups)

    @property
    def worst_lag(self) -> int | None:
        """The biggest lag of a group; None without groups, or where no lag is known."""
        return max((group.lag for group in self.groups if group.lag is not None), default=None)

    @property
    def oldest_idle(self) -> int | None:
        """The longest that a pending entry of any group is with its consumer."""
        return max(
            (group.oldest_idle for group in self.groups if group.oldest_idle is not None), default=None
        )

    @property
    def unread(self) -> bool:
        """Whether no PEL of its groups that holds anything was read yet."""
        holding = [group for group in self.groups if group.pending]
        return bool(holding) and all(group.unread for group in holding)

    @property
    def looked(self) -> int | None:
        """Pending entries that ``oldest_idle`` is true of, where that is not all of them."""
        if all(group.looked is None or not group.pending for group in self.groups):
            return None
        return sum(group.pending if group.looked is None else group.looked for group in self.groups)

    @property
    def read_at(self) -> int:
        """When the first of those PELs was read; 0: none was."""
        return min((group.read_at for group in self.groups if group.pending and group.read_at), default=0)

    @property
    def trouble(self) -> tuple[int, int, int, int]:
        """A key to sort by, worst last: poison, the oldest pending entry, lag, pending entries."""
        poison = sum(group.most_deliveries >= POISON_DELIVERIES for group in self.groups)
        return (poison, self.oldest_idle or 0, self.worst_lag or 0, self.pending)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer as XINFO CONSUMERS describes it.

    Attributes:
        idle: since its last attempt; ``inactive``: since its last success, from Redis 7.2 on.
    """

    name: bytes
    pending: int
    idle: int
    inactive: int | None


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """An entry of a PEL; ``consumer`` is empty and ``idle`` is -1 after XNACK."""

    id: str
    consumer: bytes
    idle: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a stream: fields in their order, which may repeat."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """A consumer, the worst of its pending entries by ID, and over all that were read how bad it is.

    Attributes:
        oldest: the longest idle time of its entries; None if it holds none.
        most: their greatest delivery count.
    """

    consumer: Consumer
    entries: tuple[PendingEntry, ...]
    oldest: int | None = None
    most: int = 0

    @property
    def trouble(self) -> tuple[bool, int, int]:
        """A key to sort by, worst last: poison, the oldest entry, its pending entries."""
        return (
            self.most >= POISON_DELIVERIES,
            -1 if self.oldest is None else self.oldest,
            self.consumer.pending,
        )


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """All that the page of a group shows.

    Attributes:
        lanes: of the consumers that are shown, the worst first; ``hidden`` counts the others, ``hidden_pending`` what they hold.
        active: consumers that were seen in the last ten seconds.
        pel: the pending entries, by ID; ``whole``: whether it is all of them.
        dead: some of the consumers that hold nothing and did not ask for a day.
        unowned: how many entries have no consumer, after XNACK; exact.
    """

    key: bytes
    group: Group
    length: int
    now: int
    last_id: str = ""
    lanes: tuple[Lane, ...] = ()
    hidden: int = 0
    hidden_pending: int = 0
    pel: tuple[PendingEntry, ...] = ()
    whole: bool = True
    active: int = 0
    unowned: int = 0
    dead: tuple[bytes, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class StreamDetail:
    """All that the live part of a stream's page shows."""

    stream: Stream
    now: int
    newest: tuple[Entry, ...] = ()
    missing: bool = False
    more: dict[str, str] = field(default_factory=dict)
