"""Lazyfree: free big values in small steps.

Freeing a million objects at once blocks the server.
containers lose some of their items, and these are freed next. Only what has no other reference is emptied, so a value
that was queued but is still used (RENAME moves it from one key to another) stays whole.
"""

from __future__ import annotations

from array import array
from collections import deque
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final

from sortedcontainers import SortedList

from ..collections.base import Collection
from ..collections.deadlines import Deadlines
from ..collections.scan_order import ScanOrder
from ..groups.consumer_index import IdOrder
from ..groups.deliveries import Block, Consumer, Delivery
from ..groups.group import Group
from ..groups.idle_order import TimeOrder
from ..groups.pel import Pel
from ..groups.pel_pages import Page
from ..streams.chunk import Chunk, ColdChunk
from ..streams.idempotency import Idempotency
from ..streams.macro_nodes import Node, Nodes
from ..streams.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE: Final = 256  # items that one step takes out of a container
_SMALL: Final = 64
_CONTAINERS: Final = frozenset((list, dict, set, deque))
_LEAVES: Final = frozenset(
    (bytes, bytearray, int, float, tuple, array, type(None), Chunk, ColdChunk, Node, Page, Block, Delivery)
)
# What values consist of besides containers; Cold, Removed and the queue itself are shared or short-lived.
_HOLDERS: Final = (
    Collection,
    Consumer,
    Deadlines,
    Group,
    IdOrder,
    Idempotency,
    Nodes,
    Pel,
    ScanOrder,
    SortedList,
    Stream,
    TimeOrder,
)
_ALONE: Final = 2  # getrefcount of an object that only one local variable references


class LazyFree:
    """The queue of values to free.

    Attributes:
        pending: keys and groups that are not freed yet (INFO lazyfree_pending_objects).
        freed: number of freed ones (INFO lazyfreed_objects).
        weight: approximate bytes of what is pending, as far as the callers knew them.
        on_queued: called when there is something to free; while it is None everything is freed immediately.
    """

    __slots__ = ("_containers", "_holders", "_objects", "_waiting", "freed", "on_queued", "pending", "weight")

    def __init__(self) -> None:
        self.pending = 0
        self.freed = 0
        self.weight = 0
        self.on_queued: Callable[[], None] | None = None
        self._waiting: deque[tuple[object, int]] = deque()
        # What is being taken apart: the number of objects it counts for, and its parts. Parts that reference containers
        # come first, because a container with another reference is not emptied.
        self._objects = 0
        self._holders: list[object] = []
        self._containers: list[object] = []

    def free_later(self, value: object, objects: int = 1) -> None:
        """Queue a value that the caller no longer uses.

        Args:
            value: a value of a key, a group, or a container of such.
            objects: the number of objects it counts for.
        """
        if self.on_queued is None or _goes_at_once(value):
            return
        self._waiting.append((value, objects))
        self.pending += objects
        self.on_queued()

    def weigh(self, size: int) -> None:
        """Add the bytes of the value that was queued last, which may be freed already."""
        if self.pending:
            self.weight += size

    def step(self) -> bool:
        """Free a few hundred objects; return False when nothing is left."""
        if self._holders:
            self._open()
        elif self._containers:
            self._empty()
        else:
            self.pending -= self._objects
            self.freed += self._objects
            self._objects = 0
            if not self._waiting:
                self.weight = 0
                return False
            value, objects = self._waiting.popleft()
            if getrefcount(value) > _ALONE:
                self.pending -= objects  # it is still used
            else:
                self._objects = objects
                self._keep(value)
        return True

    def _keep(self, value: object) -> None:
        (self._containers if type(value) in _CONTAINERS else self._holders).append(value)

    def _open(self) -> None:
        """Detach the parts of an object and queue them."""
        holder = self._holders.pop()
        if type(holder) is Group and holder.clean_up_some():
            self._holders.append(holder)
            return
        # Consumers and their blocks reference each other: without this the cycle would never be freed.
        for name in _attributes(holder):
            part: Any = getattr(holder, name, None)
            if type(part) in _CONTAINERS:
                setattr(holder, name, type(part)())
                self._containers.append(part)
            elif _has_parts(part):
                self._holders.append(part)

    def _empty(self) -> None:
        """Remove some items from a container, and queue those that are big themselves."""
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
        if not {*map(type, items)} <= _LEAVES:
            for item in {id(item): item for item in items}.values():
                if not _goes_at_once(item):
                    self._keep(item)


def _goes_at_once(value: object) -> bool:
    """Whether freeing it takes no noticeable time."""
    kind = type(value)
    if kind in _LEAVES:
        return True
    if kind in _CONTAINERS:
        items = value.values() if isinstance(value, dict) else value
        return len(items) < _SMALL and {*map(type, items)} <= _LEAVES  # type: ignore[call-overload, arg-type]
    if isinstance(value, Group):
        return max(value.weight) < _SMALL
    if kind is Stream:
        return value.length < _SMALL and not value.groups  # type: ignore[attr-defined]
    if isinstance(value, Collection):
        return len(value) < _SMALL
    return not _has_parts(value)


def _has_parts(value: object) -> bool:
    """Whether it is one of the objects that values consist of."""
    return isinstance(value, _HOLDERS)


def _attributes(holder: object) -> list[str]:
    names = list(getattr(holder, "__dict__", ()))
    for kind in type(holder).__mro__:
        names += getattr(kind, "__slots__", ())
    return names
