"""Read the details that one page shows, as subjects of the poller. Each read is limited, whatever the server holds."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from . import replies
from .connection import Link, Subject, command
from .model import Consumer, Entry, Group, GroupDetail, Lane, PendingEntry, Stream, StreamDetail
from .pending_maxima import PAGE, after
from .selection import pair
from .style import POISON_DELIVERIES

if TYPE_CHECKING:
    from .samples import Key

LANES: Final = 30  # consumers of a group to show
CELLS: Final = 40  # pending entries to show for each consumer
PENDING: Final = 200_000  # entries of a PEL to read for a page, in pieces; about half a second for 100,000
ACTIVE_MS: Final = 10_000  # a consumer seen within this time is at work
DEAD_MS: Final = 86_400_000  # a consumer without pending entries that was not seen within this time is dead
DEAD: Final = 20  # dead consumers to show
NEWEST: Final = 20  # entries of a live tail
SCANNED: Final = 2_000  # entries that a filter examines per page
MESSAGE_GROUPS: Final = 200  # groups to ask for the page of a message


@dataclass(frozen=True, slots=True)
class GroupSubject(Subject[GroupDetail]):
    """A consumer group: its consumers and its PEL."""

    key: bytes
    group: bytes

    @property
    def series(self) -> tuple[Key, ...]:
        """The key of the series that the page draws: the group's."""
        return ((self.key, self.group),)

    async def read(self, link: Link) -> GroupDetail:
        """Read the group and its consumers, then its PEL, a thousand entries at a time."""
        key, name = self.key, self.group
        now, length, groups, consumers, summary = await link.send(
            [
                command("TIME"),
                command("XLEN", key),
                command("XINFO", "GROUPS", key),
                command("XINFO", "CONSUMERS", key, name),
                command("XPENDING", key, name),
            ]
        )
        found = next((group for group in replies.groups(groups) if group.name == name), None)
        if found is None or isinstance(consumers, RedisError):
            nothing = Group(name, 0, 0, "0-0", None, None)
            return GroupDetail(key, nothing, 0, replies.now(now), missing=True)
        pel, whole = await _pel(link, key, name)
        all_of_them = replies.consumers(consumers)
        held: dict[bytes, list[PendingEntry]] = {}
        for entry in pel:
            held.setdefault(entry.consumer, []).append(entry)
        # Consumers may have more entries than those read.
        unread = [] if whole else [one for one in all_of_them if one.pending and one.name not in held][:LANES]
        got = await link.send([command("XPENDING", key, name, "-", "+", CELLS, one.name) for one in unread])
        held.update((one.name, list(replies.pending(reply))) for one, reply in zip(unread, got, strict=True))
        lanes = sorted(
            (_lane(one, held.get(one.name, [])) for one in all_of_them),
            key=lambda lane: (*lane.trouble, lane.consumer.idle),
            reverse=True,
        )
        owned = (
            sum(int(count) for _, count in replies.listed(summary[3]))
            if not isinstance(summary, RedisError)
            else 0
        )
        return GroupDetail(
            key,
            found,
            length if isinstance(length, int) else 0,
            replies.now(now),
            lanes=tuple(lanes[:LANES]),
            hidden=len(lanes) - len(lanes[:LANES]),
            hidden_pending=sum(lane.consumer.pending for lane in lanes[LANES:]),
            active=sum(0 <= lane.consumer.idle < ACTIVE_MS for lane in lanes),
            pel=pel,
            whole=whole,
            dead=tuple(one.name for one in all_of_them if not one.pending and one.idle >= DEAD_MS)[:DEAD],
            unowned=0 if isinstance(summary, RedisError) else max(0, int(summary[0]) - owned),
        )


async def _pel(link: Link, key: bytes, group: bytes) -> tuple[tuple[PendingEntry, ...], bool]:
    """Return a PEL in ID order, and whether it is complete; each piece is one command, so that others are served."""
    found: list[PendingEntry] = []
    start = "-"
    while len(found) < PENDING:
        page = replies.pending(await link.call("XPENDING", key, group, start, "+", PAGE))
        found += page
        if len(page) < PAGE:
            return tuple(found), True
        start = after(page[-1].id)
    return tuple(found), False


def _lane(consumer: Consumer, entries: list[PendingEntry]) -> Lane:
    worst = heapq.nlargest(
        CELLS, entries, key=lambda entry: (entry.deliveries >= POISON_DELIVERIES, entry.idle)
    )
    return Lane(
        consumer,
        tuple(worst),
        max((entry.idle for entry in entries), default=None),
        max((entry.deliveries for entry in entries), default=0),
    )


@dataclass(frozen=True, slots=True)
class StreamSubject(Subject[StreamDetail]):
    """A stream and its newest entries."""

    key: bytes

    @property
    def series(self) -> tuple[Key, ...]:
        """The key of the series that the page draws: the stream's."""
        return ((self.key,),)

    async def read(self, link: Link) -> StreamDetail:
        """Read the groups and the newest entries, as many as fit into a few megabytes."""
        count = await entries_of(link, self.key, NEWEST)
        now, length, groups, newest = await link.send(
            [
                command("TIME"),
                command("XLEN", self.key),
                command("XINFO", "GROUPS", self.key),
                command("XREVRANGE", self.key, "+", "-", "COUNT", count),
            ]
        )
        missing = isinstance(length, RedisError) or isinstance(groups, RedisError)
        stream = Stream(self.key, 0 if missing else length, groups=() if missing else replies.groups(groups))
        # The command for trimming uses the smallest pending IDs of now, not of the last walk.
        holding = [group for group in stream.groups if group.pending]
        oldest, *summaries = await link.send(
            [
                command("XRANGE", self.key, "-", "+", "COUNT", 1),
                *(command("XPENDING", self.key, group.name) for group in holding),
            ]
        )
        smallest = {
            group.name: summary[1].decode()
            for group, summary in zip(holding, summaries, strict=True)
            if not isinstance(summary, RedisError) and summary[1]
        }
        stream = replace(
            stream,
            first_id=next((entry.id for entry in replies.entries(oldest)), ""),
            groups=tuple(
                replace(group, first_pending=smallest.get(group.name, "0-0")) for group in stream.groups
            ),
        )
        return StreamDetail(stream, replies.now(now), replies.entries(newest), missing)


async def entries_of(link: Link, key: bytes, most: int) -> int:
    """Return how many entries of a stream fit into ``PAGE_BYTES`` of memory: at least one, at most ``most``."""
    length, memory = await link.send([command("XLEN", key), command("MEMORY", "USAGE", key)])
    return replies.few(length, memory, most)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a stream's entries, newest first."""

    entries: tuple[Entry, ...]
    scanned: int  # number of entries read; the page shows those that match the filter
    older: str  # the start of the next page; empty at the end of the stream


async def page_of(link: Link, key: bytes, start: str, count: int, field: bytes, contains: bytes) -> Page:
    """Read a page of entries, newest first, from the ID ``start`` downwards (inclusive).

    Args:
        start: an ID, or ``+``.
        field: only entries that have this field; empty: any.
        contains: only entries with a value (of that field) that contains these bytes.
    """
    filtered = bool(field or contains)
    found: list[Entry] = []
    scanned, at = 0, start
    batch = await entries_of(link, key, 200 if filtered else count + 1)
    while True:
        got = replies.entries(await link.call("XREVRANGE", key, at, "-", "COUNT", batch))
        for place, entry in enumerate(got):
            if len(found) == count:
                return Page(tuple(found), scanned, entry.id)
            scanned += 1
            if not filtered or _fits(entry, field, contains):
                found.append(entry)
            if scanned >= SCANNED:
                rest = got[place + 1 :]
                return Page(tuple(found), scanned, rest[0].id if rest else before(entry.id))
        if len(got) < batch:
            return Page(tuple(found), scanned, "")
        at = before(got[-1].id)
        if not filtered:
            return Page(tuple(found), scanned, at)


def _fits(entry: Entry, field: bytes, contains: bytes) -> bool:
    return any((not field or name == field) and contains in value for name, value in entry.fields)


def before(entry_id: str) -> str:
    """Return the ID just before an ID; 0-0 for 0-0."""
    milliseconds, _, sequence = entry_id.partition("-")
    if int(sequence or 0):
        return f"{milliseconds}-{int(sequence) - 1}"
    if int(milliseconds):
        return f"{int(milliseconds) - 1}-{(1 << 64) - 1}"
    return "0-0"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a message in one group: delivered or not, pending with whom."""

    group: Group
    # "pending", "unowned" (pending without a consumer, after XNACK), "passed" (acknowledged, or it was never
    # delivered to this group) or "waiting" (not delivered yet).
    state: str
    pending: PendingEntry | None = None


@dataclass(frozen=True, slots=True)
class MessageDetail:
    """A message: its fields, or None if it was deleted, and its state in each group."""

    key: bytes
    id: str
    entry: Entry | None
    now: int
    standings: tuple[Standing, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class MessageSubject(Subject[MessageDetail]):
    """A message and its state in each group."""

    key: bytes
    id: str

    async def read(self, link: Link) -> MessageDetail:
        """Read the entry, and its pending entry in each group."""
        now, found, groups = await link.send(
            [
                command("TIME"),
                command("XRANGE", self.key, self.id, self.id),
                command("XINFO", "GROUPS", self.key),
            ]
        )
        if isinstance(found, RedisError):
            raise found
        all_of_them = replies.groups(groups)
        asked = all_of_them[:MESSAGE_GROUPS]
        got = await link.send(
            [command("XPENDING", self.key, group.name, self.id, self.id, 1) for group in asked]
        )
        entry = next(iter(replies.entries(found)), None)
        return MessageDetail(
            self.key,
            self.id,
            entry,
            replies.now(now),
            tuple(_standing(group, self.id, reply) for group, reply in zip(asked, got, strict=True)),
            len(all_of_them) - len(asked),
        )


def _standing(group: Group, entry_id: str, reply: Any) -> Standing:
    pending = next(iter(replies.pending(reply)), None)
    if pending is not None:
        return Standing(group, "pending" if pending.consumer else "unowned", pending)
    return Standing(group, "passed" if pair(entry_id) <= pair(group.last_delivered) else "waiting")
