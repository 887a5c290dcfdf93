"""Read, store and measure string values, for all string commands."""

from __future__ import annotations

from collections.abc import Callable
from io import SEEK_END, BytesIO
from typing import Final

from ...protocol.errors import WRONG_TYPE, ReplyError
from ...storage.collections.set import is_integer
from ...storage.collections.string import EMBEDDED, RAW
from ...storage.keyspace import notifications as events
from ...storage.value_types import Value
from ..runtime.client import Client

LARGE: Final = 16384  # bytes; below, a copy is cheaper than an object that writes in place
TOO_LONG: Final = b"ERR string exceeds maximum allowed size (proto-max-bulk-len)"


def read_string(client: Client, key: bytes) -> bytes | None:
    """Return the string at a key for a read, None if missing; raise WRONGTYPE for another type."""
    value = client.db.read(key)
    if value is None or type(value) is bytes:
        return value
    raise ReplyError(WRONG_TYPE)


def write_string(client: Client, key: bytes) -> bytes | None:
    """Return the string at a key for a change, None if missing; raise WRONGTYPE for another type."""
    value = client.db.write(key)
    if value is None or type(value) is bytes:
        return value
    raise ReplyError(WRONG_TYPE)


def check_length(client: Client, length: int) -> None:
    """Raise ReplyError if ``length`` (bytes) exceeds proto-max-bulk-len."""
    if length > client.server.config.proto_max_bulk_len:
        raise ReplyError(TOO_LONG)


def edited(client: Client, key: bytes, change: Callable[[BytesIO], object]) -> bytes:
    """Let ``change`` write into the string at a key and return the result, which the caller stores; a missing one is empty.

    Bytes that others hold never change, and bytes that nobody else holds are not copied: before it writes, a
    ``BytesIO`` copies its initial bytes only if there is another reference to them. So writing a byte into 16 MB takes
    2 us and appending one 14 us, not 3 ms, while snapshots, unsent replies and copies of the value stay unchanged.
    A caller that keeps a reference to the value forces a copy.
    """
    entries = client.db.entries
    value = entries.get(key)
    if type(value) is not bytes:
        buffer = BytesIO()
        change(buffer)
        return buffer.getvalue()
    entries[key] = b""  # replaces the reference
    buffer = BytesIO(value)
    del value
    try:
        change(buffer)
    finally:
        # Bytes that were hashed before they changed would keep that hash. A change of their length makes CPython forget it.
        end = buffer.seek(0, SEEK_END)
        buffer.write(b"\0")
        buffer.truncate(end)
        entries[key] = new = buffer.getvalue()
    return new


def written(client: Client, key: bytes, at: int, piece: bytes) -> bytes:
    """Return the string at a key with ``piece`` at the offset ``at`` (bytes), for the caller to store; zeros fill a gap.

    See ``edited`` for what is copied.
    """
    value = client.db.entries.get(key, b"")
    assert type(value) is bytes
    size = len(value)
    if size < LARGE:
        gap = bytes(at - size) if at > size else b""
        return b"".join((value[:at], gap, piece, value[at + len(piece) :]))
    del value

    def change(buffer: BytesIO) -> None:
        buffer.seek(at)
        buffer.write(piece)

    return edited(client, key, change)


def store_sum(client: Client, key: bytes, text: bytes) -> None:
    """Store the text of a sum (INCRBYFLOAT); the expiry stays. As in Redis, a whole number gets the encoding ``embstr``."""
    store(client, key, text, b"incrbyfloat", keep_ttl=True)
    if is_integer(text):
        client.db.encodings[key] = EMBEDDED


def store_changed(client: Client, key: bytes, value: bytes, event: bytes) -> None:
    """Store a string after a change in place, with the encoding ``raw``; the expiry stays."""
    store(client, key, value, event, keep_ttl=True)
    client.db.encodings[key] = RAW


def overwrite(
    client: Client, key: bytes, value: bytes, *, keep_ttl: bool = False, is_looked_up: bool = False
) -> None:
    """Store a string that replaces the value at a key (SET), with the event ``set``.

    This counts as an access to the key, unless ``is_looked_up``: the caller has looked it up for writing.
    """
    db = client.db
    before = db.peek(key) if is_looked_up else db.write(key)
    store(client, key, value, b"set", keep_ttl=keep_ttl, before=before)


def store(
    client: Client,
    key: bytes,
    value: bytes,
    event: bytes,
    *,
    keep_ttl: bool = False,
    before: Value | None = None,
) -> None:
    """Set a key to a string, signal watchers and subscribers (``event``), and count one change. The caller propagates.

    Args:
        event: the keyspace event, of class ``$``.
        keep_ttl: the expiry stays; else it is removed.
        before: the value that is replaced; None if there is none or if it is changed in place.
    """
    db = client.db
    keyspace = db.keyspace
    db.put(key, value, keep_ttl=keep_ttl)
    db.modified(key)
    if keyspace.notify_mask & (events.OVERWRITTEN | events.TYPE_CHANGED):
        db.notify_overwritten(key, before)
    keyspace.dirty += 1
    if keyspace.notify_mask & events.STRING:
        keyspace.notify(events.STRING, event, key, db)
