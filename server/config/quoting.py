"""Quote words for configuration lines, which ``protocol/inline`` splits."""

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
    """Format a word for a configuration line: bare if parsing returns it unchanged, else quoted."""
    return word if _PLAIN.fullmatch(word) else quote(word)


def quote(word: bytes) -> bytes:
    r"""Return ``word`` in double quotes, in ASCII: bytes without a short escape become ``\xHH``."""
    return b'"%b"' % _TO_ESCAPE.sub(lambda found: _SHORT.get(found[0]) or b"\\x%02x" % ord(found[0]), word)
