"""HINCRBYFLOAT, apart from HINCRBY: see ``commands/strings/incrbyfloat``."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, ReplyError
from ...storage.collections.hash import Hash
from ...storage.keyspace.field_expiry import find_field
from ..runtime import long_double
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .fields import present_hash
from .shared import changed, propagate_with_times


@handles(specs.HINCRBYFLOAT)
def hincrbyfloat(client: Client, args: list[bytes]) -> bytes:
    """Add to the number in a field; reply with the new number as a bulk string, the text that is stored.

    It is propagated as HSETEX KEEPTTL with that text; before 8.0 as HSET, unless that would end the field's time to live.
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
    value = present_hash(client, name, value)
    value.set(field, text, client.db.keyspace.limits, keep_time=True)
    changed(client, name, b"hincrbyfloat", [field])
    expires = value.times is not None and field in value.times.when
    if expires or client.server.compat.knows("8.0"):
        keeping = [b"HSETEX", name, b"KEEPTTL", b"FIELDS", b"1", field, text]
        propagate_with_times(client, keeping, value, [field, text])
    else:
        client.propagate([b"HSET", name, field, text])
    return replies.bulk(text)
