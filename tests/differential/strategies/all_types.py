"""Generated runs over keys of every type in two databases, chance and scripts included, and what they leave behind."""

from typing import Any

from differential.strategies import hash_commands, list_commands, set_commands
from differential.strategies.commands import Command, line, maybe, one_of
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.wire import Wire

DATABASES = (0, 1)
LATER = "33177117420123"
ANY = one_of("h", "g", "b", "l", "m", "n", "s", "t", "z", "y", "string", "x")
STORED = one_of("l", "m", "s", "z", "x")

CHANCE = st.one_of(
    line("SPOP", one_of("s", "t", "u"), maybe(one_of("1", "2"))),
    line(one_of("BZPOPMIN", "BZPOPMAX"), "z", "y", "0.001"),
    line("GEOADD", one_of("z", "y"), "13.36", "38.11", one_of("a", "b"), "15.08", "37.5", "c"),
    line("GEORADIUS", "z", "14", "38", "200", "km", "STORE", one_of("y", "x")),
    line("GEOSEARCHSTORE", one_of("y", "x"), "z", "FROMLONLAT", "14", "38", "BYRADIUS", "200", "km"),
    # Elements of equal weight would come in the order of a hash table.
    line("SORT", one_of("l", "s", "z", "n"), "ALPHA", maybe("BY", "nosort"), "GET", "#", "STORE", STORED),
    line("PFADD", "p", one_of("a", "b", "c")),
    line("PFCOUNT", "p"),
    line("XADD", "x", "*", "f", "v"),
)
WHOLE = st.one_of(
    line(one_of("RENAME", "RENAMENX"), ANY, ANY),
    line("COPY", ANY, ANY, maybe("DB", one_of("0", "1")), maybe("REPLACE")),
    line("MOVE", ANY, one_of("0", "1")),
    line("SWAPDB", "0", "1"),
    line("SELECT", one_of("0", "0", "1")),
    line(one_of("DEL", "UNLINK"), ANY),
    line("PEXPIREAT", ANY, one_of(LATER, LATER, "5")),
    line("PERSIST", ANY),
    line("SET", one_of("string", "b", "n"), one_of("x", "12"), maybe("PXAT", LATER)),
    line("INCR", "n"),
)
LUA = st.one_of(
    line(
        "EVAL",
        "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('HSET', KEYS[2], 'f', redis.call('LLEN', KEYS[1])) "
        "return redis.call('SPOP', KEYS[3])",
        "3",
        one_of("l", "m"),
        "h",
        one_of("s", "t"),
        one_of("a", "b"),
    ),
    line(
        "EVAL", "redis.call('SELECT', 1) redis.call('ZADD', 'z', 1, ARGV[1]) error('after a write')", "0", "a"
    ),
    line(
        "EVAL",
        "redis.call('SET', KEYS[1], math.random()) return redis.pcall('LPUSH', KEYS[1], 1)",
        "1",
        "string",
    ),
    line("EVAL", "return redis.call('XADD', 'x', '*', 'f', 'v')", "0"),
)
FIELDS = st.one_of(
    line("HPEXPIREAT", "h", one_of(LATER, LATER, "5"), "FIELDS", "1", one_of("a", "b", "c")),
    line("HEXPIRE", one_of("h", "g"), "100000", "FIELDS", "2", "a", "b"),
    line("HPERSIST", "h", "FIELDS", "1", one_of("a", "b")),
    line("HSETEX", "h", "EX", "100000", "FIELDS", "1", one_of("a", "d"), "v"),
    line("HGETEX", "h", one_of("PERSIST", "EX"), "FIELDS", "1", "a").map(
        lambda words: [*words[:3], "1000", *words[3:]] if words[2] == "EX" else words
    ),
)


def runs_of_all_types(size: int, *, fields: bool = False) -> SearchStrategy[list[Command]]:
    """Lists of up to ``size`` commands, some in transactions; ``fields`` of hashes may be given times."""
    sorts = [hash_commands.ONE] * 2 + [list_commands.ONE] * 2 + [CHANCE, WHOLE, WHOLE, LUA]
    sorts += [set_commands.SETS, set_commands.ADDING, set_commands.TAKING, set_commands.ALGEBRA]
    sorts += [FIELDS] * (2 * fields)
    one = st.sampled_from(sorts).flatmap(lambda sort: sort)
    alone = one.map(lambda command: [command])
    together = st.lists(one, min_size=1, max_size=4).map(lambda inside: [["MULTI"], *inside, ["EXEC"]])
    return st.lists(st.sampled_from([alone] * 6 + [together]).flatmap(lambda step: step), max_size=size).map(
        lambda parts: set_commands.BEGINNING + [command for part in parts for command in part]
    )


_LOOKS = {
    b"string": ("GET",),
    b"hash": ("HGETALL",),
    b"list": ("LRANGE", "0", "-1"),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
}


def contents(wire: Wire, *, fields: bool = False) -> dict[tuple[int, bytes], Any]:
    """What every key of both databases holds and when it expires, with ``fields`` those of hashes too."""
    seen: dict[tuple[int, bytes], Any] = {}
    for database in DATABASES:
        wire.call("SELECT", database)
        for key in wire.call("KEYS", "*").plain():
            kind = wire.call("TYPE", key).value
            look, *more = _LOOKS[kind]
            value = wire.call(look, key, *more).plain()
            if kind == b"set":
                value = sorted(value)
            elif kind == b"hash":
                value = sorted(zip(value[::2], value[1::2], strict=True))
                if fields:
                    names = [name for name, _ in value]
                    times = wire.call("HPEXPIRETIME", key, "FIELDS", len(names), *names).plain()
                    value = [*zip(value, times, strict=True)]
            seen[database, key] = kind, value, wire.call("PEXPIRETIME", key).plain()
    wire.call("SELECT", "0")
    return seen
