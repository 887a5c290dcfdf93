"""What a hash, a list, a set and a sorted set have in common, so that the rest of the server treats them alike.

Streams and strings are not collections: they came first, and their forms are made for speed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from .encoding_limits import Limits


class Collection(ABC):
    """A value made of elements. It is never empty while it is in the keyspace: its key goes with its last element.

    Attributes:
        TYPE: what TYPE answers: hash, list, set, zset.
        encoding: the name of the form in which Redis would keep it (OBJECT ENCODING).
    """

    TYPE: ClassVar[bytes]
    __slots__ = ("encoding",)

    encoding: bytes

    @abstractmethod
    def __len__(self) -> int:
        """How many elements it has."""

    @abstractmethod
    def copy(self) -> Self:
        """A twin that shares nothing which can change."""

    @abstractmethod
    def fit(self, limits: Limits) -> None:
        """Set ``encoding`` to the form in which Redis would load such a value; called for what files and RESTORE bring.

        Commands keep ``encoding`` themselves, for Redis changes forms at writes and mostly never back.
        """

    @abstractmethod
    def commands(self, key: bytes) -> Iterator[tuple[bytes, ...]]:
        """The shortest commands that make it, word for word those of Redis' AOF rewrite; without the key's expiry."""

    @abstractmethod
    def parts(self) -> Iterator[bytes]:
        """What it holds, for a digest: the same for equal values, whatever their order in memory."""

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """About the bytes of its elements; may be estimated from a few of them."""
