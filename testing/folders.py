"""The temporary folders of test servers; each belongs to the process that has made it.

A process that is killed leaves its folders behind, and the next that makes one removes them. A lock says whether the
owner lives: the system drops it when the process ends, however it ends, so that a process ID that is used again, another
user or a container with processes of its own misleads nobody.

A forked child has copies of its parent's objects, and leaves its parent's blocks as well: there they remove nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ..storage import system

if TYPE_CHECKING:
    from types import TracebackType

_PREFIX: Final = "rillet-testing-"
_NAME: Final = re.compile(rf"{_PREFIX}\d+-[a-z0-9_]{{8}}")
_PRIVATE: Final = 0o700


class TemporaryFolder:
    """A folder that is removed by ``remove``, at the end of a ``with`` block, as garbage, or when the interpreter ends.

    Args:
        where: the folder to make it in; None: the system's place for temporary files.

    Attributes:
        path: of the folder; it names the process that made it.
    """

    def __init__(self, where: str | None = None) -> None:
        place = where or tempfile.gettempdir()
        _remove_abandoned(place)
        lock = None
        while True:
            self.path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place)
            with contextlib.suppress(FileNotFoundError, BlockingIOError):  # another start removes it already
                lock = hold(self.path)
                Path(self.path).stat()
                break
            if lock is not None:
                os.close(lock)
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def __fspath__(self) -> str:
        """Return its path."""
        return self.path

    def remove(self) -> None:
        """Remove it, unless this is a fork of the process that made it."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def hold(folder: str) -> int | None:
    """Lock a folder until this process ends.

    Returns:
        The descriptor; None where the file system has no locks.

    Raises:
        FileNotFoundError: there is no such folder.
        BlockingIOError: another process removes it.
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
    """Remove this user's folders of processes that have ended."""
    if not system.HERE.locks_folders:
        return
    with os.scandir(place) as entries:
        found = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    for path in found:
        with contextlib.suppress(OSError):  # it is in use, of another user, or gone
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                status = os.fstat(descriptor)
                if status.st_uid == os.getuid() and status.st_mode & 0o777 == _PRIVATE:
                    system.HERE.lock(descriptor)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
