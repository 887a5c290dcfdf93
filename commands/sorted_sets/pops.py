"""Take the lowest or highest members of sorted sets, and block until there are some.

A blocked command runs again when one of its keys becomes a sorted set. In every case the server propagates the
equivalent command that never blocks and names one key.
"""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.sorted_set import SortedSet
from ..runtime.arguments import multiple_pop, parse_integer
from ..runtime.client import Client
from ..runtime.timeouts import parse_seconds, wait
from ..spec.command import handles
from . import specs
from .members import after_removal
from .scores import encode_items, encode_pair

_NEGATIVE: Final = b"ERR value is out of range, must be positive"
_LOWEST: Final = 0
_HIGHEST: Final = -1


def _take(client: Client, name: bytes, value: SortedSet, place: int, count: int) -> list[tuple[float, bytes]]:
    """Take up to ``count`` members from one end, with all effects except propagation."""
    items = [value.pop(place) for _ in range(min(count, len(value)))]
    after_removal(client, name, value, b"zpopmin" if place == _LOWEST else b"zpopmax", len(items))
    return items


def _name(place: int) -> bytes:
    return b"ZPOPMIN" if place == _LOWEST else b"ZPOPMAX"


@handles(specs.ZPOPMIN, place=_LOWEST)
@handles(specs.ZPOPMAX, place=_HIGHEST)
def zpopmin(client: Client, args: list[bytes], *, place: int) -> bytes:
    """Remove the members with the lowest (ZPOPMAX: highest) scores; reply with member and score.

    With a count the reply is an array of pairs in RESP3, a flat array in RESP2.
    """
    if len(args) > 3:
        raise ReplyError(SYNTAX)
    count = 1
    if len(args) == 3:
        count = parse_integer(args[2], _NEGATIVE)
        if count < 0:
            raise ReplyError(_NEGATIVE)
    value = client.write_value(args[1], SortedSet)
    if value is None or not count:
        return replies.EMPTY_ARRAY
    items = _take(client, args[1], value, place, count)
    client.propagate(args)
    if len(args) == 2:
        return b"*2\r\n" + encode_pair(client, *items[0])
    return encode_items(client, items, with_scores=True)


def _take_of_first(
    client: Client, names: list[bytes], is_lowest: bool, count: int, lookups: int = 1
) -> bytes | None:
    """Take from the first existing sorted set and propagate; return the reply, None if none exists."""
    place = _LOWEST if is_lowest else _HIGHEST
    for name in names:
        value = client.write_value(name, SortedSet)
        if value is not None:
            if lookups > 1:
                client.db.write(name)  # as in ``bzpopmin``
            items = _take(client, name, value, place, count)
            client.propagate([_name(place), name, b"%d" % len(items)])
            pairs = [b"*2\r\n" + encode_pair(client, *item) for item in items]
            return b"*2\r\n" + replies.bulk(name) + replies.array(pairs)
    return None


@handles(specs.ZMPOP)
def zmpop(client: Client, args: list[bytes]) -> bytes:
    """Pop members from the first sorted set that exists; reply ``[key, [[member, score] ...]]``, or null."""
    reply = _take_of_first(client, *multiple_pop(args, 1, b"MIN", b"MAX"))
    return replies.null_array(client.resp) if reply is None else reply


@handles(specs.BZPOPMIN, place=_LOWEST)
@handles(specs.BZPOPMAX, place=_HIGHEST)
def bzpopmin(client: Client, args: list[bytes], *, place: int) -> bytes | None:
    """Pop a member from the first sorted set that has one, or block; reply with key, member and score, null on timeout."""
    timeout = parse_seconds(client, args[-1])
    names = args[1:-1]
    for name in names:
        value = client.write_value(name, SortedSet)
        if value is not None:
            client.db.write(name)  # Redis looks it up twice, which LFU counts
            (item,) = _take(client, name, value, place, 1)
            client.propagate([_name(place), name])
            return b"*3\r\n" + replies.bulk(name) + encode_pair(client, *item)
    return wait(client, names, timeout, args, SortedSet)


@handles(specs.BZMPOP)
def bzmpop(client: Client, args: list[bytes]) -> bytes | None:
    """Like ZMPOP, but block while no sorted set has members; reply null on timeout."""
    names, is_lowest, count = multiple_pop(args, 2, b"MIN", b"MAX")
    timeout = parse_seconds(client, args[1])
    reply = _take_of_first(client, names, is_lowest, count, lookups=2)
    if reply is not None:
        return reply
    return wait(client, names, timeout, args, SortedSet)
