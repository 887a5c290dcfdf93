"""Listpacks: the packed lists of integers and strings in which Redis keeps a run of stream entries.

Six bytes of header (total bytes, number of elements: 65535 if there are more), the elements, 0xFF. An element is a
head with its type and length, the content, and its own length once more for walking backwards.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from .source import RdbError

Element: TypeAlias = int | bytes

HEADER_BYTES: Final = 6
_END: Final = 0xFF
_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_SMALL: Final = tuple(bytes((value, 1)) for value in range(128))
_HEADS: Final = tuple(bytes((0x80 | size,)) for size in range(64))
_TAILS: Final = tuple(bytes((size + 1,)) for size in range(64))
_BROKEN: Final = "Stream listpack integrity check failed."


def pack(elements: list[bytes]) -> bytes:
    """A listpack of elements that ``integer`` and ``text`` have encoded."""
    body = b"".join(elements)
    count = min(len(elements), 65535)
    return b"%b%b%b\xff" % (
        (len(body) + HEADER_BYTES + 1).to_bytes(4, "little"),
        count.to_bytes(2, "little"),
        body,
    )


def integer(value: int) -> bytes:
    """An integer element; it fits in 64 bits."""
    if 0 <= value < 128:
        return _SMALL[value]
    if -4096 <= value < 4096:
        value &= 0x1FFF
        return bytes((0xC0 | value >> 8, value & 0xFF, 2))
    for head, size in ((b"\xf1", 2), (b"\xf2", 3), (b"\xf3", 4)):
        if -(1 << size * 8 - 1) <= value < 1 << size * 8 - 1:
            return head + value.to_bytes(size, "little", signed=True) + bytes((size + 1,))
    return b"\xf4" + value.to_bytes(8, "little", signed=True) + b"\x09"


def text(word: bytes) -> bytes:
    """A string element; what looks like an integer becomes one, as in Redis."""
    size = len(word)
    # What may be an integer begins with a digit or "-" and comes before ":"; most text does not.
    if word < b":" and size < 21 and _INTEGER.match(word):
        value = int(word)
        if -(1 << 63) <= value < 1 << 63:
            return integer(value)
    if size < 64:
        return _HEADS[size] + word + _TAILS[size]
    if size < 4096:
        return bytes((0xE0 | size >> 8, size & 0xFF)) + word + _backwards(size + 2)
    return b"\xf0" + size.to_bytes(4, "little") + word + _backwards(size + 5)


def texts(words: list[bytes]) -> list[bytes]:
    """As ``text`` of each, with less work for what most words are."""
    heads, tails = _HEADS, _TAILS
    return [
        heads[size] + word + tails[size] if (size := len(word)) < 64 and word >= b":" else text(word)
        for word in words
    ]


def unpack(data: bytes) -> list[Element]:
    """The elements of a listpack.

    Raises:
        RdbError: it is damaged.
    """
    end = len(data) - 1
    if end < HEADER_BYTES or int.from_bytes(data[:4], "little") != len(data) or data[end] != _END:
        raise RdbError(_BROKEN)
    found: list[Element] = []
    add = found.append
    at = HEADER_BYTES
    while at < end:
        head = data[at]
        if head < 0x80:
            add(head)
            at += 2
        elif head < 0xC0:
            stop = at + 1 + (head & 0x3F)
            add(data[at + 1 : stop])
            at = stop + 1
        elif head < 0xE0:
            value = (head & 0x1F) << 8 | data[at + 1]
            add(value - 8192 if value >= 4096 else value)
            at += 3
        elif head < 0xF0:
            size = (head & 0x0F) << 8 | data[at + 1]
            stop = at + 2 + size
            add(data[at + 2 : stop])
            at = stop + _backwards_size(size + 2)
        elif head == 0xF0:
            size = int.from_bytes(data[at + 1 : at + 5], "little")
            stop = at + 5 + size
            add(data[at + 5 : stop])
            at = stop + _backwards_size(size + 5)
        elif head < 0xF5:
            size = 8 if head == 0xF4 else head - 0xEF
            add(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
            at += size + 2
        else:
            raise RdbError(_BROKEN)
    count = int.from_bytes(data[4:6], "little")
    if at != end or count not in {65535, len(found)}:
        raise RdbError(_BROKEN)
    return found


def _backwards_size(size: int) -> int:
    if size <= 127:
        return 1
    if size < 16383:
        return 2
    if size < 2097151:
        return 3
    return 4 if size < 268435455 else 5


def _backwards(size: int) -> bytes:
    """The length at the end of an element: seven bits a byte, the highest first, all but the first one marked."""
    count = _backwards_size(size)
    return bytes(
        (size >> 7 * place & 0x7F) | (0x80 if place < count - 1 else 0) for place in range(count - 1, -1, -1)
    )
