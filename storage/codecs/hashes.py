"""Hashes in RDB: reads every format of Redis and Valkey, and writes two.

    4    the number of fields, then field and value of each as strings
    9    one zipmap
    13   one ziplist of fields and values
    16   one listpack of fields and values
    22   Valkey's: as 4, with the expiry of each field after its value, in 8 bytes (-1: none)
         Redis' before 7.4.0: the number of fields, then expiry (as a length, 0: none), field and value of each
    23   Redis' before 7.4.0: one listpack of fields, values and expiries
    24   8 bytes with the earliest expiry, then as Redis' 22, each expiry relative to the earliest minus one
    25   8 bytes with the earliest expiry, then as 23
    29 to 32   hashes that share their names: hash_templates.py

Readers of an RDB version below 12 know no expiry of fields. For them a hash has type 4, and a file holds the expiries
in a field of our own after the hash, which Redis and Valkey skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..collections.hash import Hash
from ..loading import RdbError
from . import hash_templates, listpack, ziplist
from .byte_source import ByteSource, EmptyValueError
from .codec import PLAIN, Codec, Extension, Writing
from .encoding import encode_length, encode_string, read_length, read_string

HASH_TYPES: Final = (4, 9, 13, 16, 22, 23, 24, 25, *hash_templates.TYPES)
TIMES_FIELD: Final = b"rillet-hash-times"
FIRST_WITH_TIMES: Final = 12
_PLAIN: Final = 4
_WITH_TIMES: Final = 24
_PAUSE: Final = 512  # fields
_LATEST: Final = 1 << 63
_NO_TIME: Final = 0


def read_hash(source: ByteSource, value_type: int, valkey: bool) -> Iterator[Hash | None]:
    """Read the hash after a key: yield None between steps, and the hash last.

    Raises RdbError: it is damaged, or has a field twice, or no field: Redis has no empty hashes.
    """
    found = Hash()
    if value_type in {_PLAIN, 22, _WITH_TIMES}:
        base = int.from_bytes(source.take(8), "little") - 1 if value_type == _WITH_TIMES else 0
        for number in range(read_length(source)):
            time = read_length(source) if value_type != _PLAIN and not valkey else _NO_TIME
            field, value = read_string(source), read_string(source)
            if value_type == 22 and valkey:
                time = max(int.from_bytes(source.take(8), "little", signed=True), _NO_TIME)
            _take_in(found, field, value, time and base + time)
            if number % _PAUSE == _PAUSE - 1:
                yield None
    elif value_type in hash_templates.TYPES:
        for field, value in hash_templates.read_templated(source, value_type):
            _take_in(found, field, value, _NO_TIME)
    else:
        if value_type == 25:
            source.skip(8)
        _take_in_all(found, read_string(source), value_type)
    # Redis refuses an empty zipmap.
    if not found.fields and (value_type == 9 or value_type in hash_templates.TYPES):
        raise RdbError("A hash without fields")
    if not found.fields:
        raise EmptyValueError("A hash without fields")
    yield found


def _take_in(found: Hash, field: bytes, value: bytes, time: int) -> None:
    if field in found.fields:
        raise RdbError("A hash with a field twice")
    if not 0 <= time < _LATEST:
        raise RdbError("A field of a hash that expires at no time")
    found.fields[field] = value
    if time != _NO_TIME:
        found.expire(field, time)


def _take_in_all(found: Hash, packed: bytes, value_type: int) -> None:
    if value_type == 9:
        words = list(_zipmap(packed))
    elif value_type == 13:
        words = ziplist.unpack(packed)
    else:
        words = [b"%d" % each if isinstance(each, int) else each for each in listpack.unpack(packed)]
    step = 3 if value_type in {23, 25} else 2
    if value_type in {16, 23, 25} and len(words) < step:
        return  # less than one field: Redis treats it as empty
    if len(words) % step:
        raise RdbError("A hash with a field without value")
    for at in range(0, len(words), step):
        _take_in(found, words[at], words[at + 1], _time(words[at + 2]) if step == 3 else _NO_TIME)


def _time(word: bytes) -> int:
    if not word.isdigit() or len(word) > 19:
        raise RdbError("A field of a hash that expires at no time")
    return int(word)


def _zipmap(data: bytes) -> Iterator[bytes]:
    """Yield the fields and values of a zipmap, the format before Redis 2.6.

    A zipmap starts with the number of fields (not used from 254 on). Each field has a length and bytes; each value
    has a length, the number of unused bytes, bytes and the unused bytes. 0xFF ends the zipmap. A length of 254 or more
    is a byte 254 and four bytes.
    """
    source = ByteSource.of(data)
    source.skip(1)
    while (size := source.byte()) != 0xFF:
        yield source.take(int.from_bytes(source.take(4), "little") if size == 254 else size)
        size = source.byte()
        size = int.from_bytes(source.take(4), "little") if size == 254 else size
        unused = source.byte()
        yield source.take(size)
        source.skip(unused)
    if source.peek(1):
        raise RdbError("Zipmap integrity check failed.")


def hash_type(value: Hash, version: int) -> int:
    """Return the type byte of a hash for readers of an RDB version."""
    return _PLAIN if value.times is None or version < FIRST_WITH_TIMES else _WITH_TIMES


def encode_hash(value: Hash, value_type: int, writing: Writing = PLAIN) -> Iterator[bytes]:
    """Yield the RDB form of a hash in pieces, the bytes that follow its key.

    ``value_type`` is one from ``hash_type``.
    """
    size = encode_length(len(value.fields))
    encode = writing.string
    if value_type == _PLAIN:
        yield size
        for field, content in value.fields.items():
            yield encode(field) + encode(content)
        return
    assert value.times is not None
    when = value.times.when
    earliest = min(when.values())
    yield earliest.to_bytes(8, "little") + size
    for field, content in value.fields.items():
        time = when[field] - earliest + 1 if field in when else _NO_TIME
        yield encode_length(time) + encode(field) + encode(content)


def encode_times(value: Hash, value_type: int) -> bytes:
    """Return the expiries for the field of our own after the hash; empty if the type byte expresses them."""
    if value.times is None or value_type != _PLAIN:
        return b""
    when = value.times.when
    return encode_length(len(when)) + b"".join(
        encode_string(field) + time.to_bytes(8, "little") for field, time in when.items()
    )


def apply_times(value: Hash, data: bytes) -> None:
    """Set the expiries from the field of our own after the hash.

    Raises RdbError: it is damaged, or names fields that the hash does not have.
    """
    source = ByteSource.of(data)
    for _ in range(read_length(source)):
        field, time = read_string(source), int.from_bytes(source.take(8), "little") & (_LATEST - 1)
        if field not in value.fields:
            raise RdbError("A field of Rillet names a field of a hash that is not there")
        value.expire(field, time)


def _count_times(value: Hash, value_type: int) -> Iterator[tuple[str, int]]:
    if value.times is not None and value_type == _PLAIN:
        yield "times of hash fields", len(value.times.when)


def _payload_version(value: Hash, version: int) -> int:
    return version if value.times is None else max(version, FIRST_WITH_TIMES)


CODEC: Final[Codec[Hash]] = Codec(
    HASH_TYPES,
    read_hash,
    hash_type,
    encode_hash,
    Extension(TIMES_FIELD, encode_times, apply_times, _count_times),
    _payload_version,
)
