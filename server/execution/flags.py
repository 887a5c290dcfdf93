"""The flags of a command as the checks read them; scripts may declare theirs, and EXEC takes those of its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...commands.runtime.client import Client
from ...protocol.errors import ReplyError

if TYPE_CHECKING:
    from ..server import Server
    from .command_entry import CommandEntry

# EXEC has the flags of _OF_ANY if one of its commands has them, and those of _OF_ALL only if all have them.
_OF_ANY = frozenset(("write", "may_replicate"))
_OF_ALL = frozenset(("stale", "loading"))


def flags_of(server: Server, client: Client, entry: CommandEntry, argv: list[bytes]) -> frozenset[str]:
    """Return the flags by which the checks refuse a command and the pause postpones it.

    A script has the flags that it declares, and EXEC adds those of the queued commands.
    """
    if entry.runs_script:
        return _of_script(server, entry, argv)
    flags = entry.command.flags
    if entry.name == "exec" and client.transaction is not None:
        for queued, words in client.transaction.commands:
            of_one = queued.command.flags
            if queued.runs_script:
                of_one = _of_script(server, queued, words)
            flags = (flags | (of_one & _OF_ANY)) - (_OF_ALL - of_one)
    return flags


def _of_script(server: Server, entry: CommandEntry, argv: list[bytes]) -> frozenset[str]:
    """Return the flags of a script call; a script without a shebang line is checked while it runs."""
    flags = entry.command.flags
    if len(argv) < 3:  # a call with the wrong number of arguments
        return flags
    from ...commands.scripting.lua.shebang import ALLOW_OOM, ALLOW_STALE, NO_WRITES

    is_known, declared = _declared(server, entry.name, argv[1])
    if not is_known or declared is None:
        return flags
    flags -= {"may_replicate", "stale"}
    if ALLOW_STALE in declared:
        flags |= {"stale"}
    if NO_WRITES not in declared:
        flags |= {"write"} if ALLOW_OOM in declared else {"write", "denyoom"}
    return flags


def _declared(server: Server, name: str, body: bytes) -> tuple[bool, frozenset[str] | None]:
    """Return whether the script is known, and the flags of its shebang line; None without that line."""
    from ...commands.scripting.lua.shebang import read_script_shebang

    scripting = server.scripting
    try:
        if name.startswith("fcall"):
            function = scripting.functions.find(body)
            return function is not None, None if function is None else function.flags
        if name.startswith("evalsha"):
            script = scripting.scripts.find(body)
            return script is not None, None if script is None else script.flags
        return True, read_script_shebang(body)[0]
    except ReplyError:
        return False, None  # a wrong shebang line, or no Lua: running the script raises the error
