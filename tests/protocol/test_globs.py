from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.globs import is_glob, matcher, matches


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        (b"", [b""], [b"a"]), (b"*", [b"any\nthing"], [b""]), (b"abc", [b"abc"], [b"ABC"]),
        (b"a*", [b"abc"], [b"ba"]), (b"*c", [b"abc"], [b"abcd"]), (b"a**c", [b"abbc"], []),
        (b"a?c", [b"abc", b"a\nc"], [b"ac"]), (b"a[bc]d", [b"acd"], []), (b"a[^bc]d", [b"aed"], [b"acd"]),
        (b"[a-c]", [b"b"], [b"d"]), (b"[c-a]", [b"b"], []), (b"[-]", [b"-"], []), (b"[a\\]b]", [b"]"], []),
        (b"[\\a-c]", [b"-"], [b"b"]), (b"[abc", [b"b"], []), (b"[a-", [b"-"], []), (b"[", [], [b"["]),
        (b"[]", [], [b"]"]), (b"[]a]", [], [b"a]"]), (b"[^]", [b"x"], []), (b"\\*", [b"*"], [b"a"]),
        (b"a\\", [b"a\\"], []), (b"a.c", [], [b"abc"]), (b"\xff*", [b"\xff\x00"], []),
        (b"user:*:events", [b"user:7:events"], []), (b"*ab*ba*", [b"abba"], [b"aba"]),
        (b"h[a-b]llo*", [b"hbllo"], []),
    ],
)  # fmt: skip
def test_a_pattern_fits_what_redis_says(pattern, fitting, others):
    assert [text for text in fitting + others if matches(pattern, text)] == fitting


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
