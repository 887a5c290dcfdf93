"""Commands that make random data of every type, and everything that a server shows of its data.

Any server takes the commands: those that it does not know change nothing there. What it then has is compared with what
another server has that got it as a file, a payload or a stream of effects.
"""

import random
from collections.abc import Iterable
from typing import Any

from support.streams.random_streams import group_commands, word
from support.wire import Wire

Command = list[bytes | str | int | float]
DATABASES = (0, 3)
LATER = 33177117420123
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
SCRIPT = (
    "redis.call('SELECT', 3) redis.call('RPUSH', KEYS[2], ARGV[1], math.random()) redis.call('DEL', KEYS[1]) "
    "error('after writes')"
)
# Of streams: what a server works out by rules of its own, or how it stores them; and what has no place in old files.
OWN = {b"radix-tree-keys", b"radix-tree-nodes", b"lag"}
_NOT_REPLAYED = {b"seen-time", b"active-time", b"iids-added"}
_NEWER = {
    b"active-time", b"nacked-count", b"nacked", b"idmp-duration", b"idmp-maxsize", b"iids-added", b"iids-duplicates",
    b"pids-tracked", b"iids-tracked",
}  # fmt: skip


def _number(chance: random.Random) -> float | int:
    return chance.choice([chance.randrange(-5, 5), chance.uniform(-1e6, 1e6), 1e300, -0.5, 1 << 52])


def _string(chance: random.Random, key: str) -> list[Command]:
    return [
        chance.choice([["SET", key, word(chance)], ["SET", key, chance.randrange(-(1 << 63), 1 << 63)]]),
        *chance.choice(
            [[], [], [["APPEND", key, word(chance)]], [["SETBIT", key, 77, 1]], [["PFADD", key + "p", "a"]]]
        ),
    ]


def _list(chance: random.Random, key: str) -> list[Command]:
    size = chance.choice([1, 5, 5, 300])
    return [[chance.choice(["RPUSH", "LPUSH"]), key, word(chance)] for _ in range(size)] + [
        ["LREM", key, 1, "a"]
    ]


def _set(chance: random.Random, key: str) -> list[Command]:
    make = chance.choice(
        [word, lambda chance: chance.randrange(1 << 40), lambda chance: chance.randrange(-99, 99)]
    )
    size = chance.choice([1, 5, 5, 200])
    return [["SADD", key, make(chance)] for _ in range(size)]


def _sorted_set(chance: random.Random, key: str) -> list[Command]:
    size = chance.choice([1, 5, 5, 150])
    return [["ZADD", key, _number(chance), word(chance)] for _ in range(size)]


def _hash(chance: random.Random, key: str) -> list[Command]:
    fields = [word(chance) for _ in range(chance.choice([1, 4, 4, 4, 150]))]
    commands: list[Command] = [["HSET", key, field, word(chance)] for field in fields]
    for _ in range(chance.randrange(4)):
        some = chance.sample(fields, min(len(fields), 3))
        when = LATER + chance.randrange(10**6)
        commands.append(
            chance.choice(
                [
                    ["HPEXPIREAT", key, when, "FIELDS", len(some), *some],
                    ["HPERSIST", key, "FIELDS", len(some), *some],
                    ["HSETEX", key, "PXAT", when, "FIELDS", 1, some[0], word(chance)],
                    ["HSETEX", key, "KEEPTTL", "FIELDS", 1, some[0], word(chance)],
                    ["HGETEX", key, "EX", 100_000_000, "FIELDS", 1, some[0]],
                    ["HGETEX", key, "PERSIST", "FIELDS", 1, some[0]],
                    ["HINCRBYFLOAT", key, some[0], 1.5],
                    ["HGETDEL", key, "FIELDS", 1, some[0]],
                    ["HEXPIRE", key, 0, "FIELDS", 1, some[0]],
                ]
            )
        )
    return commands


def _stream(chance: random.Random, key: str) -> list[Command]:
    ids = [f"{number}-{chance.randrange(1, 9)}" for number in range(1, chance.choice([2, 9, 9, 250]))]
    commands: list[Command] = [["XADD", key, each, word(chance), word(chance)] for each in ids]
    commands += [["XDEL", key, each] for each in ids if chance.random() < 0.1]
    for number in range(chance.randrange(3)):
        group = f"group {number}"
        commands += group_commands(chance, key, group, ids)
        some = chance.sample(ids, min(len(ids), 3))
        commands.append(
            ["XNACK", key, group, chance.choice(["FAIL", "SILENT", "FATAL"]), "IDS", len(some), *some]
        )
    for number in range(chance.randrange(3)):
        commands.append(["XADD", key, "IDMP", f"producer {number % 2}", f"message {number}", "*", "f", "v"])
    if chance.random() < 0.3:
        commands.append(["XTRIM", key, "MAXLEN", chance.randrange(20), "DELREF"])
    if chance.random() < 0.2:
        commands.append(["XCFGSET", key, "IDMP-DURATION", 77, "IDMP-MAXSIZE", 9])
    return commands


_GIVE_TIMES = {"HPEXPIREAT", "HSETEX", "HGETEX"}
_MAKERS = {
    "string": _string, "list": _list, "set": _set, "zset": _sorted_set, "hash": _hash, "stream": _stream,
}  # fmt: skip


def random_data(chance: random.Random, keys: int, *, times: bool = True) -> list[Command]:
    """Commands that make, change and move keys in two databases, some in scripts and transactions; fields get times, or none."""
    commands: list[Command] = [["FUNCTION", "LOAD", "REPLACE", LIBRARY]]
    for _ in range(keys):
        kind = chance.choice([*_MAKERS, "hash", "stream"])
        key = f"{kind} {chance.randrange(keys)}"
        other = f"{kind} x"
        changes = _MAKERS[kind](chance, key) + chance.choice(
            [
                *([], [], [], [["PEXPIREAT", key, LATER]], [["PERSIST", key]], [["DEL", key]]), [["RENAME", key, other]],
                [["COPY", key, other, "DB", chance.choice(DATABASES), "REPLACE"]],
                [["MOVE", key, chance.choice(DATABASES)]], [["SWAPDB", *DATABASES]], [["SPOP", key, 2]],
                [["EVAL", SCRIPT, 2, key, "list x", 1]],
            ]
        )  # fmt: skip
        commands.append(["SELECT", chance.choice(DATABASES)])
        commands += chance.choice([changes, changes, [["MULTI"], *changes, ["EXEC"]]])
    commands.append(["SELECT", 0])
    return commands if times else [words for words in commands if words[0] not in _GIVE_TIMES]


def play(wire: Wire, commands: list[Command]) -> None:
    """Run commands; some are refused, by a server that does not know them for one."""
    for command in commands:
        wire.call(*command)


def everything(
    wire: Wire, *, fields: bool, newest: bool, replayed: bool = False
) -> dict[tuple[int, bytes], Any]:
    """What every key holds and when it expires.

    Args:
        wire: to a server.
        fields: with the times of fields of hashes.
        newest: with what only newer servers keep of streams (active times, NACK marks, producers).
        replayed: without what real servers lose where effects are replayed: when consumers were seen, consumers
            that have nothing pending, and (before 7.4) how many entries a group has read.
    """
    dropped = OWN if newest else {*OWN, *_NEWER}
    if replayed:
        dropped = {*dropped, *_NOT_REPLAYED, *(() if newest else (b"entries-read",))}
    found = values(wire, DATABASES, dropped, fields=fields)
    found[0, b"libraries"] = wire.call("FUNCTION", "LIST", "WITHCODE").plain()
    return found


def values(
    wire: Wire, databases: Iterable[int], dropped: set[bytes], *, fields: bool
) -> dict[tuple[int, bytes], Any]:
    """What every key of some databases holds and when it expires, of streams without some fields."""
    found: dict[tuple[int, bytes], Any] = {}
    for database in databases:
        wire.call("SELECT", database)
        for key in sorted(wire.call("KEYS", "*").plain()):
            kind = wire.call("TYPE", key).value.decode()
            due = wire.call("PEXPIRETIME", key).plain()
            found[database, key] = kind, due, _value(wire, key, kind, fields, dropped)
    wire.call("SELECT", 0)
    return found


def _value(wire: Wire, key: bytes, kind: str, fields: bool, dropped: set[bytes]) -> Any:
    if kind == "string":
        return wire.call("GET", key).plain()
    if kind == "list":
        return wire.call("LRANGE", key, 0, -1).plain()
    if kind == "set":
        return sorted(wire.call("SMEMBERS", key).plain())
    if kind == "zset":
        return [
            each if number % 2 == 0 else float(each)
            for number, each in enumerate(wire.call("ZRANGE", key, 0, -1, "WITHSCORES").plain())
        ]
    if kind == "hash":
        words = wire.call("HGETALL", key).plain()
        pairs = sorted(zip(words[::2], words[1::2], strict=True))
        if not fields or not pairs:
            return pairs
        names = [name for name, _ in pairs]
        times = wire.call("HPEXPIRETIME", key, "FIELDS", len(names), *names).plain()
        return list(zip(pairs, times, strict=True))
    return _of_stream(wire, key, dropped)


def _of_stream(wire: Wire, key: bytes, dropped: set[bytes]) -> Any:
    groups = [
        dict(zip(group[::2], group[1::2], strict=True)) for group in wire.call("XINFO", "GROUPS", key).plain()
    ]
    pending = [wire.call("XPENDING", key, group[b"name"]).plain() for group in groups]
    full = _maps(wire.call("XINFO", "STREAM", key, "FULL", "COUNT", 0).plain(), dropped)
    return full, pending


def _maps(reply: Any, dropped: set[bytes]) -> Any:
    """Flat lists of names and values as dicts, without some names."""
    if not isinstance(reply, list):
        return reply
    if reply and reply[0] in (b"length", b"name"):
        pairs = zip(reply[::2], reply[1::2], strict=True)
        return {name: _maps(value, dropped) for name, value in pairs if name not in dropped}
    parts = [_maps(each, dropped) for each in reply]
    if dropped >= _NOT_REPLAYED:
        return [each for each in parts if not (isinstance(each, dict) and each.get(b"pel-count") == 0)]
    return parts
