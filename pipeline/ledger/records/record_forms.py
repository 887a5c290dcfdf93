"""The forms in which servers write the records that there are most of; ``shapes`` tells the letters."""

from __future__ import annotations

from typing import Final

CLAIM: Final = "=kgc=i=t=n===l"
ACK: Final = "=kg"  # and ids
MOVE: Final = "==kgl=n"
ADD: Final = "=ki"  # and fields
ADD_MAXLEN: Final = "=k==ni"
ADD_MINID: Final = "=k==li"

_CLAIM_WORDS: Final = {4: b"0", 6: b"TIME", 8: b"RETRYCOUNT", 10: b"FORCE", 11: b"JUSTID", 12: b"LASTID"}
_MOVE_WORDS: Final = {1: b"SETID", 5: b"ENTRIESREAD"}
_LIMITED: Final = {b"MAXLEN": ADD_MAXLEN, b"MINID": ADD_MINID}
_MOST_IDS: Final = 16


def form_of(words: list[bytes]) -> str | None:
    """The form of a record, as long as its words are many; None if it has none."""
    number = len(words)
    match words[0]:
        case b"XCLAIM" if number == len(CLAIM) and _has(words, _CLAIM_WORDS):
            return CLAIM
        case b"XACK" if 3 < number <= 3 + _MOST_IDS:
            return ACK + "i" * (number - 3)
        case b"XGROUP" if number == len(MOVE) and _has(words, _MOVE_WORDS):
            return MOVE
        case b"XADD" if number > 4:
            form = _LIMITED.get(words[2].upper(), ADD) if words[3] == b"=" else ADD
            return form + "." * (number - len(form)) if number > len(form) else None
    return None


def _has(words: list[bytes], same: dict[int, bytes]) -> bool:
    return all(words[place] == word for place, word in same.items())
