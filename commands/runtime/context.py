"""Protocols of what handlers may use of the server: one per concern, joined in ``ServerContext``.

A handler of data uses the dozen members of ``ServerContext``; commands whose subject is the server itself go through its
``internals``. ``server.server.Server`` implements both, which the type checker checks, and so does the fake server of the
tests, which ``tests/commands/runtime/test_context.py`` checks. A handler names nothing of ``server/``. A family of commands
gets its own state of a server (its subscriptions, its slow log) by class::

    client.server.part(PubSub).publish(channel, message)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...storage.keyspace.keyspace import Keyspace
    from ...storage.value_types import Value
    from ..spec.command import Command
    from ..spec.versions import Compat
    from .client import Client
    from .debugging import Debugging
    from .durability import Persistence, Snapshots
    from .peers import Migrations, Replication
    from .tuning import ServerTuning
    from .users import Users

Part = TypeVar("Part")


class Clock(Protocol):
    """The server's time, in milliseconds of Unix time; tests and DEBUG may move it."""

    now: int

    def tick(self) -> int:
        """Read the system's clock; returns the new ``now``."""

    def unix_seconds(self) -> float:
        """Return the time in seconds, with the full precision of the clock."""

    def advance(self, milliseconds: int) -> int:
        """Move the time; returns the new ``now``."""

    def freeze(self, at: int | None = None) -> int:
        """Stop the time; returns ``now``."""

    def resume(self) -> int:
        """Let the time run again from where it stopped; returns ``now``."""

    def reset(self) -> int:
        """Return to the system's time; returns ``now``."""


class Log(Protocol):
    """The server's log; each text is one line."""

    def debug(self, text: str) -> None:
        """Write a line of the lowest level."""

    def verbose(self, text: str) -> None:
        """Write a line that is rarely useful."""

    def notice(self, text: str) -> None:
        """Write a line about normal operation."""

    def warning(self, text: str, details: str = "") -> None:
        """Write a line that the operator should read; the lines of ``details`` follow it."""


class Propagation(Protocol):
    """The effects of the unit being run, on their way to the AOF and the replicas.

    Attributes:
        active: the AOF or a replica reads the effects; if False, handlers need not add any.
        effects: database and encoded command of each, in order.
        understood: the newest version whose commands every replica understands.
    """

    active: bool
    effects: list[tuple[int, bytes]]
    understood: tuple[int, int]

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Propagate one command."""

    def add_encoded(self, db: int, record: bytes) -> None:
        """Propagate one command that is encoded already."""

    def add_joined(self, db: int, records: bytes, number: int) -> None:
        """Propagate some commands that are encoded and joined already."""

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """Propagate one command to replicas only, not to the AOF."""

    def needs_downgrade(self, since: tuple[int, int]) -> bool:
        """Whether some replica is older than a version."""

    def add_with_downgrade(self, db: int, argv: Sequence[bytes], older: Iterable[Sequence[bytes]]) -> None:
        """Propagate a command; old replicas receive its older forms instead."""

    def split(self) -> None:
        """Propagate each effect so far as its own unit; the last one is that of the running command."""

    def flush_units(self, db: int, records: list[bytes]) -> None:
        """Propagate encoded commands immediately, each as its own unit."""

    def limit(self, since: int, *, aof: bool, replicas: bool) -> None:
        """Withhold the effects from number ``since`` on from the AOF, the replicas or both."""

    def forget(self) -> None:
        """Drop the effects of the unit."""


class Blocking(Protocol):
    """The clients that wait for keys."""

    @property
    def resuming(self) -> bool:
        """Whether a command runs again for a client that waited."""

    @property
    def waiters(self) -> Mapping[Client, object]:
        """The waits by client."""

    def block(
        self,
        client: Client,
        keys: Sequence[bytes],
        timeout: int,
        argv: list[bytes],
        *,
        on_missing: bool,
        wants: type[Value] = ...,
        on_timeout: bytes | None = None,
        recheck_at: Mapping[bytes, int] | None = None,
        still_blocked: Callable[[], bool] | None = None,
    ) -> None:
        """Let a client wait; see ``Client.block``."""

    def unblock(self, client: Client, error: bytes | None = None) -> bool:
        """End the wait of a client as at its timeout, or with an error; False if it does not wait."""

    def keys(self) -> int:
        """Return how many keys clients wait for."""

    def with_deadline(self) -> int:
        """Return how many clients wait with a timeout."""

    def keys_on_missing(self) -> int:
        """Return how many keys are waited for by clients that also wake up when the key is deleted."""


class CommandEntry(Protocol):
    """A command as this server runs it, with its statistics.

    Attributes:
        minimum: the fewest words it takes, name included.
        maximum: the most.
        histogram: calls by the bit length of their nanoseconds.
    """

    command: Command
    name: str
    minimum: int
    maximum: int
    write: bool
    runs_script: bool
    calls: int
    nanoseconds: int
    rejected: int
    failed: int
    histogram: list[int]

    def percentile(self, percent: float) -> float:
        """Return the latency in microseconds that ``percent`` per cent of the calls did not exceed."""


class CommandTable(Protocol):
    """The commands that this server knows."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """Every command and subcommand as its version declared it, containers too, by its name in lower case."""

    @property
    def entries(self) -> Mapping[str, CommandEntry]:
        """Every command and subcommand that the server knows, by its name in lower case."""

    @property
    def listed(self) -> Mapping[str, Command]:
        """Those of ``commands`` that rename-command leaves a name."""

    def own_name(self, typed: bytes) -> str | None:
        """Return Redis' own name of a command as clients call it; None if no command has that name."""

    def find(self, argv: list[bytes]) -> CommandEntry:
        """Return the command or subcommand that these words name.

        Raises:
            ReplyError: there is none.
        """

    def check(self, client: Client, entry: Any, argv: list[bytes]) -> bytes | None:
        """Return the error if the server refuses the command now, else None; ``entry`` comes from ``find``."""


class Calls(Protocol):
    """The way to run a command inside another; each ``entry`` comes from ``CommandTable.find``."""

    def call(self, client: Client, entry: Any, argv: list[bytes]) -> bytes | None:
        """Run a command that passed every check, and record its statistics."""

    def call_queued(self, client: Client, commands: list[tuple[Any, list[bytes]]]) -> list[bytes]:
        """Run the commands of a transaction; returns their replies."""

    def feed_monitors(self, client: Client, argv: list[bytes]) -> None:
        """Send a command to every client in MONITOR."""

    def track(
        self, client: Client, entry: Any, argv: list[bytes], *, script: list[bytes] | None = None
    ) -> None:
        """Record the keys that a command has read, if its client tracks them."""


class Settings(Protocol):
    """The directives that commands read; ``server.config.config.Config`` has all of them."""

    acl_pubsub_default: str
    aclfile: str
    acllog_max_len: int
    bind: tuple[str, ...]
    busy_reply_threshold: int  # milliseconds
    cluster_allow_pubsubshard_when_down: bool
    cluster_allow_reads_when_down: bool
    cluster_enabled: bool
    cluster_preferred_endpoint_type: str
    cluster_require_full_coverage: bool
    config_file: str | None
    dir: str  # absolute
    hll_sparse_max_bytes: int
    hz: int
    latency_monitor_threshold: int  # milliseconds
    latency_tracking: bool
    latency_tracking_info_percentiles: tuple[float, ...]
    lazyfree_lazy_expire: bool
    lazyfree_lazy_server_del: bool
    lazyfree_lazy_user_del: bool
    lua_memory_limit: int  # bytes
    maxclients: int
    maxmemory: int  # bytes
    maxmemory_policy: str
    min_replicas_max_lag: int  # seconds
    min_replicas_to_write: int
    port: int
    proto_max_bulk_len: int  # bytes
    rdb_version: int  # 0: that of ``compat``; see the function
    repl_backlog_size: int  # bytes
    replica_announced: bool
    replica_priority: int
    replica_read_only: bool
    requirepass: bytes
    slowlog_max_len: int
    slowlog_entry_max_argc: int
    slowlog_entry_max_string_len: int
    stream_node_max_bytes: int
    stream_node_max_entries: int
    tls_port: int
    tracking_table_max_keys: int
    unixsocket: str
    users: list[list[bytes]]

    def get(self, patterns: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the directives that match, as CONFIG GET shows them."""

    def set(self, pairs: Sequence[tuple[bytes, bytes]], *, local: bool = True) -> None:
        """Change directives: all, or none if one is refused."""


class Stats(Protocol):
    """The counters of INFO since the start or the last CONFIG RESETSTAT."""

    connections_received: int
    connections_rejected: int
    denied: dict[bytes, int]  # refusals of the ACL by kind
    errors: dict[bytes, int]  # replies by their code
    evicted_clients: int
    evicted_keys: int
    peak_memory_time: int
    scripted_commands: int  # those that scripts ran
    total_errors: int
    unexpected_errors: int

    @property
    def commands_processed(self) -> int:
        """Commands of clients and of scripts that ran."""

    @property
    def net_input(self) -> int:
        """Bytes that came from clients and from a master."""

    @property
    def net_output(self) -> int:
        """Bytes of replies and pushes."""

    @property
    def reads_processed(self) -> int:
        """Times that input came."""

    @property
    def writes_processed(self) -> int:
        """Replies and pushes that were sent, those of one batch as one."""

    def reset(self) -> None:
        """Set every counter to zero."""

    def note_memory(self, used: int, unix_seconds: int) -> int:
        """Record the memory in use, in bytes, at a time; returns the peak so far."""

    def reads_per_second(self) -> int:
        """Reads of clients' input per second, of late."""

    def count_error(self, text: bytes) -> None:
        """Count an error reply by its code."""

    def per_second(self) -> tuple[int, float, float]:
        """Return the current rates per second: commands, input bytes, output bytes."""


class Eviction(Protocol):
    """Keeps the memory below ``maxmemory``.

    Attributes:
        out_of_memory: the limit was exceeded, and no key could go.
    """

    out_of_memory: bool

    def refuses_in_script(self, entry: Any) -> bool:
        """Whether a script may not run a command because memory is short; ``entry`` comes from ``find``."""

    def exceeded_milliseconds(self) -> tuple[int, int]:
        """Return for how long the limit was exceeded in total, and for how long it is exceeded now."""


class Pause(Protocol):
    """CLIENT PAUSE.

    Attributes:
        postponed: the clients that wait for its end.
    """

    postponed: list[Client]

    def begin(self, until: int, *, writes_only: bool) -> None:
        """Postpone commands until a time in milliseconds."""

    def end(self) -> None:
        """Run what was postponed."""


class Jobs(Protocol):
    """Runs background work in small steps between requests."""

    def run_soon(self, job: Callable[[], bool]) -> None:
        """Call ``job`` again and again until it returns False."""


class EventLoop(Protocol):
    """The event loop that the server runs in."""

    def time(self) -> float:
        """Return its clock, in seconds since an arbitrary time in the past."""


class Switch(Protocol):
    """A feature that DEBUG turns off and on."""

    enabled: bool


class Resetting(Protocol):
    """The start of the server, as DEBUG RESET returns to it."""

    def run(self, client: Client) -> None:
        """Reset everything but the connection of a client.

        Raises:
            ReplyError: the configuration or a file could not be restored; all else is reset.
        """


class ServerContext(Protocol):
    """The server as every handler sees it: the data, the time, the settings, and what becomes of a change."""

    compat: Compat
    keyspace: Keyspace
    users: Users
    tuning: ServerTuning

    @property
    def clock(self) -> Clock:
        """The time."""

    @property
    def log(self) -> Log:
        """The log."""

    @property
    def config(self) -> Settings:
        """The directives."""

    @property
    def propagation(self) -> Propagation:
        """The effects of the unit being run."""

    @property
    def blocking(self) -> Blocking:
        """The clients that wait."""

    @property
    def background_jobs(self) -> Jobs:
        """Work that is done piece by piece."""

    @property
    def internals(self) -> ServerInternals:
        """The same server, for the few families whose subject it is: INFO, CLIENT, ACL, scripts, replicas."""

    def after_flushall(self) -> None:
        """Empty the dump file, too, if snapshots are configured."""

    def part(self, kind: type[Part], /) -> Part:
        """Return the server's one object of a class that a family of commands defines."""


class ServerInternals(ServerContext, Protocol):
    """The server as the commands about the server itself see it.

    Attributes:
        busy_error: the reply to other clients while a slow script runs.
        needs_all_checks: the server is in a state in which every command needs all checks.
        cron_paused: the work that is due ten times a second is suspended (DEBUG PAUSE-CRON).
        current_client: the client whose batch is running.
        disk_error: the reply to writes while the AOF cannot be written.
        last_save: when the last snapshot was written, in seconds of Unix time.
        loading: the server reads its files.
        mode: ``standalone``, ``cluster`` or ``sentinel``, as HELLO and INFO show it.
        monitors: the clients in MONITOR.
        has_observers: a client monitors or tracks.
        role: ``master`` or ``slave``.
        run_id: of this start of the server.
        snapshot_error: the reply to writes while the last background save failed.
        started: in milliseconds of Unix time.
        supervisor: what watches over the process: ``systemd``, ``upstart`` or ``no``.
        shares_loop: it serves in somebody else's event loop, without threads and child processes.
    """

    busy_error: bytes | None
    needs_all_checks: bool
    clients: dict[int, Client]
    cron_paused: bool
    current_client: Client | None
    disk_error: bytes | None
    last_save: int
    loading: bool
    mode: str
    monitors: set[Client]
    has_observers: bool
    rillet_version: str
    role: str
    run_id: str
    snapshot_error: bytes | None
    started: int
    supervisor: str
    shares_loop: bool

    @property
    def version(self) -> str:
        """The version of Redis that the server presents."""

    @property
    def auto_skip(self) -> Switch:
        """DEBUG CLOCK AUTO-SKIP."""

    def skip(self) -> None:
        """Move the clock to the next time that somebody waits for."""

    @property
    def stats(self) -> Stats:
        """The counters of INFO."""

    def has(self, part: str) -> bool:
        """Whether ``scripting``, ``debugging`` or ``migrations`` was asked for yet."""

    @property
    def debugging(self) -> Debugging:
        """What DEBUG records and hits."""

    @property
    def dispatcher(self) -> CommandTable:
        """The commands."""

    @property
    def calls(self) -> Calls:
        """The way to run one of them."""

    @property
    def eviction(self) -> Eviction:
        """The eviction of keys and the refusals under ``maxmemory``."""

    @property
    def pause(self) -> Pause:
        """CLIENT PAUSE."""

    @property
    def active_expiry(self) -> Switch:
        """The deletion of expired keys in the background."""

    @property
    def persistence(self) -> Persistence:
        """The append-only file."""

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots."""

    @property
    def migrations(self) -> Migrations:
        """The keys on their way to other servers."""

    @property
    def replication(self) -> Replication:
        """The replicas, or the master."""

    @property
    def loop(self) -> EventLoop:
        """The event loop."""

    def end(self, *, save: bool | None, force: bool) -> bool:
        """Write a final snapshot if required, then stop the server; returns False if that failed."""

    @property
    def resetting(self) -> Resetting:
        """The way back to the state of the start."""

    def take_control(self, client: Client) -> None:
        """Hide a client from every list, and from rules and pauses."""

    def end_control(self, client: Client) -> None:
        """RESET: make a plain client of a control connection."""

    def rewrite_config(self) -> None:
        """Write the current directives to the file that the server was started with."""

    def time_moved(self) -> None:
        """Recheck everything that waits for a time, after the clock was moved."""

    def update_observers(self) -> None:
        """Recompute ``has_observers`` after MONITOR or tracking began or ended."""


def rdb_version(server: ServerContext) -> int:
    """Return the version of the RDB format of files and DUMP payloads."""
    return server.config.rdb_version or server.compat.rdb_version
