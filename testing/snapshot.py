"""Copies of a test server's data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from .control import ControlError


class SnapshotError(RuntimeError):
    """A snapshot is lost, because its server ended without a clean shutdown. At a clean one, ``stop`` downloads it."""


class Snapshot:
    """An immutable copy of a server's data and functions at one moment.

    The server keeps it until this object is garbage; when the server stops cleanly, the copy is downloaded.
    ``Server.restore`` accepts it any number of times, even on another server, which then receives it as an RDB file.
    """

    def __init__(self, store: SnapshotStore, name: bytes) -> None:
        self.name = name
        self._owner = os.getpid()
        self._store: SnapshotStore | None = store
        self._file: bytes | None = None

    def rdb(self) -> bytes:
        """Return the snapshot as an RDB file.

        Any server of the same Redis version can read it; Rillet reads it without loss.

        Raises:
            SnapshotError: the server that kept it ended without a clean shutdown.
        """
        if self._file is None:
            if self._store is None:
                raise SnapshotError("The server that kept this snapshot has ended")
            self._file = self._store.dump(self.name)
        return self._file

    def leave_store(self) -> None:
        """Forget the server, which is stopping. Only a copy that was downloaded before remains."""
        self._store = None

    def __del__(self) -> None:
        if self._store is not None and self._owner == os.getpid():  # a fork does not own it
            self._store.garbage.append(self.name)


class SnapshotStore:
    """The snapshots that a server holds between its start and its end."""

    def __init__(self, command: Callable[..., Any]) -> None:
        # The names of unreferenced snapshots, which the next ``take`` or ``restore`` drops.
        self.garbage: list[bytes] = []
        self._owner = os.getpid()
        self._command = command
        self._names: set[bytes] = set()
        self._own: WeakSet[Snapshot] = WeakSet()

    def take(self) -> Snapshot:
        """Let the server copy its data now, and return the snapshot."""
        self._sweep()
        snapshot = Snapshot(self, os.urandom(8).hex().encode())
        self._command(b"DEBUG", b"SNAPSHOT", b"TAKE", snapshot.name)
        self._keep(snapshot)
        return snapshot

    def load(self, file: bytes) -> Snapshot:
        """Load an RDB file into the server as a snapshot, and return it; the server's own data does not change."""
        snapshot = Snapshot(self, os.urandom(8).hex().encode())
        self._command(b"DEBUG", b"SNAPSHOT", b"LOAD", snapshot.name, file)
        self._keep(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the server's data by a snapshot of this server or another one."""
        self._sweep()
        if snapshot.name not in self._names:
            self._command(b"DEBUG", b"SNAPSHOT", b"LOAD", snapshot.name, snapshot.rdb())
            self._names.add(snapshot.name)
        self._command(b"DEBUG", b"SNAPSHOT", b"RESTORE", snapshot.name)

    def dump(self, name: bytes) -> bytes:
        """Download the snapshot of this name, and return it as an RDB file."""
        file: bytes = self._command(b"DEBUG", b"SNAPSHOT", b"DUMP", name)
        return file

    def end(self) -> None:
        """Download the snapshots that are still referenced; called before the server stops.

        If the server has already ended or is busy, they are lost, and ``Snapshot.rdb`` raises a SnapshotError.
        """
        import hiredis

        for snapshot in list(self._own):
            with contextlib.suppress(ControlError, hiredis.ReplyError):
                snapshot.rdb()
            snapshot.leave_store()

    def _keep(self, snapshot: Snapshot) -> None:
        self._names.add(snapshot.name)
        self._own.add(snapshot)

    def _sweep(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self.garbage.clear()  # the parent drops these
        while self.garbage:
            name = self.garbage.pop()
            self._names.discard(name)
            self._command(b"DEBUG", b"SNAPSHOT", b"DROP", name)
