"""Faults of the disk: the append-only file cannot be written, synced or rewritten.

While such a fault is active, ``Disk`` replaces calls of ``Persistence.files``. The server then behaves as on a full or
broken disk: it refuses writes with MISCONF and retries, or under ``appendfsync always`` it ends.
"""

from __future__ import annotations

import copy
import errno
import os
import time
from collections.abc import Callable
from typing import NoReturn

from ...storage.files import FileOperations
from ..server import Server
from .fault import Fault


class Disk:
    """Replaces the calls that write the append-only file of one server, so that faults can fail them.

    ``find``: called with the kind of fault (``append``) and the call (``AOF-WRITE``); returns the fault that hits the
    call, or None.
    """

    def __init__(self, server: Server, find: Callable[[bytes, bytes], Fault | None]) -> None:
        self._server = server
        self._find = find
        self._real: FileOperations | None = None  # the original calls while they are replaced

    def update(self, *, is_on: bool) -> None:
        """Let faults fail the calls for the append-only file (``is_on``), or put the original calls back."""
        persistence = self._server.persistence
        files = persistence.files
        if is_on and self._real is None:
            self._real = copy.copy(files)
            files.write, files.fdatasync = self._write, self._sync
            persistence.rewrite.files_of_base = self._files_of_base
        elif not is_on and self._real is not None:
            files.write, files.fdatasync = self._real.write, self._real.fdatasync
            persistence.rewrite.files_of_base = lambda: files
            self._real = None

    def _is_aof(self, fd: int) -> bool:
        aof = self._server.persistence.aof
        return aof is not None and aof.fd == fd

    def _write(self, fd: int, data: bytes) -> int:
        assert self._real is not None
        if self._is_aof(fd) and self._find(b"append", b"AOF-WRITE") is not None:
            raise _no_space()
        return self._real.write(fd, data)

    def _sync(self, fd: int) -> None:
        """Sync, or fail; runs in a thread, or in the loop if the server itself waits for the disk."""
        real = self._real
        fault = self._find(b"fsync", b"AOF-FSYNC") if self._is_aof(fd) else None
        if fault is not None:
            if not fault.spec.delay:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            time.sleep(fault.spec.delay / 1000)
        (real.fdatasync if real is not None else self._server.persistence.files.fdatasync)(fd)

    def _files_of_base(self) -> FileOperations:
        """Decide in this process, because a forked child cannot count."""
        files = self._server.persistence.files
        if self._find(b"rewrite", b"AOF-REWRITE") is None:
            return files
        failing = copy.copy(files)
        failing.write = _fail
        return failing


def _no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _fail(_fd: int, _data: bytes) -> NoReturn:
    raise _no_space()
