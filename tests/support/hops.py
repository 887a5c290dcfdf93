"""The way of a command through the project: which functions run between its bytes and its reply, and in which modules.

with LiveServer() as server, server.wire() as wire:
    journey = travel(server, wire, "PING")
    print(len(journey.modules), journey.hops)      # files entered, changes from one file to another

Only calls into the project count, in their order; returns do not. Replies are written to the real socket.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from support.live import LiveServer
from support.wire import Wire, encode_command

ROOT = Path(__file__).parents[2]
ROOMS = tuple(f"{ROOT / room}/" for room in ("protocol", "storage", "commands", "server"))


class Journey:
    """The calls of one command.

    Attributes:
        calls: file (relative to the project, without suffix) and function of each, in order.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take an event of ``sys.setprofile``."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOMS):
            self.calls.append((code.co_filename.removeprefix(f"{ROOT}/").removesuffix(".py"), code.co_name))

    @property
    def modules(self) -> set[str]:
        """The files entered."""
        return {module for module, _ in self.calls}

    @property
    def hops(self) -> int:
        """How often a call goes to another file than the call before it."""
        return sum(one != other for (one, _), (other, _) in pairwise(self.calls))

    def __repr__(self) -> str:
        """The calls, a line for each stay in a file."""
        lines: list[str] = []
        module = ""
        for here, function in self.calls:
            if here != module:
                lines.append(f"{here}:")
                module = here
            lines[-1] += f" {function}"
        return f"{len(self.modules)} modules, {self.hops} hops\n" + "\n".join(lines)


def travel(
    server: LiveServer, wire: Wire, *words: bytes | str | int, first: Callable[[], object] = bool
) -> Journey:
    """Run one command of a client, which has nothing else under way, and return its journey.

    Args:
        first: is called just before, in the same turn of the server's loop.
    """
    number = wire.call("CLIENT", "ID").value
    connection: Any = server.inside.clients[int(number)]
    journey = Journey()

    def run() -> None:
        first()
        sys.setprofile(journey.note)
        try:
            connection.data_received(encode_command(*words))
        finally:
            sys.setprofile(None)

    server.run_inside(run)
    return journey
