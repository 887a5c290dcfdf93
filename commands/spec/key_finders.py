"""Keys that no key specification can find: those of XREAD, XREADGROUP and SORT."""

from __future__ import annotations

from typing import Final

from .key_specs import KeyReference

_WITH_NUMBER: Final = frozenset((b"BLOCK", b"CLAIM", b"COUNT", b"MAXCOUNT", b"MAXSIZE"))


def keys_of_streams(argv: list[bytes]) -> list[int]:
    """The key positions of XREAD and XREADGROUP.

    The options are walked, for a group, a consumer or a key may be called STREAMS. Where that leads nowhere the
    first STREAMS counts, as the key specification says; of an odd number of words after it the smaller half.
    """
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
        elif name == b"STREAMS":
            break
        else:
            start = 4 if argv[0].upper() == b"XREADGROUP" else 1
            at = next((i for i in range(start, words) if argv[i].upper() == b"STREAMS"), words)
            break
    return list(range(at + 1, at + 1 + (words - at - 1) // 2))


def keys_of_sort(argv: list[bytes]) -> list[KeyReference]:
    """The key that is sorted and the last one that STORE names."""
    found = [KeyReference(1, ("RO", "access"))]
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
        found.append(KeyReference(target, ("OW", "update")))
    return found
