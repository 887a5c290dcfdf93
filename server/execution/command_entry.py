"""A command as one server runs it: the fields that the dispatcher reads, and the counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from ...commands.spec.command import Command

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ...commands.spec.command import BatchHandler, Handler

# Never queued inside MULTI.
IMMEDIATE: Final = frozenset(("exec", "discard", "multi", "watch", "quit", "reset"))
_SCRIPTS: Final = frozenset(("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"))


def not_yet_found(_client: Client, args: list[bytes]) -> NoReturn:
    """Placeholder for the handler of a command that no client has sent yet; ``Dispatcher.find`` replaces it."""
    raise RuntimeError(f"{args[:1]} runs without Dispatcher.find")


class CommandEntry:
    """A command as one server runs it: fields of its record for fast access, its handlers and its statistics."""

    __slots__ = (
        "batch_handler", "calls", "command", "failed", "feeds_monitor", "handler", "histogram", "maximum",
        "minimum", "name", "nanoseconds", "queued", "readonly", "rejected", "runs_script", "slowlogged",
        "write",
    )  # fmt: skip

    def __init__(self, command: Command) -> None:
        self.declare(command)
        self.name = command.name
        self.handler: Handler = not_yet_found
        self.batch_handler: BatchHandler | None = None  # runs several of a batch in one call
        self.write = "write" in command.flags
        self.readonly = "readonly" in command.flags
        # EXEC has skip_monitor only because Redis feeds it to monitors explicitly, after its commands; so do we.
        self.feeds_monitor = command.name == "exec" or not command.flags & {"skip_monitor", "admin"}
        self.slowlogged = "skip_slowlog" not in command.flags
        self.runs_script = command.name in _SCRIPTS
        self.queued = command.name not in IMMEDIATE and "no_multi" not in command.flags  # inside MULTI
        self.reset()

    def serve(self, handler: Handler, batch_handler: BatchHandler | None) -> None:
        """Set the handler and the batch handler, which runs several commands in one call, or None."""
        self.handler = handler
        self.batch_handler = batch_handler

    def declare(self, command: Command) -> None:
        """Use the record that a Redis version has for this command; name, read and write flag must stay the same."""
        self.command = command
        self.minimum = abs(command.arity)
        self.maximum = command.arity if command.arity > 0 else 1 << 62

    def reset(self) -> None:
        """Reset the command's statistics (CONFIG RESETSTAT)."""
        self.calls = self.nanoseconds = self.rejected = self.failed = 0
        self.histogram = [0] * 65  # calls by the bit length of their nanoseconds

    def count(self, nanoseconds: int) -> None:
        """Count a call of the command that took so many nanoseconds; ``Calls.call`` has a copy of this."""
        self.calls += 1
        self.nanoseconds += nanoseconds
        self.histogram[nanoseconds.bit_length()] += 1

    def percentile(self, percent: float) -> float:
        """Return an upper bound, in microseconds, of the time that ``percent`` of the calls took; 0 without calls.

        The histogram counts by powers of two, so the bound may be twice the time.
        """
        wanted = self.calls * percent / 100
        seen = 0
        for bits, calls in enumerate(self.histogram):
            seen += calls
            if calls and seen >= wanted:
                return float(1 << bits) / 1000
        return 0.0
