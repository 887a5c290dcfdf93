"""Hashes: setting, getting, counting and deleting fields, and fields as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, WRONG_TYPE, ReplyError, wrong_arity
from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import due_fields, find_field
from ..runtime import long_double
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_integer
from ..runtime.client import needs_older
from ..spec.command import command
from ..spec.key_specs import key
from . import specs as syntax
from .shared import Looks, changed, make_hash

if TYPE_CHECKING:
    from ..runtime.client import Client

_ACCESSED: Final = (key(1, "RO access"),)
_SEEN: Final = (key(1, "RO"),)
_UPDATED: Final = (key(1, "RW update"),)
_CHANGED: Final = (key(1, "RW access update"),)
_ALL: Final = "O(N) where N is the size of the hash."
_UNORDERED: Final = ("nondeterministic_output_order",)
FIELD_TIMES_SINCE: Final = (7, 4)


def _set_fields(client: Client, args: list[bytes], command_name: str) -> int:
    """Set the fields that the words from the third on name; returns how many are new."""
    if len(args) % 2:
        raise wrong_arity(command_name)
    db = client.db
    name = args[1]
    value = db.write(name)
    if value is None:
        value = make_hash(client, name)
    elif type(value) is not Hash:
        raise ReplyError(WRONG_TYPE)
    limits = db.keyspace.limits
    if len(args) == 4:
        created = int(value.set(args[2], args[3], limits))
    else:
        value.expect((len(args) - 2) // 2, limits)
        created = sum([value.set(args[at], args[at + 1], limits) for at in range(2, len(args), 2)])
    changed(client, name, b"hset", args[2::2])
    if client.server.propagation.active:
        client.propagate(args)
    return created


# HSET key field value [field value ...]
@command(
    "HSET",
    arity=-4,
    flags="write denyoom fast",
    categories="hash",
    keys=_UPDATED,
    since="2.0.0",
    group="hash",
    complexity=(
        "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with "
        "multiple field/value pairs."
    ),
    summary="Sets fields of a hash; makes the hash if it is missing.",
    history=syntax.HSET_HISTORY,
    arguments=syntax.HSET,
)
def hset(client: Client, args: list[bytes]) -> bytes:
    """How many of the fields are new; those that expire live for ever again."""
    return replies.integer(_set_fields(client, args, "hset"))


# HMSET key field value [field value ...]
@command(
    "HMSET",
    arity=-4,
    flags="write denyoom fast",
    categories="hash",
    keys=_UPDATED,
    since="2.0.0",
    group="hash",
    complexity="O(N) where N is the number of fields being set.",
    summary="Sets fields of a hash; makes the hash if it is missing.",
    arguments=syntax.HMSET,
    doc_flags="deprecated",
    deprecated_since="4.0.0",
    replaced_by="`HSET` with multiple field-value pairs",
)
def hmset(client: Client, args: list[bytes]) -> bytes:
    """As HSET, but answers OK."""
    _set_fields(client, args, "hmset")
    return replies.OK


# HSETNX key field value
@command(
    "HSETNX",
    arity=4,
    flags="write denyoom fast",
    categories="hash",
    keys=(key(1, "RW insert"),),
    since="2.0.0",
    group="hash",
    complexity="O(1)",
    summary="Sets a field of a hash if the field is missing.",
    arguments=syntax.HSETNX,
)
def hsetnx(client: Client, args: list[bytes]) -> bytes:
    """1 if it was set, else 0."""
    name = args[1]
    value = client.write_value(name, Hash)
    if value is not None and find_field(client.db, name, value, args[2]) is not None:
        return replies.ZERO
    _present(client, name, value).set(args[2], args[3], client.db.keyspace.limits)
    changed(client, name, b"hset", [args[2]])
    client.propagate(args)
    return replies.ONE


def _present(client: Client, name: bytes, value: Hash | None) -> Hash:
    """The hash, or a new one if there is none (any more: its last field may just have expired)."""
    return value if value is not None and value.fields else make_hash(client, name)


# HGET key field
@command(
    "HGET",
    arity=3,
    flags="readonly fast",
    categories="hash",
    keys=_ACCESSED,
    since="2.0.0",
    group="hash",
    complexity="O(1)",
    summary="Returns the value of a field of a hash.",
    arguments=syntax.HGET,
)
def hget(client: Client, args: list[bytes]) -> bytes:
    """The value, or null."""
    value = client.db.read(args[1])
    if value is None:
        return replies.null(client.resp)
    if type(value) is not Hash:
        raise ReplyError(WRONG_TYPE)
    content = (
        value.fields.get(args[2]) if value.times is None else find_field(client.db, args[1], value, args[2])
    )
    return replies.null(client.resp) if content is None else b"$%d\r\n%b\r\n" % (len(content), content)


# HMGET key field [field ...]
@command(
    "HMGET",
    arity=-3,
    flags="readonly fast",
    categories="hash",
    keys=_ACCESSED,
    since="2.0.0",
    group="hash",
    complexity="O(N) where N is the number of fields being requested.",
    summary="Returns the values of fields of a hash.",
    arguments=syntax.HMGET,
)
def hmget(client: Client, args: list[bytes]) -> bytes:
    """The values in order, null for a missing field."""
    value = client.read_value(args[1], Hash)
    null = replies.null(client.resp)
    if value is None:
        return replies.array([null] * (len(args) - 2))
    if value.times is None:
        found = [value.fields.get(field) for field in args[2:]]
    else:
        looks = Looks(client, args[1], value)
        found = [looks.find(field) for field in args[2:]]
        looks.finish()
    return replies.array([null if content is None else replies.bulk(content) for content in found])


def _visible(client: Client, name: bytes) -> dict[bytes, bytes]:
    """The fields of a hash that are not past their time."""
    value = client.read_value(name, Hash)
    if value is None:
        return {}
    due = due_fields(value, client.db.keyspace)
    if not due:
        return value.fields
    return {field: content for field, content in value.fields.items() if field not in due}


# HGETALL key
@command(
    "HGETALL",
    arity=2,
    flags="readonly",
    categories="hash",
    keys=_ACCESSED,
    tips=_UNORDERED,
    since="2.0.0",
    group="hash",
    complexity=_ALL,
    summary="Returns all fields of a hash with their values.",
    arguments=syntax.HGETALL,
)
def hgetall(client: Client, args: list[bytes]) -> bytes:
    """A map of field to value."""
    fields = _visible(client, args[1])
    return replies.map_header(len(fields), client.resp) + b"".join(
        [b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(text), text) for name, text in fields.items()]
    )


# HKEYS key
@command(
    "HKEYS",
    arity=2,
    flags="readonly",
    categories="hash",
    keys=_ACCESSED,
    tips=_UNORDERED,
    since="2.0.0",
    group="hash",
    complexity=_ALL,
    summary="Returns all fields of a hash.",
    arguments=syntax.HKEYS,
)
def hkeys(client: Client, args: list[bytes]) -> bytes:
    """The fields without their values."""
    return replies.bulk_array(_visible(client, args[1]))


# HVALS key
@command(
    "HVALS",
    arity=2,
    flags="readonly",
    categories="hash",
    keys=_ACCESSED,
    tips=_UNORDERED,
    since="2.0.0",
    group="hash",
    complexity=_ALL,
    summary="Returns all values of a hash.",
    arguments=syntax.HVALS,
)
def hvals(client: Client, args: list[bytes]) -> bytes:
    """The values without their fields."""
    return replies.bulk_array(_visible(client, args[1]).values())


# HLEN key
@command(
    "HLEN",
    arity=2,
    flags="readonly fast",
    categories="hash",
    keys=_SEEN,
    since="2.0.0",
    group="hash",
    complexity="O(1)",
    summary="Returns the number of fields of a hash.",
    arguments=syntax.HLEN,
)
def hlen(client: Client, args: list[bytes]) -> bytes:
    """How many there are, those past their time but not yet noticed among them."""
    value = client.read_value(args[1], Hash)
    return replies.ZERO if value is None else replies.integer(len(value.fields))


# HEXISTS key field
@command(
    "HEXISTS",
    arity=3,
    flags="readonly fast",
    categories="hash",
    keys=_SEEN,
    since="2.0.0",
    group="hash",
    complexity="O(1)",
    summary="Tells whether a hash has a field.",
    arguments=syntax.HEXISTS,
)
def hexists(client: Client, args: list[bytes]) -> bytes:
    """1 or 0."""
    value = client.read_value(args[1], Hash)
    if value is None or find_field(client.db, args[1], value, args[2]) is None:
        return replies.ZERO
    return replies.ONE


# HSTRLEN key field
@command(
    "HSTRLEN",
    arity=3,
    flags="readonly fast",
    categories="hash",
    keys=_SEEN,
    since="3.2.0",
    group="hash",
    complexity="O(1)",
    summary="Returns the length of the value of a field of a hash.",
    arguments=syntax.HSTRLEN,
)
def hstrlen(client: Client, args: list[bytes]) -> bytes:
    """Bytes; 0 for a missing field."""
    value = client.read_value(args[1], Hash)
    content = None if value is None else find_field(client.db, args[1], value, args[2])
    return replies.integer(len(content or b""))


# HDEL key field [field ...]
@command(
    "HDEL",
    arity=-3,
    flags="write fast",
    categories="hash",
    keys=(key(1, "RW delete"),),
    since="2.0.0",
    group="hash",
    complexity="O(N) where N is the number of fields to be removed.",
    summary="Deletes fields of a hash, and the hash with the last of them.",
    history=syntax.HDEL_HISTORY,
    arguments=syntax.HDEL,
)
def hdel(client: Client, args: list[bytes]) -> bytes:
    """How many there were."""
    name = args[1]
    value = client.write_value(name, Hash)
    if value is None:
        return replies.ZERO
    deleted = [field for field in args[2:] if value.discard(field)]
    if deleted:
        if not value.fields:
            client.db.remove(name)
        changed(client, name, b"hdel", deleted)
        if not value.fields:
            client.db.keyspace.notify(events.GENERIC, b"del", name, client.db)
        client.propagate(args)
    return replies.integer(len(deleted))


# HINCRBY key field increment
@command(
    "HINCRBY",
    arity=4,
    flags="write denyoom fast",
    categories="hash",
    keys=_CHANGED,
    since="2.0.0",
    group="hash",
    complexity="O(1)",
    summary="Adds to the integer in a field of a hash; makes hash and field if they are missing.",
    arguments=syntax.HINCRBY,
)
def hincrby(client: Client, args: list[bytes]) -> bytes:
    """The new number; the field expires when it did before."""
    name, field = args[1], args[2]
    amount = parse_integer(args[3])
    value = client.write_value(name, Hash)
    content = None if value is None else find_field(client.db, name, value, field)
    number = 0 if content is None else parse_integer(content, b"ERR hash value is not an integer")
    number += amount
    if not INT64_MIN <= number <= INT64_MAX:
        raise ReplyError(b"ERR increment or decrement would overflow")
    value = _present(client, name, value)
    value.set(field, b"%d" % number, client.db.keyspace.limits, keep_time=True)
    changed(client, name, b"hincrby", [field])
    client.propagate(args)
    return replies.integer(number)


# HINCRBYFLOAT key field increment
@command(
    "HINCRBYFLOAT",
    arity=4,
    flags="write denyoom fast",
    categories="hash",
    keys=_CHANGED,
    since="2.6.0",
    group="hash",
    complexity="O(1)",
    summary="Adds to the floating point number in a field of a hash; makes hash and field if they are missing.",
    arguments=syntax.HINCRBYFLOAT,
)
def hincrbyfloat(client: Client, args: list[bytes]) -> bytes:
    """The new number as a bulk string, also what is stored.

    Propagated as HSET of that text; where that would end the field's time to live, as HSETEX KEEPTTL.
    """
    name, field = args[1], args[2]
    try:
        amount = long_double.parse(args[3])
    except ValueError as error:
        raise ReplyError(NOT_A_FLOAT) from error
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR value is NaN or Infinity") from error
    value = client.write_value(name, Hash)
    content = None if value is None else find_field(client.db, name, value, field)
    try:
        present = long_double.parse(b"0" if content is None else content)
    except ValueError as error:
        raise ReplyError(b"ERR hash value is not a float") from error
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR increment would produce NaN or Infinity") from error
    try:
        text = long_double.format_fixed(long_double.add(present, amount))
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR increment would produce NaN or Infinity") from error
    value = _present(client, name, value)
    value.set(field, text, client.db.keyspace.limits, keep_time=True)
    changed(client, name, b"hincrbyfloat", [field])
    setting = [b"HSET", name, field, text]
    if value.times is not None and field in value.times.when:
        older = [setting] if needs_older(client, FIELD_TIMES_SINCE) else None
        client.propagate_with_older([b"HSETEX", name, b"KEEPTTL", b"FIELDS", b"1", field, text], older)
    else:
        client.propagate(setting)
    return replies.bulk(text)
