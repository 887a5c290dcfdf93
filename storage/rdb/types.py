"""Hashes, lists, sets and sorted sets in RDB: their type bytes, readers and writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ..collections.hash import Hash
from ..collections.list import List
from ..collections.set import Set
from ..collections.sorted_set import SortedSet
from .hashes import HASH_TYPES, encode_hash, hash_type, read_hash
from .lists import LIST_TYPES, encode_list, list_type, read_list
from .sets import SET_TYPES, encode_set, read_set, set_type
from .sorted_sets import SORTED_SET_TYPES, encode_sorted_set, read_sorted_set, sorted_set_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..collections.base import Collection
    from .byte_source import ByteSource

    # Yields None now and then while it reads, so that a server can do other work; the value comes last.
    Reader: TypeAlias = Callable[[ByteSource, int, bool], Iterator[Collection | None]]

# By type byte. A reader gets the source after the key, the type byte, and whether Valkey wrote the file.
_READERS: Final[dict[int, Reader]] = {
    **dict.fromkeys(HASH_TYPES, read_hash),
    **dict.fromkeys(LIST_TYPES, read_list),
    **dict.fromkeys(SET_TYPES, read_set),
    **dict.fromkeys(SORTED_SET_TYPES, read_sorted_set),
}
# By class: the type byte for readers of an RDB version, and the bytes that follow the key.
_WRITERS: Final[
    dict[
        type[Collection],
        tuple[Callable[[Collection, int], int], Callable[[Collection, int], Iterator[bytes]]],
    ]
] = {
    Hash: (hash_type, encode_hash),
    List: (list_type, encode_list),
    Set: (set_type, encode_set),
    SortedSet: (sorted_set_type, encode_sorted_set),
}

COLLECTION_TYPES: Final = frozenset(_READERS)


def read_collection(source: ByteSource, value_type: int, *, valkey: bool) -> Iterator[Collection | None]:
    """Read a value: yields None between steps, and the value last.

    Raises:
        RdbError: the data is damaged.
    """
    return _READERS[value_type](source, value_type, valkey)


def type_of(value: Collection, version: int) -> int:
    """Return the type byte under which readers of an RDB version understand a value."""
    return _WRITERS[type(value)][0](value, version)


def encode_collection(value: Collection, value_type: int) -> Iterator[bytes]:
    """Yield what follows the key, in pieces."""
    return _WRITERS[type(value)][1](value, value_type)
