"""The messages that a stream has already accepted: producers (pid) and their idempotent IDs (iid), for XADD IDMP.

A stream has this object only after its first use or configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from xxhash import xxh3_128_intdigest

from ..freeing import Freeable


class Idempotency(Freeable):
    """The idempotent IDs of one stream, each with the ID of its entry.

    An iid's age follows from its entry ID, not from the time of recording, so every replica forgets the same iids.
    """

    __slots__ = ("__weakref__", "added", "duplicates", "duration", "maxsize", "producers")

    def __init__(self, duration: int, maxsize: int) -> None:
        self.duration = duration  # seconds that an iid is remembered, counted from the time in its entry's ID
        self.maxsize = maxsize  # maximum number of iids for each producer; beyond it the oldest is forgotten
        # Pid to {iid: entry ID}, in order of recording; no producer is empty.
        self.producers: dict[bytes, dict[bytes, int]] = {}
        self.added = 0  # number of iids ever recorded
        self.duplicates = 0  # number of duplicate messages ever recognized

    def parts(self) -> Iterable[object]:
        """Return the producers."""
        return (self.producers,)

    @property
    def tracked(self) -> int:
        """The number of remembered iids of all producers."""
        return sum(map(len, self.producers.values()))

    def find(self, pid: bytes, iid: bytes, now: int | None = None) -> int | None:
        """Return the entry ID recorded for an iid, None if there is none.

        Args:
            iid: its name for the message.
            now: milliseconds, to ignore iids that are too old. None, while an AOF is loaded: no iid is too old.
        """
        known = self.producers.get(pid)
        found = None if known is None else known.get(iid)
        if found is None or (now is not None and self._is_old(found, now)):
            return None
        return found

    def record(self, pid: bytes, iid: bytes, stream_id: int) -> None:
        """Record an iid as the producer's newest."""
        known = self.producers.setdefault(pid, {})
        known.pop(iid, None)
        known[iid] = stream_id
        self.added += 1
        if len(known) > self.maxsize:
            del known[next(iter(known))]

    def configure(self, duration: int, maxsize: int) -> bool:
        """Change duration and maxsize (XCFGSET), and forget all iids.

        If both are unchanged, forget nothing and return False.
        """
        if (duration, maxsize) == (self.duration, self.maxsize):
            return False
        self.duration = duration
        self.maxsize = maxsize
        self.producers.clear()
        return True

    def expire(self, now: int) -> int:
        """Forget the iids that are too old at ``now`` (milliseconds); return their number."""
        gone = 0
        for pid, known in list(self.producers.items()):
            # The oldest come first, because IDs only grow. (XIDMPRECORD can break this order; such iids go later.)
            old = [iid for iid, _ in takewhile(lambda pair: self._is_old(pair[1], now), known.items())]
            for iid in old:
                del known[iid]
            gone += len(old)
            if not known:
                del self.producers[pid]
        return gone

    def _is_old(self, stream_id: int, now: int) -> bool:
        return stream_id >> 64 <= now - self.duration * 1000

    def copy(self) -> Idempotency:
        """Return an independent copy (COPY)."""
        twin = Idempotency(self.duration, self.maxsize)
        twin.producers = {pid: known.copy() for pid, known in self.producers.items()}
        twin.added = self.added
        twin.duplicates = self.duplicates
        return twin


_LOW: Final = (1 << 64) - 1


def fingerprint(words: list[bytes]) -> bytes:
    """Return a hash of alternating fields and values that depends on the number of pairs, but not on their order.

    The length of a field is hashed between the field and its value, so that no byte can move from one to the other.
    Sums and exclusive ors, which ignore order, combine the pairs.
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
    """Rotate a 64-bit number left by one bit."""
    return (number << 1 | number >> 63) & _LOW
