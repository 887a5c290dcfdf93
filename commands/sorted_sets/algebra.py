"""Combine sorted sets: unions, intersections and differences, returned, counted or stored.

Plain sets are valid inputs; each member has a score of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isnan
from typing import Final, TypeAlias

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError
from ...storage.collections.set import Set
from ...storage.collections.sorted_set import SortedSet
from ..runtime.arguments import Arguments, parse_double
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .ranges import store
from .scores import encode_items

Combination: TypeAlias = Callable[["_Request"], dict[bytes, float]]

_NOT_A_WEIGHT: Final = b"ERR weight value is not a float"
_LIMIT: Final = b"ERR LIMIT can't be negative"


@dataclass(frozen=True, slots=True)
class _Operand:
    """One input: its members, their scores (None: 1 each), and the weight of the scores."""

    members: Mapping[bytes, object]
    scores: dict[bytes, float] | None
    weight: float = 1.0

    def product(self, member: bytes) -> float:
        """Return the weighted score of a member; NaN where 0 and infinity are multiplied."""
        return self.weight * (1.0 if self.scores is None else self.scores[member])

    def score(self, member: bytes) -> float:
        """Like ``product``, but 0 for NaN."""
        score = self.product(member)
        return 0.0 if isnan(score) else score


def _sum(first: float, second: float) -> float:
    total = first + second
    return 0.0 if isnan(total) else total


_AGGREGATES: Final[dict[bytes, Callable[[float, float], float]]] = {
    b"SUM": _sum,
    b"MIN": min,
    b"MAX": max,
    b"COUNT": _sum,
}


class _Request:
    """The arguments from numkeys on, and the inputs.

    Args:
        weighs: whether WEIGHTS and AGGREGATE are allowed.
        counts: whether only LIMIT is allowed.
    """

    __slots__ = ("aggregate", "limit", "operands", "with_scores")

    def __init__(
        self,
        client: Client,
        args: list[bytes],
        position: int = 1,
        *,
        weighs: bool = False,
        counts: bool = False,
    ) -> None:
        words = Arguments(args, position)
        count = words.integer()
        if count < 1:
            name = args[0].lower()
            raise ReplyError(b"ERR at least 1 input key is needed for '%b' command" % name)
        if count > words.remaining:
            raise ReplyError(SYNTAX)
        self.operands = [_operand(client, words.next()) for _ in range(count)]
        self.aggregate: Callable[[float, float], float] = _sum
        self.limit: int | None = None
        self.with_scores = False
        while words:
            if weighs and words.remaining > count and words.take(b"WEIGHTS"):
                rounds = client.server.compat.rounds_scores
                weights = [parse_double(words.next(), _NOT_A_WEIGHT, rounds=rounds) for _ in range(count)]
                self.operands = [
                    _Operand(each.members, each.scores, weight)
                    for each, weight in zip(self.operands, weights, strict=True)
                ]
            elif weighs and words.remaining > 1 and words.take(b"AGGREGATE"):
                self._choose(client, words.option())
            elif counts and words.remaining > 1 and words.take(b"LIMIT"):
                self.limit = words.integer(_LIMIT)
                if self.limit < 0:
                    raise ReplyError(_LIMIT)
            elif position == 1 and not counts and words.take(b"WITHSCORES"):
                self.with_scores = True
            else:
                raise ReplyError(SYNTAX)

    def _choose(self, client: Client, name: bytes) -> None:
        if name not in _AGGREGATES or (name == b"COUNT" and not client.server.compat.knows("8.8")):
            raise ReplyError(SYNTAX)
        self.aggregate = _AGGREGATES[name]
        if name == b"COUNT":
            self.operands = [_Operand(each.members, None, each.weight) for each in self.operands]


def _operand(client: Client, name: bytes) -> _Operand:
    value = client.db.read(name)
    if value is None:
        return _Operand({}, None)
    if type(value) is SortedSet:
        return _Operand(value.scores, value.scores)
    if type(value) is Set:
        return _Operand(value.members, None)
    raise ReplyError(WRONG_TYPE)


def _size(operand: _Operand) -> int:
    return len(operand.members)


def _union(request: _Request) -> dict[bytes, float]:
    """Return all members; the smallest input comes first, which affects the rounding of sums."""
    aggregate = request.aggregate
    found: dict[bytes, float] = {}
    for operand in sorted(request.operands, key=_size):
        for member in operand.members:
            score = operand.score(member)
            found[member] = aggregate(found[member], score) if member in found else score
    return found


def _in_all(operands: Sequence[_Operand]) -> Iterator[bytes]:
    """Yield the members that all inputs have; the first input must be the smallest."""
    first, *others = operands
    return (member for member in first.members if all(member in other.members for other in others))


def _intersection(request: _Request) -> dict[bytes, float]:
    aggregate = request.aggregate
    operands = sorted(request.operands, key=_size)
    found = {}
    for member in _in_all(operands):
        score = operands[0].score(member)
        for operand in operands[1:]:
            # A sum with NaN becomes 0, MIN and MAX ignore it.
            score = aggregate(score, operand.product(member))
        found[member] = score
    return found


def _difference(request: _Request) -> dict[bytes, float]:
    first, *others = request.operands
    return {
        member: first.score(member)
        for member in first.members
        if not any(member in other.members for other in others)
    }


@handles(specs.ZUNION, combine=_union, weighs=True)
@handles(specs.ZINTER, combine=_intersection, weighs=True)
@handles(specs.ZDIFF, combine=_difference, weighs=False)
def zunion(client: Client, args: list[bytes], *, combine: Combination, weighs: bool) -> bytes:
    """Reply with the union, intersection or difference of sorted sets, in the form of ZRANGE."""
    request = _Request(client, args, weighs=weighs)
    items = sorted([(score, member) for member, score in combine(request).items()])
    return encode_items(client, items, with_scores=request.with_scores)


@handles(specs.ZUNIONSTORE, combine=_union, weighs=True, event=b"zunionstore")
@handles(specs.ZINTERSTORE, combine=_intersection, weighs=True, event=b"zinterstore")
@handles(specs.ZDIFFSTORE, combine=_difference, weighs=False, event=b"zdiffstore")
def zunionstore(
    client: Client, args: list[bytes], *, combine: Combination, weighs: bool, event: bytes
) -> bytes:
    """Store the union, intersection or difference of sorted sets; reply with the number of its members."""
    return store(client, args, combine(_Request(client, args, 2, weighs=weighs)), event)


@handles(specs.ZINTERCARD)
def zintercard(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of members of the intersection, at most LIMIT."""
    request = _Request(client, args, counts=True)
    found = _in_all(sorted(request.operands, key=_size))
    return replies.integer(sum(1 for _ in islice(found, request.limit or None)))
