"""The append-only file of a running server: load it, write before replies are sent, fsync by policy.

Replies are held until a round of the event loop ends (``server/net/held_replies``): one system call writes all changes of the
round, then the replies are sent. Under ``appendfsync always`` they also wait for the fsync, which runs in a thread and
serves all replies that arrived together (group commit). Under ``everysec`` a thread runs an fsync once a second: a crash of
the machine can lose that second, a crash of the process loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.errors import ReplyError
from ...storage.files import FileOperations
from ...storage.keyspace.keyspace import Keyspace
from ...storage.loading import AofError, RdbInfo
from .aof_rewrite import AofRewrite
from .key_delays import delay_for
from .rdb import LOAD_SLICE, rdb_pieces, read_file
from .threads import in_thread

if TYPE_CHECKING:
    from ...storage.aof.loader import AofLoader
    from ...storage.aof.manifest import FileInfo
    from ...storage.aof.writer import AppendOnlyFile, Options
    from ...storage.rdb import ByteSource
    from ..server import Server


class Persistence:
    """Loads, writes and fsyncs the AOF of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.files = FileOperations()  # the file operations; tests replace some of them while the server runs
        self.rewrite = AofRewrite(self)
        self.aof: AppendOnlyFile | None = None  # the open file, None while appendonly is off
        self.loading = False  # True while a file is being replayed; clients get LOADING
        self.loading_started = 0
        # Progress of the load.
        self.loaded_bytes = 0
        self.total_bytes = 0
        self.last_sync = 0.0
        self.delayed_syncs = 0
        self.flush_delay = 0.0  # seconds to wait before each write (DEBUG AOF-FLUSH-SLEEP)
        # What the loader has found in the RDB base of the file, during and after the load.
        self.base = RdbInfo()
        self._syncing: asyncio.Future[None] | None = None
        server.config.on_change("aof-timestamp-enabled", self._update_timestamps)
        server.config.on_change("dir", self._follow_dir)
        for name in ("aof-history-retention", "aof-disable-auto-gc"):
            server.config.on_change(name, self.rewrite.remove_old_history)

    @property
    def is_syncing(self) -> bool:
        """Whether an fsync of the AOF is running."""
        return self._syncing is not None

    # Start

    async def start(self) -> None:
        """Load the AOF and open it if appendonly is on, else load the dump file."""
        self.server.folder.take_if_kept()
        self.server.snapshots.remove_orphans()
        if not self.server.config.appendonly:
            await self.server.snapshots.load()
            return
        await self.load()
        if not self.server.stopping:
            self.open()

    def open(self) -> None:
        """Open the AOF for appending and connect it to the propagation."""
        from ...storage.aof.writer import AppendOnlyFile

        base = self._empty_rdb() if self.server.config.aof_use_rdb_preamble else None
        self._feed(AppendOnlyFile.open(*self._place(), **self._options(), empty_rdb=base))

    def _empty_rdb(self) -> bytes:
        """Return the base of an AOF that begins without data."""
        keyspace = Keyspace(self.server.config.databases)
        keyspace.now = self.server.clock.now
        return b"".join(rdb_pieces(self.server, keyspace, aof_base=True))

    def switch_on(self) -> bool:
        """CONFIG SET appendonly yes: append to a new AOF, which is valid once a rewrite has added the data.

        Return False if that is impossible; the log says why.
        """
        from ...storage.aof.writer import AppendOnlyFile

        rewrite = self.rewrite
        if rewrite.in_progress:
            self.server.log.warning(
                "AOF was enabled but there is already an AOF rewriting in background. Stopping background AOF and "
                "starting a rewrite now."
            )
            rewrite.cancel()
        try:
            self._feed(AppendOnlyFile.open_detached(*self._place(), **self._options()))
        except (AofError, OSError) as error:
            self.server.log.warning(str(error))
            return False
        if self.other_writer_runs():
            self.server.log.warning(
                "AOF was enabled but there is already another background operation. An AOF background was scheduled "
                "to start when possible."
            )
            rewrite.scheduled = True
        elif not rewrite.start():
            self.server.log.warning(
                "The server needs to enable the AOF but can't trigger a background AOF rewrite operation. Check the "
                "above logs for more info about the error."
            )
            self.switch_off()
            return False
        return True

    def _follow_dir(self) -> None:
        """CONFIG SET dir: restart an AOF that lacks its first base in the new folder.

        A complete AOF stays where it is until the next rewrite (``begin_incr``), as in Redis.
        """
        if not (self.begins and self._is_elsewhere()):
            return
        try:
            self._move()
        except (AofError, OSError) as error:
            self.server.log.warning(str(error))
            raise ValueError("Unable to turn on AOF. Check server logs.") from None
        self.rewrite.cancel()
        self.rewrite.ask(at_once=True)

    def _is_elsewhere(self) -> bool:
        """Return True if the open AOF is not in the configured folder."""
        root, name, _ = self._place()
        return self.aof is not None and self.aof.directory != Path(root) / name

    def begin_incr(self) -> AppendOnlyFile:
        """Begin a new incr file for the records after a snapshot that is about to be taken; return the AOF that has it.

        If CONFIG SET dir has chosen another folder, a new AOF begins there, which lacks its base until that is installed.

        Raises OSError, AofError: the new file cannot be created; the previous file stays in use.
        """
        if self._is_elsewhere():
            return self._move()
        aof = self.aof
        assert aof is not None
        aof.start_new_incr()
        self.select_again()
        return aof

    def _move(self) -> AppendOnlyFile:
        """Complete the open AOF, and append to a new one in the configured folder, which lacks its base."""
        from ...storage.aof.writer import AppendOnlyFile

        assert self.aof is not None
        new = AppendOnlyFile.open_detached(*self._place(), **self._options())
        self._finish(self.aof)
        self.server.folder.take()  # releases the lock on the old folder
        self._feed(new)
        return new

    def _place(self) -> tuple[str, str, str]:
        config = self.server.config
        return config.dir, config.appenddirname, config.appendfilename

    def _options(self) -> Options:
        return {
            "timestamps": self.server.config.aof_timestamp_enabled,
            "files": self.files,
            "log": self.server.log.notice,
            "outdated": self.outdated_history,
            "offset": self._offset,
        }

    def _offset(self) -> int | None:
        replication = self.server.replication
        if not self.server.compat.writes_aof_offsets:
            return None
        replication.count_commands()
        return replication.offset

    def outdated_history(self, directory: Path, history: Sequence[FileInfo]) -> Sequence[FileInfo]:
        """Return the history files in ``directory`` that aof-history-retention no longer keeps."""
        from ...storage.aof.history import outdated

        config = self.server.config
        if config.aof_disable_auto_gc:
            return []
        seconds, limit = config.aof_history_retention
        return outdated(directory, history, seconds, limit, self.server.clock.now)

    def _update_timestamps(self) -> None:
        if self.aof is not None:
            self.aof.timestamps = self.server.config.aof_timestamp_enabled

    def _feed(self, aof: AppendOnlyFile) -> None:
        self.aof = aof
        self.server.propagation.connect(self._append)
        self.server.replies.at_once = 0

    def select_again(self) -> None:
        """Write a SELECT before the next record, because that will be the first of a file."""
        self.server.propagation.select_again(self._append)

    def other_writer_runs(self) -> bool:
        """Return True if a background save (RDB) runs, which a rewrite must wait for."""
        return self.server.snapshots.in_progress

    async def load(self) -> None:
        """Replay the AOF in steps; clients get LOADING meanwhile.

        Raises AofError: the AOF cannot be loaded; the text says why and where. Clients get LOADING until the
        server has ended.
        """
        from .aof_replay import LoaderClient, replay

        loader = self._loader(self.server.config.dir)
        client = LoaderClient(self.server)
        loop = self.server.loop
        self.begin_loading(loader.total_bytes)
        until = loop.time() + LOAD_SLICE
        delayed = 0
        for batch in loader.batches():
            # A slow script in the batch serves only clients that have a transport.
            await self.server.listeners.all_here()
            if self.server.stopping:
                return
            replay(self.server, loader, client, batch)
            self.loaded_bytes = loader.loaded_bytes
            if self.server.config.key_load_delay:
                await delay_for(self.server, len(batch) + self.base.keys - delayed)
                delayed = self.base.keys
            if loop.time() > until:
                await asyncio.sleep(0)
                if self.server.stopping:
                    return
                until = loop.time() + LOAD_SLICE
                self.server.keyspace.now = self.server.clock.tick()
        await delay_for(self.server, self.base.keys - delayed)
        self.end_loading()
        if loader.end_offset is not None:
            self.server.replication.count_from(loader.end_offset)
        self.server.log.notice(f"DB loaded from append only file: {loader.total_bytes} bytes")

    def reload(self) -> None:
        """DEBUG LOADAOF: write the pending bytes, drop the data and replay the files while every client waits.

        Raises ReplyError: the files cannot be read; if one of them is missing, the data stays.
        """
        if self.aof is not None:
            self.aof.write()
        self.rewrite.wait_for_files()
        try:
            # After CONFIG SET dir the open file stays in the old folder until a rewrite.
            self._replay_all(self._loader(self.aof.directory.parent if self.aof else self.server.config.dir))
        except AofError as error:
            self.server.log.warning(str(error))
            raise ReplyError(b"ERR Error trying to load the AOF files, check server logs.") from error

    def _replay_all(self, loader: AofLoader) -> None:
        from .aof_replay import LoaderClient, replay

        propagation = self.server.propagation
        propagation.active = False
        self.server.keyspace.drop_everything()
        client = LoaderClient(self.server)
        self.begin_loading(loader.total_bytes)
        try:
            for batch in loader.batches():
                replay(self.server, loader, client, batch)
        finally:
            self.end_loading()
            propagation.active = bool(propagation.sinks)

    def _loader(self, root: str | Path) -> AofLoader:
        from ...storage.aof.loader import AofLoader

        config = self.server.config
        return AofLoader(
            root,
            config.appenddirname,
            config.appendfilename,
            truncate=config.aof_load_truncated,
            load_rdb=self._load_base,
            files=self.files,
            log=self.server.log.warning,
        )

    def _load_base(self, source: ByteSource) -> Iterator[None]:
        """Load an RDB base into the keyspace."""
        self.base = RdbInfo()
        return read_file(self.server, source, self.server.keyspace, self.base)

    def begin_loading(self, total_bytes: int) -> None:
        """Answer clients with LOADING and let no key expire until ``end_loading``; ``total_bytes``: the file's size."""
        server = self.server
        self.loading = server.loading = True
        self.loading_started = server.clock.tick()
        server.keyspace.now = server.clock.now
        self.loaded_bytes, self.total_bytes = 0, total_bytes
        server.keyspace.expiring = False
        server.update_checks()

    def end_loading(self) -> None:
        """Serve clients and let keys expire again, because the load has ended."""
        server = self.server
        self.loading = server.loading = False
        server.keyspace.expiring = True
        server.keyspace.dirty = 0
        server.propagation.effects.clear()
        server.update_checks()

    # Write

    def _append(self, data: bytes) -> None:
        assert self.aof is not None
        if self.server.config.aof_timestamp_enabled:
            self.aof.annotate(self.server.clock.now)
        self.aof.append(data)

    def write_round(self) -> bool:
        """Write the effects of this round of the event loop to the AOF, and begin an fsync under ``always``.

        Return True if the replies of the round may be sent now. Under ``always`` they wait for an fsync; if the
        server ends, they are dropped.
        """
        aof = self.aof
        assert aof is not None
        replies = self.server.replies
        always = self.server.config.appendfsync == "always"
        if replies.unsynced or (always and self._syncing is not None):
            return False  # when the running fsync ends, it schedules another flush
        self._write(aof)
        if self.aof is None:
            return False
        if not (always and aof.unsynced) or self._leaves_the_disk_alone():
            return True
        replies.hold_for_fsync()
        self._syncing = asyncio.ensure_future(self._commit(aof), loop=self.server.loop)
        return False

    async def _commit(self, aof: AppendOnlyFile) -> None:
        """Run one fsync for all waiting replies (group commit)."""
        try:
            await in_thread(self.server, aof.sync)
        except OSError as error:
            self.server.log.warning(
                f"Can't persist AOF for fsync error when the AOF fsync policy is 'always': {error}. Exiting..."
            )
            self.server.die()
            return
        self._syncing = None
        self.last_sync = self.server.loop.time()
        self.server.replies.release_synced()
        self._flush_what_waited(aof)

    def _flush_what_waited(self, aof: AppendOnlyFile) -> None:
        """After an fsync, schedule a flush of the replies and records that arrived while it ran."""
        replies = self.server.replies
        if replies.held or aof.unwritten or (aof.unsynced and self.server.config.appendfsync == "always"):
            replies.flush_later()

    def drop(self) -> None:
        """Stop using the AOF without writing what is pending.

        Drop the held replies, which would confirm that.
        """
        self.rewrite.cancel()
        self.server.replies.drop_all()
        self._syncing = None
        self.aof = None

    def _write(self, aof: AppendOnlyFile) -> None:
        if self.flush_delay:
            time.sleep(self.flush_delay)
        before = self.server.disk_error
        aof.write()
        if aof.last_error is None:
            if before is not None:
                self.server.log.warning("AOF write error looks solved. The server can write again.")
                self.server.disk_error = None
                self.server.update_checks()
            return
        if self.server.config.appendfsync == "always":
            self.server.log.warning(
                f"Can't recover from AOF write error when the AOF fsync policy is 'always': {aof.last_error}. Exiting..."
            )
            self.server.die()
            return
        if before is None:
            self.server.log.warning(f"Error writing to the AOF file: {aof.last_error}")
        self.server.disk_error = (
            b"MISCONF Errors writing to the AOF file: %b" % str(aof.last_error.strerror).encode()
        )
        self.server.update_checks()

    def write_now(self) -> bool:
        """Write the pending effects, without an fsync; return False if the server is ending, perhaps because that failed."""
        if self.aof is not None and self.aof.has_unwritten:
            self._write(self.aof)
        return not self.server.stopping

    def bring_to_disk(self) -> bool:
        """Write and fsync everything now; return False if that fails, if there is no AOF, or if it still lacks its base.

        appendfsync does not matter: with everysec the next fsync may be a second away, with no it may never come.
        """
        aof = self.aof
        if aof is None or aof.is_detached or not aof.write():
            return False
        if aof.unsynced:
            try:
                aof.sync()
            except OSError:
                return False
        return True

    def has_unwritten(self) -> bool:
        """Return True if propagated effects are not yet written to the AOF."""
        return self.aof is not None and self.aof.has_unwritten

    def switch_off(self) -> None:
        """CONFIG SET appendonly no: write and sync what is pending, close the file and stop propagating to it."""
        aof = self.aof
        assert aof is not None
        self.rewrite.cancel()
        self._finish(aof)
        self.server.disk_error = None
        self.server.update_checks()

    def begin_again_with(self, pieces: Iterator[bytes]) -> None:
        """Replace the contents of the AOF with an RDB file, given in pieces, while every client waits.

        Raises OSError, AofError: the file is unchanged.
        """
        from .background_writer import ForegroundWriter

        self.rewrite.cancel()
        writer = ForegroundWriter(self.rewrite.new_path(), self.files, incremental_sync=False)
        writer.write(pieces)
        aof = self.begin_incr()
        aof.install_base(writer.path, rdb=True)
        aof.remove_history()

    @property
    def is_on_disk(self) -> bool:
        """Whether all data is in an AOF and synced, so that even a crash of the machine loses nothing."""
        return self.aof is not None and self.aof.is_on_disk

    @property
    def begins(self) -> bool:
        """Whether the AOF still lacks its first base, so that the next start would not load it.

        So it is after CONFIG SET appendonly yes, until a rewrite is done.
        """
        return self.aof is not None and self.aof.is_detached

    def write_first_base(self) -> bool:
        """Write the data as the first base while every client waits; return False if that fails (the log says why)."""
        self.server.log.notice("Writing the initial AOF before exiting.")
        try:
            self.begin_again_with(rdb_pieces(self.server, self.server.keyspace, aof_base=True))
        except (OSError, AofError) as error:
            self.server.log.warning(f"Error trying to write the initial AOF: {error}")
            self.rewrite.scheduled = True
            return False
        return True

    def reset(self) -> None:
        """DEBUG RESET: open or close the AOF as configured, and keep its contents; the caller propagates FLUSHALL.

        Raises OSError, AofError, FolderInUseError: the file cannot be opened.
        """
        self.rewrite.reset()
        self.base = RdbInfo()
        self.loading_started = self.loaded_bytes = self.total_bytes = self.delayed_syncs = 0
        self.flush_delay = 0.0
        config = self.server.config
        if self.aof is not None and (not config.appendonly or not self.aof.is_at(*self._place())):
            self.switch_off()
        if config.appendonly and self.aof is None:
            self.server.folder.take()
            self.open()
        elif self.aof is not None and self.server.disk_error is not None:
            self._write(self.aof)

    # Periodic work, and the end

    def cron(self) -> None:
        """Begin the everysec fsync and retry a failed write; called about ten times a second."""
        self.rewrite.cron()
        aof = self.aof
        if aof is None:
            return
        if aof.last_error is not None or self.server.disk_error is not None:
            self._write(aof)
        now = self.server.loop.time()
        if self.server.config.appendfsync != "everysec" or not aof.unsynced or now - self.last_sync < 1:
            return
        if self._syncing is not None:
            self.delayed_syncs += 1
            return
        if self._leaves_the_disk_alone():
            return
        self._syncing = asyncio.ensure_future(self._sync_in_background(aof), loop=self.server.loop)

    def _leaves_the_disk_alone(self) -> bool:
        """Return True if no-appendfsync-on-rewrite suspends fsync now, whatever the appendfsync policy."""
        return self.server.config.no_appendfsync_on_rewrite and (
            self.rewrite.in_progress or self.other_writer_runs()
        )

    async def sync_written(self, aof: AppendOnlyFile) -> None:
        """Fsync what has been written, in a thread, without blocking the server; raises OSError if that fails."""
        for _ in range(10):  # under `always` the end of an fsync starts the next one
            if self._syncing is None:
                break
            await asyncio.wait({self._syncing})
        else:
            return
        await in_thread(self.server, aof.sync)

    async def _sync_in_background(self, aof: AppendOnlyFile) -> None:
        try:
            await in_thread(self.server, aof.sync)
        except OSError as error:
            self.server.log.warning(f"Error syncing the AOF file: {error}")
        finally:
            self._syncing = None
        self.last_sync = self.server.loop.time()
        self._flush_what_waited(aof)

    async def stop(self) -> None:
        """Write and fsync everything, send the last replies, close the file."""
        self.rewrite.cancel()
        while self._syncing is not None:
            await self._syncing
        if self.aof is None:
            return
        self.server.log.notice("Calling fsync() on the AOF file.")
        self.aof.write()
        with contextlib.suppress(OSError):  # closing retries, and logs the error
            # In a thread: a second signal must be able to force the end.
            await in_thread(self.server, self.aof.sync)
        if not self._finish(self.aof):
            self.server.exit_status = 1

    def _finish(self, aof: AppendOnlyFile) -> bool:
        """Write and fsync the rest, close the file, send every reply; False if the disk refuses."""
        try:
            aof.close()
        except OSError as error:
            self.server.log.warning(f"Error writing to the AOF file: {error}; its last records are lost.")
        self.server.propagation.disconnect(self._append)
        self.aof = None
        # Also the replies that wait for a running fsync: it is no longer required, and later replies must not overtake them.
        self.server.replies.release_synced()
        self.server.replies.release()
        return aof.last_error is None
