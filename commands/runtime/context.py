"""What a handler may ask of its server: protocols, for ``commands/`` knows nothing of ``server/``.

``server.server.Server`` implements them, and so does the fake server of the tests. A family of commands gets its own state
of a server by class: ``client.server.part(PubSub)``. Commands about the server itself are in ``server/`` and use the server
as it is (``server.access.server_of``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...storage.keyspace.keyspace import Keyspace
    from ..spec.versions import Compat
    from .calling import Calls, CommandTable, Eviction, Interceptor, Pause, Replication, Stats
    from .client import Client
    from .migration import Migrations
    from .propagation import Propagation
    from .tuning import ServerTuning
    from .users import Users

Part = TypeVar("Part")


class Clock(Protocol):
    """The server's time, in milliseconds of Unix time; tests and DEBUG may move it."""

    now: int

    def begin_unit(self) -> int:
        """Read the time for a script or a transaction, with microseconds; returns it in milliseconds."""


class Log(Protocol):
    """The server's log; each text is one line."""

    def notice(self, text: str) -> None:
        """Write a line about normal operation."""

    def warning(self, text: str, details: str = "") -> None:
        """Write a line that the operator should read; the lines of ``details`` follow it."""


class Blocking(Protocol):
    """The clients that wait for keys; ``Client.block`` adds one."""

    @property
    def served(self) -> Client | None:
        """The client whose blocked command is running again."""

    @property
    def resuming(self) -> bool:
        """Whether a command runs again for a client that waited."""

    @property
    def block(self) -> Callable[..., None]:
        """Let a client wait."""

    def unblock(self, client: Client, error: bytes | None = None, *, asked: bool = False) -> bool:
        """End the wait of a client as at its timeout, or with an error; False if it does not wait."""


class Jobs(Protocol):
    """Runs background work in small steps between requests."""

    def run_soon(self, job: Callable[[], bool]) -> None:
        """Call ``job`` again and again until it returns False."""


class Settings(Protocol):
    """The directives that commands read; ``server.config.config.Config`` has all of them."""

    acl_pubsub_default: str
    aclfile: str
    acllog_max_len: int
    busy_reply_threshold: int  # milliseconds
    cluster_enabled: bool
    dir: str
    hll_sparse_max_bytes: int
    lazyfree_lazy_expire: bool
    lazyfree_lazy_server_del: bool
    lazyfree_lazy_user_del: bool
    lazyfree_lazy_user_flush: bool
    lua_memory_limit: int  # bytes
    proto_max_bulk_len: int  # bytes
    rdb_version: int  # 0: that of ``compat``; see the function
    requirepass: bytes
    stream_node_max_bytes: int
    stream_node_max_entries: int
    tracking_table_max_keys: int
    users: list[list[bytes]]


class ServerContext(Protocol):
    """The server as a handler sees it.

    Attributes:
        current_client: the client whose batch is running.
        disk_error: the reply to writes while the AOF cannot be written.
        mode: ``standalone``, ``cluster`` or ``sentinel``, as HELLO shows it.
        role: ``master`` or ``slave``.
        snapshot_error: the reply to writes while the last background save failed.
    """

    compat: Compat
    keyspace: Keyspace
    users: Users
    tuning: ServerTuning
    clients: dict[int, Client]
    monitors: set[Client]
    current_client: Client | None
    needs_all_checks: bool
    has_observers: bool
    disk_error: bytes | None
    snapshot_error: bytes | None
    mode: str
    role: str

    @property
    def interceptor(self) -> Interceptor | None:
        """What sees the commands of clients; usually None."""

    @property
    def version(self) -> str:
        """The version of Redis that the server presents."""

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
    def dispatcher(self) -> CommandTable:
        """The commands."""

    @property
    def calls(self) -> Calls:
        """The way to run one of them."""

    @property
    def stats(self) -> Stats:
        """The counters of INFO."""

    @property
    def eviction(self) -> Eviction:
        """The refusals under ``maxmemory``."""

    @property
    def replication(self) -> Replication:
        """What the server's role forbids."""

    @property
    def pause(self) -> Pause:
        """CLIENT PAUSE."""

    @property
    def migrations(self) -> Migrations:
        """MIGRATE."""

    @property
    def in_script(self) -> bool:
        """Whether a script or a function is running."""

    def part(self, kind: type[Part], /) -> Part:
        """Return the server's one object of a class that a family of commands defines."""

    def after_flushall(self) -> None:
        """Empty the dump file, too, if snapshots are configured."""

    def end_control(self, client: Client) -> None:
        """RESET: make a plain client of a control connection."""

    def update_observers(self) -> None:
        """Recompute ``has_observers`` after MONITOR or tracking began or ended."""


def rdb_version(server: ServerContext) -> int:
    """Return the version of the RDB format of files and DUMP payloads."""
    return server.config.rdb_version or server.compat.rdb_version
