"""Locate the keys of a command among its words."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...protocol.regex import regex

# A number of keys as Redis reads it: no plus sign, no leading zeros.
_CANONICAL: Final = regex(rb"[1-9][0-9]{0,9}\Z|0\Z")
_MOST_KEYS: Final = (1 << 31) - 1


class KeySpec(NamedTuple):
    """Where a command's keys are: where the search begins and how keys are found from there (COMMAND INFO).

    ``begin`` is ``("index", i)``, ``("keyword", word, start)`` or ``("unknown",)``; ``find`` is
    ``("range", last, step, limit)``, ``("keynum", numidx, first, step)`` or ``("unknown",)``.
    """

    flags: tuple[str, ...]
    begin: tuple[str | int, ...]
    find: tuple[str | int, ...]
    notes: str | None = None


def at(index: int, flags: str, last: int = 0, step: int = 1, notes: str | None = None) -> KeySpec:
    """Return a key spec for keys at fixed words.

    Args:
        index: the index of the first key.
        flags: such as ``"RW update"``.
        last: the last key, counted from the first; -1 is the last word of the command.
        step: from one key to the next.
        notes: the field of COMMAND INFO.
    """
    return KeySpec(tuple(flags.split()), ("index", index), ("range", last, step, 0), notes)


# The key that most commands have: their first word.
INSPECTS: Final = at(1, "RO")
READS: Final = at(1, "RO access")
UPDATES: Final = at(1, "RW update")
CHANGES: Final = at(1, "RW access update")
INSERTS: Final = at(1, "RW insert")
OVERWRITES: Final = at(1, "OW update")
DELETES: Final = at(1, "RW delete")
TAKES: Final = at(1, "RW access delete")


class KeyReference:
    """One key of a command line: the index of its word, and the flags of its key spec."""

    __slots__ = ("flags", "index")

    def __init__(self, index: int, flags: tuple[str, ...] = ()) -> None:
        self.index = index
        self.flags = flags


def indices_of(spec: KeySpec, argv: list[bytes]) -> list[int] | None:
    """Return the indices of the words that are keys; [] if the keyword is absent or the spec is unknown.

    Return None if the number of keys is missing, malformed, zero or too high; the caller then uses ``keys_by_number``.
    """
    first = _begin(spec, argv)
    if first is None:
        return []
    if spec.find[0] == "range":
        last, step, limit = (int(word) for word in spec.find[1:])
        if last >= 0:
            end = first + last
        elif limit <= 1:
            end = len(argv) + last
        else:
            end = first + (len(argv) - first) // limit + last
        return [index for index in range(first, end + 1, step) if index < len(argv)]
    if spec.find[0] == "keynum":
        number, start, step = (int(word) for word in spec.find[1:])
        if first + number >= len(argv) or not _CANONICAL().match(argv[first + number]):
            return None
        count = int(argv[first + number])
        begin = first + start
        if not 0 < count <= _MOST_KEYS or begin + (count - 1) * step >= len(argv):
            return None
        return list(range(begin, begin + count * step, step))
    return []


def _begin(spec: KeySpec, argv: list[bytes]) -> int | None:
    if spec.begin[0] == "index":
        index = int(spec.begin[1])
        return index if index < len(argv) else None
    if spec.begin[0] == "keyword":
        word, start = str(spec.begin[1]).encode(), int(spec.begin[2])
        positions = range(start, len(argv)) if start >= 0 else range(len(argv) + start, 0, -1)
        for index in positions:
            if argv[index].upper() == word:
                return index + 1 if index + 1 < len(argv) else None
    return None
