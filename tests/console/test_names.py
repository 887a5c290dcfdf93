"""Bytes for people and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.console.names import VALUE_CHARACTERS, command_line, name, quote, split_line, unquote, value

words = st.one_of(
    st.binary(max_size=60), st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
)


@given(words)
def test_a_word_comes_back_from_its_quotes(word):
    assert unquote(quote(word)) == word
    assert quote(word).isprintable()


@given(st.lists(words, min_size=1, max_size=6))
def test_a_command_line_splits_into_its_words(command):
    assert split_line(command_line(command)) == command


@given(st.text(max_size=80))
def test_any_line_is_split_or_refused(line):
    try:
        found = split_line(line)
    except ValueError:
        return
    assert split_line(command_line(found)) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("DEL foo\u00a0bar", ["DEL", "foo\u00a0bar"]), ("a\u2003b\u2028c\x1cd\x85e", ["a\u2003b\u2028c\x1cd\x85e"]),
        ("\ta\vb\fc\r\nd ", ["a", "b", "c", "d"]), ('foo"bar baz" x', ["foobar baz", "x"]),
        ("foo'bar baz' x", ["foobar baz", "x"]), ("it\\n", ["it\\n"]), ("'a\\'b' 'c\\d' 'e\\\\'", ["a'b", "c\\d", None]),
        ("\"\" ''", ["", ""]), ('"a\\n\\x41\\""', ['a\nA"']), ("\"a'b\" 'a\"b'", ["a'b", 'a"b']),
    ],
)  # fmt: skip
def test_a_line_is_split_as_redis_cli_splits_it(line, found):
    if None in found:  # the last quote is escaped, so that it closes nothing
        with pytest.raises(ValueError, match="not closed"):
            split_line(line)
    else:
        assert split_line(line) == [word.encode() for word in found]


@pytest.mark.parametrize(
    "line", ['a"b', "it's", '"a"b', "'a'b", 'a"b"c', "\"a\"'b'", '"a"\u00a0b', '"a\\"', "'a\\'"]
)
def test_a_line_with_unbalanced_quotes_is_refused(line):
    with pytest.raises(ValueError, match="quote"):
        split_line(line)


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (b"orders", "orders"), ("größe".encode(), "größe"), (b"two words", '"two words"'), (b"", '""'),
        (b"\xff\x00", '"\\xff\\x00"'), (b"it's", '"it\'s"'), ("a\u202eb".encode(), '"a\\xe2\\x80\\xaeb"'),
    ],
)  # fmt: skip
def test_a_word_is_quoted_only_where_it_must_be(word, shown):
    assert quote(word) == shown


@pytest.mark.parametrize("text", ['"open', '"a"b"', '"a\\"'])
def test_quotes_that_are_not_closed_are_refused(text):
    with pytest.raises(ValueError, match="quote"):
        unquote(text)


@given(st.binary(max_size=5000))
def test_a_value_is_shown_printable_and_bounded(raw):
    shown = value(raw)
    assert len(shown.text) <= VALUE_CHARACTERS
    assert all(c.isprintable() or c in "\n\t" for c in shown.text)
    assert shown.size == len(raw)


def test_a_big_value_is_cut_and_its_size_is_said():
    shown = value(b"x" * 10_000_000)
    assert (len(shown.text), shown.size, shown.cut) == (VALUE_CHARACTERS, 10_000_000, True)


def test_a_cut_between_the_bytes_of_a_character_makes_no_binary_of_a_text():
    raw = b"a" + "€".encode() * 10_000
    assert not value(raw).binary
    assert value(b"\xff" + raw).binary


def test_a_long_name_is_cut_and_its_size_is_said():
    assert name(b"k" * 1_000_000).endswith("… (1,000,000 bytes)")
