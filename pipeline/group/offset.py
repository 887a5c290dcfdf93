"""The entries of a batch of group mode, by id: as the offset in Spark's log and as work for tasks.

The offset holds every id, so that a restart reads exactly the same batch again. New entries are runs (one XREADGROUP
reply holds *all* entries between its first and its last). Claimed entries are listed one by one, each as its distance
from the previous one::

    {"v": 3, "mode": "group", …, "pieces": {"orders": [[["1700000000000-0", "1700000000009-4", 50]],
                                                       [["worker-3", 2, "1699999999000-0 3-0 0-1"]]]}}

A stream has a list of runs, each ``[first, last, count]`` or ``[id]``, and a list of claims, each ``[owner,
deliveries, ids]``, which is left out if it is empty. Ids and ``positions`` have the form of `source.offsets`.

This module uses neither a server nor Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from ..redis import ids
from ..source.offsets import (
    VERSION,
    OffsetError,
    check_version,
    dump_streams,
    id_of_word,
    id_word,
    load_streams,
)
from ..source.positions import Position

_MODE: Final = "group"


@dataclass(frozen=True)
class Run:
    """New entries of a stream: the ``count`` entries that existed from ``first`` to ``last`` when they were delivered.

    Both ids are inclusive, and no other entry existed between them.
    """

    stream: str
    first: int
    last: int
    count: int


@dataclass(frozen=True)
class Claim:
    """Entries claimed from ``owner``, all with the same delivery count."""

    stream: str
    owner: str  # the previous consumer; our own name if an earlier run of this query left the entries
    deliveries: int  # the delivery count, including this delivery
    ids: tuple[int, ...]  # in ascending order

    @property
    def count(self) -> int:
        """The number of claimed entries."""
        return len(self.ids)


BatchPart = Run | Claim


@dataclass(frozen=True)
class GroupOffset:
    """The offset of a query in group mode: its last batch, and its position in each stream."""

    group: str
    consumer: str
    batch: int = 0  # its number; one higher than before even if the batch has the same ids again
    pieces: tuple[BatchPart, ...] = ()
    gone: int = 0  # the number of entries that were deleted before they could be read, since the query began
    dead: int = 0  # the number of entries moved to the dead-letter stream, since the query began
    # The state of each stream when entries of it were last in a batch, or when its group was created.
    positions: Mapping[str, Position] = field(default_factory=dict)
    query: str = ""  # a random name, unique to this checkpoint
    # The batch that begins here is gathered only once this offset, and with it the consumer's name, is in Spark's
    # log.
    is_named_only: bool = False
    db: int = 0

    @property
    def rows(self) -> int:
        """The number of entries in the batch."""
        return sum(piece.count for piece in self.pieces)

    def as_json(self) -> dict[str, Any]:
        """Return the offset as the dict of plain values that Spark keeps in its log."""
        streams: dict[str, list[list[Any]]] = {}
        for piece in self.pieces:
            if isinstance(piece, Run):
                bounds = [id_word(piece.first), id_word(piece.last), piece.count]
                is_one = piece.count == 1 and piece.first == piece.last
                streams.setdefault(piece.stream, [[]])[0].append(bounds[:1] if is_one else bounds)
            else:
                of_stream = streams.setdefault(piece.stream, [[]])
                if len(of_stream) == 1:
                    of_stream.append([])
                of_stream[1].append([piece.owner, piece.deliveries, steps_of_ids(piece.ids)])
        return (
            {
                "v": VERSION,
                "mode": _MODE,
                "group": self.group,
                "consumer": self.consumer,
                "db": self.db,
                "batch": self.batch,
                "rows": self.rows,
                "gone": self.gone,
                "dead": self.dead,
                "pieces": streams,
            }
            | ({"positions": dump_streams(self.positions)} if self.positions else {})
            | ({"query": self.query} if self.query else {})
            | ({"named_only": True} if self.is_named_only else {})
        )

    @classmethod
    def of_json(cls, given: Mapping[str, Any] | str) -> GroupOffset:
        """Parse the result of ``as_json``, as a dict or as text.

        Raises OffsetError: another version, or an offset of the other mode.
        """
        try:
            fields: Mapping[str, Any] = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            fields = {"text": given}  # which is not an offset of any version
        check_version(fields)
        if fields.get("mode") != _MODE:
            raise OffsetError(
                "this checkpoint was written by another mode: the option 'mode' cannot change in a query"
            )
        pieces: list[BatchPart] = []
        for stream, given_pieces in fields["pieces"].items():
            runs, claims = given_pieces if len(given_pieces) == 2 else (given_pieces[0], ())
            pieces += [
                Claim(stream, owner, deliveries, ids_of_steps(packed)) for owner, deliveries, packed in claims
            ]
            pieces += [_run(stream, *run) for run in runs]
        return cls(
            group=fields["group"],
            consumer=fields["consumer"],
            batch=fields["batch"],
            pieces=tuple(pieces),
            gone=fields["gone"],
            dead=fields["dead"],
            positions=load_streams(fields.get("positions", {})),
            query=fields.get("query", ""),
            is_named_only=fields.get("named_only", False),
            db=fields["db"],
        )


def claims_of(stream: str, taken: Iterable[tuple[int, str, int]], most: int) -> list[Claim]:
    """Return claims for entries given as (id, owner, deliveries), with at most ``most`` ids each."""
    alike: dict[tuple[str, int], list[int]] = {}
    for stream_id, owner, deliveries in taken:
        alike.setdefault((owner, deliveries), []).append(stream_id)
    return [
        Claim(stream, owner, deliveries, tuple(members[at : at + most]))
        for (owner, deliveries), members in alike.items()
        for members in [sorted(members)]
        for at in range(0, len(members), most)
    ]


def shares(pieces: Sequence[BatchPart], weights: Sequence[float], parts: int) -> list[list[BatchPart]]:
    """Split the pieces, in order, into at most ``parts`` non-empty lists of about equal weight."""
    total = sum(weights)
    result: list[list[BatchPart]] = [[] for _ in range(parts)]
    before = 0.0
    for piece, weight in zip(pieces, weights, strict=True):
        result[min(int((before + weight / 2) * parts / total), parts - 1)].append(piece)
        before += weight
    return [share for share in result if share]


def _run(stream: str, first: str | int, last: str | int | None = None, count: int = 1) -> Run:
    begin = id_of_word(first)
    return Run(stream, begin, begin if last is None else id_of_word(last), count)


def steps_of_ids(members: Sequence[int]) -> str:
    """Encode ascending ids, each as its distance from the previous one: ``"1700000000000-0 3-0 0-1"``.

    If the milliseconds differ, the sequence number is written as it is.
    """
    words = []
    for before, now in pairwise((0, *members)):
        ms, seq = ids.split(now)
        last_ms, last_seq = ids.split(before)
        words.append(f"{ms - last_ms}-{seq if ms > last_ms else seq - last_seq}")
    return " ".join(words)


def ids_of_steps(packed: str) -> tuple[int, ...]:
    """Decode the ids in the result of ``steps_of_ids``."""
    members: list[int] = []
    ms = seq = 0
    for word in packed.split():
        step_ms, step_seq = map(int, word.split("-"))
        seq = step_seq if step_ms else seq + step_seq
        ms += step_ms
        members.append(ids.join(ms, seq))
    return tuple(members)
