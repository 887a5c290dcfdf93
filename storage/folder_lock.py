"""A lock on a folder of data files, so that only one server at a time writes there.

The system drops the lock when the process ends, however it ends. A reader of the files needs no lock, and Redis takes
none: each can load the files that the other has left.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import system

NAME: Final = "rillet.lock"


class FolderInUseError(Exception):
    """Another server has locked the folder; the text names it."""


class FolderLock:
    """The lock of one server on one folder, held from construction until ``release``."""

    def __init__(self, folder: str) -> None:
        """Take the lock.

        ``folder``: an absolute path.

        Raises:
            FolderInUseError: another server holds the lock, in this process or in another one.
            OSError: the lock file cannot be opened, or the file system has no locks.
        """
        self.folder = folder
        self._path = Path(folder) / NAME
        while True:
            fd = _open(self._path)
            try:
                system.HERE.lock(fd)
                if _is_at(fd, self._path):
                    break
            except BlockingIOError:
                raise FolderInUseError(_in_use(fd, folder)) from None
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the previous holder removed the file after this one opened it
        self._fd = fd
        with suppress(OSError):  # the pid only informs people, so a full disk is no reason to refuse
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, b"%d\n" % os.getpid())

    def release(self) -> None:
        """Release the lock, and remove its file."""
        if system.HERE.removes_open_files:
            with suppress(OSError):
                self._path.unlink()
        with suppress(OSError):
            system.HERE.unlock(self._fd)
        os.close(self._fd)
        if not system.HERE.removes_open_files:
            with suppress(OSError):  # the next server already has it
                self._path.unlink()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY)  # another user's file can be locked, too


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _in_use(fd: int, folder: str) -> str:
    """Return the text of the error, with the pid of the server that holds the lock, and close the file."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        pid = os.read(fd, 32).strip()
    except OSError:
        pid = b""
    finally:
        os.close(fd)
    who = f"the server with pid {int(pid)}" if pid.isdigit() else "another server"
    return f"The folder {folder} is in use by {who}: two servers would write the same files"
