"""A command as one server runs it: what the dispatcher looks at for each call, and what it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...commands.streams.xadd_batch import add_together

if TYPE_CHECKING:
    from ...commands.spec.command import Command, Handler

# Never queued inside MULTI.
IMMEDIATE: Final = frozenset(("exec", "discard", "multi", "watch", "quit", "reset"))
# Commands of which several in one batch can be run together.
_SCRIPTS: Final = frozenset(("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"))
_TOGETHER: Final = {"xadd": add_together}


class Entry:
    """A command as one server runs it: the declaration, unpacked for speed, and its statistics."""

    __slots__ = (
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
        "together",
        "write",
    )

    def __init__(self, command: Command, handler: Handler) -> None:
        self.command = command
        self.name = command.name
        self.handler = handler
        self.minimum = abs(command.arity)
        self.maximum = command.arity if command.arity > 0 else 1 << 62
        self.write = "write" in command.flags
        self.readonly = "readonly" in command.flags
        # EXEC is skipped by the flag only because Redis feeds it by hand, after the commands it ran; so do we.
        self.feeds_monitor = command.name == "exec" or not command.flags & {"skip_monitor", "admin"}
        self.slowlogged = "skip_slowlog" not in command.flags
        self.runs_script = command.name in _SCRIPTS
        self.together = _TOGETHER.get(command.name)
        self.queued = command.name not in IMMEDIATE and "no_multi" not in command.flags  # inside MULTI
        self.reset()

    def reset(self) -> None:
        """Forget the statistics."""
        self.calls = 0
        self.nanoseconds = 0
        self.rejected = 0
        self.failed = 0
        self.histogram = [0] * 65  # calls by the bit length of their nanoseconds

    def percentile(self, percent: float) -> float:
        """Microseconds within which so many percent of the calls were done, to the precision of the histogram."""
        wanted = self.calls * percent / 100
        seen = 0
        for bits, calls in enumerate(self.histogram):
            seen += calls
            if calls and seen >= wanted:
                return float(1 << bits) / 1000
        return 0.0
