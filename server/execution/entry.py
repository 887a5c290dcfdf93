"""A command as one server runs it: what the dispatcher reads, and its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...commands.streams.xadd_batch import xadd_batch

if TYPE_CHECKING:
    from ...commands.spec.command import Command, Handler

# Never queued inside MULTI.
IMMEDIATE: Final = frozenset(("exec", "discard", "multi", "watch", "quit", "reset"))
_SCRIPTS: Final = frozenset(("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"))
# Commands of which several in one batch can run in one call.
_BATCH_HANDLERS: Final = {"xadd": xadd_batch}


class Entry:
    """A command as one server runs it: its unpacked declaration and its statistics."""

    __slots__ = (
        "batch_handler",
        "calls",
        "command",
        "failed",
        "feeds_monitor",
        "handler",
        "histogram",
        "maximum",
        "minimum",
        "name",
        "nanoseconds",
        "queued",
        "readonly",
        "rejected",
        "runs_script",
        "slowlogged",
        "write",
    )

    def __init__(self, command: Command, handler: Handler) -> None:
        self.declare(command)
        self.name = command.name
        self.handler = handler
        self.write = "write" in command.flags
        self.readonly = "readonly" in command.flags
        # The flag skips EXEC only because Redis feeds it to monitors by hand, after its commands; so do we.
        self.feeds_monitor = command.name == "exec" or not command.flags & {"skip_monitor", "admin"}
        self.slowlogged = "skip_slowlog" not in command.flags
        self.runs_script = command.name in _SCRIPTS
        self.batch_handler = _BATCH_HANDLERS.get(command.name)
        self.queued = command.name not in IMMEDIATE and "no_multi" not in command.flags  # inside MULTI
        self.reset()

    def declare(self, command: Command) -> None:
        """Take the record of a version, which has the same name and reads or writes the same."""
        self.command = command
        self.minimum = abs(command.arity)
        self.maximum = command.arity if command.arity > 0 else 1 << 62

    def reset(self) -> None:
        """Reset the statistics."""
        self.calls = 0
        self.nanoseconds = 0
        self.rejected = 0
        self.failed = 0
        self.histogram = [0] * 65  # calls by the bit length of their nanoseconds

    def percentile(self, percent: float) -> float:
        """Microseconds within which ``percent`` of the calls ended, as precise as the histogram."""
        wanted = self.calls * percent / 100
        seen = 0
        for bits, calls in enumerate(self.histogram):
            seen += calls
            if calls and seen >= wanted:
                return float(1 << bits) / 1000
        return 0.0
