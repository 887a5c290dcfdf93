r"""Spell names and ids as the ledger does.

A UTF-8 name without a backslash stays as it is. In any other name every backslash is spelled ``\x5c`` and every byte
that is not UTF-8 ``\xNN``. So different names have different spellings, and ``unspell_name`` restores the bytes.
"""

from __future__ import annotations

import re
from typing import Final

from ...storage.streams.ids import InvalidID, encode, parse

_SPELLED: Final = re.compile(r"\\x([0-9a-f]{2})")
_GREATEST_ID: Final = b"18446744073709551615-18446744073709551615"


def spell_name(name: bytes) -> str:
    """Return the text that stands for a name in the ledger; no two names have the same."""
    return name.replace(b"\\", b"\\x5c").decode(errors="backslashreplace")


def unspell_name(text: str) -> bytes:
    """Return the bytes of the name that a text of the ledger stands for."""
    return b"".join(
        piece.encode() if place % 2 == 0 else bytes.fromhex(piece)
        for place, piece in enumerate(_SPELLED.split(text))
    )


def canonical_id(word: bytes) -> bytes:
    """Return an id in canonical form; ``-`` and ``+`` become the lowest and highest id, other words (``$``) stay."""
    if word == b"-":
        return b"0-0"
    if word == b"+":
        return _GREATEST_ID
    try:
        return encode(parse(word))
    except InvalidID:
        return word


def id_number(text: str | bytes) -> int:
    """Return a canonical id as an integer, by which ids are ordered."""
    ms, _, seq = text.partition("-" if isinstance(text, str) else b"-")  # type: ignore[arg-type]
    return int(ms) << 64 | int(seq)
