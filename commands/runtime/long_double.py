"""Convert decimal text to x86's 80-bit floating point and back, for INCRBYFLOAT.

Python has no such type, so a number is a Fraction rounded to a value of the type. This reproduces every digit of
Redis: ``10.1 + 0.2`` is ``10.3``, unlike with doubles.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_MANTISSA_BITS: Final = 64
_MIN_EXPONENT: Final = -16382
_LIMIT: Final = Fraction(1 << 16384)
_MAX_TEXT: Final = 5 * 1024
_FRACTION_DIGITS: Final = 17
_DECIMAL: Final = re.compile(rb"([+-]?)(?=\.?[0-9])([0-9]*)\.?([0-9]*)(?:[eE]([+-]?)0*([0-9]+))?\Z")
_HEXADECIMAL: Final = re.compile(
    rb"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?)0*([0-9]+))?\Z"
)
_INFINITE: Final = re.compile(rb"[+-]?inf(?:inity)?\Z", re.IGNORECASE)
# Python refuses to convert texts longer than 4300 digits; numbers are converted in pieces of this size.
_PIECE: Final = 4000


class NotFiniteError(ArithmeticError):
    """The number is infinite."""


def parse(text: bytes) -> Fraction:
    """Parse a number as C's strtold does: decimal or hexadecimal, rounded to nearest, nothing around it.

    Raises:
        NotFiniteError: for the word "inf".
        ValueError: the text is not a number, is NaN, or is out of the range of the type.
    """
    if len(text) >= _MAX_TEXT:
        raise ValueError("too long")
    if _INFINITE.match(text):
        raise NotFiniteError
    if found := _DECIMAL.match(text):
        sign, whole, fraction, exponent_sign, exponent = found.groups()
        digits, base, shift = _integer(whole + fraction), 10, -len(fraction)
    elif found := _HEXADECIMAL.match(text):
        sign, whole, fraction, exponent_sign, exponent = found.groups()
        digits, base, shift = int(whole + fraction, 16), 2, -4 * len(fraction)
    else:
        raise ValueError("not a number")
    if digits == 0:
        return Fraction(0)
    if exponent:
        if len(exponent) > 6:
            raise ValueError("out of range")
        shift += -int(exponent) if exponent_sign == b"-" else int(exponent)
    if abs(shift) > 4 * _MAX_TEXT + 20_000:
        raise ValueError("out of range")
    try:
        number = _rounded(digits * Fraction(base) ** shift)
    except NotFiniteError as error:
        raise ValueError("out of range") from error
    if not number:
        raise ValueError("out of range")
    return -number if sign == b"-" else number


def add(first: Fraction, second: Fraction) -> Fraction:
    """Return the sum of two numbers, rounded as x86 rounds it; raise NotFiniteError on overflow."""
    total = first + second
    return -_rounded(-total) if total < 0 else _rounded(total)


def format_fixed(number: Fraction) -> bytes:
    """Format a number with up to 17 digits after the point, without trailing zeros or an exponent."""
    scaled = round(abs(number) * 10**_FRACTION_DIGITS)
    whole, fraction = divmod(scaled, 10**_FRACTION_DIGITS)
    text = _decimal(whole)
    if fraction:
        text += b"." + (b"%017d" % fraction).rstrip(b"0")
    return b"-" + text if number < 0 and scaled else text


def _rounded(number: Fraction) -> Fraction:
    """Round a non-negative number half to even, to 64 bits of mantissa."""
    if not number:
        return number
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    if number < _power_of_two(exponent):
        exponent -= 1
    unit = _power_of_two(max(exponent, _MIN_EXPONENT) - _MANTISSA_BITS + 1)
    result = round(number / unit) * unit
    if result >= _LIMIT:
        raise NotFiniteError
    return result


def _power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _integer(digits: bytes) -> int:
    number = 0
    for start in range(0, len(digits), _PIECE):
        piece = digits[start : start + _PIECE]
        number = number * 10 ** len(piece) + int(piece)
    return number


def _decimal(number: int) -> bytes:
    higher, lower = divmod(number, 10**_PIECE)
    return b"%d%0*d" % (higher, _PIECE, lower) if higher else b"%d" % lower
