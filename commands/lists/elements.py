"""Elements of lists: at both ends, by index and by value; LMPOP takes from the first of several lists."""

from __future__ import annotations

from itertools import islice
from typing import Final

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, SYNTAX, WRONG_TYPE, ReplyError, wrong_arity
from ...storage.collections.list import List
from ...storage.keyspace import notifications as events
from ..runtime.arguments import INT64_MIN, Arguments, multiple_pop, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import after_removal, pop, pop_many, pop_of_first, push

_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"
_NO_INDEX: Final = b"ERR index out of range"
_OUT_OF_RANGE: Final = (
    b"ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
)
_RANK_ZERO: Final = (
    b"ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
    b"or use negative to start from the end of the list"
)
_NEGATIVE_COUNT: Final = b"ERR COUNT can't be negative"
_NEGATIVE_MAXLEN: Final = b"ERR MAXLEN can't be negative"


@handles(specs.LPUSH, left=True)
@handles(specs.RPUSH, left=False)
@handles(specs.LPUSHX, left=True, must_exist=True)
@handles(specs.RPUSHX, left=False, must_exist=True)
def lpush(client: Client, args: list[bytes], *, left: bool, must_exist: bool = False) -> bytes:
    """Add elements to a list and reply with its new length; 0 if the list must exist and is missing (LPUSHX).

    LPUSH adds one after the other, so the last argument becomes the first element.
    """
    name = args[1]
    value = client.db.write(name)
    if value is None:
        if must_exist:
            return replies.ZERO
    elif type(value) is not List:
        raise ReplyError(WRONG_TYPE)
    value = push(client, name, value, args[2:], left=left)
    client.db.keyspace.dirty += len(args) - 2
    client.propagate(args)
    return replies.integer(len(value))


@handles(specs.LPOP, left=True)
@handles(specs.RPOP, left=False)
def lpop(client: Client, args: list[bytes], *, left: bool) -> bytes:
    """Handle LPOP (``left``) and RPOP: remove elements from that end and reply with them.

    The reply is one element; with a count, an array in the order of removal; null if the list is missing.
    """
    name = args[1]
    if len(args) == 2:
        value = client.write_value(name, List)
        if value is None:
            return replies.null(client.resp)
        element = pop(client, name, value, left=left)
        client.propagate(args)
        return replies.bulk(element)
    if len(args) > 3:
        raise wrong_arity("lpop" if left else "rpop")
    count = parse_integer(args[2], _NOT_POSITIVE)
    if count < 0:
        raise ReplyError(_NOT_POSITIVE)
    value = client.write_value(name, List)
    if value is None:
        return replies.null_array(client.resp)
    if not count:
        return replies.EMPTY_ARRAY
    elements = pop_many(client, name, value, count, left=left)
    client.propagate(args)
    return replies.bulk_array(elements)


@handles(specs.LMPOP)
def lmpop(client: Client, args: list[bytes]) -> bytes:
    """Pop elements from the first list that exists; reply ``[key, [elements]]``, or null."""
    reply = pop_of_first(client, *multiple_pop(args, 1, b"LEFT", b"RIGHT"))
    return replies.null_array(client.resp) if reply is None else reply


@handles(specs.LLEN)
def llen(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of elements; 0 without a list."""
    value = client.read_value(args[1], List)
    return replies.ZERO if value is None else replies.integer(len(value))


def _bounds(first: int, last: int, length: int) -> tuple[int, int]:
    """Convert indices of Redis, negative ones from the end, to a Python range; may be empty, never reversed."""
    if first < 0:
        first = max(first + length, 0)
    if last < 0:
        last += length
    stop = min(last + 1, length)
    return (first, stop) if first < stop else (0, 0)


@handles(specs.LRANGE)
def lrange(client: Client, args: list[bytes]) -> bytes:
    """Reply with the elements; both indices are included, negative ones count from the end."""
    first, last = parse_integer(args[2]), parse_integer(args[3])
    value = client.read_value(args[1], List)
    if value is None:
        return replies.EMPTY_ARRAY
    return replies.bulk_array(value.slice(*_bounds(first, last, len(value))))


@handles(specs.LINDEX)
def lindex(client: Client, args: list[bytes]) -> bytes:
    """Reply with the element at an index, null if there is none; without a list the index is not parsed."""
    value = client.read_value(args[1], List)
    if value is None:
        return replies.null(client.resp)
    index = parse_integer(args[2])
    length = len(value)
    if not -length <= index < length:
        return replies.null(client.resp)
    return replies.bulk(value.at(index if index >= 0 else index + length))


@handles(specs.LSET)
def lset(client: Client, args: list[bytes]) -> bytes:
    """Replace the element at an index and reply OK; refuse an index without an element."""
    db = client.db
    value = client.write_value(args[1], List)
    if value is None:
        raise ReplyError(NO_SUCH_KEY)
    index = parse_integer(args[2])
    if client.server.compat.wraps_lset_index:
        index = (index + (1 << 31)) % (1 << 32) - (1 << 31)
    limit = db.keyspace.limits.list_max_listpack_size
    value.expect(args[3:], limit)
    length = len(value)
    if not -length <= index < length:
        raise ReplyError(_NO_INDEX)
    value.put(index if index >= 0 else index + length, args[3], limit)
    value.shrunk(limit)
    db.modified(args[1])
    db.keyspace.notify(events.LIST, b"lset", args[1], db)
    db.keyspace.dirty += 1
    client.propagate(args)
    return replies.OK


@handles(specs.LINSERT)
def linsert(client: Client, args: list[bytes]) -> bytes:
    """Insert an element before or after a pivot; reply with the new length, -1 if the pivot is missing, 0 without a list."""
    where = args[2].upper()
    if where not in {b"BEFORE", b"AFTER"}:
        raise ReplyError(SYNTAX)
    db = client.db
    value = client.write_value(args[1], List)
    if value is None:
        return replies.ZERO
    limit = db.keyspace.limits.list_max_listpack_size
    value.expect(args[4:], limit)
    index = next(value.find(args[3]), None)
    if index is None:
        return replies.integer(-1)
    value.insert(index + (where == b"AFTER"), args[4], limit)
    db.modified(args[1])
    if client.server.compat.present_lists_wake:
        db.signal_ready(args[1])
    db.keyspace.notify(events.LIST, b"linsert", args[1], db)
    db.keyspace.dirty += 1
    client.propagate(args)
    return replies.integer(len(value))


@handles(specs.LREM)
def lrem(client: Client, args: list[bytes]) -> bytes:
    """Remove elements that equal a value; reply with their number.

    ``count`` is the most to remove, from the start or, if negative, from the end; 0 removes all.
    """
    count = parse_integer(args[2])
    if count == INT64_MIN and client.server.compat.refuses_minimum_list_counts:
        raise ReplyError(_OUT_OF_RANGE)
    value = client.write_value(args[1], List)
    if value is None:
        return replies.ZERO
    found = list(islice(value.find(args[3], backwards=count < 0), min(abs(count), len(value)) or None))
    if not found:
        return replies.ZERO
    value.remove(found if count >= 0 else found[::-1])
    event_first = not client.server.compat.signals_before_events
    after_removal(client, args[1], value, b"lrem", len(found), event_first=event_first)
    client.propagate(args)
    return replies.integer(len(found))


@handles(specs.LTRIM)
def ltrim(client: Client, args: list[bytes]) -> bytes:
    """Keep only a range of elements, both indices inclusive, and reply OK; the event is sent even if nothing is removed."""
    first, last = parse_integer(args[2]), parse_integer(args[3])
    value = client.write_value(args[1], List)
    if value is None:
        return replies.OK
    length = len(value)
    value.keep(*_bounds(first, last, length))
    removed = length - len(value)
    after_removal(client, args[1], value, b"ltrim", removed)
    if removed:
        client.propagate(args)
    return replies.OK


@handles(specs.LPOS)
def lpos(client: Client, args: list[bytes]) -> bytes:
    """Reply with the index of the first element that equals a value, or null; with COUNT an array of indices.

    RANK skips matches; a negative one searches from the end.
    """
    rank, count, most = 1, None, 0
    arguments = Arguments(args, 3)
    while arguments:
        option = arguments.option()
        if option == b"RANK":
            rank = arguments.integer()
            if rank == INT64_MIN:
                if client.server.compat.refuses_minimum_list_counts:
                    raise ReplyError(_OUT_OF_RANGE)
                rank = -1  # how 7.0 treats it
            if rank == 0:
                raise ReplyError(_RANK_ZERO)
        elif option == b"COUNT":
            count = arguments.integer(_NEGATIVE_COUNT)
            if count < 0:
                raise ReplyError(_NEGATIVE_COUNT)
        elif option == b"MAXLEN":
            most = arguments.integer(_NEGATIVE_MAXLEN)
            if most < 0:
                raise ReplyError(_NEGATIVE_MAXLEN)
        else:
            raise ReplyError(SYNTAX)
    value = client.read_value(args[1], List)
    if value is None:
        return replies.null(client.resp) if count is None else replies.EMPTY_ARRAY
    found = value.find(args[2], backwards=rank < 0, within=most)
    skipped = min(abs(rank) - 1, len(value))
    if count is None:
        index = next(islice(found, skipped, None), None)
        return replies.null(client.resp) if index is None else replies.integer(index)
    stop = skipped + min(count, len(value)) if count else None
    return replies.array([replies.integer(index) for index in islice(found, skipped, stop)])
