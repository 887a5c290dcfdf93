"""Add elements, and signal additions and removals, for all list commands."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError
from ...storage.collections.list import List
from ...storage.keyspace import notifications as events
from ..runtime.client import Client


def parse_side(word: bytes) -> bool:
    """Return True for LEFT, False for RIGHT; raise ReplyError for another word."""
    side = word.upper()
    if side == b"LEFT":
        return True
    if side == b"RIGHT":
        return False
    raise ReplyError(SYNTAX)


def push(client: Client, key: bytes, value: List | None, elements: Sequence[bytes], *, left: bool) -> List:
    """Add elements at one end of a list and return the list; signal watchers, subscribers and blocked clients.

    Args:
        value: the list at the key; None: create one.
        left: add at the start.
    """
    db = client.db
    keyspace = db.keyspace
    limit = keyspace.limits.list_max_listpack_size
    if value is None:
        value = List()
        db.add(key, value)
    elif db.awaited and client.server.compat.present_lists_wake:
        db.signal_ready(key)  # for clients that wait for more elements than there were
    if left:
        value.push_left(elements, limit)
    else:
        value.push_right(elements, limit)
    db.modified(key)
    if keyspace.notify_mask:
        keyspace.notify(events.LIST, b"lpush" if left else b"rpush", key, db)
    return value


def after_removal(
    client: Client, key: bytes, value: List, event: bytes, count: int, *, event_first: bool = True
) -> None:
    """After ``count`` elements were removed, send the event, delete the key of an empty list and count the changes.

    Clients that track the key hear of the change after the events, or before them.
    """
    db = client.db
    if value:
        value.shrunk(db.keyspace.limits.list_max_listpack_size)
    else:
        db.remove(key)
    db.announce(key, events.LIST, event, event_first=event_first)
    db.keyspace.dirty += count


def pop(client: Client, key: bytes, value: List, *, left: bool) -> bytes:
    """Remove and return the element at one end, with all effects except propagation."""
    element = value.pop_left() if left else value.pop_right()
    after_removal(client, key, value, b"lpop" if left else b"rpop", 1)
    return element


def take(value: List, count: int, *, left: bool) -> list[bytes]:
    """Remove ``count`` elements from one end, without other effects; return them in the order of the list.

    So many elements must exist.
    """
    length = len(value)
    if left:
        elements = value.slice(0, count)
        value.keep(count, length)
    else:
        elements = value.slice(length - count, length)
        value.keep(0, length - count)
    return elements


def pop_many(client: Client, key: bytes, value: List, count: int, *, left: bool) -> list[bytes]:
    """Remove up to ``count`` elements from one end and return them in the order of removal, without propagation."""
    count = min(count, len(value))
    elements = take(value, count, left=left)
    if not left:
        elements.reverse()
    after_removal(client, key, value, b"lpop" if left else b"rpop", count)
    return elements


def pop_command(key: bytes, count: int | None, *, left: bool) -> list[bytes]:
    """Return the LPOP or RPOP to propagate after elements were removed; ``count`` None: without a count."""
    words = [b"LPOP" if left else b"RPOP", key]
    return words if count is None else [*words, b"%d" % count]


def move(client: Client, source: bytes, target: bytes, *, from_left: bool, to_left: bool) -> bytes | None:
    """Move one element between lists, without propagation; return the encoded element, None if the source is missing.

    Raises ReplyError: WRONGTYPE for the source or the target.
    """
    taken = client.write_value(source, List)
    if taken is None:
        return None
    given = client.db.write(target)
    if given is not None and type(given) is not List:
        raise ReplyError(WRONG_TYPE)
    element = taken.pop_left() if from_left else taken.pop_right()
    push(client, target, given, (element,), left=to_left)
    after_removal(client, source, taken, b"lpop" if from_left else b"rpop", 1)
    return replies.bulk(element)


def pop_of_first(client: Client, keys: list[bytes], left: bool, count: int) -> bytes | None:
    """Remove up to ``count`` elements from the first list that exists, and propagate that.

    Return the encoded reply ``[key, [elements]]``, None if no list exists.
    """
    for key in keys:
        value = client.write_value(key, List)
        if value is not None:
            elements = pop_many(client, key, value, count, left=left)
            client.propagate(pop_command(key, len(elements), left=left))
            return b"*2\r\n" + replies.bulk(key) + replies.bulk_array(elements)
    return None
