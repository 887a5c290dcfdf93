"""MODULE: there are none, and none can be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ..spec.command import command, container
from ..spec.usage import help_lines
from . import specs as syntax

if TYPE_CHECKING:
    from ..runtime.client import Client

_NO_MODULES: Final = b"ERR Error loading the extension. Rillet has no module interface."

container("MODULE", since="4.0.0", group="server", summary="A container for module commands.")


# MODULE LIST
@command(
    "MODULE|LIST",
    arity=2,
    flags="admin noscript",
    tips=("nondeterministic_output_order",),
    since="4.0.0",
    group="server",
    complexity="O(N) where N is the number of loaded modules.",
    summary="Returns the loaded modules: none.",
    arguments=syntax.MODULE_LIST,
)
def module_list(client: Client, args: list[bytes]) -> bytes:
    """An empty array."""
    del client, args
    return replies.EMPTY_ARRAY


# MODULE LOAD path [arg [arg ...]]
@command(
    "MODULE|LOAD",
    arity=-3,
    flags="admin noscript no_async_loading",
    since="4.0.0",
    group="server",
    complexity="O(1)",
    summary="Loads a module. Not in Rillet.",
    arguments=syntax.MODULE_LOAD,
)
def module_load(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_NO_MODULES)


# MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]
@command(
    "MODULE|LOADEX",
    arity=-3,
    flags="admin noscript no_async_loading",
    since="7.0.0",
    group="server",
    complexity="O(1)",
    summary="Loads a module with parameters. Not in Rillet.",
    arguments=syntax.MODULE_LOADEX,
)
def module_loadex(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_NO_MODULES)


# MODULE UNLOAD name
@command(
    "MODULE|UNLOAD",
    arity=3,
    flags="admin noscript no_async_loading",
    since="4.0.0",
    group="server",
    complexity="O(1)",
    summary="Unloads a module. There are none.",
    arguments=syntax.MODULE_UNLOAD,
)
def module_unload(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(b"ERR Error unloading module: no such module with that name")


# MODULE HELP
@command(
    "MODULE|HELP",
    arity=2,
    flags="loading stale",
    since="5.0.0",
    group="server",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.MODULE_HELP,
)
def module_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("module"))
