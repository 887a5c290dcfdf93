"""Lists: an array with free room at its start, so that operations on both ends and by index are cheap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from ..listpack_sizes import element_size
from .base import OBJECT_BYTES, Collection

if TYPE_CHECKING:
    from .encoding_limits import Limits

LISTPACK: Final = b"listpack"
QUICKLIST: Final = b"quicklist"

_FREE: Final = b""  # fills the room before the first element
_ROOM: Final = 16
_AROUND: Final = 7  # bytes of an empty listpack
_NODE_BYTES: Final = {-1: 4096, -2: 8192, -3: 16384, -4: 32768, -5: 65536}
_COUNTED_BYTES: Final = 8192  # maximum bytes of a node whose limit is a number of elements
_A_COMMAND: Final = 64  # elements in one RPUSH of a rewritten AOF
_BACKWARDS: Final = 1024  # elements reversed at a time


class List(Collection):
    """Elements in order.

    ``encoding`` follows Redis since 7.2: a listpack until it exceeds one node of a quicklist, and a listpack again when
    it is at most half of that. (Redis also requires that all elements are in one node. Node borders are not stored
    here, so after a trim of a large list to its middle, this may be a listpack and in Redis a quicklist.)

    Methods that add elements take list-max-listpack-size as ``limit``: a negative one is a size class (-1: 4 KiB …
    -5: 64 KiB), any other a number of elements. They convert to a quicklist if necessary.
    """

    OWN_BYTES: ClassVar[int] = 150
    ELEMENT_BYTES: ClassVar[int] = OBJECT_BYTES + 8
    __slots__ = ("_items", "_start", "size")

    def __init__(self, elements: Iterable[bytes] = ()) -> None:
        self.encoding = LISTPACK
        self._items = list(elements)
        self._start = 0  # index of the first element; the room is before it
        # Bytes of a listpack that holds all elements.
        self.size = _AROUND + sum(map(element_size, self._items))

    def __len__(self) -> int:
        return len(self._items) - self._start

    # Reading

    def at(self, index: int) -> bytes:
        """Return the element at an existing index, counted from 0."""
        return self._items[self._start + index]

    def slice(self, first: int, stop: int) -> list[bytes]:
        """Return the elements from ``first`` up to but not including ``stop``; both from 0 to the length."""
        return self._items[self._start + first : self._start + stop]

    def find(self, element: bytes, *, backwards: bool = False, within: int = 0) -> Iterator[int]:
        """Yield the indices of the elements that equal ``element``, in ascending order.

        The list must not change during the iteration.

        Args:
            backwards: start at the end; the indices are descending.
            within: examine at most this many elements; 0 examines all.
        """
        items, start = self._items, self._start
        end = len(items)
        if not backwards:
            if within:
                end = min(end, start + within)
            at = start
            try:
                while True:
                    at = items.index(element, at, end)
                    yield at - start
                    at += 1
            except ValueError:
                return
        first = max(start, end - within) if within else start
        while end > first:
            begin = max(first, end - _BACKWARDS)
            turned = items[begin:end]
            turned.reverse()
            at = -1
            for _ in range(turned.count(element)):
                at = turned.index(element, at + 1)
                yield end - 1 - at - start
            end = begin

    # Changes. Methods that add take list-max-listpack-size as ``limit``; after a removal the caller calls ``shrunk``.

    def push_left(self, elements: Sequence[bytes], limit: int) -> None:
        """Insert elements at the front one by one, so that the last one becomes the first of the list.

        ``limit``: the directive ``list-max-listpack-size``, which decides the encoding that OBJECT ENCODING shows.
        """
        self._expect(elements, limit)
        count = len(elements)
        if self._start < count:
            room = max(count, len(self) // 2 + _ROOM)
            self._items[: self._start] = [_FREE] * room
            self._start = room
        if count == 1:
            self._start -= 1
            self._items[self._start] = elements[0]
        else:
            self._items[self._start - count : self._start] = elements[::-1]
            self._start -= count

    def push_right(self, elements: Sequence[bytes], limit: int) -> None:
        """Append elements in this order; ``limit`` as in ``push_left``."""
        self._expect(elements, limit)
        self._items += elements

    def pop_left(self) -> bytes:
        """Remove and return the first element; the list must not be empty."""
        start = self._start
        element = self._items[start]
        self._items[start] = _FREE
        self._start = start + 1
        self.size -= element_size(element)
        self._tidy()
        return element

    def pop_right(self) -> bytes:
        """Remove and return the last element; the list must not be empty."""
        element = self._items.pop()
        self.size -= element_size(element)
        return element

    def keep(self, first: int, stop: int) -> None:
        """Trim the list to its elements from ``first`` up to but not including ``stop``.

        Both are from 0 to the length.
        """
        items, start = self._items, self._start
        if 2 * (stop - first) < len(items) - start:
            items = items[start + first : start + stop]
            self._items = items
            self._start = 0
            self.size = _AROUND + sum(map(element_size, items))
            return
        for gone in (items[start : start + first], items[start + stop :]):
            self.size -= sum(map(element_size, gone))
        del items[start + stop :]
        items[start : start + first] = [_FREE] * first
        self._start = start + first
        self._tidy()

    def put(self, index: int, element: bytes, limit: int) -> None:
        """Replace the element at an existing index."""
        self._expect((element,), limit)
        at = self._start + index
        self.size -= element_size(self._items[at])
        self._items[at] = element

    def insert(self, index: int, element: bytes, limit: int) -> None:
        """Insert an element before an index; an index equal to the length appends."""
        self._expect((element,), limit)
        items, start = self._items, self._start
        at = start + index
        if start and 2 * index < len(items) - start:
            items[start - 1 : at] = [*items[start:at], element]
            self._start = start - 1
        else:
            items.insert(at, element)

    def remove(self, indices: list[int]) -> None:
        """Remove the elements at existing indices, which must be in ascending order."""
        items, start = self._items, self._start
        self.size -= sum([element_size(items[start + index]) for index in indices])
        if len(indices) == 1:
            at = start + indices[0]
            if 2 * indices[0] < len(items) - start:
                items[start : at + 1] = [_FREE, *items[start:at]]
                self._start = start + 1
                self._tidy()
            else:
                del items[at]
            return
        left: list[bytes] = []
        before = start
        for index in indices:
            left += items[before : start + index]
            before = start + index + 1
        left += items[before:]
        self._items = left
        self._start = 0

    def shrunk(self, limit: int) -> None:
        """Convert a quicklist to a listpack once it holds at most half of ``limit``; the caller calls it after a removal.

        Below half, because a list whose size moves around the limit would otherwise convert again and again, as Redis
        avoids, too.
        """
        if self.encoding is QUICKLIST and not self._exceeds(limit, self.size, len(self), 2):
            self.encoding = LISTPACK

    def expect(self, elements: Sequence[bytes], limit: int) -> None:
        """Convert a listpack to a quicklist before an insert if it could not hold these elements, as Redis does."""
        if self.encoding is LISTPACK:
            size = self.size + sum(map(len, elements))
            if self._exceeds(limit, size, len(self) + len(elements)):
                self.encoding = QUICKLIST

    def _expect(self, elements: Sequence[bytes], limit: int) -> None:
        """Convert as ``expect`` does, and add the elements' bytes to ``size``."""
        self.expect(elements, limit)
        self.size += sum(map(element_size, elements))

    @staticmethod
    def _exceeds(limit: int, size: int, count: int, share: int = 1) -> bool:
        if limit < 0:
            return size > _NODE_BYTES[max(limit, -5)] // share
        return size > _COUNTED_BYTES or count > max(limit, 1) // share

    def _tidy(self) -> None:
        """Release the room before the first element if it is most of the array."""
        room = self._start
        if room > 4 * _ROOM and 3 * room > 2 * len(self._items):
            del self._items[:room]
            self._start = 0

    # The interface of collections

    def copy(self) -> List:
        """Return an independent copy."""
        twin = List()
        twin._items = self._items[self._start :]
        twin.size = self.size
        twin.encoding = self.encoding
        return twin

    def choose_encoding(self, limits: Limits) -> None:
        """Set ``encoding`` to the one that Redis chooses when it loads the list; a quicklist stays one."""
        if self._exceeds(limits.list_max_listpack_size, self.size, len(self)):
            self.encoding = QUICKLIST

    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """Yield RPUSH commands of 64 elements each."""
        items = self._items
        for at in range(self._start, len(items), _A_COMMAND):
            yield (b"RPUSH", key, *items[at : at + _A_COMMAND])

    def parts(self) -> Iterable[object]:
        """Return the array of the elements."""
        return (self._items,)

    def digest_parts(self) -> Iterator[bytes]:
        """Yield the elements in order."""
        return iter(self._items[self._start :])

    @property
    def payload_bytes(self) -> int:
        """The bytes of one listpack that holds all elements."""
        return self.size
