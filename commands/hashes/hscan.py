"""Iterate over hashes and sample them: HSCAN, HRANDFIELD."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.hash import TABLE, Hash
from ...storage.keyspace.field_expiry import drop_all_due, due_fields
from ..keys.element_scan import EMPTY, ScanOptions, page
from ..keys.scan import parse_cursor
from ..runtime.arguments import INT64_MAX, parse_integer
from ..runtime.client import Client
from ..runtime.repetitions import OUT_OF_RANGE, repeated
from ..spec.command import handles
from . import specs

_FEW: Final = 3  # for a sample of less than one field in so many, pick at random until enough are found


@handles(specs.HSCAN)
def hscan(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[next cursor, [field, value ...]]``; a small hash is returned in one call."""
    cursor = parse_cursor(client, args[2])
    value = client.read_value(args[1], Hash)
    if value is None:
        return EMPTY
    options = ScanOptions(args, novalues=True if client.server.compat.knows("7.4") else None)
    found: Sequence[bytes]
    if value.encoding is TABLE:
        cursor, found = value.order().page(cursor, options.count)
    else:
        cursor, found = 0, list(value.fields)
    matches, due = options.matches, due_fields(value, client.db.keyspace)
    if matches is not None:
        found = [field for field in found if matches(field)]
    if due:
        found = [field for field in found if field not in due]
    if not options.names_only:
        found = [word for field in found for word in (field, value.fields[field])]
    return page(cursor, found)


@handles(specs.HRANDFIELD)
def hrandfield(client: Client, args: list[bytes]) -> bytes:
    """Reply with a random field, null for a missing key; with a count, with an array of several distinct ones.

    With a negative count fields may repeat.
    """
    if len(args) == 2:
        value = _without_due(client, args[1])
        return replies.null(client.resp) if value is None else replies.bulk(_pick(value))
    count = parse_integer(args[2])
    if count < -INT64_MAX:
        raise ReplyError(b"ERR value is out of range, value must between -%d and %d" % (INT64_MAX, INT64_MAX))
    with_values = len(args) == 4 and args[3].upper() == b"WITHVALUES"
    if len(args) > 3 and not with_values:
        raise ReplyError(SYNTAX)
    if with_values and abs(count) > INT64_MAX // 2:
        raise ReplyError(OUT_OF_RANGE)
    value = _without_due(client, args[1])
    if value is None:
        return replies.EMPTY_ARRAY
    contents = value.fields

    def encoded(field: bytes) -> bytes:
        if not with_values:
            return replies.bulk(field)
        pair = replies.bulk(field) + replies.bulk(contents[field])
        return b"*2\r\n" + pair if client.resp == 3 else pair

    if count >= 0:
        items = list(map(encoded, _sample(value, count)))
    else:
        items = repeated(
            client, -count, len(contents), lambda: encoded(_pick(value)), lambda: map(encoded, contents)
        )
    number = 2 * len(items) if with_values and client.resp == 2 else len(items)
    return replies.array_header(number) + b"".join(items)


def _without_due(client: Client, name: bytes) -> Hash | None:
    """Return the hash without expired fields, None if none is left; a replica keeps and may return them."""
    value = client.read_value(name, Hash)
    if value is not None and value.times is not None:
        drop_all_due(client.db, name, value)
    return value if value is not None and value.fields else None


def _pick(value: Hash) -> bytes:
    return value.order().random()


def _sample(value: Hash, count: int) -> Sequence[bytes]:
    """Return ``count`` distinct fields, or all if there are fewer."""
    fields = value.fields
    if count >= len(fields):
        return list(fields)
    if count * _FEW > len(fields):
        return random.sample(list(fields), count)
    found: dict[bytes, None] = {}
    while len(found) < count:
        found[_pick(value)] = None
    return list(found)
