"""Describe the streams of an RDB base, or of a RESTORE payload, as the rows that would create them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ....storage.codecs.streams import STREAM_TYPES
from ....storage.keyspace.keyspace import Keyspace
from ....storage.loading import RdbError
from ....storage.rdb import ByteSource, load_rdb, restore_value
from ....storage.streams.ids import encode
from ....storage.streams.iteration import ids_from
from ....storage.streams.stream import Stream
from .. import schema as on
from ..errors import LedgerError

if TYPE_CHECKING:
    from ..schema import Row

_DATABASES: Final = 1 << 14  # more than any server is configured with
# Details of entries found pending, with and without their message.
FOUND: Final = b"FOUND"
GONE: Final = b"GONE"


def base_streams(source: ByteSource) -> Iterator[tuple[int, bytes, Stream]]:
    """Yield (database, key, stream) for all streams of an RDB file, and consume its bytes.

    Raises LedgerError: the file is damaged.
    """
    keyspace = Keyspace(_DATABASES)
    keyspace.expiring = False
    try:
        for _ in load_rdb(source, keyspace, skip_unknown=True, sanitize=True):
            pass
    except RdbError as error:
        raise LedgerError(f"the RDB base can not be read: {error}") from error
    for database in keyspace.databases:
        for key, value in database.entries.items():
            if isinstance(value, Stream):
                yield database.index, key, value


def restored_stream(payload: bytes) -> Stream | None:
    """Return the stream in a RESTORE payload; None if it holds another type.

    Raises LedgerError: the payload is damaged.
    """
    if payload[:1] and payload[0] not in STREAM_TYPES:
        return None
    try:
        value = restore_value(payload)
    except RdbError as error:
        raise LedgerError(f"the payload of a RESTORE can not be read: {error}") from error
    assert isinstance(value, Stream)
    return value


def stream_rows(db: int, key: bytes, clock: int | None, stream: Stream) -> Iterator[Row]:
    """Yield the rows of one stream: its entries, its groups and their pending entries."""
    for number in ids_from(stream, 0):
        ms = b"%d" % (number >> 64)
        yield db, key, None, encode(number), None, on.ADDED, ms, None, None, clock, None
    added = b"%d" % stream.entries_added
    yield db, key, None, None, None, on.STREAM_SET, None, added, encode(stream.last_id), clock, None
    for name, group in stream.groups.items():
        read = b"%d" % (-1 if group.entries_read is None else group.entries_read)
        yield db, key, name, None, None, on.GROUP_CREATED, None, read, encode(group.last_id), clock, None
        for consumer in group.consumers:
            yield db, key, name, None, consumer, on.CONSUMER_CREATED, None, None, None, clock, None
        for entry in group:
            detail = FOUND if stream.contains(entry.number) else GONE
            count = b"%d" % entry.count
            if entry.consumer is group.unowned:
                detail = b"FAIL FORCE " + detail
                yield db, key, name, entry.text, None, on.NACKED, None, count, None, clock, detail
            else:
                event, owner, ms = on.DELIVERED, entry.consumer.name, b"%d" % entry.ms
                if entry.count != 1:
                    event = on.CLAIMED
                yield db, key, name, entry.text, owner, event, ms, count, None, clock, detail
