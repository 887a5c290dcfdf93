"""``atoi`` beside what C's answers."""

import pytest

from rillet.protocol.atoi import atoi


@pytest.mark.parametrize(
    ("word", "number"),
    [
        (b"", 0), (b"x1", 0), (b"-", 0), (b"0", 0), (b"-0", 0), (b" \t\n\v\f\r+12x", 12), (b"-12 3", -12),
        (b"2147483648", -(1 << 31)), (b"4294967297", 1), (b"9223372036854775807", -1), (b"9223372036854775808", -1),
        (b"-9223372036854775809", 0), (b"9" * 5000, -1), (b"-" + b"9" * 5000, 0), (b"0" * 5000 + b"7", 7),
    ],
)  # fmt: skip
def test_a_number_is_read_as_in_c(word, number):
    assert atoi(word) == number
