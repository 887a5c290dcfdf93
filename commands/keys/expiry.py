"""Times to live: EXPIRE, TTL and their variants, PERSIST; and helpers for other commands that set an expiry."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.keyspace import notifications as events
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .lifecycle import delete


def _invalid_time(command_name: str) -> ReplyError:
    return ReplyError(b"ERR invalid expire time in '%b' command" % command_name.encode())


def _absolute(amount: int, command_name: str, base: int, *, seconds: bool) -> int:
    """Return an absolute time in milliseconds; refuse overflow of Redis' 64-bit arithmetic."""
    if seconds:
        # Redis divides towards zero.
        if not -(-INT64_MIN // 1000) <= amount <= INT64_MAX // 1000:
            raise _invalid_time(command_name)
        amount *= 1000
    if amount > INT64_MAX - base:
        raise _invalid_time(command_name)
    return amount + base


# The units of the expiry in SET, GETEX and other commands.
TIME_UNITS: Final = frozenset((b"EX", b"PX", b"EXAT", b"PXAT"))


def checked_time_in(unit: bytes, word: bytes, command_name: str, now: int) -> int:
    """Like ``checked_time``, but for an amount after ``unit``, one of TIME_UNITS; EX and PX count from ``now``."""
    base = now if unit in {b"EX", b"PX"} else 0
    return checked_time(word, command_name, base, seconds=unit.startswith(b"EX"))


def checked_time(word: bytes, command_name: str, base: int, *, seconds: bool) -> int:
    """Parse the amount of an expiry for SET or GETEX; return the absolute expiry in Unix milliseconds.

    Raises ReplyError: the amount is not a number, is not positive or too large.

    Args:
        word: the amount, which must be positive.
        command_name: lower case, for the error.
        base: the time from which the amount counts, in milliseconds; 0 if it is absolute.
        seconds: the amount's unit; else milliseconds.
    """
    amount = parse_integer(word)
    if amount <= 0:
        raise _invalid_time(command_name)
    return _absolute(amount, command_name, base, seconds=seconds)


def set_expiry(client: Client, name: bytes, when: int) -> None:
    """Set the expiry of a key (Unix ms), signal watchers and subscribers, and count one change. The caller propagates."""
    db = client.db
    db.give_expiry(name, when)
    db.modified(name)
    db.keyspace.notify(events.GENERIC, b"expire", name, db)
    db.keyspace.dirty += 1


def delete_expired(client: Client, name: bytes, when: int) -> bool:
    """Delete a key if its new expiry (Unix ms) is already past, and propagate that; return True if it was deleted.

    Do nothing while a file is loaded, nor on a replica: there keys are deleted after the load, or by the master.
    """
    keyspace = client.db.keyspace
    if when > keyspace.now or not keyspace.drops_expired:
        return False
    delete(client, name)
    client.propagate([b"UNLINK" if client.server.config.lazyfree_lazy_expire else b"DEL", name])
    return True


def discard_expired(client: Client, name: bytes, when: int, *, overwrites: bool) -> bool:
    """Since 8.8, delete a key instead of storing a value whose expiry (Unix ms) is already past; return True if so.

    The value counts as expired even if there was no key. Propagate DEL or UNLINK by lazyfree-lazy-server-del if the
    command ``overwrites`` the key, else by lazyfree-lazy-expire.
    """
    db, server = client.db, client.server
    if when > db.keyspace.now or not db.keyspace.drops_expired or not server.compat.discards_expired_values:
        return False
    if db.write(name) is not None:
        delete(client, name)
        config = server.config
        lazy = config.lazyfree_lazy_server_del if overwrites else config.lazyfree_lazy_expire
        client.propagate([b"UNLINK" if lazy else b"DEL", name])
    db.keyspace.expired += 1
    return True


_CONDITIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT"))


def _parse_conditions(words: list[bytes]) -> set[bytes]:
    conditions: set[bytes] = set()
    for word in words:
        condition = word.upper()
        if condition not in _CONDITIONS:
            raise ReplyError(b"ERR Unsupported option %b" % shown(word))
        conditions.add(condition)
    if b"NX" in conditions and len(conditions) > 1:
        raise ReplyError(b"ERR NX and XX, GT or LT options at the same time are not compatible")
    if b"GT" in conditions and b"LT" in conditions:
        raise ReplyError(b"ERR GT and LT options at the same time are not compatible")
    return conditions


def _allows(conditions: set[bytes], present: int | None, when: int) -> bool:
    """Return True if the conditions allow a new expiry; a key without an expiry counts as never expiring."""
    if present is None:
        return not conditions & {b"XX", b"GT"}
    if b"NX" in conditions or (b"GT" in conditions and when <= present):
        return False
    return b"LT" not in conditions or when < present


@handles(specs.EXPIRE, command_name="expire", seconds=True, relative=True)
@handles(specs.PEXPIRE, command_name="pexpire", seconds=False, relative=True)
@handles(specs.EXPIREAT, command_name="expireat", seconds=True, relative=False)
@handles(specs.PEXPIREAT, command_name="pexpireat", seconds=False, relative=False)
def expire(client: Client, args: list[bytes], *, command_name: str, seconds: bool, relative: bool) -> bytes:
    """Set the expiry of a key, or delete the key if that is past.

    Reply 1, or 0 if the key is missing or a condition fails.
    """
    conditions = _parse_conditions(args[3:])
    base = client.db.keyspace.now if relative else 0
    when = _absolute(parse_integer(args[2]), command_name, base, seconds=seconds)
    name = args[1]
    if client.db.write(name) is None:
        return replies.ZERO
    if not _allows(conditions, client.db.expires.get(name), when):
        return replies.ZERO
    if not delete_expired(client, name, when):
        set_expiry(client, name, when)
        client.propagate([b"PEXPIREAT", name, b"%d" % when, *args[3:]])
    return replies.ONE


_NO_KEY: Final = replies.integer(-2)
_NO_EXPIRY: Final = replies.integer(-1)


@handles(specs.TTL, seconds=True, remaining=True)
@handles(specs.PTTL, seconds=False, remaining=True)
@handles(specs.EXPIRETIME, seconds=True, remaining=False)
@handles(specs.PEXPIRETIME, seconds=False, remaining=False)
def time_of(client: Client, args: list[bytes], *, seconds: bool, remaining: bool) -> bytes:
    """Reply when a key expires: seconds, rounded to the nearest, or milliseconds; -1 without expiry, -2 if it is missing."""
    if client.db.look(args[1]) is None:
        return _NO_KEY
    when = client.db.expires.get(args[1])
    if when is None:
        return _NO_EXPIRY
    if remaining:
        when = max(when - client.db.keyspace.now, 0)
    return replies.integer((when + 500) // 1000 if seconds else when)


@handles(specs.PERSIST)
def persist(client: Client, args: list[bytes]) -> bytes:
    """Remove the expiry of a key; reply 1, or 0 if it had none."""
    if client.db.write(args[1]) is None or not make_persistent(client, args[1]):
        return replies.ZERO
    client.propagate(args)
    return replies.ONE


def make_persistent(client: Client, name: bytes) -> bool:
    """Remove the expiry of a key, signal watchers and subscribers, and count one change; return False if it had none.

    The caller propagates.
    """
    db = client.db
    if not db.clear_expiry(name):
        return False
    db.modified(name)
    db.keyspace.notify(events.GENERIC, b"persist", name, db)
    db.keyspace.dirty += 1
    return True
