"""The server's life: run → serve → startup → main_loop → shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import __version__
from ..commands import load_all
from ..commands.latency import Latency
from ..commands.pubsub import PubSub
from ..commands.slowlog import Slowlog
from ..commands.tracking import TrackingTable
from ..commands.version import REDIS_VERSION
from ..storage.keyspace import Keyspace
from ..storage.manifest import AofError
from .blocking import Blocking
from .clock import Clock
from .connection import Connection
from .dispatcher import Dispatcher, Entry
from .log import Log
from .persistence import Persistence
from .propagation import Propagation
from .stats import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..commands.client import Client
    from .config import Config
    from .directives import OutputLimit

_CRON_SECONDS: Final = 0.1
_EXPIRED_PER_CYCLE: Final = 1000
_NEVER: Final = 1 << 62

load_all()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop event loop, or asyncio's own where uvloop is not installed (Windows)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Server:
    """One Rillet server: its data, its clients and everything that serves them.

    Several may live in one process, each with its own event loop or sharing one.

    Attributes:
        careful: some state of the server needs the full order of checks for every command.
        observed: somebody monitors or tracks.
        holds_replies: replies wait for the AOF.
        disk_error: the text writes are refused with while the AOF cannot be written.
        current_client: whose batch is being run.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        quiet: bool = False,
        handles_signals: bool = False,
    ) -> None:
        self.config = config
        self.handles_signals = handles_signals
        self.version = REDIS_VERSION
        self.rillet_version = __version__
        self.clock = clock or Clock()
        self.log = Log(self.clock, config.loglevel, config.logfile, quiet=quiet)
        self.keyspace = Keyspace(config.databases)
        self.keyspace.now = self.clock.now
        self.clients: dict[int, Client] = {}
        self.congested: set[Connection] = set()  # have more to read than the system takes
        self.run_id = secrets.token_hex(20)
        self.replication_id = secrets.token_hex(20)
        self.role = "master"
        self.started = self.clock.now
        self.last_save = self.clock.now // 1000
        self.loading = False
        self.careful = False
        self.observed = False
        self.holds_replies = False
        self.disk_error: bytes | None = None
        self.slow_nanoseconds = _NEVER
        self.current_client: Client | None = None
        self.monitors: set[Client] = set()
        self.active_expire = True
        self._expiring = False  # the active expire cycle runs
        self.cron_paused = False  # by DEBUG PAUSE-CRON
        self.paused_until = 0
        self.pause_writes_only = False
        self._pause_timer: asyncio.TimerHandle | None = None
        self._postponed: list[Client] = []
        self._client_ids = 0
        self.propagation = Propagation()
        self.dispatcher = Dispatcher(self)
        self.stats = Stats(list(self.dispatcher.entries.values()))
        self.blocking = Blocking(self)
        self.pubsub = PubSub(self)
        self.tracking = TrackingTable(self)
        self.slowlog = Slowlog(self)
        self.latency = Latency(self)
        self.persistence = Persistence(self)
        self.loop: asyncio.AbstractEventLoop  # set by serve()
        self._listeners: list[asyncio.Server] = []
        self._files: list[Path] = []  # the unix socket and the pidfile, once they are there
        self._stopping = asyncio.Event()
        self.exit_status = 0
        self.keyspace.on_event = self.pubsub.publish_event
        self.keyspace.on_expired = self._propagate_expiry
        self._listen_to_config()

    # The story

    def run(self, on_ready: Callable[[], None] | None = None) -> int:
        """Serve until told to stop; returns the exit status. Blocks the calling thread."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self.serve(on_ready))
        return self.exit_status

    async def serve(self, on_ready: Callable[[], None] | None = None) -> None:
        """The whole life, on the running loop; ``on_ready`` is called once clients can be served."""
        self.loop = asyncio.get_running_loop()
        if self.handles_signals:
            self._handle_signals()
        self.loop.set_exception_handler(self._on_bug)
        if not await self.startup():
            self.exit_status = 1
            await self._leave()
            return
        if on_ready is not None and not self.stopping:
            on_ready()
        try:
            await self.main_loop()
        finally:
            await self.shutdown()

    async def startup(self) -> bool:
        """Listen, load, and say so; False if that is impossible (the log says why)."""
        config = self.config
        self.log.notice("oO0OoO0OoO0Oo Rillet is starting oO0OoO0OoO0Oo")
        self.log.notice(
            f"Rillet version={__version__}, Redis version={self.version}, bits=64, pid={os.getpid()}"
        )
        if not await self._listen():
            return False
        self._banner()
        self.log.warning("Server initialized")
        try:
            await self.persistence.start()
        except AofError as error:
            self.log.warning(str(error))
            return False
        except OSError as error:
            self.log.warning(f"Can't open the append-only file: {error}")
            return False
        if self.stopping:
            return True  # told so while it was loading
        if config.port or self._listeners:
            self.log.notice("Ready to accept connections tcp")
        if config.unixsocket:
            self.log.notice("Ready to accept connections unix")
        return True

    async def main_loop(self) -> None:
        """Look after the server ten times a second until it is told to stop."""
        while not self._stopping.is_set():
            try:
                self._cron()
            except Exception:  # noqa: BLE001 - a bug of ours must not end the service
                self.log.warning(f"Internal error in the cron:\n{traceback.format_exc()}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _CRON_SECONDS)

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A callback raised: the log has the traceback, and the loop goes on."""
        del loop
        error = context.get("exception")
        trace = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self.log.warning(f"Internal error: {context.get('message')}\n{trace}")

    async def shutdown(self) -> None:
        """Stop accepting, release blocked clients, flush and fsync the AOF, close every connection."""
        self.log.warning("User requested shutdown...")
        for listener in self._listeners:
            listener.close()
        # As from Redis they get the end of the connection, upon which their libraries connect again; no error reply.
        self.blocking.stop()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        await self.persistence.stop()
        await self._leave()
        self.log.warning("Rillet is now ready to exit, bye bye...")

    async def _leave(self) -> None:
        """Close every connection, once its replies have left, and take the files away that only a living server has."""
        for listener in self._listeners:
            listener.close()
        for client in list(self.clients.values()):
            client.close()
        for _ in range(50):
            if not self.clients:
                break
            await asyncio.sleep(0.01)
        for client in list(self.clients.values()):
            client.close(after_reply=False)
        await asyncio.sleep(0)
        self._remove_files()

    def die(self) -> None:
        """End at once, without the replies that wait: what they would confirm is not on the disk."""
        if self.handles_signals:
            os._exit(1)
        # In somebody's process: only this server ends.
        self.exit_status = 1
        self.persistence.drop()
        for client in list(self.clients.values()):
            client.close(after_reply=False)
        self.stop()

    def stop(self) -> None:
        """Ask for the end; safe to call from a command or (through call_soon_threadsafe) from another thread."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether the end was asked for."""
        return self._stopping.is_set()

    def _handle_signals(self) -> None:
        """SIGTERM and SIGINT stop the server in order; a second one forces it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            self.log.warning("You insist... exiting now.")
            os._exit(1)
        self.log.warning(f"Received {signal.Signals(number).name} scheduling shutdown...")
        self.stop()

    # Startup in detail

    async def _listen(self) -> bool:
        config = self.config
        hosts = [(host.removeprefix("-"), host.startswith("-")) for host in config.bind]
        port = config.port
        for host, optional in hosts:
            address = {"*": "0.0.0.0", "::*": "::"}.get(host, host)  # noqa: S104 - what the user asked for
            try:
                listener = await self.loop.create_server(
                    lambda: Connection(self), address, port, backlog=config.tcp_backlog, reuse_address=True
                )
            except OSError as error:
                if optional:
                    continue
                self.log.warning(
                    f"Warning: Could not create server TCP listening socket {host}:{port}: {error.strerror}"
                )
                self.log.warning(f"Failed listening on port {port} (tcp), aborting.")
                return False
            self._listeners.append(listener)
            if port == 0:
                port = listener.sockets[0].getsockname()[1]
        if not self._listeners and not config.unixsocket:
            self.log.warning("Configured to not listen anywhere, exiting.")
            return False
        self._note_port(port)
        if config.unixsocket:
            try:
                Path(config.unixsocket).unlink(missing_ok=True)
                self._listeners.append(
                    await self.loop.create_unix_server(
                        lambda: Connection(self, unix_socket=True), config.unixsocket
                    )
                )
            except OSError as error:
                self.log.warning(f"Failed opening Unix socket: bind: {error.strerror}")
                return False
        self._leave_files()
        return True

    def _leave_files(self) -> None:
        config = self.config
        if config.unixsocket:
            self._files.append(Path(config.unixsocket))
            if config.unixsocketperm:
                Path(config.unixsocket).chmod(config.unixsocketperm)
        if config.pidfile:
            try:
                Path(config.pidfile).write_text(f"{os.getpid()}\n", encoding="ascii")
            except OSError as error:
                self.log.warning(f"Failed to write PID file: {error.strerror}")
            else:
                self._files.append(Path(config.pidfile))

    def _remove_files(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()

    def _note_port(self, port: int) -> None:
        """Let CONFIG GET port and INFO tell the port that was found for ``--port 0``."""
        self.config.port = port

    def _banner(self) -> None:
        self.log.notice(f"Running mode=standalone, port={self.config.port}.")
        if not self.log.quiet and not self.log.path:
            sys.stdout.write(
                f"\n  Rillet {__version__}: Redis Streams, Redis {self.version} protocol\n"
                f"  Port: {self.config.port}\n  PID: {os.getpid()}\n\n"
            )
            sys.stdout.flush()
        else:
            self.log.notice(f"PID: {os.getpid()}")

    def _listen_to_config(self) -> None:
        config = self.config
        for name in ("slowlog-log-slower-than", "latency-monitor-threshold"):
            config.on_change(name, self._update_thresholds)
        config.on_change("notify-keyspace-events", self._update_notifications)
        config.on_change("appendonly", self._switch_aof)
        config.on_change("loglevel", self._update_loglevel)
        config.on_change("dir", self._change_directory)
        for name in ("port", "bind"):
            config.on_change(name, self._refuse_to_move)
        self._update_thresholds()
        self._update_notifications()

    def _update_thresholds(self) -> None:
        slowlog, latency = self.config.slowlog_log_slower_than, self.config.latency_monitor_threshold
        self.slow_nanoseconds = min(
            slowlog * 1000 if slowlog >= 0 else _NEVER, latency * 1_000_000 if latency else _NEVER
        )

    def _update_notifications(self) -> None:
        self.keyspace.notify_mask = self.config.notify_mask

    def _update_loglevel(self) -> None:
        self.log.level = self.config.loglevel

    def _change_directory(self) -> None:
        if not Path(self.config.dir).is_dir():
            raise ValueError("No such file or directory")

    def _refuse_to_move(self) -> None:
        if self._listeners:
            raise ValueError("Unable to listen on another address while running; restart with the new one")

    def _switch_aof(self) -> None:
        persistence = self.persistence
        if self.config.appendonly and persistence.aof is None:
            raise ValueError("Unable to turn on AOF. Check server logs.")
        if not self.config.appendonly and persistence.aof is not None:
            persistence.switch_off()

    # Every tenth of a second

    def _cron(self) -> None:
        if self.cron_paused:
            return
        now = self.clock.tick()
        self.keyspace.now = now
        self.stats.sample(int(self.loop.time() * 1000))
        self.expire_keys()
        self.persistence.cron()
        for connection in list(self.congested):
            connection.check_output_limit(now)
        self._close_idle_clients(now)

    def expire_keys(self) -> None:
        """The active expire cycle; also run when a virtual clock was moved."""
        if not self.active_expire or self.loading:
            return
        for db in self.keyspace.databases:
            if db.expires:
                self._expiring = True
                try:
                    db.expire_all_due(_EXPIRED_PER_CYCLE)
                finally:
                    self._expiring = False
        self.finish_unit()

    def finish_unit(self) -> None:
        """End an execution unit that no client's batch ends: propagate, serve whoever waited, flush."""
        if self.propagation.effects:
            self.propagation.flush()
        if self.keyspace.ready:
            self.blocking.serve()
        if self.persistence.has_unwritten():
            self.persistence.schedule_flush()
        if self.tracking.broadcasts:
            self.tracking.send_broadcasts()

    def time_moved(self) -> None:
        """A virtual clock was moved: everything that waits for a time looks at it anew."""
        self.keyspace.now = self.clock.tick()
        self.expire_keys()
        self.blocking.expire()

    def _close_idle_clients(self, now: int) -> None:
        timeout = self.config.timeout
        if not timeout:
            return
        for client in list(self.clients.values()):
            idle = now - client.last_interaction > timeout * 1000
            if idle and client.blocked is None and not client.is_subscriber and not client.monitor:
                self.log.verbose("Closing idle client")
                client.close(after_reply=False)

    def _propagate_expiry(self, db: object, key: bytes) -> None:
        name = b"UNLINK" if self.config.lazyfree_lazy_expire else b"DEL"
        self.propagation.add(db.index, [name, key])  # type: ignore[attr-defined]
        if self._expiring and self.propagation.effects:
            self.propagation.flush()  # each key is an execution unit of its own

    # What connections and commands ask of the server

    def next_client_id(self) -> int:
        """Client IDs count from 1 and are never used again."""
        self._client_ids += 1
        return self._client_ids

    def is_protected(self) -> bool:
        """Protected mode is in force: no password, and no bind given by the user."""
        return self.config.protected_mode and not self.config.requirepass

    def forget(self, client: Client) -> None:
        """Drop a client that is gone from every registry."""
        self.pubsub.remove(client)
        self.tracking.remove(client)
        self.monitors.discard(client)
        if client in self._postponed:
            self._postponed.remove(client)
        self.update_observed()

    def update_observed(self) -> None:
        """Recompute ``observed`` after MONITOR or tracking began or ended."""
        self.observed = bool(self.monitors) or any(
            client.tracking is not None for client in self.clients.values()
        )

    def update_careful(self) -> None:
        """Recompute ``careful`` after the server's state changed."""
        self.careful = self.loading or self.disk_error is not None or self.paused_until > 0

    def output_limit(self, client: Client) -> OutputLimit:
        """What may wait for a client before it is closed."""
        limits = self.config.client_output_buffer_limit
        return limits.pubsub if client.is_subscriber else limits.normal

    # CLIENT PAUSE

    def pause(self, until: int, writes_only: bool) -> None:
        """Postpone commands until a time in milliseconds; a longer or stricter pause in force stays."""
        self.paused_until = max(self.paused_until, until)
        self.pause_writes_only = writes_only
        self.update_careful()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        wait = max(self.paused_until - self.clock.tick(), 0) / 1000
        self._pause_timer = self.loop.call_later(wait, self.unpause)

    def unpause(self) -> None:
        """End a pause; postponed clients go on in order."""
        self.paused_until = 0
        self.update_careful()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        postponed, self._postponed = self._postponed, []
        for client in postponed:
            client.postponed = False
            client.update_plain()
            client.resume()

    def is_paused_for(self, entry: Entry, client: Client) -> bool:
        """Whether a pause in force postpones this command."""
        if not self.paused_until or client.trusted:
            return False
        if not self.pause_writes_only:
            return True
        if entry.name == "exec" and client.transaction is not None:
            return any(command.is_write for command, _ in client.transaction.commands)
        return entry.write or "may_replicate" in entry.command.flags

    def postpone(self, client: Client, argv: list[bytes]) -> None:
        """Let a command wait until the pause is over."""
        del argv  # the dispatcher leaves it in the client's backlog
        client.postponed = True
        client.update_plain()
        self._postponed.append(client)
