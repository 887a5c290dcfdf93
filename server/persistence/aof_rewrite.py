"""BGREWRITEAOF: write the data as a new base file and remove the records before it.

A rewrite begins a new incr file, takes a snapshot at that same moment and lets ``background_writer`` write it. The new
incr file holds the changes made while it is written. One atomic change of the manifest replaces all older files by
the complete snapshot. Until then, and if anything fails, the older files and the new incr file hold everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...storage.files import FileOperations
from ...storage.folder_lock import FolderInUseError
from ...storage.keyspace.keyspace import Keyspace
from ...storage.loading import AofError
from .key_delays import delayed
from .rdb import rdb_pieces
from .threads import begin_in_thread

if TYPE_CHECKING:
    from ...storage.aof.writer import AppendOnlyFile
    from ...storage.rdb import Unsaid
    from .aof import Persistence
    from .background_writer import BackgroundWriter

_RDB_SHARE: Final = 0.3  # approximate length of an RDB file, relative to the same data as commands
_SYNC_AT_ONCE: Final = 64 << 10  # bytes; more than that is synced in a thread before a rewrite begins
_FAILURES_AT_ONCE: Final = 3  # after these, automatic rewrites wait 1, 2, 4 … minutes
_LONGEST_WAIT: Final = 60  # minutes
_LOG_EVERY: Final = 5  # seconds
_HISTORY_EVERY: Final = 60  # seconds between two removals of history files


class AofRewrite:
    """The rewrites of one server, one at a time."""

    def __init__(self, persistence: Persistence) -> None:
        self.persistence = persistence
        self.server = persistence.server
        # Returns the file operations that write a new base; DEBUG FAULT replaces it.
        self.files_of_base: Callable[[], FileOperations] = lambda: persistence.files
        self.scheduled = False  # a rewrite begins as soon as possible
        self.count = 0  # number of rewrites begun (INFO aof_rewrites)
        self.last_ok = True  # False if the last one failed, or failed to begin
        self.last_seconds = -1  # duration of the last one, -1 before the first
        self.consecutive_failures = 0  # number of failures since the last success
        self.fork_microseconds = 0  # how long the last fork blocked the server
        self.forks = 0
        self.writer: BackgroundWriter | None = None
        self._aof: AppendOnlyFile | None = None  # the file of the running rewrite
        self._rdb = False
        self._preparing: asyncio.Task[None] | None = None
        self._installing: Future[None] | None = None
        self._started = 0.0
        self._logged_at = 0.0
        self._wait_minutes = 0
        self._not_before = 0.0
        self._history_at = 0.0  # when history files were last removed
        self._cleaning: Future[None] | None = None

    @property
    def in_progress(self) -> bool:
        """Whether an AOF rewrite is running."""
        return self.writer is not None or self._preparing is not None or self._installing is not None

    @property
    def current_seconds(self) -> int:
        """Duration of the running rewrite so far, -1 without one."""
        return int(self.server.loop.time() - self._started) if self.in_progress else -1

    @property
    def percent(self) -> float:
        """Estimated progress of the running rewrite, from 0 to 99.99; 0 without one."""
        writer = self.writer
        if writer is None or not writer.expected:
            return 0.0
        expected = writer.expected * (_RDB_SHARE if self._rdb else 1)
        return min(writer.written * 100 / expected, 99.99)

    # Begin

    def start(self) -> bool:
        """Begin a rewrite; return False if one is running or that is impossible (the log says why).

        If much of the old file is not synced, a thread syncs that first.
        """
        if self.in_progress:
            return False
        self._finish_cleaning()
        persistence = self.persistence
        self._aof = aof = persistence.aof
        self._started = self._logged_at = self.server.loop.time()
        if aof is not None and (persistence.is_syncing or aof.unsynced > _SYNC_AT_ONCE):
            # No client should wait while the old file is synced.
            self._preparing = asyncio.ensure_future(self._prepare(aof), loop=self.server.loop)
            return True
        return self._begin()

    async def _prepare(self, aof: AppendOnlyFile) -> None:
        try:
            await self.persistence.sync_written(aof)
        except OSError as error:
            self.server.log.warning(f"Error syncing the AOF file before its rewrite: {error}")
            self._failed()
            return
        finally:
            if self._preparing is asyncio.current_task():  # not one that began when this was cancelled
                self._preparing = None
        if self.persistence.aof is aof:
            self._begin()

    def _begin(self) -> bool:
        config, log = self.server.config, self.server.log
        self._rdb = config.aof_use_rdb_preamble
        try:
            self.server.folder.take()
            path = self.new_path()
            if self._aof is not None:
                self._aof = self.persistence.begin_incr()
            writer = self._new_writer(path)
            pieces = partial(self._pieces, unsaid=writer.unsaid)
            writer.start(self.server.loop, self.server.keyspace, pieces, self._written)
        except (OSError, AofError, FolderInUseError) as error:
            log.warning(f"Can't rewrite append only file in background: {error}")
            self._failed()
            return False
        self.writer = writer
        self.scheduled = False
        self.count += 1
        self.forks += self.server.may_fork
        self.fork_microseconds = writer.fork_microseconds
        log.notice(f"Background append only file rewriting started by pid {writer.pid}")
        return True

    def new_path(self) -> Path:
        """Return the path of the temporary file of the next rewrite, and create its folder."""
        from ...storage.aof.manifest import make_folder
        from ...storage.aof.writer import TEMPORARY_BASE

        config = self.server.config
        folder = Path(config.dir) / config.appenddirname
        make_folder(folder, self.persistence.files)
        return folder / f"{TEMPORARY_BASE}{os.getpid()}-{self.count + 1}.aof"

    def _new_writer(self, path: Path) -> BackgroundWriter:
        from .background_writer import writer_of

        kind = writer_of(self.server)
        incremental = self.server.config.aof_rewrite_incremental_fsync
        return kind(path, self.files_of_base(), incremental_sync=incremental)

    def _pieces(self, keyspace: Keyspace, unsaid: Unsaid) -> Iterator[bytes]:
        """Yield the content of the new base; runs in the child process or thread."""
        config = self.server.config
        if self._rdb:
            pieces = rdb_pieces(self.server, keyspace, aof_base=True, unsaid=unsaid)
        else:
            if config.aof_timestamp_enabled:
                yield b"#TS:%d\r\n" % (keyspace.now // 1000)
            if config.aof_timestamp_enabled == "ms":
                yield b"#MS:%d\r\n" % keyspace.now
            from ...storage.aof.rewrite import rewrite_commands

            pieces = rewrite_commands(keyspace)
        yield from delayed(self.server, keyspace, pieces)

    # End

    def _written(self, error: str) -> None:
        """Install the snapshot that is now on disk, or record that writing it failed."""
        writer, self.writer = self.writer, None
        assert writer is not None
        log = self.server.log
        if error:
            how = f"by {error}" if error.startswith("signal") else f"with {error}"
            log.warning(f"Background AOF rewrite terminated {how}")
            self._failed()
            return
        log.notice("Background AOF rewrite terminated with success")
        self.server.snapshots.unsaid_log.note(self.server.rdb_version, writer.unsaid_counts)
        if self._aof is not None and self._aof.is_detached:
            # The records move together with the base: a write between the two would have no file.
            self._installing = Future()
            try:
                self._install(writer.path)
            except BaseException as failure:  # noqa: BLE001 - _installed logs it
                self._installing.set_exception(failure)
            else:
                self._installing.set_result(None)
            self._installed(self._installing)
            self.server.replication.note_first_base()
            return
        # Two fsyncs and the removal of big files must not block the loop.
        self._installing = begin_in_thread(self.server, partial(self._install, writer.path))
        self._installing.add_done_callback(self._report_installation)

    def _report_installation(self, done: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and ``cancel`` took the result
            self.server.loop.call_soon_threadsafe(self._installed, done)

    def _install(self, path: Path) -> None:
        config, files = self.server.config, self.persistence.files
        aof = self._aof
        if aof is not None:
            aof.install_base(path, rdb=self._rdb)
            aof.remove_history()
            return
        from ...storage.aof.writer import install_base_alone

        install_base_alone(
            config.dir,
            config.appenddirname,
            config.appendfilename,
            path,
            rdb=self._rdb,
            files=files,
            log=self.server.log.notice,
            outdated=self.persistence.outdated_history,
        )

    def _installed(self, done: Future[None]) -> None:
        """Finish the rewrite after the manifest was changed, or the change failed."""
        if self._installing is not done:
            return  # ``cancel`` has finished it without waiting for the loop
        self._installing = None
        error = done.exception()
        if error is not None:
            self.server.log.warning(f"Background AOF rewrite could not be put in place: {error}")
            self._failed()
            return
        self.last_ok = True
        self.consecutive_failures = self._wait_minutes = 0
        self._note_time()
        self.server.log.notice("Background AOF rewrite finished successfully")

    def _failed(self) -> None:
        self.last_ok = False
        self.consecutive_failures += 1
        self._note_time()
        if self._aof is not None and self._aof.is_detached and self.persistence.aof is self._aof:
            self.scheduled = True  # appendonly yes still waits for its first base
        if self.consecutive_failures < _FAILURES_AT_ONCE:
            return
        self._wait_minutes = min(max(self._wait_minutes * 2, 1), _LONGEST_WAIT)
        self._not_before = self.server.loop.time() + self._wait_minutes * 60
        self.server.log.warning(
            "Background AOF rewrite has repeatedly failed and triggered the limit, "
            f"will retry in {self._wait_minutes} minutes"
        )

    def _note_time(self) -> None:
        self.last_seconds = int(self.server.loop.time() - self._started)

    def cancel(self) -> None:
        """Stop the running AOF rewrite: for SHUTDOWN, and when the AOF is switched off."""
        self.scheduled = False
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        self.wait_for_files()
        if self.writer is not None:
            self.server.log.warning(f"There is a child rewriting the AOF. Killing it: {self.writer.pid}")
            writer, self.writer = self.writer, None
            writer.stop()
            self._note_time()

    def wait_for_files(self) -> None:
        """Wait for the threads that install a rewritten file or delete old ones; a running rewrite continues to write."""
        self._finish_cleaning()
        if self._installing is not None:
            installing = self._installing
            installing.exception()  # waits, for two fsyncs at most
            self._installed(installing)

    def reset(self) -> None:
        """Stop the running rewrite, and forget the earlier ones."""
        self.cancel()
        self._aof = None
        self.count = self.forks = self.fork_microseconds = 0
        self.last_ok, self.last_seconds = True, -1
        self.consecutive_failures = self._wait_minutes = 0
        self._not_before = 0.0

    # Automatic rewrites

    def is_limited(self) -> bool:
        """Return True if several rewrites have failed in a row, and it is too early for the next attempt."""
        return self.consecutive_failures >= _FAILURES_AT_ONCE and self.server.loop.time() < self._not_before

    def ask(self, *, at_once: bool) -> bool | None:
        """BGREWRITEAOF: begin a rewrite, or schedule it.

        ``at_once``: begin now unless a background save runs; False in a transaction.
        Return True if a rewrite began, False if it could not, None if it is scheduled.
        """
        if at_once and not self.persistence.other_writer_runs():
            return self.start()
        self.scheduled = True
        self.consecutive_failures = self._wait_minutes = 0
        return None

    def cron(self) -> None:
        """Begin a rewrite that is scheduled, or due by auto-aof-rewrite-percentage; called ten times a second."""
        if self.in_progress:
            self._log_progress()
            return
        if self.server.loop.time() - self._history_at >= _HISTORY_EVERY:
            self.remove_old_history()
        if self.persistence.other_writer_runs() or self.is_limited():
            return
        if self.scheduled:
            self.scheduled = self.start() is False and self.scheduled
            return
        config, aof = self.server.config, self.persistence.aof
        percentage = config.auto_aof_rewrite_percentage
        if aof is None or aof.is_detached or not percentage or aof.size <= config.auto_aof_rewrite_min_size:
            return
        growth = aof.size * 100 // (aof.base_size or 1) - 100
        if growth >= percentage:
            self.server.log.notice(f"Starting automatic rewriting of AOF on {growth}% growth")
            self.start()

    # History

    def remove_old_history(self) -> None:
        """Remove the history files that aof-history-retention no longer keeps; also done at the end of a rewrite."""
        aof = self.persistence.aof
        if self.in_progress or aof is None or not aof.manifest.history:
            return
        self._finish_cleaning()
        self._history_at = self.server.loop.time()
        self._cleaning = begin_in_thread(self.server, aof.remove_history)

    def _finish_cleaning(self) -> None:
        """Wait for the removal of history files and its two fsyncs: the manifest has one writer at a time."""
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is not None:
            cleaning.result()

    def _log_progress(self) -> None:
        now = self.server.loop.time()
        if self.writer is None or now - self._logged_at < _LOG_EVERY:
            return
        self._logged_at = now
        self.server.log.notice(
            f"AOF rewrite: {self.writer.written >> 20} MB written, about {self.percent:.0f} %"
        )
