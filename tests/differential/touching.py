"""What a command does to the keys that it names: clocks of eviction, WATCH, tracking, events, changes since the last save.

A walk gives each command keys of its own (`7:s`), so that one wait lets all of them grow idle, and looks at them right
after the command.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from differential.anything import ALL_KEYS, BEGINNING, Maker, lines_of
from support.servers import ServerProcess
from support.wire import Node, Wire, encode_command

from rillet.commands.spec.command import REGISTRY, Command, keys_of

Words = list[str]

NAMES = frozenset(ALL_KEYS)
IDLE = 2  # seconds: the clock of a real server ticks once a second
WITNESS = "made last"  # a key that no step touches
DIRTY = ["INFO", "persistence"]
WAYS = ("plain", "multi", "script", "no-touch")
SCRIPT = "return redis.pcall(unpack(ARGV))"
# Commands that no grammar makes well, or that the random comparison leaves out.
MORE: list[Words] = [
    line.split()
    for line in lines_of("""
        XCFGSET s IDMP-DURATION 50; XCFGSET s IDMP-DURATION 100; XIDMPRECORD s p i 1-0;
        XADD s IDMP p i * f v; XADD s NOMKSTREAM MAXLEN = 1 * f v; XTRIM s MAXLEN 100;
        XREADGROUP GROUP g alice STREAMS s 0; XREADGROUP GROUP g alice NOACK STREAMS s >;
        XREADGROUP GROUP g alice STREAMS s 9-0; XREADGROUP GROUP g2 carol STREAMS s 0;
        XREADGROUP GROUP g alice STREAMS s s2 > >; XREADGROUP GROUP nosuch alice STREAMS s >;
        XREADGROUP GROUP g alice CLAIM 0 STREAMS s >;
        XREAD STREAMS s 0; XREAD STREAMS s $;
        XACK s g 1-0; XACK s g 9-0;
        XCLAIM s g bob 0 1-0; XCLAIM s g bob 100000 1-0; XCLAIM s g alice 100000 1-0;
        XCLAIM s g alice 100000 1-0 LASTID 9-0; XCLAIM s g alice 0 1-0 JUSTID; XAUTOCLAIM s g alice 100000 0;
        XCLAIM s g bob 0 9-9; XCLAIM s g bob 0 1-0 JUSTID; XCLAIM s g bob 0 3-1 FORCE;
        XAUTOCLAIM s g bob 0 0; XAUTOCLAIM s g bob 100000 0;
        XGROUP CREATE s g9 $; XGROUP CREATE s g $; XGROUP CREATE missing g $ MKSTREAM; XGROUP SETID s g 2-0;
        XGROUP DESTROY s g; XGROUP DESTROY s nosuch; XGROUP CREATECONSUMER s g carol; XGROUP CREATECONSUMER s g alice;
        XGROUP DELCONSUMER s g alice; XGROUP DELCONSUMER s g nosuch;
        XSETID s 9-0; XSETID s 3-1; XACKDEL s g IDS 1 1-0; XNACK s g FAIL IDS 1 1-0;
        XDELEX s IDS 1 1-0; XDELEX s IDS 1 9-0;
        XDEL s 1-0; XDEL s 9-0; XPENDING s g;
        XINFO STREAM s; XINFO GROUPS s; XINFO CONSUMERS s g;
        SET k v; SET k v NX; SET k v XX GET; SET k v XX; SET k v GET; SET k v EX 1000; MSETEX 1 k v XX;
        SET s v; SET k v KEEPTTL; SETEX k 1000 v; PSETEX k 100000 v;
        GETSET k v; GETSET s v; GETDEL k;
        GETEX k; GETEX k PERSIST; GETEX k EX 1000; GETEX k EXAT 1;
        SETNX k v; SETNX k2 v; MSET k v n v; MSETNX k v n v; MSETEX 2 k v n v EX 1000;
        APPEND k v; APPEND k2 v; INCR n; INCRBYFLOAT n 1; SETRANGE k 0 v; STRLEN k;
        SETBIT b 7 1; SETBIT b 7 0;
        BITFIELD b GET u8 0; BITFIELD b SET u8 0 1; BITFIELD_RO b GET u8 0;
        BITOP AND b b k; BITOP AND k2 b k;
        PFADD p a; PFADD p z;
        PFCOUNT p; PFCOUNT p p2;
        PFMERGE p2 p; PFMERGE p p2;
        EXPIRE k 1000; EXPIRE k 1000 XX; EXPIRE k -1; PERSIST k; TTL k; TYPE k; EXISTS k; TOUCH k;
        OBJECT ENCODING k; OBJECT REFCOUNT k; MEMORY USAGE k; DUMP k; DEBUG OBJECT k;
        RENAME k k2; RENAME k n; RENAME k k;
        RENAMENX k n; RENAMENX k k2;
        COPY k k2; COPY k n REPLACE; COPY k n; MOVE k 1; DEL k; UNLINK k s;
        SORT l; SORT l STORE l2; SORT l STORE k2; SORT_RO l;
        SPOP t; SPOP t 9; SRANDMEMBER t; HRANDFIELD h; ZRANDMEMBER z;
        SMOVE t t2 a; SMOVE t t2 nosuch; SMOVE t t a; SUNIONSTORE t t t2;
        SINTERSTORE t t t2; SINTERSTORE k2 t t2; ZUNIONSTORE z 2 z z2;
        ZRANGESTORE z z 5 9; ZRANGESTORE z2 z 0 -1;
        ZADD z 1 a; ZADD z XX 5 a; ZADD z CH 5 zz; ZADD z INCR 0 a; ZINCRBY z 0 a;
        ZREM z nosuch; ZREM z a b c;
        ZPOPMIN z; ZPOPMIN z 0; GEOADD geo XX 1 1 nosuch; GEOSEARCHSTORE z geo FROMLONLAT 15 37 BYRADIUS 200 km;
        GEORADIUS geo 15 37 200 km STORE z; GEORADIUS geo 15 37 200 km;
        HSET h f v; HSET h f w; HSETNX h f w;
        HDEL h f; HDEL h f g n; HDEL h nosuch; HINCRBY h n 0;
        HEXPIRE h 1000 FIELDS 1 f; HEXPIRE h 0 FIELDS 1 f; HPERSIST h FIELDS 1 f;
        HGETEX h FIELDS 1 f; HGETEX h EX 1000 FIELDS 1 f; HGETDEL h FIELDS 1 f;
        HSETEX h FIELDS 1 f v; HSETEX h FNX FIELDS 1 f v; HTTL h FIELDS 1 f; LPUSH l a; LPUSHX k2 a;
        LPOP l; LPOP l 0; LPOP l 99; LMPOP 2 l l2 LEFT;
        LREM l 0 nosuch; LREM l 0 a; LSET l 0 a;
        LINSERT l BEFORE nosuch v; LINSERT l BEFORE a v;
        LTRIM l 0 -1; LTRIM l 0 0; LTRIM l 5 9;
        LMOVE l l LEFT RIGHT; LMOVE l l2 LEFT RIGHT; RPOPLPUSH l l2;
        BLPOP l 0; BLPOP l2 l 0; BZPOPMIN z 0; BZPOPMAX missing z 0; BZMPOP 0 2 missing z MIN; BLMPOP 0 2 missing l LEFT;
        BRPOP l 0;
        BRPOPLPUSH l l2 0; BRPOPLPUSH l k 0; LMOVE l k LEFT LEFT; BLMOVEM l l2 LEFT RIGHT 0 COUNT 2;
        LMOVEM l l2 LEFT RIGHT COUNT 2; ZMPOP 1 z MIN;
        SET k v IFEQ hello; SET k v IFEQ other;
        ZREMRANGEBYRANK z 0 0; ZREMRANGEBYRANK z 5 9; ZREMRANGEBYRANK z 0 -1; ZREMRANGEBYSCORE z 1 1;
        ZREMRANGEBYLEX z2 [a [a; BLMOVE l l2 LEFT RIGHT 0;
        GET l; GET missing; LLEN k; HGETALL k;
        SADD k a; SADD t a; SREM t nosuch; ZADD k 1 a; XADD k * f v; XLEN k
    """)
]  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One command of a walk with keys of its own, and the way in which a client sends it."""

    words: Words
    keys: list[str]
    prefix: str
    way: str

    def __str__(self) -> str:
        return f"{' '.join(self.words)} ({self.way})"

    def beginning(self) -> Iterator[Words]:
        """What is there before it."""
        for words in BEGINNING:
            at = _first_key(words)
            if words[at] in self.keys:
                yield [*words[:at], self.prefix + words[at], *words[at + 1 :]]


def _first_key(words: Words) -> int:
    return next(at for at, word in enumerate(words) if at and word in NAMES)


def walked(version: str) -> list[Command]:
    """The commands that name keys."""
    limit = tuple(map(int, version.split(".")))
    return [
        record
        for name, record in REGISTRY.items()
        if record.is_served
        and not record.ours
        and record.key_specs
        and name not in {"migrate", "restore-asking", "object|help", "spublish", "ssubscribe", "sunsubscribe"}
        and not name.startswith(("eval", "fcall"))
        and tuple(map(int, record.since.split(".")))[:2] <= limit
    ]


def walk(seed: int, each: int, version: str = "8.10") -> list[Step]:
    """`MORE`, and so many random commands of each record that names keys."""
    maker, draw = Maker(seed, version, newer_options=version == "8.10"), random.Random(seed)
    records = walked(version)
    known = {record.name for record in records}
    lines = [words for words in MORE if _named(words) is None or _named(words) in known]
    lines += [maker.of(record) for record in records for _ in range(each)]
    out = []
    for number, words in enumerate(lines):
        prefix = f"{number}:"
        try:
            record = REGISTRY[_named(words)]
            places = [reference.index for reference in keys_of(record, [word.encode() for word in words])]
        except (KeyError, ValueError, IndexError):
            continue
        keys = list(dict.fromkeys(words[at] for at in places))
        if not keys or "" in keys:
            continue
        named = [prefix + word if at in places else word for at, word in enumerate(words)]
        way = WAYS[number % len(WAYS)] if len(words[0]) % 2 else draw.choice(WAYS)
        if "blocking" in record.flags and way in {"plain", "no-touch"}:
            way = "multi"
        out.append(Step(named, keys, prefix, way))
    return out


def _named(words: Words) -> str:
    """The name of the record of a command."""
    name = words[0].lower()
    return name if name in REGISTRY and REGISTRY[name].is_served else f"{name}|{words[1].lower()}"


class Walked:
    """A server under one policy, and the connections that look at it."""

    def __init__(self, server: ServerProcess, policy: str, *, observed: bool) -> None:
        self.observed = observed
        self.is_lfu = policy.endswith("lfu")
        self.control, self.client, self.watcher = (server.wire() for _ in range(3))
        self.shy = server.wire()
        self.shy.call("CLIENT", "NO-TOUCH", "ON")
        self.broadcast, self.reader = server.wire(3), server.wire(3)
        if observed:
            self.reader.call("CLIENT", "TRACKING", "ON")
            self.broadcast.call("CLIENT", "TRACKING", "ON", "BCAST")
        self.control.call("FLUSHALL")
        for setting in (("maxmemory-policy", policy), ("lfu-log-factor", "0"), ("lfu-decay-time", "0")):
            self.control.call("CONFIG", "SET", *setting)
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")

    def close(self) -> None:
        for wire in (self.control, self.client, self.watcher, self.shy, self.broadcast, self.reader):
            wire.close()

    def prepare(self, steps: list[Step]) -> None:
        """Make all keys, and let the tracking connection read them."""
        lines = [words for step in steps for words in step.beginning()]
        for at in range(0, len(lines), 200):
            _pipeline(self.control, lines[at : at + 200])
        reads = [["EXISTS", step.prefix + key] for step in steps for key in step.keys]
        for at in range(0, len(reads), 200):
            _pipeline(self.reader, reads[at : at + 200])
        self.control.call("SET", WITNESS, "v")
        self.dirty = _changes(self.control.call(*DIRTY))
        _pushes(self.reader)
        _pushes(self.broadcast)

    def run(self, step: Step) -> dict[str, object]:
        """Run a step; returns what it did to its keys."""
        names = [step.prefix + key for key in step.keys]
        if self.observed:
            self.watcher.call("WATCH", *names)
        if step.way == "script":
            reply = self.client.call("EVAL", SCRIPT, len(names), *names, *step.words)
        elif step.way == "multi":
            reply = _pipeline(self.client, [["MULTI"], step.words, ["EXEC"]])[-1]
        else:
            reply = (self.shy if step.way == "no-touch" else self.client).call(*step.words)
        look = "FREQ" if self.is_lfu else "IDLETIME"
        looks = [["OBJECT", look, name] for name in (*names, WITNESS)]
        looked, info = _pipeline(self.control, [["MULTI"], *looks, ["EXEC"], DIRTY])[-2:]
        *clocks, witness = looked.children
        before, self.dirty = self.dirty, _changes(info)
        return {
            "reply": reply.kind if reply.kind != "-" else str(reply),
            "clocks": [self._clock(each.plain(), witness.plain()) for each in clocks],
            "dirty": self.dirty - before,
            "watch": _pipeline(self.watcher, [["MULTI"], ["EXEC"]])[-1].is_null,
            "tracking": sorted(_pushes(self.reader)),
            "broadcast": sorted(_pushes(self.broadcast)),
        }

    def _clock(self, value: object, witness: int) -> object:
        """Return the number of uses; or whether a key is idle since it was made, however long a step takes."""
        if self.is_lfu or not isinstance(value, int):
            return value
        return "idle" if value >= witness else "fresh"


def play(
    server: ServerProcess, policy: str, steps: list[Step], *, observed: bool = True
) -> list[dict[str, object]]:
    """Walk all steps on a server under a policy; ``observed``: its keys are watched and tracked."""
    walked_server = Walked(server, policy, observed=observed)
    try:
        walked_server.prepare(steps)
        if not walked_server.is_lfu:
            time.sleep(IDLE + 0.2)
        return [walked_server.run(step) for step in steps]
    finally:
        walked_server.close()


def _changes(info: Node) -> int:
    return int(info.value.partition(b"rdb_changes_since_last_save:")[2].split()[0])


def _pipeline(wire: Wire, lines: list[Words]) -> list[Node]:
    wire.send_raw(b"".join(encode_command(*words) for words in lines))
    replies = []
    while len(replies) < len(lines):
        if (node := wire.read()).kind != ">":
            replies.append(node)
    return replies


def _pushes(wire: Wire) -> set[str]:
    wire.send("PING")
    keys: set[str] = set()
    while (node := wire.read()).kind == ">":
        keys.update(map(str, node.children[1].children or ["everything"]))
    return keys
