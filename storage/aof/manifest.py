"""The manifest of a multi-part append-only file: the files that hold the data, in order.

It is `<appendfilename>.manifest` in the AOF folder, with one line per file:
`file <name> seq <n> type <b|h|i>[ startoffset <n>][ endoffset <n>]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from ...protocol.inline import split_inline, word_of
from ...protocol.regex import regex
from ..files import BINARY, FileOperations, Log, silent
from ..loading import AofError

LINE_LIMIT = 1024
_LONG_LONG_MAX = 2**63 - 1
_LEADING_NUMBER = regex(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")


class FileInfo(NamedTuple):
    """One file of the manifest; the offsets are the replication offsets at its start and end (None: unknown)."""

    name: str
    seq: int
    type: Literal["b", "h", "i"]
    start_offset: int | None = None
    end_offset: int | None = None

    def encode(self) -> bytes:
        """Return the file's line in the manifest, with the line end."""
        line = b"file %s seq %d type %s" % (word_of(os.fsencode(self.name)), self.seq, self.type.encode())
        if self.start_offset is not None:
            line += b" startoffset %d" % self.start_offset
        if self.end_offset is not None:
            line += b" endoffset %d" % self.end_offset
        return line + b"\n"


@dataclass(slots=True)
class Manifest:
    """The files of the data: at most one base, then incr files by rising seq; and the history files."""

    base: FileInfo | None = None
    history: list[FileInfo] = field(default_factory=list)
    incr: list[FileInfo] = field(default_factory=list)

    @property
    def live(self) -> list[FileInfo]:
        """The files to load, in order."""
        return [*([self.base] if self.base else []), *self.incr]

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """Parse a manifest file; raise AofError with Redis' text if it is malformed."""
        if not data:
            raise _error("Found an empty AOF manifest")
        manifest = cls()
        for number, raw in enumerate(_lines(data), 1):
            if raw[:1] == b"#":
                continue
            if not raw.endswith(b"\n") or b"\0" in raw:
                raise _error("The AOF manifest file contains too long line")
            line = raw.strip(b" \t\r\n")
            try:
                manifest._admit(_parse_line(line))
            except ValueError as error:
                raise _error(str(error), number, line) from None
        return manifest

    def encode(self) -> bytes:
        """Return the text of the manifest file: base, history, incr."""
        return b"".join(info.encode() for info in [*self.live[: bool(self.base)], *self.history, *self.incr])

    @classmethod
    def load(cls, directory: Path, basename: str, files: FileOperations | None = None) -> Manifest:
        """Read `<directory>/<basename>.manifest`; return an empty manifest if it is missing."""
        files = files or FileOperations()
        name = basename + ".manifest"
        try:
            fd = files.open(directory / name, os.O_RDONLY | BINARY, 0)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise AofError(
                f"Fatal error: can't open the AOF manifest file {name} for reading: {error.strerror}"
            ) from error
        pieces = []
        try:
            while piece := files.read(fd, 1 << 16):
                pieces.append(piece)
        except OSError as error:
            raise _error("Read AOF manifest failed") from error
        finally:
            files.close(fd)
        return cls.parse(b"".join(pieces))

    def persist(self, directory: Path, basename: str, files: FileOperations | None = None) -> None:
        """Replace the manifest file atomically: readers, and a start after a crash, find the old or the new one."""
        files = files or FileOperations()
        name = basename + ".manifest"
        temporary, final = directory / ("temp-" + name), directory / name
        doing = f"Fail to open the AOF manifest file temp-{name}"
        try:
            fd = files.open(temporary, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | BINARY, 0o644)
            try:
                doing = f"Error trying to write the temporary AOF manifest file temp-{name}"
                files.write_all(fd, self.encode())
                doing = f"Fail to fsync the temp AOF file temp-{name}"
                files.fsync(fd)
            finally:
                files.close(fd)
            doing = f"Error trying to rename the temporary AOF manifest file temp-{name} into {name}"
            files.rename(temporary, final)
            doing = f"Fail to fsync AOF directory {directory}"
            files.sync_folder(directory)
        except OSError as error:
            with suppress(OSError):
                files.unlink(temporary)
            raise AofError(f"{doing}: {error.strerror}") from error

    def _admit(self, info: FileInfo) -> None:
        if info.type == "h":
            self.history.append(info)
        elif info.type == "i":
            if info.seq <= (self.incr[-1].seq if self.incr else 0):
                raise ValueError("Found a non-monotonic sequence number")
            self.incr.append(info)
        elif self.base is None:
            self.base = info
        else:
            raise ValueError("Found duplicate base file information")

    def with_new_incr(self, basename: str, start_offset: int | None = None) -> Manifest:
        """Return a copy with a new incr file at its end."""
        # Do not reuse the name of a history file: until that is removed, the manifest on the disk may need it.
        used = [info.seq for info in self.history if info.name == f"{basename}.{info.seq}.incr.aof"]
        seq = max([*used, *(info.seq for info in self.incr)], default=0) + 1
        info = FileInfo(f"{basename}.{seq}.incr.aof", seq, "i", start_offset)
        return Manifest(self.base, list(self.history), [*self.incr, info])

    def with_end(self, end_offset: int | None) -> Manifest:
        """Return a copy whose last incr file ends at ``end_offset``, which is None while the file is appended to."""
        return Manifest(
            self.base, self.history, [*self.incr[:-1], self.incr[-1]._replace(end_offset=end_offset)]
        )

    def with_new_base(self, basename: str, covered: int = 0, *, rdb: bool = False) -> Manifest:
        """Return a copy with a new base, which contains the first `covered` incr files.

        The old base and the covered incr files become history. The name of the new base ends in its format.
        """
        old = [self.base, *self.history] if self.base else self.history
        seq = max((info.seq for info in old if ".base." in info.name or info is self.base), default=0) + 1
        replaced = [*self.live[: bool(self.base)], *self.incr[:covered]]
        history = [*self.history, *(info._replace(type="h") for info in replaced)]
        name = f"{basename}.{seq}.base.{'rdb' if rdb else 'aof'}"
        return Manifest(FileInfo(name, seq, "b"), history, self.incr[covered:])


def adopt_single_file(
    root: Path,
    folder: str,
    basename: str,
    manifest: Manifest,
    *,
    files: FileOperations | None = None,
    log: Log = silent,
) -> Manifest:
    """Move a single append-only file of Redis before 7.0 (`<root>/<basename>`) into the folder, as base.

    It does so only if the folder has no data of its own. It also completes a move that a crash interrupted. Return
    the manifest that is then valid.
    """
    files = files or FileOperations()
    old, directory = root / basename, root / folder
    if not old.is_file():
        return manifest
    unfinished = (
        manifest.base is not None
        and not manifest.incr
        and manifest.base.name == basename
        and not (directory / basename).is_file()
    )
    if manifest.live and not unfinished:
        return manifest
    make_folder(directory, files)
    adopted = Manifest(FileInfo(basename, 1, "b"), list(manifest.history))
    # Write the manifest first: after a crash before the move, the next start still finds the file.
    adopted.persist(directory, basename, files)
    try:
        files.rename(old, directory / basename)
        files.sync_folder(directory)
    except OSError as error:
        raise AofError(
            f"Error trying to move the old AOF file {basename} into dir {folder}: {error.strerror}"
        ) from error
    log(f"Successfully migrated an old-style AOF file ({basename}) into the AOF directory ({folder}).")
    return adopted


def make_folder(directory: Path, files: FileOperations) -> None:
    """Create the AOF folder if it is missing."""
    if directory.is_dir():
        return
    try:
        files.make_folder(directory)
        files.sync_folder(directory.parent)
    except OSError as error:
        raise AofError(f"Can't open or create append-only dir {directory.name}: {error.strerror}") from error


def leading_number(text: bytes) -> int:
    """Parse a number as C's atoi does: ignore everything after the digits; return 0 without digits."""
    match = _LEADING_NUMBER().match(text)
    return int(match[1]) if match else 0


def _lines(data: bytes) -> Iterator[bytes]:
    """Split like C's fgets: after each line end, and after `LINE_LIMIT` bytes without one."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at, at + LINE_LIMIT)
        after = end + 1 if end >= 0 else at + LINE_LIMIT
        yield data[at:after]
        at = after


def _parse_line(line: bytes) -> FileInfo:
    words = split_inline(line)
    if words is None or len(words) < 6 or len(words) % 2:
        raise ValueError("Invalid AOF manifest file format")
    name: bytes | None = None
    seq = 0
    kind = b""
    offsets: dict[bytes, int] = {}
    for key, value in zip(words[::2], words[1::2], strict=True):
        match key.lower():
            case b"file":
                if b"/" in value or b"\\" in value or b"\0" in value:
                    raise ValueError("File can't be a path, just a filename")
                name = value
            case b"seq":
                seq = max(-_LONG_LONG_MAX, min(leading_number(value), _LONG_LONG_MAX))
            case b"type":
                kind = value[:1]
            case b"startoffset" | b"endoffset":
                offsets[key.lower()] = leading_number(value)
            case _:
                pass  # a key of a newer version
    if name is None or not seq or not kind:
        raise ValueError("Invalid AOF manifest file format")
    types: dict[bytes, Literal["b", "h", "i"]] = {b"b": "b", b"h": "h", b"i": "i"}
    if kind not in types:
        raise ValueError("Unknown AOF file type")
    return FileInfo(
        os.fsdecode(name), seq, types[kind], offsets.get(b"startoffset"), offsets.get(b"endoffset")
    )


def _error(text: str, number: int = 0, line: bytes = b"") -> AofError:
    shown = line.decode(errors="backslashreplace")
    where = f"Reading the manifest file, at line {number}\n>>> '{shown}'\n" if number else ""
    return AofError(f"*** FATAL AOF MANIFEST FILE ERROR ***\n{where}{text}")
