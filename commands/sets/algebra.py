"""Combine sets: intersections, unions and differences, returned, counted or stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.set import INTSET, Set
from ...storage.keyspace import notifications as events
from ..keys.store_result import store_result
from ..runtime.arguments import Arguments
from ..runtime.client import Client
from ..spec.command import handles
from . import specs

Combination: TypeAlias = Callable[[list[Set | None]], Iterable[bytes]]

_NUMKEYS: Final = b"ERR numkeys should be greater than 0"
_TOO_MANY_KEYS: Final = b"ERR Number of keys can't be greater than number of args"
_LIMIT: Final = b"ERR LIMIT can't be negative"


def _operands(client: Client, names: Sequence[bytes]) -> list[Set | None]:
    """Return the sets at some keys, None for a missing one; raise WRONGTYPE for another type."""
    return [client.read_value(name, Set) for name in names]


def _intersection(operands: list[Set | None]) -> Iterator[bytes]:
    """Yield the members that all sets have, in the order of the smallest set."""
    present = [each for each in operands if each is not None]
    if len(present) < len(operands):
        return iter(())
    smallest, *others = sorted(present, key=len)
    views = [each.members for each in others]
    if len(views) == 1:
        only = views[0]
        return (member for member in smallest if member in only)
    return (member for member in smallest if all(member in view for view in views))


def _union(operands: list[Set | None]) -> list[bytes]:
    """Return the members of any set: sorted by value if all are integers, as in an intset."""
    found: dict[bytes, None] = {}
    for each in operands:
        if each is not None:
            found.update(each.members)
    if all(each is None or each.encoding is INTSET for each in operands):
        return sorted(found, key=int)
    return list(found)


def _difference(operands: list[Set | None]) -> Iterator[bytes]:
    """Yield the members of the first set that no other set has."""
    first, *others = operands
    if first is None or first in others:
        return iter(())
    views = [each.members for each in others if each is not None]
    if len(views) == 1:
        only = views[0]
        return (member for member in first if member not in only)
    return (member for member in first if not any(member in view for view in views))


def _subtracts(operands: list[Set | None]) -> bool:
    """Return True if SDIFFSTORE copies the first set and then removes members, as Redis does where it is less work."""
    sizes = [len(each) for each in operands if each is not None]
    return operands[0] is not None and sizes[0] * len(sizes) // 2 > sum(sizes)


def _store(client: Client, args: list[bytes], found: list[bytes], gathered: Iterable[bytes]) -> bytes:
    """Store the members ``found``, in the encoding of a set that has held the members ``gathered``."""
    made = Set(found, Set.encoding_of(gathered, client.db.keyspace.limits))
    event = args[0].lower()
    return store_result(client, args, args[1], made, events.SET, event, is_fitted=True)


@handles(specs.SINTER, combine=_intersection)
@handles(specs.SUNION, combine=_union)
@handles(specs.SDIFF, combine=_difference)
def sinter(client: Client, args: list[bytes], *, combine: Combination) -> bytes:
    """Reply with the intersection, union or difference of sets, as a set."""
    found = combine(_operands(client, args[1:]))
    return replies.set_of(list(map(replies.bulk, found)), client.resp)


@handles(specs.SINTERSTORE)
def sinterstore(client: Client, args: list[bytes]) -> bytes:
    """Store the intersection of sets; reply with the number of its members."""
    operands = _operands(client, args[2:])
    found = list(_intersection(operands))
    if found and min(filter(None, operands), key=len).encoding is INTSET:
        return _store(client, args, found, found)
    return store_result(client, args, args[1], Set(found), events.SET, b"sinterstore")


@handles(specs.SUNIONSTORE)
def sunionstore(client: Client, args: list[bytes]) -> bytes:
    """Store the union of sets; reply with the number of its members."""
    found = _union(_operands(client, args[2:]))
    return _store(client, args, found, found)


@handles(specs.SDIFFSTORE)
def sdiffstore(client: Client, args: list[bytes]) -> bytes:
    """Store the difference of sets; reply with the number of its members."""
    operands = _operands(client, args[2:])
    found = list(_difference(operands))
    return _store(client, args, found, operands[0] or () if _subtracts(operands) else found)


class _Counted:
    """The arguments of S*CARD: ``numkeys key ... [LIMIT limit]``, and ``[APPROX]`` for some of them."""

    __slots__ = ("approximate", "limit", "names")

    def __init__(self, args: list[bytes], *, may_approximate: bool = False) -> None:
        words = Arguments(args)
        count = words.integer(_NUMKEYS)
        if count < 1:
            raise ReplyError(_NUMKEYS)
        if count > words.remaining:
            raise ReplyError(_TOO_MANY_KEYS)
        self.names = args[2 : 2 + count]
        self.limit = 0
        self.approximate = False
        words.position += count
        while words:
            if may_approximate and words.take(b"APPROX"):
                self.approximate = True
            elif words.take(b"LIMIT") and words:
                self.limit = words.integer(_LIMIT)
                if self.limit < 0:
                    raise ReplyError(_LIMIT)
            else:
                raise ReplyError(SYNTAX)

    def answer(self, found: Iterable[bytes]) -> bytes:
        """Return the number of members, counted at most up to the limit."""
        return replies.integer(sum(1 for _ in islice(found, self.limit or None)))


@handles(specs.SINTERCARD, combine=_intersection)
@handles(specs.SDIFFCARD, combine=_difference)
def sintercard(client: Client, args: list[bytes], *, combine: Combination) -> bytes:
    """Reply with the number of members of the intersection or difference, at most LIMIT."""
    asked = _Counted(args)
    return asked.answer(combine(_operands(client, asked.names)))


@handles(specs.SUNIONCARD)
def sunioncard(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of members of the union, at most LIMIT; with APPROX, estimate it by a HyperLogLog."""
    asked = _Counted(args, may_approximate=True)
    operands = _operands(client, asked.names)
    if not asked.approximate:
        return asked.answer(_union(operands))
    from ...storage.collections.hyperloglog import estimate, registers_of  # its tables take 1 ms

    count = estimate(registers_of(member for each in operands for member in each or ()))
    return replies.integer(min(count, asked.limit) if asked.limit else count)
