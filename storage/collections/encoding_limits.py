"""The sizes up to which Redis uses compact encodings; OBJECT ENCODING follows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, repr=False)
class Limits:
    """The settings hash-max-listpack-entries and so on: element counts, and bytes of values.

    The defaults are those of Redis.

    ``list_max_listpack_size`` above 0 counts elements, -1 to -5 stand for 4, 8, 16, 32 and 64 KiB.
    """

    hash_max_listpack_entries: int = 512
    hash_max_listpack_value: int = 64
    list_max_listpack_size: int = -2
    set_max_intset_entries: int = 512
    set_max_listpack_entries: int = 128
    set_max_listpack_value: int = 64
    zset_max_listpack_entries: int = 128
    zset_max_listpack_value: int = 64
