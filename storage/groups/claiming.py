"""Claims: change the owner of pending entries (XCLAIM, XAUTOCLAIM, XREADGROUP CLAIM), or take it away (XNACK).

``claim`` applies the same rule to the entries that XCLAIM names and to those that XAUTOCLAIM finds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from ..streams import ids as stream_id
from ..streams.chunk import Chunk
from ..streams.ids import MAX_COUNT
from ..streams.stream import Stream
from .consumer import Consumer
from .group import Group
from .history import Budget, with_items
from .pending import GONE, UNOWNED_MS, Pending, make_pending

_PIECE: Final = 128  # lost entries to skip between two pauses: 0.2 ms, or 3 ms if memory is slow
_SCAN_FACTOR: Final = 10  # XAUTOCLAIM examines at most COUNT times this many pending entries
# A changed entry: its ID, the name of its owner, delivery time (milliseconds), delivery count.
Change: TypeAlias = "tuple[bytes, bytes, int, int]"


class ClaimTerms:
    """The conditions of a claim, and the new delivery time and count."""

    __slots__ = ("force", "just_id", "latest", "ms", "now", "retry_count", "sees_always")

    def __init__(self, latest: int, now: int, *, sees_always: bool) -> None:
        # Only entries delivered at this time (milliseconds since the epoch) or before are claimed.
        self.latest = latest
        # ``now``: the time of the claim.
        # ``ms``: their new delivery time.
        self.ms = self.now = now
        # A claim that finds nothing also marks the consumer as seen (since 7.2).
        self.sees_always = sees_always
        # Their new delivery count; if negative, one more than before, or unchanged with ``just_id``.
        self.retry_count = -1
        self.just_id = False  # return IDs instead of entries
        self.force = False  # also claim entries that are not pending


class Claimed:
    """The result of a claim: the entries, and what must be propagated."""

    __slots__ = ("changes", "cursor", "deleted", "items")

    def __init__(self) -> None:
        self.items: list[bytes] = []  # the claimed entries, encoded; with ``just_id`` the texts of their IDs
        self.deleted: list[bytes] = []  # IDs removed from the PEL because the stream no longer has the entry
        # All claimed and deleted entries in order, for replicas and the AOF. A deleted entry appears with its last
        # owner, time and count; the time is ``UNOWNED_MS`` if it had no owner.
        self.changes: list[Change] = []
        # The first pending ID that XAUTOCLAIM has not examined, ``0-0`` if there is none.
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
    """Claim entries one by one, in the given order.

    The claim skips entries that are not pending (unless forced), not idle long enough, or not in the stream. It removes
    a pending entry from the PEL if the stream no longer has it. It marks the consumer as seen, and as active if it claims
    an entry.

    Args:
        entries: they may repeat; an entry with the consumer ``GONE`` stands for an ID that is not pending.
        terms: the conditions, and the new delivery time and count.
        most: stop after this many claimed or deleted entries, or ``_SCAN_FACTOR`` times as many examined ones.
        words: the IDs as the client spelled them, for ``Claimed.changes``, if some are not canonical.
    """
    chunks, firsts, pel = stream.chunks, stream.firsts, group.pel
    latest, ms, force, just_id = terms.latest, terms.ms, terms.force, terms.just_id
    retry_count, step = terms.retry_count, 0 if terms.just_id else 1
    name, move = consumer.name, pel.move
    claimed = Claimed()
    items, changes = claimed.items, claimed.changes
    losers: list[Consumer] = []  # the owners of deleted entries
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
            # Not pending, or this claim has already met the ID.
            entry = pel.by_text.get(entry.text, entry)
            owner = entry.consumer
            if owner is GONE and not force:
                continue
        at = entry.at
        if entry.column is not column:  # not in the chunk of the previous entry
            # Inlined ``Stream.entry``: its call and search take 12 % of an XCLAIM of ten among 10,000.
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
            # A forced entry starts with one delivery; the claim is the second one.
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
    if items:
        consumer.receive(terms.now)
    if items or terms.sees_always:
        consumer.see(terms.now)
    return claimed


def named(group: Group, words: list[bytes], start: int) -> tuple[list[Pending], bool]:
    """Find the entries named by a command's words, from index ``start`` to the first word that is not an ID.

    Return the entries (one that is not pending has the consumer ``GONE``), and whether all IDs are canonical.
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
            entry = find(text) or make_pending(text, number)
        entries.append(entry)
    return entries, are_canonical


def release(
    group: Group, stream: Stream, numbers: list[int], next_count: Callable[[int], int], *, force: bool
) -> int:
    """Release pending entries from their owners (XNACK), so that any claim can take them at once; return their number.

    Args:
        numbers: the IDs; an ID that is named twice is released twice.
        next_count: returns the new delivery count for the previous one.
        force: also release entries of the stream that are not pending; their previous count is 0.
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


def claim_oldest(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    min_idle: int,
    count: int | None,
    now: int,
    budget: Budget,
) -> tuple[list[bytes], list[Change]]:
    """Claim the entries that have been idle long enough for the consumer, the longest idle first.

    Entries that are no longer in the stream are skipped and stay pending.

    Args:
        min_idle: minimum milliseconds since the last delivery.
        count: maximum number of entries, None for all.
        now: the delivery time, milliseconds since the epoch.
        budget: ends the walk when it is spent.

    Returns:
        Encoded items (ID, fields, milliseconds since the previous delivery, previous delivery count), and the
        changes.
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
    for entry in found:  # after the walk, because entries must not change during it
        group.pel.move(entry, consumer, now, min(entry.count + 1, MAX_COUNT))
    return items, [(entry.text, consumer.name, now, entry.count) for entry in found]


def may_claim(group: Group, stream: Stream, latest: int) -> bool:
    """Return True if a pending entry that the stream still has was delivered at ``latest`` (milliseconds) or before."""
    return any(item is not None for _, item in _claimable(group, stream, latest))


def pass_lost(group: Group, stream: Stream, latest: int) -> Iterator[None]:
    """Mark the longest idle entries that the stream no longer has, so that XREADGROUP CLAIM skips them.

    It yields between steps. Without marks 10,000 such entries would take 6 ms of each claim, as they do in Redis.
    Only entries delivered at ``latest`` (milliseconds) or before are examined, up to the first that the stream still
    has.
    """
    order = group.pel.by_time()
    passed = _PIECE
    while passed == _PIECE:
        passed = 0
        for entry, stored in islice(_claimable(group, stream, latest), _PIECE):
            if stored is not None:
                return
            order.claimable = entry.ms, entry.serial, entry.number + 1
            passed += 1
        if passed == _PIECE:
            yield


def _claimable(
    group: Group, stream: Stream, latest: int
) -> Iterator[tuple[Pending, bytes | bytearray | None]]:
    """Yield the entries delivered at ``latest`` or before as ``with_items`` does, without those marked by ``pass_lost``."""
    order = group.pel.by_time()
    return with_items(stream, order.oldest(latest, order.claimable))
