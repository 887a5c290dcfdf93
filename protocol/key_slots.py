"""Hash slots: the part of a cluster's keyspace that a key belongs to."""

from __future__ import annotations

from binascii import crc_hqx
from typing import Final

SLOTS: Final = 16384


def hash_tag(key: bytes) -> bytes:
    """Return the part that decides the slot: what the first ``{`` and the next ``}`` enclose or, if that is nothing, the key."""
    opening = key.find(b"{")
    if opening < 0:
        return key
    closing = key.find(b"}", opening + 1)
    return key[opening + 1 : closing] if closing > opening + 1 else key


def key_slot(key: bytes) -> int:
    """Return the hash slot of a key, 0 to 16383."""
    return crc_hqx(hash_tag(key), 0) % SLOTS
