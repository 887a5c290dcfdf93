"""From two positions to the partitions between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .split import IdRange, join_steps, part_count, split_evenly
from .task import RangePartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..redis.stream_state import StreamState
    from ..source.offsets import Position
    from ..source.options import SourceOptions


def rows_between(start: Position, end: Position) -> int | None:
    """Return how many entries are there to read between two positions; None where it is not known."""
    if end.added is None or (start.added is None and start.life == end.life):
        return None
    newly_gone = end.gone - start.gone
    return end.added - newly_gone - ((start.added or 0) if start.life == end.life else 0)


def range_partitions(
    start: Mapping[str, Position],
    end: Mapping[str, Position],
    states: Mapping[str, StreamState | None],
    options: SourceOptions,
    steps: Mapping[str, Sequence[tuple[int, int]]] | None = None,
) -> list[RangePartition]:
    """Return the partitions of one batch.

    Args:
        start: where it begins; a stream that is not in it has no rows in this batch.
        end: where it ends.
        states: the streams as they are now, for cutting well.
        options: partitions wanted.
        steps: counted steps of some streams, as ``join_steps`` takes them.
    """
    rows: dict[str, int] = {}
    for name, to in end.items():
        at = start.get(name)
        if at is not None and (to.id > at.id or to.life > at.life):
            known, now = rows_between(at, to), states.get(name)
            rows[name] = known if known is not None else (now.length if now else 0)
    total = sum(rows.values())
    found: list[RangePartition] = []
    for name, guess in rows.items():
        at, to, now = start[name], end[name], states.get(name)
        after = at.id if at.life == to.life else 0
        known = rows_between(at, to)
        least = -(-options.min_partitions * guess // total) if total else 1
        parts = part_count(guess, least=least, rows_per_part=options.max_rows_per_partition)
        pieces: list[IdRange]
        if known == 0:
            pieces = []
        elif steps and name in steps:
            pieces = join_steps(after, steps[name], parts)
        elif parts == 1 or now is None:
            pieces = [IdRange(after, to.id, known)]
        else:
            pieces = split_evenly(after, to.id, parts, first=now.first)
        first, deleted = (now.first or 0, now.max_deleted or 0) if now else (0, 0)
        found += [
            RangePartition(name, piece.after, piece.upto, piece.rows, first, deleted) for piece in pieces
        ]
    return found
