"""The sizes and thresholds by which streams and groups organise themselves; none of them shows in a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuning:
    """The sizes and thresholds of one stream and its groups.

    The defaults are measured; tests choose tiny ones, so that few entries reach every case.

    Attributes:
        chunk_entries: the most entries in a chunk of a stream.
        many: no more pending entries than that are removed at once.
    """

    chunk_entries: int = 128
    many: int = 10_000


DEFAULT: Final = Tuning()
