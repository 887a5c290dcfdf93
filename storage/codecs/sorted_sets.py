"""Sorted sets in RDB: reads every form that Redis ever wrote, and writes the second.

3    the number of members, then each as a string, followed by its score as text: a byte with the length of the text
(253: not a number, 254: infinite, 255: negatively infinite, all without text)
5    the same, with scores as eight bytes, little-endian
12   one ziplist, members and scores alternating
17   one listpack, members and scores alternating
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import copysign, inf, isnan, nan
from struct import Struct
from typing import Final

from ...protocol.replies import format_double
from ..collections.sorted_set import LISTPACK, SKIPLIST, SortedSet
from ..loading import RdbError
from . import listpack, ziplist
from .byte_source import ByteSource, EmptyValueError
from .codec import PLAIN, Codec, Writing
from .encoding import encode_length, read_length, read_string

SORTED_SET_TYPES: Final = (3, 5, 12, 17)
_FIRST_WITH_LISTPACKS: Final = 10  # version of RDB
_SCORE: Final = Struct("<d")
_SPECIAL: Final = {253: nan, 254: inf, 255: -inf}
_PAUSE: Final = 1024  # members


def read_sorted_set(source: ByteSource, value_type: int, valkey: bool) -> Iterator[SortedSet | None]:
    """Read the sorted set after a key: yield None between steps, and the sorted set last.

    Raises RdbError: it is damaged, or holds a member twice, no member, or a score that is not a number.
    """
    del valkey  # Valkey writes sorted sets as Redis does
    scores: dict[bytes, float] = {}
    if value_type in {12, 17}:
        data = read_string(source)
        elements: Sequence[bytes | int] = (ziplist if value_type == 12 else listpack).unpack(data)
        count = len(elements) // 2
        is_empty = not count and value_type == 17  # one word alone is no member
        if len(elements) % 2 and not is_empty:
            raise RdbError("A sorted set with a member that has no score")
        for member, score in zip(elements[: 2 * count : 2], elements[1::2], strict=True):
            scores[b"%d" % member if isinstance(member, int) else member] = _number(score)
    else:
        count = read_length(source)
        for number in range(count):
            member = read_string(source)
            scores[member] = _old_score(source) if value_type == 3 else _SCORE.unpack(source.take(8))[0]
            if number % _PAUSE == _PAUSE - 1:
                yield None
    if not count:
        raise EmptyValueError("A sorted set without members")
    if len(scores) != count:
        raise RdbError("A sorted set with a member that stands there twice")
    if any(map(isnan, scores.values())):
        raise RdbError("A sorted set with a score that is not a number")
    found = SortedSet(scores)
    found.encoding = LISTPACK if value_type in {12, 17} else SKIPLIST
    yield found


def _number(score: bytes | int) -> float:
    try:
        return float(score)
    except ValueError:
        raise RdbError("A sorted set with a score that is not a number") from None


def _old_score(source: ByteSource) -> float:
    size = source.byte()
    return _SPECIAL[size] if size in _SPECIAL else _number(source.take(size))


def sorted_set_type(value: SortedSet, version: int) -> int:
    """Return the type byte for sorted sets: 5, known since Redis 4.0.

    A listpack that contains the score -0, which only a loaded file can bring, gets 17 (a listpack, since RDB 10),
    because
    Redis would read -0 in the eight bytes of type 5 as 0.
    """
    has_negative_zero = value.encoding is LISTPACK and any(
        not score and copysign(1, score) < 0 for score in value.scores.values()
    )
    return 17 if has_negative_zero and version >= _FIRST_WITH_LISTPACKS else 5


def encode_sorted_set(value: SortedSet, value_type: int, writing: Writing = PLAIN) -> Iterator[bytes]:
    """Yield the RDB form of a sorted set in pieces, the bytes that follow its key.

    The highest score comes first, as in Redis.
    """
    if value_type == 17:
        pairs = value.slice(0, len(value), reverse=False)
        words = [word for score, member in pairs for word in (member, format_double(score))]
        yield writing.string(listpack.pack(list(map(listpack.text, words))))
        return
    yield encode_length(len(value))
    items = value.slice(0, len(value), reverse=True)
    encode = writing.string
    while some := b"".join([encode(member) + _SCORE.pack(score) for score, member in islice(items, _PAUSE)]):
        yield some


CODEC: Final[Codec[SortedSet]] = Codec(SORTED_SET_TYPES, read_sorted_set, sorted_set_type, encode_sorted_set)
