"""Deadlines ordered by time, each with a name: for expiring fields, and for the hashes that have them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Self

from ..freeing import Freeable


class Deadlines(Freeable):
    """The time at which each name expires, with quick access to the earliest."""

    __slots__ = ("heap", "when")

    def __init__(self) -> None:
        self.when: dict[bytes, int] = {}  # name to Unix milliseconds. Read only; the methods change it.
        # (when, name), the earliest first; may hold outdated pairs, ``when`` decides.
        self.heap: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        return len(self.when)

    def set(self, name: bytes, when: int) -> None:
        """Set the time at which a name expires."""
        self.when[name] = when
        heap = self.heap
        heapq.heappush(heap, (when, name))
        if len(heap) > 64 + 4 * len(self.when):
            self.heap = [(when, name) for name, when in self.when.items()]
            heapq.heapify(self.heap)

    def bring_forward(self, name: bytes, when: int) -> None:
        """Set the time at which a name expires, unless it already expires earlier."""
        present = self.when.get(name)
        if present is None or when < present:
            self.set(name, when)

    def forget(self, name: bytes) -> bool:
        """Remove the time of a name; return False if it had none."""
        return self.when.pop(name, None) is not None

    def first(self) -> tuple[int, bytes] | None:
        """Return the earliest time and the name that expires then; None if there are no names."""
        heap = self.heap
        while heap:
            when, name = heap[0]
            if self.when.get(name) == when:
                return heap[0]
            heapq.heappop(heap)
        return None

    def parts(self) -> Iterable[object]:
        """Return the containers of the times: the dict and the heap."""
        return self.when, self.heap

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)()
        twin.when = dict(self.when)
        twin.heap = list(self.heap)
        return twin
