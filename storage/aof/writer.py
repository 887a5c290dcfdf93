"""Write the append-only file: collect records during a tick, write them at once, and fsync.

Records arrive encoded; propagation decides their content. This module reads no clock.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, Unpack

from ..files import BINARY, FileOperations, Log, silent
from ..loading import AofError
from .manifest import FileInfo, Manifest, make_folder

# Chooses the history files of a folder to remove; the others are kept.
Outdated = Callable[[Path, Sequence[FileInfo]], Sequence[FileInfo]]
# Returns the replication offset up to which records were appended.
Offset = Callable[[], int | None]


def everything(_directory: Path, history: Sequence[FileInfo]) -> Sequence[FileInfo]:
    """Choose all history files for removal, as Redis does: the default of ``outdated``."""
    return history


def no_offset() -> None:
    """Return None: the default of ``offset``.

    The manifest then has no replication offsets, as before Redis 8.
    """


# A unique number follows; the next start removes files that a crash left.
TEMPORARY_BASE = "temp-rewriteaof-bg-"


class Options(TypedDict, total=False):
    """Optional arguments of ``AppendOnlyFile.open``, which describes them."""

    timestamps: bool | str
    files: FileOperations | None
    log: Log
    outdated: Outdated
    offset: Offset


class AppendOnlyFile:
    """An append-only file, whose last incr file is open for appending.

    Only the server's loop calls `append(record)` and `write()`; any thread may call `sync()`.
    """

    def __init__(
        self,
        directory: Path,
        basename: str,
        manifest: Manifest,
        *,
        timestamps: bool | str = False,
        files: FileOperations | None = None,
        log: Log = silent,
        detached: bool = False,
        outdated: Outdated = everything,
        offset: Offset = no_offset,
    ) -> None:
        self.timestamps = timestamps
        self.manifest = manifest
        self._directory = directory
        self._basename = basename
        self._files = files or FileOperations()
        self._log = log
        self._pending: list[bytes] = []
        # The list's own method saves a call: this runs for every write command.
        self.append: Callable[[bytes], None] = self._pending.append
        self._fd = -1
        self._sizes_before = 0  # bytes of the live files before the open one
        self._file_size = 0
        self._written = self._synced = 0  # bytes since the file was opened
        self._syncing = threading.Lock()
        self._annotated_second = 0
        self._annotated_ms = 0
        self._outdated = outdated
        self._offset = offset
        self._detached_at = offset()
        self._write_error: OSError | None = None
        self._sync_error: OSError | None = None
        self._detached = detached
        self.base_size = self._size(manifest.base.name) if manifest.base else 0

    @classmethod
    def open(
        cls,
        root: str | Path,
        appenddirname: str,
        appendfilename: str,
        *,
        empty_rdb: bytes | None = None,
        **options: Unpack[Options],
    ) -> AppendOnlyFile:
        """Open the file below `root` (the server's `dir`); create missing folders and files.

        Raises AofError: the file cannot be opened.

        Args:
            root: the folder that contains the AOF folder.
            timestamps: whether to write annotations; "ms" writes milliseconds, too (see ``annotate``).
            files: the calls that access the disk.
            log: receives lines for the server's log.
            outdated: chooses the history files to remove.
            offset: returns the replication offset up to which records were appended; None if unknown.
            empty_rdb: the content of a new file's base; by default the base is empty.
        """
        files = options["files"] = options.get("files") or FileOperations()
        directory = Path(root) / appenddirname
        make_folder(directory, files)
        manifest = Manifest.load(directory, appendfilename, files)
        fresh = not manifest.live
        reopened = bool(manifest.incr)
        if fresh:
            manifest = manifest.with_new_base(appendfilename, rdb=empty_rdb is not None)
        loaded = manifest
        if not reopened:
            manifest = manifest.with_new_incr(appendfilename, options.get("offset", no_offset)())
        elif manifest.incr[-1].end_offset is not None:
            manifest = manifest.with_end(None)
        aof = cls(directory, appendfilename, manifest, **options)
        log = aof._log
        if fresh and manifest.base is not None:
            log(f"Creating AOF base file {manifest.base.name} on server start")
            aof._write_first_base(manifest.base.name, empty_rdb or b"")
        name = manifest.incr[-1].name
        log(f"{'Opening' if reopened else 'Creating'} AOF incr file {name} on server start")
        aof._fd = aof._open_file(name)
        try:
            if not fresh:  # Redis does not count the first base either
                aof._count_sizes()
            if manifest is not loaded:
                manifest.persist(directory, appendfilename, files)
        except BaseException:
            files.close(aof._fd)
            raise
        aof.remove_history()
        aof.remove_temporaries()
        return aof

    def _write_first_base(self, name: str, content: bytes) -> None:
        fd = self._open_file(name, os.O_TRUNC)
        try:
            self._files.write_all(fd, content)
            self._files.fsync(fd)
        except OSError as error:
            raise AofError(f"Can't write the AOF base file {name}: {error.strerror}") from error
        finally:
            self._files.close(fd)
        self.base_size = 0

    @classmethod
    def open_detached(
        cls, root: str | Path, appenddirname: str, appendfilename: str, **options: Unpack[Options]
    ) -> AppendOnlyFile:
        """Open a file for a server that already has data; it becomes valid with `install_base`.

        Until then the records go to a temporary file, and the previous content of the folder stays valid. The
        arguments are those of `open`. Raises OSError or AofError if that fails.
        """
        files = options["files"] = options.get("files") or FileOperations()
        directory = Path(root) / appenddirname
        make_folder(directory, files)
        manifest = Manifest.load(directory, appendfilename, files)
        aof = cls(directory, appendfilename, manifest, detached=True, **options)
        aof.base_size = 0
        aof.remove_temporaries()
        aof._fd = aof._open_file(aof._detached_name, os.O_TRUNC)
        return aof

    @property
    def fd(self) -> int:
        """The descriptor of the open file; -1 after ``close``."""
        return self._fd

    @property
    def directory(self) -> Path:
        """The folder that contains the AOF files."""
        return self._directory

    @property
    def is_detached(self) -> bool:
        """Whether the base that the open file continues is still missing."""
        return self._detached

    def is_at(self, root: str | Path, appenddirname: str, appendfilename: str) -> bool:
        """Return True if this file has this path and name, and is not detached."""
        place = Path(root) / appenddirname, appendfilename
        return not self._detached and (self._directory, self._basename) == place

    @property
    def _detached_name(self) -> str:
        return f"temp-{self._basename}.incr"

    @property
    def size(self) -> int:
        """Bytes in all live files (INFO aof_current_size), without pending records."""
        return self._sizes_before + self._file_size

    @property
    def unwritten(self) -> int:
        """Bytes appended but not written yet (INFO aof_buffer_length)."""
        return sum(map(len, self._pending))

    @property
    def has_unwritten(self) -> bool:
        """Whether a record is appended but not written yet."""
        return bool(self._pending)

    @property
    def unsynced(self) -> int:
        """Bytes written but perhaps not on the disk yet."""
        return self._written - self._synced

    @property
    def is_on_disk(self) -> bool:
        """Whether all records are synced: the next start would find them even if the machine fails now."""
        return not (self._detached or self._pending or self.unsynced)

    @property
    def last_error(self) -> OSError | None:
        """The error of the last write or sync; None after both work again."""
        return self._write_error or self._sync_error

    def annotate(self, now_ms: int) -> None:
        """Append `#TS:<unix seconds>` if timestamps are enabled and a new second has begun.

        With timestamps "ms" also append `#MS:<unix milliseconds>` if the millisecond has changed, and at the start of
        each file, so that each file can be read alone.
        """
        second = now_ms // 1000
        if self.timestamps and second > self._annotated_second:
            self._annotated_second = second
            self.append(b"#TS:%d\r\n" % second)
        if self.timestamps == "ms" and now_ms != self._annotated_ms:
            self._annotated_ms = now_ms
            self.append(b"#MS:%d\r\n" % now_ms)

    def write(self) -> bool:
        """Write all pending records, without a sync; if the write fails, return False and set `last_error`.

        After a failure the records stay pending, so that a later call writes them. A part that reached the
        file is truncated (if even that fails, only the rest stays pending).
        """
        pending = self._pending
        if not pending:
            return self._write_error is None
        data = pending[0] if len(pending) == 1 else b"".join(pending)
        written = 0
        try:
            written = self._files.write(self._fd, data)
            while written < len(data):
                more = self._files.write(self._fd, data[written:])
                if not more:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as a failed write
                written += more
        except OSError as error:
            self._keep(data, written, error)
            return False
        pending.clear()
        self._count(written)
        self._write_error = None
        return True

    def sync(self) -> None:
        """Sync all written data (fdatasync); if that fails, raise OSError and keep it in `last_error`."""
        with self._syncing:
            if self._fd < 0:
                return
            upto = self._written
            try:
                self._files.fdatasync(self._fd)
            except OSError as error:
                self._sync_error = error
                raise
            self._sync_error = None
            self._synced = upto

    def close(self) -> None:
        """Write and sync the rest, then close; raise OSError if that fails (the file is closed anyway)."""
        if self._fd < 0:
            return
        try:
            if not self.write() and self._write_error is not None:
                raise self._write_error
            self.sync()
            self._note_end()
        finally:
            with self._syncing:
                fd, self._fd = self._fd, -1
                self._files.close(fd)

    def _note_end(self) -> None:
        """Record the end offset in the manifest: the replication stream has bytes that the file lacks."""
        end = self._offset()
        if self._detached or end is None:
            return
        try:
            self.manifest.with_end(end).persist(self._directory, self._basename, self._files)
        except AofError as error:
            self._log(str(error))

    def lose_unsynced(self) -> None:
        """Close without writing the rest, and truncate the bytes that are not synced, as a power failure does."""
        with self._syncing:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            self._pending.clear()
            try:
                self._files.truncate(fd, max(0, self._file_size - self.unsynced))
            finally:
                self._files.close(fd)

    def start_new_incr(self) -> None:
        """Continue in a new incr file; a rewrite calls this before it takes its snapshot.

        The previous file is then complete and synced. A detached file begins again empty: the snapshot has its records.
        Raises OSError or AofError if that fails; the old file then stays in use.
        """
        if self._detached:
            self._start_again()
            return
        if not self.write() and self._write_error is not None:
            raise self._write_error
        self.sync()
        manifest = self.manifest.with_new_incr(self._basename, self._offset())
        name = manifest.incr[-1].name
        fd = self._open_file(name, os.O_TRUNC)
        try:
            manifest.persist(self._directory, self._basename, self._files)
        except BaseException:
            self._files.close(fd)
            if not _is_named(name, self._directory, self._basename, self._files):
                with suppress(OSError):
                    self._files.unlink(self._path(name))
            raise
        self._log(f"Creating AOF incr file {name} on background rewrite")
        with self._syncing:
            old, self._fd = self._fd, fd
        self._files.close(old)
        self.manifest = manifest
        self._annotated_ms = 0
        self._sizes_before += self._file_size
        self._file_size = 0

    def _start_again(self) -> None:
        """Discard all records, because the following snapshot includes their effects.

        After a failed `install_base` the manifest on the disk may be the new one, and the open file no temporary one.
        """
        manifest = Manifest.load(self._directory, self._basename, self._files)
        fd = self._open_file(self._detached_name, os.O_TRUNC)
        with self._syncing:
            old, self._fd = self._fd, fd
        self._files.close(old)
        self.manifest = manifest
        self._detached_at = self._offset()
        self._pending.clear()
        self._written = self._synced = self._file_size = 0
        self._write_error = self._sync_error = None
        self._annotated_ms = 0
        self._log(f"Creating AOF incr file {self._detached_name} on background rewrite")

    def install_base(self, temporary: Path, *, rdb: bool) -> None:
        """Replace all files before the open one by a finished and synced snapshot.

        Args:
            temporary: the snapshot; it is renamed.
            rdb: whether it is in RDB; otherwise it consists of commands.

        Raises OSError or AofError if that fails; then the files are unchanged. It may run in another thread than
        `write`, but not at the same time as `start_new_incr` or `close`.
        """
        incr = self.manifest.incr
        covered = len(incr) if self._detached else len(incr) - 1
        manifest = self.manifest.with_new_base(self._basename, covered, rdb=rdb)
        if self._detached:
            manifest = manifest.with_new_incr(self._basename, self._detached_at)
            self._files.rename(self._path(self._detached_name), self._path(manifest.incr[-1].name))
        _install(self._directory, self._basename, manifest, temporary, self._files)
        self._detached = False
        self.manifest = manifest
        self._sizes_before = sum(self._size(info.name) for info in manifest.live[:-1])
        self.base_size = self.size

    def remove_history(self) -> None:
        """Remove the outdated files that rewrites have replaced from the folder and the manifest.

        A file that cannot be removed now stays listed.
        """
        history = self.manifest.history
        if not history:
            return
        live = {info.name for info in self.manifest.live}
        outdated = {info.name for info in self._outdated(self._directory, history)}
        kept = []
        for info in history:
            if info.name in live:
                continue
            if info.name not in outdated:
                kept.append(info)
                continue
            self._log(f"Removing the history file {info.name}")
            try:
                self._files.unlink(self._path(info.name))
            except FileNotFoundError:
                pass
            except OSError as error:
                kept.append(info)
                self._log(f"Can't remove the history file {info.name}: {error.strerror}")
        if kept == history:
            return
        self.manifest = Manifest(self.manifest.base, kept, self.manifest.incr)
        try:
            self.manifest.persist(self._directory, self._basename, self._files)
        except AofError as error:
            self._log(str(error))

    def remove_temporaries(self) -> None:
        """Remove temporary files of rewrites that a crash interrupted."""
        for path in self._directory.glob(f"{TEMPORARY_BASE}*"):
            with suppress(OSError):
                self._files.unlink(path)

    def _keep(self, data: bytes, written: int, error: OSError) -> None:
        """Handle a failed write: remove the torn record from the file, and keep the rest pending."""
        self._write_error = error
        if written:
            try:
                self._files.truncate(self._fd, os.fstat(self._fd).st_size - written)
            except OSError as failure:
                self._log(
                    "Could not remove short write from the append-only file. The server may refuse to load it the "
                    f"next time it starts. ftruncate: {failure.strerror}"
                )
                self._count(written)
                data = data[written:]
        # In place, because `append` is a method of this list.
        self._pending[:] = [data]

    def _count(self, written: int) -> None:
        self._written += written
        self._file_size += written

    def _count_sizes(self) -> None:
        live = self.manifest.live
        self._file_size = self._size(live[-1].name)
        self._sizes_before = sum(self._size(info.name) for info in live[:-1])

    def _open_file(self, name: str, flags: int = 0) -> int:
        try:
            return self._files.open(
                self._path(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY | flags, 0o644
            )
        except OSError as error:
            raise AofError(f"Can't open the append-only file {name}: {error.strerror}") from error

    def _size(self, name: str) -> int:
        try:
            return self._path(name).stat().st_size
        except OSError:
            return 0

    def _path(self, name: str) -> Path:
        return self._directory / name


def install_base_alone(
    root: str | Path,
    appenddirname: str,
    appendfilename: str,
    temporary: Path,
    *,
    rdb: bool,
    files: FileOperations,
    log: Log,
    outdated: Outdated = everything,
) -> None:
    """Replace all files by a snapshot, for a server without AOF (BGREWRITEAOF with appendonly no).

    Raises OSError or AofError if that fails; then the files are unchanged.
    """
    directory = Path(root) / appenddirname
    manifest = Manifest.load(directory, appendfilename, files)
    manifest = manifest.with_new_base(appendfilename, len(manifest.incr), rdb=rdb)
    _install(directory, appendfilename, manifest, temporary, files)
    AppendOnlyFile(
        directory, appendfilename, manifest, files=files, log=log, outdated=outdated
    ).remove_history()


def _install(
    directory: Path, basename: str, manifest: Manifest, temporary: Path, files: FileOperations
) -> None:
    """Give a snapshot its name in the manifest, then write that manifest to the disk."""
    assert manifest.base is not None
    final = directory / manifest.base.name
    files.rename(temporary, final)
    try:
        manifest.persist(directory, basename, files)
    except AofError:
        # If the new manifest was in place before the failure, it needs the file.
        if not _is_named(final.name, directory, basename, files):
            with suppress(OSError):
                files.unlink(final)
        raise


def _is_named(name: str, directory: Path, basename: str, files: FileOperations) -> bool:
    """Return True if the manifest on the disk names a file, or cannot be read."""
    try:
        manifest = Manifest.load(directory, basename, files)
    except AofError:
        return True
    return name in {info.name for info in manifest.live}
