"""Inline requests: a line typed by hand, split into words the way a shell would. Lines of files have the same form."""

from __future__ import annotations

import re
from typing import Final

from .regex import regex

# Possessive quantifiers, and loops that match in only one way, keep the time for a hostile line linear. No group is possessive:
# in Python 3.11.2, which is Debian 12's, it may end at a wrong place (cpython 106052). Not every separator ends a bare word:
# as in Redis, \v and \f separate words only where no word has begun.
_WORD: Final = regex(
    rb"""
    [ \t\n\r\v\f]*+
    (?P<bare>[^ \t\n\r"']*+)
    (?:
        "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*)"
      | '(?P<single>[^'\\]*+(?:\\++'?+[^'\\]*+)*)'
    )?
    (?=[ \t\n\r\v\f]|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_NEEDS_CARE: Final = re.compile(rb"[\"'\v\f]").search
_ESCAPE: Final = regex(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_TO_ESCAPE: Final = regex(rb"[^ !#-\[\]-~]")
_SHORT: Final = {character: b"\\" + letter for letter, character in _ESCAPED.items()} | {
    b"\\": rb"\\",
    b'"': rb"\"",
}
_PLAIN: Final = regex(rb"[!#-&(-\[\]-~]+")


def split_inline(line: bytes) -> list[bytes] | None:
    r"""Split an inline request into its words, so that people can talk to the server through a plain socket.

    Args:
        line: The request without its line end.

    Returns:
        The words, none for a blank line; or None if a quote is not closed or a closing quote is not followed by
        white space. Double quotes support the escapes `\n \r \t \b \a \\ \" \xHH`, single quotes only `\'`.
    """
    if _NEEDS_CARE(line) is None:
        return line.split()
    words = []
    end = len(line.rstrip(b" \t\n\r\v\f"))
    at = 0
    while at < end:
        found = _WORD().match(line, at)
        if found is None:
            return None
        at = found.end()
        bare, double, single = found.groups()
        if double is not None:
            bare += _ESCAPE().sub(_unescape, double)
        elif single is not None:
            bare += single.replace(b"\\'", b"'")
        words.append(bare)
    return words


def _unescape(found: re.Match[bytes]) -> bytes:
    digits, character = found.groups()
    if digits is not None:
        return bytes((int(digits, 16),))
    return _ESCAPED.get(character, character)


def word_of(word: bytes) -> bytes:
    """Format a word for a line: bare if ``split_inline`` returns it unchanged, else quoted."""
    return word if _PLAIN().fullmatch(word) else quote(word)


def quote(word: bytes) -> bytes:
    r"""Return ``word`` in double quotes, in ASCII: bytes without a short escape become ``\xHH``."""
    return b'"%b"' % _TO_ESCAPE().sub(lambda found: _SHORT.get(found[0]) or b"\\x%02x" % ord(found[0]), word)
