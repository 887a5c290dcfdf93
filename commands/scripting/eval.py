"""Scripts: EVAL and its variants, and SCRIPT. The interpreter is in ``lua/``."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import NOT_AN_INTEGER, ReplyError
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..spec.usage import help_of
from . import specs
from .lua.script_kill import kill_script

_NOSCRIPT: Final = b"NOSCRIPT No matching script. Please use EVAL."
_SHA_LENGTH: Final = 40


@handles(specs.EVAL, read_only=False)
@handles(specs.EVAL_RO, read_only=True)
def evaluate(client: Client, args: list[bytes], *, read_only: bool) -> bytes:
    """Run a script; reply with its result, converted as Redis does."""
    client.server.calls.feed_monitors(client, args)
    keys = key_count(args)
    scripting = client.server.scripting
    script = scripting.scripts.of_body(args[1])
    if script is None:
        script = scripting.scripts.add(args[1], scripting.interpreter, from_eval=True)
    return scripting.run_script(client, script, args, keys, read_only=read_only)


@handles(specs.EVALSHA, read_only=False)
@handles(specs.EVALSHA_RO, read_only=True)
def evaluate_sha(client: Client, args: list[bytes], *, read_only: bool) -> bytes:
    """Run the script with a SHA1 and reply with its result; refuse an unknown one with NOSCRIPT."""
    client.server.calls.feed_monitors(client, args)
    if len(args[1]) != _SHA_LENGTH:
        raise ReplyError(_NOSCRIPT)
    keys = key_count(args)
    scripting = client.server.scripting
    script = scripting.scripts.find(args[1])
    if script is None:
        raise ReplyError(_NOSCRIPT)
    return scripting.run_script(client, script, args, keys, read_only=read_only)


@handles(specs.SCRIPT_DEBUG)
def script_debug(_client: Client, args: list[bytes]) -> bytes:
    """Reply OK for NO; refuse other modes, because there is no debugger."""
    mode = args[2].upper()
    if mode == b"NO":
        return replies.OK
    if mode in {b"YES", b"SYNC"}:
        raise ReplyError(b"ERR Rillet has no debugger for scripts")
    raise ReplyError(b"ERR Use SCRIPT DEBUG YES/SYNC/NO")


@handles(specs.SCRIPT_EXISTS)
def script_exists(client: Client, args: list[bytes]) -> bytes:
    """Reply with 1 or 0 for each SHA1: whether the script is in the cache."""
    find = client.server.scripting.scripts.find
    return replies.array([replies.ONE if find(sha) is not None else replies.ZERO for sha in args[2:]])


@handles(specs.SCRIPT_FLUSH)
def script_flush(client: Client, args: list[bytes]) -> bytes:
    """Forget all scripts and what they have set in libraries (cjson.encode_max_depth …); reply OK."""
    if len(args) > 3 or (len(args) == 3 and args[2].upper() not in {b"ASYNC", b"SYNC"}):
        raise ReplyError(b"ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    client.server.scripting.flush_scripts()
    return replies.OK


@handles(specs.SCRIPT_KILL)
def script_kill(client: Client, _args: list[bytes]) -> bytes:
    """End the running script at its next step and reply OK; refuse that once it has written."""
    kill_script(client.server.scripting.run, function=False)
    return replies.OK


@handles(specs.SCRIPT_LOAD)
def script_load(client: Client, args: list[bytes]) -> bytes:
    """Compile and cache a script; reply with its SHA1 in hex."""
    scripting = client.server.scripting
    return replies.bulk(scripting.scripts.add(args[2], scripting.interpreter, from_eval=False).sha)


handles(specs.SCRIPT_HELP, container="script")(help_of)


def key_count(args: list[bytes], not_a_number: bytes = NOT_AN_INTEGER) -> int:
    """Return the number of keys, the third word of EVAL and its variants.

    Raises:
        ReplyError: it is not a number (then with the text ``not_a_number``), is negative, or is greater than the number of words.
    """
    word = args[2]
    if word == b"0":
        return 0
    try:
        count = parse_integer(word)
    except ReplyError as error:
        raise ReplyError(not_a_number) from error
    if count > len(args) - 3:
        raise ReplyError(b"ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise ReplyError(b"ERR Number of keys can't be negative")
    return count
