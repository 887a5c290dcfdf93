"""A Rillet that reports how long the turns of its event loop take: `loop_time.py --port … --dir …` is `rillet` with LOOPTIME.

``LOOPTIME`` answers, in processor time of the thread that serves clients, the longest turn since it was last asked: its
microseconds, how many commands ran in it, the microseconds of the longest single piece of work in it and what that was.
Other processes that want the same core, which is what a client sees too, do not count.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rillet.__main__ import main
from rillet.commands.spec.command import Family, handles
from rillet.protocol import replies
from rillet.server import cron
from rillet.server.execution.background_jobs import BackgroundJobs
from rillet.server.execution.turns import Turns
from rillet.server.net.connection import Connection
from rillet.server.net.replies import Replies
from rillet.server.net.tls_channel import SecureChannel
from rillet.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from rillet.commands.runtime.client import Client


@dataclass
class Turn:
    """One turn of the loop, as far as it was watched.

    Attributes:
        begun: processor time of the thread when its first piece of work began; None between turns.
        commands: how many had run until then.
        piece: nanoseconds of the longest piece of work, and its name.
    """

    begun: int | None = None
    commands: int = 0
    piece: tuple[int, str] = (0, "")


class Watch:
    """Measures turns; one for the process."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.longest = (0, 0, (0, ""))
        self.collected = (0, "")  # the longest collection of garbage in the piece of work at hand
        self.server: Server | None = None

    def piece(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, watched. Pieces of work within pieces of work count as the outer ones."""

        @functools.wraps(work)
        def watched(owner: Any, *args: Any) -> Any:
            server = _server_of(owner)
            self.server = server
            turn = self.turn
            before = time.thread_time_ns()
            if turn.begun is None:
                turn.begun, turn.commands = before, server.stats.commands_processed
                asyncio.get_running_loop().call_soon(self.end)
            self.collected = (0, "")
            try:
                return work(owner, *args)
            finally:
                lasted = time.thread_time_ns() - before
                if lasted > turn.piece[0]:
                    collected, what = self.collected
                    if 2 * collected < lasted:
                        what = f"{name} {server.calls.current.name}" if name == "client:" else name
                    turn.piece = lasted, what

        return watched

    def end(self) -> None:
        """The next turn begins."""
        turn, self.turn = self.turn, Turn()
        if turn.begun is None or self.server is None:
            return
        lasted = time.thread_time_ns() - turn.begun
        if lasted > self.longest[0]:
            ran = self.server.stats.commands_processed - turn.commands
            self.longest = lasted, ran, turn.piece


def _server_of(owner: Any) -> Server:
    if isinstance(owner, Server):
        return owner
    return owner.server if isinstance(owner, Connection) else owner._server  # noqa: SLF001 - there is no public name for it


WATCH = Watch()


@handles(
    Family("rillet.server.debugging.commands", "server").read(
        "LOOPTIME",
        arity=1,
        flags="fast",
        since="1.0.0",
        summary="Returns the longest turn of the event loop since the last call.",
    )
)
def looptime(_client: Client, _args: list[bytes]) -> bytes:
    """[microseconds of the turn, commands in it, microseconds of its longest piece, what that was]."""
    WATCH.end()
    lasted, commands, (longest, name) = WATCH.longest
    WATCH.longest = (0, 0, (0, ""))
    return replies.array(
        [
            replies.integer(lasted // 1000),
            replies.integer(commands),
            replies.integer(longest // 1000),
            replies.bulk(name.encode()),
        ]
    )


def _watch_collections() -> None:
    """Distinguish a collection of garbage from the work in which it happens."""
    begun = [0]

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            begun[0] = time.thread_time_ns()
            return
        lasted = time.thread_time_ns() - begun[0]
        WATCH.collected = max(WATCH.collected, (lasted, f"collection of generation {info['generation']}"))

    gc.callbacks.append(note)


if __name__ == "__main__":
    for name, owner, method in (
        ("client:", Connection, "data_received"),
        ("client:", Turns, "_run"),
        ("tls", SecureChannel, "data_received"),
        ("tls", SecureChannel, "_read_on"),
        ("tls", SecureChannel, "_encrypt_on"),
        ("jobs", BackgroundJobs, "_run"),
        ("cron", cron, "step"),
        ("replies", Replies, "_end_turn"),
    ):
        setattr(owner, method, WATCH.piece(name, getattr(owner, method)))
    _watch_collections()
    sys.exit(main())
