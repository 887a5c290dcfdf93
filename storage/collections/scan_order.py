"""An order of keys that SCAN can walk while keys come and go, and that RANDOMKEY can draw from.

The keys stand in one array. A key that goes leaves its place behind, and such places are closed, some at a time, when
there are more of them than of keys; so keys only ever move towards the front. SCAN walks from the back to the front,
its cursor being the number of places still ahead. A key that is there all the time therefore stays ahead of the cursor
until it is met: it may be met twice (if it moved), never missed. The cursor falls with every call, so every walk ends,
however many keys are added meanwhile.
"""

from __future__ import annotations

from random import randrange
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PIECE = 32  # places looked at for one key that goes, while places are being closed
_PATIENCE = 10  # so many places are looked at for each key that a page may have, as Redis looks at buckets


class ScanOrder:
    """The keys of one database in an order for SCAN: eight bytes a key, and nothing goes through all of them.

    Only what is there already is listed at once, 5 ms for a million keys; and a list or set of a million may take as long
    when Python makes it larger or smaller. Keys that went take their room until their places are closed.

    Args:
        keys: those that are there already, each once.

    Attributes:
        _keys: each key at one place, and places of keys that went.
        _gone: the keys that went and still have their place.
        _filled: places are being closed: the keys before this place stand close together, but for ``_gone``.
        _next: the first place not yet looked at while places are being closed; nothing stands between ``_filled`` and
            this one. Both are 0 while no places are being closed.
    """

    __slots__ = ("_filled", "_gone", "_keys", "_next")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys = list(keys)
        self._gone: set[bytes] = set()
        self._filled = self._next = 0

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone) - (self._next - self._filled)

    def add(self, key: bytes) -> None:
        """Take in a key that is not there."""
        if key in self._gone:
            self._gone.remove(key)
        else:
            self._keys.append(key)

    def remove(self, key: bytes) -> None:
        """Let a key go that is there."""
        self._gone.add(key)
        if self._next or len(self._gone) > len(self._keys) // 2:
            self._close_places()

    def _close_places(self) -> None:
        """Look at some places more, and let the keys in them move up to those before."""
        keys, gone = self._keys, self._gone
        start = self._next
        piece = keys[start : start + _PIECE]
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
        """The next keys of a walk.

        Args:
            cursor: 0 to begin, then what the call before returned. Any other number is harmless.
            count: how many keys at most; 1 or more.

        Returns:
            The cursor for the next call, 0 when the walk is over, and the keys: fewer, or none, where many went.
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
        """Any of the keys, each as likely as the others; there must be one."""
        keys = self._keys
        while True:
            place = randrange(len(keys))  # noqa: S311 - nothing depends on it being unpredictable
            if (place < self._filled or place >= self._next) and keys[place] not in self._gone:
                return keys[place]
