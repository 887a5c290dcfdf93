"""The number of bytes of an element in a listpack of Redis."""

from __future__ import annotations

import re
from typing import Final

_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
LONG_TEXT: Final = 64
_ZERO: Final = 0x30
_MINUS: Final = 0x2D

# By number of digits: a bound, the bytes of an integer up to it, and the bytes of a greater one.
_DIGITS: Final = (
    (b"", 0, 0), (b"9", 2, 2), (b"99", 2, 2), (b"127", 2, 3), (b"4095", 3, 4), (b"32767", 4, 5), (b"999999", 5, 5),
    (b"8388607", 5, 6), (b"99999999", 6, 6), (b"999999999", 6, 6), (b"2147483647", 6, 10),
    *[(b"9" * digits, 10, 10) for digits in range(11, 19)],
)  # fmt: skip


def integer_size(value: int) -> int:
    """Return the bytes of an integer's element in a listpack, including its back-length."""
    if 0 <= value <= 127:
        return 2
    if -4096 <= value <= 4095:
        return 3
    if -32768 <= value <= 32767:
        return 4
    if -8388608 <= value <= 8388607:
        return 5
    if -2147483648 <= value <= 2147483647:
        return 6
    return 10


def element_size(word: bytes) -> int:
    """Return the bytes of a string's element in a listpack; a string that looks like an integer is stored as one."""
    size = len(word)
    if 0 < size < 19 and word.isdigit():
        if word[0] != _ZERO or size == 1:
            greatest, bytes_, more = _DIGITS[size]
            return bytes_ if word <= greatest else more
    elif 0 < size < 21 and (word[0] == _MINUS or size > 18) and _INTEGER.match(word):
        value = int(word)
        if -(1 << 63) <= value < 1 << 63:
            return integer_size(value)
    return size + 2 if size < LONG_TEXT else long_text_size(size)


def long_text_size(size: int) -> int:
    """Return the bytes of the element for a string of ``size`` bytes, at least ``LONG_TEXT``."""
    size += 2 if size < 4096 else 5
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    return size + (4 if size < 268435455 else 5)
