"""Hashes: set, get, count and delete fields, and fields as numbers."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import WRONG_TYPE, ReplyError, wrong_arity
from ...storage.collections.hash import Hash
from ...storage.keyspace.field_expiry import due_fields, find_field
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import FieldLookups, changed, make_hash


def _set_fields(client: Client, args: list[bytes], command_name: str) -> int:
    """Set the fields from the third word on; return the number of new fields."""
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


@handles(specs.HSET)
def hset(client: Client, args: list[bytes]) -> bytes:
    """Set fields and reply with the number of new ones; the set fields lose their expiry."""
    return replies.integer(_set_fields(client, args, "hset"))


@handles(specs.HMSET)
def hmset(client: Client, args: list[bytes]) -> bytes:
    """Set fields like HSET, but reply OK."""
    _set_fields(client, args, "hmset")
    return replies.OK


@handles(specs.HSETNX)
def hsetnx(client: Client, args: list[bytes]) -> bytes:
    """Set a field of a hash if it is missing; reply 1 if it was set, else 0."""
    name = args[1]
    value = client.write_value(name, Hash)
    if value is not None and find_field(client.db, name, value, args[2]) is not None:
        return replies.ZERO
    present_hash(client, name, value).set(args[2], args[3], client.db.keyspace.limits)
    changed(client, name, b"hset", [args[2]])
    client.propagate(args)
    return replies.ONE


def present_hash(client: Client, name: bytes, value: Hash | None) -> Hash:
    """Return the hash to write into, or a new one if there is none or its last field has just expired."""
    return value if value is not None and value.fields else make_hash(client, name)


@handles(specs.HGET)
def hget(client: Client, args: list[bytes]) -> bytes:
    """Reply with the value of a field, or null."""
    value = client.db.read(args[1])
    if value is None:
        return replies.null(client.resp)
    if type(value) is not Hash:
        raise ReplyError(WRONG_TYPE)
    content = (
        value.fields.get(args[2]) if value.times is None else find_field(client.db, args[1], value, args[2])
    )
    return replies.null(client.resp) if content is None else b"$%d\r\n%b\r\n" % (len(content), content)


@handles(specs.HMGET)
def hmget(client: Client, args: list[bytes]) -> bytes:
    """Reply with the values of the named fields in order, null for a missing field."""
    value = client.read_value(args[1], Hash)
    null = replies.null(client.resp)
    if value is None:
        return replies.array([null] * (len(args) - 2))
    if value.times is None:
        found = [value.fields.get(field) for field in args[2:]]
    else:
        lookups = FieldLookups(client, args[1], value)
        found = [lookups.find(field) for field in args[2:]]
        lookups.finish(names_last=client.db.keyspace.names_last_expired)
    return replies.array([null if content is None else replies.bulk(content) for content in found])


def _visible(client: Client, name: bytes) -> dict[bytes, bytes]:
    """Return the fields of a hash that have not expired."""
    value = client.read_value(name, Hash)
    if value is None:
        return {}
    due = due_fields(value, client.db.keyspace)
    if not due:
        return value.fields
    return {field: content for field, content in value.fields.items() if field not in due}


@handles(specs.HGETALL)
def hgetall(client: Client, args: list[bytes]) -> bytes:
    """Reply with all fields and values of a hash, as a map."""
    fields = _visible(client, args[1])
    return replies.map_header(len(fields), client.resp) + b"".join(
        [b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(text), text) for name, text in fields.items()]
    )


@handles(specs.HKEYS)
def hkeys(client: Client, args: list[bytes]) -> bytes:
    """Reply with all fields of a hash, without their values."""
    return replies.bulk_array(_visible(client, args[1]))


@handles(specs.HVALS)
def hvals(client: Client, args: list[bytes]) -> bytes:
    """Reply with all values of a hash, without their fields."""
    return replies.bulk_array(_visible(client, args[1]).values())


@handles(specs.HLEN)
def hlen(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of fields of a hash, including expired ones that are not deleted yet."""
    value = client.read_value(args[1], Hash)
    return replies.ZERO if value is None else replies.integer(len(value.fields))


@handles(specs.HEXISTS)
def hexists(client: Client, args: list[bytes]) -> bytes:
    """Reply 1 if the hash has the field, else 0."""
    value = client.read_value(args[1], Hash)
    if value is None or find_field(client.db, args[1], value, args[2]) is None:
        return replies.ZERO
    return replies.ONE


@handles(specs.HSTRLEN)
def hstrlen(client: Client, args: list[bytes]) -> bytes:
    """Reply with the length of a field's value in bytes; 0 for a missing field."""
    value = client.read_value(args[1], Hash)
    content = None if value is None else find_field(client.db, args[1], value, args[2])
    return replies.integer(len(content or b""))


@handles(specs.HDEL)
def hdel(client: Client, args: list[bytes]) -> bytes:
    """Delete fields of a hash; reply with the number of deleted ones."""
    name = args[1]
    value = client.write_value(name, Hash)
    if value is None:
        return replies.ZERO
    deleted = [field for field in args[2:] if value.discard(field)]
    if deleted:
        if not value.fields:
            client.db.remove(name)
        changed(client, name, b"hdel", deleted)
        client.propagate(args)
    return replies.integer(len(deleted))


@handles(specs.HINCRBY)
def hincrby(client: Client, args: list[bytes]) -> bytes:
    """Add to the number in a field and reply with the new number; the expiry of the field stays."""
    name, field = args[1], args[2]
    amount = parse_integer(args[3])
    value = client.write_value(name, Hash)
    content = None if value is None else find_field(client.db, name, value, field)
    number = 0 if content is None else parse_integer(content, b"ERR hash value is not an integer")
    number += amount
    if not INT64_MIN <= number <= INT64_MAX:
        raise ReplyError(b"ERR increment or decrement would overflow")
    value = present_hash(client, name, value)
    value.set(field, b"%d" % number, client.db.keyspace.limits, keep_time=True)
    changed(client, name, b"hincrby", [field])
    client.propagate(args)
    return replies.integer(number)
