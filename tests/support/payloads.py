"""Payloads of RESTORE made byte by byte, in forms that this server does not write."""

from collections.abc import Sequence

from rillet.storage.codecs.crc64 import crc64


def payload(value_type: int, body: bytes, version: int = 11) -> bytes:
    """Return a payload as DUMP ends it: the version of RDB and a checksum."""
    data = bytes((value_type,)) + body + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


def ziplist(words: Sequence[bytes]) -> bytes:
    """Return short words as a ziplist, which Redis wrote before 7.0."""
    body, before, last = b"", 0, 10
    for word in words:
        entry = bytes((before, len(word))) + word
        body, before, last = body + entry, len(entry), 10 + len(body)
    head = (11 + len(body)).to_bytes(4, "little") + last.to_bytes(4, "little")
    return head + len(words).to_bytes(2, "little") + body + b"\xff"
