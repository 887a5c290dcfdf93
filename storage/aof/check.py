"""Check an append-only file, and report up to where it is sound.

The verdicts equal those of redis-check-aof, which is stricter than a server that loads the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..loading import AofError, RdbError
from ..rdb import ByteSource, is_rdb, load_rdb
from .manifest import Manifest, leading_number
from .scanner import LINE_LIMIT

_AT_ONCE: Final = 1 << 20
_NUMBER_LINE: Final = 127  # bytes, with the line end
_LONGEST_WORD: Final = 2**63 - 3
_DIGITS: Final = re.compile(rb"[ \t\n\v\f\r]*[+-]?[0-9]+")


@dataclass(slots=True)
class Verdict:
    """The result of checking one append-only file."""

    size: int  # bytes of the file
    good: int  # number of bytes from the start that hold whole commands and whole transactions
    problem: str  # the damage after them; "" if the file is sound
    notes: list[str]  # observations for the user
    fixable: bool = True  # True if truncating the file at ``good`` makes it sound


def check_aof(
    path: Path, say: Callable[[str], object], *, confirm: Callable[[str], bool] | None = None
) -> bool:
    """Check a file, or all files of a manifest; return True if they are sound, perhaps after a repair.

    Args:
        path: an append-only file, or a manifest.
        say: receives the report, line by line.
        confirm: asked before a broken end is cut off; None cuts nothing. Only the last file is ever cut.
    """
    try:
        if not _is_manifest(path):
            say("Start checking Old-Style AOF")
            return _judge(path, path.name, "AOF", say, confirm=confirm, is_last=True)
        say("Start checking Multi Part AOF")
        manifest = Manifest.parse(path.read_bytes())
        live = manifest.live
        for info in live:
            if info is manifest.base:
                form = "RDB" if info.name.endswith(".rdb") else "RESP"
                say(f"Start to check BASE AOF ({form} format).")
            elif info is manifest.incr[0]:
                say("Start to check INCR files.")
            kind = "BASE AOF" if info is manifest.base else "INCR AOF"
            if not _judge(
                path.parent / info.name, info.name, kind, say, confirm=confirm, is_last=info is live[-1]
            ):
                return False
    except AofError as error:
        say(str(error))
        return False
    except OSError as error:
        say(f"Cannot open file {error.filename}: {error.strerror}")
        return False
    say("All AOF files and manifest are valid")
    return True


def _judge(
    path: Path,
    name: str,
    kind: str,
    say: Callable[[str], object],
    *,
    confirm: Callable[[str], bool] | None,
    is_last: bool,
) -> bool:
    if not path.stat().st_size:
        say(f"{kind} {name} is empty")
        return True
    verdict = examine(path)
    for note in verdict.notes:
        say(note)
    if verdict.problem:
        say(verdict.problem)
    if not verdict.fixable:
        return False
    diff = verdict.size - verdict.good
    say(f"AOF analyzed: filename={name}, size={verdict.size}, ok_up_to={verdict.good}, diff={diff}")
    if not diff:
        say(f"{kind} {name} is valid")
        return True
    if confirm is None:
        say(f"AOF {name} is not valid. Use the --fix option to try fixing it.")
        return False
    if not is_last:
        say(f"Failed to truncate AOF {name} because it is not the last file")
        return False
    question = f"This will shrink the AOF {name} from {verdict.size} bytes, with {diff} bytes, to {verdict.good} bytes"
    if not confirm(question):
        say("Aborting...")
        return False
    os.truncate(path, verdict.good)
    say(f"Successfully truncated AOF {name}")
    return True


def examine(path: Path) -> Verdict:
    """Read one non-empty file to its end or to the first error, and return how much of it is good."""
    size = path.stat().st_size
    with path.open("rb") as file:
        notes: list[str] = []
        source = ByteSource(file.read)
        if is_rdb(source):
            try:
                for _ in load_rdb(source, None, skip_unknown=True, log=notes.append):
                    pass
            except RdbError as error:
                return Verdict(
                    size, 0, f"RDB preamble of AOF file is not sane, aborting: {error}", notes, fixable=False
                )
            notes.append("RDB preamble is OK, proceeding with AOF tail...")
        reader = _Reader(source)
        good, problem = reader.run()
    return Verdict(size, good, problem, notes)


class _WrongError(Exception):
    """The bytes are not a valid command; the text says why."""


class _Reader:
    """Walks over the commands of a file and checks them."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._start = source.position  # offset of the buffered data in the file
        self._data = b""
        self._at = 0  # position in the buffered data
        self._open = 0  # number of open transactions

    def run(self) -> tuple[int, str]:
        """Return the offset after the last whole command or transaction, and the damage after it ("" if none)."""
        good = self._position
        try:
            while first := self._peek():
                if first == b"#":
                    self._line(LINE_LIMIT)
                elif first == b"*":
                    self._command()
                else:
                    raise _WrongError("AOF format error")  # noqa: TRY301 - handled like every other error
                if not self._open:
                    good = self._position
        except _WrongError as wrong:
            return good, f"0x{self._position:16x}: {wrong}"
        if self._open:
            return good, f"0x{self._position:16x}: Reached EOF before reading EXEC for MULTI"
        return good, ""

    @property
    def _position(self) -> int:
        return self._start + self._at

    def _command(self) -> None:
        for number in range(self._number(b"*")):
            size = self._number(b"$")
            if not 0 <= size <= _LONGEST_WORD:
                raise _WrongError(
                    f"Expected to read string of {size} bytes, which is not in the suitable range"
                )
            if number:
                self._pass(size + 2)
                continue
            word = self._pass(size + 2)[:-2].upper()
            if word == b"MULTI":
                self._open += 1
                if self._open > 1:
                    raise _WrongError("Unexpected MULTI in AOF")
            elif word == b"EXEC":
                self._open -= 1
                if self._open:
                    raise _WrongError("Unexpected EXEC in AOF")

    def _number(self, prefix: bytes) -> int:
        line = self._line(_NUMBER_LINE)
        if line[:1] != prefix:
            found = line[:1].decode("latin-1")
            raise _WrongError(f"Expected prefix '{prefix.decode()}', got: '{found}'")
        digits = _DIGITS.match(line, 1)
        end = digits.end() if digits else 1
        self._expect_line_end(line[end : end + 2])
        return leading_number(line[1:])

    @staticmethod
    def _expect_line_end(found: bytes) -> None:
        if found != b"\r\n":
            raise _WrongError(f"Expected \\r\\n, got: {found.hex()}")

    def _peek(self) -> bytes:
        self._fill(1)
        return self._data[self._at : self._at + 1]

    def _line(self, limit: int) -> bytes:
        """Read up to and including a line end, at most ``limit`` bytes, or to the end of the file."""
        self._fill(limit)
        end = self._data.find(b"\n", self._at, self._at + limit)
        end = end + 1 if end >= 0 else min(self._at + limit, len(self._data))
        line = self._data[self._at : end]
        self._at = end
        return line

    def _pass(self, count: int) -> bytes:
        """Read a word and its line end; return only the last piece of a very long one."""
        while count > _AT_ONCE:
            self._take(_AT_ONCE // 2)
            count -= _AT_ONCE // 2
        data = self._take(count)
        self._expect_line_end(data[-2:])
        return data

    def _take(self, count: int) -> bytes:
        self._fill(count)
        data = self._data[self._at : self._at + count]
        self._at += len(data)
        if len(data) < count:
            raise _WrongError(f"Expected to read {count} bytes, got {len(data)} bytes")
        return data

    def _fill(self, count: int) -> None:
        """Buffer ``count`` bytes, or all that the file has left."""
        if self._at + count <= len(self._data):
            return
        self._start += self._at
        self._data = self._data[self._at :] + self._source.read(_AT_ONCE)
        self._at = 0


def _is_manifest(path: Path) -> bool:
    """Return True if the first line that is not a comment looks like a line of a manifest."""
    with path.open("rb") as file:
        while (line := file.readline(LINE_LIMIT)).startswith(b"#"):
            pass
    return line.startswith(b"file")
