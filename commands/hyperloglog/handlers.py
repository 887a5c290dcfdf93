"""HyperLogLog: approximate counts of distinct elements, kept in strings (``storage/collections/hyperloglog``)."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.collections.hyperloglog import (
    CorruptError,
    HyperLogLog,
    NotHyperLogLogError,
    estimate,
    highest,
)
from ...storage.collections.string import RAW
from ...storage.keyspace import notifications as events
from ..runtime.client import Client
from ..spec.command import handles
from ..strings.shared import read_string, write_string
from . import specs

_NOT_ONE: Final = b"WRONGTYPE Key is not a valid HyperLogLog string value."
_CORRUPT: Final = b"INVALIDOBJ Corrupted HLL object detected"


def _open(client: Client, data: bytes | None) -> HyperLogLog:
    try:
        return HyperLogLog.opened(data, client.server.config.hll_sparse_max_bytes)
    except NotHyperLogLogError as error:
        raise ReplyError(_NOT_ONE) from error


def _registers(client: Client, name: bytes) -> tuple[bytearray, bool] | None:
    """Return the registers of a counter, and whether it is dense; None if the key is missing."""
    data = read_string(client, name)
    if data is None:
        return None
    counter = _open(client, data)
    found = counter.registers(), counter.is_dense
    counter.close()
    return found


def _store(client: Client, name: bytes, counter: HyperLogLog, changes: int) -> None:
    """Store the counter, keep the expiry of the key, and signal the change."""
    db = client.db
    db.put(name, counter.close(), keep_ttl=True)
    db.encodings[name] = RAW
    db.modified(name)
    db.keyspace.notify(events.STRING, b"pfadd", name, db)
    db.keyspace.dirty += changes


@handles(specs.PFADD)
def pfadd(client: Client, args: list[bytes]) -> bytes:
    """Add elements to a HyperLogLog; reply 1 if it was created or its registers changed, else 0."""
    data = write_string(client, args[1])
    counter = _open(client, data)
    if data is not None:
        client.db.encodings[args[1]] = RAW  # as in Redis, whether it changes or not
    try:
        changes = (data is None) + sum([counter.add(element) for element in args[2:]])
    except CorruptError as error:
        raise ReplyError(_CORRUPT) from error
    if not changes:
        counter.close()
        return replies.ZERO
    counter.forget_count()
    _store(client, args[1], counter, changes)
    client.propagate(args)
    return replies.ONE


@handles(specs.PFCOUNT)
def pfcount(client: Client, args: list[bytes]) -> bytes:
    """Reply with the estimated number of distinct elements of one HyperLogLog, or of the union of several.

    The estimate of a single one is cached in its string, which changes the key.
    """
    name = args[1]
    try:
        if len(args) > 2:
            found = [found for each in args[1:] if (found := _registers(client, each)) is not None]
            return replies.integer(estimate(highest([each for each, _ in found])) if found else 0)
        data = read_string(client, name)
        if data is None:
            return replies.ZERO
        counter = _open(client, data)
        client.db.encodings[name] = RAW  # as in Redis, even where the count is known
        known = counter.known_count()
        if known is not None:
            counter.close()
            return replies.integer(known)
        count = counter.count()
    except CorruptError as error:
        raise ReplyError(_CORRUPT) from error
    db = client.db
    db.put(name, counter.close(), keep_ttl=True)
    db.encodings[name] = RAW
    db.modified(name)
    db.keyspace.dirty += 1
    client.propagate(args)
    return replies.integer(count)


@handles(specs.PFMERGE)
def pfmerge(client: Client, args: list[bytes]) -> bytes:
    """Merge HyperLogLogs into the first key; reply OK."""
    try:
        found = [found for name in args[1:] if (found := _registers(client, name)) is not None]
        counter = _open(client, write_string(client, args[1]))
        if any(is_dense for _, is_dense in found):
            counter.become_dense()
        if found:
            counter.set_all(highest([each for each, _ in found]))
    except CorruptError as error:
        raise ReplyError(_CORRUPT) from error
    counter.forget_count()
    _store(client, args[1], counter, 1)
    client.propagate(args)
    return replies.OK
