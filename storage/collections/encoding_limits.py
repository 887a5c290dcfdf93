"""The sizes up to which Redis uses compact encodings; OBJECT ENCODING follows them."""

from __future__ import annotations


class Limits:
    """The settings hash-max-listpack-entries and so on: maximum numbers of elements, and maximum bytes of an element.

    The defaults are those of Redis.

    ``list_max_listpack_size``: above 0 it limits the elements; -1 to -5 limit the bytes to 4, 8, 16, 32 and 64 KiB.
    """

    def __init__(
        self,
        hash_max_listpack_entries: int = 512,
        hash_max_listpack_value: int = 64,
        list_max_listpack_size: int = -2,
        set_max_intset_entries: int = 512,
        set_max_listpack_entries: int = 128,
        set_max_listpack_value: int = 64,
        zset_max_listpack_entries: int = 128,
        zset_max_listpack_value: int = 64,
    ) -> None:
        self.hash_max_listpack_entries = hash_max_listpack_entries
        self.hash_max_listpack_value = hash_max_listpack_value
        self.list_max_listpack_size = list_max_listpack_size
        self.set_max_intset_entries = set_max_intset_entries
        self.set_max_listpack_entries = set_max_listpack_entries
        self.set_max_listpack_value = set_max_listpack_value
        self.zset_max_listpack_entries = zset_max_listpack_entries
        self.zset_max_listpack_value = zset_max_listpack_value
