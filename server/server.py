"""The server's life: run → serve → startup → main_loop → shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, cast

from .. import __version__
from ..commands.acl import file as acl_file
from ..commands.acl.handlers import start_users
from ..commands.acl.log import AclLog
from ..commands.connection.tracking import TrackingTable
from ..commands.pubsub.registry import PubSub
from ..commands.runtime.tuning import ServerTuning
from ..commands.runtime.users import Users
from ..commands.spec.versions import compat_with
from ..commands.transactions.handlers import unwatch_all
from ..storage import system
from ..storage.aof.manifest import AofError
from ..storage.folder_lock import FolderInUseError
from ..storage.keyspace.keyspace import Keyspace
from ..storage.rdb import RdbError
from . import cron
from .admin.latency import Latency
from .admin.memory_use import give_back
from .admin.slowlog import Slowlog
from .clock import Clock
from .cluster.membership import Membership
from .config.file import rewrite_config
from .config_bindings import WITHOUT_EFFECT, bind, warn_without_effect
from .debugging.auto_skip import AutoSkip
from .debugging.reset import Reset
from .event_loop import new_event_loop
from .execution.active_expiry import ActiveExpiry
from .execution.background_jobs import BackgroundJobs
from .execution.blocking import Blocking
from .execution.call import Calls
from .execution.checks import all_are_needed
from .execution.client_eviction import ClientEviction
from .execution.dispatcher import Dispatcher
from .execution.eviction import Eviction
from .execution.mending import Mending
from .execution.pause import Pause
from .execution.propagation import Propagation
from .execution.stats import Stats
from .execution.turns import LONG_COMMAND, Turns
from .families import load_specs
from .log import Log
from .net.listeners import Listeners
from .net.open_files import Exhaustion, fit_clients
from .net.replies import Replies
from .persistence.aof import Persistence
from .persistence.folder import Folder
from .persistence.rdb import Snapshots
from .replication import Replication
from .signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..commands.runtime.client import Client
    from ..commands.runtime.context import Part
    from ..commands.scripting.lua.engine import Scripting
    from .config.config import Config
    from .debugging.debugging import Debugging
    from .net.busy_script import Busy
    from .net.connection import Connection
    from .net.migration import Migrations
    from .sentinel.monitor import Monitor

_CRON_SECONDS: Final = 0.1
_EXPIRING_SECONDS: Final = _CRON_SECONDS / 4  # Redis' default share

load_specs()


class Server:
    """One Rillet server: its data, its clients and the parts that serve them.

    Several may live in one process, each with its own event loop or sharing one.

    Attributes:
        compat: behaviour of the Redis version that the server emulates.
        needs_all_checks: some state of the server requires the full order of checks for every command.
        interceptor: what runs the commands of clients while DEBUG records them or lets some fail.
        clients: the connections that commands show and count.
        controls: the connections that DEBUG CONTROL took out of ``clients``.
        has_observers: some client uses MONITOR or tracking.
        disk_error: the text that refuses writes while the AOF cannot be written.
        snapshot_error: the same while the last background save has failed.
        busy_error: the text that refuses other clients' commands in the middle of a slow script.
        current_client: the client whose batch is running.
        shares_loop: the event loop belongs to a test, which may simulate it: there is no thread and no child process, the
            loop needs no more than ``create_server(factory, host, port)``, and the cron sleeps until something is due.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        quiet: bool = False,
        handles_signals: bool = False,
        shares_loop: bool = False,
    ) -> None:
        self.config = config
        self.shares_loop = shares_loop
        self.handles_signals = handles_signals
        self.compat = compat_with(config.compat_version)
        self.rillet_version = __version__
        self.clock = clock or Clock()
        self.log = Log(self.clock, config.loglevel, config.in_dir(config.logfile), quiet=quiet)
        self.keyspace = Keyspace(config.databases)
        self.keyspace.names_last_expired = self.compat.names_last_expired
        self.keyspace.now = self.clock.now
        self.users = Users()
        self.clients: dict[int, Client] = {}
        self.controls: set[Client] = set()
        self.congested: set[Connection] = set()  # with more unsent output than the socket accepts
        self.tuning = ServerTuning()
        self.run_id = os.urandom(20).hex()
        self.role = "master"
        self.supervisor = "no"
        self.mode = "standalone" if config.sentinel is None else "sentinel"
        self.started = self.clock.now
        self.last_save = self.clock.now // 1000
        self.loading = False
        self.needs_all_checks = False
        self.interceptor: Debugging | None = None
        self.has_observers = False
        self.disk_error: bytes | None = None
        self.snapshot_error: bytes | None = None
        self.busy_error: bytes | None = None
        self.slow_nanoseconds = LONG_COMMAND
        self.current_client: Client | None = None
        self.monitors: set[Client] = set()
        self.active_expiry = ActiveExpiry(self)
        self.auto_skip = AutoSkip(self)
        self.cron_paused = False  # by DEBUG PAUSE-CRON
        self.allocator_tuned = False
        self.last_input = (0, 0, 0)  # as the cron of a shared loop has seen it
        self.pause = Pause(self)
        self.background_jobs = BackgroundJobs(self)
        self.turns: Turns[Connection] = Turns(self)
        self._client_ids = 0
        self.propagation = Propagation()
        self.propagation.on_divergence = self._on_divergence
        self.propagation.selects_first = self.compat.selects_before_multi
        self.dispatcher = Dispatcher(self)
        self.calls = Calls(self, self.dispatcher.entries["ping"])
        self.stats = Stats(self.dispatcher.found, self.clients, self.controls)
        self.mending = Mending(self)
        self.blocking = Blocking(self)
        self.cluster = Membership(self)
        self._parts: dict[type, object] = {Membership: self.cluster}
        self.sentinel = self._monitor()
        self.signals = Signals(self)
        self.make_records()
        self.folder = Folder(self)
        self.persistence = Persistence(self)
        self.replies = Replies(self)
        self.snapshots = Snapshots(self)
        self.replication = Replication(self)
        self.eviction = Eviction(self)
        self.client_eviction = ClientEviction(self)
        self.loop: asyncio.AbstractEventLoop  # set by serve()
        self.listeners = Listeners(self)
        self.exhaustion = Exhaustion(self.log)
        self._stopping = asyncio.Event()
        self._alarm: asyncio.Future[None] | None = None
        self._end_announced = False
        # The data is complete: only then may a last snapshot replace the one on the disk
        self._loaded = False
        self.exit_status = 0
        if config.requirepass:
            self.users.set_password(config.requirepass)
        self.resetting = Reset(self)
        bind(self)

    def make_records(self) -> None:
        """Make what commands keep of clients and of the past, without anything in it."""
        self.pubsub, self.tracking = PubSub(self), TrackingTable(self)
        self.slowlog, self.acl_log, self.latency = Slowlog(self), AclLog(self), Latency(self)
        for part in (self.pubsub, self.tracking, self.slowlog, self.acl_log, self.latency):
            self._parts[type(part)] = part
        self.keyspace.on_event = self.pubsub.publish_event
        self.keyspace.on_modified = self.keyspace.on_flushed = None

    def _monitor(self) -> Monitor | None:
        """Return what makes the server a sentinel, in that mode."""
        if self.config.sentinel is None:
            return None
        from .sentinel.monitor import Monitor
        from .sentinel.state import Sentinel

        self.log.role = "X"
        monitor = Monitor(self, self.config.sentinel)
        self._parts[Sentinel] = monitor.sentinel
        return monitor

    # What few servers use is imported and made when it is first asked for, so that a start costs less.

    @cached_property
    def scripting(self) -> Scripting:
        """Lua: EVAL, functions."""
        from ..commands.scripting.lua.engine import Scripting

        scripting = self._parts[Scripting] = Scripting(self)
        if not self.shares_loop:  # others are read past the loop
            scripting.on_slow = self.busy.serve
        return scripting

    @cached_property
    def busy(self) -> Busy:
        """What serves others while a script runs."""
        from .net.busy_script import Busy

        return Busy(self)

    @cached_property
    def debugging(self) -> Debugging:
        """What DEBUG keeps for tests."""
        from .debugging.debugging import Debugging

        return Debugging(self)

    @cached_property
    def migrations(self) -> Migrations:
        """The running MIGRATEs."""
        from .net.migration import Migrations

        return Migrations(self)

    @property
    def in_script(self) -> bool:
        """Whether a script or a function is running."""
        return self.has("scripting") and self.scripting.run is not None

    def has(self, part: str) -> bool:
        """Whether ``scripting``, ``busy``, ``debugging`` or ``migrations`` was asked for yet."""
        return part in self.__dict__

    # Lifecycle

    def run(self, on_ready: Callable[[], None] | None = None) -> int:
        """Serve until stopped; return the exit status. Blocks the calling thread."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self.serve(on_ready))
        return self.exit_status

    async def serve(self, on_ready: Callable[[], None] | None = None) -> None:
        """Run the whole lifecycle on the running loop; calls ``on_ready`` once clients can be served."""
        self.loop = asyncio.get_running_loop()
        lazyfree = self.keyspace.lazyfree
        lazyfree.on_queued = lambda: self.background_jobs.run_soon(lazyfree.step)
        self.keyspace.cold.on_freed = give_back
        if self.handles_signals:
            self.signals.handle()
        if not self.shares_loop:
            self.loop.set_exception_handler(self._on_bug)
        if not await self.startup():
            self.exit_status = 1
            self.replication.stop()  # an append-only file may hold REPLICAOF
            await self._leave()
            return
        if on_ready is not None and not self.stopping:
            on_ready()
        try:
            await self.main_loop()
        finally:
            await self.shutdown()

    async def startup(self) -> bool:
        """Listen, load, and log that; return False if that is impossible (the log says why)."""
        config = self.config
        self.log.notice("oO0OoO0OoO0Oo Rillet is starting oO0OoO0OoO0Oo")
        self.log.notice(
            f"Rillet version={__version__}, Redis version={self.version}, bits=64, pid={os.getpid()}"
        )
        if self.handles_signals and not fit_clients(config, self.log):  # the process is the server's own
            return False
        warn_without_effect(self, *WITHOUT_EFFECT)
        try:
            start_users(self)
        except acl_file.AclFileError as error:
            self.log.warning(str(error))
            return False
        if not await self.listeners.open():
            return False
        self._banner()
        self.log.notice("Server initialized")
        await asyncio.sleep(0)  # a signal has its turn
        if self.stopping:
            return True
        self._notify("STATUS=Rillet is loading...\n")
        try:
            await self.persistence.start()
        except (AofError, FolderInUseError) as error:
            self.log.warning(str(error))
            return False
        except RdbError as error:
            self.log.warning(f"Fatal error loading the DB, check server logs. Exiting: {error}")
            return False
        except OSError as error:
            self.log.warning(f"Can't open the data files: {error}")
            return False
        if self.stopping:
            return True  # stopped while it was loading
        self._loaded = True
        self.folder.announce()
        self.resetting.remember()
        self.replication.start()
        if self.sentinel is not None:
            self.sentinel.start()
        if config.port:
            self.log.notice("Ready to accept connections tcp")
        if config.tls_port:
            self.log.notice("Ready to accept connections tls")
        if config.unixsocket:
            self.log.notice("Ready to accept connections unix")
        waits = " in read-only mode. Waiting for MASTER <-> REPLICA sync" if config.replicaof else ""
        self._notify(f"STATUS=Ready to accept connections{waits}\nREADY=1\n")
        return True

    def _notify(self, state: str) -> None:
        """Send lines to systemd, if that supervises the process."""
        if self.supervisor == "systemd":
            from .supervisor import notify

            try:
                notify(state)
            except OSError as error:
                self.log.warning(f"Can't notify systemd: {error.strerror or error}")

    async def main_loop(self) -> None:
        """Run the cron until the server is stopped: ten times a second, or in a shared loop when something is due."""
        while not self._stopping.is_set():
            try:
                cron.step(self)
            except Exception:  # noqa: BLE001 - a bug of ours must not end the service
                self.log.warning("Internal error in the cron:", details=traceback.format_exc())
            if self.shares_loop:
                await self._rest()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _CRON_SECONDS)

    async def _rest(self) -> None:
        """Wait for something that the cron has to do."""
        seconds = cron.seconds_of_rest(self)
        if seconds > 0 and not self.stopping:
            self._alarm = self.loop.create_future()
            timer = None if seconds == inf else self.loop.call_later(seconds, self.wake)
            await self._alarm
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Let a cron that rests look again: there is input, or a time has come."""
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    def begin_in_thread(self, work: Callable[[], None]) -> Future[None]:
        """Begin work that waits for the disk in a thread of its own, or do it here if the loop is shared."""
        if not self.shares_loop:
            pool = ThreadPoolExecutor(1, "rillet-disk")
            begun = pool.submit(work)
            pool.shutdown(wait=False)
            return begun
        done: Future[None] = Future()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - as of a thread: asking for the result raises it
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    async def in_thread(self, work: Callable[[], None]) -> None:
        """Do work that waits for the disk in a thread, or here if the loop is shared."""
        if self.shares_loop:
            work()
        else:
            await self.loop.run_in_executor(None, work)

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Log the traceback of a callback that raised; the loop continues."""
        error = context.get("exception")
        assert error is None or isinstance(error, BaseException)
        if isinstance(error, (ssl.SSLError, ConnectionError)):
            self.log.verbose(f"Error accepting a client connection: {error}")
            return
        # Without uvloop, accept comes here; any other place of ours handles the errors of its files.
        if "accept" in str(context.get("message")) and self.exhaustion.note(error, loop.time()):
            return
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        self.log.warning(f"Internal error: {context.get('message')}", details=trace)

    async def shutdown(self) -> None:
        """Stop accepting, end what works in the background, flush and fsync the AOF, close every connection."""
        self._announce_end()
        self.listeners.close()
        self.blocking.stop()
        if self.has("migrations"):
            self.migrations.stop()
        if self.sentinel is not None:
            self.sentinel.stop()
        self.pause.stop()
        self.background_jobs.stop()
        self.replication.stop()
        await self.persistence.stop()
        self.snapshots.stop()
        await self._leave()
        self.log.warning("Rillet is now ready to exit, bye bye...")

    async def _leave(self) -> None:
        """Close every connection after its replies, and remove the files of a living server."""
        self.signals.ending = True
        self.listeners.close()
        self._close_clients()
        for _ in range(50):
            if not self.clients and not self.controls:
                break
            await asyncio.sleep(0.01)
        self._close_clients(after_reply=False)
        await asyncio.sleep(0)
        self.listeners.remove_files()
        self.folder.release()

    def die(self) -> None:
        """End immediately, without the waiting replies: they confirm writes that are not on the disk."""
        if self.handles_signals:
            os._exit(1)
        # In a process that is not the server's own only this server ends.
        self.exit_status = 1
        self._stopping.set()
        self.wake()
        self.persistence.drop()
        self._close_clients(after_reply=False)

    def _on_divergence(self) -> None:
        """End, because the append-only file and the replicas hold different data."""
        self.log.warning("Can't propagate a change to all who must know of it. Exiting...")
        self.die()

    def stop(self) -> None:
        """Decide the end: from here on no command runs; replies that wait are still sent.

        Callable by commands and, with call_soon_threadsafe, other threads.
        """
        if self.stopping:
            return
        self._stopping.set()
        self.wake()
        self.replication.stop()  # while replicas can be sent the rest of the stream
        # As in Redis the connections end without an error reply, so that client libraries reconnect.
        self._close_clients()

    def _close_clients(self, *, after_reply: bool = True) -> None:
        for client in [*self.controls, *self.clients.values()]:  # first the controls, which wait for the end
            client.close(after_reply=after_reply)

    def end(self, *, save: bool | None, force: bool) -> bool:
        """Write the last snapshot if one is wanted (None: if there are save points), then decide the end.

        Returns:
            False if the snapshot could not be written, so the server keeps running; ``force`` ends it even then.
        """
        self._announce_end()
        may_save = self._loaded and not self.loading
        if may_save and not self.snapshots.save_at_end(wanted=save, force=force):
            self.signals.ending = self._end_announced = False
            return False
        self.stop()
        return True

    def _announce_end(self) -> None:
        """Log once that the end was asked for, before anything is saved for it."""
        self.signals.ending = True
        if not self._end_announced:
            self._end_announced = True
            self._notify("STOPPING=1\n")
            self.log.warning("User requested shutdown...")

    @property
    def stopping(self) -> bool:
        """Whether the end was decided."""
        return self._stopping.is_set()

    @property
    def may_fork(self) -> bool:
        """Whether a child process may have the data: this one is the server's own, and the system can fork."""
        return self.handles_signals and system.HERE.has_fork

    # Startup in detail

    def _banner(self) -> None:
        self.log.notice(f"Running mode={self.mode}, port={self.config.port}.")
        if not self.log.quiet and not self.log.path:
            sys.stdout.write(
                f"\n  Rillet {__version__}: Redis Streams, Redis {self.version} protocol\n"
                f"  Port: {self.config.port}\n  PID: {os.getpid()}\n\n"
            )
            sys.stdout.flush()
        else:
            self.log.notice(f"PID: {os.getpid()}")

    @property
    def version(self) -> str:
        """The Redis version that the server emulates: ``8.10.2``."""
        return self.compat.release

    def finish_unit(self) -> None:
        """End an execution unit outside a client's batch: propagate, serve blocked clients, flush."""
        self.calls.end_unit()
        if self.persistence.has_unwritten():
            self.replies.schedule()
        if self.tracking.broadcasts:
            self.tracking.send_broadcasts()

    def time_moved(self) -> None:
        """Recheck everything that waits for a time, after a virtual clock was moved."""
        self.keyspace.now = self.clock.tick()
        self.active_expiry.run(_EXPIRING_SECONDS)
        self.blocking.time_moved()
        self.pause.look()
        if self.has("debugging"):
            self.debugging.faults.time_moved()
        self.wake()

    def skip(self) -> None:
        """Move the clock to the next time at which a key expires, or a wait of a client ends; else leave it."""
        times = [self.blocking.next_deadline(), self.active_expiry.next_expiry()]
        if self.pause.until:
            times.append(self.pause.until)
        if self.has("debugging"):
            times.append(self.debugging.faults.next_time())
        now = self.clock.tick()
        until = min((when for when in times if when is not None), default=now)
        if until > now:
            self.clock.advance(until - now)
        self.time_moved()

    # For connections and commands

    def part(self, kind: type[Part], /) -> Part:
        """Return the server's one instance of a class that commands define (PubSub, Slowlog …)."""
        # Commands of scripts ask for a part that the server may not have made yet.
        return cast("Part", self._parts.get(kind) or self.scripting)

    def rewrite_config(self) -> None:
        """Write the current directives to the file that the server was started with."""
        rewrite_config(self.config)

    def after_flushall(self) -> None:
        """Empty the dump file, too, if snapshots are configured."""
        self.snapshots.after_flushall()

    def next_client_id(self) -> int:
        """Return a new client ID; IDs count from 1 and are never reused."""
        self._client_ids += 1
        return self._client_ids

    def is_full(self) -> bool:
        """Whether maxclients is reached; clients within a TLS handshake count."""
        return len(self.clients) + len(self.listeners.shaking_hands) >= self.config.maxclients

    def is_protected(self) -> bool:
        """Whether protected mode is in force: no password, and no bind set by the user."""
        return self.config.protected_mode and self.users.default.is_open

    def forget(self, client: Client) -> None:
        """Remove a client that is gone from every registry; a second call does nothing."""
        if self.clients.pop(client.id, None) is None and client not in self.controls:
            return
        self.controls.discard(client)
        self.stats.keep(client)
        self.blocking.forget(client)
        self.replication.forget(client)
        self.pubsub.remove(client)
        self.tracking.remove(client)
        if client in self.monitors:
            self.monitors.remove(client)
            self.update_observers()
        self.pause.forget(client)
        if self.has("debugging"):
            self.debugging.forget(client)
        self.background_jobs.forget(client)
        unwatch_all(client)

    def take_control(self, client: Client) -> None:
        """DEBUG CONTROL: no list shows a client from now on, and no rule of the ACL and no pause concerns it."""
        client.trusted = True
        if self.clients.pop(client.id, None) is not None:
            self.controls.add(client)

    def end_control(self, client: Client) -> None:
        """RESET: make a plain client of a control connection."""
        if client in self.controls:
            self.controls.remove(client)
            self.clients[client.id] = client
            client.trusted = False

    def update_observers(self) -> None:
        """Recompute ``has_observers`` after MONITOR or tracking began or ended."""
        self.has_observers = bool(self.monitors) or any(
            client.tracking is not None for client in self.clients.values()
        )

    def update_checks(self) -> None:
        """Recompute ``needs_all_checks``, and whether keys expire here, after the server's state changed."""
        # A pause keeps the data still, too: it may wait for replicas to have all of the stream.
        self.keyspace.hides_expired = self.replication.link is not None or self.pause.is_on
        self.interceptor = self.debugging if self.has("debugging") and self.debugging.is_on else None
        self.needs_all_checks = all_are_needed(self)
