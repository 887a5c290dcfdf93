"""How a word is quoted in a configuration line; ``protocol/inline`` takes such lines apart."""

from __future__ import annotations

import re
from typing import Final

_TO_ESCAPE: Final = re.compile(rb"[^ !#-\[\]-~]")
_SHORT: Final = {
    b"\n": rb"\n",
    b"\r": rb"\r",
    b"\t": rb"\t",
    b"\b": rb"\b",
    b"\a": rb"\a",
    b"\\": rb"\\",
    b'"': rb"\"",
}


_PLAIN: Final = re.compile(rb"[!#-&(-\[\]-~]+")


def word_of(word: bytes) -> bytes:
    """Write a word of a configuration line: as it is where that is read back unchanged, else in quotes."""
    return word if _PLAIN.fullmatch(word) else quote(word)


def quote(word: bytes) -> bytes:
    r"""``word`` in double quotes, in ASCII: what has no short escape becomes ``\xHH``."""
    return b'"%b"' % _TO_ESCAPE.sub(lambda found: _SHORT.get(found[0]) or b"\\x%02x" % ord(found[0]), word)
