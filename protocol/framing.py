"""Find where RESP values end in bytes that are cut anywhere, without decoding the values."""

from __future__ import annotations

from typing import Final

from .canonical import LENGTHS

_LINES: Final = frozenset(b"+-:,_#(")
_BULKS: Final = frozenset(b"$=!")
_AGGREGATES: Final = {b"*"[0]: 1, b"~"[0]: 1, b">"[0]: 1, b"%"[0]: 2}
_ATTRIBUTE: Final = b"|"[0]
_CHUNK: Final = b";"[0]
_END: Final = b"."[0]
_NEWLINE: Final = b"\n"[0]
_RETURN: Final = b"\r"[0]
_LONGEST_HEADER: Final = 64
_STREAMED: Final = -1
PUSH: Final = b">"[0]


class FramingError(ValueError):
    """The bytes are not RESP."""


class Framer:
    """Finds where values end in one direction of a connection. It buffers at most part of a line.

    It supports RESP2 and RESP3 with attributes and streamed strings and aggregates. An attribute belongs to the value after it.
    """

    __slots__ = ("_left", "_line", "_skipped", "kind")

    def __init__(self) -> None:
        # The first byte of the incomplete value, if there is one, or of the last complete value.
        self.kind = 0
        # For each open aggregate, the number of values it lacks; _STREAMED: until its end mark.
        self._left: list[int] = []
        self._skipped = 0  # bytes of a bulk string still to come, with its line end
        # The received part of a line; of a line without a length only the first and the last byte.
        self._line = b""

    @property
    def is_between(self) -> bool:
        """Whether every value so far is complete."""
        return not (self._left or self._skipped or self._line)

    def next(self, data: bytes, at: int) -> int:
        """Continue to frame at ``data[at]``; return the index after the end of the next value, -1 if ``data`` ends first.

        Raises FramingError: the bytes are not RESP; nothing after them can be framed.
        """
        size, left = len(data), self._left
        while at < size:
            if self._skipped:
                if size - at < self._skipped:
                    self._skipped -= size - at
                    return -1
                at += self._skipped
                self._skipped = 0
            else:
                line = self._line
                end = data.find(b"\r\n", at) + 2
                if line and line[-1] == _RETURN and data[at] == _NEWLINE:
                    end = at + 1
                elif end == 1:
                    self._keep(line[0] if line else data[at], data[at:])
                    return -1
                first = line[0] if line else data[at]
                if not left or (self.kind == _ATTRIBUTE and left == [1]):
                    self.kind = first
                # Most values are short bulk strings: without this shortcut 100 of them in an array take 220 us.
                length = None if line else LENGTHS.get(data[at : end - 2])
                if length is not None:
                    at = end + length + 2
                    if at > size:
                        self._skipped = at - size
                        return -1
                elif first in _LINES:
                    self._line, at = b"", end
                else:
                    header = (line + data[at:end])[1:-2]
                    self._line, at = b"", end
                    if not self._open(first, header):
                        continue
            # The value is complete, and so is each aggregate that lacked only this value.
            while left:
                if left[-1] != _STREAMED:
                    left[-1] -= 1
                    if not left[-1]:
                        left.pop()
                        continue
                break
            else:
                return at
        return -1

    def count(self, data: bytes) -> int:
        """Consume all of ``data`` and return how many values end in it, not counting pushes.

        Raises FramingError: as ``next``.
        """
        at = found = 0
        size, find, lengths, lines = len(data), data.find, LENGTHS, _LINES
        is_between = self.is_between
        while at >= 0:
            # Most values are short and complete: without this shortcut 100 of them take 110 instead of 50 us.
            while at < size and is_between:
                end = find(b"\r\n", at)
                length = lengths.get(data[at:end], -2 if data[at] in lines else size)
                if end < 0 or end + length + 4 > size:
                    break
                self.kind = data[at]
                at = end + length + 4
                found += 1
            at = self.next(data, at)
            found += at >= 0 and self.kind != PUSH
            is_between = True
        return found

    def _keep(self, first: int, part: bytes) -> None:
        if first in _LINES:
            self._line = bytes((first,)) + (part[-1:] if len(self._line + part) > 1 else b"")
        else:
            self._line += part
            if len(self._line) > _LONGEST_HEADER:
                raise FramingError("a header is too long")

    def _open(self, first: int, header: bytes) -> bool:
        """Process the header of a bulk string or an aggregate; return True if the value ends with it."""
        left = self._left
        if first == _END and not header and left and left[-1] == _STREAMED:
            left.pop()
            return True
        if header == b"?" and (first in _AGGREGATES or first == b"$"[0]):
            left.append(_STREAMED)
            return False
        digits = header[1:] if header[:1] == b"-" else header
        if not digits.isdigit():
            raise FramingError(f"no length: {header[:20]!r}")
        length = int(header)
        if first in _BULKS:
            if length >= 0:
                self._skipped = length + 2
            return length < 0
        if first in _AGGREGATES:
            if length > 0:
                left.append(length * _AGGREGATES[first])
            return length <= 0
        if length < 0:
            raise FramingError(f"a negative length: {header!r}")
        if first == _ATTRIBUTE:
            if left and left[-1] != _STREAMED:
                left[-1] += 2 * length
            else:
                left.append(2 * length + 1)
            return False
        if first == _CHUNK and left and left[-1] == _STREAMED:
            if length:
                self._skipped = length + 2
                return False
            left.pop()
            return True
        raise FramingError(f"no type: {bytes((first,))!r}")
