"""Hashes that share their field names, as HIMPORT of Redis 8.10 stores them: read, never written.

In a file, a part 0xF2 assigns a number to a list of names, and the hashes after it refer to that number:

    30   one listpack: the number, then the values in the order of the names
    32   the number, then the values as strings

A DUMP payload holds the names itself:

    29   the names, then one listpack as in 30, whose number has no meaning
    31   the names, then the values as strings

In a payload the names are one listpack after a byte 0, or their count and then strings after a byte 1.
"""

from __future__ import annotations

from typing import Final

from ..loading import RdbError
from . import listpack
from .byte_source import ByteSource
from .encoding import read_length, read_string

TYPES: Final = (29, 30, 31, 32)
_WITH_NAMES: Final = (29, 31)
_PACKED: Final = (29, 30)


def read_template(source: ByteSource) -> None:
    """Read a list of field names; the source keeps it for the hashes that follow.

    Raises RdbError: another list already has its number.
    """
    number = read_length(source)
    if number in source.templates:
        raise RdbError("A list of field names whose number is taken")
    source.templates[number] = _strings(source, read_length(source))


def read_templated(source: ByteSource, value_type: int) -> list[tuple[bytes, bytes]]:
    """Return the fields of a hash with their values, given its type byte (29 to 32).

    Raises RdbError: its list of names is missing, or differs in length from its values.
    """
    names = _names(source) if value_type in _WITH_NAMES else None
    if value_type in _PACKED:
        number, *values = _unpacked(read_string(source)) or [b""]
        if names is None:
            names = _named(source, number)
    else:
        if names is None:
            names = _named(source, b"%d" % read_length(source))
        values = _strings(source, len(names))
    if len(names) != len(values):
        raise RdbError("A hash with a field without value")
    return list(zip(names, values, strict=True))


def _names(source: ByteSource) -> list[bytes]:
    form = source.byte()
    if form > 1:
        raise RdbError("Field names in an unknown form")
    return _strings(source, read_length(source)) if form else _unpacked(read_string(source))


def _named(source: ByteSource, number: bytes) -> list[bytes]:
    names = source.templates.get(int(number)) if number.isdigit() else None
    if names is None:
        raise RdbError("A hash whose list of field names is not there")
    return names


def _strings(source: ByteSource, count: int) -> list[bytes]:
    return [read_string(source) for _ in range(count)]


def _unpacked(packed: bytes) -> list[bytes]:
    return [b"%d" % each if isinstance(each, int) else each for each in listpack.unpack(packed)]
