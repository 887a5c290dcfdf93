"""Types of values that only one or two directives use."""

# ruff: noqa: D102 - the methods of a kind are overrides, documented in Kind

from __future__ import annotations

import locale
from typing import Final

from ...commands.spec.versions import FIRST_WITH_RDB
from .kinds import LONG_MAX, Integer, Memory, Text


class NoneOrEnough(Memory):
    """Bytes of a limit: 0 for no limit, or at least ``least``."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def parse(self, words: list[bytes], present: int) -> int:
        value = super().parse(words, present)
        if 0 < value < self.least:
            raise ValueError(f"argument must be 0 or at least {self.least}")
        return value


class Samples(Integer):
    """maxmemory-samples, the number of keys that eviction compares: at least 1, and at most 64 since 7.2."""

    def as_of(self, version: tuple[int, int]) -> Integer:
        return self if version >= (7, 2) else Integer(1)


class Unsigned(Integer):
    """An integer with a minimum of 0 or 1; the errors of 8.2 to 8.4 do not name the maximum."""

    def as_of(self, version: tuple[int, int]) -> Integer:
        return _AtLeastZero(self.minimum, self.maximum) if (8, 2) <= version < (8, 6) else self


class _AtLeastZero(Integer):
    def parse(self, words: list[bytes], present: int) -> int:
        if words[0].startswith(b"-") and words[0][1:].isdigit():
            raise ValueError("argument must be greater or equal to 0")
        return super().parse(words, present)


UNSIGNED: Final = Unsigned(maximum=LONG_MAX)


class RdbVersion(Integer):
    """An RDB format version that Rillet can write, or 0 for the default one."""

    def __init__(self) -> None:
        super().__init__(0, max(FIRST_WITH_RDB))

    def parse(self, words: list[bytes], present: int) -> int:
        value = super().parse(words, present)
        if 0 < value < min(FIRST_WITH_RDB):
            raise ValueError(f"argument must be 0 or between {min(FIRST_WITH_RDB)} and {max(FIRST_WITH_RDB)}")
        return value


class Collation(Text):
    """A locale that the system knows; an empty name is that of the environment. The process keeps its own locale."""

    def parse(self, words: list[bytes], present: str) -> str:
        """Return the name; raise ValueError if the system does not know it."""
        name = super().parse(words, present)
        before = locale.setlocale(locale.LC_COLLATE)
        try:
            locale.setlocale(locale.LC_COLLATE, name)
        except locale.Error as error:
            raise ValueError("Invalid locale name") from error
        finally:
            locale.setlocale(locale.LC_COLLATE, before)
        return name
