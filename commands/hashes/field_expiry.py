"""Times to live of hash fields: HEXPIRE, HTTL and their variants, HPERSIST."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.collections.hash import Hash
from ...storage.keyspace.field_expiry import drop, is_due, let_expire
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade, where_known_of_many
from ..spec.command import handles
from . import specs
from .shared import FIELD_TIMES_SINCE, changed, remove_if_empty

_LATEST: Final = (1 << 46) - 1  # milliseconds; as Redis, which needs the other bits
_INT_MAX: Final = (1 << 31) - 1
_CONDITIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT"))
_MISPLACED: Final = b"ERR Mandatory argument FIELDS is missing or not at the right position"
_BAD_NUMBER: Final = b"ERR Number of fields must be a positive integer"
_NOT_POSITIVE: Final = b"ERR Parameter `numFields` should be greater than 0"
_NO_FIELD: Final = replies.integer(-2)
_NO_TIME: Final = replies.integer(-1)
_GONE: Final = replies.integer(2)


def parse_time(word: bytes, command_name: str, base: int, *, seconds: bool) -> int:
    """Return when a field expires, in Unix milliseconds.

    Raises ReplyError: the amount is not a number, is negative or too large.

    Args:
        word: the amount, not negative.
        command_name: lower case, for the error.
        base: the time from which the amount counts, in milliseconds; 0 if it is absolute.
        seconds: the amount's unit; else milliseconds.
    """
    amount = parse_integer(word)
    if amount < 0:
        raise ReplyError(b"ERR invalid expire time, must be >= 0")
    if seconds:
        amount *= 1000
    if amount > _LATEST - base:
        raise ReplyError(b"ERR invalid expire time in '%b' command" % command_name.encode())
    return amount + base


def is_past(client: Client, when: int) -> bool:
    """Return True if a field with this expiry (Unix ms) must be deleted now; False on a replica, whose master does that."""
    keyspace = client.db.keyspace
    return when <= keyspace.now and keyspace.drops_expired


def parse_fields(words: list[bytes], at: int = 2, error: bytes = _BAD_NUMBER) -> list[bytes]:
    """Return the fields of ``FIELDS numfields field [field ...]``, which must be all words from ``words[at]`` on.

    Raises ReplyError: FIELDS is missing, or the number is wrong; with ``error`` as its text if it is not positive.
    """
    if words[at].upper() != b"FIELDS":
        raise ReplyError(_MISPLACED)
    count = parse_integer(words[at + 1], error)
    if count < 1:
        raise ReplyError(error)
    if count != len(words) - at - 2:
        raise ReplyError(b"ERR The `numfields` parameter must match the number of arguments")
    return words[at + 2 :]


def _parse_conditions(words: list[bytes]) -> tuple[bytes, list[bytes], int]:
    """Parse ``[NX | XX | GT | LT] FIELDS numfields field [field ...]`` in any order.

    Return the condition (or nothing), the fields, and the index of FIELDS.
    """
    conditions: set[bytes] = set()
    fields: list[bytes] = []
    fields_at = 0
    options = Arguments(words, 3)
    while options:
        word = options.next()
        option = word.upper()
        if option in _CONDITIONS:
            conditions.add(option)
        elif option != b"FIELDS":
            raise ReplyError(b"ERR unknown argument: %b" % shown(word))
        elif fields:
            raise ReplyError(b"ERR FIELDS keyword specified multiple times")
        elif options.remaining < 2:
            raise ReplyError(b"ERR FIELDS requires at least numfields and one field argument")
        else:
            count = options.integer(_NOT_POSITIVE)
            if not 1 <= count <= _INT_MAX:
                raise ReplyError(_NOT_POSITIVE)
            if count > options.remaining:
                raise ReplyError(b"ERR wrong number of arguments")
            fields_at = len(words) - options.remaining - 2
            fields = [options.next() for _ in range(count)]
    if not fields:
        raise ReplyError(b"ERR missing FIELDS argument")
    if len(conditions) > 1:
        raise ReplyError(b"ERR Multiple condition flags specified")
    return (conditions.pop() if conditions else b""), fields, fields_at


def _parse_conditions_8_2(words: list[bytes]) -> tuple[bytes, list[bytes], int]:
    """Parse as before 8.6: at most one condition, then the fields up to the end."""
    condition = words[3].upper()
    if condition not in _CONDITIONS:
        return b"", parse_fields(words, 3, _NOT_POSITIVE), 3
    return condition, parse_fields(words, 4, _NOT_POSITIVE), 4


def _allows(condition: bytes, present: int | None, when: int) -> bool:
    """Return True if a condition allows a new time; a field without a time counts as never expiring."""
    if present is None:
        return condition not in {b"XX", b"GT"}
    if condition == b"GT":
        return when > present
    if condition == b"LT":
        return when < present
    return condition != b"NX"


@handles(specs.HEXPIRE, command_name="hexpire", seconds=True, relative=True)
@handles(specs.HPEXPIRE, command_name="hpexpire", seconds=False, relative=True)
@handles(specs.HEXPIREAT, command_name="hexpireat", seconds=True, relative=False)
@handles(specs.HPEXPIREAT, command_name="hpexpireat", seconds=False, relative=False)
def expire(client: Client, args: list[bytes], *, command_name: str, seconds: bool, relative: bool) -> bytes:
    """Set when fields expire. Reply for each 1 if it was set, 2 if the field was deleted because the time is past.

    The reply is 0 if the condition failed, and -2 if the field is missing.
    """
    name = args[1]
    value = client.write_value(name, Hash)
    base = client.db.keyspace.now if relative else 0
    when = parse_time(args[2], command_name, base, seconds=seconds)
    parse = _parse_conditions if client.server.compat.takes_fields_anywhere else _parse_conditions_8_2
    condition, fields, at = parse(args)
    if value is None:
        return replies.array([_NO_FIELD] * len(fields))
    value.prepare_times()
    updated: list[bytes] = []
    deleted: list[bytes] = []
    answers: list[bytes] = []
    for field in fields:
        if field not in value.fields:  # an expired field that still exists gets a new time
            answers.append(_NO_FIELD)
        elif not _allows(condition, None if value.times is None else value.times.when.get(field), when):
            answers.append(replies.ZERO)
        elif is_past(client, when):
            drop(client.db, name, value, field)
            deleted.append(field)
            answers.append(_GONE)
        else:
            let_expire(client.db, name, value, field, when)
            updated.append(field)
            answers.append(replies.ONE)
    if deleted or updated:
        changed(client, name, b"hdel" if deleted else b"hexpire", deleted or updated)
    remove_if_empty(client, name, value)
    if updated:
        # Redis replaces words in place, so the other words are propagated as sent.
        before, after = args[3 : at + 1], args[at + 2 + len(fields) :]
        propagate_times(client, [b"HPEXPIREAT", name, b"%d" % when, *before], updated, after)
    return replies.array(answers)


def propagate_times(client: Client, before: list[bytes], fields: list[bytes], after: list[bytes]) -> None:
    """Propagate new or removed expiries of fields; replicas without field expiry receive only the deletions.

    Args:
        before: the words of the command up to FIELDS.
        after: the words after the fields.
    """
    older = where_known_of_many(before, fields, after) if needs_downgrade(client, FIELD_TIMES_SINCE) else None
    client.propagate_with_downgrade([*before, b"%d" % len(fields), *fields, *after], older)


@handles(specs.HTTL, seconds=True, remaining=True)
@handles(specs.HPTTL, seconds=False, remaining=True)
@handles(specs.HEXPIRETIME, seconds=True, remaining=False)
@handles(specs.HPEXPIRETIME, seconds=False, remaining=False)
def times_of(client: Client, args: list[bytes], *, seconds: bool, remaining: bool) -> bytes:
    """Reply for each field when it expires: seconds, rounded up, or milliseconds; -1 without expiry, -2 if it is missing."""
    value = client.read_value(args[1], Hash)
    fields = parse_fields(args)
    if value is None:
        return replies.array([_NO_FIELD] * len(fields))
    keyspace = client.db.keyspace
    answers: list[bytes] = []
    for field in fields:
        when = None if value.times is None else value.times.when.get(field)
        if field not in value.fields or is_due(value, field, keyspace):
            answers.append(_NO_FIELD)
        elif when is None:
            answers.append(_NO_TIME)
        else:
            left = when - keyspace.now if remaining else when
            answers.append(replies.integer((left + 999) // 1000 if seconds else left))
    return replies.array(answers)


@handles(specs.HPERSIST)
def hpersist(client: Client, args: list[bytes]) -> bytes:
    """Remove the expiry of fields; reply for each 1, -1 if it had none, -2 if it is missing."""
    name = args[1]
    value = client.write_value(name, Hash)
    fields = parse_fields(args)
    if value is None:
        return replies.array([_NO_FIELD] * len(fields))
    keyspace = client.db.keyspace
    answers: list[bytes] = []
    persisted: list[bytes] = []
    for field in fields:
        if field not in value.fields or is_due(value, field, keyspace):
            answers.append(_NO_FIELD)
        elif value.persist(field):
            persisted.append(field)
            answers.append(replies.ONE)
        else:
            answers.append(_NO_TIME)
    if persisted:
        changed(client, name, b"hpersist", persisted, event_first=True)
        keyspace.dirty -= len(persisted) - 1  # one change, however many fields
        propagate_times(client, args[:3], fields, [])
    return replies.array(answers)
