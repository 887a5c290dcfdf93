"""The common interface of hashes, lists, sets and sorted sets.

Streams and strings are not collections: they came first, and their representations are optimised for speed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Final, Self

from ..freeing import Freeable

if TYPE_CHECKING:
    from .encoding_limits import Limits
FEW: Final = 64
"""Collections with fewer elements are freed at once."""
OBJECT_BYTES: Final = 33
"""Memory of a string, without its bytes."""
SLOT_BYTES: Final = 56
"""Memory of a slot in a table."""


class Collection(Freeable):
    """A value made of elements.

    In the keyspace it is never empty: a key is deleted when its last element is removed.
    """

    OWN_BYTES: ClassVar[int]  # approximate memory of an empty collection
    ELEMENT_BYTES: ClassVar[int] = 0  # approximate memory of an element in addition to ``payload_bytes``
    __slots__ = ("encoding",)

    encoding: bytes  # the name of the encoding that Redis would use (OBJECT ENCODING)

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of elements."""

    @abstractmethod
    def copy(self) -> Self:
        """Return a copy that shares no mutable state."""

    def is_small(self) -> bool:
        """Return True if it has so few elements that lazyfree frees it at once."""
        return len(self) < FEW

    @abstractmethod
    def choose_encoding(self, limits: Limits) -> None:
        """Set ``encoding`` to the one that Redis chooses when it loads a value with these elements.

        Commands maintain ``encoding`` themselves, because Redis converts on a write, and rarely back.
        """

    @abstractmethod
    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """Yield the shortest commands for the value, spelled as in Redis' AOF rewrite; without the expiry."""

    @abstractmethod
    def digest_parts(self) -> Iterator[bytes]:
        """Yield the value's content for a digest: the same for equal values, whatever their order in memory."""

    def make_whole(self) -> None:
        """Repair the value after an interrupted change: recompute everything that follows from its elements."""

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Approximate bytes of the elements; may be extrapolated from a few of them."""
