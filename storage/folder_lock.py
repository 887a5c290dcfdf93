"""A lock on a folder of data files, so that only one server at a time writes there.

The system drops the lock when the process ends, however it ends. Who only reads the files needs no lock, and Redis
takes none: it loads the files that a server of ours has left, and the reverse.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

NAME: Final = "rillet.lock"
_FAR: Final = (
    1 << 30
)  # Windows locks bytes, and no process can read a locked one: this one lies behind the text

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as error:  # what it raises does not say whether somebody has the lock
            raise BlockingIOError(*error.args) from None

    def _unlock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        # Of the open file, not of the process: it keeps two servers of one process apart, too.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        # A forked child may have the open file as well: to close ours would not be enough.
        fcntl.flock(fd, fcntl.LOCK_UN)


class FolderInUseError(Exception):
    """Another server has the folder; the text names it."""


class FolderLock:
    """The lock of one server on one folder, held from its making to ``release``."""

    def __init__(self, folder: str) -> None:
        """Take the lock.

        Args:
            folder: an absolute path.

        Raises:
            FolderInUseError: another server has it, in this process or in another one.
            OSError: the file of the lock can not be opened, or the file system has no locks.
        """
        self.folder = folder
        self._path = Path(folder) / NAME
        while True:
            fd = _open(self._path)
            try:
                _lock(fd)
                if _is_at(fd, self._path):
                    break
            except BlockingIOError:
                raise FolderInUseError(_in_use(fd, folder)) from None
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the server that had it has removed the file meanwhile
        self._fd = fd
        with suppress(OSError):  # the pid is for people: a full disk is no reason to refuse
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, b"%d\n" % os.getpid())

    def release(self) -> None:
        """Give the folder free, and take the file away."""
        if sys.platform != "win32":  # an open file can not be removed there
            with suppress(OSError):
                self._path.unlink()
        with suppress(OSError):
            _unlock(self._fd)
        os.close(self._fd)
        if sys.platform == "win32":
            with suppress(OSError):  # the next server has it already
                self._path.unlink()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY)  # another user's; it can be locked all the same


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _in_use(fd: int, folder: str) -> str:
    """Say who has the folder, and close the file."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        pid = os.read(fd, 32).strip()
    except OSError:
        pid = b""
    finally:
        os.close(fd)
    who = f"the server with pid {int(pid)}" if pid.isdigit() else "another server"
    return f"The folder {folder} is in use by {who}: two servers would write the same files"
