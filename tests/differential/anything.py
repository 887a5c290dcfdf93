"""Random commands of every family, made from the records themselves, right ones and spoilt ones.

A run is a list of `(connection, words)`. The words of a command follow its grammar (COMMAND DOCS), with values from
small pools, so that commands meet the same keys; every sixth command is spoilt afterwards: a word is left out, doubled,
swapped or replaced by a hostile one. The same seed makes the same run.
"""

import random
import re

from differential.about_servers import DEBUG, POOLS, SETTINGS

from rillet.commands.spec.command import REGISTRY, Argument, Command
from rillet.server.families import load_all

load_all()

Words = list[str]
Step = tuple[int, Words]
Run = list[Step]

CONNECTIONS = 3

# What a server answers by chance, of itself, of its machine, or about its other clients.
BY_CHANCE = {"randomkey", "srandmember", "zrandmember", "hrandfield", "spop", "acl|genpass", "lolwut"}
OF_ITSELF = {
    "time", "save", "bgsave", "bgrewriteaof", "lastsave", "shutdown", "monitor", "sync", "psync", "replconf", "replicaof",
    "slaveof", "failover", "info", "role", "restore-asking", "wait", "waitaof", "migrate", "script|debug", "command|docs",
    "command|info", "command|list", "command|count", "command", "xcfgset", "xidmprecord", "client|reply", "client|pause",
    "latency|doctor", "latency|graph", "latency|histogram", "memory|doctor", "memory|stats", "memory|malloc-stats",
    "memory|usage", "module|list", "slowlog|get", "config|rewrite", "cluster|slot-stats", "debug",
    "himport|set",  # hash-templates
}  # fmt: skip
SUBSCRIBING = {"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}
LEFT_OUT = BY_CHANCE | OF_ITSELF
# acl-rules-of-7-0
RULES_OF_7_0 = {"acl|list", "acl|getuser"}
# Each version has its own fields here: without its real server there is no judge.
OF_ITS_RELEASE = {"hello", "client|list", "client|info", "acl|log"}

# Replies and files have an order of the server's own here.
UNORDERED = {
    "keys", "scan", "sscan", "hscan", "zscan", "smembers", "sunion", "sinter", "sdiff", "hgetall", "hkeys", "hvals",
    "command",
}  # fmt: skip
SCANS = {"scan", "sscan", "hscan", "zscan"}

# A client that one of these blocks waits while others go on.
BLOCKING = {name for name, command in REGISTRY.items() if "blocking" in command.flags}

KEYS = {
    "stream": ["s", "s2"], "hash": ["h", "h2"], "list": ["l", "l2"], "set": ["t", "t2"], "sorted-set": ["z", "z2"],
    "geo": ["geo", "z"], "hyperloglog": ["p", "p2"], "bitmap": ["b", "k"], "string": ["k", "n", "k2"],
}  # fmt: skip
ALL_KEYS = sorted({key for keys in KEYS.values() for key in keys})
NUMBERS = ["0", "1", "2", "3", "-1", "-2", "5", "10", "100"]
HOSTILE_NUMBERS = [
    "", " 1", "1 ", "+1", "01", "1.5", "-0", "0x10", "1e3", "nan", "inf", "-inf", "x", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551616", "4294967296", "2147483648", "1\\x00",
]  # fmt: skip
FLOATS = "0 1 -1 2.5 0.1 3 1e2 100 inf -inf -0 1e-7 3.0e5 17179869184 0x10 1e300".split()
HOSTILE_FLOATS = ["nan", "", " 1", "1 ", *"x 1e400 -1e400 0x1p3 infinity +inf 1.5.2 1e --1 1,5".split()]
IDS = ["1-0", "2-0", "3-0", "3-1", "5-5", "10-0", "7"]
RANGE_IDS = [*IDS, "-", "+", "(1-0", "(3", "0", "0-0", "$", ">"]
HOSTILE_IDS = ["*", "1-*", "18446744073709551615-18446744073709551615", "18446744073709551616", "-1", "1-", "-", "1-2-3", "x", "", "(", "(-", "(+", "(18446744073709551615", "0-18446744073709551615"]  # fmt: skip
MEMBERS = ["a", "b", "c", "d", "1", "2", "17", "hello", ""]
FIELDS = ["f", "g", "n", "m"]
VALUES = ["v", "w", "1", "2.5", "hello world", "", "a", "12", "y" * 40, "x" * 70]
PATTERNS = ["*", "a*", "[a-c]", "?", "h*", "\\\\", "", "nosort", "w_*", "#", "*->f"]
LEX = ["-", "+", "[a", "(b", "[c", "a", "", "["]
SCORES = ["-inf", "+inf", "(1", "1", "2", "(3", "0", "10", "(inf"]
# Commands that delete entries.
DELETES = re.compile(r"XDEL|XACKDEL|XTRIM|XADD.*(MAXLEN|MINID)")
LATER_MS, LATER_S = "33177117420123", "33177117420"
# Relative times are long, so that no server sees them pass.
RELATIVE = {"EXPIRE", "PEXPIRE", "HEXPIRE", "HPEXPIRE", "SETEX", "PSETEX"}
TIMES = ["100", "1000", "100000", "0", "-1", "9223372036854775807"]


def lines_of(text: str) -> list[str]:
    """The lines that a text holds, with a semicolon between them."""
    return [line for line in re.split(r";\s*", " ".join(text.split())) if line]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))[:2]


def served(version: str) -> list[Command]:
    """The commands that a version knows and that can be compared."""
    limit = _number(version)
    return [
        command
        for name, command in REGISTRY.items()
        if command.is_served
        and not command.ours
        and not name.endswith("|help")  # our own words
        and name not in LEFT_OUT
        and _number(command.since) <= limit
        and (name not in RULES_OF_7_0 or limit > (7, 2))
    ]


def _with_long_times(words: Words) -> Words:
    """The words with every relative time long: a short one would pass on one server before it does on the other."""
    upper = [word.upper() for word in words]
    places = {at + 1 for at, word in enumerate(upper) if word in {"EX", "PX"}} | (
        {2} if upper[0] in RELATIVE else set()
    )
    short = {at for at in places if at < len(words) and words[at].isdigit() and 0 < int(words[at]) < 100_000}
    return ["100000" if at in short else word for at, word in enumerate(words)]


def _without_two_replies(words: Words) -> Words:
    """A SET without GET where a condition may have a bad digest: Redis would send two replies."""
    upper = {word.upper() for word in words}
    return [word for word in words if word.upper() != "GET"] if upper & {"IFDEQ", "IFDNE"} else words


def _settled(name: str, words: Words) -> Words:
    """The words of a command without what docs/differences.md names, and without what takes long."""
    words = _with_long_times(words)
    upper = [word.upper() for word in words]
    if name == "set":
        return _without_two_replies(words)
    if name == "client|kill" and len(words) > 3:  # never the player's own connections
        return [*words, "ID", "{id2}"]
    if name == "config|get":  # all settings at once: paths, and what Rillet adds
        return [*words[:2], *(word for word in words[2:] if word.strip("*"))] if len(words) > 2 else words
    if name in {"client|setname", "client|setinfo", "hello"}:  # names-with-nul
        return [word.replace("\\x00", "") for word in words]
    if name == "bitfield":  # bitfield-that-fails; strings of 256 MB take long
        other = {"FAIL": "SAT", "2147483648": "1000"}
        return [other.get(word, old) for word, old in zip(upper, words, strict=True)]
    if name in {"xadd", "xtrim"} and {"DELREF", "ACKED"} & set(upper):  # trims-by-policy
        return ["=" if word == "~" else word for word in words]
    if name == "xautoclaim":  # counts-beyond-memory
        return ["1000" if word.isdigit() and int(word) > 1_000_000_000 else word for word in words]
    if name == "msetex":  # one-time-of-msetex
        times = [at for at, word in enumerate(upper) if word in {"EX", "PX", "EXAT", "PXAT"}]
        return words[: times[1]] if len(times) > 1 else words
    if name in {"sort", "sort_ro"} and "BY" in upper:  # equal-weights
        ends = [at for at, word in enumerate(upper) if word in {"LIMIT", "STORE"}]
        return words[: min(ends)] if ends else words
    if name in {"setbit", "setrange"}:  # strings of 256 MB take long
        return ["1000" if word == "2147483648" else word for word in words]
    return words


def _may_be_queued(words: Words) -> bool:
    """Whether a command in a transaction has one reply at EXEC."""
    upper = [word.upper() for word in words]
    if "AUTH" in upper:  # auth-at-exec
        return False
    return upper[0].lower() not in SUBSCRIBING or len(words) == 2


def _may_follow(words: Words, before: Run) -> bool:
    """Whether a command may come behind others: docs/differences.md names what differs only then."""
    line = " ".join(words).upper()
    if not line.startswith(("OBJECT FREQ", "DEBUG RELOAD", "XINFO STREAM")) and "~" not in words:
        return True
    earlier = [" ".join(each).upper() for _, each in before]
    if line.startswith("OBJECT FREQ"):  # frequencies-of-old-keys
        return not any("MAXMEMORY-POLICY" in each and "LFU" in each for each in earlier)
    if line.startswith("DEBUG RELOAD"):  # reload-past-the-time: only MSETEX leaves such a key
        return not any(each.startswith("MSETEX") and "AT " in each for each in earlier)
    # nodes-of-a-file
    reloads = [at for at, each in enumerate(earlier) if each.startswith("DEBUG RELOAD")]
    return not reloads or not any(map(DELETES.match, earlier[: reloads[-1]]))


def _whole_scan(words: Words, signs: str) -> Words:
    """A scan that returns everything in one call: cursors, which may have these signs, are a server's own."""
    at = 1 if words[0] == "SCAN" else 2
    if at < len(words) and words[at].strip(f" {signs}").removesuffix("\\x00").isdigit():
        words[at] = "0"
    return [*words, "COUNT", "1000"]


class Maker:
    """Makes runs of one seed.

    Args:
        seed: the same seed makes the same runs.
        version: of the server that is the judge; newer commands are left out.
        family: only commands of this group of COMMAND DOCS, or all.
        newer_options: whether commands have options that the version does not know.
    """

    hostile = 0.06  # share of values
    spoilt = 0.16  # share of commands

    def __init__(
        self, seed: int, version: str = "8.10", family: str | None = None, *, newer_options: bool = True
    ) -> None:
        self.random = random.Random(seed)
        self.commands = [command for command in served(version) if family in {None, command.group}]
        self._has_judge = newer_options
        if not newer_options:
            self.commands = [command for command in self.commands if command.name not in OF_ITS_RELEASE]
        self.groups = sorted({command.group for command in self.commands} - {"transactions"})
        self._known = _number(version) if not newer_options else (99, 0)
        self._shows_rules = _number(version) > (7, 2)
        self._debug = 0.01 if family is None else 0.0
        self._count = 1
        self._group = ""

    def run(self, size: int) -> Run:
        """A run that begins with data of every type, then ``size`` random commands."""
        out = [(0, words) for words in BEGINNING]
        in_transaction: set[int] = set()
        while len(out) < size + len(BEGINNING):
            number, words = self.random.randrange(CONNECTIONS), self.command()
            if (number in in_transaction and not _may_be_queued(words)) or not _may_follow(words, out):
                continue
            out.append((number, words))
            if words == ["MULTI"]:
                in_transaction.add(number)
            elif words[0].upper() in {"EXEC", "DISCARD", "RESET", "QUIT"}:
                in_transaction.discard(number)
        # Looks have a connection of their own: the others may be in a transaction, subscribed, or without rights.
        return [
            *out,
            *((CONNECTIONS, words) for words in LOOKS if self._may_look(words) and _may_follow(words, out)),
        ]

    def _may_look(self, words: Words) -> bool:
        if words[0] == "ACL" and not self._shows_rules:
            return False
        return self._has_judge or "|".join(words[:2]).lower() not in OF_ITS_RELEASE

    def command(self) -> Words:
        """One command; families are equally likely."""
        draw = self.random
        if draw.random() < 0.05:
            return draw.choice(TRANSACTIONS)
        if draw.random() < self._debug:
            return draw.choice(DEBUG)
        group = draw.choice(self.groups)
        return self.of(draw.choice([command for command in self.commands if command.group == group]))

    def of(self, record: Command) -> Words:
        """A command of this record."""
        draw = self.random
        self._group, self._count = record.group, draw.choice([1, 1, 2, 3])
        words = record.name.upper().split("|")
        if record.name == "config|set":
            for setting in draw.choices(list(SETTINGS), k=draw.choice([1, 1, 2])):
                words += [setting, draw.choice(SETTINGS[setting])]
        else:
            for argument in record.arguments:
                words += self._words(argument, record)
        if draw.random() < self.spoilt:
            words = self._spoil(words)
        if record.name in SCANS:
            return _whole_scan(words, "+" if self._shows_rules else "+-")
        if record.name == "psubscribe" and not self._shows_rules:  # events-within-replies
            return ["u:?" if word == "*" else word for word in words]
        return _settled(record.name, words)

    def _words(self, argument: Argument, record: Command) -> Words:
        draw = self.random
        if "optional" in argument.flags and (draw.random() < 0.6 or not self._knows(argument)):
            return []
        times = 1
        if "multiple" in argument.flags:
            times = self._count if draw.random() < 0.95 else draw.choice([1, 2, 3])
        out: Words = []
        for number in range(times):
            if argument.token is not None and (number == 0 or "multiple_token" in argument.flags):
                out.append(argument.token if draw.random() < 0.8 else argument.token.lower())
            if argument.type == "oneof":
                out += self._words(draw.choice(list(filter(self._knows, argument.arguments))), record)
            elif argument.type == "block":
                for part in argument.arguments:
                    out += self._words(part, record)
            elif argument.type != "pure-token":
                out.append(self._value(argument, record))
        return out

    def _knows(self, argument: Argument) -> bool:
        return argument.since is None or _number(argument.since) <= self._known

    def _value(self, argument: Argument, record: Command) -> str:
        draw = self.random
        name, hostile = argument.name, draw.random() < self.hostile
        pool = self._pool(record).get(name)
        if pool is not None:
            return draw.choice(pool)
        match argument.type:
            case "key":
                return self._key()
            case "pattern":
                return draw.choice(PATTERNS)
            case "unix-time":
                far = LATER_MS if "milli" in name else LATER_S
                return draw.choice(HOSTILE_NUMBERS) if hostile else draw.choice([far, far, "1", "0"])
            case "integer":
                return self._integer(name, record, hostile=hostile)
            case "double":
                if name == "timeout":
                    return draw.choice(["0", "0", "0.01", "-1", "x"])
                return draw.choice(HOSTILE_FLOATS if hostile else FLOATS)
        return self._string(name, hostile=hostile)

    def _pool(self, record: Command) -> dict[str, list[str]]:
        return POOLS.get(record.name) or POOLS.get(record.name.partition("|")[0]) or {}

    def _key(self) -> str:
        if self.random.random() < 0.12:
            return self.random.choice([*ALL_KEYS, "missing"])
        return self.random.choice(KEYS.get(self._group, ALL_KEYS))

    def _integer(self, name: str, record: Command, *, hostile: bool) -> str:
        draw = self.random
        if name in {"numkeys", "numfields", "numids"}:
            return draw.choice(HOSTILE_NUMBERS) if draw.random() < 0.02 else str(self._count)
        if hostile:
            return draw.choice(HOSTILE_NUMBERS)
        if name == "min-idle-time":
            return draw.choice(["0", "1000000", "-1"])
        if name in {"seconds", "ttl"}:
            return draw.choice(TIMES)
        if name == "milliseconds":
            # BLOCK is the only time that is waited for.
            later = ["0", "0", "5"] if "blocking" in record.flags else ["100000", "1000000", "0", "-1"]
            return draw.choice(later)
        if name == "cursor":
            return "0"
        if name == "offset" and self._group == "bitmap":
            return draw.choice(["0", "1", "7", "100", "#1", "-1"])
        return draw.choice(NUMBERS)

    def _string(self, name: str, *, hostile: bool) -> str:
        draw = self.random
        if self._group == "stream":
            if name == "group":
                return draw.choice(["g", "g", "g2"])
            if name == "consumer":
                return draw.choice(["alice", "bob"])
            if name == "min-idle-time":
                return draw.choice(["0", "0", "1000000", "x"])
            if name in {"start", "end", "id", "last-id", "lastid", "max-deleted-id", "threshold"}:
                return draw.choice(HOSTILE_IDS if hostile else RANGE_IDS if draw.random() < 0.4 else IDS)
        if name in {"min", "max", "start", "stop"}:
            return draw.choice(SCORES + LEX + NUMBERS)
        if name == "field":
            return draw.choice(FIELDS)
        if name.startswith("member"):
            return draw.choice(MEMBERS)
        if name == "encoding":
            return draw.choice(["u8", "i16", "u63", "u64", "i64", "i0", "x", "u1"])
        if name in {"lowerbound", "upperbound"}:
            return draw.choice([*NUMBERS, "1.5"])
        return draw.choice(VALUES + MEMBERS)

    def _spoil(self, words: Words) -> Words:
        draw = self.random
        words = list(words)
        at = draw.randrange(1, len(words) + 1)
        match draw.randrange(6):
            case 0 if at < len(words):
                del words[at]
            case 1:
                words.insert(at, draw.choice(words[1:] or ["x"]))
            case 2 if at < len(words):
                words[at] = draw.choice(HOSTILE_NUMBERS + HOSTILE_FLOATS + HOSTILE_IDS)
            case 3 if at < len(words):
                other = draw.randrange(1, len(words))
                words[at], words[other] = words[other], words[at]
            case 4:
                words.append(
                    draw.choice(["COUNT", "LIMIT", "NX", "XX", "GET", "WITHSCORES", "x", "0", "-1", ""])
                )
            case _ if at < len(words):
                words[at] = draw.choice(ALL_KEYS)
        return words


TRANSACTIONS: list[Words] = [["MULTI"], ["MULTI"], ["EXEC"], ["EXEC"], ["EXEC"], ["DISCARD"], ["WATCH", "k"], ["WATCH", "s", "h"], ["UNWATCH"]]  # fmt: skip

BEGINNING: list[Words] = [
    line.split()
    for line in lines_of("""
        XADD s 1-0 f v; XADD s 2-0 f w g x; XADD s 3-0 f v; XADD s 3-1 n 1; XADD s2 1-0 f v; XGROUP CREATE s g 0;
        XGROUP CREATE s g2 2-0; XGROUP CREATE s2 g $; XREADGROUP GROUP g alice COUNT 2 STREAMS s >;
        HSET h f v g 1 n 5; RPUSH l a b c 1 a; RPUSH l2 3 1 2; SADD t a b c; SADD t2 1 2 17; ZADD z 1 a 2 b 2.5 c;
        ZADD z2 0 a 0 b 0 c 0 d; GEOADD geo 13.361389 38.115556 a 15.087269 37.502669 b; PFADD p a b c; SET k hello;
        SET n 10; SETBIT b 7 1
    """)
]  # fmt: skip
LOOKS: list[Words] = [
    *(["XRANGE", key, "-", "+"] for key in KEYS["stream"]),
    *(["XINFO", "STREAM", key, "FULL", "COUNT", "0"] for key in KEYS["stream"]),
    *(["HGETALL", key] for key in KEYS["hash"]), *(["HPEXPIRETIME", key, "FIELDS", "4", *FIELDS] for key in KEYS["hash"]),
    *(["LRANGE", key, "0", "-1"] for key in KEYS["list"]), *(["SMEMBERS", key] for key in KEYS["set"]),
    *(["ZRANGE", key, "0", "-1", "WITHSCORES"] for key in [*KEYS["sorted-set"], "geo"]),
    *(["GET", key] for key in [*KEYS["string"], *KEYS["bitmap"], *KEYS["hyperloglog"]]),
    *(["PEXPIRETIME", key] for key in ALL_KEYS), *(["OBJECT", "ENCODING", key] for key in ALL_KEYS), ["KEYS", "*"],
    ["DBSIZE"], ["FUNCTION", "LIST", "WITHCODE"], ["ACL", "LIST"], ["ACL", "LOG"], ["PUBSUB", "NUMPAT"],
    ["CLIENT", "LIST"], ["SELECT", "1"], ["KEYS", "*"], ["DBSIZE"],
]  # fmt: skip
