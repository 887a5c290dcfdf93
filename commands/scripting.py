"""Scripts and functions: this server runs none, says so, and is otherwise like one that holds none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol import replies
from ..protocol.errors import ReplyError, wrong_subcommand_arguments
from .arguments import parse_integer
from .syntax import scripting as syntax
from .table import KeySpec, command, container
from .usage import help_lines

if TYPE_CHECKING:
    from .client import Client

_UNAVAILABLE: Final = b"ERR scripting is not available in this server"
_NOSCRIPT: Final = b"NOSCRIPT No matching script. Please use EVAL."
_NOT_BUSY: Final = b"NOTBUSY No scripts in execution right now."
_NO_FUNCTION: Final = b"ERR Function not found"
_SHA_LENGTH: Final = 40
# What FUNCTION DUMP answers without functions: RDB version 12, and the CRC64 of those two bytes.
_EMPTY_DUMP: Final = b"\x0c\x00\x96\xedh\x80\xf5U<\x93"

_ANY: Final = "noscript stale skip_monitor no_mandatory_keys movablekeys"


def _keys(flags: str, notes: str | None = None) -> tuple[KeySpec, ...]:
    return (KeySpec(tuple(flags.split()), ("index", 2), ("keynum", 0, 1, 1), notes),)


_WRITES: Final = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE"
_READS: Final = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS"


def _check_key_count(args: list[bytes]) -> None:
    count = parse_integer(args[2])
    if count > len(args) - 3:
        raise ReplyError(b"ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ReplyError(b"ERR Number of keys can't be negative")


# EVAL script numkeys [key [key ...]] [arg [arg ...]]
@command(
    "EVAL",
    arity=-3,
    flags=f"{_ANY} may_replicate",
    categories="scripting",
    keys=_keys("RW access update", _WRITES),
    since="2.6.0",
    group="scripting",
    complexity="Depends on the script that is executed.",
    summary="Runs a Lua script. Not in Rillet.",
    arguments=syntax.EVAL,
)
def evaluate(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client
    _check_key_count(args)
    raise ReplyError(_UNAVAILABLE)


# EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]
@command(
    "EVAL_RO",
    arity=-3,
    flags=f"{_ANY} readonly",
    categories="scripting",
    keys=_keys("RO access", _READS),
    since="7.0.0",
    group="scripting",
    complexity="Depends on the script that is executed.",
    summary="Runs a Lua script that only reads. Not in Rillet.",
    arguments=syntax.EVAL_RO,
)
def evaluate_ro(client: Client, args: list[bytes]) -> bytes | None:
    """Always an error."""
    return evaluate(client, args)


# EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]
@command(
    "EVALSHA",
    arity=-3,
    flags=f"{_ANY} may_replicate",
    categories="scripting",
    keys=_keys("RW access update"),
    since="2.6.0",
    group="scripting",
    complexity="Depends on the script that is executed.",
    summary="Runs a Lua script that was loaded before. Not in Rillet.",
    arguments=syntax.EVALSHA,
)
def evaluate_sha(client: Client, args: list[bytes]) -> bytes:
    """NOSCRIPT, which is true: clients then send the script itself, and are told that nobody runs it."""
    del client
    if len(args[1]) == _SHA_LENGTH:
        _check_key_count(args)
    raise ReplyError(_NOSCRIPT)


# EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]
@command(
    "EVALSHA_RO",
    arity=-3,
    flags=f"{_ANY} readonly",
    categories="scripting",
    keys=_keys("RO access"),
    since="7.0.0",
    group="scripting",
    complexity="Depends on the script that is executed.",
    summary="Runs a Lua script that was loaded before and only reads. Not in Rillet.",
    arguments=syntax.EVALSHA_RO,
)
def evaluate_sha_ro(client: Client, args: list[bytes]) -> bytes | None:
    """NOSCRIPT, as EVALSHA."""
    return evaluate_sha(client, args)


# FCALL function numkeys [key [key ...]] [arg [arg ...]]
@command(
    "FCALL",
    arity=-3,
    flags=f"{_ANY} may_replicate",
    categories="scripting",
    keys=_keys("RW access update", _WRITES),
    since="7.0.0",
    group="scripting",
    complexity="Depends on the function that is executed.",
    summary="Calls a function. There are none.",
    arguments=syntax.FCALL,
)
def fcall(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_NO_FUNCTION)


# FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]
@command(
    "FCALL_RO",
    arity=-3,
    flags=f"{_ANY} readonly",
    categories="scripting",
    keys=_keys("RO access", _READS),
    since="7.0.0",
    group="scripting",
    complexity="Depends on the function that is executed.",
    summary="Calls a function that only reads. There are none.",
    arguments=syntax.FCALL_RO,
)
def fcall_ro(client: Client, args: list[bytes]) -> bytes | None:
    """Always an error."""
    return fcall(client, args)


container(
    "SCRIPT", since="2.6.0", group="scripting", summary="A container for Lua scripts management commands."
)


# SCRIPT DEBUG <YES | SYNC | NO>
@command(
    "SCRIPT|DEBUG",
    arity=3,
    flags="noscript",
    categories="scripting",
    since="3.2.0",
    group="scripting",
    complexity="O(1)",
    summary="Sets the debug mode of scripts. Only NO in Rillet.",
    arguments=syntax.SCRIPT_DEBUG,
)
def script_debug(client: Client, args: list[bytes]) -> bytes:
    """OK for the mode that is in force."""
    del client
    mode = args[2].upper()
    if mode == b"NO":
        return replies.OK
    raise ReplyError(_UNAVAILABLE if mode in {b"YES", b"SYNC"} else b"ERR Use SCRIPT DEBUG YES/SYNC/NO")


# SCRIPT EXISTS sha1 [sha1 ...]
@command(
    "SCRIPT|EXISTS",
    arity=-3,
    flags="noscript",
    categories="scripting",
    tips=("request_policy:all_shards", "response_policy:agg_logical_and"),
    since="2.6.0",
    group="scripting",
    complexity="O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
    summary="Tells which scripts are loaded.",
    arguments=syntax.SCRIPT_EXISTS,
)
def script_exists(client: Client, args: list[bytes]) -> bytes:
    """0 for each."""
    del client
    return replies.array([replies.ZERO] * (len(args) - 2))


# SCRIPT FLUSH [ASYNC | SYNC]
@command(
    "SCRIPT|FLUSH",
    arity=-2,
    flags="noscript may_replicate",
    categories="scripting",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
    since="2.6.0",
    group="scripting",
    complexity="O(N) with N being the number of scripts in cache",
    summary="Forgets all loaded scripts.",
    history=syntax.SCRIPT_FLUSH_HISTORY,
    arguments=syntax.SCRIPT_FLUSH,
)
def script_flush(client: Client, args: list[bytes]) -> bytes:
    """OK: there is nothing to forget."""
    del client
    if len(args) > 3 or (len(args) == 3 and args[2].upper() not in {b"ASYNC", b"SYNC"}):
        raise ReplyError(b"ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    return replies.OK


# SCRIPT KILL
@command(
    "SCRIPT|KILL",
    arity=2,
    flags="noscript allow_busy",
    categories="scripting",
    tips=("request_policy:all_shards", "response_policy:one_succeeded"),
    since="2.6.0",
    group="scripting",
    complexity="O(1)",
    summary="Ends the script that is running.",
    arguments=syntax.SCRIPT_KILL,
)
def script_kill(client: Client, args: list[bytes]) -> bytes:
    """Always an error: none is running."""
    del client, args
    raise ReplyError(_NOT_BUSY)


# SCRIPT LOAD script
@command(
    "SCRIPT|LOAD",
    arity=3,
    flags="noscript stale may_replicate",
    categories="scripting",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
    since="2.6.0",
    group="scripting",
    complexity="O(N) with N being the length in bytes of the script body.",
    summary="Loads a Lua script. Not in Rillet.",
    arguments=syntax.SCRIPT_LOAD,
)
def script_load(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_UNAVAILABLE)


# SCRIPT HELP
@command(
    "SCRIPT|HELP",
    arity=2,
    flags="loading stale",
    categories="scripting",
    since="5.0.0",
    group="scripting",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.SCRIPT_HELP,
)
def script_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("script"))


container("FUNCTION", since="7.0.0", group="scripting", summary="A container for function commands.")

_ON_ALL_SHARDS: Final = ("request_policy:all_shards", "response_policy:all_succeeded")


# FUNCTION DELETE library-name
@command(
    "FUNCTION|DELETE",
    arity=3,
    flags="noscript write",
    categories="scripting",
    tips=_ON_ALL_SHARDS,
    since="7.0.0",
    group="scripting",
    complexity="O(1)",
    summary="Removes a library with its functions. There are none.",
    arguments=syntax.FUNCTION_DELETE,
)
def function_delete(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(b"ERR Library not found")


# FUNCTION DUMP
@command(
    "FUNCTION|DUMP",
    arity=2,
    flags="noscript",
    categories="scripting",
    since="7.0.0",
    group="scripting",
    complexity="O(N) where N is the number of functions",
    summary="Returns all libraries as one binary value.",
    arguments=syntax.FUNCTION_DUMP,
)
def function_dump(client: Client, args: list[bytes]) -> bytes:
    """The dump of no libraries."""
    del client, args
    return replies.bulk(_EMPTY_DUMP)


# FUNCTION FLUSH [ASYNC | SYNC]
@command(
    "FUNCTION|FLUSH",
    arity=-2,
    flags="noscript write",
    categories="scripting",
    tips=_ON_ALL_SHARDS,
    since="7.0.0",
    group="scripting",
    complexity="O(N) where N is the number of functions deleted",
    summary="Removes all libraries.",
    arguments=syntax.FUNCTION_FLUSH,
)
def function_flush(client: Client, args: list[bytes]) -> bytes:
    """OK: there is nothing to remove."""
    del client
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 3 and args[2].upper() not in {b"ASYNC", b"SYNC"}:
        raise ReplyError(b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    return replies.OK


# FUNCTION KILL
@command(
    "FUNCTION|KILL",
    arity=2,
    flags="noscript allow_busy",
    categories="scripting",
    tips=("request_policy:all_shards", "response_policy:one_succeeded"),
    since="7.0.0",
    group="scripting",
    complexity="O(1)",
    summary="Ends the function that is running.",
    arguments=syntax.FUNCTION_KILL,
)
def function_kill(client: Client, args: list[bytes]) -> bytes:
    """Always an error: none is running."""
    del client, args
    raise ReplyError(_NOT_BUSY)


# FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]
@command(
    "FUNCTION|LIST",
    arity=-2,
    flags="noscript",
    categories="scripting",
    tips=("nondeterministic_output_order",),
    since="7.0.0",
    group="scripting",
    complexity="O(N) where N is the number of functions",
    summary="Returns the libraries.",
    arguments=syntax.FUNCTION_LIST,
)
def function_list(client: Client, args: list[bytes]) -> bytes:
    """An empty array."""
    del client
    seen: set[bytes] = set()
    position = 2
    while position < len(args):
        option = args[position].upper()
        if option not in {b"LIBRARYNAME", b"WITHCODE"} or option in seen:
            raise ReplyError(b"ERR Unknown argument " + args[position])
        seen.add(option)
        if option == b"LIBRARYNAME":
            position += 1
            if position == len(args):
                raise ReplyError(b"ERR library name argument was not given")
        position += 1
    return replies.EMPTY_ARRAY


# FUNCTION LOAD [REPLACE] function-code
@command(
    "FUNCTION|LOAD",
    arity=-3,
    flags="noscript write denyoom",
    categories="scripting",
    tips=_ON_ALL_SHARDS,
    since="7.0.0",
    group="scripting",
    complexity="O(1) (considering compilation time is redundant)",
    summary="Creates a library. Not in Rillet.",
    arguments=syntax.FUNCTION_LOAD,
)
def function_load(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_UNAVAILABLE)


# FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]
@command(
    "FUNCTION|RESTORE",
    arity=-3,
    flags="noscript write denyoom",
    categories="scripting",
    tips=_ON_ALL_SHARDS,
    since="7.0.0",
    group="scripting",
    complexity="O(N) where N is the number of functions on the payload",
    summary="Restores libraries that were dumped; only a dump of none in Rillet.",
    arguments=syntax.FUNCTION_RESTORE,
)
def function_restore(client: Client, args: list[bytes]) -> bytes:
    """OK for what FUNCTION DUMP answers here."""
    del client
    if len(args) > 4:
        raise wrong_subcommand_arguments(args)
    if len(args) == 4 and args[3].upper() not in {b"FLUSH", b"APPEND", b"REPLACE"}:
        raise ReplyError(b"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
    if args[2] != _EMPTY_DUMP:
        raise ReplyError(b"ERR DUMP payload version or checksum are wrong")
    return replies.OK


# FUNCTION STATS
@command(
    "FUNCTION|STATS",
    arity=2,
    flags="noscript allow_busy",
    categories="scripting",
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
    since="7.0.0",
    group="scripting",
    complexity="O(1)",
    summary="Returns what runs, and how many functions each engine holds.",
    arguments=syntax.FUNCTION_STATS,
)
def function_stats(client: Client, args: list[bytes]) -> bytes:
    """Nothing runs; the one engine that clients expect holds nothing."""
    del args
    resp = client.resp
    nothing = replies.map_of([(b"libraries_count", replies.ZERO), (b"functions_count", replies.ZERO)], resp)
    return replies.map_of(
        [(b"running_script", replies.null(resp)), (b"engines", replies.map_of([(b"LUA", nothing)], resp))],
        resp,
    )


# FUNCTION HELP
@command(
    "FUNCTION|HELP",
    arity=2,
    flags="loading stale",
    categories="scripting",
    since="7.0.0",
    group="scripting",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.FUNCTION_HELP,
)
def function_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("function"))
