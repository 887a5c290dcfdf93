"""Doubles: how Redis spells them, and which spellings it takes."""

from decimal import Decimal
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.commands.runtime.arguments import parse_double
from rillet.protocol import grisu, replies
from rillet.protocol.errors import ReplyError
from rillet.protocol.replies import double, format_double

# What Valkey 9.1 answers.
SPELLINGS = {
    0.0: "0",
    1.0: "1",
    -3.0: "-3",
    0.1: "0.1",
    -0.25: "-0.25",
    123456.789: "123456.789",
    0.001: "0.001",
    0.00012: "0.00012",
    0.0003: "0.0003",
    0.0001234: "1.234e-4",
    1e-5: "0.00001",
    1.5e-5: "0.000015",
    1e-6: "0.000001",
    1.2e-6: "1.2e-6",
    1e-7: "1e-7",
    1.234567e-6: "1.234567e-6",
    82084.50815375287: "8.208450815375287e+4",
    8208.450815375287: "8208.450815375287",
    1700000000.123456: "1700000000.123456",
    1700000000.1234567: "1.7000000001234567e+9",
    1e16: "10000000000000000",
    1e18: "1000000000000000000",
    123456789012345678.0: "123456789012345680",
    4611686018427387904.0: "4611686018427387904",
    4.7e18: "4.7e+18",
    1e19: "1e+19",
    1.5e22: "1.5e+22",
    1.2345678901234567e19: "12345678901234567000",
    1.2345678901234567e23: "123456789012345670000000",
    1.2345678901234567e24: "1.2345678901234568e+24",
    -1.5e300: "-1.5e+300",
    99999999999999999999999.0: "99999999999999990000000",  # 1e+23 lies at the border to the next double
    837822222612584.25: "837822222612584.3",  # as near as …4.2
    1946851776402018.75: "1946851776402018.7",
    5e-324: "5e-324",
    inf: "inf",
    -inf: "-inf",
}


@pytest.mark.parametrize("value", SPELLINGS)
def test_a_double_is_spelled_as_by_redis(value):
    assert format_double(value) == SPELLINGS[value].encode()


def test_what_is_no_number_and_the_negative_zero_have_spellings_too():
    assert format_double(nan) == b"nan"
    assert format_double(-0.0) == b"-0"
    assert double(1.5, 3) == b",1.5\r\n"
    assert double(1.5, 2) == b"$3\r\n1.5\r\n"


@given(st.floats(allow_nan=False))
def test_every_spelling_is_read_back(value):
    assert parse_double(format_double(value), rounds=False) == value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (b"+5", 5),
        (b".5", 0.5),
        (b"5.", 5),
        (b"1e2", 100),
        (b"1E-1", 0.1),
        (b"-0", 0),
        (b"0e999", 0),
        (b"iNf", inf),
    ],
)
def test_redis_takes_other_spellings(word, value):
    assert parse_double(word, rounds=True) == parse_double(word, rounds=False) == value


@pytest.mark.parametrize(
    "word",
    [
        b"",
        b" 1",
        b"1 ",
        b"1_0",
        b"1e",
        b"nan",
        b"-nan",
        b"1e400",
        b"-1e400",
        b"1e-400",
        b"x",
        b"+-1",
        b".",
        b"infi",
    ],
)
@pytest.mark.parametrize("rounds", [True, False])
def test_redis_refuses(word, rounds):
    with pytest.raises(ReplyError) as caught:
        parse_double(word, rounds=rounds)
    assert caught.value.text == b"ERR value is not a valid float"
    with pytest.raises(ReplyError) as caught:
        parse_double(word, b"ERR weight value is not a float", rounds=rounds)
    assert caught.value.text == b"ERR weight value is not a float"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (b"2e-324", 0),
        (b"1e-342", 0),
        (b"0.00000000000000000000001e-320", None),
        (b"0.1e-342", None),
        (b"1e-343", None),
        (b"1.7976931348623159e308", inf),
        (b"-2e308", -inf),
        (b"9999999999999999999e308", inf),
        (b"000000000000000000000002e308", inf),
        (b"2.000000000000000000e308", inf),
        (b"2.0000000000000000000e308", None),
        (b"0.2e309", inf),
        (b"2e" + b"0" * 5000 + b"308", inf),
        (b"2e309", None),
        (b"1e" + b"9" * 5000, None),
        (b"0x1p1024", None),
        (b"0x1p-1075", None),
    ],
)
def test_since_8_8_short_numbers_beyond_the_range_of_doubles_are_infinite_or_0(word, value):
    """As Redis 8.10.2 was seen to read each of them; 8.6.2 refuses all."""
    for rounds in (True, False):
        if rounds and value is not None:
            assert parse_double(word, rounds=True) == value
        else:
            with pytest.raises(ReplyError):
                parse_double(word, rounds=rounds)


@given(st.floats(min_value=1e-6, max_value=1e18, allow_nan=False))
def test_the_fast_way_finds_the_digits_of_grisu2(value):
    text = repr(value)
    if "e" not in text and replies._is_well_inside(value, text):
        digits, power = grisu.digits_of(value)
        assert Decimal(text) == Decimal(f"{digits}e{power}")
