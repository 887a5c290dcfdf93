"""Serve clients that wait for an element of a list or a sorted set as 7.0 does.

They receive an element of the signalled key, even if an earlier key of their command has elements by now.
"""

from __future__ import annotations

_SEVERAL_KEYS = frozenset((b"BLPOP", b"BRPOP", b"BZPOPMIN", b"BZPOPMAX"))
_COUNTED_KEYS = frozenset((b"BLMPOP", b"BZMPOP"))
# Commands whose pop for a waiting client does not count as a change since the last save.
UNCOUNTED = frozenset(("blpop", "brpop", "blmove", "brpoplpush"))


def of_one_key(argv: list[bytes], key: bytes) -> list[bytes]:
    """Return the words of a blocking command (BLPOP …) as if the client had named only ``key``."""
    name = argv[0].upper()
    if name in _SEVERAL_KEYS:
        return [argv[0], key, argv[-1]]
    if name in _COUNTED_KEYS:
        return [*argv[:2], b"1", key, *argv[3 + int(argv[2]) :]]
    if name == b"BLMOVE":
        return [*argv[:3], argv[3].lower(), argv[4].lower(), argv[5]]  # as 7.0 propagates it
    return argv
