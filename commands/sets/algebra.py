"""Sets from sets: intersections, unions and differences, given, counted or stored."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.hyperloglog import estimate, registers_of
from ...storage.collections.set import INTSET, Set
from ...storage.keyspace import notifications as events
from ..keys.store_result import store_result
from ..runtime.arguments import Arguments
from ..spec.command import command
from ..spec.key_specs import KeySpec, key
from . import specs as syntax

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..runtime.client import Client

_READ: Final = (key(1, "RO access", last=-1),)
_STORE: Final = (key(1, "OW update"), key(2, "RO access", last=-1))
_COUNTED: Final = (KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),)
_NUMKEYS: Final = b"ERR numkeys should be greater than 0"
_TOO_MANY_KEYS: Final = b"ERR Number of keys can't be greater than number of args"
_LIMIT: Final = b"ERR LIMIT can't be negative"


def _operands(client: Client, names: Sequence[bytes]) -> list[Set | None]:
    """The sets at some keys, None for a missing one; WRONGTYPE if any key holds something else."""
    return [client.read_value(name, Set) for name in names]


def _intersection(operands: list[Set | None]) -> Iterator[bytes]:
    """The members that all have, in the order of the smallest set."""
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
    """The members that any has: integers by their value if there is nothing else, as an intset has them."""
    found: dict[bytes, None] = {}
    for each in operands:
        if each is not None:
            found.update(each.members)
    if all(each is None or each.encoding is INTSET for each in operands):
        return sorted(found, key=int)
    return list(found)


def _difference(operands: list[Set | None]) -> Iterator[bytes]:
    """The members of the first set that no other has."""
    first, *others = operands
    if first is None or first in others:
        return iter(())
    views = [each.members for each in others if each is not None]
    if len(views) == 1:
        only = views[0]
        return (member for member in first if member not in only)
    return (member for member in first if not any(member in view for view in views))


def _answer(client: Client, found: Iterator[bytes] | list[bytes]) -> bytes:
    return replies.set_of(list(map(replies.bulk, found)), client.resp)


# SINTER key [key ...]
@command(
    "SINTER",
    arity=-2,
    flags="readonly",
    categories="set",
    keys=_READ,
    tips=("nondeterministic_output_order",),
    since="1.0.0",
    group="set",
    complexity=(
        "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    ),
    summary="Returns the members that all sets have.",
    arguments=syntax.SINTER,
)
def sinter(client: Client, args: list[bytes]) -> bytes:
    """A set; empty if any key is missing."""
    return _answer(client, _intersection(_operands(client, args[1:])))


# SINTERSTORE destination key [key ...]
@command(
    "SINTERSTORE",
    arity=-3,
    flags="write denyoom",
    categories="set",
    keys=_STORE,
    since="1.0.0",
    group="set",
    complexity=(
        "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    ),
    summary="Stores the members that all sets have as another set.",
    arguments=syntax.SINTERSTORE,
)
def sinterstore(client: Client, args: list[bytes]) -> bytes:
    """How many members it has."""
    return store_result(
        client, args, args[1], Set(_intersection(_operands(client, args[2:]))), events.SET, b"sinterstore"
    )


# SUNION key [key ...]
@command(
    "SUNION",
    arity=-2,
    flags="readonly",
    categories="set",
    keys=_READ,
    tips=("nondeterministic_output_order",),
    since="1.0.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Returns the members that any of the sets has.",
    arguments=syntax.SUNION,
)
def sunion(client: Client, args: list[bytes]) -> bytes:
    """A set."""
    return _answer(client, _union(_operands(client, args[1:])))


# SUNIONSTORE destination key [key ...]
@command(
    "SUNIONSTORE",
    arity=-3,
    flags="write denyoom",
    categories="set",
    keys=_STORE,
    since="1.0.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Stores the members that any of the sets has as another set.",
    arguments=syntax.SUNIONSTORE,
)
def sunionstore(client: Client, args: list[bytes]) -> bytes:
    """How many members it has."""
    return store_result(
        client, args, args[1], Set(_union(_operands(client, args[2:]))), events.SET, b"sunionstore"
    )


# SDIFF key [key ...]
@command(
    "SDIFF",
    arity=-2,
    flags="readonly",
    categories="set",
    keys=_READ,
    tips=("nondeterministic_output_order",),
    since="1.0.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Returns the members of the first set that no other set has.",
    arguments=syntax.SDIFF,
)
def sdiff(client: Client, args: list[bytes]) -> bytes:
    """A set."""
    return _answer(client, _difference(_operands(client, args[1:])))


# SDIFFSTORE destination key [key ...]
@command(
    "SDIFFSTORE",
    arity=-3,
    flags="write denyoom",
    categories="set",
    keys=_STORE,
    since="1.0.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Stores the members of the first set that no other set has as another set.",
    arguments=syntax.SDIFFSTORE,
)
def sdiffstore(client: Client, args: list[bytes]) -> bytes:
    """How many members it has."""
    return store_result(
        client, args, args[1], Set(_difference(_operands(client, args[2:]))), events.SET, b"sdiffstore"
    )


class _Counted:
    """The arguments of S*CARD: ``numkeys key ... [LIMIT limit]`` and perhaps ``[APPROX]``."""

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

    def answer(self, found: Iterator[bytes]) -> bytes:
        """How many there are, counted no further than the limit."""
        return replies.integer(sum(1 for _ in islice(found, self.limit or None)))


# SINTERCARD numkeys key [key ...] [LIMIT limit]
@command(
    "SINTERCARD",
    arity=-3,
    flags="readonly movablekeys",
    categories="set",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),),
    since="7.0.0",
    group="set",
    complexity=(
        "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
    ),
    summary="Counts the members that all sets have.",
    arguments=syntax.SINTERCARD,
)
def sintercard(client: Client, args: list[bytes]) -> bytes:
    """How many, at most LIMIT."""
    asked = _Counted(args)
    return asked.answer(_intersection(_operands(client, asked.names)))


# SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]
@command(
    "SUNIONCARD",
    arity=-3,
    flags="readonly movablekeys",
    categories="set",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),),
    since="8.10.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Counts the members that any of the sets has.",
    arguments=syntax.SUNIONCARD,
)
def sunioncard(client: Client, args: list[bytes]) -> bytes:
    """How many, at most LIMIT; with APPROX as a HyperLogLog estimates it."""
    asked = _Counted(args, may_approximate=True)
    operands = _operands(client, asked.names)
    if not asked.approximate:
        return asked.answer(iter(_union(operands)))
    count = estimate(registers_of(member for each in operands for member in each or ()))
    return replies.integer(min(count, asked.limit) if asked.limit else count)


# SDIFFCARD numkeys key [key ...] [LIMIT limit]
@command(
    "SDIFFCARD",
    arity=-3,
    flags="readonly movablekeys",
    categories="set",
    keys=(KeySpec(("RO", "access"), ("index", 1), ("keynum", 0, 1, 1)),),
    since="8.10.0",
    group="set",
    complexity="O(N) where N is the total number of elements in all given sets.",
    summary="Counts the members of the first set that no other set has.",
    arguments=syntax.SDIFFCARD,
)
def sdiffcard(client: Client, args: list[bytes]) -> bytes:
    """How many, at most LIMIT."""
    asked = _Counted(args)
    return asked.answer(_difference(_operands(client, asked.names)))
