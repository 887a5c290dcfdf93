"""Split a piece of an append-only file into commands, and report why it stopped.

hiredis parses pieces in the spelling that every writer uses. Any other spelling, and the last bytes of a file, are
parsed here, as leniently as Redis does and with the exact position of each command.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from itertools import chain

import hiredis

from .manifest import leading_number

# One call of C's fgets reads this much with Redis' buffer of 1024 bytes.
LINE_LIMIT = 1023
_ARGUMENT_COUNT_LIMIT = 2**31 - 1
_BRACKETS = frozenset((b"MULTI", b"EXEC"))
# Appended to a piece: it parses as a separate command only if the piece ended at the end of a command.
_MARK = b"\0end of the piece"
_MARK_RECORD = b"*1\r\n$%d\r\n%s\r\n" % (len(_MARK), _MARK)
# Each time hiredis has parsed 1 KiB, it moves all unparsed bytes to the front; so it is fed a little at a time.
_FED = 1 << 13
_MOST_FED = 256  # times
_NO_MORE = object()  # equals no reply: 0 would equal False


class End(enum.Enum):
    """Why scanning stopped: after a line or command, within one, or before bytes that are not a command."""

    WHOLE = enum.auto()
    SHORT = enum.auto()
    BAD = enum.auto()


@dataclass(slots=True, eq=False, repr=False)
class Scan:
    """The commands found in a piece of an append-only file.

    `consumed` is the offset after the last command; `needs` is the known minimum length of the next command.
    `begins` has, for each command, the offset after the previous one; None if all have the usual spelling
    with nothing between them.
    """

    commands: list[list[bytes]]
    consumed: int
    end: End
    needs: int = 0
    begins: list[int] | None = None

    def start_of(self, index: int) -> int:
        """Return the offset where a command begins, including the annotations before it."""
        if self.begins is not None:
            return self.begins[index]
        return self.consumed - sum(map(_written_length, self.commands[index:]))


class _ShortError(Exception):
    """The bytes end within a command; `args[0]` is its earliest possible end."""


class _BadError(Exception):
    """The bytes are not a command."""


def scan_quickly(data: bytes) -> Scan | None:
    """Split off all but the last command of a piece, fast; None if the piece needs ``scan_by_hand``.

    It takes a tenth of the time of ``scan_by_hand``.
    """
    cut = data.rfind(b"\r\n*") + 2
    if cut <= 2:
        return None
    reader = hiredis.Reader(notEnoughData=_NO_MORE)
    commands: list[list[bytes]] = []
    size = max(_FED, cut // _MOST_FED)
    try:
        for at in range(0, cut, size):
            reader.feed(data, at, min(size, cut - at))
            commands += iter(reader.gets, _NO_MORE)
        reader.feed(_MARK_RECORD)
        commands += iter(reader.gets, _NO_MORE)
    except (hiredis.HiredisError, MemoryError, TypeError):
        return None
    if not commands or commands.pop() != [_MARK] or not commands:
        return None
    # hiredis also parses numbers, simple strings, nested lists and more, which Redis rejects in this file.
    if set(map(type, commands)) != {list} or not all(commands):
        return None
    if set(map(type, chain.from_iterable(commands))) != {bytes}:
        return None
    if data.count(b"\r\n$", 0, cut) != sum(map(len, commands)):
        return None
    return Scan(commands, cut, End.SHORT)


def scan_by_hand(data: bytes, *, goes_on: bool = False) -> Scan:
    """Split off every whole command of a piece, and report the bytes after them.

    ``goes_on``: the file has more data, so a number at the end of this data may be incomplete.
    """
    commands: list[list[bytes]] = []
    begins: list[int] = []
    at = consumed = needs = 0
    end = End.WHOLE
    try:
        while at < len(data):
            if data[at] == 0x23:  # '#'
                at = _behind_annotation(data, at)
                continue
            command, at = _command(data, at, goes_on=goes_on)
            commands.append(command)
            begins.append(consumed)
            consumed = at
    except _ShortError as short:
        end, needs = End.SHORT, short.args[0]
    except _BadError:
        end = End.BAD
    return Scan(commands, consumed, end, max(needs - consumed, 0), begins)


class Transactions:
    """Keeps each transaction whole, even if several pieces hold its commands.

    `opened_at` is the position of the transaction that is still open, None without one.
    """

    def __init__(self) -> None:
        self.opened_at: int | None = None
        self._held: list[list[bytes]] = []

    def take(self, scan: Scan, start: int) -> list[list[bytes]]:
        """Add the commands of a piece, and return the ones to apply.

        These are all so far, except an unclosed MULTI and the commands after it.

        `start` is the position of the piece in the file.
        """
        commands = scan.commands
        # Check the distinct names only: a piece has many commands but few names.
        if self.opened_at is None and _BRACKETS.isdisjoint(
            {name.upper() for name in {command[0] for command in commands}}
        ):
            return commands
        held_from = None if self.opened_at is None else 0
        for index, command in enumerate(commands):
            word = command[0].upper()
            if word == b"EXEC":
                held_from = self.opened_at = None
            elif word == b"MULTI" and held_from is None:
                held_from = index
        if self.opened_at is not None:
            self._held += commands
            return []
        given = self._held + commands[:held_from]
        self._held = []
        if held_from is not None:
            self._held = commands[held_from:]
            self.opened_at = start + scan.start_of(held_from)
        return given


def _written_length(command: list[bytes]) -> int:
    """Return the number of bytes of a command in a file."""
    total = len(b"*%d\r\n" % len(command))
    return total + sum(len(value) + len(b"$%d\r\n\r\n" % len(value)) for value in command)


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the line at an offset, and the offset after it; -1 if the line is unfinished."""
    end = data.find(b"\n", at, at + LINE_LIMIT)
    if end >= 0:
        return data[at:end], end + 1
    if len(data) - at >= LINE_LIMIT:
        return data[at : at + LINE_LIMIT], at + LINE_LIMIT
    return data[at:], -1


def _behind_annotation(data: bytes, at: int) -> int:
    # Redis accepts an unfinished annotation, then appends to it, and cannot read the resulting line.
    _, at = _line(data, at)
    if at < 0:
        raise _ShortError(len(data) + 1)
    return at


def _command(data: bytes, at: int, *, goes_on: bool) -> tuple[list[bytes], int]:
    line, at = _line(data, at)
    if line[:1] != b"*":
        raise _BadError
    if at < 0 and (goes_on or line == b"*"):
        raise _ShortError(len(data) + 1)
    count = leading_number(line[1:])
    if not 1 <= count <= _ARGUMENT_COUNT_LIMIT:
        raise _BadError
    command = []
    for _ in range(count):
        if at < 0 or at == len(data):
            raise _ShortError(len(data) + 1)
        line, at = _line(data, at)
        if line[:1] != b"$":
            raise _BadError
        length = leading_number(line[1:])
        if length < 0:
            raise _BadError
        # The two bytes after a value are skipped unchecked, as in Redis.
        if at < 0:
            raise _ShortError(len(data) + 1)
        if at + length + 2 > len(data):
            raise _ShortError(at + length + 2)
        command.append(data[at : at + length])
        at += length + 2
    return command, at
