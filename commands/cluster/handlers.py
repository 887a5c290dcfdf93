"""CLUSTER and related commands, as on a server without cluster mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.errors import ReplyError
from ..spec.command import handles, subcommands_of
from . import specs

if TYPE_CHECKING:
    from ..runtime.client import Client

DISABLED: Final = b"ERR This instance has cluster support disabled"


@handles(specs.READONLY, specs.READWRITE, specs.ASKING, *subcommands_of("cluster"))
def refuse(client: Client, args: list[bytes]) -> bytes:
    """Refuse: this server is no node of a cluster."""
    del client, args
    raise ReplyError(DISABLED)
