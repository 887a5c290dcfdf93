"""Command lines made from what the command table declares: argument trees, key specs, arities.

Words are mostly what a command wants and now and then what it does not: extremes, other types, words too many.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from rillet.commands.spec.command import REGISTRY, Argument, Command
from rillet.server.families import load_all

load_all()

# A key's first letter says which type it mostly has.
_KEYS: Final = {
    "string": (b"str", b"num"),
    "bitmap": (b"str", b"bits"),
    "hyperloglog": (b"hll", b"hll2"),
    "list": (b"list", b"list2"),
    "set": (b"set", b"set2"),
    "sorted-set": (b"zset", b"zset2"),
    "geo": (b"geo", b"zset"),
    "hash": (b"hash", b"hash2"),
    "stream": (b"stream", b"stream2"),
}
ALL_KEYS: Final = (
    *tuple(key for keys in _KEYS.values() for key in keys),
    b"nokey",
    b"",
    b"{x}a",
    b"a\x00b\xff",
)
_INTEGERS: Final = (b"0", b"1", b"2", b"3", b"5", b"-1", b"-2", b"10", b"100")
_EXTREMES: Final = (
    *(
        b"9223372036854775807",
        b"-9223372036854775808",
        b"9223372036854775808",
        b"4294967296",
        b"2147483648",
        b"-2147483649",
    ),
    *(
        b"",
        b"x",
        b"1.5",
        b"01",
        b"+1",
        b" 1",
        b"1_0",
        b"0x10",
        b"1e3",
        b"99999999999999999999999",
        b"-0",
        b"\xc2\xb2",
    ),
)
_DOUBLES: Final = (
    *(
        b"1",
        b"0",
        b"2.5",
        b"-3",
        b"1e300",
        b"-1e-300",
        b"inf",
        b"-inf",
        b"+inf",
        b"nan",
        b"0x1p3",
        b"1e999",
        b"",
        b"x",
    ),
    *(b"3.0e3", b".5", b"5.", b"1 ", b"17179869184.5"),
)
_IDS: Final = (
    *(
        b"*",
        b"1-1",
        b"2-1",
        b"3-0",
        b"1-*",
        b"0",
        b"0-0",
        b"$",
        b">",
        b"+",
        b"-",
        b"(1-1",
        b"5",
        b"1700000000000-0",
    ),
    *(
        b"18446744073709551615-18446744073709551615",
        b"18446744073709551616-0",
        b"1-",
        b"-1-1",
        b"1-1-1",
        b"x",
        b"",
    ),
)
_TEXTS: Final = (
    *(
        b"a",
        b"b",
        b"c",
        b"foo",
        b"1",
        b"12",
        b"3.5",
        b"",
        b"\xff\x00",
        b"*",
        b"a*",
        b"[a-",
        b"some longer text" * 8,
    ),
)
_WORDS: Final[dict[str, tuple[bytes, ...]]] = {
    "id": _IDS,
    "last-id": _IDS,
    "lastid": _IDS,
    "max-deleted-id": _IDS,
    "threshold": (*_IDS, *_INTEGERS),
    "group": (b"g", b"g", b"h", b"nogroup", b""),
    "consumer": (b"bob", b"amy", b"", b"c\0"),
    "field": (b"f", b"g", b"h", b"1", b"", b"f" * 70),
    "member": (b"a", b"b", b"c", b"1", b"2", b"", b"m" * 70),
    "element": (b"a", b"b", b"c", b"1", b"-7", b"", b"e" * 70),
    "value": (b"v", b"1", b"-5", b"3.25", b"", b"v" * 600, b"\x00\xff"),
    "encoding": (b"u8", b"i16", b"u63", b"i64", b"u64", b"i1", b"u0", b"x"),
    "offset": (b"0", b"1", b"#1", b"7", b"100", b"-1", b"4294967295", b"999999999999"),
    "type": (b"string", b"list", b"stream", b"hash", b"zset", b"set", b"nosuch"),
    "command": (b"get", b"set", b"xadd", b"xgroup", b"nosuch", b"eval", b"multi"),
    "command-name": (b"get", b"xgroup|create", b"nosuch", b"client|list"),
    "script": (
        b"return redis.call('SET', KEYS[1] or 'str', ARGV[1] or 'v')",
        b"return redis.pcall('XADD', KEYS[1] or 'stream', '*', 'f', ARGV[1] or 'v')",
        b"redis.call('INCR', 'num') error('after a write')",
        b"return {KEYS, ARGV, {1, {2.5, false, {ok='x'}}}}",
        b"redis.setresp(3) return redis.call('HGETALL', KEYS[1] or 'hash')",
        b"return redis.pcall('LPOP', KEYS[1] or 'list')",
        b"return nosuch",
        b"return (",
    ),
    "function-code": (
        b"#!lua name=lib\nredis.register_function('fun', function(k, a) return redis.call('SET', k[1] or 'str', a[1] or 'v') end)",
        b"#!lua name=lib2\nredis.register_function{function_name='ro', callback=function() return 1 end, flags={'no-writes'}}",
        b"#!lua name=bad\nredis.register_function('x')",
        b"#!js name=lib\n",
        b"",
    ),
    "function": (b"fun", b"ro", b"nosuch", b""),
    "library-name": (b"lib", b"lib2", b"nosuch"),
    "sha1": (b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", b"x", b"f" * 40),
    "serialized-value": (b"\x00\x03abc\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00", b"", b"x" * 12),
    "channel": (b"chan", b"chan2", b""),
    "shardchannel": (b"chan", b"chan2", b""),
    "by-pattern": (b"nosort", b"w_*", b"hash->f", b"*"),
    "get-pattern": (b"#", b"w_*", b"hash->f", b"*"),
    "section": (b"server", b"all", b"everything", b"keyspace", b"nosuch", b""),
    "parameter": (b"maxmemory", b"*", b"hash-max-listpack-entries", b"nosuch"),
    "version": (b"5", b"6", b"x"),
    "protover": (b"2", b"3", b"4", b"x"),
    "numkeys": (),
    "numfields": (),
    "numids": (),
}
_NUMBER_OF: Final = ("numkeys", "numfields", "numids")
# As lexicographic borders or scores.
_BORDERS: Final = (
    b"-",
    b"+",
    b"[a",
    b"(b",
    b"[",
    b"-inf",
    b"+inf",
    b"(1",
    b"0",
    b"5",
    b"(inf",
    b"nan",
    b"x",
    b"",
)
# Nothing may wait: these are the times of blocking commands.
_TIMEOUTS: Final = (b"0.001", b"0.002", b"-1", b"x", b"nan", b"1e300")
_BLOCK: Final = (b"1", b"2", b"-1", b"x")


class Maker:
    """Makes command lines from one source of chance.

    Args:
        chance: all that is random comes from it.
        commands: what to choose from.
        oddness: the share of words that are not what is asked for.
    """

    def __init__(self, chance: Random, commands: Iterable[str], *, oddness: float = 0.07) -> None:
        self.chance = chance
        self.commands = [REGISTRY[name] for name in commands]
        self.oddness = oddness

    def line(self, command: Command | None = None) -> list[bytes]:
        """One command line."""
        chance = self.chance
        command = command or chance.choice(self.commands)
        words = [part.encode() for part in command.name.split("|")]
        words[0] = words[0].upper() if chance.random() < 0.5 else words[0]
        self._group = command.group
        self._timed = "blocking" in command.flags or command.name in {"wait", "waitaof"}
        for argument in command.arguments:
            words += self._argument(argument)
        words = self._counted(words)
        if chance.random() < self.oddness:
            words = self._damaged(words, len(command.name.split("|")))
        return words

    def _argument(self, argument: Argument) -> list[bytes]:
        chance = self.chance
        if "optional" in argument.flags and chance.random() < 0.6:
            return []
        times = chance.choice((1, 1, 2, 3)) if "multiple" in argument.flags else 1
        token = [argument.token.encode()] if argument.token else []
        words: list[bytes] = []
        for number in range(times):
            if number == 0 or "multiple_token" in argument.flags:
                words += token
            if argument.type == "oneof":
                words += self._argument(chance.choice(argument.arguments))
            elif argument.type == "block":
                for part in argument.arguments:
                    words += self._argument(part)
            elif argument.type != "pure-token":
                words.append(self._word(argument))
        return words

    def _word(self, argument: Argument) -> bytes:
        chance = self.chance
        kind, name = argument.type, argument.name
        if chance.random() < self.oddness:
            return chance.choice((*_EXTREMES, *_TEXTS, *_IDS, *_DOUBLES))
        if self._timed and name == "timeout":
            return chance.choice(_TIMEOUTS)
        if self._timed and name == "milliseconds":
            return chance.choice(_BLOCK)
        if name in _NUMBER_OF:
            return b"\0" + name.encode()  # filled in when it is known what follows
        if kind == "key":
            return self.key()
        if name in {"min", "max", "start", "stop", "end"} and kind in {"string", "double"}:
            return chance.choice(_IDS if self._group == "stream" else _BORDERS)
        if name in _WORDS:
            return chance.choice(_WORDS[name])
        if kind == "integer":
            return chance.choice(_INTEGERS)
        if kind == "double":
            return chance.choice(_DOUBLES)
        if kind == "unix-time":
            return chance.choice((b"33177117420", b"33177117420123", b"1", b"0", b"-5"))
        return chance.choice(_TEXTS)

    def key(self) -> bytes:
        """A key, mostly one of the type that the command is about."""
        chance = self.chance
        own = _KEYS.get(self._group)
        return chance.choice(own) if own and chance.random() < 0.85 else chance.choice(ALL_KEYS)

    def _counted(self, words: list[bytes]) -> list[bytes]:
        """Fill in how many keys, fields or IDs follow: up to the next word that looks like an option, mostly."""
        for at, word in enumerate(words):
            if word.startswith(b"\0num"):
                following = 0
                for each in words[at + 1 :]:
                    if each.isupper() and each.isalpha() and len(each) > 2:
                        break
                    following += 1
                words[at] = b"%d" % (self.chance.randint(0, following) if following else 0)
                if self.chance.random() < 0.6:
                    words[at] = b"%d" % following
        return words

    def _damaged(self, words: list[bytes], head: int) -> list[bytes]:
        chance = self.chance
        at = chance.randrange(head, len(words) + 1)
        what = chance.randrange(4)
        if what == 0:
            return words[:at] + words[at + 1 :]
        if what == 1:
            return [*words[:at], chance.choice((*_EXTREMES, *_TEXTS)), *words[at:]]
        if what == 2:
            return words[:at] + words[at : at + 2] * 2 + words[at + 2 :]
        return words[:at]


# Values of every type, so that a session has something to work on.
PREPARE: Final = b"""
SET str value
SET num 10
SETBIT bits 77 1
PFADD hll a b c
RPUSH list a b c 1 2
SADD set a b c
SADD set2 1 2 3
ZADD zset 1 a 2 b 3.5 c
GEOADD geo 13.361389 38.115556 a 15.087269 37.502669 b
HSET hash f 1 g v h 2.5
XADD stream 1-1 f v
XADD stream 2-1 f w
XGROUP CREATE stream g 0
XREADGROUP GROUP g bob COUNT 1 STREAMS stream >
"""
