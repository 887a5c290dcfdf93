"""Find the shortest digits of doubles with Grisu2, the algorithm that Redis uses.

For about one number in a thousand Grisu2 finds more digits than needed: 1e+23 becomes 16 nines. The paper is
"Printing Floating-Point Numbers Quickly and Accurately with Integers" by Florian Loitsch, 2010.
"""

from __future__ import annotations

from functools import cache
from math import frexp
from typing import Final

_HIDDEN: Final = 1 << 52
_MIN_EXPONENT: Final = -1074
_BITS: Final = 64
# The cached powers of ten are _STEP apart. The range of the scaled exponent leaves 32 bits for whole digits.
_FIRST_POWER: Final = -348
_STEP: Final = 8
_POWERS: Final = 87
_LOG10_OF_2: Final = 0.30102999566398114
_LEAST: Final = -60
_MOST: Final = -32


@cache
def _power_of_ten(index: int) -> tuple[int, int]:
    """Return a power of ten as a mantissa of 64 bits and an exponent of two, rounded to nearest."""
    power = _FIRST_POWER + index * _STEP
    if power >= 0:
        numerator, denominator = 10**power, 1
    else:
        numerator, denominator = 1, 10**-power
    shift = _BITS - (numerator.bit_length() - denominator.bit_length())
    while True:
        scaled = numerator << max(shift, 0)
        divisor = denominator << max(-shift, 0)
        mantissa = (2 * scaled + divisor) // (2 * divisor)
        if mantissa < 1 << _BITS:
            return mantissa, -shift
        shift -= 1


def _scaled(mantissa: int, power: int) -> int:
    """Multiply two mantissas of 64 bits and round to the upper 64."""
    return (mantissa * power + (1 << _BITS - 1)) >> _BITS


def _find_power(exponent: int) -> int:
    index = int((int(-(exponent + _POWERS) * _LOG10_OF_2) - _FIRST_POWER) / _STEP)
    while True:
        current = exponent + _power_of_ten(index)[1] + _BITS
        if current < _LEAST:
            index += 1
        elif current > _MOST:
            index -= 1
        else:
            return index


def digits_of(value: float) -> tuple[str, int]:
    """Return the decimal digits of a positive finite number, and the power of ten of the last digit."""
    fraction, exponent = frexp(value)
    exponent -= 53
    mantissa = int(fraction * (1 << 53))
    if exponent < _MIN_EXPONENT:
        mantissa >>= _MIN_EXPONENT - exponent
        exponent = _MIN_EXPONENT
    # The boundaries are halfway to the neighbours; below a power of two the neighbour is nearer.
    upper = 2 * mantissa + 1
    shift = _BITS - upper.bit_length()
    upper_exponent = exponent - 1 - shift
    upper <<= shift
    closer = 2 if mantissa == _HIDDEN else 1
    lower = ((mantissa << closer) - 1) << (exponent - closer - upper_exponent)
    middle = mantissa << (exponent - upper_exponent)
    index = _find_power(upper_exponent)
    power, power_exponent = _power_of_ten(index)
    # The scaled boundaries may be wrong by one; digits must lie safely between them.
    middle = _scaled(middle, power)
    upper = _scaled(upper, power) - 1
    lower = _scaled(lower, power) + 1
    places = -(upper_exponent + power_exponent + _BITS)
    digits, last = _generate(middle, upper, upper - lower, places)
    return "".join(map(str, digits)), last - (_FIRST_POWER + index * _STEP)


def _generate(middle: int, upper: int, delta: int, places: int) -> tuple[list[int], int]:
    """Return the fewest leading digits of ``upper`` that lie within ``delta`` of it, and the power of the last digit."""
    one = 1 << places
    distance = upper - middle
    whole, part = upper >> places, upper & (one - 1)
    digits: list[int] = []
    for power in range(9, -1, -1):
        divisor = 10**power
        digit, whole = divmod(whole, divisor)
        if digit or digits:
            digits.append(digit)
        rest = (whole << places) + part
        if rest <= delta:
            return _rounded(digits, delta, rest, divisor << places, distance), power
    power = 0
    while True:
        part *= 10
        delta *= 10
        distance *= 10
        power -= 1
        digit = part >> places
        if digit or digits:
            digits.append(digit)
        part &= one - 1
        if part < delta:
            return _rounded(digits, delta, part, one, distance), power


def _rounded(digits: list[int], delta: int, rest: int, unit: int, distance: int) -> list[int]:
    """Lower the last digit as long as that brings the number closer to the exact value."""
    while (
        rest < distance
        and delta - rest >= unit
        and (rest + unit < distance or distance - rest > rest + unit - distance)
    ):
        digits[-1] -= 1
        rest += unit
    return digits
