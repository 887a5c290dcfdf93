"""The temporary folders of test servers; each belongs to the process that created it.

A killed process leaves its folders behind, and the next process that creates one removes them. A lock shows whether the
owner is alive: the system drops it when the process ends, however it ends. Reused process IDs, other users and containers
with their own process IDs therefore cause no mistakes.

A forked child has copies of its parent's objects and exits its parent's ``with`` blocks, too; there they remove nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final, Self

from ..protocol.regex import regex
from ..storage import system

_PREFIX: Final = "rillet-testing-"
_NAME: Final = regex(rf"{_PREFIX}\d+-[a-z0-9_]{{8}}")
_PRIVATE: Final = 0o700


class TemporaryFolder:
    """A folder that is removed by ``remove``, at the end of a ``with`` block, as garbage, or when the interpreter exits.

    Args:
        where: the parent folder; None: the system's folder for temporary files.
    """

    def __init__(self, where: str | None = None) -> None:
        place = where or tempfile.gettempdir()
        _remove_abandoned(place)
        while True:
            lock = None
            # The folder's path, which contains the ID of the process that created it.
            self.path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
            with contextlib.suppress(FileNotFoundError, BlockingIOError):  # another process is removing it
                lock = hold(self.path)
                Path(self.path).stat()
                break
            if lock is not None:
                os.close(lock)
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def __fspath__(self) -> str:
        """Return the folder's path."""
        return self.path

    def remove(self) -> None:
        """Remove the folder, unless this is a fork of the process that created it."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def hold(folder: str) -> int | None:
    """Lock a temporary folder until this process ends, so that no other process removes it.

    Returns:
        The file descriptor that holds the lock; None if the file system has no locks.

    Raises:
        FileNotFoundError: there is no such folder.
        BlockingIOError: another process is removing it.
    """
    if not system.HERE.locks_folders:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        system.HERE.share(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove(path: str, lock: int | None, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(place: str) -> None:
    """Remove this user's folders whose processes have ended."""
    if not system.HERE.locks_folders:
        return
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if _NAME().fullmatch(entry.name)]
    for path in found:
        with contextlib.suppress(OSError):  # it is in use, belongs to another user, or was removed
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
                if status.st_uid == os.getuid() and status.st_mode & 0o777 == _PRIVATE:
                    system.HERE.lock(descriptor)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
