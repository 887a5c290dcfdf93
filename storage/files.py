"""Files that survive a crash: the calls of the append-only file in one replaceable object, and atomic replacement."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from . import system

Log = Callable[[str], None]

# Without it, Windows translates line ends in files.
BINARY: int = getattr(os, "O_BINARY", 0)
# macOS and Windows have no fdatasync.
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def silent(_text: str) -> None:
    """Discard a log line: the default where a caller may pass a function that logs."""


class FileOperations:
    """The calls that access a disk, in one object, so that a test can make any of them fail.

    Each has the shape of its `os` namesake and raises `OSError`.
    """

    def __init__(
        self,
        open: Callable[[Path, int, int], int] = os.open,  # noqa: A002 - as in os
        close: Callable[[int], None] = os.close,
        read: Callable[[int, int], bytes] = os.read,
        write: Callable[[int, bytes], int] = os.write,
        fsync: Callable[[int], None] = os.fsync,
        fdatasync: Callable[[int], None] = _fdatasync,
        truncate: Callable[[int | Path, int], None] = os.truncate,
        rename: Callable[[Path, Path], None] = os.replace,
        unlink: Callable[[Path], None] = os.unlink,
        make_folder: Callable[[Path], None] = os.mkdir,
    ) -> None:
        self.open = open
        self.close = close
        self.read = read
        self.write = write
        self.fsync = fsync
        self.fdatasync = fdatasync
        self.truncate = truncate
        self.rename = rename
        self.unlink = unlink
        self.make_folder = make_folder

    def write_all(self, fd: int, data: bytes) -> None:
        """Write every byte, with as many calls as that takes."""
        while data:
            data = data[self.write(fd, data) :]

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder, so that created, renamed and removed names survive a crash; Windows does not need it."""
        if not system.HERE.syncs_folders:
            return
        fd = self.open(folder, os.O_RDONLY, 0)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)


def replace_file(target: Path, content: bytes, mode: int) -> None:
    """Replace the content of a file atomically: a reader, even after a crash, finds the old or the new content, whole.

    Raises OSError: the file is unchanged.
    ``target``: the file; its folder must exist.
    """
    import tempfile  # it imports a dozen modules, and few servers replace a file

    handle, temporary = tempfile.mkstemp(prefix=target.name + ".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    with suppress(OSError):  # the rename is done, so a failed sync of the folder is no failure
        FileOperations().sync_folder(target.parent)
