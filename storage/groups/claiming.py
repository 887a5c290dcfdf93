"""Claims: pending entries get another owner (XCLAIM, XAUTOCLAIM) or none (XNACK).

Callers give a group, a stream, a consumer and ``ClaimTerms``, and get ``Claimed``; pages and places of the PEL stay in
this room. Entries that stand next to each other in the stream and in the PEL are handled as runs. The plain rule for
one entry is ``_claim_each``; every run gives what that rule gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..streams import ids as stream_id
from ..streams.chunk import ids_in, texts_in
from ..streams.iteration import entries_at, find_runs, missing_in
from .claims import SCAN_FACTOR, Claimed
from .pel_pages import batches_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from ..streams.chunk import ChunkRun
    from ..streams.stream import Stream
    from .claims import Change, ClaimTerms
    from .deliveries import Consumer, Facts
    from .group import Group
    from .pel_pages import Page, PelRuns

MANY: Final = 1024  # a scan of more entries does not keep the packed chunks that it opens


class EntryRun:
    """Entries next to each other in a stream.

    Attributes:
        pieces: where they stand.
        ids: their IDs in canonical form.
        raw: their encoded forms, one after the other.
    """

    __slots__ = ("ids", "pieces", "raw")

    def __init__(self, pieces: list[ChunkRun], ids: list[bytes], raw: bytes) -> None:
        self.pieces = pieces
        self.ids = ids
        self.raw = raw


def claim(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    words: list[bytes],
    numbers: list[int],
    run: EntryRun | None,
    terms: ClaimTerms,
) -> Claimed:
    """Claim entries by ID, in this order.

    What is not pending (and not forced), not idle for long enough or not in the stream is left out; a pending entry
    that is no longer in the stream leaves the PEL.

    Args:
        group: a group of the stream.
        stream: the stream.
        consumer: the new owner.
        words: the IDs as the client spelled them, which is how ``Claimed.changes`` repeats them.
        numbers: the same as integers; they may be missing if there is a run.
        run: the entries, if they are neighbours (see ``find_run``), else None.
        terms: what is claimed, and the new facts.
    """
    if run is not None:
        claimed_run = _claim_run(group, consumer, run, terms) or _force_run(group, consumer, run, terms)
        if claimed_run is not None:
            return claimed_run
        numbers = list(map(stream_id.parse, words))
    claimed = Claimed()
    if len(numbers) == 1 or stream_id.are_distinct(numbers):
        _claim_each(claimed, group, stream, consumer, words, numbers, terms)
    else:
        # The second time an ID is named, it finds what the first time has left.
        for word, number in zip(words, numbers, strict=True):
            _claim_each(claimed, group, stream, consumer, [word], [number], terms)
    return claimed


def _claim_each(
    claimed: Claimed,
    group: Group,
    stream: Stream,
    consumer: Consumer,
    words: list[bytes],
    numbers: list[int],
    terms: ClaimTerms,
) -> None:
    """Claim distinct entries one by one."""
    find, take = group.pel.find, group.take
    force, just_id, latest, ms, name = terms.force, terms.just_id, terms.latest, terms.ms, consumer.name
    changes, items = claimed.changes, claimed.items
    target: Facts | None = None
    deleted: list[int] = []
    for word, number in zip(words, numbers, strict=True):
        place = find(number >> 64, number & stream_id.MAX_U64)
        if place is None:
            if not force:
                continue
            batch = None
            entry = stream.entry(number)
        else:
            page, at = place
            batch = page.batches[at]
            if batch is None and not force:
                continue
            entry = stream.entry(number, page.ms, at)
        if entry is None:
            if batch is not None:
                deleted.append(number)
                claimed.deleted.append(word)
                changes.append(((word,), batch.consumer.name, batch.ms, batch.count))
            continue
        if batch is None:
            # A forced entry begins as delivered once; the claim is the second delivery.
            count = terms.next_count(1)
            group.assign(consumer, [number], ms, count)
            target = None
        elif batch.ms > latest:
            continue
        else:
            count = terms.next_count(batch.count)
            target = take(consumer, page, at, ms, count, target)
        claimed.count += 1
        if just_id:
            claimed.ids.append(stream_id.encode(number))
        else:
            items.append(entry)
        changes.append(((word,), name, ms, count))
    if deleted:
        group.acknowledge(deleted)


def find_run(stream: Stream, words: list[bytes]) -> EntryRun | None:
    """The entries with these two or more IDs, if they are neighbours in the stream and the IDs canonical; else None."""
    try:
        first, second = stream_id.parse(words[0]), stream_id.parse(words[1])
    except stream_id.InvalidID:
        return None
    pieces, parts, _ = stream.entries_after(first - 1, len(words))
    if not pieces:
        return None
    chunk, start, stop = pieces[0]
    if stop - start > 1 and chunk.id_at(start + 1) != second:
        return None
    ids = texts_in(pieces, parts)
    return EntryRun(pieces, ids, b"".join(parts)) if ids == words else None


def _claim_run(group: Group, consumer: Consumer, run: EntryRun, terms: ClaimTerms) -> Claimed | None:
    """Claim a run of entries at once.

    Returns:
        None, with nothing changed, unless all of them are pending and old enough: ``claim`` does it then.
    """
    places = group.pel.locate_run(run.pieces)
    if places is None:
        return None
    batches = batches_of(places)
    first = batches[0]
    are_alike = batches.count(first) == len(batches)
    if first.ms > terms.latest or not (are_alike or _are_old(batches, terms.latest)):
        return None
    claimed = Claimed()
    claimed.count = len(batches)
    if terms.just_id:
        claimed.ids = run.ids
    else:
        claimed.items.append(run.raw)
    if are_alike:
        count = terms.next_count(first.count)
        claimed.changes.append((run.ids, consumer.name, terms.ms, count))
        group.reassign(consumer, places, terms.ms, count, batches)
    else:
        claimed.changes = _changes(run.ids, batches, consumer.name, terms)
        move(group, consumer, places, batches, terms)
    return claimed


def _force_run(group: Group, consumer: Consumer, run: EntryRun, terms: ClaimTerms) -> Claimed | None:
    """Let a run of entries be pending at once, as they become by the records of a read that are replayed.

    Returns:
        None, with nothing changed, unless all of them are behind everything that is pending.
    """
    chunk, start, _ = run.pieces[0]
    first = chunk.id_at(start)
    if not terms.force or first <= group.pel.highest:
        return None
    number = len(run.ids)
    count = terms.next_count(1)  # as that of a forced entry in `_claim_each`
    if count == 1:
        last_chunk, _, stop = run.pieces[-1]
        group.deliver(consumer, run.pieces, number, first - 1, last_chunk.id_at(stop - 1), terms.ms)
    else:
        group.assign(consumer, list(ids_in(run.pieces)), terms.ms, count)
    claimed = Claimed()
    claimed.count = number
    if terms.just_id:
        claimed.ids = run.ids
    else:
        claimed.items.append(run.raw)
    claimed.changes.append((run.ids, consumer.name, terms.ms, count))
    return claimed


def _are_old(batches: list[Facts], latest: int) -> bool:
    """Whether all of them were delivered at ``latest`` or before."""
    first = batches[0]
    if batches.count(first) == len(batches):
        return first.ms <= latest
    return all(batch.ms <= latest for batch in set(batches))


def move(group: Group, consumer: Consumer, places: PelRuns, batches: list[Facts], terms: ClaimTerms) -> None:
    """Give pending entries, each with its facts in ``batches``, to the consumer; no place may be named twice."""
    first = batches[0]
    if batches.count(first) == len(batches):
        group.reassign(consumer, places, terms.ms, terms.next_count(first.count), batches)
    else:
        counts = [terms.next_count(batch.count) for batch in batches]
        group.reassign_each(consumer, places, terms.ms, counts)


def autoclaim(
    group: Group,
    stream: Stream,
    consumer: Consumer,
    start: int,
    count: int,
    terms: ClaimTerms,
    *,
    with_changes: bool,
) -> Claimed:
    """Walk the PEL in ID order and claim what is old enough; what is no longer in the stream leaves the PEL.

    Args:
        group: a group of the stream.
        stream: the stream.
        consumer: the new owner.
        start: the ID at which the walk begins.
        count: the walk ends when so many entries were claimed or deleted, or ``SCAN_FACTOR`` times so many looked at.
        terms: what is claimed, and the new facts.
        with_changes: whether ``Claimed.changes`` is needed.
    """
    books = group.plain_for(min(count, len(group.pel)))
    if books is not None:
        singles = books.singles_from(start)
        return books.claim(stream, consumer, singles, terms, count, with_changes=with_changes)
    claimed = Claimed()
    name, latest = consumer.name, terms.latest
    are_many = count > MANY
    left, budget = count, count * SCAN_FACTOR
    found: PelRuns = []
    found_batches: list[Facts] = []
    deleted: list[int] = []
    for page, pending in _in_steps(group.pel.pending_runs(start), count):
        if not (left and budget):
            claimed.cursor = page.text(pending[0])
            break
        looked_at = met = pending[:budget]
        budget -= len(looked_at)
        batches = batches_of([(page, met)])
        runs = find_runs(stream, page.ms, page.seq, met[0], met[-1] + 1, are_many)
        gone = missing_in(runs, met)
        if not _are_old(batches, latest):
            met = [at for at, batch in zip(met, batches, strict=True) if batch.ms <= latest or at in gone]
            batches = batches_of([(page, met)])
        met = met[:left]
        batches = batches[: len(met)]
        left -= len(met)
        old, old_batches = met, batches
        if gone:
            lost = [at for at in met if at in gone]
            old = [at for at in met if at not in gone]
            old_batches = batches_of([(page, old)])
            claimed.deleted += texts_of([(page, lost)])
            deleted += [page.number(at) for at in lost]
        if old:
            found.append((page, old))
            found_batches += old_batches
            claimed.count += len(old)
            if not terms.just_id:
                claimed.items += entries_at(runs, old)
        if with_changes and gone:
            claimed.changes += _mixed_changes(page, met, batches, gone, name, terms)
        elif with_changes and met:
            claimed.changes += _changes(texts_of([(page, met)]), batches, name, terms)
        if not left and met[-1] != pending[-1]:
            claimed.cursor = page.text(pending[pending.index(met[-1]) + 1])
            break
        if len(looked_at) < len(pending):
            claimed.cursor = page.text(pending[len(looked_at)])
            break
    # No place is good after entries have left the PEL.
    if found:
        if terms.just_id:
            claimed.ids = texts_of(found)
        move(group, consumer, found, found_batches, terms)
    if deleted:
        group.acknowledge(deleted)
    return claimed


def _in_steps(runs: Iterable[tuple[Page, Sequence[int]]], step: int) -> Iterator[tuple[Page, Sequence[int]]]:
    """The same in short pieces, each twice as long as the one before: the first one is mostly all that is claimed."""
    for page, positions in runs:
        at = 0
        while at < len(positions):
            yield page, positions[at : at + step]
            at += step
            step *= 2


def _changes(ids: list[bytes], batches: list[Facts], name: bytes, terms: ClaimTerms) -> list[Change]:
    """What becomes of entries that are claimed."""
    first = batches[0]
    if batches.count(first) == len(batches):
        return [(ids, name, terms.ms, terms.next_count(first.count))]
    return [
        ((text,), name, terms.ms, terms.next_count(batch.count))
        for text, batch in zip(ids, batches, strict=True)
    ]


def _mixed_changes(
    page: Page,
    positions: Sequence[int],
    batches: list[Facts],
    gone: Collection[int],
    name: bytes,
    terms: ClaimTerms,
) -> list[Change]:
    """What becomes of entries of which some are no longer in the stream; those keep the facts that they had."""
    return [
        ((text,), batch.consumer.name, batch.ms, batch.count)
        if at in gone
        else ((text,), name, terms.ms, terms.next_count(batch.count))
        for at, text, batch in zip(positions, texts_of([(page, positions)]), batches, strict=True)
    ]


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
    if len(numbers) > 1 and not stream_id.are_distinct(numbers):
        return sum([release(group, stream, [number], next_count, force=force) for number in numbers])
    released: list[int] = []
    counts: list[int] = []
    for number in numbers:
        batch = group.pel.at(number)
        if batch is None and not (force and stream.contains(number)):
            continue
        released.append(number)
        counts.append(next_count(0 if batch is None else batch.count))
    if released:
        group.give_back(released, counts)
    return len(released)
