"""Walk over a piece of an append-only file, block by block, and track the state that records depend on.

A block is 64 KiB of the file. For each block a walk yields the commands that *end* in it. So blocks, and the ordinals
made of them, are the same wherever a walk begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Final, NamedTuple

import hiredis

from ....storage.aof.scanner import End, scan_by_hand
from ..errors import LedgerError, SplitError
from ..schema import BLOCK

_HASH: Final = 0x23  # '#'
_SECONDS: Final = b"#TS:"
_MILLISECONDS: Final = b"#MS:"
# A probe that is fed after some bytes: it parses as a command exactly if no record before it is incomplete.
MARK: Final = b"\0end of the piece"
MARK_RECORD: Final = b"*1\r\n$%d\r\n%b\r\n" % (len(MARK), MARK)
_SIP: Final = 1 << 14  # bytes; hiredis moves what it has not parsed yet again and again
_OF_STATE: Final = frozenset({b"SELECT", b"MULTI", b"EXEC"})


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place between two records of a file, outside of transactions, and the state on which the next records depend."""

    position: int = 0  # bytes from the start of the file
    db: int = 0  # the selected database
    clock: int | None = None  # Unix milliseconds of the last annotation, None before the first
    index: int = 0  # the number of records before this place that end in the same block


START: Final = Cursor()


class Segment(NamedTuple):
    """The commands of a file that end in one block, and their clocks."""

    block: int
    commands: list[list[bytes]]
    # Pairs (end, time): the Unix time in milliseconds of ``commands[previous end:end]``, None before the first
    # annotation. The last end is the number of commands.
    clocks: list[tuple[int, int | None]]


class Walk:
    """Splits the bytes of a file into commands and annotations. A value that looks like an annotation stays a value."""

    def __init__(self, start: Cursor) -> None:
        self.clock = start.clock  # Unix milliseconds of the last annotation
        self.position = start.position  # the offset after the last byte that was read
        self._reader = hiredis.Reader()
        self._line: bytes | None = None  # an annotation that has begun and not ended

    def is_before_record(self) -> bool:
        """Return True if no record or annotation is incomplete; call it if the next byte is a ``*``.

        The reader may have consumed the header or some words of a record and report that nothing is left; but then
        the next byte would be a ``$``.
        """
        return self._line is None and not self._reader.has_data()

    def ends_whole(self) -> bool:
        """Return True if the last byte ended a record or an annotation; the walk is over then."""
        if self._line is not None:
            return False
        self._reader.feed(MARK_RECORD)
        try:
            return bool(self._reader.gets() == [MARK]) and not self._reader.has_data()
        except (hiredis.HiredisError, TypeError):  # a map may have a list as a key
            return False

    def segments(self, read: Callable[[int], bytes], end: int | None = None) -> Iterator[Segment]:
        """Yield the commands up to the offset ``end``, or without one up to the last byte, by block.

        ``read`` returns at most the given number of the next bytes.

        Raises SplitError: these bytes are not commands.
        """
        while end is None or self.position < end:
            limit = BLOCK - self.position % BLOCK
            data = read(limit if end is None else min(limit, end - self.position))
            if not data:
                break
            yield self.feed(data)

    def feed(self, data: bytes) -> Segment:
        """Return the commands that end in these bytes, which belong to one block.

        Raises SplitError: these bytes are not commands.
        """
        block = self.position // BLOCK
        self.position += len(data)
        commands: list[list[bytes]] = []
        clocks: list[tuple[int, int | None]] = []
        try:
            # Searching one byte is much faster than searching two.
            if self._line is None and b"#" not in data:
                for at in range(0, len(data), _SIP):
                    self._reader.feed(data, at, min(_SIP, len(data) - at))
                    commands += iter(self._reader.gets, False)
            else:
                self._feed_with_annotations(data, commands, clocks)
        except (hiredis.HiredisError, MemoryError, TypeError) as error:
            raise SplitError(f"no records before byte {self.position}: {error}") from error
        # hiredis parses many other types, too.
        if commands and (set(map(type, commands)) != {list} or not all(commands)):
            raise SplitError(f"no records before byte {self.position}")
        clocks.append((len(commands), self.clock))
        return Segment(block, commands, clocks)

    def _feed_with_annotations(
        self, data: bytes, commands: list[list[bytes]], clocks: list[tuple[int, int | None]]
    ) -> None:
        reader = self._reader
        at = 0
        while at < len(data):
            if self._line is not None or (data[at] == _HASH and not reader.has_data()):
                clocks.append((len(commands), self.clock))
                at = self._annotation(data, at)
                continue
            # A line that begins with # is an annotation if everything before it is complete.
            upto = data.find(b"\n#", at) + 1 or len(data)
            reader.feed(data, at, upto - at)
            at = upto
            commands += iter(reader.gets, False)

    def _annotation(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at) + 1
        line = (self._line or b"") + data[at : end or len(data)]
        if not end:
            self._line = line
            return len(data)
        self._line = None
        self.clock = read_annotation(line, self.clock)
        return end


def read_annotation(line: bytes, clock: int | None) -> int | None:
    """Return the time of an annotation in milliseconds; the previous clock if the line has no time."""
    kind, digits = line[:4], line[4:].strip()
    if not digits.isdigit():
        return clock
    if kind == _MILLISECONDS:
        return int(digits)
    return int(digits) * 1000 if kind == _SECONDS else clock


def read_annotations(data: bytes, clock: int | None) -> int | None:
    """Return the time after the annotations at the beginning of ``data``, in milliseconds; ``clock`` if there are none."""
    at = 0
    while data[at : at + 1] == b"#":
        end = data.find(b"\n", at) + 1 or len(data)
        clock = read_annotation(data[at:end], clock)
        at = end
    return clock


class Frontier:
    """Walks ahead in a growing file, and finds a place up to which all records and transactions are complete.

    One object serves one call of ``advance``.
    """

    def __init__(self, start: Cursor) -> None:
        self._start = start
        self._walk = Walk(start)
        self._state = _State(start.position, start.db, start.clock)
        self._good = self._state.copy()
        self._rest: list[bytes] = []  # the bytes read after the place in `_good`

    def advance(self, read: Callable[[int], bytes], most: int) -> Cursor:
        """Walk over about ``most`` bytes of the file, or up to its end, and return the place reached.

        One record or transaction may exceed the limit.

        Raises LedgerError: there are no records.

        Args:
            read: returns at most this many of the next bytes of the file; none at its current end.
            most: bytes.
        """
        walk, start = self._walk, self._start
        while self._good.position - start.position < most:
            data = read(BLOCK - walk.position % BLOCK)
            if not data:
                self._read_rest()
                break
            cut = data.rfind(b"\r\n*") + 2
            if cut > 2:
                self._pass(data[:cut])
                self._note_if_whole()
                data = data[cut:]
            self._pass(data)
        good = self._good
        if good.position == start.position:
            return start
        block = good.position // BLOCK
        index = good.ended if good.block == block else 0
        if block == start.position // BLOCK:
            index += start.index
        return Cursor(good.position, good.db, good.clock, index)

    def _pass(self, data: bytes) -> None:
        segment = self._walk.feed(data)
        for command in segment.commands:
            self._state.take(command, segment.block)
        self._rest.append(data)

    def _note_if_whole(self) -> None:
        walk, state = self._walk, self._state
        if walk.is_before_record() and not state.in_transaction:
            state.position, state.clock = walk.position, walk.clock
            self._good = state.copy()
            self._rest.clear()

    def _read_rest(self) -> None:
        """Find the last such place among the records that the walk passed in one step."""
        rest = b"".join(self._rest)
        scan = scan_by_hand(rest)
        assert scan.begins is not None
        if scan.end is End.BAD:
            raise LedgerError(f"no record at byte {self._good.position + scan.consumed}")
        state, origin = self._good.copy(), self._good.position
        for command, begin, end in zip(
            scan.commands, scan.begins, [*scan.begins, scan.consumed][1:], strict=True
        ):
            if rest[begin] == _HASH:
                state.clock = read_annotations(rest[begin:end], state.clock)
            state.position = origin + end
            state.take(command, (state.position - 1) // BLOCK)
            if not state.in_transaction:
                self._good = state
                state = state.copy()
        if scan.end is End.WHOLE and not state.in_transaction:  # what follows are whole annotations
            self._good.position = origin + len(rest)
            self._good.clock = read_annotations(rest[scan.consumed :], self._good.clock)


def advance(file: IO[bytes], start: Cursor, size: int, most: int) -> Cursor:
    """Return the place about ``most`` bytes after ``start``, as ``Frontier.advance`` does.

    Only the first ``size`` bytes of the file count.
    """
    file.seek(start.position)
    return Frontier(start).advance(lambda count: file.read(min(count, size - file.tell())), most)


@dataclass(slots=True)
class _State:
    """The state of a frontier at a place, and the number of records that end in the block so far."""

    position: int
    db: int
    clock: int | None
    in_transaction: bool = False
    block: int = -1
    ended: int = 0

    def take(self, command: list[bytes], block: int) -> None:
        if block != self.block:
            self.block, self.ended = block, 0
        self.ended += 1
        name = command[0]
        if name in _OF_STATE:
            if name == b"SELECT":
                self.db = int(command[1])
            else:
                self.in_transaction = name == b"MULTI"

    def copy(self) -> _State:
        return replace(self)
