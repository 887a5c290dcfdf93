"""Protocols of what commands may use of the server's replicas and its master; see ``context``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .client import Client


@dataclass(frozen=True, slots=True)
class Migration:
    """The request of MIGRATE.

    Attributes:
        port: below 0 for none that can be connected to.
        database: of the target; -1 for the one that its connections have at first.
        timeout: of each step, in milliseconds.
        copy: the keys stay here.
        replace: keys of the target are overwritten.
        credentials: a password, or a user and a password; empty for none.
    """

    host: str
    port: int
    database: int
    timeout: int
    keys: list[bytes]
    copy: bool
    replace: bool
    credentials: list[bytes]


class Migrations(Protocol):
    """The keys on their way to other servers."""

    def start(self, client: Client, argv: list[bytes], migration: Migration) -> None:
        """Block a client until its keys are moved."""


class Replica(Protocol):
    """A client that is our replica, or is about to become one.

    Attributes:
        acknowledged: the offset that it has applied; -1 before its first ACK.
        held_bytes: bytes that wait until its snapshot is sent.
        host: as announced by REPLCONF; empty: the address of its connection.
        needs_nothing: it requested a snapshot without data.
        rillet: the version of Redis that it answers as, if it is a Rillet.
        only_snapshot: it disconnects after the snapshot.
        port: the port on which it serves clients.
        reads_eof: it accepts a snapshot whose length is not known at the start.
        receives_two_channels: it can get snapshot and stream at the same time, as Redis from 8.0 on.
        reads_new_id: it accepts a new replication ID of its master.
        version: of its server, as announced by REPLCONF.
    """

    acknowledged: int
    held_bytes: int
    host: bytes
    needs_nothing: bool
    rillet: tuple[int, int] | None
    only_snapshot: bool
    receives_two_channels: bool
    port: int
    reads_eof: bool
    reads_new_id: bool
    state: str
    version: bytes

    @property
    def rdb_version(self) -> int:
        """The version of the RDB format that it reads."""

    @property
    def is_replica(self) -> bool:
        """Whether it asked for the replication stream."""

    @property
    def address(self) -> bytes:
        """Its host and port for clients."""

    def pause(self) -> None:
        """Stop sending: its connection is full."""

    def resume(self) -> None:
        """Send again."""


class Replicas(Protocol):
    """All replicas of this server.

    Attributes:
        good: how many are online and lag at most min-replicas-max-lag.
    """

    full_syncs: int
    good: int
    partial_syncs: int
    refused_partial_syncs: int

    @property
    def connected(self) -> Mapping[Any, Replica]:
        """All of them, by connection."""

    @property
    def online(self) -> Sequence[Replica]:
        """Those that have their snapshot."""

    def introduce(self, client: Client) -> Replica:
        """Return the record of a client that sends REPLCONF."""

    def synchronize(self, client: Client, replication_id: bytes, offset: int, *, old: bool = False) -> bytes:
        """Make a client a replica; returns the bytes to send at once, empty while a snapshot is written."""

    def acknowledge(self, client: Client, offset: int, on_disk: int | None) -> None:
        """Record the offset that a replica has applied."""

    def lag(self, replica: Any) -> int:
        """Return how many seconds ago a replica was heard of."""


class Failover(Protocol):
    """The hand-over of the master's role to a replica."""

    state: str

    @property
    def active(self) -> bool:
        """Whether one is under way."""

    def start(self, target: tuple[bytes, int] | None, timeout: int | None, *, forced: bool) -> None:
        """Hand over to a replica (None: to any) once it has the whole stream, within milliseconds."""

    def find(self, target: tuple[bytes, int]) -> Replica | None:
        """Return the replica with this host and port."""

    def abort(self, reason: str) -> None:
        """Remain the master."""


class IncomingSnapshot(Protocol):
    """The snapshot that our master sends.

    Attributes:
        received: bytes so far.
        total: all bytes; -1 if that is not known.
    """

    received: int
    total: int


class MasterLink(Protocol):
    """The connection to our master.

    Attributes:
        down_since: on the clock of the event loop, in seconds.
        last_io: the same, of the last bytes that came.
        state: ``connect``, ``connecting``, ``handshake``, ``sync`` or ``connected``.
    """

    down_since: float
    host: str
    last_io: float
    port: int
    state: str

    @property
    def receiver(self) -> IncomingSnapshot | None:
        """The snapshot, while it comes."""

    def acknowledge(self) -> None:
        """Send our offset to the master."""


class Waits(Protocol):
    """The clients in WAIT and WAITAOF."""

    def add(self, client: Client, argv: list[bytes], timeout: int, replicas: int, local: int | None) -> None:
        """Let a client wait, at most ``timeout`` milliseconds (0: no limit)."""

    def count(self, offset: int, *, on_disk: bool) -> int:
        """Return how many replicas have applied an offset, or have it on their disk."""


class Replication(Protocol):
    """The server's place in replication.

    Attributes:
        id: the replication ID.
        id2: the previous replication ID, which replicas may continue up to ``second_offset``.
        offset: the length of the replication stream in bytes.
    """

    id: str
    id2: str
    offset: int
    second_offset: int

    @property
    def backlog(self) -> Backlog | None:
        """The backlog; None if none is kept."""

    @property
    def link(self) -> MasterLink | None:
        """The connection to our master; None on a master."""

    @property
    def failover(self) -> Failover:
        """The hand-over of our role."""

    @property
    def replicas(self) -> Replicas:
        """Our replicas."""

    @property
    def waits(self) -> Waits:
        """The clients in WAIT and WAITAOF."""

    @property
    def is_readonly(self) -> bool:
        """Whether clients may not write here."""

    @property
    def is_stale(self) -> bool:
        """Whether the data is old and clients may not read it."""

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer replicas are good than min-replicas-to-write requires."""

    def follow(self, host: str, port: int) -> None:
        """Become a replica."""

    def lead(self) -> None:
        """Become a master."""

    def forget_second(self) -> None:
        """Drop ``id2``."""


class Backlog(Protocol):
    """The newest part of the replication stream."""

    @property
    def first_promised(self) -> int:
        """The offset of its first byte."""

    def __len__(self) -> int: ...
