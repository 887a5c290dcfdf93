"""The folder of the data files (``dir``): lock it, so that one server at a time writes there, and remove orphans."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...protocol.regex import regex
from ...storage import system
from ...storage.folder_lock import FolderInUseError, FolderLock

if TYPE_CHECKING:
    from ..server import Server

# Names of snapshots, of replication/snapshot_sender and (if an open file keeps its name) of replication/master_link.
_TEMPORARY: Final = regex(r"temp-(?:repl-|sync-)?([1-9][0-9]{0,8})-\w{8}(?:-[0-9]+)?\.rdb", re.ASCII)


class Folder:
    """The lock on ``dir`` of one server.

    A server that keeps its data (AOF, or save points) takes the lock at its start; any other takes it before it first
    writes a file. It holds the lock until it ends or moves to another folder.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._locks: dict[str, FolderLock] = {}
        for name in ("dir", "appendonly", "save"):
            server.config.on_change(name, self._take_as_set)

    def take_if_kept(self) -> None:
        """Lock ``dir`` if the configuration writes an AOF or save points there.

        Raises FolderInUseError: another server holds the lock.
        """
        config = self._server.config
        if config.appendonly or (config.save and config.dbfilename):
            self.take()

    def take(self) -> None:
        """Lock ``dir``, unless this server holds the lock; release locks on other folders.

        An open AOF stays where it is until a rewrite or its end, and so does the lock on its folder. A file system without
        locks gets a log line.

        Raises FolderInUseError: another server holds the lock; the current locks stay.
        """
        folder = self._server.config.dir
        try:
            lock = self._locks.pop(folder, None) or FolderLock(folder)
        except FileNotFoundError:
            return  # there is no folder to write to; every write reports that
        except OSError as error:
            # Either writing the files fails as well and is reported, or the file system has no locks.
            self._server.log.warning(
                f"Can't lock the folder {folder}: {error.strerror or error}. Nothing keeps other servers from it."
            )
            return
        if self._server.persistence.aof is None:
            self.release()
        self._locks[folder] = lock

    def release(self) -> None:
        """Release all locks of this server, because it writes no more files."""
        while self._locks:
            self._locks.popitem()[1].release()

    def announce(self) -> None:
        """Log the folder where the data will be saved, with a warning if it is not writable."""
        server, config = self._server, self._server.config
        if server.sentinel is not None:
            return
        places = []
        if config.appendonly:
            places.append(str(Path(config.dir) / config.appenddirname))
        if config.save and config.dbfilename:
            places.append(str(Path(config.dir) / config.dbfilename))
        if not places:
            server.log.notice("The data will not be saved: there is no append-only file and no save point")
            return
        server.log.notice(f"The data will be saved to {' and '.join(places)}")
        if not os.access(config.dir, os.W_OK):
            server.log.warning(f"The folder {config.dir} is not writable: saving the data will fail")

    def _take_as_set(self) -> None:
        """Take the lock that a CONFIG SET made necessary."""
        try:
            if self._locks:
                self.take()
            else:
                self.take_if_kept()
        except FolderInUseError as error:
            raise ValueError(str(error)) from None


def remove_orphans(folder: Path, *, owns_process: bool) -> list[str]:
    """Remove the temporary dump files of servers that no longer run from a folder; return the names of the files.

    ``owns_process``: no other server lives in this process. Files with its process ID then come from an earlier
    process with the same ID, as in a container, where each server is process 1.
    """
    removed = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.iterdir()):
            match = _TEMPORARY().fullmatch(path.name)
            if match and _is_gone(int(match[1]), owns_process=owns_process):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed.append(path.name)
    return removed


def _is_gone(pid: int, *, owns_process: bool) -> bool:
    if pid == os.getpid():
        return owns_process
    return system.HERE.has_ended(pid)
