"""A script that runs: for whom, as which client, since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ...runtime.client import Client

if TYPE_CHECKING:
    from ...runtime.context import ServerContext


class ScriptClient(Client):
    """Who runs the commands of a script: its own database and protocol, everything else as its caller."""

    is_script: ClassVar[bool] = True
    __slots__ = ()

    def __init__(self, server: ServerContext) -> None:
        super().__init__(server)
        self.address = b"lua"
        self.in_exec = True  # nothing blocks in a script

    def stand_in_for(self, caller: Client) -> None:
        """Begin a script for a client."""
        self.db = caller.db
        self.resp = 2
        self.user = caller.user
        self.authenticated = caller.authenticated
        self.trusted = caller.trusted
        self.id = caller.id
        self.name = caller.name
        self.fieldsets = None
