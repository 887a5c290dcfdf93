import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.inline import quote
from rillet.protocol.inline import split_inline as split


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b"  a \t b  ", [b"a", b"b"]),
        (b'a ""', [b"a", b""]),
        (b"a ''", [b"a", b""]),
        (b'"a b" c', [b"a b", b"c"]),
        (rb'"\x41\n\r\t\b\a\z\"\\"', [b'A\n\r\t\b\az"\\']),
        (rb'"\xg1"', [b"xg1"]),
        (rb"'a\'b' '\n'", [b"a'b", rb"\n"]),
        (b'ab"cd"', [b"abcd"]),
    ],
)
def test_a_line_falls_into_words(line, words):
    assert split(line) == words


@pytest.mark.parametrize("line", [b'"abc', b"'abc", b'"a"b', b"'a'b", b'"a""b"', b"'a\\'", b'"a\\"', b'a "'])
def test_unbalanced_quotes_are_reported(line):
    assert split(line) is None


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_quoted_words_come_back(words):
    line = b" ".join(map(quote, words))
    assert line.isascii()
    assert b"\n" not in line
    assert split(line) == words
