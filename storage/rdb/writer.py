"""Write RDB: whole keyspaces as files, single values as the payloads of DUMP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..collections.base import Collection
from ..collections.hash import Hash
from ..streams.stream import Stream
from .crc64 import crc64
from .encoding import encode_length, encode_string
from .hashes import FIRST_WITH_TIMES, TIMES_FIELD, encode_times
from .opcodes import AUX, END, EXPIRE_MS, FREQUENCY, FUNCTION, IDLE, RESIZE, SELECT
from .stream_extensions import FIELD, encode_extras
from .streams import encode_stream
from .types import encode_collection, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..keyspace.database import Value
    from ..keyspace.keyspace import Keyspace

VERSION: Final = 11
STREAM_TYPE: Final = 21
_TYPES_SINCE: Final = ((14, 27), (13, 26), (11, 21), (10, 19))  # RDB versions and their stream types
_STRING: Final = b"\x00"
_FIRST_WITH_LIBRARIES: Final = 10
_PIECE: Final = 1 << 16  # approximate bytes of a piece


def stream_type_of(version: int) -> int:
    """Return the newest stream type that readers of an RDB version know."""
    return next((stream_type for since, stream_type in _TYPES_SINCE if version >= since), 15)


def rdb_chunks(
    keyspace: Keyspace,
    *,
    version: int = VERSION,
    stream_type: int | None = None,
    aux: Mapping[bytes, bytes] | None = None,
    aof_base: bool = False,
    checksum: bool = True,
) -> Iterator[bytes]:
    """Yield an RDB file of all databases in pieces of about 64 KiB.

    Args:
        keyspace: it must not change meanwhile (a forked process, or all in one go).
        version: of the format: 11 is read by Redis 7.2 and Valkey, 10 by Redis 7.0 too, 14 by Redis 8.8 only.
        stream_type: 27, 26, 21, 19 or 15; by default what belongs to the version.
        aux: fields for the head of the file, beside (or instead of) the usual ones: ``repl-id`` …
        aof_base: it is the base of an append-only file.
        checksum: False leaves it out (rdbchecksum no).
    """
    crc = 0
    for piece in _gather(_pieces(keyspace, version, stream_type or stream_type_of(version), aux, aof_base)):
        if checksum:
            crc = crc64(piece, crc)
        yield piece
    yield crc.to_bytes(8, "little")


def write_rdb(
    keyspace: Keyspace,
    write: Callable[[bytes], object],
    *,
    version: int = VERSION,
    stream_type: int | None = None,
    aux: Mapping[bytes, bytes] | None = None,
    aof_base: bool = False,
    checksum: bool = True,
) -> None:
    """Pass an RDB file to ``write`` piece by piece; other arguments as of ``rdb_chunks``."""
    for piece in rdb_chunks(
        keyspace, version=version, stream_type=stream_type, aux=aux, aof_base=aof_base, checksum=checksum
    ):
        write(piece)


def dump_value(
    value: Value,
    *,
    version: int = VERSION,
    stream_type: int | None = None,
    idempotency_defaults: tuple[int, int] = (100, 100),
) -> bytes:
    """Return the payload of DUMP: type, value, version, checksum."""
    if isinstance(value, Hash) and value.times is not None:
        version = max(version, FIRST_WITH_TIMES)  # a payload has no other place for the times
    body = b"".join(
        encode_value(
            value,
            stream_type or stream_type_of(version),
            version=version,
            idempotency_defaults=idempotency_defaults,
        )
    )
    body += version.to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def encode_value(
    value: Value,
    stream_type: int,
    key: bytes | None = None,
    *,
    version: int,
    idempotency_defaults: tuple[int, int],
) -> Iterator[bytes]:
    """Yield the type byte, the key if there is one, and the value, in pieces."""
    name = b"" if key is None else encode_string(key)
    if isinstance(value, Stream):
        yield bytes((stream_type,)) + name
        yield from encode_stream(value, stream_type, idempotency_defaults)
    elif isinstance(value, Collection):
        value_type = type_of(value, version)
        yield bytes((value_type,)) + name
        yield from encode_collection(value, value_type)
    else:
        yield _STRING + name + encode_string(value)


def _pieces(
    keyspace: Keyspace, version: int, stream_type: int, aux: Mapping[bytes, bytes] | None, aof_base: bool
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
    for name, text in fields.items():
        yield bytes((AUX,)) + encode_string(name) + encode_string(text)
    if version >= _FIRST_WITH_LIBRARIES:
        for code in keyspace.libraries.codes.values():
            yield bytes((FUNCTION,)) + encode_string(code)
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
            yield from encode_value(
                value,
                stream_type,
                key,
                version=version,
                idempotency_defaults=keyspace.idempotency_defaults,
            )
            if isinstance(value, Stream) and (extras := encode_extras(value, stream_type)):
                yield bytes((AUX,)) + encode_string(FIELD) + encode_string(extras)
            if isinstance(value, Hash) and (times := encode_times(value, type_of(value, version))):
                yield bytes((AUX,)) + encode_string(TIMES_FIELD) + encode_string(times)
    yield bytes((END,))


def _gather(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces into larger ones."""
    together: list[bytes] = []
    size = 0
    for piece in pieces:
        together.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(together)
            together.clear()
            size = 0
    yield b"".join(together)
