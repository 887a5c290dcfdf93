"""The state of the running script: its client, whether it has written, where its effects go, how it must end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ...runtime.client import Client

if TYPE_CHECKING:
    from ...runtime.context import Server

ANY_SLOT: Final = -1


class ScriptClient(Client):
    """The client of a script's commands: it has its own database and protocol, the rest comes from its caller."""

    is_script: ClassVar[bool] = True
    __slots__ = ("slot",)

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.address = b"lua"
        self.in_exec = True  # nothing blocks in a script
        # On a cluster node, the hash slot of all its keys, ANY_SLOT before the first; None if they may have several.
        self.slot: int | None = None

    def stand_in_for(self, caller: Client) -> None:
        """Take over the user, database and other properties of the client that begins a script."""
        self.db = caller.db
        self.resp = 2
        self.user = caller.user
        self.authenticated = caller.authenticated
        self.trusted = caller.trusted
        self.replays = caller.replays
        self.id = caller.id
        self.name = caller.name
        self.fieldsets = None
        self.asked = caller.asked
        self.reads_replica = caller.reads_replica
        self.slot = None


@dataclass(slots=True)
class Run:
    """One running script or function."""

    server: Server
    caller: Client
    client: ScriptClient
    name: bytes  # the SHA1 of a script, the name of a function
    command: list[bytes]  # the words of the command that called it
    is_function: bool
    read_only: bool
    started: int  # nanoseconds of perf_counter
    # Whether its effects go to (the AOF, the replicas), by redis.set_repl.
    propagates_to: tuple[bool, bool] = (True, True)
    wrote: bool = False  # one of its commands may have changed data
    allow_oom: bool = False  # it declared that it needs little memory, and may write when there is none left
    noted_slow: bool = False
    end_with: bytes | None = None  # the text with which it must end at the next interrupt
    looked: int = 0  # the time of the last interrupt, like ``started``; 0 before the first
    served: int = 0  # the time when other clients were last served, likewise
    own_errors: int = 0  # the number of errors in its reply that are not from commands
