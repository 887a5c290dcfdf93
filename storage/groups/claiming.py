"""Claims: pending entries get another owner (XCLAIM, XAUTOCLAIM, XREADGROUP) or none (XNACK).

``claim`` has the rule for one entry, for the entries named by XCLAIM and those met by XAUTOCLAIM.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ..streams import ids as stream_id
from ..streams.chunk import Chunk
from ..streams.ids import MAX_COUNT, MAX_ID
from .pending import GONE, UNOWNED_MS, pending

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator

    from ..streams.stream import Stream
    from .group import Group
    from .pending import Consumer, Pending

_PIECE: Final = 128  # lost entries that are passed over between two pauses: 0.2 ms, 3 where memory is slow
_SCAN_FACTOR: Final = 10  # XAUTOCLAIM looks at COUNT times so many pending entries
# What became of an entry: its ID, the name of its owner, delivery time (milliseconds), delivery count.
Change: TypeAlias = "tuple[bytes, bytes, int, int]"


class ClaimTerms:
    """Which entries a claim may take, and the facts that they get.

    Attributes:
        latest: only entries delivered at this time (milliseconds since the epoch) or before are claimed.
        ms: their delivery time afterwards.
        retry_count: their delivery count afterwards; negative: one more than before, or with ``just_id`` the same.
        just_id: the caller wants IDs instead of entries.
        force: entries that are not pending become so.
    """

    __slots__ = ("force", "just_id", "latest", "ms", "retry_count")

    def __init__(self, latest: int, ms: int) -> None:
        self.latest = latest
        self.ms = ms
        self.retry_count = -1
        self.just_id = False
        self.force = False


class Claimed:
    """The result of a claim.

    Attributes:
        count: how many entries the consumer got.
        items: these entries, encoded; with ``just_id`` the texts of their IDs.
        deleted: IDs that left the PEL because the stream has no such entry any more.
        changes: all of this in order, for replicas and the AOF. A deleted entry keeps the facts that it had; those of
            an entry without owner have the time ``UNOWNED_MS``.
        cursor: the first pending ID that an XAUTOCLAIM has not looked at, ``0-0`` if there is none.
    """

    __slots__ = ("changes", "cursor", "deleted", "items")

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self.deleted: list[bytes] = []
        self.changes: list[Change] = []
        self.cursor = b"0-0"


def claim(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    entries: Iterable[Pending],
    terms: ClaimTerms,
    most: int = MAX_COUNT,
    words: list[bytes] | None = None,
) -> Claimed:
    """Claim entries one by one, in this order.

    Entries not pending (and not forced), not idle for long enough or not in the stream are left out; a pending entry
    that is no longer in the stream leaves the PEL.

    Args:
        group: a group of the stream.
        stream: the stream.
        consumer: the new owner.
        entries: they may repeat; those with ``GONE`` as their consumer stand for IDs that are not pending.
        terms: the conditions, and the new facts.
        most: ends when so many entries were claimed or deleted, or ``_SCAN_FACTOR`` times so many looked at.
        words: the IDs as the client spelled them, for ``Claimed.changes``, if they are not canonical.
    """
    chunks, firsts, pel = stream.chunks, stream.firsts, group.pel
    latest, ms, force, just_id = terms.latest, terms.ms, terms.force, terms.just_id
    retry_count, step = terms.retry_count, 0 if terms.just_id else 1
    name, move = consumer.name, pel.move
    claimed = Claimed()
    items, changes = claimed.items, claimed.changes
    losers: list[Consumer] = []  # whose entries were deleted
    spelled = None if words is None else iter(words)
    looks = most * _SCAN_FACTOR
    column: array[int] | None = None
    for each in entries:
        entry = each
        if not most or not looks:
            claimed.cursor = entry.text
            break
        looks -= 1
        text = entry.text if spelled is None else next(spelled)
        owner = entry.consumer
        if owner is GONE:
            # Not pending, or an ID that this claim has met before.
            entry = pel.by_text.get(entry.text, entry)
            owner = entry.consumer
            if owner is GONE and not force:
                continue
        at = entry.at
        if entry.column is not column:  # another chunk than that of the entry before
            # As ``Stream.entry``, without the call and its search: that is 12 % of an XCLAIM of ten among 10,000.
            number = entry.id or entry.number
            index = bisect_right(firsts, number) - 1
            at = -1
            if index >= 0:
                stored = chunks[index]
                chunk = stored if type(stored) is Chunk else stream.open(index)
                at = entry.at
                column = chunk.ms
                if column is not entry.column:
                    entry.column = column
                    entry.at = at = chunk.find(number)
        if at < 0:
            if owner is not GONE:
                claimed.deleted.append(text)
                changes.append((text, owner.name, entry.ms, entry.count))
                pel.drop(entry)
                losers.append(owner)
                most -= 1
            continue
        if owner is GONE:
            # A forced entry begins as delivered once; the claim is the second delivery.
            count = 1 + step if retry_count < 0 else retry_count
            pel.put(entry, consumer, ms, count)
        elif entry.ms > latest:
            continue
        else:
            count = entry.count + step if retry_count < 0 else retry_count
            if count > MAX_COUNT:  # noqa: PLR1730 - a call of min() costs more
                count = MAX_COUNT
            move(entry, consumer, ms, count)
        most -= 1
        if just_id:
            items.append(entry.text)
        else:
            offsets = chunk.offsets
            items.append(chunk.data[offsets[at] : offsets[at + 1]])  # type: ignore[arg-type]  # joined, whatever it is
        changes.append((text, name, ms, count))
    if losers:
        pel.sweep(losers)
    return claimed


def named(group: Group, words: list[bytes], start: int) -> tuple[list[Pending], bool]:
    """The entries whose IDs stand among words from a position on, up to the first word that is no ID.

    Returns:
        The entries (with ``GONE`` as the consumer of an entry that is not pending), and whether all IDs are canonical.
    """
    find = group.pel.by_text.get
    entries: list[Pending] = []
    are_canonical = True
    for word in words[start:] if start else words:
        entry = find(word)
        if entry is None:
            if word[:1].isalpha():
                break
            try:
                number = stream_id.parse(word)
            except stream_id.InvalidID:
                break
            text = stream_id.encode(number)
            are_canonical = are_canonical and text == word
            entry = find(text) or pending(text, number)
        entries.append(entry)
    return entries, are_canonical


def release(
    group: Group,
    stream: Stream,
    numbers: list[int],
    next_count: Callable[[int], int],
    *,
    force: bool,
) -> int:
    """Take pending entries from their owners (XNACK), so that any claim finds them at once; returns how many.

    Args:
        group: a group of the stream.
        stream: the stream.
        numbers: the IDs; one that is named twice is released twice.
        next_count: gives the delivery count afterwards for the one before.
        force: entries of the stream that are not pending become so, with 0 as their count before.
    """
    released = 0
    for number in numbers:
        entry = group.pel.at(number)
        if entry is None and not (force and stream.contains(number)):
            continue
        if entry is None:
            group.give_back([number], [next_count(0)])
        else:
            group.pel.move(entry, group.unowned, UNOWNED_MS, next_count(entry.count))
        released += 1
    return released


class Budget(Protocol):
    """How much a reply may still hold."""

    def is_spent(self) -> bool:
        """Whether no more entry may go out."""

    def add(self, size: int) -> None:
        """Count one entry of so many bytes."""


def _with_items(
    stream: Stream, entries: Iterable[Pending]
) -> Iterator[tuple[Pending, bytes | bytearray | None]]:
    """Pending entries, each with its encoded form; None if the stream has no such entry any more."""
    column: array[int] | None = None
    for entry in entries:
        if entry.column is not column:
            # Neighbours share a chunk: with a search for each, a history of ten takes 10.8 instead of 9.1 us.
            found = stream.chunk_of(entry.id or entry.number)
            if found is None:
                yield entry, None
                continue
            chunk, column = found, found.ms
            if entry.column is not column:
                entry.column = column
                entry.at = chunk.find(entry.number)
        at = entry.at
        if at < 0:
            yield entry, None
        else:
            offsets = chunk.offsets
            yield entry, chunk.data[offsets[at] : offsets[at + 1]]


def read_again(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    after: int,
    count: int | None,
    now: int,
    null: bytes,
    budget: Budget | None,
) -> list[bytes | bytearray]:
    """Deliver the consumer's own pending entries after an ID once more.

    An entry that is no longer in the stream keeps its facts and is returned as ``[id, null]``.

    Args:
        group: a group of the stream.
        stream: the stream.
        consumer: the owner.
        after: the entries have greater IDs.
        count: at most so many, None for all.
        now: the delivery time, milliseconds since the epoch.
        null: the encoded null that stands for the fields of a missing entry.
        budget: ends the read early, if given.

    Returns:
        The encoded entries.
    """
    items: list[bytes | bytearray] = []
    if not consumer.pending or after >= MAX_ID:
        return items
    again: list[Pending] = []
    # From the beginning, as most histories are, there is no place to search for.
    for entry, item in _with_items(
        stream, group.pel.order_of(consumer).find(after and after + 1, MAX_ID, count)
    ):
        if budget is not None and budget.is_spent():
            break
        if item is None:
            item = b"*2\r\n$%d\r\n%b\r\n%b" % (len(entry.text), entry.text, null)  # noqa: PLW2901 - what stands for it
        else:
            again.append(entry)
        items.append(item)
        if budget is not None:
            budget.add(len(item))
    group.pel.deliver_again(again, now)
    return items


def claim_oldest(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    min_idle: int,
    count: int | None,
    now: int,
    budget: Budget,
) -> tuple[list[bytes], list[Change]]:
    """Let the consumer have the entries that are idle for long enough, the longest idle first.

    Entries that are no longer in the stream are passed over and stay.

    Args:
        group: a group of the stream.
        stream: the stream.
        consumer: the new owner.
        min_idle: milliseconds since the last delivery.
        count: at most so many, None for all.
        now: the delivery time, milliseconds since the epoch.
        budget: ends the walk early.

    Returns:
        Encoded items (ID, fields, milliseconds since the delivery before, deliveries before), and the changes.
    """
    found: list[Pending] = []
    items: list[bytes] = []
    for entry, stored in _claimable(group, stream, now - min_idle):
        if len(found) == count or budget.is_spent():
            break
        if stored is None:
            continue
        found.append(entry)
        item = b"*4%b:%d\r\n:%d\r\n" % (bytes(stored[2:]), now - max(entry.ms, 0), entry.count)
        items.append(item)
        budget.add(len(item))
    for entry in found:  # no walk goes on while entries change
        group.pel.move(entry, consumer, now, min(entry.count + 1, MAX_COUNT))
    return items, [(entry.text, consumer.name, now, entry.count) for entry in found]


def may_claim(group: Group, stream: Stream, latest: int) -> bool:
    """Whether some entry of the stream was delivered at ``latest`` (milliseconds) or before, and is still pending."""
    return any(item is not None for _, item in _claimable(group, stream, latest))


def pass_lost(group: Group, stream: Stream, latest: int) -> Iterator[None]:
    """Pass over the longest idle entries that the stream has lost, once; yields now and then.

    10,000 of them would take 6 ms of each claim, as they do in Redis.
    """
    order = group.pel.by_time()
    passed = _PIECE
    while passed == _PIECE:
        passed = 0
        for entry, stored in islice(_claimable(group, stream, latest), _PIECE):
            if stored is not None:
                return
            order.claimable = entry.ms, entry.turn, entry.number + 1
            passed += 1
        if passed == _PIECE:
            yield


def _claimable(
    group: Group, stream: Stream, latest: int
) -> Iterator[tuple[Pending, bytes | bytearray | None]]:
    """As ``_with_items``, the entries delivered at ``latest`` or before, but for the first ones if all are lost."""
    order = group.pel.by_time()
    return _with_items(stream, order.oldest(latest, order.claimable))
