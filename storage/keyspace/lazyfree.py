"""Lazyfree: free big values in small steps.

Freeing a million objects at once blocks the server. So a value is taken apart (``Freeable.parts``), its containers lose
some of their items per step, and these are freed next. A container is emptied only if nothing else references it, so a
value that was queued but is still used (RENAME moves it from one key to another) stays whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import Final

from ..freeing import Freeable

PIECE: Final = 256  # items that one step takes out of a container
_SMALL: Final = 64
_CONTAINERS: Final = frozenset((list, dict, set, deque))
_ALONE: Final = 2  # getrefcount of an object that only one local variable references


class LazyFree:
    """The queue of values that lazyfree frees in steps."""

    __slots__ = ("_containers", "_holders", "_objects", "_waiting", "freed", "memory", "on_queued", "pending")

    def __init__(self) -> None:
        self.pending = 0  # keys and groups that are not freed yet (INFO lazyfree_pending_objects)
        self.freed = 0  # number of freed objects (INFO lazyfreed_objects)
        self.memory = 0  # approximate bytes of the pending objects, as far as the callers knew them
        # Called when a value is queued; while it is None, every value is freed at once.
        self.on_queued: Callable[[], None] | None = None
        self._waiting: deque[tuple[object, int]] = deque()
        # The value being taken apart: the number of objects it counts for, and its parts. Parts that reference
        # containers come first, because a container with another reference is not emptied.
        self._objects = 0
        self._holders: list[Freeable] = []
        self._containers: list[object] = []

    def free_later(self, value: object, objects: int = 1, *, counted: bool = False) -> None:
        """Queue a value that the caller no longer uses; free it at once if that takes no noticeable time.

        Args:
            value: the value; it is freed only if nothing else references it.
            objects: the number of objects (keys, groups) it counts for in ``pending`` and ``freed``.
            counted: they count in ``freed`` even if they are freed at once.
        """
        if self.on_queued is None or _goes_at_once(value):
            self.freed += objects * counted
            return
        self._waiting.append((value, objects))
        self.pending += objects
        self.on_queued()

    def add_memory(self, size: int) -> None:
        """Add bytes to ``memory`` (the total of queued values) for the value queued last.

        No effect if nothing is queued.
        """
        if self.pending:
            self.memory += size

    def step(self) -> bool:
        """Free up to a few hundred objects; return False when nothing is left."""
        if self._holders:
            self._open()
        elif self._containers:
            self._empty()
        else:
            self.pending -= self._objects
            self.freed += self._objects
            self._objects = 0
            if not self._waiting:
                self.memory = 0
                return False
            value, objects = self._waiting.popleft()
            if getrefcount(value) > _ALONE:
                self.pending -= objects  # it is still used
            else:
                self._objects = objects
                self._keep(value)
        return True

    def _keep(self, value: object) -> None:
        if isinstance(value, Freeable):
            self._holders.append(value)
        elif type(value) in _CONTAINERS:
            self._containers.append(value)

    def _open(self) -> None:
        """Take an object apart, and queue its parts."""
        holder = self._holders.pop()
        if holder.prepare_to_free():
            self._holders.append(holder)
            return
        for part in holder.parts():
            self._keep(part)

    def _empty(self) -> None:
        """Remove some items from a container, and queue the big items among them."""
        container = self._containers.pop()
        if getrefcount(container) > _ALONE:
            return
        if isinstance(container, list):
            items = container[-PIECE:]
            del container[-PIECE:]
        elif isinstance(container, dict):
            items = [container.popitem()[1] for _ in range(min(len(container), PIECE))]
        else:
            assert isinstance(container, (set, deque))
            items = [container.pop() for _ in range(min(len(container), PIECE))]
        if container:
            self._containers.append(container)
        if _may_be_large(items):
            for item in {id(item): item for item in items}.values():
                if not _goes_at_once(item):
                    self._keep(item)


def _goes_at_once(value: object) -> bool:
    """Return True if freeing the value takes no noticeable time."""
    if isinstance(value, Freeable):
        return value.is_small()
    if isinstance(value, (list, dict, set, deque)) and type(value) in _CONTAINERS:
        items = value.values() if isinstance(value, dict) else value
        return len(items) < _SMALL and (not _may_be_large(items) or all(map(_goes_at_once, items)))
    return True


def _may_be_large(items: Iterable[object]) -> bool:
    """Return True if some of these objects may have to be taken apart."""
    return any(kind in _CONTAINERS or issubclass(kind, Freeable) for kind in {*map(type, items)})
