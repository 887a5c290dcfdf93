"""Long doubles; scripts/newer/spellings.script has INCRBYFLOAT beside Redis."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.commands.runtime.long_double import add, format_fixed, parse


def total(*texts):
    result = parse(texts[0])
    for text in texts[1:]:
        result = add(result, parse(text))
    return format_fixed(result)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # Observed from Redis 7.0.15.
        ((b"10.1", b"0.2"), b"10.3"),
        ((b"915", b"0.1"), b"915.09999999999999998"),
        ((b"0", b"3.0e3"), b"3000"),
        ((b"0", b"1.2345678901234567890123"), b"1.23456789012345679"),
        ((b"3000", b"0x10"), b"3016"),
        ((b"0", b"-0.000000000000000001"), b"0"),
        ((b"5", b".5", b"5."), b"10.5"),
        ((b"0", b"+5"), b"5"),
        ((b"0", b"-0"), b"0"),
        ((b"10.3", b"-10.3"), b"0"),
        ((b"0", b"0x1.8p1"), b"3"),
        ((b"0", b"0e999999999"), b"0"),
        ((b"-1.5", b"0"), b"-1.5"),
    ],
)
def test_sums_as_redis_prints_them(texts, expected):
    assert total(*texts) == expected


def test_the_smallest_numbers_lose_digits_before_they_vanish():
    assert parse(b"3.6451995318824746025e-4951") == Fraction(1, 1 << 16445)


@given(st.integers(-(1 << 63), 1 << 63), st.integers(-(1 << 63), 1 << 63))
def test_integers_of_64_bits_are_exact(first, second):
    assert parse(b"%d" % first) == first
    if abs(first + second) <= 1 << 64:
        assert format_fixed(add(parse(b"%d" % first), parse(b"%d" % second))) == b"%d" % (first + second)


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x == 0 or abs(x) > 1e-300))
def test_every_double_fits_in_the_type(number):
    assert parse(number.hex().encode()) == Fraction(number)
