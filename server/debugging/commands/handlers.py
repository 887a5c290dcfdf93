"""DEBUG: support for tests of servers and of applications; enable-debug-command guards it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from time import sleep
from typing import Final

from ....commands.runtime.arguments import INT64_MAX, parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....commands.spec.usage import help_reply
from ....protocol import replies
from ....protocol.atoi import atoi
from ....protocol.errors import NO_SUCH_KEY, SYNTAX, ReplyError, wrong_subcommand_arguments
from ....protocol.regex import regex
from ....storage.value_types import TYPES
from ...config.kinds import parse_memory
from . import specs
from .recording import control, parse_last, record

Subcommand = Callable[[Client, list[bytes]], bytes]

_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"
_NUMBER: Final = regex(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LARGEST_THRESHOLD: Final = (1 << 32) - (1 << 20)  # bytes
_SINCE: Final = {
    b"SET-ALLOW-ACCESS-EXPIRED": "8.4",
    b"SCRIPT": "7.2",
    b"DICT-RESIZING": "7.4",
    b"REPLY-COPY-AVOIDANCE": "8.4",
    b"KEYSIZES-HIST-ASSERT": "8.4",
}


@handles(specs.DEBUG)
def debug(client: Client, args: list[bytes]) -> bytes:
    """Run one of the subcommands of ``DEBUG HELP``; as in Redis, they are not commands of their own."""
    name = args[1].upper()
    found = _SUBCOMMANDS.get(name)
    if found is None or not client.server.compat.knows(_SINCE.get(name, "7.0")):
        raise wrong_subcommand_arguments(args)
    fewest, most, run, _, _ = found
    if not fewest <= len(args) - 2 <= most:
        raise wrong_subcommand_arguments(args)
    return run(client, args)


def _sleep(_client: Client, args: list[bytes]) -> bytes:
    found = _NUMBER().match(args[2])
    sleep(max(float(found[0]), 0.0) if found else 0.0)
    return replies.OK


def _loadaof(client: Client, _args: list[bytes]) -> bytes:
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


def _digest(client: Client, _args: list[bytes]) -> bytes:
    from ..digest import keyspace_digest

    return replies.simple(keyspace_digest(client.server.keyspace))


def _digest_value(client: Client, args: list[bytes]) -> bytes:
    from ..digest import value_digest

    return replies.simple_array([value_digest(client.db, key) for key in args[2:]])


def _object(client: Client, args: list[bytes]) -> bytes:
    from ....commands.keys.object import encoding

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
            encoding(client.db, key, value, client.server.compat),
            b"" if fast else b" serializedlength:%d" % TYPES[type(value)].serialized_bytes(value),
            (accessed // 1000) & 0xFFFFFF,
            (now - accessed) // 1000,
        )
    )


def _switch(client: Client, args: list[bytes]) -> bytes:
    """Switch a part of the server on or off."""
    server, name, is_on = client.server, args[1].upper(), atoi(args[2]) != 0
    if name == b"SET-ACTIVE-EXPIRE":
        server.active_expiry.enabled = is_on
    elif name == b"SET-SKIP-CHECKSUM-VALIDATION":
        server.keyspace.skips_checksums = is_on
    elif name == b"SET-ALLOW-ACCESS-EXPIRED":
        server.keyspace.shows_expired = is_on
    else:
        server.cron.paused = is_on
    return replies.OK


def _change_repl_id(client: Client, _args: list[bytes]) -> bytes:
    replication = client.server.replication
    replication.id = os.urandom(20).hex()
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


def _error(_client: Client, args: list[bytes]) -> bytes:
    return ReplyError(args[2]).encoded  # as in Redis, no statistics count this error


def _log(client: Client, args: list[bytes]) -> bytes:
    text = "DEBUG LOG: " + args[2].decode("utf-8", "backslashreplace")
    client.server.log.warning(text)
    return replies.OK


def _replicate(client: Client, args: list[bytes]) -> bytes:
    client.propagate(args[2:])
    return replies.OK


def _reset(client: Client, args: list[bytes]) -> bytes:
    """Reset the server; this connection keeps its protocol, its name and its login.

    Return OK, or the ID of the recording that RECORD begins.
    """
    options, last = args[2:], 0
    if len(options) > 1 and options[0].upper() == b"RECORD":
        last = parse_last(options[1])
        options = options[2:]
    if options and (options[0].upper() != b"KEEP" or not len(options) % 2):
        raise ReplyError(SYNTAX)
    kept = dict(zip(options[1::2], map(parse_integer, options[2::2]), strict=True))
    if client.in_exec:
        raise ReplyError(b"ERR DEBUG RESET is not possible inside a transaction")
    client.server.resetting.run(client, kept)
    return replies.integer(client.server.debugging.recorder.start(last)) if last else replies.OK


def _script(client: Client, args: list[bytes]) -> bytes:
    scripts = client.server.scripting.scripts
    if args[2].upper() == b"LIST":
        chosen = list(scripts)
    else:
        script = scripts.find(args[2])
        if script is None:
            raise wrong_subcommand_arguments(args)
        chosen = [script]
    for each in chosen:
        body = each.body.decode("utf-8", "backslashreplace")
        client.server.log.warning(f"SCRIPT SHA: {each.sha.decode()}", body)
    return replies.OK


def _accept(_client: Client, _args: list[bytes]) -> bytes:
    """Accept a switch for a feature that does not exist here."""
    return replies.OK


def _protocol(client: Client, args: list[bytes]) -> bytes:
    resp = client.resp
    numbers = [replies.integer(number) for number in range(3)]
    kind = args[2].lower()
    if kind == b"push":
        if resp == 2:
            raise ReplyError(b"ERR RESP2 is not supported by this command")
        client.send(replies.push_header(2, resp) + replies.bulk(b"server-cpu-usage") + replies.integer(42))
        return replies.bulk(b"Some real reply following the push reply")
    popularity = replies.array([replies.bulk(b"key:123"), replies.integer(90)])
    attribute = b"|1\r\n" + replies.bulk(b"key-popularity") + popularity
    pairs = [number + replies.boolean(at == 1, resp) for at, number in enumerate(numbers)]
    digits = b"1234567999999999999999999999999999999"
    examples = {
        b"string": replies.bulk(b"Hello World"),
        b"integer": replies.integer(12345),
        b"double": replies.double(3.141, resp),
        b"null": replies.null(resp),
        b"array": replies.array(numbers),
        b"set": replies.set_of(numbers, resp),
        b"map": replies.map_header(3, resp) + b"".join(pairs),
        b"attrib": (attribute if resp == 3 else b"")
        + replies.bulk(b"Some real reply following the attribute"),
        b"true": replies.boolean(True, resp),
        b"false": replies.boolean(False, resp),
        b"verbatim": replies.verbatim(b"This is a verbatim\nstring", resp),
        b"bignum": b"(%b\r\n" % digits if resp == 3 else replies.bulk(digits),
    }
    if kind in examples:
        return examples[kind]
    raise ReplyError(
        b"ERR Wrong protocol type name. Please use one of the following: "
        b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
    )


def _aof_flush_sleep(client: Client, args: list[bytes]) -> bytes:
    client.server.persistence.flush_delay = max(atoi(args[2]), 0) / 1_000_000
    return replies.OK


def _packed_threshold(_client: Client, args: list[bytes]) -> bytes:
    """Check the size and accept it; lists have no separate nodes for long elements."""
    size = parse_memory(args[2])
    if size is None or size >= _LARGEST_THRESHOLD:
        raise ReplyError(b"ERR argument must be a memory value bigger than 1 and smaller than 4gb")
    return replies.OK


def _replybuffer(_client: Client, args: list[bytes]) -> bytes:
    """Check the words and accept them; reply buffers are allocated on demand."""
    option = args[2].upper()
    if option == b"PEAK-RESET-TIME":
        if args[3].upper() not in {b"NEVER", b"RESET"}:
            parse_integer(args[3])
    elif option != b"RESIZING":
        raise wrong_subcommand_arguments(args)
    return replies.OK


def _clock(client: Client, args: list[bytes]) -> bytes:
    """Control virtual time; reply with the resulting server time in milliseconds."""
    server = client.server
    action, rest = args[2].upper(), args[3:]
    if action == b"NOW" and not rest:
        return replies.integer(server.clock.tick())
    if client.in_exec:
        raise ReplyError(b"ERR DEBUG CLOCK cannot move the time inside a transaction")
    if action == b"SKIP" and not rest:
        server.virtual_time.skip()
        return replies.integer(server.clock.now)
    if action == b"AUTO-SKIP" and len(rest) == 1 and rest[0].upper() in {b"YES", b"NO"}:
        server.virtual_time.skips_alone = rest[0].upper() == b"YES"
        return replies.integer(server.clock.tick())
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
            b"ERR Use DEBUG CLOCK ADVANCE milliseconds, SKIP, AUTO-SKIP yes|no, FREEZE [milliseconds], RESUME, RESET "
            b"or NOW"
        )
    server.virtual_time.moved()
    return replies.integer(server.clock.now)


def _help(client: Client, _args: list[bytes]) -> bytes:
    lines = [b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for name, (_, _, _, arguments, what) in _SUBCOMMANDS.items():
        if not client.server.compat.knows(_SINCE.get(name, "7.0")):
            continue
        lines += [name + arguments.encode(), b"    " + what.encode()]
    return help_reply(lines, client.server.compat)


def _of(module: str, name: str) -> Subcommand:
    """Return a subcommand of another module, which its first call imports: DEBUG RESET, which each test sends, needs none."""

    def run(client: Client, args: list[bytes]) -> bytes:
        found: Subcommand = getattr(import_module(f".{module}", __package__), name)
        return found(client, args)

    return run


_ANY: Final = 1 << 62


# name: the minimum and maximum number of words after it, its function, its arguments and description for HELP
# fmt: off
_SUBCOMMANDS: Final[dict[bytes, tuple[int, int, Subcommand, str, str]]] = {
    b"AOF-FLUSH-SLEEP": (1, 1, _aof_flush_sleep, " <microseconds>", "Wait so long before each write of the AOF."),
    b"AOF-HISTORY": (2, 3, _of("aof_history", "aof_history"), " <key> <id> [<cursor>]",
        "Show what the AOF says of an entry of a stream. Rillet only."),
    b"CHANGE-REPL-ID": (0, 0, _change_repl_id, "", "Choose a new replication ID."),
    b"CLOCK": (1, 2, _clock, " ADVANCE <milliseconds>|SKIP|AUTO-SKIP <yes|no>|FREEZE [<milliseconds>]|RESUME|RESET|NOW",
        "Move, stop and restart the server's time; replies with it. Rillet only."),
    b"CONTROL": (0, 0, control, "",
        "Let this connection control a test: no list, rule, pause, recording or fault concerns it. Rillet only."),
    b"DICT-RESIZING": (1, 1, _accept, " <0|1>", "Accepted; Python resizes its tables."),
    b"DIGEST": (0, 0, _digest, "", "A fingerprint of all data, the same after a reload."),
    b"DIGEST-VALUE": (0, _ANY, _digest_value, " <key> [<key> ...]", "A fingerprint of each key's value."),
    b"ERROR": (1, 1, _error, " <string>", "Reply with this error."),
    b"FAULT": (1, _ANY, _of("faults", "fault"), " ADD <option> [<value>] ...|LIST [<id>]|CLEAR [<id>]|HELP",
        "Let commands, connections or the disk fail. Rillet only."),
    b"HTSTATS": (1, 2, _of("structures", "htstats"), " <database> [full]", "Show the hash tables that Redis needs for a database."),
    b"HTSTATS-KEY": (1, 2, _of("structures", "htstats_key"), " <key> [full]", "Show the hash table that Redis needs for a value."),
    b"KEYSIZES-HIST-ASSERT": (1, 1, _accept, " <0|1>", "Accepted; it changes nothing here."),
    b"LISTPACK": (1, 1, _of("structures", "listpack"), " <key>", "Log the size of a listpack."),
    b"LOADAOF": (0, _ANY, _loadaof, "", "Write the AOF out, forget the data and load it from the files."),
    b"LOG": (1, 1, _log, " <message>", "Write a line into the server's log."),
    b"OBJECT": (1, 2, _object, " <key> [fast]", "Show how a value is kept."),
    b"PAUSE-CRON": (1, 1, _switch, " <0|1>", "Stop what the server does ten times a second, or go on."),
    b"POPULATE": (1, 3, _populate, " <count> [<prefix>] [<size>]", "Make string keys <prefix>:<number>."),
    b"PROTOCOL": (1, 1, _protocol, " <type>", "Reply with an example of a protocol type."),
    b"QUICKLIST": (1, 2, _of("structures", "quicklist"), " <key> [<0|1>]", "Log the size of a quicklist."),
    b"QUICKLIST-PACKED-THRESHOLD": (1, 1, _packed_threshold, " <size>",
        "Accepted; long elements of lists are stored as all others."),
    b"RECORD": (1, _ANY, record, " START [LAST <count>]|READ <id> [<number> ...]|STOP <id> [<number>]",
        "Record what clients send and what they are answered. Rillet only."),
    b"RELOAD": (0, _ANY, _reload, " [MERGE] [NOFLUSH] [NOSAVE]",
        "Write the dump file, forget the data and load it from there."),
    b"REPLICATE": (1, _ANY, _replicate, " <command> [<arg> ...]", "Put a command into the AOF without running it."),
    b"RESET": (0, _ANY, _reset, " [RECORD <count>] [KEEP <address> <length of greeting> ...]",
        "Return to the state of the start, without data and other connections. Rillet only."),
    b"REPLY-COPY-AVOIDANCE": (1, 1, _accept, " <0|1>", "Accepted; it changes nothing here."),
    b"REPLYBUFFER": (2, 2, _replybuffer, " PEAK-RESET-TIME <NEVER|RESET|milliseconds>|RESIZING <0|1>",
        "Accepted; reply buffers have no peak."),
    b"SCRIPT": (1, 1, _script, " LIST|<sha1>", "Log the source of all scripts, or of one."),
    b"SDSLEN": (1, 1, _of("structures", "sdslen"), " <key>", "Show the sizes of a key and of its string."),
    b"SET-ACTIVE-EXPIRE": (1, 1, _switch, " <0|1>", "Switch the expiry of keys that are not looked at."),
    b"SET-ALLOW-ACCESS-EXPIRED": (1, 1, _switch, " <0|1>",
        "Let commands find keys and fields past their time, or no longer."),
    b"SET-DISABLE-DENY-SCRIPTS": (1, 1, _accept, " <0|1>", "Accepted; what scripts may not call stays refused."),
    b"SET-SKIP-CHECKSUM-VALIDATION": (1, 1, _switch, " <0|1>",
        "Read files and payloads with a wrong checksum, or no longer."),
    b"SLEEP": (1, 1, _sleep, " <seconds>", "Stop the whole server for so long."),
    b"SNAPSHOT": (1, 3, _of("snapshot", "snapshot"), " TAKE|RESTORE|DROP|DUMP <name> | LOAD <name> <rdb> | LIST",
        "Keep copies of all data, and return to them. Rillet only."),
    b"STRUCTSIZE": (0, 0, lambda _client, _args: replies.bulk(b"bits:64"), "",
        "Sizes of structures; only the word's here."),
    b"HELP": (0, 0, _help, "", "Print this help."),
}
# fmt: on
