"""An order of keys that SCAN can walk while keys change, and that RANDOMKEY can draw from.

All keys are in one array. A removed key leaves a gap. When there are more gaps than keys, the gaps are closed, some at
a time; so keys only ever move towards the front. SCAN walks from the back to the front; its cursor is the number of
places left. So a key that exists during the whole walk stays ahead of the cursor until it is returned: it may be
returned twice (if it moved), but is never missed. The cursor falls with every call, so every walk ends, however many
keys are added during it.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import randrange
from typing import Final

from ..freeing import Freeable

_STEP: Final = 32
_PATIENCE: Final = 10  # places examined per key that a page may have, as Redis examines buckets


class ScanOrder(Freeable):
    """The keys of one database in an order for SCAN, at eight bytes a key.

    Only the constructor lists all keys, 5 ms for a million; resizing a list or set of a million keys may take as long
    in Python. A removed key uses memory until its gap is closed.

    Args:
        keys: the present keys, each once.
        step: places examined per removed key while gaps are being closed.
    """

    __slots__ = ("_filled", "_gone", "_keys", "_next", "_step")

    def __init__(self, keys: Iterable[bytes] = (), step: int = _STEP) -> None:
        self._keys = list(keys)  # each key at one place, and the gaps of removed keys
        self._step = step
        self._gone: set[bytes] = set()  # the removed keys that still occupy a place
        # ``_filled``: while gaps are being closed: the keys before this place are compact, apart from ``_gone``.
        # ``_next``: the first place not yet examined while gaps are being closed; the places from ``_filled`` up to
        # this one are empty. Both are 0 while no gaps are being closed.
        self._filled = self._next = 0

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone) - (self._next - self._filled)

    def add(self, key: bytes) -> None:
        """Add a key that is not present."""
        if key in self._gone:
            self._gone.remove(key)
        else:
            self._keys.append(key)

    def remove(self, key: bytes) -> None:
        """Remove a key that is present."""
        self._gone.add(key)
        if self._next or len(self._gone) > len(self._keys) // 2:
            self._close_places()

    def _close_places(self) -> None:
        """Examine some more places, and move their keys to the end of the compact part."""
        keys, gone = self._keys, self._gone
        start = self._next
        piece = keys[start : start + self._step]
        staying = [key for key in piece if key not in gone]
        gone.difference_update(piece)
        keys[start : start + len(piece)] = [b""] * len(piece)
        keys[self._filled : self._filled + len(staying)] = staying
        self._filled += len(staying)
        self._next = start + len(piece)
        if self._next == len(keys):
            del keys[self._filled :]
            self._filled = self._next = 0

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the next keys of a SCAN.

        Args:
            cursor: 0 to start, then the result of the previous call. Any other number is harmless.
            count: maximum number of keys; 1 or more.

        Returns:
            The cursor for the next call, 0 when the walk is over, and the keys: fewer, or none, after many
            removals.
        """
        keys, gone = self._keys, self._gone
        end = min(cursor, len(keys)) if cursor else len(keys)
        found: list[bytes] = []
        last = max(end - count * _PATIENCE, 0)
        while end > last and len(found) < count:
            if self._filled < end <= self._next:
                end = self._filled
                continue
            start = max(end - (count - len(found)), self._next if end > self._next else 0)
            found += [key for key in keys[start:end] if key not in gone]
            end = start
        return end, found

    def random(self) -> bytes:
        """Return a uniformly random key; there must be one."""
        keys = self._keys
        while True:
            place = randrange(len(keys))  # noqa: S311 - this need not be unpredictable
            if (place < self._filled or place >= self._next) and keys[place] not in self._gone:
                return keys[place]

    def parts(self) -> Iterable[object]:
        """Return the containers of the keys, present and removed."""
        return self._keys, self._gone
