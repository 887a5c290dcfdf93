"""The whole server, for the commands about it: what a data command may ask is in ``commands/runtime/context.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ..commands.runtime.client import Client
    from .server import Server


def server_of(client: Client) -> Server:
    """Return the server of a client."""
    return cast("Server", client.server)
