"""Write RDB: whole keyspaces as files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..codecs.codec import Writing
from ..codecs.crc64 import crc64
from ..codecs.encoding import encode_length, encode_string
from ..value_types import TYPES, Value, ValueType
from .opcodes import AUX, END, EXPIRE_MS, FREQUENCY, FUNCTION, IDLE, RESIZE, SELECT

if TYPE_CHECKING:
    from ..keyspace.keyspace import Keyspace
    from .rillet_only_data import Unsaid

VERSION: Final = 11
_FIRST_WITH_LIBRARIES: Final = 10
_DELAY_STEP: Final = 10_000  # microseconds
_PIECE: Final = 1 << 16  # approximate bytes of a piece


def rdb_chunks(
    keyspace: Keyspace,
    *,
    version: int = VERSION,
    aux: Mapping[bytes, bytes] | None = None,
    aof_base: bool = False,
    checksum: bool = True,
    compress: bool = True,
    unsaid: Unsaid | None = None,
    key_delay: int = 0,
) -> Iterator[bytes]:
    """Yield an RDB file of all databases in pieces of about 64 KiB.

    Args:
        keyspace: it must not change during the iteration (fork first, or iterate without a pause).
        version: RDB version: 10 of Redis 7.0, 11 of 7.2 and Valkey, 12 of 7.4, 13 of 8.6, 14 of 8.8, 15 of 8.10.
        aux: fields for the head of the file, in addition to the usual ones or instead of them: ``repl-id`` …
        aof_base: the file is the base of an append-only file.
        checksum: False leaves the checksum out (rdbchecksum no).
        compress: False writes strings uncompressed (rdbcompression no).
        unsaid: counts the data that other servers cannot read in a file of this version.
        key_delay: microseconds to wait after each key, for tests.
    """
    crc = 0
    for piece in _gather(_pieces(keyspace, version, aux, aof_base, compress, unsaid, key_delay)):
        if checksum:
            crc = crc64(piece, crc)
        yield piece
    yield crc.to_bytes(8, "little")


def encode_value(
    kind: ValueType[Any], value: Value, name: bytes, version: int, writing: Writing
) -> Iterator[bytes]:
    """Yield the type byte, the encoded key (if given) and the value, in pieces."""
    value_type = kind.codec.type_of(value, version)
    yield bytes((value_type,)) + name
    yield from kind.codec.encode(value, value_type, writing)


def _pieces(
    keyspace: Keyspace,
    version: int,
    aux: Mapping[bytes, bytes] | None,
    aof_base: bool,
    compress: bool,
    unsaid: Unsaid | None,
    key_delay: int,
) -> Iterator[bytes]:
    yield b"REDIS%04d" % version
    fields = {
        b"redis-ver": b"8.0.0",
        b"redis-bits": b"64",
        b"ctime": b"%d" % (keyspace.now // 1000),
        b"used-mem": b"0",
        **(aux or {}),
        b"aof-base": b"%d" % aof_base,
    }
    writing = Writing(keyspace.idempotency_defaults, compress)
    for name, text in fields.items():
        yield bytes((AUX,)) + encode_string(name) + encode_string(text)
    if version >= _FIRST_WITH_LIBRARIES:
        for code in keyspace.libraries.codes.values():
            yield bytes((FUNCTION,)) + writing.string(code)
    for database in keyspace.databases:
        if not database.entries:
            continue
        expires = database.expires
        yield bytes((SELECT,)) + encode_length(database.index)
        yield bytes((RESIZE,)) + encode_length(len(database.entries)) + encode_length(len(expires))
        for key, value in database.entries.items():
            due = expires.get(key) if expires else None
            if due is not None:
                yield bytes((EXPIRE_MS,)) + due.to_bytes(8, "little", signed=True)
            if keyspace.usage is not None:
                yield bytes((FREQUENCY, database.frequency(key)))
            elif keyspace.keeps_idle:
                idle = max(keyspace.now - database.accessed[key], 0) // 1000
                yield bytes((IDLE,)) + encode_length(idle)
            kind = TYPES[type(value)]
            yield from encode_value(kind, value, encode_string(key), version, writing)
            if key_delay > 0:
                yield from _wait(key_delay)
            extension = kind.codec.extension
            if extension is None:
                continue
            value_type = kind.codec.type_of(value, version)
            if content := extension.encode(value, value_type):
                yield bytes((AUX,)) + encode_string(extension.field) + writing.string(content)
                if unsaid is not None:
                    unsaid.counts.update(dict(extension.count(value, value_type)))
    yield bytes((END,))


def _wait(microseconds: int) -> Iterator[bytes]:
    """Pass on the collected pieces, then wait in small steps, so that the writer can be stopped."""
    while microseconds > 0:
        yield b""
        time.sleep(min(microseconds, _DELAY_STEP) / 1_000_000)
        microseconds -= _DELAY_STEP


def _gather(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces into larger ones; an empty piece passes on the pieces before it."""
    together: list[bytes] = []
    size = 0
    for piece in pieces:
        together.append(piece)
        size += len(piece)
        if size >= _PIECE or not piece:
            yield b"".join(together)
            together.clear()
            size = 0
    yield b"".join(together)
