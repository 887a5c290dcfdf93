"""Parse replies with their RESP3 types for the prompt, within limits, and format them like redis-cli."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .names import plain, quote

TEXT_BYTES: Final = 4_000  # of a string that are kept
ITEMS: Final = 300  # of an aggregate that are kept
TOTAL_TEXT_BYTES: Final = 100_000  # of all strings of a reply
TOTAL_ITEMS: Final = 2_000  # of all aggregates of a reply
READ_BYTES: Final = 64 << 20  # of a reply, with all that is dropped
DEPTH: Final = 40
_PIECE: Final = 1 << 16
_LINES: Final = 1_000  # that are read before others have their turn
_STRINGS: Final = {b"$": "string", b"!": "error", b"=": "verbatim"}
_SCALARS: Final = {
    b"+": "status",
    b"-": "error",
    b":": "integer",
    b",": "double",
    b"#": "boolean",
    b"(": "big number",
    b"_": "null",
}
_AGGREGATES: Final = {b"*": "array", b"~": "set", b"%": "map", b"|": "attribute", b">": "push"}
_PAIRS: Final = frozenset({"map", "attribute"})


class ProtocolError(Exception):
    """The bytes are not a reply, or the reply is nested too deep or too long."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed reply with its RESP3 type."""

    # "status", "error", "integer", "double", "boolean", "null", "big number", "string", "verbatim", or an aggregate:
    # "array", "set", "map", "attribute", "push".
    kind: str
    text: bytes = b""  # of a scalar, at most ``TEXT_BYTES``
    items: tuple[Reply, ...] = ()  # of an aggregate, at most ``ITEMS``; keys and values of a map alternate
    size: int = 0  # the full size: bytes of a string, items of an aggregate


@dataclass(slots=True)
class Budget:
    """The limits on reading a reply (with the pushes before it): what is kept, and what is read."""

    text: int = TOTAL_TEXT_BYTES  # bytes of strings that may still be kept
    items: int = TOTAL_ITEMS  # items of aggregates that may still be kept
    read: int = 0
    cut: bool = False  # whether items were left out because of these limits
    _lines: int = 0

    def has_room(self) -> bool:
        """Return True if one more item may be kept; otherwise record the cut."""
        self.cut = self.cut or self.text <= 0 or self.items <= 0
        return not self.cut

    def keep(self, size: int) -> int:
        """Return how many bytes of a string of this size to keep."""
        kept = max(0, min(size, TEXT_BYTES, self.text))
        self.text -= kept
        return kept

    def count(self, size: int) -> None:
        """Count the bytes read. Raises ProtocolError: they are too many."""
        self.read += size
        if self.read > READ_BYTES:
            raise ProtocolError(f"the reply has more than {READ_BYTES >> 20} MB")

    async def line(self, stream: asyncio.StreamReader) -> tuple[bytes, bytes]:
        """Read a line; return its type byte and the rest."""
        line = await stream.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the server closed the connection")
        self.count(len(line))
        self._lines += 1
        if self._lines % _LINES == 0:  # buffered bytes are read without a pause
            await asyncio.sleep(0)
        return line[:1], line[1:-2]


async def read(stream: asyncio.StreamReader, budget: Budget | None = None) -> Reply:
    """Read one reply; bytes beyond the limits are read and dropped.

    Raises:
        ProtocolError: the bytes are not a reply, or are more than ``READ_BYTES``.
        EOFError: the connection ended.
    """
    return await _read(stream, budget or Budget(), 0)


async def _read(stream: asyncio.StreamReader, budget: Budget, depth: int) -> Reply:
    budget.items -= 1
    mark, rest = await budget.line(stream)
    if mark in _SCALARS:
        return Reply(_SCALARS[mark], rest[: budget.keep(len(rest))], (), len(rest))
    size = _size(mark, rest)
    if depth > DEPTH:
        raise ProtocolError("a reply that the prompt cannot read")
    if size < 0:
        return Reply("null")
    if mark in _STRINGS:
        return Reply(_STRINGS[mark], await _string(stream, budget, size, budget.keep(size)), (), size)
    return await _aggregate(stream, budget, _AGGREGATES[mark], size, depth)


def _size(mark: bytes, rest: bytes) -> int:
    if (mark not in _STRINGS and mark not in _AGGREGATES) or not rest.removeprefix(b"-").isdigit():
        raise ProtocolError("a reply that the prompt cannot read")
    return int(rest)


async def _string(stream: asyncio.StreamReader, budget: Budget, size: int, limit: int) -> bytes:
    budget.count(size + 2)
    kept = bytearray()
    left = size + 2
    while left:
        piece = await stream.readexactly(min(left, _PIECE))
        left -= len(piece)
        kept += piece[: limit - len(kept)]
    return bytes(kept)


async def _aggregate(stream: asyncio.StreamReader, budget: Budget, kind: str, size: int, depth: int) -> Reply:
    width = 2 if kind in _PAIRS else 1
    kept: list[Reply] = []
    while len(kept) < size * width:
        if len(kept) % width == 0 and (len(kept) == ITEMS * width or not budget.has_room()):
            await _skip(stream, budget, size * width - len(kept))
            break
        item = await _read(stream, budget, depth + 1)
        while item.kind == "attribute":  # of the item that follows
            item = await _read(stream, budget, depth + 1)
        kept.append(item)
    return Reply(kind, b"", tuple(kept), size)


async def _skip(stream: asyncio.StreamReader, budget: Budget, left: int) -> None:
    """Skip replies, however deep, and keep nothing."""
    while left:
        left -= 1
        mark, rest = await budget.line(stream)
        if mark in _SCALARS:
            continue
        size = _size(mark, rest)
        if size < 0:
            continue
        if mark in _STRINGS:
            await _string(stream, budget, size, 0)
        else:
            kind = _AGGREGATES[mark]
            left += size * (2 if kind in _PAIRS else 1) + (kind == "attribute")


def text(reply: Reply) -> str:
    """Format a reply like redis-cli in RESP3, with a distinct mark for each type."""
    return "\n".join(_lines(reply))


def _lines(reply: Reply) -> list[str]:
    if reply.kind in _AGGREGATES.values():
        return _aggregate_lines(reply)
    said = plain(reply.text.decode("utf-8", "replace"))
    more = f" … ({reply.size:,} bytes)" if reply.size > len(reply.text) else ""
    if reply.kind == "string":
        word = quote(reply.text)
        return [(word if word.startswith('"') else f'"{word}"') + more]
    if reply.kind == "verbatim":
        body = reply.text[4:].decode("utf-8", "replace")
        return [*(plain(line) for line in body.splitlines()), *([more.strip()] if more else [])] or [""]
    return [
        {
            "status": said,
            "null": "(nil)",
            "boolean": "(true)" if reply.text == b"t" else "(false)",
            "error": f"(error) {said}",
        }.get(reply.kind, f"({reply.kind}) {said}")
        + more
    ]


def _aggregate_lines(reply: Reply) -> list[str]:
    if not reply.size:
        return [{"map": "(empty hash)", "set": "(empty set)"}.get(reply.kind, "(empty array)")]
    mark = {"array": ")", "set": "~", "push": ">"}.get(reply.kind, "#" if reply.kind == "map" else "|")
    pairs = reply.kind in _PAIRS
    count = len(reply.items) // 2 if pairs else len(reply.items)
    width = len(str(count))
    found: list[str] = []
    for number in range(count):
        head = f"{number + 1:>{width}}{mark} "
        found += _indented(head, _pair(reply, number) if pairs else _lines(reply.items[number]))
    if reply.size > count:
        found.append(f"… {reply.size - count:,} more")
    return found


def _pair(reply: Reply, number: int) -> list[str]:
    key, value = _lines(reply.items[2 * number]), _lines(reply.items[2 * number + 1])
    if len(value) == 1:
        return [*key[:-1], f"{key[-1]} => {value[0]}"]
    return [*key[:-1], f"{key[-1]} =>", *(f"   {line}" for line in value)]


def _indented(head: str, lines: list[str]) -> Iterator[str]:
    yield head + lines[0]
    for line in lines[1:]:
        yield " " * len(head) + line
