"""The server's life cycle: run → serve → startup → cron → shutdown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from .. import __version__
from ..commands.acl.log import AclLog
from ..commands.connection.tracking import TrackingTable
from ..commands.pubsub.registry import PubSub
from ..commands.runtime.client import Client
from ..commands.runtime.step_sizes import ServerTuning
from ..commands.runtime.users import Users
from ..commands.spec.versions import compat_with
from ..storage import system
from ..storage.folder_lock import FolderInUseError
from ..storage.keyspace.keyspace import Keyspace
from ..storage.loading import AofError, RdbError
from .admin.latency import Latency
from .admin.slowlog import Slowlog
from .admin.used_memory import return_free_memory
from .clock import Clock
from .cluster.membership import Membership
from .config.config import Config
from .config.file import rewrite_config
from .config_bindings import WITHOUT_EFFECT, bind, warn_without_effect
from .cron import Cron
from .debugging.reset import Reset
from .debugging.virtual_time import VirtualTime
from .event_loop import new_event_loop, report_bugs
from .execution.active_expiry import ActiveExpiry
from .execution.background_jobs import BackgroundJobs
from .execution.blocking import Blocking
from .execution.call import Calls
from .execution.checks import may_refuse
from .execution.client_eviction import ClientEviction
from .execution.dispatcher import Dispatcher
from .execution.eviction import Eviction
from .execution.fast_path import run_one
from .execution.pause import Pause
from .execution.propagation import Propagation
from .execution.stats import Stats
from .execution.turns import LONG_COMMAND, PARSED, PARSED_UNDER_LIMIT, Turns
from .families import load_specs
from .log import Log
from .net.clients import Clients
from .net.held_replies import Replies
from .net.listeners import Listeners
from .net.open_files import Exhaustion, fit_clients
from .persistence.aof import Persistence
from .persistence.folder import Folder
from .persistence.rdb import Snapshots
from .replication import Replication
from .shutdown import Ending
from .signals import Signals
from .supervisor import notify

if TYPE_CHECKING:
    from ..commands.scripting.lua.engine import Scripting
    from .debugging.debugging import Debugging
    from .execution.failure_recovery import Mending
    from .execution.fast_path import RunSingle
    from .net.busy_script import Busy
    from .net.migration import Migrations
    from .sentinel.monitor import Monitor

load_specs()


class Server:
    """One Rillet server: its data, its clients and the parts that serve them.

    A process may hold several servers, each with its own event loop. A server in a test's own loop has a
    *shared loop* (``rillet.testing.LoopServer``): no threads, and the cron runs only when there may be work.
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
        # The event loop belongs to a test, which may simulate it. The server then uses no threads and no child
        # processes, needs only ``create_server(factory, host, port)`` of the loop, and its cron sleeps until
        # something is due.
        self.shares_loop = shares_loop
        self.handles_signals = handles_signals
        # The behaviour of the Redis version that the server emulates.
        self.compat = compat_with(config.compat_version)
        self.rillet_version = __version__
        self.clock = clock or Clock()
        self.log = Log(self.clock, config.loglevel, config.in_dir(config.logfile), quiet=quiet)
        self.keyspace = Keyspace(config.databases)
        self.keyspace.names_last_expired = self.compat.names_last_expired
        self.keyspace.now = self.clock.now
        self.users = Users()
        self.clients = Clients(self)  # the connections that commands show and count
        self.tuning = ServerTuning()
        self.run_id = os.urandom(20).hex()
        self.role = "master"
        self.supervisor = "no"
        self.mode = "standalone" if config.sentinel is None else "sentinel"
        self.started = self.clock.now
        self.last_save = self.clock.now // 1000
        self.loading = False
        # ``may_refuse``: some check may refuse a command of a plain client.
        # ``needs_all_checks``: every command takes all checks, because of ``may_refuse`` or because the interceptor
        # must see it.
        # ``limits_output``: there is a ``client-output-buffer-limit`` for normal clients.
        self.may_refuse = self.needs_all_checks = self.limits_output = False
        self.parsed_bytes = PARSED  # bytes of requests that are parsed at a time
        # Runs the commands of clients while DEBUG records them or injects faults.
        self.interceptor: Debugging | None = None
        self.has_observers = False  # some client uses MONITOR or tracking
        # Runs a command that a plain client sends alone, and returns the bytes to send; None while such a command
        # must run as a batch.
        self.run_single: RunSingle | None = run_one
        self.disk_error: bytes | None = None  # the text that refuses writes while the AOF cannot be written
        # The text that refuses writes after a failed background save.
        self.snapshot_error: bytes | None = None
        # The text that refuses other clients' commands during a slow script.
        self.busy_error: bytes | None = None
        self.slow_nanoseconds = LONG_COMMAND
        self.current_client: Client | None = None  # the client whose batch is running
        self.active_expiry = ActiveExpiry(self)
        self.virtual_time = VirtualTime(self)
        self.cron = Cron(self)
        self.scripting_if_used: Scripting | None = None
        self.busy_if_used: Busy | None = None
        self.debugging_if_used: Debugging | None = None
        self.migrations_if_used: Migrations | None = None
        self.pause = Pause(self)
        self.background_jobs = BackgroundJobs(self)
        self.turns = Turns(self)
        self.propagation = Propagation()
        self.propagation.on_divergence = self._on_divergence
        self.propagation.selects_first = self.compat.selects_before_multi
        self.dispatcher = Dispatcher(self)
        self.calls = Calls(self)
        self.stats = Stats(self.dispatcher.found, self.clients, self.clients.controls)
        self.blocking = Blocking(self)
        self.cluster = Membership(self)
        self.sentinel = self._monitor()
        self.signals = Signals(self)
        self.ending = Ending(self)
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
        self.stopping = False  # the shutdown has begun (``stop`` or ``die`` was called)
        self._loaded = False
        self.exit_status = 0
        if config.requirepass:
            self.users.set_password(config.requirepass)
        self.resetting = Reset(self)
        bind(self)

    def make_records(self) -> None:
        """Create the empty records of clients' activity: pub/sub, tracking, slow log, ACL log, latency."""
        self.pubsub, self.tracking = PubSub(self), TrackingTable(self)
        self.slowlog, self.acl_log, self.latency = Slowlog(self), AclLog(self), Latency(self)
        self.keyspace.on_event = self.pubsub.publish_event
        self.keyspace.on_modified = self.keyspace.on_flushed = None

    def _monitor(self) -> Monitor | None:
        """Create the sentinel's monitor; None outside sentinel mode."""
        if self.config.sentinel is None:
            return None
        from .sentinel.monitor import Monitor

        self.log.role = "X"
        return Monitor(self, self.config.sentinel)

    # Parts that few servers use are imported and created on first access, so that starting is faster. `..._if_used` is None
    # until then.

    @property
    def scripting(self) -> Scripting:
        """The engine that runs scripts and functions in Lua."""
        if self.scripting_if_used is None:
            from ..commands.scripting.lua.engine import Scripting

            self.scripting_if_used = Scripting(self)
            if not self.shares_loop:  # a slow script reads the other clients without the loop
                self.scripting_if_used.on_slow = self.busy.serve
        return self.scripting_if_used

    @property
    def busy(self) -> Busy:
        """The part that serves other clients during a slow script."""
        if self.busy_if_used is None:
            from .net.busy_script import Busy

            self.busy_if_used = Busy(self)
        return self.busy_if_used

    @property
    def debugging(self) -> Debugging:
        """The recorder, faults and snapshots of DEBUG."""
        if self.debugging_if_used is None:
            from .debugging.debugging import Debugging

            self.debugging_if_used = Debugging(self)
        return self.debugging_if_used

    @property
    def migrations(self) -> Migrations:
        """The MIGRATE commands that are running."""
        if self.migrations_if_used is None:
            from .net.migration import Migrations

            self.migrations_if_used = Migrations(self)
        return self.migrations_if_used

    @cached_property
    def mending(self) -> Mending:
        """The part that repairs the data after a handler failed."""
        from .execution.failure_recovery import Mending

        return Mending(self)

    @property
    def in_script(self) -> bool:
        """Whether a script or a function is running."""
        return self.scripting_if_used is not None and self.scripting_if_used.run is not None

    def run(
        self,
        on_ready: Callable[[], None] | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    ) -> int:
        """Serve in a new event loop until the server is stopped; return the exit status. Blocks the calling thread.

        ``on_ready``: called once clients can be served; not if the start fails.
        """
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(self.serve(on_ready))
        return self.exit_status

    async def serve(self, on_ready: Callable[[], None] | None = None) -> None:
        """Start, serve until the server is stopped, and shut down, in the running loop; ``on_ready`` as in ``run``."""
        process = os.getpid()
        self.loop = asyncio.get_running_loop()
        lazyfree = self.keyspace.lazyfree
        lazyfree.on_queued = lambda: self.background_jobs.run_soon(lazyfree.step)
        self.keyspace.cold.on_freed = return_free_memory
        if self.handles_signals:
            self.signals.handle()
        if not self.shares_loop:
            report_bugs(self)
        if not await self.startup():
            self.exit_status = 1
            self.replication.stop()  # an append-only file may hold REPLICAOF
            await self._leave()
            return
        if on_ready is not None and not self.stopping:
            on_ready()
        try:
            await self.cron.run()
        finally:
            # A forked child that leaves the loop must not shut down its parent's server.
            if os.getpid() == process:
                await self.shutdown()

    async def startup(self) -> bool:
        """Listen, load the data, and log each step; return False if one fails (the log says why)."""
        config = self.config
        self.log.notice("oO0OoO0OoO0Oo Rillet is starting oO0OoO0OoO0Oo")
        self.log.notice(
            f"Rillet version={__version__}, Redis version={self.version}, bits=64, pid={os.getpid()}"
        )
        if self.handles_signals and not fit_clients(config, self.log):  # the process is the server's own
            return False
        warn_without_effect(self, *WITHOUT_EFFECT)
        if config.users or config.aclfile:
            from ..commands.acl.handlers import start_users

            if not start_users(self):
                return False
        if not await self.listeners.open():
            return False
        self.log.notice(f"Running mode={self.mode}, port={config.port}.")
        self.log.banner(f"Rillet {__version__}: Redis Streams, Redis {self.version} protocol", config.port)
        self.log.notice("Server initialized")
        await asyncio.sleep(0)  # let the loop handle a signal
        if self.stopping:
            return True
        notify(self.supervisor, self.log, "STATUS=Rillet is loading...\n")
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
            return True  # stopped while loading
        self._loaded = True
        self.folder.announce()
        self.resetting.remember()
        self.replication.start()
        if self.sentinel is not None:
            self.sentinel.start()
        for kind, place in ("tcp", config.port), ("tls", config.tls_port), ("unix", config.unixsocket):
            if place:
                self.log.notice(f"Ready to accept connections {kind}")
        waits = " in read-only mode. Waiting for MASTER <-> REPLICA sync" if config.replicaof else ""
        notify(self.supervisor, self.log, f"STATUS=Ready to accept connections{waits}\nREADY=1\n")
        return True

    async def shutdown(self) -> None:
        """Stop accepting clients, stop background work, flush and fsync the AOF, close every connection."""
        self.ending.announce()
        self.listeners.close()
        self.blocking.stop()
        if self.migrations_if_used is not None:
            self.migrations_if_used.stop()
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
        """Close every connection after its replies, and remove the unix socket, the pidfile and the folder lock."""
        self.signals.ending = True
        self.listeners.close()
        self.clients.close_all()
        for _ in range(50):
            if not self.clients and not self.clients.controls:
                break
            await asyncio.sleep(0.01)
        self.clients.close_all(after_reply=False)
        await asyncio.sleep(0)
        self.listeners.remove_files()
        self.folder.release()

    def die(self) -> None:
        """End at once without a shutdown, and drop the held replies: they confirm writes that are not on the disk."""
        if self.handles_signals:
            os._exit(1)
        # If the process is not the server's own, only this server ends.
        self.exit_status = 1
        self.stopping = True
        self.cron.stop()
        self.persistence.drop()
        self.clients.close_all(after_reply=False)

    def _on_divergence(self) -> None:
        """End the server, because the append-only file and the replicas hold different data."""
        self.log.warning("Can't propagate a change to all who must know of it. Exiting...")
        self.die()

    def stop(self) -> None:
        """Stop the server: no command runs after this, but held replies are still sent.

        Commands may call this directly, other threads through ``call_soon_threadsafe``.
        """
        if self.stopping:
            return
        self.stopping = True
        self.cron.stop()
        self.replication.stop()  # now, while it can still send replicas the rest of the stream
        # As in Redis, connections close without an error reply, so that client libraries reconnect.
        self.clients.close_all()

    @property
    def has_all_data(self) -> bool:
        """Whether the data is fully loaded; only then may a last snapshot replace the one on the disk."""
        return self._loaded and not self.loading

    @property
    def may_fork(self) -> bool:
        """Whether the server may fork: the process is its own, and the system can fork."""
        return self.handles_signals and system.HERE.has_fork

    @property
    def version(self) -> str:
        """The Redis version that the server emulates: ``8.10.2``."""
        return self.compat.release

    @property
    def rdb_version(self) -> int:
        """The RDB version of the files and DUMP payloads that the server writes."""
        return self.config.rdb_version or self.compat.rdb_version

    def finish_unit(self) -> None:
        """End an execution unit that no client's command began: propagate it, serve blocked clients, schedule a flush."""
        self.calls.end_unit()
        if self.persistence.has_unwritten():
            self.replies.flush_later()
        if self.tracking.broadcasts:
            self.tracking.send_broadcasts()

    def rewrite_config(self) -> None:
        """Write the current directives to the file that the server was started with."""
        rewrite_config(self.config)

    def update_checks(self) -> None:
        """Set ``needs_all_checks`` and the fields that belong to it, after a change of what may refuse commands."""
        # Keys must not expire during a pause either: it may wait until replicas have the whole stream.
        self.keyspace.hides_expired = self.replication.link is not None or self.pause.is_on
        debugging = self.debugging_if_used
        self.interceptor = debugging if debugging is not None and debugging.is_on else None
        normal = self.config.client_output_buffer_limit.normal
        self.limits_output = bool(normal.hard or normal.soft)
        self.parsed_bytes = PARSED_UNDER_LIMIT if self.limits_output else PARSED
        self.may_refuse = may_refuse(self)
        self.needs_all_checks = self.may_refuse or self.interceptor is not None
        self.choose_single()

    def choose_single(self) -> None:
        """Set ``run_single`` (it runs a command that arrives alone) after a change of what decides on it.

        It is None while any client observes (MONITOR, tracking) or commands may be refused.
        """
        if self.may_refuse or self.has_observers:
            self.run_single = None
        else:
            self.run_single = run_one if self.interceptor is None else self.interceptor.run_single
