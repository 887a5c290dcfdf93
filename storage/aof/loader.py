"""Load an append-only file: yield the commands of all its files in order, and repair a torn end.

The caller applies the commands; this module knows only the meaning of MULTI and EXEC.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

from ..files import BINARY, FileOperations, Log, silent
from ..loading import AofError, RdbError
from ..rdb import ByteSource, is_rdb, load_rdb
from ..streams.chunk import DamagedError
from .manifest import FileInfo, Manifest, adopt_single_file
from .scanner import End, Transactions, scan_by_hand, scan_quickly

CHUNK_SIZE = 1 << 18
_FIX = "use ./redis-check-aof --fix <filename.manifest>"


def _pass_over_rdb(source: ByteSource) -> Iterable[object]:
    return load_rdb(source, None)


class AofLoader:
    """Yields the commands of an append-only file, in batches of about 256 KiB.

    A batch holds whole transactions, with their MULTI and EXEC. After a batch, `loaded_bytes` of `total_bytes` are
    read; `current_file` is the file of the batch.

    `root` is the server's `dir`. The constructor reads the manifest and adopts a single file of Redis before 7.0;
    `truncate` is aof-load-truncated; `load_rdb` reads an RDB at the start of a file and yields when the caller may do
    other work. The constructor and `batches` raise AofError where Redis would refuse to start.
    """

    def __init__(
        self,
        root: str | Path,
        appenddirname: str,
        appendfilename: str,
        *,
        truncate: bool = True,
        load_rdb: Callable[[ByteSource], Iterable[object]] = _pass_over_rdb,
        chunk_size: int = CHUNK_SIZE,
        files: FileOperations | None = None,
        log: Log = silent,
    ) -> None:
        self.current_file = ""
        self.loaded_bytes = 0
        self._directory = Path(root) / appenddirname
        self._basename = appendfilename
        self._truncates = truncate
        self._load_rdb = load_rdb
        self._chunk_size = chunk_size
        self._files = files or FileOperations()
        self._log = log
        manifest = Manifest.load(self._directory, appendfilename, self._files)
        self.manifest = adopt_single_file(
            Path(root), appenddirname, appendfilename, manifest, files=self._files, log=log
        )
        self._sizes = {info.name: self._size(info.name) for info in self.manifest.live}
        self.total_bytes = sum(self._sizes.values())

    @property
    def exists(self) -> bool:
        """Whether there is an append-only file at all, even an empty one."""
        return bool(self.manifest.live)

    @property
    def end_offset(self) -> int | None:
        """The replication offset at the end of the files, approximate after a crash; None if the manifest has none."""
        last = self.manifest.incr[-1] if self.manifest.incr else None
        if last is None or last.start_offset is None or last.end_offset is not None:
            return None if last is None else last.end_offset
        return last.start_offset + self._size(last.name)

    def batches(self) -> Iterator[list[list[bytes]]]:
        """Yield the commands; an empty batch only gives the caller a chance to do other work."""
        live = self.manifest.live
        before = 0
        for info in live:
            size = self._sizes[info.name]
            if size:
                self.current_file = info.name
                yield from self._file(info, size, before, is_last=info is live[-1])
            before += size
            self.loaded_bytes = before

    def unknown_command(self, name: bytes) -> AofError:
        """Return the error for a command of the current batch that this server does not have."""
        text = name[:128].decode(errors="backslashreplace")
        return AofError(f"Unknown command '{text}' reading the append only file {self.current_file}")

    def damaged_value(self, error: DamagedError) -> AofError:
        """Return the error for a command that read a damaged part of the base."""
        return AofError(f"{error} A command read this in the append only file {self.current_file}")

    def wrong_arity(self, name: str) -> AofError:
        """Return the error for a command of the current batch that has too few arguments."""
        return AofError(
            f"Wrong number of arguments for '{name}' reading the append only file {self.current_file}"
        )

    def _file(self, info: FileInfo, size: int, before: int, *, is_last: bool) -> Iterator[list[list[bytes]]]:
        name = info.name
        try:
            fd = self._files.open(self._path(name), os.O_RDONLY | BINARY, 0)
        except OSError as error:
            raise AofError(
                f"Fatal error: can't open the append log file {name} for reading: {error.strerror}"
            ) from error
        try:
            source = ByteSource(lambda count: self._files.read(fd, count))
            if is_rdb(source):
                yield from self._rdb(source, name, before)
            torn_at = yield from self._commands(source, name, size, before)
        except OSError as error:
            raise AofError(
                f"Unrecoverable error reading the append only file {name}: {error.strerror}"
            ) from error
        finally:
            self._files.close(fd)
        if torn_at is not None:
            self._truncate(name, torn_at, is_last=is_last)
        self._log(f"DB loaded from {'base' if info.type == 'b' else 'incr'} file {name}")

    def _rdb(self, source: ByteSource, name: str, before: int) -> Iterator[list[list[bytes]]]:
        single = name == self._basename
        self._log(
            "Reading RDB preamble from AOF file..." if single else "Reading RDB base file on AOF loading..."
        )
        try:
            for _ in self._load_rdb(source):
                self.loaded_bytes = before + source.position
                yield []
        except RdbError as error:
            what = "RDB preamble of the AOF file" if single else "RDB base file"
            raise AofError(f"Error reading the {what} {name}, AOF loading aborted: {error}") from error
        if single:
            self._log("Reading the remaining AOF tail...")

    def _commands(
        self, source: ByteSource, name: str, size: int, before: int
    ) -> Generator[list[list[bytes]], None, int | None]:
        """Yield the remaining commands of a file; return the offset where it is torn, None if it is whole."""
        start = source.position  # offset of the buffered data in the file
        transactions = Transactions()
        data = b""
        at_end = False
        while True:
            if not at_end:
                # Doubling the size of each read avoids scanning a long value over and over.
                more = source.read(max(self._chunk_size, len(data)))
                at_end = not more
                data += more
            scan = (None if at_end else scan_quickly(data)) or scan_by_hand(data, goes_on=not at_end)
            batch = transactions.take(scan, start)
            start += scan.consumed
            data = data[scan.consumed :]
            good = start if transactions.opened_at is None else transactions.opened_at
            self.loaded_bytes = before + start
            if scan.commands:
                yield batch
            if scan.end is End.BAD:
                raise AofError(
                    f"Bad file format reading the append only file {name}: make a backup of your AOF file, then {_FIX}"
                    f" (byte offset {good})"
                )
            # A length beyond the end of the file is already an error, so the rest is not read into memory.
            if at_end or start + scan.needs > size:
                break
        if transactions.opened_at is not None:
            self._log(f"Revert incomplete MULTI/EXEC transaction in AOF file {name}")
        elif scan.end is End.WHOLE:
            return None
        return good

    def _truncate(self, name: str, offset: int, *, is_last: bool) -> None:
        if self._truncates:
            self._log(f"!!! Warning: short read while loading the AOF file {name}!!!")
            if not is_last:
                # Redis also truncates here before it exits, and its next start then misses those commands.
                raise AofError(
                    f"Fatal error: the truncated file is not the last file ({name}, byte offset {offset})"
                )
            self._log(f"!!! Truncating the AOF {name} at offset {offset} !!!")
            try:
                self._files.truncate(self._path(name), offset)
            except OSError as error:
                self._log(f"Error truncating the AOF file {name}: {error.strerror}")
            else:
                self._log(f"AOF {name} loaded anyway because aof-load-truncated is enabled")
                return
        raise AofError(
            f"Unexpected end of file reading the append only file {name}. You can: 1) Make a backup of your AOF file, "
            f"then {_FIX}. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and "
            f"restart the server. (byte offset {offset})"
        )

    def _size(self, name: str) -> int:
        try:
            return self._path(name).stat().st_size
        except OSError as error:
            raise AofError(f"Unable to obtain the AOF file {name} length. stat: {error.strerror}") from error

    def _path(self, name: str) -> Path:
        return self._directory / name
