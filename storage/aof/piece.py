"""Read the commands of an append-only file piece by piece from any position, with the database and time of each.

Between two pieces a reader keeps only its position. So it may stop at any time, and continue when the file has grown,
even after a rewrite, whose new incr file continues the one that was removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ..codecs.byte_source import ByteSource, is_rdb
from ..loading import AofError, RdbError, RdbInfo
from ..rdb import load_rdb
from .history import generations, is_incr
from .manifest import FileInfo, Manifest, leading_number
from .scanner import LINE_LIMIT, End, scan_by_hand, scan_quickly

PIECE: Final = 1 << 14
"""Bytes of a piece: a few milliseconds of work where annotations are dense, else far less."""
_SMALL_BASE: Final = 1 << 12  # bytes read to find out if a base has keys
_TIME: Final = re.compile(rb"#(TS|MS):(\d{1,16})")


class Position(NamedTuple):
    """A place in the incr files, with the database and time that the commands before it set."""

    seq: int = 0  # the number of the file; 0 is before the first one
    offset: int = 0  # bytes from the start of the file
    database: int = 0  # the selected database
    time: int = 0  # the time of the last annotation, in milliseconds; 0 without one


class Record(NamedTuple):
    """One command of an append-only file, with its database."""

    time: int  # the time of the last annotation before it, in milliseconds; 0 without one
    database: int
    words: list[bytes]  # the command and its arguments; a command longer than a piece has its long words cut


def incr_files(manifest: Manifest) -> list[FileInfo]:
    """Return all incr files, oldest first: history files (aof-history-retention) and live ones."""
    kept = [info for info in manifest.history if is_incr(info)]
    return sorted([*kept, *manifest.incr], key=lambda info: info.seq)


def begins_with_data(directory: Path, manifest: Manifest) -> bool:
    """Return True if the first incr file continues a base that has data, so that older commands are lost.

    Raises OSError: the base cannot be read.
    """
    kept = next((one for one in generations(manifest.history) if one.incr), None)
    base = manifest.base if kept is None else kept.base
    if base is None:
        return kept is not None
    with (directory / base.name).open("rb") as file:
        data = file.read(_SMALL_BASE)
    source = ByteSource.of(data)
    if len(data) == _SMALL_BASE or not is_rdb(source):
        return bool(data)
    info = RdbInfo()
    try:
        for _ in load_rdb(source, None, skip_unknown=True, info=info):
            pass
    except RdbError:
        return True
    return bool(info.keys or info.skipped)


def read_piece(
    directory: Path, manifest: Manifest, at: Position, longest: int = 1 << 10
) -> tuple[list[Record], Position, int]:
    """Return the next commands, the position after them, and the number of bytes left to read.

    An unfinished command at the end of the last file is no error: the server may be writing it, and 0 bytes are left.
    The commands of a transaction are returned like any others.

    Args:
        at: where to start; if its file was removed, reading starts at the beginning of the next one.
        longest: bytes to keep of each word of a command that is longer than a piece, plus one that shows the cut.

    Raises:
        AofError: the bytes at the position are not a command, or the position does not exist.
        OSError: a file cannot be read.
    """
    infos = [info for info in incr_files(manifest) if info.seq >= at.seq]
    if not infos:
        raise AofError("no file of the append-only file has this position")
    if infos[0].seq != at.seq:
        at = at._replace(seq=infos[0].seq, offset=0)
    later = sum((directory / info.name).stat().st_size for info in infos[1:])
    with (directory / infos[0].name).open("rb") as file:
        size = file.seek(0, 2)
        if at.offset > size:
            raise AofError("no file of the append-only file has this position")
        file.seek(at.offset)
        data = file.read(PIECE)
        at_end = at.offset + len(data) >= size
        reader = _Reader(at)
        if not reader.read(data, at_end=at_end) and not at_end:
            file.seek(at.offset)
            at_end = not reader.read_long(file, size, longest)
    after = reader.position._replace(offset=at.offset + reader.consumed)
    if not at_end or reader.is_bad:
        return reader.records, after, size - after.offset + later
    if len(infos) > 1:
        after = after._replace(seq=infos[1].seq, offset=0)
    return reader.records, after, later


class _Reader:
    """Collects the commands that follow a position."""

    def __init__(self, position: Position) -> None:
        self.records: list[Record] = []
        self.position = position
        self.consumed = 0
        self.is_bad = False  # the bytes after these commands are not a command
        self._from = position

    def read(self, data: bytes, *, at_end: bool) -> bool:
        """Collect the whole commands in ``data``; return False if there is none. ``at_end``: the file ends with it."""
        quick = scan_quickly(data)
        if quick is not None:
            for command in quick.commands:
                self._take(command)
            self.consumed = quick.consumed
        if quick is None or at_end:
            rest = data[self.consumed :]
            scan = scan_by_hand(rest, goes_on=not at_end)
            assert scan.begins is not None
            for command, begin in zip(scan.commands, scan.begins, strict=True):
                for line in _annotations(rest, begin):
                    self._note(line)
                self._take(command)
            self.consumed += scan.consumed
            if scan.end is End.BAD and not self.records:
                raise self._damaged()
            self.is_bad = scan.end is End.BAD
        return bool(self.consumed)

    def read_long(self, file: BinaryIO, size: int, longest: int) -> bool:
        """Collect one command that is longer than a piece; return False if the file ends within it.

        Args:
            file: positioned at the command.
            longest: bytes to keep of each word, plus one that shows the cut.
        """
        line = file.readline(LINE_LIMIT)
        while line[:1] == b"#":
            self._note(line)
            line = file.readline(LINE_LIMIT)
        count = leading_number(line[1:])
        if line[:1] != b"*" or count < 1:
            raise self._damaged()
        words = []
        for _ in range(count):
            line = file.readline(LINE_LIMIT)
            length = leading_number(line[1:])
            end = file.tell() + length + 2
            if not line or end > size:
                self.position = self._from
                return False
            if line[:1] != b"$" or length < 0:
                raise self._damaged()
            words.append(file.read(min(length, longest + 1)))
            file.seek(end)
        self._take(words)
        self.consumed = file.tell() - self._from.offset
        return True

    def _take(self, words: list[bytes]) -> None:
        if words[0].upper() == b"SELECT" and len(words) == 2:
            self.position = self.position._replace(database=leading_number(words[1]))
        self.records.append(Record(self.position.time, self.position.database, words))

    def _note(self, line: bytes) -> None:
        found = _TIME.match(line)
        if found is not None:
            time = int(found[2]) * (1000 if found[1] == b"TS" else 1)
            self.position = self.position._replace(time=time)

    def _damaged(self) -> AofError:
        at = self._from
        return AofError(f"the append-only file is damaged: incr file {at.seq}, after byte {at.offset}")


def _annotations(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the lines before a command that begin with #."""
    while data[at : at + 1] == b"#":
        end = data.index(b"\n", at) + 1
        yield data[at:end]
        at = end
