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
        page: about how many IDs a page of the PEL with its own columns has; at most twice as many.
        short_page: a page that shares its columns begins with fewer IDs that are not pending.
        tiny_page: a page with fewer IDs is filled before another one begins.
        dense: entries that may be passed for each entry of a delivery between its first and its last one.
        wide: of so many entries delivered to any consumer, those of one millisecond are one delivery, however far apart.
        slack: waste up to here (dead deliveries, IDs that went elsewhere) is not worth tidying up.
        piece: entries that are removed from the PEL together.
        many: no more pending entries than that are removed at once.
        reorder_part: a consumer that gets more than this part of its entries is put in order again.
        large_part: a consumer has many entries if it has this part of all.
        patience: IDs that are passed in search of one consumer's before they are put in order.
        merged: deliveries of one millisecond that are merged; more are found on one walk.
        index_chunk: about how many IDs a chunk in the order of one consumer has.
        plain: a group with fewer pending entries may have plain books, and keeps them up to twice as many.
        together: entries from which on a command handles them in runs, for which dense books are made.
        rewriting: books become plain once entries were claimed a few at a time, one in so many of those that are pending.
    """

    chunk_entries: int = 128
    page: int = 128
    short_page: int = 64
    tiny_page: int = 32
    dense: int = 16
    wide: int = 2048
    slack: int = 64
    piece: int = 512
    many: int = 10_000
    reorder_part: int = 4
    large_part: int = 8
    patience: int = 4096
    merged: int = 16
    index_chunk: int = 512
    plain: int = 1024
    together: int = 32
    rewriting: int = 4


DEFAULT: Final = Tuning()
