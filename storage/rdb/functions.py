"""The payloads of FUNCTION DUMP: libraries encoded as in an RDB file, with version and checksum."""

from __future__ import annotations

from collections.abc import Iterable

from ..codecs.crc64 import crc64
from ..codecs.encoding import encode_string, read_string
from ..loading import RdbError
from .opcodes import FUNCTION
from .reader import checked_payload


def dump_libraries(codes: Iterable[bytes], version: int) -> bytes:
    """Return the payload for the source code of these libraries."""
    body = b"".join([bytes((FUNCTION,)) + encode_string(code) for code in codes]) + version.to_bytes(
        2, "little"
    )
    return body + crc64(body).to_bytes(8, "little")


def restore_libraries(payload: bytes, **checks: bool) -> list[bytes]:
    """Return the source code of the libraries in a payload; ``checks`` are passed to ``checked_payload``.

    Raises:
        PayloadRefusedError: its version is unknown, or its checksum wrong.
        RdbError: it contains something other than libraries.
    """
    source = checked_payload(payload, **checks)
    codes = []
    while source.peek(1):
        if source.byte() != FUNCTION:
            raise RdbError("given type is not a function")
        codes.append(read_string(source))
    return codes
