"""HIMPORT: create many hashes with the same fields. A connection sends the names once, as a fieldset."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ..runtime.client import Client
from ..spec.command import handles
from . import specs

_DUPLICATE: Final = b"ERR duplicate field name in fieldset"
_NO_FIELDSET: Final = b"ERR no such fieldset"
_WRONG_COUNT: Final = b"ERR value count does not match fieldset field count"


@handles(specs.HIMPORT_PREPARE)
def himport_prepare(client: Client, args: list[bytes]) -> bytes:
    """Store a fieldset, a named list of field names, for this connection; replace one of the same name.

    Reply OK. Refuse duplicate fields.
    """
    fields = args[3:]
    if len(set(fields)) != len(fields):
        raise ReplyError(_DUPLICATE)
    # Each field with the index of its value, in the order in which hashes are filled.
    order = sorted(range(len(fields)), key=lambda place: (len(fields[place]), fields[place]))
    if client.fieldsets is None:
        client.fieldsets = {}
    client.fieldsets[args[2]] = [(fields[place], place) for place in order]
    return replies.OK


@handles(specs.HIMPORT_SET)
def himport_set(client: Client, args: list[bytes]) -> bytes:
    """Store a hash with the fields of a fieldset and the given values, in place of any value; reply OK.

    It is propagated as HSET, after DEL if there was a hash.
    """
    name, values = args[2], args[4:]
    present = client.write_value(name, Hash)
    fieldset = (client.fieldsets or {}).get(args[3])
    if fieldset is None:
        raise ReplyError(_NO_FIELDSET)
    if len(values) != len(fieldset):
        raise ReplyError(_WRONG_COUNT)
    db = client.db
    made = Hash()
    limits = db.keyspace.limits
    made.expect(len(fieldset), limits)
    setting = [b"HSET", name]
    for field, place in fieldset:
        made.set(field, values[place], limits)
        setting += (field, values[place])
    db.overwrite(name, made, present, events.HASH, b"hset", setting[2::2])
    db.keyspace.dirty += 1
    if present is not None:
        client.propagate([b"DEL", name])
    client.propagate(setting)
    return replies.OK


@handles(specs.HIMPORT_DISCARD)
def himport_discard(client: Client, args: list[bytes]) -> bytes:
    """Forget a fieldset; reply 1, or 0 if there is none of that name."""
    found = client.fieldsets is not None and client.fieldsets.pop(args[2], None) is not None
    return replies.integer(found)


@handles(specs.HIMPORT_DISCARDALL)
def himport_discardall(client: Client, _args: list[bytes]) -> bytes:
    """Forget all fieldsets of this connection; reply with their number."""
    count = len(client.fieldsets or ())
    client.fieldsets = None
    return replies.integer(count)
