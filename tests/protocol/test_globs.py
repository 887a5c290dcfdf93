from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.globs import is_glob, matcher, matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (b"", b"", True),
        (b"", b"a", False),
        (b"*", b"", False),
        (b"*", b"any\nthing", True),
        (b"abc", b"abc", True),
        (b"abc", b"ABC", False),
        (b"a*", b"abc", True),
        (b"a*", b"ba", False),
        (b"*c", b"abc", True),
        (b"*c", b"abcd", False),
        (b"a**c", b"abbc", True),
        (b"a?c", b"abc", True),
        (b"a?c", b"a\nc", True),
        (b"a?c", b"ac", False),
        (b"a[bc]d", b"acd", True),
        (b"a[^bc]d", b"acd", False),
        (b"a[^bc]d", b"aed", True),
        (b"[a-c]", b"b", True),
        (b"[c-a]", b"b", True),
        (b"[a-c]", b"d", False),
        (b"[-]", b"-", True),
        (b"[a\\]b]", b"]", True),
        (b"[\\a-c]", b"b", False),
        (b"[\\a-c]", b"-", True),
        (b"[abc", b"b", True),
        (b"[a-", b"-", True),
        (b"[", b"[", False),
        (b"[]", b"]", False),
        (b"[]a]", b"a]", False),
        (b"[^]", b"x", True),
        (b"\\*", b"*", True),
        (b"\\*", b"a", False),
        (b"a\\", b"a\\", True),
        (b"a.c", b"abc", False),
        (b"\xff*", b"\xff\x00", True),
        (b"user:*:events", b"user:7:events", True),
        (b"*ab*ba*", b"abba", True),
        (b"*ab*ba*", b"aba", False),
        (b"h[a-b]llo*", b"hbllo", True),
    ],
)
def test_a_pattern_fits_what_redis_says(pattern, text, expected):
    assert matches(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "text"), [(b"TIME*", b"timeout"), (b"[A-C]x", b"BX"), (b"abc", b"aBc"), (b"[A-C]", b"b")]
)
def test_case_is_folded_on_request(pattern, text):
    assert matches(pattern, text, ignore_case=True)
    assert not matches(pattern, text)


def test_letters_beyond_ascii_are_not_folded():
    assert not matches(b"\xe9*", b"\xc9a", ignore_case=True)


def test_many_stars_cost_no_exponential_time():
    assert not matches(b"a*" * 200 + b"b", b"a" * 3000)
    assert not matches(b"*a" * 200 + b"?b", b"a" * 3000, ignore_case=True)


def test_a_matcher_can_be_used_again():
    fits = matcher(b"k[0-9]*")
    assert [bool(fits(b"k1")), bool(fits(b"kx")), bool(fits(b"k22"))] == [True, False, True]


def test_a_backslash_alone_is_no_glob_for_config_get():
    assert is_glob(b"a*")
    assert is_glob(b"a?")
    assert is_glob(b"a[")
    assert not is_glob(b"a\\b")


def by_trying(pattern, text):
    """The plain recursive reading of the pattern."""

    @cache
    def walk(p, t):
        if p == len(pattern):
            return t == len(text)
        byte = pattern[p : p + 1]
        if byte == b"*":
            return walk(p + 1, t) or (t < len(text) and walk(p, t + 1))
        if t == len(text):
            return False
        if byte == b"?":
            return walk(p + 1, t + 1)
        if byte == b"\\" and p + 1 < len(pattern):
            p += 1
            byte = pattern[p : p + 1]
        return byte == text[t : t + 1] and walk(p + 1, t + 1)

    return walk(0, 0)


@given(st.binary(max_size=12).map(lambda b: bytes(b"ab*?\\"[x % 5] for x in b)), st.text("ab*", max_size=10))
def test_stars_are_bound_as_trying_everything_would(pattern, text):
    assert matches(pattern, text.encode()) == by_trying(pattern, text.encode())
