"""What DEBUG sees of the server's own debugging: protocols of ``server/debugging``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...storage.keyspace.keyspace import Keyspace


class Recorded(Protocol):
    """One recorded command; ``server.debugging.recorder.Recorded`` says what each attribute is."""

    number: int
    time: int
    answered: int | None
    database: int
    client_id: int
    client_name: bytes
    words: list[bytes]
    reply: bytes | None
    fault: int


class Recording(Protocol):
    """The last commands since a moment.

    Attributes:
        dropped: how many commands it no longer has.
    """

    dropped: int

    @property
    def entries(self) -> Iterable[Recorded]:
        """The commands, the oldest first."""


class Recorder(Protocol):
    """The recordings of the server."""

    @property
    def recordings(self) -> Mapping[int, Recording]:
        """Those that are on, by their ID."""

    def start(self, last: int) -> int:
        """Begin a recording of the last commands; returns its ID."""

    def stop(self, number: int) -> Recording:
        """End a recording; raises KeyError if there is none with this ID."""

    def keys(self, entry: Any) -> list[bytes]:
        """Return the keys that a recorded command names."""


class Hit(Protocol):
    """What a fault hit; ``server.debugging.fault.Hit`` says what each attribute is."""

    @property
    def time(self) -> int:
        """In milliseconds of the server's clock."""

    @property
    def client_id(self) -> int:
        """0 for the disk."""

    @property
    def client_name(self) -> bytes:
        """Empty without one."""

    @property
    def command(self) -> bytes:
        """The command in upper case, or what else was hit."""

    @property
    def key(self) -> bytes:
        """Empty without one."""


class Fault(Protocol):
    """A fault that is on.

    Attributes:
        spec: the parsed options, with ``words`` as they were given.
        fitted: how many commands it might have hit.
        hit: how many it hit.
    """

    id: int
    spec: Any
    fitted: int
    hit: int

    @property
    def hits(self) -> Iterable[Hit]:
        """The last of what it hit."""


class Faults(Protocol):
    """The faults of the server."""

    @property
    def active(self) -> Mapping[int, Fault]:
        """Those that are on, by their ID, in the order of adding."""

    def add(self, spec: Any) -> int:
        """Begin a fault, as ``server.debugging.fault_spec`` parses it; returns its ID."""

    def remove(self, number: int) -> None:
        """End a fault; raises KeyError if there is none with this ID."""


class Snapshots(Protocol):
    """The snapshots of the data; each method raises ReplyError for a name that is not there.

    Attributes:
        by_name: those that are kept.
    """

    by_name: dict[bytes, Keyspace]

    def take(self, name: bytes) -> None:
        """Keep a copy of the data."""

    def restore(self, name: bytes) -> None:
        """Replace the data by a snapshot's."""

    def drop(self, name: bytes) -> None:
        """Forget a snapshot."""

    def dump(self, name: bytes) -> bytes:
        """Return a snapshot as an RDB file."""

    def load(self, name: bytes, data: bytes) -> None:
        """Keep the data of an RDB file; raises ReplyError if it cannot be read."""


class Debugging(Protocol):
    """What DEBUG adds to the commands of the server."""

    @property
    def recorder(self) -> Recorder:
        """DEBUG RECORD."""

    @property
    def faults(self) -> Faults:
        """DEBUG FAULT."""

    @property
    def snapshots(self) -> Snapshots:
        """DEBUG SNAPSHOT."""

    def reset(self) -> None:
        """End all faults and recordings."""
