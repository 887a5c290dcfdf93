"""Values of modules, which Rillet does not have: name their types, and skip them."""

from __future__ import annotations

from typing import Final

from ..codecs.byte_source import ByteSource
from ..codecs.encoding import read_length, skip_string
from ..loading import RdbError

_MODULE_VALUE: Final = 7
_MODULE_VALUE_OF_OLD: Final = 6  # only its module knows where it ends
_MODULE_END: Final = 0


def type_name(value_type: int) -> str:
    """Return the name of a type byte for an error text."""
    known = value_type in {_MODULE_VALUE, _MODULE_VALUE_OF_OLD}
    return f"{'module value' if known else 'unknown type'}, RDB type {value_type}"


def skip_value(source: ByteSource, value_type: int) -> None:
    """Skip a value of an unknown type; the source is after the key.

    Raises RdbError: the type is unknown, so the end of the value is unknown, too.
    """
    if value_type != _MODULE_VALUE:
        raise RdbError(
            f"it can not be skipped: Rillet does not know how long a value of {type_name(value_type)} is"
        )
    read_length(source)
    skip_module_data(source)


def skip_module_data(source: ByteSource) -> None:
    """Skip the data of a module: numbers and strings, each after its kind, up to the end mark."""
    while (kind := read_length(source)) != _MODULE_END:
        if kind in {1, 2}:  # signed and unsigned
            read_length(source)
        elif kind in {3, 4}:  # float and double
            source.skip(4 if kind == 3 else 8)
        elif kind == 5:
            skip_string(source)
        else:
            raise RdbError(f"Unknown kind {kind} of module data")
