"""DEBUG: for tests of servers and of applications; guarded by enable-debug-command."""

from __future__ import annotations

import re
import secrets
from time import sleep
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, ReplyError, wrong_subcommand_arguments
from ..keys.object import encoding
from ..runtime.arguments import INT64_MAX, parse_integer
from ..spec.command import handles
from ..spec.usage import help_reply
from . import specs
from .debug_digest import keyspace_digest, value_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...storage.keyspace.database import Value
    from ..runtime.client import Client

    Subcommand = Callable[[Client, list[bytes]], bytes]

_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"
_NUMBER: Final = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER: Final = re.compile(rb"\s*[+-]?\d+")


@handles(specs.DEBUG)
def debug(client: Client, args: list[bytes]) -> bytes:
    """Run one of the subcommands of ``DEBUG HELP``; as in Redis, they are not commands of their own."""
    found = _SUBCOMMANDS.get(args[1].upper())
    if found is None:
        raise wrong_subcommand_arguments(args)
    fewest, most, run, _, _ = found
    if not fewest <= len(args) - 2 <= most:
        raise wrong_subcommand_arguments(args)
    return run(client, args)


def _loose_integer(word: bytes) -> int:
    """Parse as C's atoi, which Redis uses here: a word that is no number is 0."""
    found = _INTEGER.match(word)
    return int(found[0]) if found else 0


def _sleep(client: Client, args: list[bytes]) -> bytes:
    del client
    found = _NUMBER.match(args[2])
    sleep(max(float(found[0]), 0.0) if found else 0.0)
    return replies.OK


def _loadaof(client: Client, args: list[bytes]) -> bytes:
    del args
    if client.server.persistence.aof is None:
        raise ReplyError(b"ERR DEBUG LOADAOF needs appendonly yes: there are no AOF files to load")
    client.server.persistence.reload()
    return replies.OK


def _reload(client: Client, args: list[bytes]) -> bytes:
    options = {word.upper() for word in args[2:]}
    if not {b"NOSAVE", b"NOFLUSH", b"MERGE"}.issuperset(options):
        raise ReplyError(b"ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
    client.server.snapshots.reload(
        save=b"NOSAVE" not in options, flush=b"NOFLUSH" not in options, merge=b"MERGE" in options
    )
    return replies.OK


def _digest(client: Client, args: list[bytes]) -> bytes:
    del args
    return replies.simple(keyspace_digest(client.server.keyspace))


def _digest_value(client: Client, args: list[bytes]) -> bytes:
    return replies.simple_array([value_digest(client.db, key) for key in args[2:]])


def _object(client: Client, args: list[bytes]) -> bytes:
    key = args[2]
    fast = len(args) == 4
    if fast and args[3].upper() != b"FAST":
        raise wrong_subcommand_arguments(args)
    value = client.db.peek(key)
    if value is None:
        raise ReplyError(NO_SUCH_KEY)
    now = client.server.keyspace.now
    accessed = client.db.accessed.get(key, now)
    return replies.simple(
        b"Value at:0x%x refcount:1 encoding:%b%b lru:%d lru_seconds_idle:%d"
        % (
            id(value),
            encoding(value, is_raw=key in client.db.raw),
            b"" if fast else b" serializedlength:%d" % _size(value),
            (accessed // 1000) & 0xFFFFFF,
            (now - accessed) // 1000,
        )
    )


def _size(value: Value) -> int:
    """Return the approximate bytes of a serialized value."""
    if isinstance(value, bytes):
        return len(value) + (encoding(value) != b"int")
    return value.payload_bytes


def _set_active_expire(client: Client, args: list[bytes]) -> bytes:
    client.server.active_expiry.enabled = _loose_integer(args[2]) != 0
    return replies.OK


def _pause_cron(client: Client, args: list[bytes]) -> bytes:
    client.server.cron_paused = _loose_integer(args[2]) != 0
    return replies.OK


def _change_repl_id(client: Client, args: list[bytes]) -> bytes:
    del args
    replication = client.server.replication
    replication.id = secrets.token_hex(20)
    replication.forget_second()
    return replies.OK


def _populate(client: Client, args: list[bytes]) -> bytes:
    count = parse_integer(args[2], _NOT_POSITIVE)
    prefix = args[3] if len(args) > 3 else b"key"
    size = parse_integer(args[4], _NOT_POSITIVE) if len(args) > 4 else 0
    if count < 0 or size < 0:
        raise ReplyError(_NOT_POSITIVE)
    for number in range(count):
        key = b"%b:%d" % (prefix, number)
        if client.db.write(key) is None:
            value = b"value:%d" % number
            if size:
                value = value[:size].ljust(size, b"\0")
            client.db.add(key, value)
            client.db.modified(key)
            client.propagate([b"SET", key, value])
    return replies.OK


def _error(client: Client, args: list[bytes]) -> bytes:
    del client
    raise ReplyError(args[2])


def _log(client: Client, args: list[bytes]) -> bytes:
    text = "DEBUG LOG: " + args[2].decode("utf-8", "backslashreplace")
    client.server.log.warning(text)
    return replies.OK


def _replicate(client: Client, args: list[bytes]) -> bytes:
    client.propagate(args[2:])
    return replies.OK


def _accept(client: Client, args: list[bytes]) -> bytes:
    """Accept a switch for a feature that does not exist here."""
    del client, args
    return replies.OK


def _protocol(client: Client, args: list[bytes]) -> bytes:
    resp = client.resp
    numbers = [replies.integer(number) for number in range(3)]
    kind = args[2].lower()
    if kind == b"string":
        return replies.bulk(b"Hello World")
    if kind == b"integer":
        return replies.integer(12345)
    if kind == b"double":
        return replies.double(3.141, resp)
    if kind == b"null":
        return replies.null(resp)
    if kind == b"array":
        return replies.array(numbers)
    if kind == b"set":
        return replies.set_of(numbers, resp)
    if kind == b"map":
        pairs = [numbers[number] + replies.boolean(number == 1, resp) for number in range(3)]
        return replies.map_header(3, resp) + b"".join(pairs)
    if kind == b"attrib":
        answer = replies.bulk(b"Some real reply following the attribute")
        if resp == 2:
            return answer
        popularity = replies.array([replies.bulk(b"key:123"), replies.integer(90)])
        return b"|1\r\n" + replies.bulk(b"key-popularity") + popularity + answer
    if kind == b"push":
        if resp == 2:
            raise ReplyError(b"ERR RESP2 is not supported by this command")
        answer = replies.bulk(b"Some real reply following the push reply")
        return answer + replies.push_header(2, resp) + replies.bulk(b"server-cpu-usage") + replies.integer(42)
    if kind == b"true":
        return replies.boolean(True, resp)
    if kind == b"false":
        return replies.boolean(False, resp)
    if kind == b"verbatim":
        return replies.verbatim(b"This is a verbatim\nstring", resp)
    if kind == b"bignum":
        digits = b"1234567999999999999999999999999999999"
        return b"(%b\r\n" % digits if resp == 3 else replies.bulk(digits)
    raise ReplyError(
        b"ERR Wrong protocol type name. Please use one of the following: "
        b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
    )


def _clock(client: Client, args: list[bytes]) -> bytes:
    """Control virtual time; replies with the resulting server time in milliseconds."""
    server = client.server
    action, rest = args[2].upper(), args[3:]
    if action == b"NOW" and not rest:
        return replies.integer(server.clock.tick())
    if client.in_exec:
        raise ReplyError(b"ERR DEBUG CLOCK cannot move the time inside a transaction")
    if action == b"ADVANCE" and len(rest) == 1:
        by = parse_integer(rest[0])
        if not 0 <= server.clock.tick() + by <= INT64_MAX:
            raise ReplyError(b"ERR value is out of range")
        server.clock.advance(by)
    elif action == b"FREEZE" and len(rest) <= 1:
        at = parse_integer(rest[0], _NOT_POSITIVE) if rest else None
        if at is not None and at < 0:
            raise ReplyError(_NOT_POSITIVE)
        server.clock.freeze(at)
    elif action == b"RESUME" and not rest:
        server.clock.resume()
    elif action == b"RESET" and not rest:
        server.clock.reset()
    else:
        raise ReplyError(
            b"ERR Use DEBUG CLOCK ADVANCE milliseconds, FREEZE [milliseconds], RESUME, RESET or NOW"
        )
    server.time_moved()
    return replies.integer(server.clock.now)


def _help(client: Client, args: list[bytes]) -> bytes:
    del args
    lines = [b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for name, (_, _, _, arguments, what) in _SUBCOMMANDS.items():
        lines += [name + arguments.encode(), b"    " + what.encode()]
    return help_reply(lines, client.server.compat)


_ANY: Final = 1 << 62
# name: fewest and most words after it, what it does, its arguments and description for HELP
_SUBCOMMANDS: Final[dict[bytes, tuple[int, int, Subcommand, str, str]]] = {
    b"CHANGE-REPL-ID": (0, 0, _change_repl_id, "", "Choose a new replication ID."),
    b"CLOCK": (
        1,
        2,
        _clock,
        " ADVANCE <milliseconds>|FREEZE [<milliseconds>]|RESUME|RESET|NOW",
        "Move, stop and restart the server's time; replies with it. Rillet only.",
    ),
    b"DIGEST": (0, 0, _digest, "", "A fingerprint of all data, the same after a reload."),
    b"DIGEST-VALUE": (0, _ANY, _digest_value, " <key> [<key> ...]", "A fingerprint of each key's value."),
    b"ERROR": (1, 1, _error, " <string>", "Reply with this error."),
    b"LOADAOF": (0, _ANY, _loadaof, "", "Write the AOF out, forget the data and load it from the files."),
    b"LOG": (1, 1, _log, " <message>", "Write a line into the server's log."),
    b"OBJECT": (1, 2, _object, " <key> [fast]", "Show how a value is kept."),
    b"PAUSE-CRON": (1, 1, _pause_cron, " <0|1>", "Stop what the server does ten times a second, or go on."),
    b"POPULATE": (1, 3, _populate, " <count> [<prefix>] [<size>]", "Make string keys <prefix>:<number>."),
    b"PROTOCOL": (1, 1, _protocol, " <type>", "Reply with an example of a protocol type."),
    b"RELOAD": (
        0,
        _ANY,
        _reload,
        " [MERGE] [NOFLUSH] [NOSAVE]",
        "Write the dump file, forget the data and load it from there.",
    ),
    b"REPLICATE": (
        1,
        _ANY,
        _replicate,
        " <command> [<arg> ...]",
        "Put a command into the AOF without running it.",
    ),
    b"SET-ACTIVE-EXPIRE": (
        1,
        1,
        _set_active_expire,
        " <0|1>",
        "Switch the expiry of keys that nobody looks at.",
    ),
    b"SET-DISABLE-DENY-SCRIPTS": (1, 1, _accept, " <0|1>", "Accepted; there are no scripts."),
    b"SET-SKIP-CHECKSUM-VALIDATION": (1, 1, _accept, " <0|1>", "Accepted; it changes nothing here."),
    b"SLEEP": (1, 1, _sleep, " <seconds>", "Stop the whole server for so long."),
    b"STRUCTSIZE": (
        0,
        0,
        lambda _client, _args: replies.bulk(b"bits:64"),
        "",
        "Sizes of structures; only the word's here.",
    ),
    b"HELP": (0, 0, _help, "", "Print this help."),
}
