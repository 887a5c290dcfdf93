"""The dump file: loaded at start, written by SAVE, BGSAVE, save points and at the end.

A snapshot is written to a temporary file that a rename puts in place, so the dump file is always complete.
``background_writer`` writes the snapshot of BGSAVE, from the data at the moment when BGSAVE began.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...protocol.errors import ReplyError
from ...storage.folder_lock import FolderInUseError
from ...storage.keyspace.database import Database
from ...storage.loading import RdbError, RdbInfo
from .folder import remove_orphans
from .key_delays import delay_for, delayed
from .threads import begin_in_thread

if TYPE_CHECKING:
    from ...storage.keyspace.keyspace import Keyspace
    from ...storage.rdb import ByteSource, Unsaid
    from ..server import Server
    from .background_writer import BackgroundWriter

MISCONF: Final = (
    b"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that "
    b"may modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
    b"snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
    b"error."
)
_RETRY_AFTER: Final = 5  # seconds after a failure
_NO_FIELDS: Final[Mapping[bytes, bytes]] = {}
LOAD_SLICE: Final = 0.02  # seconds of loading before clients get a turn


class UnsaidLog:
    """Logs which parts of the data have no place in the RDB version of a file, so that other servers lose them.

    It remembers the last line for each version, because a server may write a file every minute.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._logged: dict[int, str] = {}

    def note(self, version: int, counts: str) -> None:
        """Log what a file's RDB version could not express, unless that is nothing or the same as last time."""
        if counts == self._logged.get(version, ""):
            return
        self._logged[version] = counts
        if counts:
            self._server.log.warning(
                f"RDB version {version} has no place for {counts}. Rillet reads them back from the file, other "
                "servers leave them out: see rdb-version and repl-rdb-version."
            )


class Snapshots:
    """Loads and saves the dump file of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._writer: BackgroundWriter | None = None
        self._installing: Future[None] | None = None
        self._target = Path()
        self._written_to: set[Path] = set()
        self._changes = 0  # number of changes that the running save contains
        self._started = 0  # ms
        self._count = 0
        self._forget_saves()
        for name in ("save", "stop-writes-on-bgsave-error"):
            server.config.on_change(name, self._update_refusal)

    def _forget_saves(self) -> None:
        self.last_ok = True  # False if the last background save failed, or failed to begin
        self.consecutive_failures = 0
        self.last_seconds = -1  # duration of the last background save, -1 before the first
        self.saves = 0  # number of SAVEs, and of background saves that began (INFO rdb_saves)
        self.scheduled = False  # a background save begins as soon as possible
        # Number of forks, and how long the last one (or the copy in its place) took.
        self.forks = 0
        self.fork_microseconds = 0
        self.info = RdbInfo()  # statistics of the last load
        self.unsaid_log = UnsaidLog(self.server)  # shared by everything that writes RDB files
        self._last_try = 0

    @property
    def in_progress(self) -> bool:
        """Whether a background save is running."""
        return self._writer is not None or self._installing is not None

    @property
    def current_seconds(self) -> int:
        """Duration of the running save so far, -1 without one."""
        return (self.server.clock.now - self._started) // 1000 if self.in_progress else -1

    @property
    def percent(self) -> float:
        """Estimated progress of the running save, from 0 to 99.99; 0 without one."""
        writer = self._writer
        return min(writer.written * 100 / writer.expected, 99.99) if writer and writer.expected else 0.0

    def remove_orphans(self) -> None:
        """Remove the temporary dump files that killed servers have left in ``dir``."""
        server = self.server
        for name in remove_orphans(Path(server.config.dir), owns_process=server.handles_signals):
            server.log.notice(f"Removed {name}, which a server that is gone had not finished")

    # Load

    async def load(self) -> None:
        """Load the dump file, if there is one; clients get LOADING meanwhile, as in ``Persistence.load``.

        Raises:
            RdbError: it cannot be loaded; the text says why.
            OSError: it cannot be read.
        """
        path = self._path
        files = self.server.persistence.files
        if not self.server.config.dbfilename:
            return
        try:
            fd = files.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0), 0)
        except FileNotFoundError:
            return
        from ...storage.rdb import ByteSource

        server, loop = self.server, self.server.loop
        persistence = server.persistence
        started = loop.time()
        dropped = None
        if server.config.replicaof is None:
            server.replication.open_backlog()
            dropped = server.replication.note_dropped
        try:
            source = ByteSource(lambda count: files.read(fd, count))
            persistence.begin_loading(path.stat().st_size)
            load = self._read(source, on_dropped=dropped)
            is_whole = await load_in_steps(server, load, source, self.info)
        finally:
            files.close(fd)
        if not is_whole:
            return
        persistence.end_loading()
        server.replication.take_up(self.info)
        empty = f", empty keys skipped: {self.info.empty}" if self.info.empty else ""
        server.log.notice(
            f"Done loading RDB, keys loaded: {self.info.keys}, keys expired: {self.info.expired}{empty}."
        )
        server.log.notice(f"DB loaded from disk: {loop.time() - started:.3f} seconds")

    def reload(self, *, save: bool = True, flush: bool = True, merge: bool = False) -> None:
        """DEBUG RELOAD: write the dump file, drop the data and load the file, while every client waits.

        Raises ReplyError: the file cannot be written or loaded; if it is missing, the data stays.

        Args:
            save: False loads the file that is already on the disk.
            flush: False keeps the data.
            merge: a key of the file replaces an existing one; False: such a key is an error.
        """
        from ...storage.rdb import ByteSource

        if save:
            self.save()
        server = self.server
        path = self._path
        # Read before the data is dropped: a missing file must not cost the data.
        try:
            source = ByteSource.of(path.read_bytes())
        except OSError as error:
            server.log.warning(f"Can't open {path.name} for reading: {error.strerror}")
            raise ReplyError(b"ERR Error trying to load the RDB dump, check server logs.") from error
        if flush:
            server.keyspace.drop_everything()
        # These are effects of earlier commands of a transaction: the append-only file and the replicas must get them.
        effects = server.propagation.set_aside()
        server.persistence.begin_loading(0)
        dropped: list[tuple[Database, bytes]] = []
        try:
            for _ in self._read(
                source, allow_duplicates=merge, on_dropped=lambda db, key: dropped.append((db, key))
            ):
                pass
        except RdbError as error:
            server.log.warning(f"Error loading {path.name}: {error}")
            raise ReplyError(b"ERR Error trying to load the RDB dump, check server logs.") from error
        finally:
            server.persistence.end_loading()
            server.propagation.take_back(effects)
            # The append-only file and the replicas still have these keys: later writes must not meet them there.
            for db, key in dropped:
                if key not in db.entries:
                    server.active_expiry.propagate_key(db, key)

    def _read(self, source: ByteSource, **more: Any) -> Iterator[None]:
        from ...storage.rdb import is_rdb

        server = self.server
        self.info = RdbInfo()
        if not is_rdb(source):
            raise RdbError("Wrong signature trying to load DB from file")
        leads = server.config.replicaof is None
        return read_file(server, source, server.keyspace, self.info, drop_expired=leads, **more)

    # Save

    def save(self) -> None:
        """SAVE: write the file while every client waits.

        Raises ReplyError: it could not be written; the log says why.
        """
        from .background_writer import ForegroundWriter

        server = self.server
        self.check_folder()
        writer = ForegroundWriter(
            self._temporary,
            server.persistence.files,
            incremental_sync=server.config.rdb_save_incremental_fsync,
        )
        try:
            history = server.replication.fields()
            writer.write(rdb_pieces(server, server.keyspace, unsaid=writer.unsaid, history=history))
            self._install(writer.path, self._path)
        except OSError as error:
            server.log.warning(f"Error saving DB on disk: {error}")
            raise ReplyError(b"ERR") from error
        server.log.notice("DB saved on disk")
        self.unsaid_log.note(server.rdb_version, writer.unsaid_counts)
        self._note_end(ok=True)
        server.keyspace.dirty = 0

    def start(self) -> bool:
        """BGSAVE: begin to write the file; return False if that is impossible (the log says why)."""
        from .background_writer import writer_of

        server = self.server
        self.saves += 1
        try:
            self.check_folder()
        except ReplyError:
            self._last_try = server.clock.tick()
            self._note_end(ok=False)
            return False
        may_fork = server.may_fork
        kind = writer_of(server)
        self._last_try = self._started = server.clock.tick()
        writer = kind(
            self._temporary,
            server.persistence.files,
            incremental_sync=server.config.rdb_save_incremental_fsync,
        )
        self._target = self._path
        self._changes = server.keyspace.dirty
        try:
            history = server.replication.fields()  # now: a thread may write later
            pieces = partial(self._pieces, writer.unsaid, history)
            writer.start(server.loop, server.keyspace, pieces, self._written)
        except OSError as error:
            server.log.warning(f"Can't save in background: fork: {error.strerror}")
            self._note_end(ok=False)
            return False
        self._writer = writer
        self.scheduled = False
        self.forks += may_fork
        self.fork_microseconds = writer.fork_microseconds
        server.log.notice(f"Background saving started by pid {writer.pid}")
        return True

    def _pieces(self, unsaid: Unsaid, history: Mapping[bytes, bytes], keyspace: Keyspace) -> Iterator[bytes]:
        """Yield the content of the file; runs in the child process or thread."""
        pieces = rdb_pieces(self.server, keyspace, unsaid=unsaid, history=history)
        return delayed(self.server, keyspace, pieces)

    def check_folder(self) -> None:
        """Lock ``dir`` for this server. Raises ReplyError: another server holds the lock; the log says so, too."""
        try:
            self.server.folder.take()
        except FolderInUseError as error:
            self.server.log.warning(f"Error saving DB on disk: {error}")
            raise ReplyError(b"ERR " + os.fsencode(str(error))) from None

    def cancel(self) -> None:
        """Kill the running background save, if any; it leaves no file."""
        self.scheduled = False
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self.server.log.warning(f"There is a child saving an .rdb. Killing it: {writer.pid}")
            writer.stop()

    def stop(self) -> None:
        """Kill the running background save, if any; a file that is complete already replaces the dump file."""
        self.cancel()
        if self._installing is not None:
            installing = self._installing
            installing.exception()  # waits, for a rename and an fsync
            self._installed(installing)

    def reset(self) -> None:
        """DEBUG RESET: stop a running save, forget the earlier ones and remove the files that they wrote."""
        self.stop()
        self._forget_saves()
        self._update_refusal()
        self.server.last_save = self.server.clock.now // 1000
        while self._written_to:
            with contextlib.suppress(OSError):  # somebody else removed it
                self.server.persistence.files.unlink(self._written_to.pop())

    def save_at_end(self, *, wanted: bool | None, force: bool = False) -> bool:
        """Save a last snapshot before the server ends, if one is wanted.

        Return False if the server must keep running because the snapshot could not be written.

        Args:
            wanted: True or False; None: only if there are save points.
            force: end even if the snapshot cannot be written.
        """
        if not (bool(self.server.config.save) if wanted is None else wanted):
            return True
        self.cancel()
        self.server.log.notice("Saving the final RDB snapshot before exiting.")
        try:
            self.save()
        except ReplyError:
            if force:
                self.server.log.warning("Error trying to save the DB. Exit anyway.")
                return True
            self.server.log.warning("Error trying to save the DB, can't exit.")
            return False
        return True

    def after_flushall(self) -> None:
        """Save now if save points are set, so that no restart restores what FLUSHALL deleted; a failure is logged."""
        if self.server.loading:
            return
        self.cancel()
        if self.server.config.save:
            # A failure is in the log, and writes are refused from here on.
            with contextlib.suppress(ReplyError):
                self.save()

    def cron(self) -> None:
        """Begin a save that is scheduled, or due by a save point; called ten times a second."""
        if self.in_progress or self.server.persistence.rewrite.in_progress or self.server.loading:
            return
        server = self.server
        now = server.clock.now
        if not self.last_ok and now - self._last_try <= _RETRY_AFTER * 1000:
            return
        if self.scheduled:
            self.start()
            return
        dirty, age = server.keyspace.dirty, now // 1000 - server.last_save
        for seconds, changes in server.config.save:
            if dirty >= changes and age > seconds:
                server.log.notice(f"{changes} changes in {seconds} seconds. Saving...")
                self.start()
                return

    # In detail

    @property
    def _path(self) -> Path:
        config = self.server.config
        return Path(config.dir) / config.dbfilename

    @property
    def _temporary(self) -> Path:
        """A new path for every save: several servers may share a folder and a process."""
        self._count += 1
        server = self.server
        return Path(server.config.dir) / f"temp-{os.getpid()}-{server.run_id[:8]}-{self._count}.rdb"

    def _install(self, temporary: Path, target: Path) -> None:
        files = self.server.persistence.files
        try:
            files.rename(temporary, target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._written_to.add(target)
        files.sync_folder(target.parent)

    def _written(self, error: str) -> None:
        """Install the file that the background writer has completed, or record its failure."""
        writer, self._writer = self._writer, None
        assert writer is not None
        server = self.server
        if error:
            how = f"by {error}" if error.startswith("signal") else f"with {error}"
            server.log.warning(f"Background saving terminated {how}")
            self._end_background(ok=False)
            return
        self.unsaid_log.note(server.rdb_version, writer.unsaid_counts)
        # A rename and an fsync must not block the loop.
        self._installing = begin_in_thread(server, partial(self._install, writer.path, self._target))
        self._installing.add_done_callback(self._report_installation)

    def _report_installation(self, done: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and ``stop`` took the result
            self.server.loop.call_soon_threadsafe(self._installed, done)

    def _installed(self, done: Future[None]) -> None:
        if self._installing is not done:
            return  # ``stop`` has finished it without waiting for the loop
        self._installing = None
        error = done.exception()
        if error is not None:
            self.server.log.warning(f"Background saving terminated with error {error}")
            self._end_background(ok=False)
            return
        self.server.log.notice("Background saving terminated with success")
        self.server.keyspace.dirty -= self._changes
        self._end_background(ok=True)

    def _end_background(self, *, ok: bool) -> None:
        self.last_seconds = (self.server.clock.tick() - self._started) // 1000
        self._note_end(ok=ok, at=self._started if ok else None)

    def _note_end(self, *, ok: bool, at: int | None = None) -> None:
        self.last_ok = ok
        self.consecutive_failures = 0 if ok else self.consecutive_failures + 1
        if ok:
            self.server.last_save = (self.server.clock.tick() if at is None else at) // 1000
        self._update_refusal()

    def _update_refusal(self) -> None:
        """Refuse writes while the data cannot be saved, if so configured."""
        server = self.server
        refuses = not self.last_ok and server.config.save and server.config.stop_writes_on_bgsave_error
        server.snapshot_error = MISCONF if refuses else None
        server.update_checks()


def read_file(
    server: Server, source: ByteSource, keyspace: Keyspace, info: RdbInfo, **more: Any
) -> Iterator[None]:
    """Load an RDB file into a keyspace with the configured options; each step of the iterator loads a part.

    ``more`` are further arguments of ``load_rdb``.
    """
    from ...storage.rdb import load_rdb

    return load_rdb(
        source,
        keyspace,
        skip_unknown=server.config.rdb_skip_unknown_types,
        sanitize=server.config.sanitize_dump_payload == "yes",
        log=server.log.warning,
        info=info,
        **more,
    )


async def load_in_steps(server: Server, load: Iterator[None], source: ByteSource, info: RdbInfo) -> bool:
    """Run the steps of ``load`` and serve clients in between; return False if the server stops before the end.

    Args:
        load: loads a part of the file at each step.
        source: its position is the progress.
        info: counts the loaded keys, for key-load-delay.
    """
    persistence, loop = server.persistence, server.loop
    until, delayed = loop.time() + LOAD_SLICE, 0
    for _ in load:
        persistence.loaded_bytes = source.position
        if server.config.key_load_delay:
            await delay_for(server, info.keys - delayed)
            delayed = info.keys
        if loop.time() > until:
            await asyncio.sleep(0)
            if server.stopping:
                return False
            until = loop.time() + LOAD_SLICE
    await delay_for(server, info.keys - delayed)
    return True


def rdb_pieces(
    server: Server,
    keyspace: Keyspace,
    *,
    aof_base: bool = False,
    unsaid: Unsaid | None = None,
    history: Mapping[bytes, bytes] = _NO_FIELDS,
) -> Iterator[bytes]:
    """Yield an RDB file with the server's version and options: a dump file or the base of an AOF.

    Args:
        aof_base: the file begins an AOF.
        unsaid: counts the data that the file's RDB version has no place for.
        history: the fields that record the data's position in the replication stream.
    """
    from ...storage.rdb import rdb_chunks

    return rdb_chunks(
        keyspace,
        version=server.rdb_version,
        aux={b"redis-ver": server.version.encode(), **history},
        aof_base=aof_base,
        checksum=server.config.rdbchecksum,
        compress=server.config.rdbcompression,
        unsaid=unsaid,
    )
