"""An order of keys that SCAN can walk while keys come and go, and that RANDOMKEY can draw from.

The keys stand in one array without gaps. A key that goes leaves its place to the last one, so keys only ever move
towards the front; SCAN walks from the back to the front, its cursor being the number of places still ahead. A key
that is there all the time therefore stays ahead of the cursor until it is met: it may be met twice (if it moved),
never missed. The cursor falls with every call, so every walk ends, however many keys are added meanwhile.
"""

from __future__ import annotations

from random import randrange
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ScanOrder:
    """The keys of one database in an order for SCAN; every operation takes constant time.

    Args:
        keys: those that are there already, each once.
    """

    __slots__ = ("_keys", "_places")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys = list(keys)
        self._places = {key: place for place, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: bytes) -> None:
        """Take in a key that is not there."""
        self._places[key] = len(self._keys)
        self._keys.append(key)

    def remove(self, key: bytes) -> None:
        """Let a key go that is there."""
        place = self._places.pop(key)
        last = self._keys.pop()
        if place < len(self._keys):
            self._keys[place] = last
            self._places[last] = place

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next keys of a walk.

        Args:
            cursor: 0 to begin, then what the call before returned. Any other number is harmless.
            count: how many keys at most; 1 or more.

        Returns:
            The cursor for the next call, 0 when the walk is over, and the keys.
        """
        end = min(cursor, len(self._keys)) if cursor else len(self._keys)
        start = max(end - count, 0)
        return start, self._keys[start:end]

    def random(self) -> bytes:
        """Any of the keys, each as likely as the others; there must be one."""
        return self._keys[randrange(len(self._keys))]  # noqa: S311 - nothing depends on it being unpredictable
