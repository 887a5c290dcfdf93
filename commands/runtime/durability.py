"""Protocols of what commands may use of the server's files; see ``context``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...storage.aof.writer import AppendOnlyFile
    from ...storage.rdb import RdbInfo


class Rewrite(Protocol):
    """The rewrite of the append-only file; times are in seconds, -1 if there was none."""

    consecutive_failures: int
    count: int
    fork_microseconds: int
    forks: int
    last_ok: bool
    last_seconds: int
    scheduled: bool

    @property
    def in_progress(self) -> bool:
        """Whether one runs."""

    @property
    def current_seconds(self) -> int:
        """How long the running one takes so far."""

    @property
    def percent(self) -> float:
        """How much of it is done."""

    def ask(self, *, at_once: bool) -> bool | None:
        """Begin one now, or schedule it (returns None); returns False if that failed."""


class Persistence(Protocol):
    """The append-only file.

    Attributes:
        aof: None with ``appendonly no``.
        delayed_syncs: how often a write had to wait for the fsync of another thread.
        flush_delay: seconds to wait before each write (DEBUG AOF-FLUSH-SLEEP).
        loading_started: in milliseconds of Unix time.
        loaded_bytes: so far.
        total_bytes: of what is being loaded.
    """

    aof: AppendOnlyFile | None
    delayed_syncs: int
    flush_delay: float
    loaded_bytes: int
    loading_started: int
    total_bytes: int

    @property
    def is_syncing(self) -> bool:
        """Whether an fsync runs."""

    @property
    def rewrite(self) -> Rewrite:
        """The rewrite of the file."""

    def reload(self) -> None:
        """Load the file again and replace the data in memory."""


class Snapshots(Protocol):
    """The snapshots; times are in seconds, -1 if there was none.

    Attributes:
        info: the facts found when the last one was loaded.
        saves: how many were written.
        scheduled: one begins as soon as the rewrite of the AOF is over.
    """

    fork_microseconds: int
    forks: int
    info: RdbInfo
    consecutive_failures: int
    last_ok: bool
    last_seconds: int
    saves: int
    scheduled: bool

    @property
    def in_progress(self) -> bool:
        """Whether one is being written in the background."""

    @property
    def current_seconds(self) -> int:
        """How long that takes so far."""

    @property
    def percent(self) -> float:
        """How much of it is done."""

    def check_folder(self) -> None:
        """Check that this server may write the dump file.

        Raises:
            ReplyError: another server has the folder.
        """

    def start(self) -> bool:
        """Begin one in the background; returns False if that failed."""

    def save(self) -> None:
        """Write one now.

        Raises:
            OSError: it cannot be written.
        """

    def reload(self, *, save: bool = True, flush: bool = True, merge: bool = False) -> None:
        """Write one, load it again and replace the data in memory (DEBUG RELOAD)."""

    def after_flushall(self) -> None:
        """Empty the file on disk, too, if snapshots are configured."""
