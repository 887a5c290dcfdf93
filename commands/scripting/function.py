"""Functions: FCALL, and FUNCTION for libraries. The interpreter is in ``lua/``."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown, wrong_subcommand_arguments
from ...protocol.globs import matches
from ...storage.loading import RdbError
from ...storage.rdb import PayloadRefusedError, dump_libraries, restore_libraries
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.usage import help_of
from . import specs
from .eval import key_count
from .lua.interpreter import UNAVAILABLE
from .lua.script_kill import BUSY_SCRIPT, kill_script
from .lua.shebang import FLAGS

if TYPE_CHECKING:
    from .lua.libraries import Function, Functions, Library

_NO_FUNCTION: Final = b"ERR Function not found"
_BAD_KEYS: Final = b"ERR Bad number of keys provided"
_REFUSED: Final = b"ERR DUMP payload version or checksum are wrong"
_POLICIES: Final = frozenset((b"FLUSH", b"APPEND", b"REPLACE"))


@handles(specs.FCALL, read_only=False)
@handles(specs.FCALL_RO, read_only=True)
def fcall(client: Client, args: list[bytes], *, read_only: bool) -> bytes:
    """Call a function; reply with its result, converted like that of a script."""
    client.server.calls.feed_monitors(client, args)
    scripting = client.server.scripting
    function = scripting.functions.find(args[1])
    if function is None:
        raise ReplyError(_NO_FUNCTION)
    keys = key_count(args, _BAD_KEYS)
    return scripting.call_function(client, function, args, keys, read_only=read_only)


def _changed(client: Client, args: list[bytes]) -> None:
    client.server.keyspace.dirty += 1
    client.propagate(args)


@handles(specs.FUNCTION_DELETE)
def function_delete(client: Client, args: list[bytes]) -> bytes:
    """Remove a library and reply OK; an error if there is none of that name."""
    if not client.server.scripting.functions.remove(args[2]):
        raise ReplyError(b"ERR Library not found")
    _changed(client, args)
    return replies.OK


@handles(specs.FUNCTION_DUMP)
def function_dump(client: Client, _args: list[bytes]) -> bytes:
    """Reply with all libraries as a payload for FUNCTION RESTORE; rdb-version sets its format."""
    server = client.server
    return replies.bulk(dump_libraries(server.keyspace.libraries.codes.values(), server.rdb_version))


@handles(specs.FUNCTION_FLUSH)
def function_flush(client: Client, args: list[bytes]) -> bytes:
    """Remove all libraries; reply OK."""
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    if len(args) == 3 and args[2].upper() not in {b"ASYNC", b"SYNC"}:
        raise ReplyError(b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    client.server.scripting.functions.clear()
    _changed(client, args)
    return replies.OK


@handles(specs.FUNCTION_KILL)
def function_kill(client: Client, _args: list[bytes]) -> bytes:
    """End the running function at its next step and reply OK; refuse that once it has written."""
    kill_script(client.server.scripting.run, function=True)
    return replies.OK


@handles(specs.FUNCTION_LIST)
def function_list(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map for each library: name, engine, functions and, with WITHCODE, the source.

    LIBRARYNAME selects libraries by a glob.
    """
    pattern: bytes | None = None
    with_code = False
    position = 2
    while position < len(args):
        option = args[position].upper()
        if option == b"WITHCODE" and not with_code:
            with_code = True
        elif option == b"LIBRARYNAME" and pattern is None:
            position += 1
            if position == len(args):
                raise ReplyError(b"ERR library name argument was not given")
            pattern = args[position]
        else:
            raise ReplyError(b"ERR Unknown argument %b" % shown(args[position]))
        position += 1
    found = [
        _library(library, client.resp, with_code=with_code)
        for library in client.server.scripting.functions.libraries.values()
        if pattern is None or matches(pattern.lower(), library.name.lower())
    ]
    return replies.array(found)


def _library(library: Library, resp: int, *, with_code: bool) -> bytes:
    fields = [
        (b"library_name", replies.bulk(library.name)),
        (b"engine", replies.bulk(b"LUA")),
        (b"functions", replies.array([_function(function, resp) for function in library.functions.values()])),
    ]
    if with_code:
        fields.append((b"library_code", replies.bulk(library.code)))
    return replies.map_of(fields, resp)


def _function(function: Function, resp: int) -> bytes:
    description = function.description
    return replies.map_of(
        [
            (b"name", replies.bulk(function.name)),
            (b"description", replies.null(resp) if description is None else replies.bulk(description)),
            (
                b"flags",
                replies.set_of(
                    [replies.simple(flag.encode()) for flag in FLAGS if flag in function.flags], resp
                ),
            ),
        ],
        resp,
    )


@handles(specs.FUNCTION_LOAD)
def function_load(client: Client, args: list[bytes]) -> bytes:
    """Compile a library and add it, or with REPLACE replace one; reply with its name."""
    words = args[2:]
    replace = False
    for option in words[:-1]:
        if option.upper() != b"REPLACE":
            raise ReplyError(b"ERR Unknown option given: %b" % shown(option))
        replace = True
    functions = client.server.scripting.functions
    try:
        library = functions.compile(words[-1], replace=replace)
    except ReplyError as error:
        if not client.replays or error.text != UNAVAILABLE:
            raise
        # From our own file or from the master: it is data and must be kept.
        name = functions.keep_source(words[-1])
    else:
        functions.add(library, replace=replace)
        name = library.name
    _changed(client, args)
    return replies.bulk(name)


@handles(specs.FUNCTION_RESTORE)
def function_restore(client: Client, args: list[bytes]) -> bytes:
    """Add the libraries of a FUNCTION DUMP payload and reply OK; on any error, such as a taken name, change nothing."""
    if len(args) > 4:
        raise wrong_subcommand_arguments(args)
    policy = args[3].upper() if len(args) == 4 else b"APPEND"
    if policy not in _POLICIES:
        raise ReplyError(b"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
    try:
        codes = restore_libraries(
            args[2],
            may_lack_checksum=client.server.compat.knows("8.6"),
            skip_checksum=client.server.keyspace.skips_checksums,
        )
    except PayloadRefusedError as error:
        raise ReplyError(_REFUSED) from error
    except RdbError as error:
        raise ReplyError(b"ERR %b" % str(error).encode()) from error
    functions = client.server.scripting.functions
    _restore(functions, codes, policy)
    _changed(client, args)
    return replies.OK


def _restore(functions: Functions, codes: list[bytes], policy: bytes) -> None:
    """Restore all libraries or none."""
    before = dict(functions.sources.codes)
    if policy == b"FLUSH":
        functions.clear()
    try:
        for code in codes:
            _add(functions, functions.compile(code), replace=policy == b"REPLACE")
    except Exception:
        functions.clear()
        for name, code in before.items():
            functions.sources.put(name, code)
        raise


def _add(functions: Functions, library: Library, *, replace: bool) -> None:
    if library.name in functions.libraries and not replace:
        raise ReplyError(b"ERR Library %b already exists" % library.name)
    functions.add(library, replace=True)


@handles(specs.FUNCTION_STATS)
def function_stats(client: Client, _args: list[bytes]) -> bytes:
    """Reply with a map: the running function, or null, and the numbers of libraries and functions."""
    resp = client.resp
    scripting = client.server.scripting
    run = scripting.run
    running = replies.null(resp)
    if run is not None and not run.is_function:
        raise ReplyError(BUSY_SCRIPT)
    if run is not None:
        running = replies.map_of(
            [
                (b"name", replies.bulk(run.name)),
                (b"command", replies.bulk_array(run.command)),
                (b"duration_ms", replies.integer((perf_counter_ns() - run.started) // 1_000_000)),
            ],
            resp,
        )
    functions = scripting.functions
    figures = replies.map_of(
        [
            (b"libraries_count", replies.integer(len(functions.libraries))),
            (b"functions_count", replies.integer(functions.count())),
        ],
        resp,
    )
    return replies.map_of(
        [(b"running_script", running), (b"engines", replies.map_of([(b"LUA", figures)], resp))], resp
    )


handles(specs.FUNCTION_HELP, container="function")(help_of)
