"""The data that pages show: plain records, read from a server and never changed.

Times are milliseconds since 1970 by the server's clock, idle times milliseconds. A value is None if this version of
the server does not report it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .style import POISON_DELIVERIES


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as INFO describes it."""

    kind: str  # "Rillet", "Redis" or "Valkey"
    version: str  # of that product
    mode: str
    role: str
    memory: int  # used_memory, in bytes
    clients: int  # the number of connected clients
    # The supported ones of the optional commands that the console uses, in upper case.
    commands: frozenset[str] = frozenset()
    # Whether DEBUG CLOCK and DEBUG FAULT may be used: a Rillet that allows debug commands to the console.
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as XINFO GROUPS describes it."""

    name: bytes
    consumers: int
    pending: int
    last_delivered: str
    entries_read: int | None
    lag: int | None  # the number of entries not yet delivered; None if the server does not know it
    oldest_id: str = ""  # the pending entry with the longest idle time
    # That idle time at ``read_at``; None if no consumer has pending entries, or nothing was read yet.
    oldest_idle: int | None = None
    most_id: str = ""  # the pending entry with the highest delivery count, which is ``most_deliveries``
    most_deliveries: int = 0
    looked: int | None = 0  # the number of PEL entries that these values cover; None: all
    read_at: int = 0  # milliseconds by the server's clock; 0: its PEL was not read yet
    first_pending: str = ""  # the smallest ID of its PEL at ``read_at``

    @property
    def unread(self) -> bool:
        """Whether the group has pending entries, and the console has read none of them yet."""
        return bool(self.pending) and not self.read_at


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: XLEN or XINFO STREAM, MEMORY USAGE, and its groups."""

    key: bytes
    length: int  # the number of entries
    last_id: str = ""
    first_id: str = ""
    added: int | None = None  # the number of entries ever added; None before Redis 7
    memory: int | None = None  # bytes; None if it was not measured
    groups: tuple[Group, ...] = ()
    rate_in: float | None = None  # entries per second since the last round; None in the first round
    rate_out: float | None = None  # deliveries per second, of all groups together
    gone: str = ""  # the error that came instead, for example if the key now has another type

    @property
    def pending(self) -> int:
        """The number of entries in the PELs of all groups."""
        return sum(group.pending for group in self.groups)

    @property
    def worst_lag(self) -> int | None:
        """The greatest lag of a group; None without groups, or if no lag is known."""
        return max((group.lag for group in self.groups if group.lag is not None), default=None)

    @property
    def oldest_idle(self) -> int | None:
        """The longest idle time of a pending entry, over all groups."""
        return max(
            (group.oldest_idle for group in self.groups if group.oldest_idle is not None), default=None
        )

    @property
    def unread(self) -> bool:
        """Whether the stream's groups have pending entries, and the console has read no PEL yet."""
        holding = [group for group in self.groups if group.pending]
        return bool(holding) and all(group.unread for group in holding)

    @property
    def looked(self) -> int | None:
        """The number of pending entries that the console has read for ``oldest_idle``; None: all of them."""
        if all(group.looked is None or not group.pending for group in self.groups):
            return None
        return sum(group.pending if group.looked is None else group.looked for group in self.groups)

    @property
    def read_at(self) -> int:
        """The earliest time at which the console read a PEL of the stream's groups; 0: it read none."""
        return min((group.read_at for group in self.groups if group.pending and group.read_at), default=0)

    @property
    def trouble(self) -> tuple[int, int, int, int]:
        """The sort key, greater is worse: number of groups with poison, oldest pending entry, lag, number of pending entries.

        A group has poison if an entry was delivered ``POISON_DELIVERIES`` times or more.
        """
        poison = sum(group.most_deliveries >= POISON_DELIVERIES for group in self.groups)
        return (poison, self.oldest_idle or 0, self.worst_lag or 0, self.pending)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer as XINFO CONSUMERS describes it."""

    name: bytes
    pending: int
    idle: int  # time since its last attempt; ``inactive``: time since its last success, from Redis 7.2 on
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
    """An entry of a stream; fields are in order and may repeat."""

    id: str
    fields: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """A consumer of a group with its worst pending entries."""

    consumer: Consumer
    entries: tuple[PendingEntry, ...]  # the worst that were read: poison messages, then the longest idle
    oldest: int | None = None  # the longest idle time of all its entries that were read; None if it has none
    most: int = 0  # their highest delivery count

    @property
    def trouble(self) -> tuple[bool, int, int]:
        """The sort key, greater is worse: has poison (``POISON_DELIVERIES``), its oldest entry, its number of pending entries."""
        return (
            self.most >= POISON_DELIVERIES,
            -1 if self.oldest is None else self.oldest,
            self.consumer.pending,
        )


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """The data of a group's page."""

    key: bytes
    group: Group
    length: int
    now: int
    last_id: str = ""
    # The shown consumers, worst first; ``hidden`` counts the others, and ``hidden_pending`` their entries.
    lanes: tuple[Lane, ...] = ()
    hidden: int = 0
    hidden_pending: int = 0
    pel: tuple[PendingEntry, ...] = ()  # the pending entries, by ID; ``whole``: whether these are all
    whole: bool = True
    active: int = 0  # the number of consumers seen in the last ten seconds
    unowned: int = 0  # the exact number of entries without a consumer, after XNACK
    dead: tuple[bytes, ...] = ()  # some of the consumers without pending entries that did not read for a day
    missing: bool = False


@dataclass(frozen=True, slots=True)
class StreamDetail:
    """The data of the live part of a stream's page."""

    stream: Stream
    now: int
    newest: tuple[Entry, ...] = ()
    missing: bool = False
    more: dict[str, str] = field(default_factory=dict)
