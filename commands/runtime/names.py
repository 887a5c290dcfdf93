"""The rule for client names and library attributes."""

from __future__ import annotations

import re
from typing import Final

NAME_ERROR: Final = b"ERR Client names cannot contain spaces, newlines or special characters."
_WORD: Final = re.compile(rb"[!-~]*\Z")


def is_printable_word(text: bytes) -> bool:
    """Return True if ``text`` fits into a CLIENT LIST line: printable ASCII without a space; may be empty."""
    return _WORD.match(text) is not None
