"""Pending entries that XREADGROUP delivers once more: a consumer's own ones, and those that CLAIM takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..streams.ids import MAX_COUNT, MAX_ID
from ..streams.iteration import entries_at, find_runs, missing_in, owner_of
from .claiming import MANY, move
from .claims import ClaimTerms
from .deliveries import MAX_MS
from .pel_pages import batches_of, number_of, one_by_one, texts_of
from .pel_search import find_pending, oldest

if TYPE_CHECKING:
    from ..streams.stream import Stream
    from .claims import Change
    from .deliveries import Consumer
    from .group import Group
    from .pel_pages import PelRuns


class Budget(Protocol):
    """How much a reply may still hold."""

    def is_spent(self) -> bool:
        """Whether no more entry may go out."""

    def add(self, size: int) -> None:
        """Count one entry of so many bytes."""


def read_again(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    after: int,
    count: int | None,
    now: int,
    null: bytes,
    budget: Budget | None,
) -> tuple[int, bytes]:
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
        How many, and the encoded entries one after the other.
    """
    places = find_pending(group, after + 1, MAX_ID, count, consumer)
    if not places:
        return 0, b""
    there = places
    entries = _stored(stream, places) if budget is None else None
    if entries is None:
        there = []
        items: list[bytes] = []
        for text, (page, (at,)) in zip(texts_of(places), one_by_one(places), strict=True):
            if budget is not None and budget.is_spent():
                break
            entry = stream.entry(page.number(at), page.ms, at)
            if entry is None:
                entry = b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, null)
            else:
                there.append((page, (at,)))
            items.append(entry)
            if budget is not None:
                budget.add(len(entry))
        number, entries = len(items), b"".join(items)
    else:
        number = number_of(places)
    if there:
        move(group, consumer, there, batches_of(there), ClaimTerms(MAX_MS, now))
    return number, entries


def _stored(stream: Stream, places: PelRuns) -> bytes | None:
    """The encoded entries at these places, one after the other; None if one is no longer in the stream."""
    page, positions = places[0]
    if len(places) == 1:
        # As below, for entries in one page that shares its columns with their chunk.
        chunk = owner_of(stream, page.ms, page.seq, positions[0])
        if chunk is not None:
            offsets, data = chunk.offsets, chunk.data
            if type(positions) is range:
                return bytes(data[offsets[positions.start] : offsets[positions.stop]])
            return b"".join([data[offsets[at] : offsets[at + 1]] for at in positions])
    parts: list[bytes] = []
    are_many = number_of(places) > MANY
    for page, positions in places:
        runs = find_runs(stream, page.ms, page.seq, positions[0], positions[-1] + 1, are_many)
        if missing_in(runs, positions):
            return None
        parts += entries_at(runs, positions)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def claim_oldest(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    min_idle: int,
    count: int | None,
    now: int,
    budget: Budget,
    *,
    with_changes: bool,
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
        with_changes: whether the changes are needed.

    Returns:
        Encoded items (ID, fields, milliseconds since the delivery before, deliveries before), and the changes.
    """
    places: PelRuns = []
    counts: list[int] = []
    items: list[bytes] = []
    for page, at in oldest(group, now - min_idle):
        if len(places) == count or budget.is_spent():
            break
        entry = stream.entry(page.number(at), page.ms, at)
        if entry is None:
            continue
        batch = page.batches[at]
        assert batch is not None
        item = b"*4%b:%d\r\n:%d\r\n" % (entry[2:], now - max(batch.ms, 0), batch.count)
        places.append((page, (at,)))
        counts.append(min(batch.count + 1, MAX_COUNT))
        items.append(item)
        budget.add(len(item))
    changes: list[Change] = []
    if with_changes:
        changes += [
            ((text,), consumer.name, now, deliveries)
            for text, deliveries in zip(texts_of(places), counts, strict=True)
        ]
    group.reassign_each(consumer, places, now, counts)
    return items, changes
