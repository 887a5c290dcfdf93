"""CONFIG: reading and changing the configuration of a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ..spec.command import command, container
from ..spec.usage import help_lines
from . import specs as syntax

if TYPE_CHECKING:
    from ..runtime.client import Client

_FLAGS: Final = "admin noscript loading stale"
_TIPS: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")

container(
    "CONFIG", since="2.0.0", group="server", summary="A container for commands that configure the server."
)


# CONFIG GET parameter [parameter ...]
@command(
    "CONFIG|GET",
    arity=-3,
    flags=_FLAGS,
    since="2.0.0",
    group="server",
    complexity="O(N) where N is the number of configuration parameters asked for",
    summary="Returns the parameters that names or patterns fit, and their values.",
    history=syntax.CONFIG_GET_HISTORY,
    arguments=syntax.CONFIG_GET,
)
def config_get(client: Client, args: list[bytes]) -> bytes:
    """Answer a map of names and values; what nothing fits is left out."""
    found = client.server.config.get(args[2:])
    return replies.map_of([(name, replies.bulk(value)) for name, value in found.items()], client.resp)


# CONFIG SET parameter value [parameter value ...]
@command(
    "CONFIG|SET",
    arity=-4,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.0.0",
    group="server",
    complexity="O(N) where N is the number of configuration parameters given",
    summary="Changes parameters, all of them or none.",
    history=syntax.CONFIG_SET_HISTORY,
    arguments=syntax.CONFIG_SET,
)
def config_set(client: Client, args: list[bytes]) -> bytes:
    """Change several parameters as one."""
    if len(args) % 2:
        raise ReplyError(SYNTAX)
    client.server.config.set(list(zip(args[2::2], args[3::2], strict=True)), local=_is_local(client))
    return replies.OK


# CONFIG REWRITE
@command(
    "CONFIG|REWRITE",
    arity=2,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.8.0",
    group="server",
    complexity="O(1)",
    summary="Writes the present configuration into the configuration file.",
    arguments=syntax.CONFIG_REWRITE,
)
def config_rewrite(client: Client, args: list[bytes]) -> bytes:
    """Bring the file that the server was started with up to date."""
    del args
    client.server.config.rewrite()
    return replies.OK


# CONFIG RESETSTAT
@command(
    "CONFIG|RESETSTAT",
    arity=2,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.0.0",
    group="server",
    complexity="O(1)",
    summary="Sets the statistics of INFO back to zero.",
    arguments=syntax.CONFIG_RESETSTAT,
)
def config_resetstat(client: Client, args: list[bytes]) -> bytes:
    """Start counting anew."""
    del args
    client.server.stats.reset()
    client.server.keyspace.reset_statistics()
    return replies.OK


# CONFIG HELP
@command(
    "CONFIG|HELP",
    arity=2,
    flags="loading stale",
    since="5.0.0",
    group="server",
    complexity="O(1)",
    summary="Returns the subcommands and what they do.",
    arguments=syntax.CONFIG_HELP,
)
def config_help(client: Client, args: list[bytes]) -> bytes:
    """Answer the help text."""
    del client, args
    return replies.simple_array(help_lines("config"))


def _is_local(client: Client) -> bool:
    """Whether the client is on this machine; internal clients have the address ``?:0``."""
    return client.unix_socket or client.address.startswith((b"127.", b"[::1]", b"?"))
