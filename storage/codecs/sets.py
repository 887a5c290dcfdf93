"""Sets in RDB: reads every form that Redis ever wrote, and writes the first, or a listpack to keep this encoding.

2    the number of members, then each as a string
11   one intset: bytes per integer and number of integers (four bytes each), then the integers, all little-endian
20   one listpack, since RDB 11
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import calcsize, pack
from typing import Final

from ..collections.set import HASHTABLE, INTSET, LISTPACK, Set, is_integer
from ..loading import RdbError
from . import listpack
from .byte_source import ByteSource, EmptyValueError
from .codec import PLAIN, Codec, Writing
from .encoding import encode_length, read_length, read_string

SET_TYPES: Final = (2, 11, 20)
_INTSET_HEADER: Final = 8
_PAUSE: Final = 1024  # members
_FIRST_WITH_LISTPACKS: Final = 11  # version of RDB


def read_set(source: ByteSource, value_type: int, valkey: bool) -> Iterator[Set | None]:
    """Read the set after a key: yield None between steps, and the set last.

    Raises RdbError: it is damaged, or holds a member twice, or no member: Redis has no empty sets.
    """
    del valkey  # Valkey writes sets as Redis does
    members: list[bytes] = []
    if value_type == 11:
        members = _unpack_intset(read_string(source))
        encoding = INTSET
    elif value_type == 20:
        members = [
            b"%d" % element if isinstance(element, int) else element
            for element in listpack.unpack(read_string(source))
        ]
        encoding = LISTPACK
    else:
        encoding = HASHTABLE
        for number in range(read_length(source)):
            members.append(read_string(source))
            if number % _PAUSE == _PAUSE - 1:
                yield None
    found = Set(members, encoding)
    if not members and value_type != 11:  # Redis refuses an empty intset
        raise EmptyValueError("A set without members")
    if not members or len(found) != len(members):
        raise RdbError("A set without members, or with one that stands there twice")
    yield found


def _unpack_intset(data: bytes) -> list[bytes]:
    size = int.from_bytes(data[:4], "little")
    count = int.from_bytes(data[4:8], "little")
    if size not in {2, 4, 8} or len(data) != _INTSET_HEADER + count * size:
        raise RdbError("Intset integrity check failed.")
    return [
        b"%d" % int.from_bytes(data[at : at + size], "little", signed=True)
        for at in range(_INTSET_HEADER, len(data), size)
    ]


def _pack_intset(numbers: list[int]) -> bytes:
    """Pack sorted integers, each in as many bytes as the largest needs."""
    span = max(-numbers[0] - 1, numbers[-1]) if numbers else 0
    code = "h" if span < 1 << 15 else "i" if span < 1 << 31 else "q"
    return pack(f"<II{len(numbers)}{code}", calcsize(f"<{code}"), len(numbers), *numbers)


def set_type(value: Set, version: int) -> int:
    """Return the type byte for a set: 2, known to all versions, unless it would be loaded in another encoding.

    A listpack that has only integers left would become an intset.
    """
    if value.encoding is INTSET:
        return 11
    is_listpack = value.encoding is LISTPACK and version >= _FIRST_WITH_LISTPACKS
    return 20 if is_listpack and all(map(is_integer, value.members)) else 2


def encode_set(value: Set, value_type: int, writing: Writing = PLAIN) -> Iterator[bytes]:
    """Yield the RDB form of a set in pieces: the bytes that follow its key."""
    if value_type == 11:
        yield writing.string(_pack_intset(sorted(map(int, value))))
        return
    if value_type == 20:
        yield writing.string(listpack.pack(list(map(listpack.text, value))))
        return
    yield encode_length(len(value))
    members = iter(value)
    while some := b"".join(map(writing.string, islice(members, _PAUSE))):
        yield some


CODEC: Final[Codec[Set]] = Codec(SET_TYPES, read_set, set_type, encode_set)
