"""MODULE: Rillet has no modules, and can load none."""

from __future__ import annotations

from typing import Final

from ...commands.runtime.client import Client
from ...commands.spec.command import handles
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import ReplyError
from . import specs

_NO_MODULES: Final = b"ERR Error loading the extension. Rillet has no module interface."


@handles(specs.MODULE_LIST)
def module_list(_client: Client, _args: list[bytes]) -> bytes:
    """Reply with an empty array: there are no modules."""
    return replies.EMPTY_ARRAY


@handles(specs.MODULE_LOAD, specs.MODULE_LOADEX)
def module_load(_client: Client, _args: list[bytes]) -> bytes:
    """Refuse MODULE LOAD and LOADEX with an error: there are no modules."""
    raise ReplyError(_NO_MODULES)


@handles(specs.MODULE_UNLOAD)
def module_unload(_client: Client, _args: list[bytes]) -> bytes:
    """Refuse MODULE UNLOAD with an error: there are no modules."""
    raise ReplyError(b"ERR Error unloading module: no such module with that name")


handles(specs.MODULE_HELP, container="module")(help_of)
