"""Group references to a stream's entries, and what happens to them when entries are removed: KEEPREF, DELREF, ACKED.

An entry is *referenced* while some group has not delivered it yet (its last delivered ID is smaller) or has it
pending. Only the ID counts: the stream need not contain such an entry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from ..streams.ids import MAX_ID, encode, parse
from ..streams.iteration import ids_from, pieces_between
from ..streams.stream import Stream
from ..streams.trimming import Removed, trim
from .group import Group


def is_referenced(stream: Stream, stream_id: int) -> bool:
    """Return True if some group has not delivered the entry yet or has it pending."""
    return any(
        group.last_id < stream_id or group.pel.at(stream_id) is not None for group in stream.groups.values()
    )


def forget(stream: Stream, numbers: list[int]) -> int:
    """Remove entries from the PELs of all groups; return how many pending entries were removed."""
    texts = list(map(encode, numbers))
    return sum([group.pel.acknowledge(texts) for group in stream.groups.values()])


def forget_later(stream: Stream, gone: Removed) -> list[Callable[[], bool]]:
    """Remove entries from the PELs of all groups in steps.

    Return one function for each group with pending entries. Each call does a step, and returns True if work is left.
    """
    return [group.acknowledge_later(gone.texts()) for group in stream.groups.values() if len(group.pel)]


def holders(stream: Stream, numbers: list[int]) -> list[tuple[bytes, list[bytes]]]:
    """Return the name of each group whose PEL has some of these entries, with their distinct IDs."""
    texts = dict.fromkeys(map(encode, numbers))
    held = [
        (name, [text for text in texts if text in group.pel.by_text]) for name, group in stream.groups.items()
    ]
    return [(name, found) for name, found in held if found]


def trim_acked(
    stream: Stream,
    threshold: int,
    *,
    by_length: bool,
    approximate: bool = False,
    limit: int = 0,
    removed_ids: list[bytes] | None = None,
) -> tuple[int, int]:
    """Trim by MAXLEN or MINID with ACKED: referenced entries stay, and MAXLEN removes newer entries instead.

    Return the number of removed entries, and the ID up to which entries were examined.

    Args:
        threshold: MAXLEN, the maximum number of entries to keep; or MINID, the smallest ID to keep.
        by_length: True for MAXLEN, False for MINID.
        approximate: end at the border of a macro node (``~``).
        limit: approximate only: maximum number of entries to remove; 0 for no limit.
        removed_ids: receives the ID texts of the removed entries, if given.
    """
    end, most = (MAX_ID, stream.length - threshold) if by_length else (threshold - 1, stream.length)
    if approximate:
        return _trim_nodes(stream, end, most, limit, removed_ids)
    return _trim(stream, end, most, removed_ids, by_length=by_length), end


def _trim(stream: Stream, end: int, most: int, removed_ids: list[bytes] | None, *, by_length: bool) -> int:
    """Trim exactly, by either option: remove at most ``most`` unreferenced entries up to an ID."""
    if most <= 0:
        return 0
    # Usually only the newest entries are referenced: remove all before them without examining each.
    border = min([end + 1, *map(_first_needed, stream.groups.values())])
    gone = Removed()
    removed = trim(stream, stream.length - min(most, stream.rank(border)), gone=gone)
    if removed_ids is not None:
        removed_ids += map(encode, gone.ids())
    doomed = _unreferenced(stream, end, most - removed)
    if by_length:
        doomed = _within_reach(stream, doomed, most - removed)
    return removed + _remove(stream, doomed, removed_ids)


def _within_reach(stream: Stream, doomed: list[int], most: int) -> list[int]:
    """Return the entries that MAXLEN reaches: it ends with the first node that has more entries than remain to remove."""
    if not doomed:
        return doomed
    stream.macro_nodes.account_until(doomed[-1])
    taken = 0
    for node in stream.macro_nodes.known:
        before, taken = taken, bisect_right(doomed, node.last_id)
        if node.live > most - before:
            return doomed[:taken]
    return doomed


def _first_needed(group: Group) -> int:
    """Return the smallest ID that a group references."""
    first = group.pel.first()
    return group.last_id + 1 if first is None else min(first.number, group.last_id + 1)


def _trim_nodes(
    stream: Stream, end: int, most: int, limit: int, removed_ids: list[bytes] | None
) -> tuple[int, int]:
    """Trim approximately, by either option: like ``_trim``, but end before a node that would exceed the limit."""
    removed = reached = 0
    for node in stream.macro_nodes.all():
        if removed >= most or node.first_id > end or (limit and removed + node.live > limit):
            break
        reached = min(node.last_id, end)
        doomed = _unreferenced(stream, reached, most - removed, node.first_id)
        removed += _remove(stream, doomed, removed_ids)
    return removed, reached


def _unreferenced(stream: Stream, end: int, most: int, start: int = 0) -> list[int]:
    """Return the first unreferenced entries from start to end, at most ``most``."""
    if most <= 0:
        return []
    groups = stream.groups.values()
    pels = [group.pel.by_text for group in groups if len(group.pel)]
    found: list[int] = []
    for chunk, first, stop in pieces_between(stream, start, min([end, *[group.last_id for group in groups]])):
        if len(found) >= most:
            break
        texts = chunk.texts(first, stop)
        for pel in pels:
            texts = [text for text in texts if text not in pel]
        found += map(parse, texts)
    return found[:most]


def _remove(stream: Stream, ids: list[int], removed_ids: list[bytes] | None) -> int:
    """Remove existing entries, given in ascending order; those at the start of the stream go in one operation."""
    if removed_ids is not None:
        removed_ids += map(encode, ids)
    oldest = 0
    if len(ids) > 1:
        for stream_id, wanted in zip(ids_from(stream, 0), ids, strict=False):
            if stream_id != wanted:
                break
            oldest += 1
        trim(stream, stream.length - oldest)
    if oldest < len(ids):
        stream.remove_all(ids[oldest:])
    return len(ids)
