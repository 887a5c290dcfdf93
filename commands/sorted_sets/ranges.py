"""Ranges of sorted sets by rank, score or name: returned, counted, stored, removed."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.sorted_set import SKIPLIST, SortedSet
from ...storage.keyspace import notifications as events
from ..keys.store_result import store_result
from ..runtime.arguments import Arguments, parse_double_up_to_nul, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.versions import Compat
from . import specs
from .members import after_removal
from .scores import encode_items

# Returns the start and stop index of a range in a sorted set.
Range: TypeAlias = Callable[[SortedSet], tuple[int, int]]

_NOT_A_SCORE: Final = b"ERR min or max is not a float"
_NOT_A_NAME: Final = b"ERR min or max not valid string range item"
_LIMIT_OF_RANKS: Final = (
    b"ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
)
_SCORES_OF_NAMES: Final = b"ERR syntax error, WITHSCORES not supported in combination with BYLEX"


class By(Enum):
    """What the bounds of a range are: ranks, scores or names (members in lexicographic order)."""

    RANK = 1
    SCORE = 2
    NAME = 3


def parse_range(by: By, low: bytes, high: bytes, compat: Compat, *, reverse: bool = False) -> Range:
    """Parse the lower and the upper bound of a ZRANGE.

    Raises ReplyError: a bound is invalid.
    ``reverse``: the range is walked from its upper end, and ranks count from there.
    """
    if by is By.RANK:
        return _rank_range(parse_integer(low), parse_integer(high), reverse=reverse)
    if by is By.SCORE:
        return _score_range(low, high, compat)
    return _name_range(low, high, reverse=reverse)


def _rank_range(first: int, last: int, *, reverse: bool) -> Range:
    def find(value: SortedSet) -> tuple[int, int]:
        size = len(value)
        start = max(first + size if first < 0 else first, 0)
        stop = min(last + size if last < 0 else last, size - 1) + 1
        if start >= stop:
            return 0, 0
        return (size - stop, size - start) if reverse else (start, stop)

    return find


def _score_range(low: bytes, high: bytes, compat: Compat) -> Range:
    after, before = low.startswith(b"("), high.startswith(b"(")
    as_strtod = compat.reads_bounds_as_strtod
    lowest = parse_double_up_to_nul(low[after:], _NOT_A_SCORE, as_strtod=as_strtod)
    highest = parse_double_up_to_nul(high[before:], _NOT_A_SCORE, as_strtod=as_strtod)
    return lambda value: value.score_range(lowest, highest, after=after, before=before)


def _name_range(low: bytes, high: bytes, *, reverse: bool) -> Range:
    for word in (low, high):
        if word not in {b"-", b"+"} and word[:1] not in {b"(", b"["}:
            raise ReplyError(_NOT_A_NAME)
    if low == b"+" or high == b"-":
        return lambda _: (0, 0)
    lowest = None if low == b"-" else low[1:]
    highest = None if high == b"+" else high[1:]
    after, before = low.startswith(b"("), high.startswith(b"(")
    return lambda value: value.lex_range(lowest, highest, after=after, before=before, reverse=reverse)


class _Query:
    """The arguments of ZRANGE and its variants from the first bound on.

    ``by`` and ``reverse`` follow from the command's name; ZRANGE and ZRANGESTORE have options for them.
    """

    __slots__ = ("_count", "_offset", "_range", "_reverse", "with_scores")

    def __init__(
        self,
        client: Client,
        words: Arguments,
        *,
        by: By | None = None,
        reverse: bool = False,
        stores: bool = False,
    ) -> None:
        low, high = words.next(), words.next()
        chooses = by is None
        self._reverse = reverse
        self._offset = 0
        self._count = -1
        self.with_scores = False
        while words:
            if not stores and words.take(b"WITHSCORES"):
                self.with_scores = True
            elif words.remaining > 2 and words.take(b"LIMIT"):
                self._offset = words.integer()
                self._count = words.integer()
            elif chooses and not self._reverse and words.take(b"REV"):
                self._reverse = True
            elif chooses and by is None and words.take(b"BYSCORE"):
                by = By.SCORE
            elif chooses and by is None and words.take(b"BYLEX"):
                by = By.NAME
            else:
                raise ReplyError(SYNTAX)
        by = by or By.RANK
        if self._count != -1 and by is By.RANK:
            raise ReplyError(_LIMIT_OF_RANKS)
        if self.with_scores and by is By.NAME:
            raise ReplyError(_SCORES_OF_NAMES)
        if by is By.RANK:
            self._offset = 0
        elif self._reverse:
            low, high = high, low
        self._range = parse_range(by, low, high, client.server.compat, reverse=self._reverse)

    def items(self, value: SortedSet) -> list[tuple[float, bytes]]:
        """Return the items of a sorted set in the range, in the requested order."""
        start, stop = self._range(value)
        if self._offset < 0:
            return []
        if self._reverse:
            stop -= self._offset
            if self._count >= 0:
                start = max(start, stop - self._count)
        else:
            start += self._offset
            if self._count >= 0:
                stop = min(stop, start + self._count)
        return list(value.slice(start, stop, reverse=self._reverse)) if start < stop else []


@handles(specs.ZRANGE, by=None, reverse=False)
@handles(specs.ZREVRANGE, by=By.RANK, reverse=True)
@handles(specs.ZRANGEBYSCORE, by=By.SCORE, reverse=False)
@handles(specs.ZREVRANGEBYSCORE, by=By.SCORE, reverse=True)
@handles(specs.ZRANGEBYLEX, by=By.NAME, reverse=False)
@handles(specs.ZREVRANGEBYLEX, by=By.NAME, reverse=True)
def zrange(client: Client, args: list[bytes], *, by: By | None, reverse: bool) -> bytes:
    """Reply with the members in a range, as an array.

    With WITHSCORES: pairs in RESP3, alternating members and scores in RESP2.
    """
    query = _Query(client, Arguments(args, 2), by=by, reverse=reverse)
    value = client.read_value(args[1], SortedSet)
    if value is None:
        return replies.EMPTY_ARRAY
    return encode_items(client, query.items(value), with_scores=query.with_scores)


@handles(specs.ZRANGESTORE)
def zrangestore(client: Client, args: list[bytes]) -> bytes:
    """Store the members in a range; reply with their number."""
    query = _Query(client, Arguments(args, 3), stores=True)
    value = client.read_value(args[2], SortedSet)
    items = [] if value is None else query.items(value)
    limits = client.db.keyspace.limits
    if len(items) > limits.zset_max_listpack_entries:
        return store(client, args, {member: score for score, member in items}, b"zrangestore")
    found = SortedSet()  # a listpack until a member is too long for it
    for score, member in items:
        found.put(member, score, limits)
    return store_result(client, args, args[1], found, events.ZSET, b"zrangestore")


def store(client: Client, args: list[bytes], scores: dict[bytes, float], event: bytes) -> bytes:
    """Store a sorted set at the key ``args[1]`` and propagate ``args``; return the encoded number of members."""
    return store_result(client, args, args[1], sorted_set_of(scores), events.ZSET, event)


def sorted_set_of(scores: dict[bytes, float]) -> SortedSet:
    """Build a sorted set from scores by member; it is a skiplist, which ``choose_encoding`` may make more compact."""
    value = SortedSet(scores)
    value.encoding = SKIPLIST
    return value


@handles(specs.ZCOUNT, by=By.SCORE)
@handles(specs.ZLEXCOUNT, by=By.NAME)
def zcount(client: Client, args: list[bytes], *, by: By) -> bytes:
    """Reply with the number of members in a range."""
    find = parse_range(by, args[2], args[3], client.server.compat)
    value = client.read_value(args[1], SortedSet)
    if value is None:
        return replies.ZERO
    start, stop = find(value)
    return replies.integer(stop - start)


@handles(specs.ZREMRANGEBYRANK, by=By.RANK, event=b"zremrangebyrank")
@handles(specs.ZREMRANGEBYSCORE, by=By.SCORE, event=b"zremrangebyscore")
@handles(specs.ZREMRANGEBYLEX, by=By.NAME, event=b"zremrangebylex")
def zremrange(client: Client, args: list[bytes], *, by: By, event: bytes) -> bytes:
    """Remove the members in a range; reply with their number."""
    find = parse_range(by, args[2], args[3], client.server.compat)
    value = client.write_value(args[1], SortedSet)
    if value is None:
        return replies.ZERO
    removed = value.remove_range(*find(value))
    if removed:
        after_removal(client, args[1], value, event, removed, event_first=False)
        client.propagate(args)
    return replies.integer(removed)
