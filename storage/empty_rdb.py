"""Reading past an RDB base that holds no keys, which is what Redis and Valkey create on a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VERSIONS = range(1, 100)
_AUX, _RESIZE, _SELECT, _END = 0xFA, 0xFB, 0xFE, 0xFF
_POLYNOMIAL = 0x95AC9329AC4BC9B5  # CRC-64/Jones, bits reversed


class RdbError(Exception):
    """The RDB part can not be read; the text says why."""


class ByteSource:
    """The bytes of one file from its start, with the place reached."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._ahead = b""
        self.position = 0

    def peek(self, count: int) -> bytes:
        """Give the next bytes without taking them; fewer only at the end of the file."""
        while len(self._ahead) < count and (more := self._read(count - len(self._ahead))):
            self._ahead += more
        return self._ahead[:count]

    def read(self, count: int) -> bytes:
        """Take up to `count` bytes; fewer only at the end of the file."""
        pieces = [self._ahead[:count]]
        self._ahead = self._ahead[count:]
        missing = count - len(pieces[0])
        while missing and (more := self._read(missing)):
            pieces.append(more)
            missing -= len(more)
        data = b"".join(pieces)
        self.position += len(data)
        return data


def is_rdb(source: ByteSource) -> bool:
    """Tell whether a file starts as an RDB file of Redis or Valkey does."""
    head = source.peek(6)
    return head.startswith(b"REDIS") or head == b"VALKEY"


def read_empty_rdb(source: ByteSource) -> Iterator[None]:
    """Take an RDB without keys off the source, its checksum included; RdbError where it has keys.

    The shape of every RDB reader of the loader: it yields between keys (here: never), so that a server can
    answer its clients meanwhile.
    """
    yield from ()
    body = bytearray()

    def take(count: int) -> bytes:
        data = source.read(count)
        if len(data) < count:
            raise RdbError("Short read or OOM loading DB. Unrecoverable error, aborting now.")
        body.extend(data)
        return data

    def length() -> tuple[int, bool]:
        """Give a length, or with True the kind of a specially encoded string."""
        first = take(1)[0]
        match first >> 6:
            case 0:
                return first & 0x3F, False
            case 1:
                return (first & 0x3F) << 8 | take(1)[0], False
            case 2:
                return int.from_bytes(take(8 if first == 0x81 else 4), "big"), False
        return first & 0x3F, True

    def skip_string() -> None:
        size, special = length()
        if not special:
            take(size)
        elif size <= 2:  # an integer of 1, 2 or 4 bytes
            take(1 << size)
        elif size == 3:  # LZF
            packed, _ = length()
            length()
            take(packed)
        else:
            raise RdbError(f"Unknown RDB string encoding type {size}")

    version = take(9)[-4:].lstrip(b"Y")
    if not version.isdigit() or int(version) not in _VERSIONS:
        raise RdbError(f"Can't handle RDB format version {version.decode(errors='backslashreplace')}")
    while (opcode := take(1)[0]) != _END:
        if opcode == _AUX:
            skip_string()
            skip_string()
        elif opcode == _SELECT:
            length()
        elif opcode == _RESIZE:
            length()
            length()
        else:
            raise RdbError("it holds keys, and RDB files with keys can not be read yet")
    if int(version) >= 5:
        counted = crc64(body)
        written = int.from_bytes(take(8), "little")
        if written not in {0, counted}:
            raise RdbError(f"Wrong RDB checksum expected: ({written:x}) but got ({counted:x}). Aborting now.")


def crc64(data: bytes | bytearray) -> int:
    """Give the checksum that RDB files end with (slow: for the hundred bytes of a file without keys)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ _POLYNOMIAL if crc & 1 else crc >> 1
    return crc
