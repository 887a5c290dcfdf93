"""Inline requests beside a slow reading of their rules; scripts/newer/requests.script has them beside Redis."""

from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.inline import quote, split_inline

pieces = st.lists(
    st.sampled_from([b"a", b"x4f", b" ", b"\t", b"\v", b'"', b"'", b"\\", b"\\x41", b"\\n", b"\xff", b"\r"])
)


@given(st.lists(st.binary()))
def test_words_quoted_with_hex_escapes_come_back_whole(words):
    line = b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"' for word in words)
    assert split_inline(line) == words


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_quoted_words_come_back(words):
    line = b" ".join(map(quote, words))
    assert line.isascii()
    assert b"\n" not in line
    assert split_inline(line) == words


@given(st.one_of(st.binary(), pieces.map(b"".join)))
def test_any_line_splits_as_one_character_after_the_other_would(line):
    line = line.replace(b"\0", b"")
    assert split_inline(line) == one_by_one(line)


def test_a_long_hostile_line_is_read_in_one_pass():
    assert split_inline(b"'" + b"\\" * 64_000) is None
    assert split_inline(b'"' + b'\\"' * 32_000) is None
    assert split_inline(b'""a' * 20_000) is None


def one_by_one(line):
    """The rules again, slowly: a state, a character, a decision."""
    space = b" \t\n\r\v\f"
    words, at = [], 0
    while True:
        while at < len(line) and line[at] in space:
            at += 1
        if at == len(line):
            return words
        word, quote = bytearray(), 0
        while True:
            here = line[at] if at < len(line) else None
            after = line[at + 1 : at + 2]
            if here is None:
                if quote:
                    return None
                break
            if quote and here == quote:
                if after and after not in space:
                    return None
                at += 1
                break
            if not quote and here in b" \t\n\r":
                break
            if not quote and here in b"\"'":
                quote = here
            elif quote == ord('"') and here == ord("\\") and after:
                digits = line[at + 2 : at + 4]
                if (
                    after == b"x"
                    and len(digits) == 2
                    and all(digit in b"0123456789abcdefABCDEF" for digit in digits)
                ):
                    word.append(int(digits, 16))
                    at += 3
                else:
                    word += {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}.get(
                        after, after
                    )
                    at += 1
            elif quote == ord("'") and here == ord("\\") and after == b"'":
                word += b"'"
                at += 1
            else:
                word.append(here)
            at += 1
        words.append(bytes(word))
