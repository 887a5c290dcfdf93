"""The folder of the data files (``dir``): one server at a time writes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.folder_lock import FolderInUseError, FolderLock

if TYPE_CHECKING:
    from ..server import Server


class Folder:
    """Holds the lock on ``dir`` for one server.

    A server that keeps its data (AOF, or save points) has the lock from the start; one that does not takes it when it
    is first asked to write a file. It keeps the lock until it ends or moves to another folder.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._locks: dict[str, FolderLock] = {}
        for name in ("dir", "appendonly", "save"):
            server.config.on_change(name, self._look)

    def take_if_kept(self) -> None:
        """Take the lock if the configuration keeps data there.

        Raises:
            FolderInUseError: another server has it.
        """
        config = self._server.config
        if config.appendonly or (config.save and config.dbfilename):
            self.take()

    def take(self) -> None:
        """Take the lock on ``dir``, unless this server has it; locks on other folders are given up.

        An AOF that is open stays where it is until it is switched off, and so does the lock on its folder.

        Raises:
            FolderInUseError: another server has it; the present locks stay.
        """
        folder = self._server.config.dir
        if folder in self._locks:
            return
        try:
            lock = FolderLock(folder)
        except FileNotFoundError:
            return  # there is nothing to write to, as whoever tries says
        except OSError as error:
            # Writing the files fails as well, and says so; or the file system has no locks.
            self._server.log.warning(
                f"Can't lock the folder {folder}: {error.strerror or error}. Nothing keeps other servers from it."
            )
            return
        if self._server.persistence.aof is None:
            self.release()
        self._locks[folder] = lock

    def release(self) -> None:
        """Give all locks up: the server writes nothing any more."""
        while self._locks:
            self._locks.popitem()[1].release()

    def _look(self) -> None:
        """CONFIG SET of what may need the lock."""
        try:
            if self._locks:
                self.take()
            else:
                self.take_if_kept()
        except FolderInUseError as error:
            raise ValueError(str(error)) from None
