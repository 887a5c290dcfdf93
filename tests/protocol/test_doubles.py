"""Doubles; scripts/newer/spellings.script has them beside Redis."""

from decimal import Decimal
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.commands.runtime.arguments import parse_double
from rillet.protocol import grisu, replies
from rillet.protocol.replies import double, format_double

# What Redis and Valkey answer; 1e+23 lies at the border to the next double, 837822222612584.3 is as near as …4.2.
SPELLINGS = {
    0.0: "0", 1.0: "1", -3.0: "-3", 0.1: "0.1", -0.25: "-0.25", 123456.789: "123456.789", 0.001: "0.001",
    0.00012: "0.00012", 0.0003: "0.0003", 0.0001234: "1.234e-4", 1e-5: "0.00001", 1.5e-5: "0.000015",
    1e-6: "0.000001", 1.2e-6: "1.2e-6", 1e-7: "1e-7", 1.234567e-6: "1.234567e-6",
    82084.50815375287: "8.208450815375287e+4", 8208.450815375287: "8208.450815375287",
    1700000000.123456: "1700000000.123456", 1700000000.1234567: "1.7000000001234567e+9", 1e16: "10000000000000000",
    1e18: "1000000000000000000", 123456789012345678.0: "123456789012345680",
    4611686018427387904.0: "4611686018427387904", 4.7e18: "4.7e+18", 1e19: "1e+19", 1.5e22: "1.5e+22",
    1.2345678901234567e19: "12345678901234567000", 1.2345678901234567e23: "123456789012345670000000",
    1.2345678901234567e24: "1.2345678901234568e+24", -1.5e300: "-1.5e+300",
    99999999999999999999999.0: "99999999999999990000000", 837822222612584.25: "837822222612584.3",
    1946851776402018.75: "1946851776402018.7", 5e-324: "5e-324", inf: "inf", -inf: "-inf",
}  # fmt: skip


@pytest.mark.parametrize("value", SPELLINGS)
def test_a_double_is_spelled_as_by_redis(value):
    assert format_double(value) == SPELLINGS[value].encode()


@pytest.mark.parametrize("word", [b"+5", b".5", b"5.", b"1e2", b"1E-1", b"-0", b"0e999", b"iNf"])
def test_redis_takes_other_spellings(word):
    assert parse_double(word, rounds=True) == parse_double(word, rounds=False) == float(word)


def test_what_is_no_number_and_the_negative_zero_have_spellings_too():
    assert format_double(nan) == b"nan"
    assert format_double(-0.0) == b"-0"
    assert double(1.5, 3) == b",1.5\r\n"
    assert double(1.5, 2) == b"$3\r\n1.5\r\n"


@given(st.floats(allow_nan=False))
def test_every_spelling_is_read_back(value):
    assert parse_double(format_double(value), rounds=False) == value


@given(st.floats(min_value=1e-6, max_value=1e18, allow_nan=False))
def test_the_fast_way_finds_the_digits_of_grisu2(value):
    text = repr(value)
    if "e" not in text and replies._is_well_inside(value, text):
        digits, power = grisu.digits_of(value)
        assert Decimal(text) == Decimal(f"{digits}e{power}")
