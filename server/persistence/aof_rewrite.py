"""BGREWRITEAOF: the data of now becomes the base file, and the records that led to it go.

A rewrite begins a new incr file, takes a snapshot at that very moment and lets ``background_writer`` write it; what
happens meanwhile stands in the new incr file. When the snapshot is complete it takes the place of all older files,
by one atomic change of the manifest. Until then, and if anything fails, the older files and the new incr file hold
everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...storage.aof.manifest import AofError, make_folder
from ...storage.aof.rewrite import rewrite_commands
from ...storage.aof.writer import TEMPORARY_BASE, AppendOnlyFile, install_base_alone
from ...storage.folder_lock import FolderInUseError
from ...storage.rdb import rdb_chunks
from .background_writer import BackgroundWriter, ForkedWriter, ThreadedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.keyspace.keyspace import Keyspace
    from .aof import Persistence

_RDB_VERSION: Final = 10  # of a base: Redis 7.0, the first with this kind of AOF, shall load it too
_RDB_SHARE: Final = 0.3  # of the length of the same data as commands, about
_SYNC_AT_ONCE: Final = 64 << 10  # bytes; more than that is synced in a thread before a rewrite begins
_FAILURES_AT_ONCE: Final = 3  # then the automatic ones wait 1, 2, 4 … minutes
_LONGEST_WAIT: Final = 60  # minutes
_TELL_EVERY: Final = 5  # seconds
_HISTORY_EVERY: Final = 60  # seconds; that often files are looked for that were kept long enough
_DELAY_STEP: Final = 10_000  # microseconds


class AofRewrite:
    """The rewrites of one server, one at a time.

    Attributes:
        scheduled: one shall begin as soon as possible.
        count: how many were begun (INFO aof_rewrites).
        last_ok: how the last one ended, or failed to begin.
        last_seconds: how long the last one took, -1 before the first.
        consecutive_failures: how many failed since the last success.
        fork_microseconds: how long the last fork held the server up.
        forks: how many forks there were.
    """

    def __init__(self, persistence: Persistence) -> None:
        self.persistence = persistence
        self.server = persistence.server
        self.scheduled = False
        self.count = 0
        self.last_ok = True
        self.last_seconds = -1
        self.consecutive_failures = 0
        self.fork_microseconds = 0
        self.forks = 0
        self.writer: BackgroundWriter | None = None
        self._aof: AppendOnlyFile | None = None  # the one that the rewrite under way is for
        self._rdb = False
        self._preparing: asyncio.Task[None] | None = None
        self._installing: Future[None] | None = None
        self._started = 0.0
        self._told = 0.0
        self._wait_minutes = 0
        self._not_before = 0.0
        self._history_at = 0.0  # when it was looked at last
        self._cleaning: Future[None] | None = None

    @property
    def in_progress(self) -> bool:
        """Whether one is under way."""
        return self.writer is not None or self._preparing is not None or self._installing is not None

    @property
    def current_seconds(self) -> int:
        """How long the one under way has taken, -1 without one."""
        return int(self.server.loop.time() - self._started) if self.in_progress else -1

    @property
    def percent(self) -> float:
        """How far the one under way is, as far as that can be told."""
        writer = self.writer
        if writer is None or not writer.expected:
            return 0.0
        expected = writer.expected * (_RDB_SHARE if self._rdb else 1)
        return min(writer.written * 100 / expected, 99.99)

    # Begin

    def start(self) -> bool:
        """Begin one; False if that is impossible (the log says why)."""
        if self.in_progress:
            return False
        self._finish_cleaning()
        persistence = self.persistence
        self._aof = aof = persistence.aof
        self._started = self._told = self.server.loop.time()
        if aof is not None and (persistence.is_syncing or aof.unsynced > _SYNC_AT_ONCE):
            # Nobody shall wait while the old file goes to the disk.
            self._preparing = asyncio.ensure_future(self._prepare(aof), loop=self.server.loop)
            return True
        return self._begin()

    async def _prepare(self, aof: AppendOnlyFile) -> None:
        try:
            await self.persistence.settle(aof)
        except OSError as error:
            self.server.log.warning(f"Error syncing the AOF file before its rewrite: {error}")
            self._failed()
            return
        finally:
            self._preparing = None
        if self.persistence.aof is aof:
            self._begin()

    def _begin(self) -> bool:
        config, log = self.server.config, self.server.log
        self._rdb = config.aof_use_rdb_preamble
        try:
            self.server.folder.take()
            path = self._temporary()
            if self._aof is not None:
                self._aof.start_new_incr()
                self.persistence.select_again()
            writer = self._new_writer(path)
            writer.start(self.server.loop, self.server.keyspace, self._pieces, self._written)
        except (OSError, AofError, FolderInUseError) as error:
            log.warning(f"Can't rewrite append only file in background: {error}")
            self._failed()
            return False
        self.writer = writer
        self.scheduled = False
        self.count += 1
        self.forks += isinstance(writer, ForkedWriter)
        self.fork_microseconds = writer.fork_microseconds
        log.notice(f"Background append only file rewriting started by pid {writer.pid}")
        return True

    def _temporary(self) -> Path:
        config = self.server.config
        folder = Path(config.dir) / config.appenddirname
        make_folder(folder, self.persistence.files)
        return folder / f"{TEMPORARY_BASE}{os.getpid()}-{self.count + 1}.aof"

    def _new_writer(self, path: Path) -> BackgroundWriter:
        may_fork = self.server.handles_signals and sys.platform != "win32"
        kind = ForkedWriter if may_fork else ThreadedWriter
        incremental = self.server.config.aof_rewrite_incremental_fsync
        return kind(path, self.persistence.files, incremental_sync=incremental)

    def _pieces(self, keyspace: Keyspace) -> Iterator[bytes]:
        """What the new base holds; runs where nothing else of the server does."""
        config = self.server.config
        if self._rdb:
            pieces = rdb_chunks(keyspace, version=_RDB_VERSION, aof_base=True, checksum=config.rdbchecksum)
        else:
            if config.aof_timestamp_enabled:
                yield b"#TS:%d\r\n" % (keyspace.now // 1000)
            if config.aof_timestamp_enabled == "ms":
                yield b"#MS:%d\r\n" % keyspace.now
            pieces = rewrite_commands(keyspace)
        for piece in pieces:
            yield piece
            # For tests; in small steps, so that it can be stopped.
            for _ in range(config.rdb_key_save_delay // _DELAY_STEP):
                time.sleep(_DELAY_STEP / 1_000_000)
                yield b""

    # End

    def _written(self, error: str) -> None:
        """The snapshot is on the disk, or there is none."""
        writer, self.writer = self.writer, None
        assert writer is not None
        log = self.server.log
        if error:
            how = f"by {error}" if error.startswith("signal") else f"with {error}"
            log.warning(f"Background AOF rewrite terminated {how}")
            self._failed()
            return
        log.notice("Background AOF rewrite terminated with success")
        if self._aof is not None and self._aof.is_detached:
            # Its records move with the base; a write between the two would not know where to go.
            self._installing = Future()
            try:
                self._install(writer.path)
            except BaseException as failure:  # noqa: BLE001 - told by _installed
                self._installing.set_exception(failure)
            else:
                self._installing.set_result(None)
            self._installed(self._installing)
            return
        # Two fsyncs and the removal of big files: not in the loop.
        pool = ThreadPoolExecutor(1, "rillet-aof")
        self._installing = pool.submit(self._install, writer.path)
        pool.shutdown(wait=False)
        self._installing.add_done_callback(self._tell_loop)

    def _tell_loop(self, done: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and somebody waited for the result
            self.server.loop.call_soon_threadsafe(self._installed, done)

    def _install(self, path: Path) -> None:
        config, files = self.server.config, self.persistence.files
        aof = self._aof
        if aof is not None:
            aof.install_base(path, rdb=self._rdb)
            aof.remove_history()
            return
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
        """The manifest was changed, or could not be."""
        if self._installing is not done:
            return  # whoever could not wait has seen to it
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
        """Give the one under way up: for SHUTDOWN, and when the AOF is switched off."""
        self.scheduled = False
        self._finish_cleaning()
        if self._preparing is not None:
            self._preparing.cancel()
            self._preparing = None
        if self._installing is not None:
            installing = self._installing
            installing.exception()  # waits, but only for two fsyncs
            self._installed(installing)
        if self.writer is not None:
            self.server.log.warning(f"There is a child rewriting the AOF. Killing it: {self.writer.pid}")
            writer, self.writer = self.writer, None
            writer.stop()
            self._note_time()

    # By itself

    def is_limited(self) -> bool:
        """Whether too many have failed for another one to be tried now."""
        return self.consecutive_failures >= _FAILURES_AT_ONCE and self.server.loop.time() < self._not_before

    def ask(self, *, at_once: bool) -> bool | None:
        """BGREWRITEAOF: True if one began, False if it could not, None if it will begin as soon as possible."""
        if at_once and not self.persistence.other_writer_runs():
            return self.start()
        self.scheduled = True
        self.consecutive_failures = self._wait_minutes = 0
        return None

    def cron(self) -> None:
        """Called ten times a second: begin what is scheduled or due, and tell how far it is."""
        if self.in_progress:
            self._tell()
            return
        if self.server.loop.time() - self._history_at >= _HISTORY_EVERY:
            self.look_at_history()
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

    def look_at_history(self) -> None:
        """Remove the files that were kept long enough; a rewrite under way does that itself when it ends."""
        aof = self.persistence.aof
        if self.in_progress or aof is None or not aof.manifest.history:
            return
        self._finish_cleaning()
        self._history_at = self.server.loop.time()
        pool = ThreadPoolExecutor(1, "rillet-aof")
        self._cleaning = pool.submit(aof.remove_history)
        pool.shutdown(wait=False)

    def _finish_cleaning(self) -> None:
        """Wait, for the removal of files and two fsyncs: the manifest has one writer at a time."""
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is not None:
            cleaning.result()

    def _tell(self) -> None:
        now = self.server.loop.time()
        if self.writer is None or now - self._told < _TELL_EVERY:
            return
        self._told = now
        self.server.log.notice(
            f"AOF rewrite: {self.writer.written >> 20} MB written, about {self.percent:.0f} %"
        )
