"""Write a snapshot of the data to a file while the server keeps running.

A server that owns its process forks: the child has the data of that moment, writes it and ends. A fork is not safe in
a process that is not the server's own, because its other threads may hold locks that the child would wait for, and
Windows has no fork. Such a server copies its data in one step (entries are shared, pending entries are not) and
writes the copy in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from ...storage.files import BINARY, FileOperations
from ...storage.keyspace.keyspace import Keyspace
from ...storage.rdb import Unsaid
from ...storage.value_types import TYPES
from ..server import Server

Pieces: TypeAlias = Callable[[Keyspace], Iterator[bytes]]
Done: TypeAlias = Callable[[str], None]

_SYNC_EVERY: Final = 4 << 20  # bytes; a single sync at the end would block every other user of the disk
_REPORT_EVERY: Final = 1 << 20
_FINISHED: Final = "finished"


class StoppedError(Exception):
    """Raised in the thread that writes a snapshot, after ``stop``: the file is no longer needed."""


class SnapshotWriter:
    """Writes one snapshot file."""

    def __init__(self, path: Path, files: FileOperations, *, incremental_sync: bool) -> None:
        self.path = path  # the file; removed if writing it fails or is stopped
        # Where ``pieces`` counts the data that the file's RDB version has no place for.
        self.unsaid = Unsaid()
        self.unsaid_counts = ""  # the counts as text, once the file is complete
        self._files = files
        self._sync_every = _SYNC_EVERY if incremental_sync else 1 << 62

    def _write(self, pieces: Iterator[bytes], report: Callable[[int], None]) -> None:
        files = self._files
        fd = files.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o644)
        try:
            written = synced = reported = 0
            for piece in pieces:
                files.write_all(fd, piece)
                written += len(piece)
                if written - synced >= self._sync_every:
                    files.fdatasync(fd)
                    synced = written
                if written - reported >= _REPORT_EVERY:
                    report(written)
                    reported = written
            files.fsync(fd)
            report(written)
            self.unsaid_counts = self.unsaid.text
        finally:
            files.close(fd)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._files.unlink(self.path)


class ForegroundWriter(SnapshotWriter):
    """Writes a snapshot file while every client waits."""

    def write(self, pieces: Iterator[bytes]) -> None:
        """Write and sync the whole file; raises OSError, and leaves no file, if that fails."""
        try:
            self._write(pieces, lambda _written: None)
        except BaseException:
            self._remove()
            raise


class BackgroundWriter(SnapshotWriter, ABC):
    """Writes a snapshot file while clients are served."""

    def __init__(self, path: Path, files: FileOperations, *, incremental_sync: bool) -> None:
        super().__init__(path, files, incremental_sync=incremental_sync)
        # Bytes so far, and the estimated total (0: not known yet).
        self.written = 0
        self.expected = 0
        self.pid = os.getpid()  # the process that writes
        self.fork_microseconds = 0  # how long the fork, or the copy, blocked the server

    @abstractmethod
    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """Take the snapshot and begin to write; raises OSError if that is impossible.

        Args:
            loop: the event loop that later calls ``done``.
            keyspace: the data, which may change as soon as this returns.
            pieces: yields the bytes of the file.
            done: receives the error, or "" when the file is complete and on the disk; not called after ``stop``.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop writing, and return after the last write. The file is removed, and ``done`` is not called."""


class ForkedWriter(BackgroundWriter):
    """Writes a snapshot file in a forked child process."""

    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """Fork a child that writes the file; see ``BackgroundWriter.start``."""
        receiver, sender = os.pipe()
        parent = os.getpid()
        # A signal must not reach the child while it still has the server's handlers.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        started = time.perf_counter_ns()
        try:
            with warnings.catch_warnings():
                # The warning is about threads (Python 3.12+): ours only sync files, and the child uses none.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
        except OSError:
            os.close(receiver)
            os.close(sender)
            raise
        finally:
            if self.pid:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if not self.pid:
            self._child(sender, parent, keyspace, pieces)
        self.fork_microseconds = (time.perf_counter_ns() - started) // 1000
        os.close(sender)
        os.set_blocking(receiver, False)
        self._loop, self._receiver, self._done = loop, receiver, done
        self._unread = b""
        self._last_words = ""
        loop.add_reader(receiver, self._hear)

    def stop(self) -> None:
        """Kill the child; see ``BackgroundWriter.stop``."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._reap()
        self._remove()

    def _child(self, sender: int, parent: int, keyspace: Keyspace, pieces: Pieces) -> NoReturn:
        """Run the child: it uses only the server's data and never returns into the loop."""
        try:
            gc.disable()  # a collection would write to, and so copy, every page it visits
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            import fcntl

            sender = fcntl.fcntl(sender, fcntl.F_DUPFD, 3)  # it may be below 3 if standard streams are closed
            # Clients and ports belong to the parent: a socket kept open here would outlive it.
            os.closerange(3, sender)
            os.closerange(sender + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 16))
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nothing, standard)

            def report(written: int) -> None:
                os.write(sender, b"%d\n" % written)

            os.write(sender, b"expect %d\n" % expected_bytes(keyspace))
            self._write(_while_alive(pieces(keyspace), parent), report)
            os.write(sender, b"unsaid %s\n%s\n" % (self.unsaid_counts.encode(), _FINISHED.encode()))
        except BaseException as error:  # noqa: BLE001 - the parent needs every error
            with contextlib.suppress(BaseException):
                self._remove()
                os.write(sender, b"error %s\n" % (str(error) or repr(error)).encode(errors="replace"))
            os._exit(1)
        os._exit(0)

    def _hear(self) -> None:
        """Read progress, an error or the end of the child from the pipe."""
        try:
            data = os.read(self._receiver, 1 << 16)
        except BlockingIOError:
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if line.isdigit():
                self.written = int(line)
            elif line.startswith(b"expect "):
                self.expected = int(line[7:])
            elif line.startswith(b"unsaid "):
                self.unsaid_counts = line[7:].decode()
            else:
                self._last_words = line.decode(errors="replace")
        if data:
            return
        reason = self._reap()
        if self._last_words == _FINISHED:
            self._done("")
            return
        self._remove()
        self._done(reason or self._last_words or "error")

    def _reap(self) -> str:
        """Reap the child; return "signal N" if a signal ended it."""
        self._loop.remove_reader(self._receiver)
        os.close(self._receiver)
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # the host process reaps every child itself
            return ""
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""


class ThreadedWriter(BackgroundWriter):
    """Writes a snapshot file in a thread of this process, from a copy of the data."""

    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """Copy the data, and start a thread that writes the file; see ``BackgroundWriter.start``."""
        started = time.perf_counter_ns()
        snapshot = copy_of(keyspace)
        self.fork_microseconds = (time.perf_counter_ns() - started) // 1000
        self._stopped = threading.Event()

        def report(written: int) -> None:
            self.written = written
            if self._stopped.is_set():
                raise StoppedError

        def life() -> None:
            error = ""
            try:
                self.expected = expected_bytes(snapshot)
                self._write(self._until_stopped(pieces(snapshot)), report)
            except BaseException as failure:  # noqa: BLE001 - the server needs every error
                self._remove()
                error = f"error {failure or failure!r}"
            if not self._stopped.is_set():
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(report_end, error)

        def report_end(error: str) -> None:
            if not self._stopped.is_set():
                done(error)

        self._begin(life)

    def _begin(self, life: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=life, name="rillet-snapshot", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; see ``BackgroundWriter.stop``."""
        self._stopped.set()
        self._end()
        self._remove()

    def _end(self) -> None:
        self._thread.join()

    def _until_stopped(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self._stopped.is_set():
                raise StoppedError
            yield piece


class InlineWriter(ThreadedWriter):
    """Writes a snapshot file while every client waits, then calls ``done`` in a later round of the loop.

    It is for a server in a test's event loop, which allows no threads.
    """

    def _begin(self, life: Callable[[], None]) -> None:
        life()

    def _end(self) -> None:
        pass  # it has ended


def writer_of(server: Server) -> type[ForkedWriter | ThreadedWriter]:
    """Return the class that writes a server's snapshots: by fork, in a thread, or in a test's loop at once."""
    if server.may_fork:
        return ForkedWriter
    return InlineWriter if server.shares_loop else ThreadedWriter


def copy_of(keyspace: Keyspace) -> Keyspace:
    """Return a copy of all data for a writer: keys, values, expiries and function libraries."""
    twin = keyspace.empty_twin()
    twin.libraries.take_over(keyspace.libraries)
    for mine, theirs in zip(twin.databases, keyspace.databases, strict=True):
        mine.entries = entries = theirs.entries.copy()
        for key, value in theirs.entries.items():
            if type(value) is not bytes:
                entries[key] = TYPES[type(value)].copy(value)
        mine.expires = theirs.expires.copy()
        mine.accessed = theirs.accessed.copy()
        mine.frequencies = theirs.frequencies.copy()
    return twin


def expected_bytes(keyspace: Keyspace) -> int:
    """Estimate the bytes of a rewritten file of this data, to show the progress."""
    return 1 + sum(
        TYPES[type(value)].rewritten_bytes(value, key)
        for database in keyspace.databases
        for key, value in database.entries.items()
    )


def _while_alive(pieces: Iterator[bytes], parent: int) -> Iterator[bytes]:
    """Yield the pieces while the server lives: the next server must not find this child at work."""
    for piece in pieces:
        if os.getppid() != parent:
            raise StoppedError
        yield piece
