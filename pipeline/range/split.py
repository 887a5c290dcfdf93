"""Choose the id ranges of a batch and cut them into pieces, which ``partitions`` packs into tasks.

Pure functions, without Spark or a server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class IdRange:
    """The ids greater than ``after``, up to and including ``upto``; ``rows`` is the exact number of entries, if known."""

    after: int
    upto: int
    rows: int | None = None


def split_evenly(after: int, upto: int, parts: int, *, first: int | None = None) -> list[IdRange]:
    """Cut a range of ids into at most ``parts`` pieces of about the same width.

    Args:
        after: exclusive lower bound.
        upto: inclusive upper bound.
        first: the smallest existing id; no piece is spent on the time before it.
    """
    if upto <= after:
        return []
    low = max(after, min(first - 1, upto - 1)) if first else after
    width = upto - low
    parts = min(parts, width)
    bounds = [after, *(low + width * step // parts for step in range(1, parts)), upto]
    return [IdRange(one, other) for one, other in pairwise(bounds)]


def join_steps(after: int, steps: Sequence[tuple[int, int]], parts: int) -> list[IdRange]:
    """Join counted ranges into at most ``parts`` ranges with about equal numbers of rows.

    Args:
        after: exclusive lower bound of the first step.
        steps: the last id (inclusive) and the number of rows of each step, in order.
    """
    total = sum(rows for _, rows in steps)
    pieces: list[IdRange] = []
    start, rows, passed = after, 0, 0
    for index, (upto, step_rows) in enumerate(steps):
        rows += step_rows
        passed += step_rows
        if index == len(steps) - 1 or passed * parts >= total * (len(pieces) + 1):
            pieces.append(IdRange(start, upto, rows))
            start, rows = upto, 0
    return pieces


def part_count(rows: int, *, least: int, rows_per_part: float) -> int:
    """Return the number of tasks for ``rows`` rows: at least ``least``, and at most ``rows_per_part`` rows in each.

    ``least`` never makes more tasks than rows.
    """
    return max(1, min(least, rows), math.ceil(rows / rows_per_part))


def share_rows(limit: int, backlogs: dict[str, int]) -> dict[str, int]:
    """Divide ``limit`` rows among streams in proportion to their backlogs (rows), and return each stream's share.

    Streams without a backlog are left out, and all others get at least one row. The shares add up to the limit, or to
    one row each if there are more streams than that, or to the backlogs if these are smaller.
    """
    waiting = {name: rows for name, rows in backlogs.items() if rows > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    shares = {name: max(1, limit * rows // total) for name, rows in waiting.items()}
    left = limit - sum(shares.values())
    for name in sorted(waiting, key=waiting.__getitem__, reverse=True):
        more = min(left, waiting[name] - shares[name]) if left > 0 else max(left, 1 - shares[name])
        shares[name] += more
        left -= more
    return shares
