"""Members of sets: add, remove, look up, choose at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, WRONG_TYPE, ReplyError
from ...storage.collections.set import Set
from ...storage.keyspace import notifications as events
from ..runtime.arguments import INT64_MIN, parse_integer
from ..runtime.client import Client
from ..runtime.repetitions import repeated
from ..spec.command import handles
from . import specs

_NEGATIVE: Final = b"ERR value is out of range, must be positive"
_NOT_A_RANGE: Final = (
    b"ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
)
_A_REMOVAL: Final = 1024  # members of one propagated SREM


def remove_if_empty(client: Client, name: bytes, members: Set) -> None:
    """Delete the key of a set that has no members left, and send the event ``del``."""
    if not members:
        client.db.remove(name)
        client.db.keyspace.notify(events.GENERIC, b"del", name, client.db)


@handles(specs.SADD)
def sadd(client: Client, args: list[bytes]) -> bytes:
    """Add members to a set; reply with the number of new ones."""
    name = args[1]
    db = client.db
    keyspace = db.keyspace
    limits = keyspace.limits
    members = db.write(name)
    if members is None:
        members = Set.for_first(args[2], len(args) - 2, limits)
        db.add(name, members)
    elif type(members) is not Set:
        raise ReplyError(WRONG_TYPE)
    else:
        members.expect(len(args) - 2, limits)
    if len(args) == 3:
        added = int(members.add(args[2], limits))
    else:
        added = sum([members.add(member, limits) for member in args[2:]])
    if added:
        db.modified(name)
        if keyspace.notify_mask:
            keyspace.notify(events.SET, b"sadd", name, db)
        keyspace.dirty += added
        client.propagate(args)
    return replies.integer(added)


@handles(specs.SREM)
def srem(client: Client, args: list[bytes]) -> bytes:
    """Remove members from a set; reply with the number of removed ones."""
    name = args[1]
    members = client.write_value(name, Set)
    if members is None:
        return replies.ZERO
    removed = sum([members.discard(member) for member in args[2:]])
    if removed:
        _removed(client, name, members, b"srem", removed)
        client.propagate(args)
    return replies.integer(removed)


def _removed(client: Client, name: bytes, members: Set, event: bytes, count: int) -> None:
    """Signal the removal of members, and delete the key if no member is left."""
    db = client.db
    db.modified(name)
    db.keyspace.notify(events.SET, event, name, db)
    remove_if_empty(client, name, members)
    db.keyspace.dirty += count


@handles(specs.SMOVE)
def smove(client: Client, args: list[bytes]) -> bytes:
    """Move a member between sets; reply 1, or 0 if the source lacks it."""
    source, target, member = args[1:]
    db = client.db
    keyspace = db.keyspace
    members = db.write(source)
    others = db.write(target)
    if members is None:
        return replies.ZERO
    if type(members) is not Set or (others is not None and type(others) is not Set):
        raise ReplyError(WRONG_TYPE)
    if members is others:
        return replies.ONE if member in members.members else replies.ZERO
    if not members.discard(member):
        return replies.ZERO
    keyspace.notify(events.SET, b"srem", source, db)
    remove_if_empty(client, source, members)
    if others is None:
        others = Set.for_first(member, 1, keyspace.limits)
        db.add(target, others)
    db.modified(source)
    keyspace.dirty += 1
    if others.add(member, keyspace.limits):
        keyspace.dirty += 1
        db.modified(target)
        keyspace.notify(events.SET, b"sadd", target, db)
    client.propagate(args)
    return replies.ONE


@handles(specs.SISMEMBER)
def sismember(client: Client, args: list[bytes]) -> bytes:
    """Reply 1 if the set has the member, else 0."""
    members = client.read_value(args[1], Set)
    return replies.ZERO if members is None or args[2] not in members.members else replies.ONE


@handles(specs.SMISMEMBER)
def smismember(client: Client, args: list[bytes]) -> bytes:
    """Reply with an array of 1 or 0 for each member."""
    value = client.read_value(args[1], Set)
    members = {} if value is None else value.members
    return replies.array([replies.ONE if member in members else replies.ZERO for member in args[2:]])


@handles(specs.SCARD)
def scard(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of members of a set; 0 for a missing key."""
    members = client.read_value(args[1], Set)
    return replies.ZERO if members is None else replies.integer(len(members))


@handles(specs.SMEMBERS)
def smembers(client: Client, args: list[bytes]) -> bytes:
    """Reply with all members, as a set (an array in RESP2)."""
    members = client.read_value(args[1], Set)
    return _bulks(members or (), client.resp)


def _bulks(members: Set | Sequence[bytes], resp: int) -> bytes:
    return replies.set_of([b"$%d\r\n%b\r\n" % (len(member), member) for member in members], resp)


@handles(specs.SPOP)
def spop(client: Client, args: list[bytes]) -> bytes:
    """Remove a random member and reply with it, or null; with a count, remove several and reply with a set."""
    if len(args) > 2:
        return _pop_many(client, args)
    members = client.write_value(args[1], Set)
    if members is None:
        return replies.null(client.resp)
    member = members.random()
    members.discard(member)
    _pop_effects(client, args[1], members, 1)
    client.propagate([b"SREM", args[1], member])
    return replies.bulk(member)


def _pop_effects(client: Client, name: bytes, members: Set, count: int) -> None:
    """Signal a removal like ``_removed``, but signal watchers last."""
    db = client.db
    db.keyspace.notify(events.SET, b"spop", name, db)
    remove_if_empty(client, name, members)
    db.modified(name)
    db.keyspace.dirty += count


def _pop_many(client: Client, args: list[bytes]) -> bytes:
    if len(args) > 3:
        raise ReplyError(SYNTAX)
    name = args[1]
    count = parse_integer(args[2], _NEGATIVE)
    if count < 0:
        raise ReplyError(_NEGATIVE)
    members = client.write_value(name, Set)
    if members is None or not count:
        return replies.set_header(0, client.resp)
    if count >= len(members):
        popped = list(members)
        client.db.read_again(name, members)  # Redis replies with the union of this one set
        members.members.clear()
        _pop_effects(client, name, members, len(popped))
        lazy = client.server.config.lazyfree_lazy_server_del and client.server.compat.knows("7.2")
        client.propagate([b"UNLINK" if lazy else b"DEL", name])
        return _bulks(popped, client.resp)
    popped = members.sample(count)
    for member in popped:
        members.discard(member)
    _pop_effects(client, name, members, count)
    for start in range(0, count, _A_REMOVAL):
        client.propagate([b"SREM", name, *popped[start : start + _A_REMOVAL]])
    return _bulks(popped, client.resp)


@handles(specs.SRANDMEMBER)
def srandmember(client: Client, args: list[bytes]) -> bytes:
    """Reply with a random member of a set or null; with a count, with several distinct ones.

    With a negative count members may repeat.
    """
    if len(args) > 3:
        raise ReplyError(SYNTAX)
    if len(args) == 2:
        members = client.read_value(args[1], Set)
        return replies.null(client.resp) if members is None else replies.bulk(members.random())
    count = parse_integer(args[2])
    if count == INT64_MIN:
        raise ReplyError(_NOT_A_RANGE)
    members = client.read_value(args[1], Set)
    if members is None or not count:
        return replies.EMPTY_ARRAY
    if count >= len(members):
        return replies.bulk_array(members)
    if count > 0:
        return replies.bulk_array(members.sample(count))
    chosen = repeated(
        client,
        -count,
        len(members),
        lambda: replies.bulk(members.random()),
        lambda: map(replies.bulk, members),
    )
    return replies.array(chosen)
