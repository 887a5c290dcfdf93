"""Turn two positions into the partitions between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..redis.connection import Connection
from ..redis.replicas import written_by_shard
from ..redis.stream_state import StreamState
from ..source.options import SourceOptions
from ..source.positions import Position
from ..source.sizes import evenly, rows_worth
from .split import IdRange, join_steps, part_count, split_evenly
from .task import RangePartition, StreamRange

# Starting a task costs Spark about as much as reading this many rows; a range costs a task about as much as this many.
_ROWS_WORTH_A_TASK: Final = 10_000
_ROWS_WORTH_A_RANGE: Final = 4


def worth_of_entries(
    start: Mapping[str, Position], end: Mapping[str, Position], options: SourceOptions, connection: Connection
) -> dict[str, float]:
    """Return the number of rows that an entry counts for, by stream, because of its bytes (see `rows_worth`).

    A stream whose entries count for 1 may be missing.
    """
    if options.max_bytes_per_partition is None:
        return {}
    places = {
        name: evenly(at.id if at.generation == to.generation else 0, to.id)
        for name, to in end.items()
        if (at := start.get(name)) is not None and at != to
    }
    return rows_worth(connection, places, options)


def names_to_cut(
    start: Mapping[str, Position],
    end: Mapping[str, Position],
    options: SourceOptions,
    worth: Mapping[str, float],
) -> list[str]:
    """Return the streams whose current state is needed to plan partitions.

    These are the streams with an unknown number of rows, and the ones that may be cut into several ranges.
    """
    return [
        name
        for name, to in end.items()
        if (at := start.get(name)) is not None
        and at != to
        and (
            options.min_partitions > 1
            or (rows := at.rows_to(to)) is None
            or rows * worth.get(name, 1) > options.max_rows_per_partition
        )
    ]


def range_partitions(
    start: Mapping[str, Position],
    end: Mapping[str, Position],
    states: Mapping[str, StreamState | None],
    options: SourceOptions,
    connection: Connection,
    steps: Mapping[str, Sequence[tuple[int, int]]] | None = None,
    worth: Mapping[str, float] | None = None,
) -> list[RangePartition]:
    """Return the partitions of one batch.

    Args:
        start: the first position of the batch; streams that are not in it have no rows in this batch.
        states: the current states, at least of the streams in `names_to_cut`.
        steps: counted steps of some streams, in the form of ``join_steps``.
        worth: the number of rows that an entry counts for, where it is more than one.
    """
    rows: dict[str, int] = {}
    for name, to in end.items():
        at = start.get(name)
        if at is not None and (to.id > at.id or to.generation > at.generation):
            known, now = at.rows_to(to), states.get(name)
            rows[name] = known if known is not None else (now.length if now else 0)
    total = sum(rows.values())
    found: list[tuple[StreamRange, int]] = []
    for name, guess in rows.items():
        at, to, now = start[name], end[name], states.get(name)
        after = at.id if at.generation == to.generation else 0
        known = at.rows_to(to)
        least = -(-options.min_partitions * guess // total) if total else 1
        each = (worth or {}).get(name, 1)
        parts = part_count(guess, least=least, rows_per_part=options.max_rows_per_partition / each)
        pieces: list[IdRange]
        if to.id <= after:
            pieces = []  # the position was corrected, which is a batch without rows
        elif steps and name in steps:
            pieces = join_steps(after, steps[name], parts)
        elif parts == 1 or now is None:
            pieces = [IdRange(after, to.id, known)]
        else:
            pieces = split_evenly(after, to.id, parts, first=now.first)
        first, deleted = (now.first or 0, now.max_deleted or 0) if now else (0, 0)
        for piece in pieces:
            part = StreamRange(name, piece.after, piece.upto, piece.rows, first, deleted)
            weight = guess // len(pieces) if piece.rows is None else piece.rows
            found.append((part, int(weight * each) + _ROWS_WORTH_A_RANGE))
    shards: dict[str, list[tuple[StreamRange, int]]] = {}
    for part, weight in found:
        shards.setdefault(connection.shard_of(part.stream), []).append((part, weight))
    written = written_by_shard(connection)
    return [
        replace(task, shard=shard, written=written.get(shard))
        for shard, parts_there in shards.items()
        for task in pack(parts_there, options)
    ]


def pack(parts: Sequence[tuple[StreamRange, int]], options: SourceOptions) -> list[RangePartition]:
    """Distribute ranges over tasks, in order: long ranges get their own task, short ranges share one.

    Short ranges stay apart if more tasks are wanted.
    ``parts``: each range with its work in rows.
    """
    total = sum(weight for _, weight in parts)
    most = min(_ROWS_WORTH_A_TASK, options.max_rows_per_partition, max(total // options.min_partitions, 1))
    tasks: list[list[StreamRange]] = []
    filled = most
    for part, weight in parts:
        if filled + weight > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += weight
    return [RangePartition(tuple(ranges)) for ranges in tasks]
