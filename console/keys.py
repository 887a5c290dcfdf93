"""Keys of all types: a sample by SCAN, and the start of a value. Nothing is read completely."""

from __future__ import annotations

import codecs
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from . import replies
from .connection import Command, Link, Subject, command

SCANNED: Final = 2_000  # keys for a page, about
SHOWN: Final = 100
ITEMS: Final = 50  # of a value
TEXT_BYTES: Final = 4_000  # of a string
TYPES: Final = ("string", "list", "set", "zset", "hash", "stream")
_SCAN_COUNT: Final = 500
_SCANS: Final = 8


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of the page of keys: ``ttl`` in milliseconds, None without an expiry.

    ``memory`` in bytes, None if unknown.
    """

    key: bytes
    type: str
    ttl: int | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class KeysDetail:
    """The content of the page of keys: matching keys, and how many were examined."""

    rows: tuple[KeyRow, ...]  # the first matching keys
    types: tuple[tuple[str, int], ...]  # the number of examined keys by type
    looked: int  # the number of examined keys
    keys: int
    cursor: str  # the start of the next page; empty at the end of the keyspace
    whole: bool  # whether all keys were examined


@dataclass(frozen=True, slots=True)
class KeysSubject(Subject[KeysDetail]):
    """Keys from a SCAN cursor on, whose name contains ``find`` and which have this type (empty: any)."""

    find: bytes = b""
    type: str = ""
    cursor: str = "0"

    async def read(self, link: Link) -> KeysDetail:
        """Examine some of the keys, and read the type, expiry and memory of the ones to show."""
        pattern = (b"MATCH", b"*" + _escaped(self.find) + b"*") if self.find else ()
        at = self.cursor.encode()
        seen: dict[bytes, None] = {}
        keys = 0
        for _ in range(_SCANS):
            reply, size = await link.send(
                [command("SCAN", at, *pattern, "COUNT", _SCAN_COUNT), command("DBSIZE")]
            )
            if isinstance(reply, RedisError):
                raise reply
            at, keys = bytes(reply[0]), size if isinstance(size, int) else 0
            seen |= dict.fromkeys(reply[1])
            if at == b"0" or len(seen) >= SCANNED:
                break
        kinds = await self._types(link, list(seen))
        fitting = [key for key in sorted(seen) if key in kinds and self.type in {"", kinds[key]}]
        return KeysDetail(
            tuple(await _rows(link, fitting[:SHOWN], kinds)),
            tuple(Counter(kinds.values()).most_common()),
            len(seen),
            keys,
            "" if at == b"0" else at.decode(),
            at == b"0" and self.cursor == "0" and len(fitting) <= SHOWN,
        )

    @staticmethod
    async def _types(link: Link, keys: list[bytes]) -> dict[bytes, str]:
        """Return the types of the keys that still exist and that this user may read."""
        got = await link.send([command("TYPE", key) for key in keys])
        return {
            key: bytes(reply).decode()
            for key, reply in zip(keys, got, strict=True)
            if not isinstance(reply, RedisError) and bytes(reply) != b"none"
        }


def _escaped(word: bytes) -> bytes:
    """Escape a text for a glob, so that it matches literally."""
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\^-" else bytes([byte]) for byte in word)


async def _rows(link: Link, keys: list[bytes], kinds: dict[bytes, str]) -> list[KeyRow]:
    asked: list[Command] = []
    for key in keys:
        asked += [command("PTTL", key), command("MEMORY", "USAGE", key)]
    got = await link.send(asked)
    return [
        _row(key, kinds[key], ttl, size) for key, ttl, size in zip(keys, got[::2], got[1::2], strict=True)
    ]


def _row(key: bytes, kind: str, ttl: Any, size: Any) -> KeyRow:
    return KeyRow(
        key, kind, ttl if isinstance(ttl, int) and ttl >= 0 else None, size if isinstance(size, int) else None
    )


@dataclass(frozen=True, slots=True)
class KeyDetail:
    """The content of the page of a key: the start of its value."""

    key: bytes
    type: str  # "none" if the key does not exist
    ttl: int | None = None  # milliseconds until it expires; None without an expiry
    memory: int | None = None  # bytes; None if unknown
    length: int = 0  # the bytes of a string, or the number of items of another type
    # The columns of each item: index and value of a list, field and value of a hash, score and member of a sorted
    # set; only the value of a set or string.
    items: tuple[tuple[bytes, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class KeySubject(Subject[KeyDetail]):
    """The page of a key of any type except stream, which has its own page."""

    key: bytes

    async def read(self, link: Link) -> KeyDetail:
        """Read the key's type, then a part of its value with a bounded command."""
        key = self.key
        kind, ttl, memory = await link.send(
            [command("TYPE", key), command("PTTL", key), command("MEMORY", "USAGE", key)]
        )
        if isinstance(kind, RedisError):
            raise kind
        name = bytes(kind).decode()
        about = _row(key, name, ttl, memory)
        if name not in _LENGTHS:
            return KeyDetail(key, name, about.ttl, about.memory)
        length = (await link.send([command(_LENGTHS[name], key)]))[0]
        count = replies.few(length, about.memory, ITEMS)
        got = (await link.send([_beginning(name, key, count)]))[0]
        for _ in range(_SCANS if name in {"set", "hash"} else 0):
            if isinstance(got, RedisError) or got[1] or got[0] == b"0":
                break  # else the buckets that it went through are empty
            got = (await link.send([_beginning(name, key, count, got[0])]))[0]
        if isinstance(got, RedisError) or not isinstance(length, int):
            return KeyDetail(key, "none")  # it has gone, or is another, between the two batches
        if name == "string" and length > len(got):
            got = _uncut(got)
        return KeyDetail(key, name, about.ttl, about.memory, length, _items(name, got))


_LENGTHS: Final = {"string": "STRLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "hash": "HLEN"}


def _beginning(kind: str, key: bytes, count: int, cursor: bytes = b"0") -> Command:
    """Return a command that reads about this many items; SSCAN and HSCAN return small collections completely."""
    if kind == "string":
        return command("GETRANGE", key, 0, TEXT_BYTES - 1)
    if kind == "list":
        return command("LRANGE", key, 0, count - 1)
    if kind == "zset":
        return command("ZRANGE", key, 0, count - 1, "WITHSCORES")
    return command("SSCAN" if kind == "set" else "HSCAN", key, cursor, "COUNT", count)


def _uncut(text: bytes) -> bytes:
    """Drop a UTF-8 character that was split at the end of a cut text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(text)
    except UnicodeDecodeError:
        return text  # no text
    return text[: len(text) - len(decoder.getstate()[0])]


def _items(kind: str, got: Any) -> tuple[tuple[bytes, ...], ...]:
    if kind == "string":
        return ((got,),)
    if kind == "list":
        return tuple((b"%d" % place, item) for place, item in enumerate(got))
    if kind == "set":
        return tuple((item,) for item in got[1][:ITEMS])
    words = iter(got[1] if kind == "hash" else got)
    pairs = list(zip(words, words, strict=True))[:ITEMS]
    return tuple(pairs) if kind == "hash" else tuple((score, member) for member, score in pairs)
