"""What a command may ask that runs others: EVAL, FCALL, EXEC, and the rules of ACL; see ``context``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from ..spec.command import Command
    from .client import Client


class Stats(Protocol):
    """The counters of INFO that handlers raise."""

    denied: dict[bytes, int]  # refusals of the ACL by kind
    without_subcommand: Counter[str]  # refusals of a command that has subcommands

    def count_error(self, text: bytes) -> None:
        """Count an error reply by its code."""


class CommandEntry(Protocol):
    """A command as this server runs it."""

    command: Command
    name: str
    minimum: int  # words, name included
    maximum: int
    rejected: int
    nanoseconds: int  # of all its calls
    write: bool
    runs_script: bool


class CommandTable(Protocol):
    """The commands that this server knows, by their names in lower case."""

    @property
    def commands(self) -> Mapping[str, Command]:
        """Every command and subcommand as its version declared it, containers too."""

    def own_name(self, typed: bytes) -> str | None:
        """Return Redis' own name of a command as clients call it; None if no command has that name."""

    def find(self, argv: list[bytes]) -> CommandEntry:
        """Return the command or subcommand that these words name, or raise ReplyError."""

    def check(self, client: Client, entry: Any, argv: list[bytes]) -> bytes | None:
        """Return the error if the server refuses the command now, else None; ``entry`` comes from ``find``."""


class Calls(Protocol):
    """The way to run a command inside another; each ``entry`` comes from ``CommandTable.find``."""

    def call(self, client: Client, entry: Any, argv: list[bytes]) -> bytes | None:
        """Run a command that passed every check, and record its statistics."""

    def call_queued(
        self, client: Client, commands: list[tuple[Any, list[bytes]]], *, ends: bool = True
    ) -> list[bytes]:
        """Run the commands of a transaction; returns their replies."""

    def note_failure(self) -> None:
        """Count the running command as failed, although it replies: its reply has an error."""

    def feed_monitors(self, client: Client, argv: list[bytes]) -> None:
        """Send a command to every client in MONITOR."""

    def track(
        self, client: Client, entry: Any, argv: list[bytes], *, script: list[bytes] | None = None
    ) -> None:
        """Record the keys that a command has read, if its client tracks them."""


class Eviction(Protocol):
    """The refusals under ``maxmemory``.

    Attributes:
        out_of_memory: the limit was exceeded, and no key could go.
    """

    out_of_memory: bool

    def refuses_in_script(self, entry: Any) -> bool:
        """Whether a script may not run a command because memory is short; ``entry`` comes from ``find``."""


class Replication(Protocol):
    """What the server's role forbids."""

    @property
    def is_readonly(self) -> bool:
        """Whether clients may not write here."""

    @property
    def is_stale(self) -> bool:
        """Whether the data is old and clients may not read it."""

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer replicas are good than min-replicas-to-write requires."""


class Interceptor(Protocol):
    """What sees the commands of clients while DEBUG records them or lets some fail."""

    def scripted(
        self, caller: Client, script: list[bytes], client: Client, argv: list[bytes], reply: bytes
    ) -> None:
        """Take note of a write command that a script ran.

        Args:
            caller: the client that sent the script.
            script: the words by which it did.
            client: the sender of the command.
        """


class Pause(Protocol):
    """CLIENT PAUSE."""

    def begin(self, until: int, *, writes_only: bool) -> None:
        """Postpone commands until a time in milliseconds."""

    def end(self) -> None:
        """Run the postponed commands."""
