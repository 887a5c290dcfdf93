"""INFO Keysizes: the distribution of key sizes by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ...storage.keyspace.database import Database
from ...storage.value_types import TYPES
from ..server import Server

_UNITS: Final = ("", "K", "M", "G", "T", "P", "E")
# Counting visits every key: 0.1 s for this many. With more keys, only INFO KEYSIZES itself counts them.
MOST_KEYS: Final = 100_000


def key_sizes(server: Server) -> Iterator[tuple[str, object]]:
    """Yield a field (name, value) for each database and type that has keys.

    The value ``1=2,4=1`` maps powers of two, lower bounds of the size, to numbers of keys.
    """
    for database in server.keyspace.databases:
        if database.entries:
            counts = _counts(database)
            for cls, value_type in TYPES.items():
                if cls in counts:
                    sizes = sorted(counts[cls].items())
                    figures = ",".join(f"{_power(bits)}={number}" for bits, number in sizes)
                    yield f"db{database.index}_distrib_{value_type.sizes}", figures


def _counts(database: Database) -> dict[type, Counter[int]]:
    counted = {cls for cls, value_type in TYPES.items() if value_type.sizes}
    counts: dict[type, Counter[int]] = {}
    for value in database.entries.values():
        if (cls := type(value)) in counted:
            counts.setdefault(cls, Counter())[len(value).bit_length()] += 1  # type: ignore[arg-type]  # TYPES says so
    return counts


def _power(bits: int) -> str:
    """Return the least number with ``bits`` bits, with a unit: 0, 1, 2 … 512, 1K."""
    if not bits:
        return "0"
    unit, power = divmod(bits - 1, 10)
    return f"{1 << power}{_UNITS[unit]}"
