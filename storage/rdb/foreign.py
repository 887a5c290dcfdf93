"""Values of types that Rillet does not have: their names, and how to read past them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .encoding import read_length, skip_string
from .source import RdbError

if TYPE_CHECKING:
    from .source import ByteSource

# What a type byte stands for: the type, and how it is kept.
_NAMES: Final = {
    1: "list (linked list)",
    2: "set (hash table)",
    3: "sorted set",
    4: "hash (hash table)",
    5: "sorted set (skiplist)",
    6: "module value",
    7: "module value",
    9: "hash (zipmap)",
    10: "list (ziplist)",
    11: "set (intset)",
    12: "sorted set (ziplist)",
    13: "hash (ziplist)",
    14: "list (quicklist of ziplists)",
    16: "hash (listpack)",
    17: "sorted set (listpack)",
    18: "list (quicklist)",
    20: "set (listpack)",
    22: "hash (with expiring fields)",
    23: "hash (listpack with expiring fields)",
    24: "hash (with expiring fields)",
    25: "hash (listpack with expiring fields)",
}
_ONE_STRING: Final = frozenset((9, 10, 11, 12, 13, 16, 17, 20, 23))
_STRINGS: Final = {1: 1, 2: 1, 4: 2, 14: 1}  # so many strings an element
_MODULE_END: Final = 0


def type_name(value_type: int) -> str:
    """What a type byte stands for, for an error text."""
    return f"{_NAMES.get(value_type, 'unknown type')}, RDB type {value_type}"


def skip_value(source: ByteSource, value_type: int, *, valkey: bool) -> None:
    """Pass over a value of a type that Redis or Valkey has and we do not.

    Args:
        source: stands behind the key.
        value_type: its type byte.
        valkey: the file is Valkey's; some bytes mean another thing there.

    Raises:
        RdbError: the type is not known, so that nobody can say where the value ends.
    """
    if value_type in _ONE_STRING:
        skip_string(source)
    elif value_type in _STRINGS:
        for _ in range(read_length(source) * _STRINGS[value_type]):
            skip_string(source)
    elif value_type == 3:
        for _ in range(read_length(source)):
            skip_string(source)
            size = source.byte()
            source.skip(size if size < 253 else 0)  # 253 and more: not a number, infinite
    elif value_type == 5:
        for _ in range(read_length(source)):
            skip_string(source)
            source.skip(8)
    elif value_type == 7:
        read_length(source)
        skip_module_data(source)
    elif value_type == 18:
        for _ in range(read_length(source)):
            read_length(source)  # plain or packed
            skip_string(source)
    elif value_type == 22 and valkey:
        for _ in range(read_length(source)):
            skip_string(source)
            skip_string(source)
            source.skip(8)
    elif value_type in {22, 24}:
        if value_type == 24:
            source.skip(8)  # when the first field expires
        for _ in range(read_length(source)):
            read_length(source)
            skip_string(source)
            skip_string(source)
    elif value_type == 25:
        source.skip(8)
        skip_string(source)
    else:
        raise RdbError(
            f"it can not be skipped: Rillet does not know how long a value of {type_name(value_type)} is"
        )


def skip_module_data(source: ByteSource) -> None:
    """Pass over what a module wrote: numbers and strings, each with its kind, until the end mark."""
    while (kind := read_length(source)) != _MODULE_END:
        if kind in {1, 2}:  # signed and unsigned
            read_length(source)
        elif kind in {3, 4}:  # float and double
            source.skip(4 if kind == 3 else 8)
        elif kind == 5:
            skip_string(source)
        else:
            raise RdbError(f"Unknown kind {kind} of module data")
