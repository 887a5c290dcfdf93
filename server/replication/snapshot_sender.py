"""Send one snapshot to the replicas that waited for it.

``server/persistence/background_writer`` creates the snapshot (in a forked child, or a thread with a copy) while the
server keeps running. *Diskless*: the writer writes into a pipe, and its output is sent to all replicas at once,
no faster than the slowest reads; it ends with a random mark, which data cannot contain by chance. *With a file*: the snapshot
is written to a file, which is sent to each replica after its length, and then removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...commands.runtime.state import CLOSING
from ...storage.files import FileOperations
from ..persistence.background_writer import BackgroundWriter, writer_of
from .replica import Replica
from .replicas import Replicas

_CHUNK: Final = 1 << 18
_GIVEN_UP: Final = "The snapshot is given up: no replica is left that wants it"


def _nothing(_fd: int) -> None:
    """Replace fsync for a pipe, where there is no disk to sync."""


class SnapshotSender:
    """A snapshot that is being created and sent to replicas."""

    def __init__(self, replicas: Replicas, recipients: list[Replica]) -> None:
        self.replicas = replicas
        self.server = replicas.server
        self.recipients = recipients
        self.is_preparing = True  # nothing of it has been sent; empty lines keep the replicas alive
        self.rdb_version = recipients[0].rdb_version  # the version of its format, which all recipients read
        self.diskless = (
            (self.server.config.repl_diskless_sync or recipients[0].is_filtered)
            and hasattr(os, "mkfifo")
            and all(each.reads_eof for each in recipients)
        )
        self._path = Path(self.server.config.dir) / f"temp-repl-{os.getpid()}-{os.urandom(4).hex()}.rdb"
        self._writer: BackgroundWriter | None = None
        self._pipe = -1
        self._written: asyncio.Future[str] = self.server.loop.create_future()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take the snapshot now, and send it in a task; a failure is logged, and the replicas are disconnected."""
        target = "replicas sockets" if self.diskless else "disk"
        self.server.log.notice(f"Starting snapshot for SYNC with target: {target}")
        try:
            if self.diskless:
                self._open_pipe()
            self._start_writer()
        except OSError as error:
            self.server.log.warning(f"Can't take a snapshot for the replicas: {error}")
            self._end()
            self._fail()
            return
        self._task = self.server.loop.create_task(self._run())

    def _open_pipe(self) -> None:
        """Create a pipe that the writer can open by name, because it closes inherited descriptors."""
        try:
            os.mkfifo(self._path, 0o600)
        except OSError:
            # The folder is read-only or full, or its name is too long; replicas can be served nevertheless.
            import tempfile

            self._path = Path(tempfile.gettempdir()) / self._path.name
            os.mkfifo(self._path, 0o600)
        self._pipe = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)

    def _start_writer(self) -> None:
        server = self.server
        files = (
            FileOperations(fsync=_nothing, fdatasync=_nothing) if self.diskless else server.persistence.files
        )
        writer = writer_of(server)(self._path, files, incremental_sync=False)
        writer.start(
            server.loop,
            server.keyspace,
            self.replicas.replication.snapshot_pieces(self.recipients[0], writer.unsaid),
            self._note_written,
        )
        self._writer = writer
        took = writer.fork_microseconds / 1000
        server.log.notice(
            f"Snapshot for SYNC started by pid {writer.pid}, the server stood still for {took:.1f} ms"
        )

    def _note_written(self, error: str) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and not error:
            self.server.snapshots.unsaid_log.note(self.rdb_version, writer.unsaid_counts)
        if not self._written.done():
            self._written.set_result(error)

    async def _run(self) -> None:
        try:
            if self.diskless:
                await self._send_from_pipe()
            else:
                await self._send_file()
        except OSError as error:
            self.server.log.warning(f"The snapshot for the replicas failed: {error}")
            self._fail()
        else:
            self.replicas.transfer_is_over()
        finally:
            self._end()

    @property
    def _present(self) -> list[Replica]:
        return [each for each in self.recipients if each.connection.state is not CLOSING]

    async def _is_written(self) -> None:
        error = await self._written
        if error:
            raise OSError(error)

    async def _send_from_pipe(self) -> None:
        mark = os.urandom(20).hex().encode()
        await self._readable()  # until the writer opens it, a pipe reads as if at its end
        while chunk := await self._read_pipe():
            if self.is_preparing:
                self.is_preparing = False
                self._to_all(b"$EOF:%b\r\n" % mark)
            self._to_all(chunk)
            for replica in self._present:
                await replica.drain()
            if not self._present:
                self.server.log.warning(_GIVEN_UP)
                return
        await self._is_written()
        self._to_all(mark)
        for replica in self._present:
            self.replicas.put_online(replica, wait_for_ack=True)

    async def _read_pipe(self) -> bytes:
        while True:
            try:
                return os.read(self._pipe, _CHUNK)
            except BlockingIOError:
                await self._readable()

    async def _readable(self) -> None:
        ready = asyncio.Event()
        pipe = self._pipe
        self.server.loop.add_reader(pipe, ready.set)
        try:
            await ready.wait()
        finally:
            if pipe == self._pipe:  # not closed yet
                self.server.loop.remove_reader(pipe)

    async def _send_file(self) -> None:
        await self._is_written()
        self.is_preparing = False
        await asyncio.gather(*(self._send_file_to(each) for each in self._present))

    async def _send_file_to(self, replica: Replica) -> None:
        connection = replica.connection
        with self._path.open("rb") as file:
            connection.write(b"$%d\r\n" % os.fstat(file.fileno()).st_size)
            while chunk := file.read(_CHUNK):
                if connection.state is CLOSING:
                    return
                connection.write(chunk)
                await replica.drain()
        if connection.state is not CLOSING:
            self.replicas.put_online(replica, wait_for_ack=False)

    def _to_all(self, data: bytes) -> None:
        for replica in self._present:
            replica.connection.write(data)

    def _fail(self) -> None:
        for replica in self._present:
            self.replicas.disconnect(replica)
        self.replicas.transfer_is_over()

    def _end(self) -> None:
        """Stop the writer if it still writes, and remove the pipe or the file."""
        writer, self._writer = self._writer, None
        pipe, self._pipe = self._pipe, -1
        if writer is not None:
            with _drained(pipe):
                writer.stop()
        if pipe >= 0:
            # Here, not in the task: a task that ``abort`` cancels runs later, when a new client may already have this file
            # descriptor. The loop would still watch that for this reader, and the client would never be read.
            self.server.loop.remove_reader(pipe)
            os.close(pipe)
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def note_lost(self) -> None:
        """Give up after the last recipient has left, so that the next PSYNC need not wait for the end of the writer."""
        if self._task is None or any(each.connection in self.replicas.connected for each in self.recipients):
            return
        self.server.log.warning(_GIVEN_UP)
        self._task.cancel()
        self._end()
        self.replicas.transfer_is_over()

    def abort(self) -> None:
        """Stop writing and sending the snapshot, because the server stops."""
        if self._writer is not None:
            self.server.log.warning(f"There is a child saving an .rdb. Killing it: {self._writer.pid}")
        if self._task is not None:
            self._task.cancel()
        self._end()


@contextlib.contextmanager
def _drained(pipe: int) -> Iterator[None]:
    """Discard the rest of a pipe's data: a thread that writes into the pipe could not be stopped otherwise."""
    if pipe < 0:
        yield
        return
    done = threading.Event()

    def drain() -> None:
        while not done.is_set():
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = os.read(pipe, _CHUNK)
            if not data:
                done.wait(0.001)

    thread = threading.Thread(target=drain, name="rillet-drain", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
