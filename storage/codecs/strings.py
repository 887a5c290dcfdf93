"""Strings in RDB: type 0, a length and the bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .codec import Codec, Writing
from .encoding import read_string

if TYPE_CHECKING:
    from .byte_source import ByteSource

_STRING: Final = 0


def _read(source: ByteSource, _value_type: int, _valkey: bool) -> Iterator[bytes | None]:
    yield read_string(source)


def _type_of(_value: bytes, _version: int) -> int:
    return _STRING


def _encode(value: bytes, _value_type: int, writing: Writing) -> Iterator[bytes]:
    yield writing.string(value)


CODEC: Final[Codec[bytes]] = Codec((_STRING,), _read, _type_of, _encode)
