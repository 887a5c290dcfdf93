"""Requests: bytes from a socket in, complete commands out, exactly as Redis would read them."""

from __future__ import annotations

import re
from itertools import chain, product
from operator import itemgetter
from typing import Any, Final

from hiredis import Reader, pack_command

from . import limits
from .canonical import BIG_ARRAY, BIG_PUSH, LENGTHS, SHORT, claims_much, holds_bulks
from .inline import split_inline
from .regex import regex

_MORE: Final = object()  # unlike hiredis' default, never equal to a value: `*-1` is None, `#f` is False

_STAR: Final = 42
_DOLLAR: Final = 36
_NEWLINE: Final = 10
_GREATER: Final = 62
_CARRIAGE_RETURN: Final = 13

_LONG: Final = 4096
_TINY: Final = 20
_AGAIN: Final = (b">", b"$", b"0")  # last words of reads that clients repeat word for word
_ONE_WORD: Final = b"*1\r\n"
_HEADER: Final = list(LENGTHS).__getitem__

# If a request lacks more than _MANY_WORDS, they are taken many at a time: from _WINDOW bytes at first, then from more.
_MANY_WORDS: Final = 32
_WINDOW: Final = 1024
_LARGEST_WINDOW: Final = 1 << 16

_LONGEST_BATCH: Final = 1024 * 1024
# The most commands that the strict parser returns at once; each takes about a microsecond.
_AT_ONCE: Final = 256
# The limit keeps the memory of a match small. A possessive group would, too, but may end at a wrong place in Python 3.11.2
# (protocol/inline.py).
_EMPTY_REQUESTS: Final = regex(rb"(?:[ \t\r\v\f]{0,64}\n|\*(?:0|-[1-9][0-9]{0,17})\r\n){0,1000}")
# Like `claims_much`: hiredis allocates as much as a header claims, so it must not see these.
_BIG_SET: Final = re.compile(rb"~\d{5}").search
_BIG_ATTRIBUTE: Final = re.compile(rb"\|\d{5}").search
# Fed after a batch without `|`. hiredis parses its `|` as a type only if the batch ended at the end of a command.
_END: Final = b"=5\r\ntxt:|\r\n"
_ONLY_LISTS: Final = {list}
_LONE_STAR: Final = frozenset((b"*", b"*\r", b"*\r\n"))  # the ID of an XADD, not a header

_INTEGER: Final = re.compile(rb"-?[1-9][0-9]{0,18}|0").fullmatch
_FIRST: Final = itemgetter(0)
# What a browser sends first if it is lured into talking to the port; upper and lower case are the same, as in Redis.
_CROSS_PROTOCOL: Final = frozenset(
    "".join(letters).encode()
    for word in ("post", "host:")
    for letters in product(*((letter, letter.upper()) for letter in word))
)


class RequestParser:
    """Turns the bytes of one connection into commands, on a fast or a strict path with the same behaviour.

    The fast path recognises what Redis' own clients send, and compares it with its one canonical encoding. Everything
    else (inline commands, requests in pieces, errors) takes the strict incremental parser, which is the specification.

    After each `feed` the caller executes the returned commands in order. Then, if `error` is not None, it sends
    `error` and closes the connection once that is flushed; if `error` is `b""`, it closes without a reply. An error is
    final: nothing is returned afterwards.
    The strict parser returns a limited number of commands at a time: one while `authenticated` is False, because that
    may be the AUTH that lifts the limits for the next. While `more` is true, `feed(b"")` returns the next commands.
    """

    __slots__ = (
        "_arguments", "_at", "_authenticated", "_buffer", "_held", "_length", "_max_bulk_length",
        "_max_query_buffer", "_missing", "_quick", "_reader", "_repeated", "_repeated_words", "_scanned",
        "crossed", "error", "more",
    )  # fmt: skip

    def __init__(
        self,
        *,
        authenticated: bool = True,
        max_bulk_length: int = limits.MAX_BULK_LENGTH,
        max_query_buffer: int = limits.MAX_QUERY_BUFFER,
    ) -> None:
        self.error: bytes | None = None  # the encoded error reply that ends the connection
        # Whether that error is a POST or Host:, not a limit. Replies to the commands before it are dropped, as by Redis.
        self.crossed = False
        self.more = False  # whether the held bytes may contain complete commands
        self._authenticated = authenticated
        self._max_bulk_length = max_bulk_length
        self._max_query_buffer = max_query_buffer
        self._reader = _new_reader()
        # Clients repeat reads for new entries or from the beginning, and ranges up to `+`, word for word. The last such
        # request is recognised without parsing: otherwise an XREADGROUP of one takes 6.1 instead of 4.7 us.
        self._repeated = b""
        self._repeated_words: list[bytes] = []
        self._buffer = bytearray()
        self._at = 0  # up to where the buffer is parsed
        self._scanned = 0  # up to where the buffer is known to hold no line end
        self._arguments: list[bytes] = []
        self._held = 0  # bytes in those arguments
        self._missing = 0  # arguments still to come; 0 between requests
        self._length = -1  # of the argument being received; -1 before its header
        self._quick = 0  # the longest data that the fast path may take; 0 if it may take none
        self._drop_parsed()

    @property
    def is_between(self) -> bool:
        """Whether every request so far is complete."""
        return not (self._buffer or self._missing)

    @property
    def authenticated(self) -> bool:
        """Whether the client is logged in; while False, the limits before AUTH apply."""
        return self._authenticated

    @authenticated.setter
    def authenticated(self, value: bool) -> None:
        self._authenticated = value
        self._drop_parsed()

    @property
    def max_bulk_length(self) -> int:
        """The length in bytes of the longest argument that is accepted (``proto-max-bulk-len``)."""
        return self._max_bulk_length

    @max_bulk_length.setter
    def max_bulk_length(self, value: int) -> None:
        self._max_bulk_length = value
        self._drop_parsed()

    @property
    def max_query_buffer(self) -> int:
        """How many bytes of unparsed requests may be held: ``client-query-buffer-limit``, less the words queued for EXEC."""
        return self._max_query_buffer

    @max_query_buffer.setter
    def max_query_buffer(self, value: int) -> None:
        self._max_query_buffer = value
        self._drop_parsed()

    @property
    def buffered(self) -> int:
        """Bytes received for requests that ``feed`` has not returned yet."""
        return len(self._buffer) - self._at + self._held

    @property
    def held(self) -> int:
        """Bytes of complete arguments of the incomplete request; they are part of ``buffered``."""
        return self._held

    @property
    def expected(self) -> int:
        """Bytes that the current argument still lacks; no command can end before they arrive."""
        return max(0, self._at + self._length - len(self._buffer)) if self._length > 0 else 0

    def feed(self, data: bytes) -> list[list[bytes]]:
        """Take received bytes and return the commands that are now complete (see the class for what to do next).

        ``data``: Bytes as received, cut anywhere; may be empty.

        Returns:
            Commands in order, each a non-empty list of bytes, name first as the client spelled it.
        """
        if not 9 < len(data) <= self._quick:
            return self._resume(data)
        if data == self._repeated:
            return [self._repeated_words.copy()]
        if len(data) < _TINY and data.startswith(_ONE_WORD):
            # A name without arguments, like PING, is split into lines: otherwise a PING takes 1.7 instead of 1.4 us.
            parts = data.split(b"\r\n", 3)
            if len(parts) > 3 and parts[1] == _HEADER(len(parts[2])) and parts[2] not in _CROSS_PROTOCOL:
                return [[parts[2]], *self._parse(parts[3])] if parts[3] else [[parts[2]]]
        if data[0] != _STAR or (
            BIG_ARRAY(data) or (_GREATER in data and BIG_PUSH(data))
            if len(data) < _LONG
            else claims_much(data)
        ):
            return self._parse(data)
        # `|` and `~` begin types that hiredis also returns as lists, but mostly they are part of an argument. `~` alone on
        # its line, as in MAXLEN ~ 1000, is not a type.
        if 124 in data or (126 in data and data.count(b"~") != data.count(b"\n~\r\n")):  # `|`, `~`
            commands, rest = self._take_doubtful_batch(data)
        elif data[-1] == _NEWLINE and (batch := self._take_whole_batch(data)) is not None:
            return batch
        else:
            commands, rest = self._take_cut_batch(data)
        return commands + self._parse(rest) if rest else commands

    def _take_cut_batch(self, data: bytes) -> tuple[list[list[bytes]], bytes]:
        """Read the complete commands of a long pipeline that arrives in pieces; return them and the rest."""
        cut = data.rfind(b"\r\n*") + 2
        if data[cut : cut + 3] in _LONE_STAR:
            cut = data.rfind(b"\r\n*", 0, cut) + 2
        if cut > 1 and (batch := self._take_whole_batch(data[:cut])) is not None:
            return batch, data[cut:]
        return self._take_doubtful_batch(data)

    def _take_whole_batch(self, data: bytes) -> list[list[bytes]] | None:
        """Let hiredis read canonical commands that end where the data ends; return None if the data has anything else.

        hiredis reads replies: it accepts more types than a request may have. Of those only `+`, `(` and `=` are possible
        here. See `holds_bulks`.
        """
        reader = self._reader
        try:
            reader.feed(data)
            first: Any = reader.gets()
            # The join fails unless every word is bytes.
            if type(first) is list and (joined := b"".join(first)) and first[0] not in _CROSS_PROTOCOL:
                batch: list[Any] = [first]
                if not reader.has_data():
                    needs_proof = 61 in data or 43 in data or 40 in data
                    if not needs_proof or holds_bulks(data, batch, joined):
                        # First test: the last word is one byte long, or has a line end before its last byte.
                        is_read = data[-4] == _NEWLINE and first[-1] in _AGAIN
                        if (needs_proof or is_read) and len(data) < SHORT:
                            self._repeated, self._repeated_words = data, first.copy()
                        return batch
                else:
                    reader.feed(_END)
                    batch += iter(reader.gets, _MORE)
                    if (
                        batch.pop() == b"|"
                        and {*map(type, batch)} == _ONLY_LISTS
                        and all(batch)
                        and (joined := b"".join(chain.from_iterable(batch))) is not None
                        and _CROSS_PROTOCOL.isdisjoint(map(_FIRST, batch))
                        and (not (61 in data or 43 in data or 40 in data) or holds_bulks(data, batch, joined))
                    ):
                        return batch
        except Exception:  # noqa: BLE001, S110 - whatever it stumbled over, the strict parser knows what to say
            pass
        self._reader = _new_reader()
        return None

    def _take_doubtful_batch(self, data: bytes) -> tuple[list[list[bytes]], bytes]:
        """Read the complete commands in any data; return them and the rest.

        Re-encoding what hiredis returned, and comparing it with the data, proves that the commands are canonical.
        """
        # Two patterns: one with an alternative would spend long on each byte.
        if (126 in data and _BIG_SET(data)) or (124 in data and _BIG_ATTRIBUTE(data)):
            return [], data
        reader = self._reader
        batch: list[Any]
        try:
            reader.feed(data)
            batch = list(iter(reader.gets, _MORE))
            encoded = b"".join(map(pack_command, map(tuple, batch)))
        except Exception:  # noqa: BLE001 - whatever it stumbled over, the strict parser knows what to say
            self._reader = _new_reader()
            return [], data
        if encoded != data:
            self._reader = _new_reader()
            if not data.startswith(encoded):
                return [], data
        if not (all(batch) and _CROSS_PROTOCOL.isdisjoint(map(_FIRST, batch))):
            return [], data
        return batch, data[len(encoded) :]

    def _resume(self, data: bytes) -> list[list[bytes]]:
        """Complete the current request with the strict parser, then pass the bytes after it to the fast path."""
        if self.error is not None:
            return []
        if not self._authenticated or not (self._buffer or self._missing):
            return self._parse(data)
        self.more = False
        self._buffer += data
        command = self._next()
        if command is None:
            self._drop_parsed()
            return []
        with memoryview(self._buffer) as view:
            rest = bytes(view[self._at :])
        self._buffer = bytearray()
        self._at = self._scanned = 0
        self._drop_parsed()
        commands = [command]
        return commands + self.feed(rest) if rest else commands

    def _parse(self, data: bytes) -> list[list[bytes]]:
        """Parse with the strict parser alone."""
        if self.error is not None:
            return []
        self._buffer += data
        commands: list[list[bytes]] = []
        most = _AT_ONCE if self._authenticated else 1
        while len(commands) < most and (command := self._next()) is not None:
            commands.append(command)
        self._drop_parsed()
        self.more = len(commands) == most and bool(self._buffer)
        return commands

    def _drop_parsed(self) -> None:
        """Drop parsed bytes, and decide whether the fast path may take the next data."""
        if self._at:
            del self._buffer[: self._at]
            self._scanned = max(0, self._scanned - self._at)
            self._at = 0
        if self._authenticated and self.error is None and not self._buffer and not self._missing:
            self._quick = min(_LONGEST_BATCH, self._max_bulk_length, self._max_query_buffer)
        else:
            self._quick = 0

    def _next(self) -> list[bytes] | None:
        """Parse up to the end of the next command; return None if more bytes are needed or `error` was set."""
        buffer = self._buffer
        while not self._missing:
            if self._at == len(buffer):
                return None
            if buffer[self._at] == _STAR:
                if not self._read_count():
                    return None
            elif (words := self._read_inline()) is None:
                return None
            elif words:
                return self._checked(words)
            if not self._missing:
                # An empty request costs as much as a command, so those after it are skipped together.
                while (end := _EMPTY_REQUESTS().match(buffer, self._at).end()) > self._at:  # type: ignore[union-attr]
                    self._at = end
        window = _WINDOW
        while self._missing:
            if self._missing > _MANY_WORDS and self._length < 0 and self._may_take_words():
                window = window * 4 if self._take_words(window) else _WINDOW
            if self._length < 0 and not self._read_length():
                return None
            length = self._length
            end = self._at + length
            received = len(buffer) - self._at
            if min(received, length + 2) > self._query_limit():
                self._fail(b"")
                return None
            if received < length + 2:
                return None
            # The two bytes after an argument are skipped unchecked, as in Redis.
            self._arguments.append(
                bytes(buffer[self._at : end]) if length < SHORT else _cut(buffer, self._at, end)
            )
            self._at = end + 2
            self._held += length
            self._length = -1
            self._missing -= 1
        command = self._arguments
        self._arguments = []
        self._held = 0
        return self._checked(command)

    def _may_take_words(self) -> bool:
        """Return True if words of up to SHORT bytes cannot exceed a limit."""
        return self._authenticated and min(self._max_bulk_length, self._max_query_buffer) >= 2 * SHORT

    def _take_words(self, window: int) -> bool:
        """Take many short words at once, from the next ``window`` bytes; return False if one of them is not canonical.

        A header that states the length of the next line proves that this line is the whole word. At least one word is
        left for the general path.
        """
        lines = bytes(self._buffer[self._at : self._at + min(window, _LARGEST_WINDOW)]).split(b"\r\n")
        number = 2 * min((len(lines) - 1) // 2, self._missing - 1)
        headers, words = lines[:number:2], lines[1:number:2]
        lengths = list(map(len, words))
        stated = list(map(LENGTHS.get, headers))
        all_fit = stated == lengths
        if not all_fit:
            good = next(at for at, pair in enumerate(zip(stated, lengths, strict=True)) if pair[0] != pair[1])
            del headers[good:], words[good:], lengths[good:]
        self._arguments += words
        self._missing -= len(words)
        self._held += sum(lengths)
        self._at += sum(lengths) + sum(map(len, headers)) + 4 * len(words)
        return all_fit

    def _checked(self, command: list[bytes]) -> list[bytes] | None:
        if command[0] in _CROSS_PROTOCOL:
            self.crossed = True
            self._fail(b"")
            return None
        return command

    def _read_count(self) -> bool:
        """Parse a `*` header; return False if it is incomplete or wrong."""
        end = self._header_end(b"too big mbulk count string")
        if end < 0:
            return False
        count = _integer(self._buffer[self._at + 1 : end])
        if count is None or count > limits.MAX_ARGUMENTS:
            self._fail_with(b"invalid multibulk length")
            return False
        if count > limits.UNAUTHENTICATED_MAX_ARGUMENTS and not self._authenticated:
            self._fail_with(b"unauthenticated multibulk length")
            return False
        self._at = end + 2
        self._missing = max(0, count)
        return True

    def _read_length(self) -> bool:
        """Parse a `$` header; return False if it is incomplete or wrong."""
        buffer = self._buffer
        at = self._at
        end = self._header_end(b"too big bulk count string", past_nul=True)
        if end < 0:
            return False
        mark = buffer[at]
        if mark != _DOLLAR:
            shown = b" " if mark in {_NEWLINE, _CARRIAGE_RETURN} else bytes((mark,))
            self._fail_with(b"expected '$', got '%b'" % shown)
            return False
        length = _integer(buffer[at + 1 : end])
        if length is None or not 0 <= length <= self._max_bulk_length:
            self._fail_with(b"invalid bulk length")
            return False
        if length > limits.UNAUTHENTICATED_MAX_BULK_LENGTH and not self._authenticated:
            self._fail_with(b"unauthenticated bulk length")
            return False
        self._at = end + 2
        self._length = length
        return True

    def _read_inline(self) -> list[bytes] | None:
        """Parse an inline request; return its words (none for a blank line), or None if it is incomplete or wrong."""
        at = self._at
        end = self._line_end(b"\n", b"too big inline request")
        if end < 0:
            return None
        self._at = end + 1
        line = bytes(self._buffer[at:end])
        words = split_inline(line.removesuffix(b"\r"))
        if words is None:
            self._fail_with(b"unbalanced quotes in request")
        return words

    def _header_end(self, too_big: bytes, *, past_nul: bool = False) -> int:
        """Return the offset of a header's CR; -1 until the byte after it, whatever that is, has arrived, too."""
        end = self._line_end(b"\r", too_big, past_nul=past_nul)
        if end + 1 == len(self._buffer):
            self._scanned = end
            return -1
        return end

    def _line_end(self, terminator: bytes, too_big: bytes, *, past_nul: bool = False) -> int:
        """Return the offset of the current line's terminator; -1 if it is not there, or too far (an error)."""
        buffer = self._buffer
        stop = self._at + limits.MAX_LINE + 1
        end = buffer.find(terminator, max(self._at, self._scanned), stop)
        if end >= 0:
            if past_nul or buffer.find(0, self._at, end) < 0:
                return end
            # Redis searches only up to a NUL, since 8.6 except in lengths: this line never ends but grows until it is too big.
            self._scanned = stop
        else:
            self._scanned = max(self._scanned, min(len(buffer), stop))
        if len(buffer) >= stop:
            self._fail_with(too_big)
        elif len(buffer) - self._at > self._query_limit():
            self._fail(b"")
        return -1

    def _query_limit(self) -> int:
        if self._authenticated:
            return self._max_query_buffer
        return min(self._max_query_buffer, limits.UNAUTHENTICATED_MAX_QUERY_BUFFER)

    def _fail_with(self, text: bytes) -> None:
        self._fail(b"-ERR Protocol error: %b\r\n" % text)

    def _fail(self, error: bytes) -> None:
        self.error = error
        self._buffer.clear()
        self._arguments = []
        self._at = self._scanned = self._held = self._missing = 0


def _new_reader() -> Reader:
    return Reader(notEnoughData=_MORE)


def _cut(buffer: bytearray, start: int, end: int) -> bytes:
    """Copy a long piece once, not twice."""
    with memoryview(buffer) as view:
        return bytes(view[start:end])


def _integer(text: bytearray) -> int | None:
    """Parse a number in the one spelling that Redis accepts: no sign but `-`, no leading zero, 64 bits; else None."""
    if _INTEGER(text) is None:
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None
