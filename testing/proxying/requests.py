"""Splits the bytes of one client into requests and their words; the bytes themselves pass unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol.framing import Framer, FramingError
from ...protocol.requests import RequestParser
from .known import MOST_HELD

_STAR: Final = b"*"[0]
_PADDING: Final = 64  # at most this many empty words replace the missing words of a long request


class Requests:
    """Splits a client's bytes into requests, which ``feed`` yields; the server's own parser provides the words."""

    def __init__(self) -> None:
        # The bytes are not valid requests. The server will say so; from now on nothing is split.
        self.has_failed = False
        self._parser = RequestParser()
        self._framer = Framer()
        self._head = bytearray()  # the beginning of an incomplete request
        self._is_inline = False
        self._passes = False  # whether the rest of a request follows whose beginning was already yielded

    @property
    def is_between(self) -> bool:
        """Whether the last request is complete."""
        return not self._head and not self._passes

    def begun(self, data: bytes) -> int:
        """Return how many requests begin in ``data``, which has already been sent to the server.

        The last one may be incomplete; then ``feed`` passes its rest without words.
        """
        parser, was_between = self._parser, self.is_between
        if was_between:
            commands = parser.feed(data)
            while parser.more:
                commands += parser.feed(b"")
            if parser.error is None and parser.is_between:
                return len(commands)
            self._parser = RequestParser()
        found = sum(1 for _, argv, _ in self.feed(data) if argv)
        if self._head:
            self._head.clear()
            self._parser, self._passes = RequestParser(), True
            found += 1
        return found

    def feed(self, data: bytes) -> Iterator[tuple[bytes, list[bytes], int]]:
        """Yield requests in order, each as its bytes, its words and the offset of its end in ``data``.

        A request of more than ``MOST_HELD`` bytes comes in pieces. The first has the words so far, and empty words for the
        missing ones; the others have no words. Nor have bytes that are not a command. The caller may stop at any request;
        it must then feed the bytes from the last offset on.
        """
        at = 0
        while at < len(data):
            if self.has_failed:
                yield data[at:], [], len(data)
                return
            if not self._head and not self._passes:
                self._is_inline = data[at] != _STAR
            begin = at
            try:
                end = (data.find(b"\n", at) + 1 or -1) if self._is_inline else self._framer.next(data, at)
            except FramingError:
                self.has_failed = True
                yield self._taken(data[begin:]), [], len(data)
                return
            at = end if end >= 0 else len(data)
            piece = data[begin:at]
            if self._passes:
                self._passes = end < 0
                yield piece, [], at
                continue
            commands = self._parser.feed(piece)
            self.has_failed = self._parser.error is not None
            if end >= 0 or self.has_failed:
                yield self._taken(piece), commands[0] if commands else [], at
                continue
            self._head += piece
            if len(self._head) > MOST_HELD:
                self._passes = True
                self._parser = RequestParser()
                words = _first_words(bytes(self._head))
                yield self._taken(b""), words, at

    def _taken(self, data: bytes) -> bytes:
        if not self._head:
            return data
        taken = bytes(self._head) + data
        self._head.clear()
        return taken

    @property
    def is_in_rest(self) -> bool:
        """Whether more pieces of a long request will follow."""
        return self._passes


def _first_words(head: bytes) -> list[bytes]:
    """Return the complete words at the beginning of a long request, with empty words for the missing ones."""
    begin = at = head.find(b"\r\n") + 2
    framer, found = Framer(), 0
    while (end := framer.next(head, at)) >= 0:
        at = end
        found += 1
    padding = min(int(head[1 : begin - 2]) - found, _PADDING)
    words = RequestParser().feed(b"*%d\r\n" % (found + padding) + head[begin:at] + b"$0\r\n\r\n" * padding)
    return words[0] if words else []
