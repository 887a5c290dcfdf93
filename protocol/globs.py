r"""Redis' glob patterns (KEYS, SCAN MATCH, PSUBSCRIBE, CONFIG GET): ``* ? [^a-z] \`` over bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

# The test for one pattern: returns something true if the whole of a text fits.
Matcher: TypeAlias = Callable[[bytes], object]

_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_DASH: Final = ord("-")
_BACKSLASH: Final = ord("\\")
_STAR: Final = ord("*")
_QUESTION: Final = ord("?")
_OPEN: Final = ord("[")
_CLOSE: Final = ord("]")
_MOST_STARS: Final = 1000  # before other characters; as in Redis nothing fits a pattern with more of them


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Whether the whole of ``text`` fits ``pattern``; ``ignore_case`` folds ASCII letters only.

    As in Redis, an empty text fits the empty pattern alone, not ``*``; callers that list everything take ``*`` themselves.
    """
    return bool(matcher(pattern, ignore_case)(text))


@lru_cache(maxsize=256)
def matcher(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """The test for one pattern, to be reused over many texts.

    Making one takes up to 40 us, and only those of a command's own words (KEYS, SCAN MATCH) are remembered here. What is
    asked for again and again, as subscriptions and the patterns of users are, keeps its matcher itself: more of them than
    any fixed number would all be made again each time.

    A matcher takes time proportional to pattern times text at worst: each stretch between two stars is bound to its
    leftmost place and never tried again.
    """
    if pattern and not pattern.strip(b"*"):
        return bool
    if not ignore_case:
        if _SPECIAL.search(pattern) is None:
            return pattern.__eq__
        if pattern[-1] == _STAR and _SPECIAL.search(pattern, 0, len(pattern) - 1) is None:
            prefix = pattern[:-1]
            return lambda text: text.startswith(prefix)
    return _compile(pattern, ignore_case).fullmatch


def is_glob(pattern: bytes) -> bool:
    """Whether CONFIG GET takes the word for a pattern; a backslash alone does not make one."""
    return any(byte in pattern for byte in b"*?[")


def _compile(pattern: bytes, ignore_case: bool) -> re.Pattern[bytes]:
    stretches: list[list[bytes]] = [[]]
    position = 0
    while position < len(pattern):
        byte = pattern[position]
        position += 1
        if byte == _STAR:
            stretches.append([])
        elif byte == _QUESTION:
            stretches[-1].append(b".")
        elif byte == _OPEN:
            element, position = _bracket(pattern, position, ignore_case)
            stretches[-1].append(element)
        else:
            if byte == _BACKSLASH and position < len(pattern):
                byte = pattern[position]
                position += 1
            stretches[-1].append(re.escape(bytes((byte,))))
    if sum(map(bool, stretches[1:])) > _MOST_STARS:
        return re.compile(b"(?!)")
    first, *rest = (b"".join(stretch) for stretch in stretches)
    if rest:
        *middle, last = rest
        first += b"".join(b"(?>.*?%b)" % stretch for stretch in middle if stretch) + b".*" + last
    return re.compile(first, re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG))


def _bracket(pattern: bytes, position: int, ignore_case: bool) -> tuple[bytes, int]:
    """The class that opens before ``position``, and where it ends; the pattern's end closes it too."""
    negated = pattern[position : position + 1] == b"^"
    position += negated
    members: set[int] = set()
    while position < len(pattern):
        byte = pattern[position]
        if byte == _BACKSLASH and position + 1 < len(pattern):
            low = high = pattern[position + 1]
            position += 2
        elif byte == _CLOSE:
            position += 1
            break
        elif position + 2 < len(pattern) and pattern[position + 1] == _DASH:
            low, high = sorted((byte, pattern[position + 2]))
            position += 3
        else:
            low = high = byte
            position += 1
        if ignore_case:
            low, high = _lower(low), _lower(high)
            members.update(member for member in range(256) if low <= _lower(member) <= high)
        else:
            members.update(range(low, high + 1))
    if negated:
        members = set(range(256)) - members
    if not members:
        return rb"(?!)", position
    return b"[%b]" % b"".join(b"\\x%02x-\\x%02x" % ends for ends in _runs(sorted(members))), position


def _runs(members: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of successive numbers; compiling one run is ten times cheaper than 256 members."""
    start = 0
    for at in range(1, len(members) + 1):
        if at == len(members) or members[at] != members[at - 1] + 1:
            yield members[start], members[at - 1]
            start = at


def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte
