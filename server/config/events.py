"""notify-keyspace-events: the event classes, as letters and as bits."""

# ruff: noqa: ARG002, D102 - the methods of a kind are overrides, documented in Kind

from __future__ import annotations

from typing import Final

from ...protocol.inline import quote
from ...storage.keyspace import notifications as events
from .kinds import Kind

_BITS: Final = {
    "K": events.KEYSPACE, "E": events.KEYEVENT, "g": events.GENERIC, "$": events.STRING, "l": events.LIST,
    "s": events.SET, "h": events.HASH, "z": events.ZSET, "x": events.EXPIRED, "e": events.EVICTED,
    "t": events.STREAM, "m": events.MISS, "d": events.MODULE, "n": events.NEW,
    "o": events.OVERWRITTEN, "c": events.TYPE_CHANGED, "a": events.ARRAY, "S": events.SUBKEYSPACE,
    "T": events.SUBKEYEVENT, "I": events.SUBKEYSPACEITEM, "V": events.SUBKEYSPACEEVENT,
}  # fmt: skip
_CHANNELS: Final = frozenset("KESTIV")
_SINCE: Final = {"o": (8, 2), "c": (8, 2), "a": (8, 8), **dict.fromkeys("STIV", (8, 8))}


def mask_of(letters: str) -> int:
    """Convert letters of notify-keyspace-events to bits of ``storage.keyspace.notifications``.

    Return 0 if none of them enables a channel.
    """
    return 0 if _CHANNELS.isdisjoint(letters) else sum(_BITS[letter] for letter in letters)


class Events(Kind[str]):
    """notify-keyspace-events, kept as the enabled letters in canonical order, with ``A`` expanded.

    CONFIG GET folds the letters of ``A`` back into ``A`` and then, as Redis does, omits ``n``, ``o`` and ``c``; a file keeps
    these. Rillet has no arrays (``a``).
    """

    ORDER: Final = "g$lshzxetdanocKEmSTIV"

    def __init__(self, version: tuple[int, int] = (8, 10)) -> None:
        self.letters = frozenset(letter for letter in self.ORDER if _SINCE.get(letter, version) <= version)
        self.all = "g$lshzxetda" if "a" in self.letters else "g$lshzxetd"
        self.newest = "S" in self.letters

    def as_of(self, version: tuple[int, int]) -> Events:
        return Events(version)

    def parse(self, words: list[bytes], present: str) -> str:
        letters = set(words[0].decode("latin-1"))
        if not letters <= self.letters | {"A"}:
            # Redis 8.2 to 8.6 accepted o and c, but this text did not name them.
            known = "Ag$lshzxeKEtmdn" + ("ocaSTIV" if self.newest else "")
            raise ValueError(f"Invalid event class character. Use '{known}'.")
        if "A" in letters:
            letters.update(self.all)
        return "".join(letter for letter in self.ORDER if letter in letters)

    def format(self, value: str) -> bytes:
        if self.all not in value:
            return value.encode()
        rest = value.replace(self.all, "")
        return b"A" + "".join(letter for letter in rest if letter not in "anoc").encode()

    def file_text(self, value: str) -> bytes:
        return quote(value.replace(self.all, "A").encode())
