"""What a batch of group mode consists of: the ids its driver got, as offset in Spark's log and as work for tasks.

The offset names every id, so that a restart reads the very same batch again: new entries as runs (one XREADGROUP reply
holds *all* entries between its first and its last), claimed ones one by one, each as its distance from the one before::

    {"v": 3, "mode": "group", …, "pieces": {"orders": [[["1700000000000-0", "1700000000009-4", 50]],
                                                       [["worker-3", 2, "1699999999000-0 3-0 0-1"]]]}}

Of a stream that is a list of runs, each ``[first, last, count]`` or ``[id]``, and one of claims, each ``[owner, deliveries,
ids]``, which is left out where it is empty. Ids and ``positions`` are as in `source.offsets`.

Nothing here talks to a server or to Spark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..source.positions import Position

_MODE: Final = "group"


@dataclass(frozen=True)
class Run:
    """``count`` entries of a stream: all there were from ``first`` to ``last`` when they were delivered as new."""

    stream: str
    first: int
    last: int
    count: int


@dataclass(frozen=True)
class Claim:
    """Entries taken over from ``owner`` (our own name: from an earlier run of this query), all delivered equally often.

    ``deliveries`` counts this delivery too; ``ids`` ascend.
    """

    stream: str
    owner: str
    deliveries: int
    ids: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many entries these are."""
        return len(self.ids)


BatchPart = Run | Claim


@dataclass(frozen=True)
class GroupOffset:
    """One batch, and with it the place of a query: ``batch`` rises by one with each, also when ids come back.

    ``gone`` and ``dead`` count, since the query began, entries that had been deleted before they could be read and
    those moved to the dead-letter stream. ``positions`` is how the streams were when entries of theirs were last in a
    batch, or when their groups were created. ``query`` is a name by chance, of this checkpoint and no other.
    ``is_named_only``: the batch that begins here is gathered once this offset, and with it the consumer's name, is in Spark's log.
    """

    group: str
    consumer: str
    batch: int = 0
    pieces: tuple[BatchPart, ...] = ()
    gone: int = 0
    dead: int = 0
    positions: Mapping[str, Position] = field(default_factory=dict)
    query: str = ""
    is_named_only: bool = False
    db: int = 0

    @property
    def rows(self) -> int:
        """How many entries the batch holds."""
        return sum(piece.count for piece in self.pieces)

    def following(
        self,
        pieces: Sequence[BatchPart],
        *,
        consumer: str,
        gone: int,
        dead: int,
        positions: Mapping[str, Position],
        query: str = "",
    ) -> GroupOffset:
        """Return the offset of the next batch."""
        return replace(
            self,
            consumer=consumer,
            batch=self.batch + 1,
            pieces=tuple(pieces),
            gone=self.gone + gone,
            dead=self.dead + dead,
            positions=positions,
            query=query or self.query,
            is_named_only=False,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the form Spark keeps: a dict of plain values."""
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
        """Read what ``as_json`` made, also as text.

        Raises:
            OffsetError: another version, or the offset of another mode.
        """
        try:
            fields: Mapping[str, Any] = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            fields = {"text": given}  # which no version is
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
    """Put (id, owner, deliveries) together to claims of at most ``most`` ids each."""
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
    """Split the pieces, in their order, into at most ``parts`` lists of about equal weight, none empty."""
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
    """Write ids in ascending order, each as its distance from the one before: ``"1700000000000-0 3-0 0-1"``; a new time restarts the sequence."""
    words = []
    for before, now in pairwise((0, *members)):
        ms, seq = ids.split(now)
        last_ms, last_seq = ids.split(before)
        words.append(f"{ms - last_ms}-{seq if ms > last_ms else seq - last_seq}")
    return " ".join(words)


def ids_of_steps(packed: str) -> tuple[int, ...]:
    """Read what ``steps_of_ids`` wrote."""
    members: list[int] = []
    ms = seq = 0
    for word in packed.split():
        step_ms, step_seq = map(int, word.split("-"))
        seq = step_seq if step_ms else seq + step_seq
        ms += step_ms
        members.append(ids.join(ms, seq))
    return tuple(members)
