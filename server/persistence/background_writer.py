"""Writing a snapshot of the data to a file while the server goes on.

A server that owns its process forks: the child has the data as it was at that moment, writes it and ends. Forking
is not safe in somebody else's process, whose other threads may hold locks that the child would wait for, and is not
there on Windows: such a server copies its data at once (entries are shared, pending entries are not) and writes the
copy in a thread.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from ...storage.collections.base import Collection
from ...storage.files import BINARY
from ...storage.keyspace.keyspace import Keyspace

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from ...storage.files import FileOperations

Pieces: TypeAlias = Callable[[Keyspace], Iterator[bytes]]
Done: TypeAlias = Callable[[str], None]

_SYNC_EVERY: Final = 4 << 20  # bytes; a disk that gets all at the end makes everybody wait
_REPORT_EVERY: Final = 1 << 20
_FINISHED: Final = "finished"


class StoppedError(Exception):
    """Nobody wants the file any more."""


class BackgroundWriter:
    """One file being written.

    Attributes:
        path: the file; removed where writing it fails or is stopped.
        written, expected: bytes so far, and in all as far as that can be told (0: not yet).
        pid: the process that writes.
        fork_microseconds: how long the fork, or the copy, held the server up.
    """

    def __init__(self, path: Path, files: FileOperations, *, incremental_sync: bool) -> None:
        self.path = path
        self.written = 0
        self.expected = 0
        self.pid = os.getpid()
        self.fork_microseconds = 0
        self._files = files
        self._sync_every = _SYNC_EVERY if incremental_sync else 1 << 62

    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """Take the snapshot and begin to write; OSError where that is impossible.

        Args:
            loop: where ``done`` is called, some time later.
            keyspace: the data, which may change as soon as this returns.
            pieces: gives the bytes of the file.
            done: told why it failed, or "" where the file is complete and on the disk; not called after ``stop``.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Give up, and return once nothing is written any more."""
        raise NotImplementedError

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
        finally:
            files.close(fd)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._files.unlink(self.path)


class ForkedWriter(BackgroundWriter):
    """Writes in a child process."""

    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """See ``BackgroundWriter.start``."""
        receiver, sender = os.pipe()
        parent = os.getpid()
        # A signal must not reach the child before it has let go of our handlers.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        started = time.perf_counter_ns()
        try:
            with warnings.catch_warnings():
                # Of threads, from Python 3.12 on: ours only sync files, and the child uses nothing of theirs.
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
        """See ``BackgroundWriter.stop``."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._bury()
        self._remove()

    def _child(self, sender: int, parent: int, keyspace: Keyspace, pieces: Pieces) -> NoReturn:
        """The life of the child: nothing of the server's but the data, and never back into its loop."""
        try:
            gc.disable()  # the collector would copy every page it looks at
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            import fcntl

            sender = fcntl.fcntl(sender, fcntl.F_DUPFD, 3)  # where standard streams are closed it may be one
            # Clients and ports are the parent's: a socket kept open here would outlive it.
            os.closerange(3, sender)
            os.closerange(sender + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 16))
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nothing, standard)

            def report(written: int) -> None:
                os.write(sender, b"%d\n" % written)

            os.write(sender, b"expect %d\n" % expected_bytes(keyspace))
            self._write(_while_alive(pieces(keyspace), parent), report)
            os.write(sender, b"%s\n" % _FINISHED.encode())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent is to know
            with contextlib.suppress(BaseException):
                self._remove()
                os.write(sender, b"error %s\n" % (str(error) or repr(error)).encode(errors="replace"))
            os._exit(1)
        os._exit(0)

    def _hear(self) -> None:
        """The child said something, or is gone."""
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
            else:
                self._last_words = line.decode(errors="replace")
        if data:
            return
        reason = self._bury()
        if self._last_words == _FINISHED:
            self._done("")
            return
        self._remove()
        self._done(reason or self._last_words or "error")

    def _bury(self) -> str:
        """Take the child's exit status; gives the words for a death by signal."""
        self._loop.remove_reader(self._receiver)
        os.close(self._receiver)
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # somebody waits for every child
            return ""
        return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""


class ThreadedWriter(BackgroundWriter):
    """Writes in a thread of this process."""

    def start(self, loop: asyncio.AbstractEventLoop, keyspace: Keyspace, pieces: Pieces, done: Done) -> None:
        """See ``BackgroundWriter.start``."""
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
            except BaseException as failure:  # noqa: BLE001 - whatever it is, the server is to know
                self._remove()
                error = f"error {failure or failure!r}"
            if not self._stopped.is_set():
                with contextlib.suppress(RuntimeError):  # the loop is gone
                    loop.call_soon_threadsafe(tell, error)

        def tell(error: str) -> None:
            if not self._stopped.is_set():
                done(error)

        self._thread = threading.Thread(target=life, name="rillet-snapshot", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See ``BackgroundWriter.stop``."""
        self._stopped.set()
        self._thread.join()
        self._remove()

    def _until_stopped(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self._stopped.is_set():
                raise StoppedError
            yield piece


def copy_of(keyspace: Keyspace) -> Keyspace:
    """A keyspace that stays as it is, for a writer: keys, values and expiries, no clients' business."""
    twin = Keyspace(len(keyspace.databases))
    twin.now = keyspace.now
    twin.track_usage_as(keyspace)
    twin.idempotency_defaults = keyspace.idempotency_defaults
    twin.libraries.take_over(keyspace.libraries)
    for mine, theirs in zip(twin.databases, keyspace.databases, strict=True):
        mine.entries = {
            key: value if isinstance(value, bytes) else value.copy() for key, value in theirs.entries.items()
        }
        mine.expires = theirs.expires.copy()
        mine.accessed = theirs.accessed.copy()
        mine.frequencies = theirs.frequencies.copy()
    return twin


def expected_bytes(keyspace: Keyspace) -> int:
    """About how long a file will be, for telling how far it is."""
    total = 1
    for database in keyspace.databases:
        for key, value in database.entries.items():
            if isinstance(value, bytes):
                total += len(key) + len(value) + 40
                continue
            if isinstance(value, Collection):
                total += value.payload_bytes + len(value) * 10
                continue
            total += value.payload_bytes + value.length * (len(key) + 10)
            total += sum(
                group.weight[1] * (len(key) + len(name) + 130) for name, group in value.groups.items()
            )
    return total


def _while_alive(pieces: Iterator[bytes], parent: int) -> Iterator[bytes]:
    """Stop where the server is gone: the next one must not find us at work."""
    for piece in pieces:
        if os.getppid() != parent:
            raise StoppedError
        yield piece
