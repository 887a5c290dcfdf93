"""redis.call: run a command for a script, with every check that a client's command passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....protocol.errors import OOM, ReplyError
from ...runtime.denials import refusal_in_script
from ...spec.versions import Compat
from .conversions import NotAWordError, format_number, format_number_7_0, to_lua, to_words
from .interpreter import Interpreter, ScriptError
from .script_run import Run

if TYPE_CHECKING:
    from ...runtime.context import CommandEntry

_NO_WORDS: Final = b"ERR Please specify at least one argument for this redis lib call"
_NOT_WORDS: Final = b"ERR Lua redis lib command arguments must be strings or integers"
_UNKNOWN: Final = b"ERR Unknown Redis command called from script"
_WRONG_ARITY: Final = b"ERR Wrong number of args calling Redis command from script"
_NOT_ALLOWED: Final = b"ERR This Redis command is not allowed from script"
_READ_ONLY: Final = b"ERR Write commands are not allowed from read-only scripts."
_SMALL: Final = 4096  # bytes of a reply that always fits

# Nanoseconds. Lua calls the interrupt every 100,000 instructions, or 14,000 calls: so slow commands call it themselves.
_SLOW: Final = 50_000
_STALE: Final = b"ERR Can not execute the command on a stale replica"


def words_of(values: tuple[object, ...], compat: Compat) -> list[bytes]:
    """Return the words of a command from the arguments of redis.call.

    Raises ScriptError: there are none, or one is neither a string nor a number.
    """
    if not values:
        raise ScriptError(_NO_WORDS)
    try:
        return to_words(values, format_number if compat.shortest_doubles else format_number_7_0)
    except NotAWordError as error:
        raise ScriptError(_NOT_WORDS) from error


def call(run: Run, interpreter: Interpreter, values: tuple[object, ...]) -> Any:
    """Run one command for a script and return its reply as a value of Lua.

    Raises ScriptError: the command was refused, or returned an error.
    """
    argv = words_of(values, run.server.compat)
    client, server = run.client, run.server
    entry = _allowed(run, argv)
    effects = server.propagation.effects
    before, spent = len(effects), entry.nanoseconds
    is_limited = run.propagates_to != (True, True)
    if is_limited:
        server.propagation.begin_limited()
    reply = server.calls.call(client, entry, argv)
    run.caller.total_commands += 1
    if is_limited:
        server.propagation.limit(before, aof=run.propagates_to[0], replicas=run.propagates_to[1])
    if server.has_observers:
        server.calls.track(run.caller, entry, argv, script=run.command)
    assert reply is not None, f"{entry.name} did not answer a script"
    if server.interceptor is not None and entry.write:
        server.interceptor.scripted(run.caller, run.command, client, argv, reply)
    if entry.nanoseconds - spent > _SLOW:
        interpreter.poll()
    if reply[0] == 45:  # a minus: an error
        raise ScriptError(reply[1:-2], counted=True)
    if len(reply) > _SMALL:
        interpreter.expect_room_for(reply)
    return to_lua(reply, interpreter.table)


def _allowed(run: Run, argv: list[bytes]) -> CommandEntry:
    """Return the entry of a command that this script may run now."""
    server = run.server
    dispatcher = server.dispatcher
    try:
        entry = dispatcher.find(argv)
    except ReplyError as error:
        text = _UNKNOWN
        if b"wrong number" in error.text:
            text = _WRONG_ARITY
            server.stats.without_subcommand[argv[0].lower().decode("latin-1")] += 1
        raise _refused(run, None, text) from error
    if not entry.minimum <= len(argv) <= entry.maximum:
        raise _refused(run, entry, _WRONG_ARITY)
    flags = entry.command.flags
    if "noscript" in flags:
        raise _refused(run, entry, _NOT_ALLOWED)
    if (
        server.needs_all_checks
        and server.replication.is_stale
        and "stale" not in flags
        and not run.client.trusted
    ):
        raise _refused(run, entry, _STALE)
    user = run.client.user
    if not user.is_unlimited and not run.client.trusted:
        denial = user.check(entry.command, argv)
        if denial is not None:
            server.acl_log.note_denial(run.caller, denial, b"lua")
            raise _refused(run, entry, refusal_in_script(denial, user.name, server.compat))
    if entry.write:
        if run.read_only:
            raise _refused(run, entry, _READ_ONLY)
    elif run.read_only and "may_replicate" in flags:
        raise _refused(run, entry, _READ_ONLY)
    if server.needs_all_checks:
        refusal = dispatcher.check(run.client, entry, argv)
        if refusal is not None:
            raise _refused(run, entry, refusal)
    if (
        server.eviction.out_of_memory
        and not (run.wrote or run.allow_oom or run.client.trusted)
        and server.eviction.refuses_in_script(entry)
    ):
        raise _refused(run, entry, OOM)
    if entry.write:
        run.wrote = True
    return entry


def _refused(run: Run, entry: CommandEntry | None, text: bytes) -> ScriptError:
    if entry is not None:
        entry.rejected += 1
    run.server.stats.count_error(text)
    return ScriptError(text, counted=True)
