r"""Redis' glob patterns (KEYS, SCAN MATCH, PSUBSCRIBE, CONFIG GET): ``* ? [^a-z] \`` over bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

# The test for one pattern: its result is truthy if the whole text matches.
Matcher: TypeAlias = Callable[[bytes], object]

_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_DASH: Final = ord("-")
_BACKSLASH: Final = ord("\\")
_STAR: Final = ord("*")
_QUESTION: Final = ord("?")
_OPEN: Final = ord("[")
_CLOSE: Final = ord("]")
_MOST_STARS: Final = 1000  # before other characters; as in Redis, a pattern with more matches nothing


def matches(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Return True if the whole of ``text`` matches ``pattern``; ``ignore_case`` folds ASCII letters only.

    As in Redis, an empty text matches only the empty pattern, not ``*``; callers that list everything handle ``*`` themselves.
    """
    return bool(matcher(pattern, ignore_case)(text))


@lru_cache(maxsize=256)
def matcher(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """Return a function that tests whether a text matches the pattern; its result is true or false in a condition.

    Compiling a pattern takes up to 40 us. The cache here serves patterns that are arguments of a command (KEYS, SCAN
    MATCH). Owners of long-lived patterns, such as subscriptions and ACL users, keep the matcher themselves: if there were
    more of those than the cache can hold, each of them would be recompiled every time.

    A matcher's worst case is proportional to pattern times text: each stretch between two stars matches at its leftmost
    place and is never retried.
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
    """Return True if CONFIG GET treats the word as a pattern; a backslash alone does not make it one."""
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
    """Return the class that opens before ``position``, and the position after it; the pattern's end closes it, too."""
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
    """Yield the first and last number of each run; compiling one run is ten times cheaper than 256 members."""
    start = 0
    for at in range(1, len(members) + 1):
        if at == len(members) or members[at] != members[at - 1] + 1:
            yield members[start], members[at - 1]
            start = at


def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte
