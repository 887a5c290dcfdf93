"""The table ``redis`` of scripts without redis.call: log, setresp, set_repl, acl_check_cmd, sha1hex, and constants."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import ReplyError
from ...spec.command import REGISTRY, Command
from ...spec.versions import Compat
from .interpreter import ScriptError
from .redis_call import words_of
from .script_run import Run

if TYPE_CHECKING:
    from ...runtime.context import Server

_LOG_LEVELS: Final = ("debug", "verbose", "notice", "warning")
_ALL: Final = 3
_TO_AOF: Final = 1
_TO_REPLICAS: Final = 2


def redis_constants(compat: Compat) -> dict[bytes, object]:
    """Return the constants of the table ``redis``."""
    release = compat.release
    major, minor, patch = (int(part) for part in release.split("."))
    return {
        b"LOG_DEBUG": 0,
        b"LOG_VERBOSE": 1,
        b"LOG_NOTICE": 2,
        b"LOG_WARNING": 3,
        b"REPL_NONE": 0,
        b"REPL_AOF": _TO_AOF,
        b"REPL_SLAVE": _TO_REPLICAS,
        b"REPL_REPLICA": _TO_REPLICAS,
        b"REPL_ALL": _ALL,
        b"REDIS_VERSION": release.encode(),
        b"REDIS_VERSION_NUM": major << 16 | minor << 8 | patch,
    }


def redis_functions(server: Server, running: Callable[[], Run | None]) -> dict[bytes, Callable[..., Any]]:
    """Return the functions of the table ``redis``, without redis.call; ``running`` returns the running script."""
    return {
        b"sha1hex": _sha1hex,
        b"log": partial(_log, server),
        b"setresp": partial(_setresp, running),
        b"set_repl": partial(_set_repl, running),
        b"acl_check_cmd": partial(_acl_check, server, running),
    }


def _log(server: Server, level: float, text: bytes) -> None:
    if not -1 < level < len(_LOG_LEVELS):  # C truncates a fraction
        kind = b"log" if server.compat.knows("7.2") else b"debug"
        raise ScriptError(b"ERR Invalid %b level." % kind)
    write = getattr(server.log, _LOG_LEVELS[int(level)])
    write(text.decode(errors="backslashreplace"))


def _setresp(running: Callable[[], Run | None], *values: object) -> None:
    if len(values) != 1:
        raise ScriptError(b"ERR redis.setresp() requires one argument.")
    if values[0] not in {2, 3, b"2", b"3"}:
        raise ScriptError(b"ERR RESP version must be 2 or 3.")
    run = running()
    assert run is not None
    run.client.resp = int(values[0])


def _set_repl(running: Callable[[], Run | None], *values: object) -> None:
    if len(values) != 1:
        raise ScriptError(b"ERR redis.set_repl() requires two arguments.")
    flags = values[0] if isinstance(values[0], (int, float)) else 0
    if not math.isfinite(flags) or int(flags) & ~_ALL:
        raise ScriptError(
            b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."
        )
    run = running()
    assert run is not None
    run.propagates_to = bool(int(flags) & _TO_AOF), bool(int(flags) & _TO_REPLICAS)


def _acl_check(server: Server, running: Callable[[], Run | None], *values: object) -> bool:
    argv = words_of(values, server.compat)
    command = _command_to_check(server, argv)
    run = running()
    user = server.users.default if run is None else run.client.user
    return user.check(command, argv) is None


def _command_to_check(server: Server, argv: list[bytes]) -> Command:
    checks_arity = server.compat.knows("8.4")
    try:
        entry = server.dispatcher.find(argv)
    except ReplyError as error:
        if b"wrong number" not in error.text:
            raise ScriptError(b"ERR Invalid command passed to redis.acl_check_cmd()") from error
        if not checks_arity:
            return REGISTRY[argv[0].lower().decode("latin-1")]  # a container without a subcommand
    else:
        if not checks_arity or entry.minimum <= len(argv) <= entry.maximum:
            return entry.command
    raise ScriptError(b"ERR Wrong number of args for redis.acl_check_cmd()")


def _sha1hex(*values: object) -> bytes:
    if len(values) != 1:
        raise ScriptError(b"ERR wrong number of arguments")
    text = values[0] if isinstance(values[0], bytes) else b""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
