"""The payloads of DUMP and FUNCTION DUMP: a value, or libraries, encoded as in an RDB file, with version and checksum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..codecs.byte_source import ByteSource, PayloadRefusedError
from ..codecs.codec import DEFAULTS, Defaults, Writing
from ..codecs.crc64 import crc64
from ..codecs.encoding import encode_string, read_string
from ..loading import RdbError
from ..value_types import TYPES, Value
from .module_values import type_name
from .opcodes import FUNCTION
from .reader import BY_TYPE_BYTE, REDIS_VERSIONS, VALKEY_VERSIONS
from .writer import VERSION, encode_value

_FOOTER: Final = 10  # bytes of version and checksum at the end of a payload


def dump_value(
    value: Value, *, version: int = VERSION, idempotency_defaults: Defaults = DEFAULTS, lossy: bool = False
) -> bytes:
    """Return the DUMP payload: type, value, version, checksum.

    Args:
        value: it must not change during the call.
        version: RDB version. It is raised to the first version that can express the whole value.
        idempotency_defaults: duration and maxsize of a stream without its own.
        lossy: keep the version, and leave out the parts that it cannot express.
    """
    kind = TYPES[type(value)]
    if not lossy:
        version = kind.codec.payload_version(value, version)
    return _payload(encode_value(kind, value, b"", version, Writing(idempotency_defaults)), version)


def restore_value(payload: bytes, **checks: bool) -> Value:
    """Return the value in a payload of DUMP; ``checks`` are passed to ``_content``.

    Raises:
        PayloadRefusedError: its version is unknown, or its checksum wrong.
        RdbError: the data is damaged, or of a type that Rillet does not have.
    """
    source, version = _content(payload, **checks)
    value_type = source.byte()
    kind = BY_TYPE_BYTE.get(value_type)
    if kind is None:
        raise RdbError(f"the payload is a {type_name(value_type)}, which Rillet does not have")
    value: Value | None = None
    for found in kind.codec.read(source, value_type, version in VALKEY_VERSIONS):
        value = found
    if value is None or source.peek(1):
        raise RdbError("Bad data format")
    return value


def dump_libraries(codes: Iterable[bytes], version: int) -> bytes:
    """Return the payload for the source code of these libraries."""
    return _payload((bytes((FUNCTION,)) + encode_string(code) for code in codes), version)


def restore_libraries(payload: bytes, **checks: bool) -> list[bytes]:
    """Return the source code of the libraries in a payload; ``checks`` are passed to ``_content``.

    Raises:
        PayloadRefusedError: its version is unknown, or its checksum wrong.
        RdbError: it contains something other than libraries.
    """
    source, _ = _content(payload, **checks)
    codes = []
    while source.peek(1):
        if source.byte() != FUNCTION:
            raise RdbError("given type is not a function")
        codes.append(read_string(source))
    return codes


def _payload(pieces: Iterable[bytes], version: int) -> bytes:
    body = b"".join(pieces) + version.to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def _content(
    payload: bytes, *, may_lack_checksum: bool = False, skip_checksum: bool = False
) -> tuple[ByteSource, int]:
    """Return the content of a payload, and its RDB version.

    Raises PayloadRefusedError: its version is unknown, or its checksum wrong.

    Args:
        payload: its last ten bytes are version and checksum.
        may_lack_checksum: accept a checksum of 0, as Redis does since 8.6, which propagates HIMPORT SET with one.
        skip_checksum: accept any checksum.
    """
    if len(payload) < _FOOTER:
        raise PayloadRefusedError("DUMP payload is too short")
    version = int.from_bytes(payload[-_FOOTER:-8], "little")
    if version not in REDIS_VERSIONS and version not in VALKEY_VERSIONS:
        raise PayloadRefusedError(f"DUMP payload has the unknown version {version}")
    written = int.from_bytes(payload[-8:], "little")
    if not (skip_checksum or (may_lack_checksum and written == 0)) and crc64(payload[:-8]) != written:
        raise PayloadRefusedError("DUMP payload has a wrong checksum")
    return ByteSource.of(payload[:-_FOOTER]), version
