"""Find keys that key specs cannot find: XREAD, XREADGROUP, SORT, GEORADIUS, MIGRATE, malformed numkeys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol.atoi import atoi
from .key_specs import KeyReference, KeySpec

_WITH_NUMBER: Final = frozenset((b"BLOCK", b"CLAIM", b"COUNT", b"MAXCOUNT", b"MAXSIZE"))
_READS: Final = ("RO", "access")
_STORES: Final = ("OW", "update")
_FEWEST_STREAM_WORDS: Final = 2


def keys_of_streams(argv: list[bytes]) -> list[int]:
    """Return the indices of the keys of XREAD and XREADGROUP; none if an option is unknown, or an ID is missing.

    This walks the options, because a group, a consumer or a key may be called STREAMS.
    """
    return _walk_streams(argv) if _streams_keyword(argv) else []


def keys_of_streams_before_810(argv: list[bytes]) -> list[int]:
    """Like ``keys_of_streams`` before 8.10: begin at the first word STREAMS, and round half of the words down."""
    first = _streams_keyword(argv)
    if not first:
        return []
    words = len(argv) - first
    return list(range(first, first + words // 2)) if words >= _FEWEST_STREAM_WORDS else _walk_streams(argv)


def _streams_keyword(argv: list[bytes]) -> int:
    """Return the position after STREAMS, where the key specification searches it; 0 without one."""
    start = 4 if argv[0].upper() == b"XREADGROUP" else 1
    return next((i + 1 for i in range(start, len(argv) - 1) if argv[i].upper() == b"STREAMS"), 0)


def _walk_streams(argv: list[bytes]) -> list[int]:
    words = len(argv)
    at = 1
    while at < words:
        name = argv[at].upper()
        if name in _WITH_NUMBER:
            at += 2
        elif name == b"GROUP":
            at += 3
        elif name == b"NOACK":
            at += 1
        else:
            break
    if at >= words or argv[at].upper() != b"STREAMS" or (words - at - 1) % 2:
        return []
    return list(range(at + 1, at + 1 + (words - at - 1) // 2))


def keys_of_georadius(argv: list[bytes]) -> list[KeyReference]:
    """Return the key of GEORADIUS or GEORADIUSBYMEMBER, and the key of STORE or STOREDIST (the last one if repeated)."""
    found = [KeyReference(1, _READS)]
    target = 0
    at = 6 if argv[0].upper() == b"GEORADIUS" else 5
    while at + 1 < len(argv):
        if argv[at].upper() in {b"STORE", b"STOREDIST"}:
            target = at = at + 1
        at += 1
    if target:
        found.append(KeyReference(target, _STORES))
    return found


def keys_by_number(specs: Sequence[KeySpec], argv: list[bytes]) -> list[KeyReference]:
    """Return the keys of a command whose numkeys is malformed; read it as C's atoi() does.

    In this case Redis does not know how the keys are used, and lists the destination last.
    """
    *before, spec = specs
    number, start, step = (int(word) for word in spec.find[1:])
    at = int(spec.begin[1])
    if step != 1 or at + number >= len(argv):
        return []
    count = atoi(argv[at + number])
    if not 0 < count <= len(argv) - at - start:
        return []
    found = range(at + start, at + start + count)
    return [KeyReference(index) for index in (*found, *(int(other.begin[1]) for other in before))]


def keys_of_sort(argv: list[bytes]) -> list[KeyReference]:
    """Return the key that is sorted, and the key of STORE (the last one if repeated)."""
    found = [KeyReference(1, _READS)]
    skipped = {b"LIMIT": 2, b"GET": 1, b"BY": 1}
    target = 0
    at = 2
    while at < len(argv):
        word = argv[at].upper()
        if word == b"STORE" and at + 1 < len(argv):
            target = at + 1
            at += 1
        at += 1 + skipped.get(word, 0)
    if target:
        found.append(KeyReference(target, _STORES))
    return found


def keys_of_migrate(argv: list[bytes]) -> list[int]:
    """Return the indices of the keys of MIGRATE: the single key, or all words after KEYS."""
    skipped = {b"AUTH": 1, b"AUTH2": 2}
    at = 6
    while at < len(argv) - 1:
        word = argv[at].upper()
        if word == b"KEYS":
            return [] if argv[3] else list(range(at + 1, len(argv)))
        at += 1 + skipped.get(word, 0)
    return [3]
