"""Files that survive a crash: the few calls of the append-only file in one replaceable object, and small whole files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import system

Log = Callable[[str], None]

# Windows turns line ends in files opened without it.
BINARY: int = getattr(os, "O_BINARY", 0)
# macOS and Windows have no fdatasync.
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def silent(_text: str) -> None:
    """A log that keeps nothing."""


@dataclass(slots=True, eq=False, repr=False)
class FileOperations:
    """The calls that reach a disk, so that a test can make any one of them fail.

    Each has the shape of its `os` namesake and raises `OSError`.
    """

    open: Callable[[Path, int, int], int] = os.open
    close: Callable[[int], None] = os.close
    read: Callable[[int, int], bytes] = os.read
    write: Callable[[int, bytes], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    fdatasync: Callable[[int], None] = _fdatasync
    truncate: Callable[[int | Path, int], None] = os.truncate
    rename: Callable[[Path, Path], None] = os.replace
    unlink: Callable[[Path], None] = os.unlink
    make_folder: Callable[[Path], None] = os.mkdir

    def write_all(self, fd: int, data: bytes) -> None:
        """Write every byte, however many calls it takes."""
        while data:
            data = data[self.write(fd, data) :]

    def sync_folder(self, folder: Path) -> None:
        """Make names created, renamed or removed in a folder last; Windows has no such call and no need."""
        if not system.HERE.syncs_folders:
            return
        fd = self.open(folder, os.O_RDONLY, 0)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)


def replace_file(target: Path, content: bytes, mode: int) -> None:
    """Give a file new content at once: whenever it is read, and after a crash too, it is whole, old or new.

    Args:
        target: the file; its folder must be there.
        mode: its permissions.

    Raises:
        OSError: the file is as it was.
    """
    import tempfile  # it brings a dozen modules, and few servers replace a file

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
    with suppress(OSError):  # the rename is done; a folder that cannot be synced is no failure
        FileOperations().sync_folder(target.parent)
