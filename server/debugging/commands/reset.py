"""DEBUG RESET: the way back to the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol import replies
from ....protocol.errors import ReplyError
from ...access import server_of

if TYPE_CHECKING:
    from ....commands.runtime.client import Client


def reset(client: Client, _args: list[bytes]) -> bytes:
    """Reset the server; this connection keeps its protocol, its name and its login."""
    if client.in_exec:
        raise ReplyError(b"ERR DEBUG RESET is not possible inside a transaction")
    server_of(client).resetting.run(client)
    return replies.OK
