"""Parse numbers as C's ``atoi`` does, which Redis uses where it does not validate a word."""

from __future__ import annotations

from typing import Final

from .regex import regex

# White space, a sign and zeros may precede the number; anything may follow it.
_NUMBER: Final = regex(rb"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)")
_LONGEST: Final = 20  # digits; more are beyond 64 bits, and Python refuses to parse thousands of them
_LONG: Final = 1 << 63
_INT: Final = 1 << 31


def atoi(word: bytes) -> int:
    """Return the number at the start of a word, or 0 if there is none.

    As in C on 64 bits, clamp it to a signed long, then keep the low 32 bits as a signed int.
    """
    found = _NUMBER().match(word)
    if found is None:
        return 0
    number = max(-_LONG, min(int(found[1] + found[2][:_LONGEST]), _LONG - 1))
    return (number + _INT) % (2 * _INT) - _INT
