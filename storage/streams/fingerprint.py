"""What an entry says, as 16 bytes: the idempotent ID that XADD IDMPAUTO gives it.

The hash must be Redis' own, bit for bit: it stands in logs and snapshots, and a producer's retry must be recognized
by whichever server has loaded them. It is XXH3, 128 bits, of which a version in Python would block every client for
a tenth of a second on a message of a megabyte; hence the dependency.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_128_intdigest

_LOW: Final = (1 << 64) - 1


def fingerprint(words: list[bytes]) -> bytes:
    """The hash of alternating fields and values; the order of the pairs does not matter, their number does.

    Each pair is hashed with the length of its field between the two, so that no byte can change sides. The pairs are
    combined by sums and exclusive ors, which do not know an order.
    """
    low_sum = high_sum = low_xor = high_xor = 0
    for at in range(0, len(words), 2):
        field = words[at]
        digest = xxh3_128_intdigest(b"%b%b%b" % (field, len(field).to_bytes(8, "little"), words[at + 1]))
        low, high = digest & _LOW, digest >> 64
        low_sum += low
        high_sum += high
        low_xor ^= low
        high_xor ^= high
    low = (low_sum & _LOW) ^ _rotated(high_xor)
    high = (high_sum & _LOW) ^ _rotated(low_xor)
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


def _rotated(number: int) -> int:
    """Rotated left by one of its 64 bits."""
    return (number << 1 | number >> 63) & _LOW
