"""Numbers as C's ``atoi`` reads them, which Redis uses where it does not check a word."""

from __future__ import annotations

import re
from typing import Final

# Blanks, a sign and zeros before it, anything after it.
_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)").match
_LONGEST: Final = 20  # digits; more are beyond 64 bits, and Python refuses to parse thousands of them
_LONG: Final = 1 << 63
_INT: Final = 1 << 31


def atoi(word: bytes) -> int:
    """Return the number at the start of a word, 0 without one: limited to 64 bits, then the lowest 32 of them."""
    found = _NUMBER(word)
    if found is None:
        return 0
    number = max(-_LONG, min(int(found[1] + found[2][:_LONGEST]), _LONG - 1))
    return (number + _INT) % (2 * _INT) - _INT
