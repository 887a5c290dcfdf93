"""Whole or not at all: a command that fails at any of its calls leaves memory and what it propagated in agreement.

Every example runs with a MemoryError at its first call, then at its second, and so on until it passes (at some of them,
unless RILLET_EVERYWHERE is set). Each time what was propagated is replayed into another server, which must hold the same as memory, and all that always holds must hold.
Then the same command runs again and everything must still agree: what was mended is a value like any other.
"""

import os
import shlex
import sys
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from support.failing import Failing, Trial, faults_of

from rillet.commands.runtime.state import State
from rillet.commands.spec.command import REGISTRY
from rillet.server.families import load_all
from rillet.storage.keyspace.database import RETRY, Database
from rillet.storage.value_types import Value

load_all()

# What fails on purpose may be the end of a generator or of a file without references.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
AT_MOST = 12  # of each example; all of them take some minutes
EVERYWHERE = "RILLET_EVERYWHERE" in os.environ


class Example(NamedTuple):
    """What a client sends in one batch, and what was there before.

    ``waiting`` are commands of other clients, each its own, that block before. ``wait`` is the time that passes, in
    milliseconds, between the beginning and the batch.
    """

    before: str
    batch: str
    waiting: tuple[str, ...] = ()
    wait: int = 0


def words(text: str) -> list[list[bytes]]:
    """The commands of an example, one a line."""
    lines = filter(None, map(str.strip, text.splitlines()))
    return [
        [word.encode().decode("unicode_escape").encode("latin-1") for word in shlex.split(line)]
        for line in lines
    ]


def _numbers(start: int, stop: int) -> str:
    return " ".join(map(str, range(start, stop)))


ENTRIES = "\n".join(f"XADD x {at}-1 f v{at}" for at in range(1, 7))
GROUP = (
    ENTRIES
    + "\nXGROUP CREATE x g 0\nXREADGROUP GROUP g c COUNT 4 STREAMS x >\nXREADGROUP GROUP g d COUNT 1 STREAMS x >"
)
MANY = "\n".join(f"XADD x {at}-1 f v{at}" for at in range(1, 301))
MANY_PENDING = MANY + "\nXGROUP CREATE x g 0\nXREADGROUP GROUP g c COUNT 300 STREAMS x >"
SCATTERED = " ".join(f"{at}-1" for at in range(1, 300, 3))
LIBRARY = (
    '\'#!lua name=lib\\nredis.register_function("f", function(keys) return redis.call("INCR", keys[1]) end)\''
)
HASH = "HSET h a 1 b 2 c 3\nHPEXPIREAT h 1900000000000 FIELDS 1 c"
LIST = "RPUSH l a b c d e"
LONG_LIST = f"RPUSH l {_numbers(0, 300)}"
SET = "SADD s a b c\nSADD t b c d"
INTEGERS = "SADD s 1 2 3"
SORTED = "ZADD z 1 a 2 b 3 c\nZADD y 2 b 5 d"
PLACES = "GEOADD z 13.36 38.11 a 15.08 37.5 b"
EXPIRING = "SET k v PX 10\nSADD s a"

EXAMPLES: dict[str, list[Example]] = {
    # Strings
    "set": [
        Example("", "SET k v"),
        Example("SET k old PX 100000\nAPPEND k more", "SET k v"),
        Example(SORTED, "SET z v EX 100"),
        Example("SET k old EX 1000", "SET k v KEEPTTL GET"),
        Example("SET k old", "SET k v IFEQ old"),
        Example("SET k v PX 10", "SET k w NX", wait=100),
        Example("", "SET k 1\nGET k\nSET l 2\nINCR k"),
    ],
    "setnx": [Example("", "SETNX k v")],
    "setex": [Example("SET k old", "SETEX k 100 v")],
    "psetex": [Example("SET k old", "PSETEX k 100000 v")],
    "getset": [Example("SET k old EX 100", "GETSET k v")],
    "getdel": [Example("SET k old EX 100", "GETDEL k")],
    "getex": [Example("SET k old", "GETEX k EX 100"), Example("SET k old EX 100", "GETEX k PERSIST")],
    "delex": [Example("SET k old", "DELEX k IFEQ old")],
    "mset": [Example("SET a 1 EX 100\nSADD b x", "MSET a 1 b 2 c 3")],
    "msetnx": [Example("", "MSETNX a 1 b 2 c 3")],
    "msetex": [Example("SET a 0", "MSETEX 2 a 1 b 2 EX 100")],
    "append": [Example("SET k v EX 100", "APPEND k w"), Example("", "APPEND k w")],
    "setrange": [Example("SET k value", "SETRANGE k 3 xyz"), Example("", "SETRANGE k 3 xyz")],
    "incr": [Example("SET n 5 EX 100", "INCR n"), Example("", "INCR n")],
    "decr": [Example("SET n 5", "DECR n")],
    "incrby": [Example("SET n 5", "INCRBY n 3")],
    "decrby": [Example("SET n 5", "DECRBY n 3")],
    "incrbyfloat": [Example("SET n 5 EX 100", "INCRBYFLOAT n 0.5")],
    "increx": [Example("SET n 5", "INCREX n BYINT 3 EX 100"), Example("", "INCREX n")],
    "setbit": [Example("SET k value", "SETBIT k 7 1"), Example("", "SETBIT k 100 1")],
    "bitop": [Example("SET a abc\nSET b bcd\nSADD c x", "BITOP AND c a b"), Example("SET c x", "BITOP AND c a b")],
    "bitfield": [Example("SET k value", "BITFIELD k SET u8 8 200 INCRBY u4 0 1 GET u8 0")],
    "pfadd": [Example("", "PFADD p a b c"), Example("PFADD p a", "PFADD p b")],
    "pfmerge": [Example("PFADD p a\nPFADD q b", "PFMERGE r p q")],
    # Keys
    "del": [Example(SET + "\nSET k v EX 100", "DEL s k nothing t")],
    "unlink": [Example(GROUP + "\nSET k v", "UNLINK x k")],
    "rename": [
        Example(GROUP + "\nPEXPIREAT x 1900000000000", "RENAME x w"),
        Example("SET a 1 EX 100\nAPPEND a 2\nSADD b x", "RENAME a b"),
    ],
    "renamenx": [Example("SET a 1 EX 100", "RENAMENX a b")],
    "copy": [
        Example(GROUP + "\nPEXPIREAT x 1900000000000", "COPY x w"),
        Example("SET a 1 EX 100", "COPY a b DB 2"),
        Example(SET, "COPY s t REPLACE"),
    ],
    "move": [Example("SET a 1 EX 100", "MOVE a 2"), Example(GROUP, "MOVE x 1")],
    "restore": [Example("", "@RESTORE w x"), Example("SADD w a", "@RESTORE w x REPLACE")],
    "restore-asking": [Example("", "@RESTORE-ASKING w x")],
    "expire": [Example("SET k v", "EXPIRE k 100"), Example("SET k v", "EXPIRE k -1")],
    "pexpire": [Example("SADD k v", "PEXPIRE k 100000")],
    "expireat": [Example("SADD k v", "EXPIREAT k 1900000000")],
    "pexpireat": [Example("SADD k v\nPEXPIREAT k 1800000000000", "PEXPIREAT k 1900000000000 GT")],
    "persist": [Example("SET k v EX 100", "PERSIST k")],
    "sort": [
        Example("RPUSH l 3 1 2\nSADD d x", "SORT l STORE d"),
        Example("RPUSH l 3 1 2\nMSET w1 5 w2 4 w3 3", "SORT l BY w* GET # GET w* STORE d"),
    ],
    "flushdb": [Example(SET + "\nSET k v EX 100", "FLUSHDB")],
    "flushall": [Example(SET + "\nSET k v\nMOVE s 1", "FLUSHALL ASYNC")],
    "swapdb": [Example(SET + "\nSET k v EX 100\nMOVE s 1", "SWAPDB 0 1")],
    # Hashes
    "hset": [Example("", "HSET h a 1 b 2"), Example(HASH, "HSET h c 9 d 4")],
    "hmset": [Example(HASH, "HMSET h c 9 d 4")],
    "hsetnx": [Example(HASH, "HSETNX h d 1")],
    "hdel": [Example(HASH, "HDEL h a c"), Example(HASH, "HDEL h a b c")],
    "hincrby": [Example(HASH, "HINCRBY h c 4")],
    "hincrbyfloat": [Example(HASH, "HINCRBYFLOAT h c 0.5")],
    "hexpire": [Example(HASH, "HEXPIRE h 100 FIELDS 2 a b"), Example(HASH, "HEXPIRE h 0 FIELDS 3 a b c")],
    "hpexpire": [Example(HASH, "HPEXPIRE h 100000 FIELDS 2 a c")],
    "hexpireat": [Example(HASH, "HEXPIREAT h 1900000001 FIELDS 2 a c")],
    "hpexpireat": [Example(HASH, "HPEXPIREAT h 1900000001000 FIELDS 2 a c")],
    "hpersist": [Example(HASH, "HPERSIST h FIELDS 2 a c")],
    "hgetex": [Example(HASH, "HGETEX h EX 100 FIELDS 2 a c"), Example(HASH, "HGETEX h PERSIST FIELDS 1 c")],
    "hsetex": [Example(HASH, "HSETEX h EX 100 FIELDS 2 a 7 d 8"), Example("", "HSETEX h KEEPTTL FIELDS 1 a 7")],
    "hgetdel": [Example(HASH, "HGETDEL h FIELDS 2 a c"), Example(HASH, "HGETDEL h FIELDS 3 a b c")],
    "himport|set": [Example("", "HIMPORT PREPARE f a b c\nHIMPORT SET h f 1 2 3")],
    # Lists
    "lpush": [Example("", "LPUSH l a b c"), Example(LIST, "LPUSH l x y")],
    "rpush": [
        Example("", "RPUSH l a b c"),
        Example(LIST, "RPUSH l x"),
        Example("", "RPUSH l x y z", waiting=("BLPOP l 0", "BLMOVE l m LEFT RIGHT 0", "BRPOP l 0")),
    ],
    "lpushx": [Example(LIST, "LPUSHX l x")],
    "rpushx": [Example(LIST, "RPUSHX l x")],
    "lpop": [Example(LIST, "LPOP l"), Example(LIST, "LPOP l 5"), Example(LONG_LIST, "LPOP l 100")],
    "rpop": [Example(LIST, "RPOP l 2")],
    "lset": [Example(LIST, "LSET l 2 new")],
    "linsert": [Example(LIST, "LINSERT l BEFORE d x"), Example(LIST, "LPUSH l z\nLINSERT l AFTER a x")],
    "lrem": [Example("RPUSH l a b a c a", "LREM l 2 a"), Example("RPUSH l a a", "LREM l 0 a")],
    "ltrim": [Example(LIST, "LTRIM l 1 3"), Example(LIST, "LTRIM l 9 10"), Example(LONG_LIST, "LTRIM l 100 -2")],
    "lmove": [Example(LIST, "LMOVE l m LEFT RIGHT"), Example("RPUSH l a", "LMOVE l l LEFT RIGHT")],
    "lmovem": [Example(LIST, "LMOVEM l m LEFT RIGHT COUNT 3")],
    "rpoplpush": [Example(LIST, "RPOPLPUSH l m")],
    "lmpop": [Example(LIST, "LMPOP 2 m l LEFT COUNT 2")],
    "blpop": [Example(LIST, "BLPOP m l 0")],
    "brpop": [Example("RPUSH l a", "BRPOP l 0")],
    "blmove": [Example(LIST, "BLMOVE l m LEFT LEFT 0")],
    "blmovem": [Example(LIST, "BLMOVEM l m LEFT RIGHT COUNT 2 0")],
    "brpoplpush": [Example(LIST, "BRPOPLPUSH l m 0")],
    "blmpop": [Example(LIST, "BLMPOP 0 1 l RIGHT COUNT 2")],
    # Sets
    "sadd": [Example("", "SADD s a b"), Example(INTEGERS, "SADD s 7 x"), Example(SET, "SADD s x y")],
    "srem": [Example(SET, "SREM s a"), Example(SET, "SREM s a b c")],
    "smove": [Example(SET, "SMOVE s t a"), Example("SADD s a", "SMOVE s t a")],
    "spop": [Example(SET, "SPOP s"), Example(SET, "SPOP s 2"), Example(SET, "SPOP s 9")],
    "sinterstore": [Example(SET, "SINTERSTORE u s t"), Example(SET + "\nSET u v EX 10", "SINTERSTORE u s nothing")],
    "sunionstore": [Example(SET + "\nSET u v", "SUNIONSTORE u s t")],
    "sdiffstore": [Example(SET, "SDIFFSTORE s s t")],
    # Sorted sets
    "zadd": [
        Example("", "ZADD z 1 a 2 b"),
        Example(SORTED, "ZADD z 9 a 7 x"),
        Example("", "ZADD z 1 a 2 b", waiting=("BZPOPMIN z 0", "BZMPOP 0 1 z MAX")),
    ],
    "zincrby": [Example(SORTED, "ZINCRBY z 5 a")],
    "zrem": [Example(SORTED, "ZREM z a c"), Example(SORTED, "ZREM z a b c")],
    "zremrangebyrank": [Example(SORTED, "ZREMRANGEBYRANK z 0 1")],
    "zremrangebyscore": [Example(SORTED, "ZREMRANGEBYSCORE z 2 9")],
    "zremrangebylex": [Example("ZADD z 0 a 0 b 0 c", "ZREMRANGEBYLEX z [b +")],
    "zrangestore": [Example(SORTED, "ZRANGESTORE y z 0 1")],
    "zunionstore": [Example(SORTED, "ZUNIONSTORE w 2 z y")],
    "zinterstore": [Example(SORTED, "ZINTERSTORE y 2 z y")],
    "zdiffstore": [Example(SORTED, "ZDIFFSTORE y 2 z y")],
    "zpopmin": [Example(SORTED, "ZPOPMIN z 2")],
    "zpopmax": [Example("ZADD z 1 a", "ZPOPMAX z")],
    "zmpop": [Example(SORTED, "ZMPOP 2 nothing z MIN COUNT 2")],
    "bzpopmin": [Example(SORTED, "BZPOPMIN z 0")],
    "bzpopmax": [Example(SORTED, "BZPOPMAX z 0")],
    "bzmpop": [Example(SORTED, "BZMPOP 0 1 z MAX COUNT 3")],
    "geoadd": [Example(PLACES, "GEOADD z 14 38 c 15 38 a")],
    "geosearchstore": [Example(PLACES, "GEOSEARCHSTORE y z FROMLONLAT 14 38 BYRADIUS 200 km")],
    "georadius": [Example(PLACES, "GEORADIUS z 14 38 200 km STORE y")],
    "georadiusbymember": [Example(PLACES, "GEORADIUSBYMEMBER z a 200 km STOREDIST y")],
    # Streams
    "xadd": [
        Example("", "XADD x * f v"),
        Example(ENTRIES, "XADD x 9-* a 1 b 2"),
        Example(ENTRIES, "XADD x NOMKSTREAM MAXLEN = 3 9-1 f v"),
        Example(MANY, "XADD x MAXLEN ~ 100 900-1 f v"),
        Example(GROUP, "XADD x DELREF MINID 4-0 9-1 f v"),
        Example(GROUP, "XADD x ACKED MAXLEN 2 9-1 f v"),
        Example("XADD x IDMP p i * f v", "XADD x IDMP p j * f v\nXADD x IDMP p j * f v"),
        Example("XADD x IDMPAUTO p * f v", "XADD x IDMPAUTO p * f w"),
        Example("", "XADD x * f " + "v" * 20000),
        # Several that are run together, and in a transaction.
        Example(ENTRIES, "\n".join(["XADD x * f v"] * 40)),
        Example(MANY, "\n".join(["XADD x MAXLEN ~ 100 * f v"] * 40)),
        Example(ENTRIES, "\n".join(f"XADD x {at}-5 f v" for at in range(10, 50))),
        Example(ENTRIES, "MULTI\n" + "\n".join(["XADD x * f v"] * 20) + "\nEXEC"),
        # Others wait.
        Example(
            ENTRIES + "\nXGROUP CREATE x g $",
            "XADD x * f v",
            waiting=("XREADGROUP GROUP g c BLOCK 0 STREAMS x >", "XREADGROUP GROUP g d BLOCK 0 STREAMS x >", "XREAD BLOCK 0 STREAMS x $"),
        ),
    ],
    "xdel": [Example(GROUP, "XDEL x 1-1 3-1 9-1"), Example(MANY, "XDEL x 1-1 150-1 300-1")],
    "xtrim": [
        Example(GROUP, "XTRIM x MAXLEN 2"),
        Example(MANY, "XTRIM x MINID 150"),
        Example(MANY_PENDING, "XTRIM x MAXLEN ~ 100 DELREF"),
        Example(GROUP, "XTRIM x MAXLEN 0 ACKED"),
    ],
    "xdelex": [Example(GROUP, "XDELEX x DELREF IDS 2 1-1 5-1"), Example(GROUP, "XDELEX x ACKED IDS 2 1-1 6-1")],
    "xackdel": [Example(GROUP, "XACKDEL x g DELREF IDS 2 1-1 2-1"), Example(GROUP, "XACKDEL x g KEEPREF IDS 1 1-1")],
    "xsetid": [Example(ENTRIES, "XSETID x 99-1 ENTRIESADDED 50 MAXDELETEDID 7-1")],
    "xgroup|create": [Example(ENTRIES, "XGROUP CREATE x g 3-1"), Example("", "XGROUP CREATE x g $ MKSTREAM ENTRIESREAD 0")],
    "xgroup|setid": [Example(GROUP, "XGROUP SETID x g 3-1 ENTRIESREAD 2")],
    "xgroup|destroy": [Example(GROUP, "XGROUP DESTROY x g"),
        Example(ENTRIES + "\nXGROUP CREATE x g $", "XGROUP DESTROY x g", waiting=("XREADGROUP GROUP g w BLOCK 0 STREAMS x >",)),
    ],
    "xgroup|createconsumer": [Example(GROUP, "XGROUP CREATECONSUMER x g new")],
    "xgroup|delconsumer": [Example(GROUP, "XGROUP DELCONSUMER x g c"), Example(MANY_PENDING, "XGROUP DELCONSUMER x g c")],
    "xreadgroup": [
        Example(GROUP, "XREADGROUP GROUP g e COUNT 1 STREAMS x >"),
        Example(GROUP, "XREADGROUP GROUP g c NOACK STREAMS x >"),
        Example(MANY + "\nXGROUP CREATE x g 0", "XREADGROUP GROUP g c COUNT 200 STREAMS x >\nXREADGROUP GROUP g d STREAMS x >"),
        Example(GROUP, "XREADGROUP GROUP g e CLAIM 10 STREAMS x >", wait=100),
        Example(GROUP, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >\nXREADGROUP GROUP g c BLOCK 0 STREAMS x >"),
        Example(GROUP + "\nXADD w 1-1 f v\nXGROUP CREATE w g 0", "XREADGROUP GROUP g e STREAMS x w > >"),
    ],
    "xack": [
        Example(GROUP, "XACK x g 1-1"),
        Example(GROUP, "XACK x g 1-1 2-1 3-1 4-1"),
        Example(GROUP, "XACK x g 5-1 1-1 9-1"),
        Example(MANY_PENDING, f"XACK x g {SCATTERED}"),
        Example(MANY_PENDING, "XACK x g " + " ".join(f"{at}-1" for at in range(1, 290))),
    ],
    "xclaim": [
        Example(GROUP, "XCLAIM x g e 0 1-1 2-1 3-1"),
        Example(GROUP, "XCLAIM x g d 0 4-1 2-1 JUSTID"),
        Example(GROUP + "\nXDEL x 2-1", "XCLAIM x g e 0 1-1 2-1 FORCE RETRYCOUNT 7 TIME 5"),
        Example(GROUP, "XCLAIM x g e 0 6-1 FORCE LASTID 6-1"),
        Example(MANY_PENDING, f"XCLAIM x g e 0 {SCATTERED}"),
        Example(MANY_PENDING, "XCLAIM x g e 0 " + " ".join(f"{at}-1" for at in range(50, 250))),
        Example(MANY + "\nXGROUP CREATE x g 0\nXCLAIM x g c 0 300-1 1-1 FORCE JUSTID", "XCLAIM x g c 0 150-1 20-1 FORCE JUSTID"),
    ],
    "xautoclaim": [
        Example(GROUP, "XAUTOCLAIM x g e 0 0 COUNT 3"),
        Example(GROUP + "\nXDEL x 2-1", "XAUTOCLAIM x g e 0 0 JUSTID"),
        Example(MANY_PENDING, "XAUTOCLAIM x g e 0 0 COUNT 200"),
    ],
    "xnack": [
        Example(GROUP, "XNACK x g FAIL IDS 2 1-1 2-1"),
        Example(GROUP, "XNACK x g SILENT IDS 1 3-1"),
        Example(MANY_PENDING, f"XNACK x g FATAL IDS 100 {SCATTERED}"),
    ],
    "xcfgset": [Example("XADD x IDMP p i * f v", "XCFGSET x IDMP-DURATION 50 IDMP-MAXSIZE 7")],
    "xidmprecord": [Example("XADD x 1-1 f v", "XIDMPRECORD x p i 1-1")],
    # Libraries
    "function|load": [Example("", f"FUNCTION LOAD {LIBRARY}"), Example(f"FUNCTION LOAD {LIBRARY}", f"FUNCTION LOAD REPLACE {LIBRARY}")],
    "function|delete": [Example(f"FUNCTION LOAD {LIBRARY}", "FUNCTION DELETE lib")],
    "function|flush": [Example(f"FUNCTION LOAD {LIBRARY}", "FUNCTION FLUSH")],
    "function|restore": [Example(f"FUNCTION LOAD {LIBRARY}", "@FUNCTION-RESTORE FLUSH")],
    # What runs others
    "exec": [
        Example(GROUP + "\nSET k v", "MULTI\nINCR n\nXADD x * f v\nXACK x g 1-1 2-1\nDEL k\nRPUSH l a\nEXEC"),
        Example("SET k v", "WATCH k\nMULTI\nSET k w\nEXEC"),
        Example("", "MULTI\nRPUSH l a\nSELECT 1\nRPUSH l b\nEXEC", waiting=("BLPOP l 0",)),
    ],
    "eval": [
        Example(SET, 'EVAL "redis.call(\'SET\', KEYS[1], 1) redis.call(\'SMOVE\', \'s\', \'t\', \'a\') return redis.call(\'INCR\', KEYS[1])" 1 k'),
        Example(ENTRIES, 'EVAL "redis.call(\'XADD\', \'x\', \'*\', \'f\', \'v\') return redis.pcall(\'SADD\', \'x\', 1)" 0'),
    ],
    "fcall": [Example(f"FUNCTION LOAD {LIBRARY}", "FCALL f 1 n")],
    # Expiry at a lookup
    "get": [Example(EXPIRING, "GET k", wait=100), Example(EXPIRING, "SCAN 0\nGET k", wait=100)],
    "hget": [
        Example(HASH + "\nHPEXPIRE h 10 FIELDS 2 a b", "HGET h a", wait=100),
        Example("HSETEX g PX 10 FIELDS 1 a 1", "HGET g a", wait=100),
        Example("HSETEX g PX 10 FIELDS 2 a 1 b 2", "HMGET g b a", wait=100),
    ],
}  # fmt: skip

ALL = [
    pytest.param(name, example, id=f"{name}-{at}")
    for name, examples in EXAMPLES.items()
    for at, example in enumerate(examples)
]


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial()


def begin(trial: Trial, example: Example) -> list[list[bytes]]:
    """Everything before the batch, which is answered."""
    trial.reset()
    if "@RESTORE" in example.batch:
        trial.send(words(GROUP))
    if example.before:
        replies = trial.send(words(example.before))
        assert not replies.startswith(b"-"), replies
    for who, line in enumerate(example.waiting, 1):
        trial.send(words(line), who)
        assert trial.client(who).state is State.BLOCKED, line
    trial.clock.advance(example.wait)
    batch = words(example.batch)
    if batch[0][0].startswith(b"@RESTORE"):
        payload = _bulk(trial.send([[b"DUMP", batch[0][2]]]))
        batch = [[batch[0][0][1:], batch[0][1], b"0", payload, *batch[0][3:]]]
    elif batch[0][0] == b"@FUNCTION-RESTORE":
        payload = _bulk(trial.send([[b"FUNCTION", b"DUMP"]]))
        batch = [[b"FUNCTION", b"RESTORE", payload, *batch[0][1:]]]
    return batch


def _bulk(reply: bytes) -> bytes:
    assert reply.startswith(b"$"), reply
    return reply.partition(b"\r\n")[2][:-2]


def settle(trial: Trial) -> None:
    """What the server does every tenth of a second about what is left."""
    trial.errors.clear()
    trial.server.keyspace.now = trial.clock.now
    trial.guard(trial.server.finish_unit)
    trial.turn()


def disagreements(trial: Trial) -> list[str]:
    """What of memory differs from what was propagated, and what does not hold."""
    errors = trial.replay()
    found = [f"replaying: {error!r}" for error in errors]
    seen, replayed = trial.seen(), trial.replayed()
    found += [
        f"{key}: memory {seen.get(key)!r}, propagated {replayed.get(key)!r}"
        for key in {**seen, **replayed}
        if seen.get(key) != replayed.get(key)
    ]
    return found + faults_of(trial.server)


def places_of(calls: int, name: str) -> range:
    """At which calls an example fails: at each of them if there are few or all are asked for, else at some."""
    step = 1 if EVERYWHERE else max(calls // AT_MOST, 1)
    return range(1 + crc32(name.encode()) % step, calls + 1, step)


def check_example(trial: Trial, name: str, example: Example, error: type[Exception]) -> tuple[int, list[str]]:
    """Fail at one call after the other; return how many there are, and what went wrong."""
    batch = begin(trial, example)
    passing = Failing()
    trial.send(batch, failing=passing)
    settle(trial)
    assert not trial.log, trial.log
    wrong = disagreements(trial)
    for place in places_of(passing.calls, name):
        batch = begin(trial, example)
        failing = Failing(place, error=error)
        trial.send(batch, failing=failing)
        settle(trial)
        assert not trial.died, trial.log
        problems = disagreements(trial)
        if not problems:
            trial.log.clear()
            trial.send(batch)
            settle(trial)
            problems = [f"run again: {text}" for text in [*trial.log, *disagreements(trial)]]
        wrong += [f"{place} {failing.raised}: {text}" for text in problems]
    return passing.calls, wrong


@pytest.mark.parametrize(("name", "example"), ALL)
def test_a_command_that_fails_at_any_call_leaves_memory_and_effects_in_agreement(trial, name, example):
    calls, wrong = check_example(trial, name, example, MemoryError)
    assert calls > 10
    assert not wrong, f"{len(wrong)} at {calls} calls\n" + "\n".join(wrong[:12])


@pytest.mark.parametrize("error", [RecursionError, OverflowError, KeyError, AssertionError])
def test_so_does_one_with_any_other_exception(trial, error):
    for name in ("set", "xadd", "xclaim", "lmove", "zadd", "hdel", "rename"):
        for example in EXAMPLES[name][:2]:
            _, wrong = check_example(trial, name, example, error)
            assert not wrong, "\n".join(wrong[:12])


def test_a_cycle_of_expiry_that_fails_at_any_call_is_completed_by_the_next(trial):
    fields = "HPEXPIRE h 10 FIELDS 2 a b\nHSETEX g PX 10 FIELDS 1 a 1\n"
    keys = "SET k v PX 10\nZADD z 1 a\nPEXPIRE z 10\n"
    example = Example(f"{HASH}\n{fields}{keys}{GROUP}\nPEXPIRE x 10", "PING", wait=100)
    place, failing = 0, Failing(0)
    while place <= failing.calls:
        place += 1
        begin(trial, example)
        trial.server.keyspace.now = trial.clock.now
        failing = Failing(place)
        sys.setprofile(failing)
        trial.guard(trial.server.active_expiry.step)
        sys.setprofile(None)
        trial.server.keyspace.now = trial.clock.advance(RETRY + 1)
        trial.server.active_expiry.step()
        settle(trial)
        assert list(trial.server.keyspace.databases[0].entries) == [b"h"], failing.raised
        assert not disagreements(trial), failing.raised
    assert place > 100


def test_a_key_whose_deletion_always_fails_holds_up_no_other(trial, monkeypatch):
    server = trial.server
    begin(
        trial,
        Example("SET a v PX 1\nHSETEX b PX 2 FIELDS 1 f v\nHSETEX c PX 3 FIELDS 1 f v\nSET d v PX 4", "PING"),
    )
    remove = Database.remove

    def refuse(db: Database, key: bytes) -> Value | None:
        if db.keyspace is server.keyspace and key in {b"a", b"b"}:
            raise KeyError(key)
        return remove(db, key)

    monkeypatch.setattr(Database, "remove", refuse)
    for left in (1, 1, 2):  # a second later both are tried again
        server.keyspace.now = trial.clock.advance(RETRY // 2 + 1)
        server.active_expiry.step()
        assert list(server.keyspace.databases[0].entries) == [b"a", b"b"]
        assert str(trial.log).count("Internal error in the expiry cycle") == 2 * left
    monkeypatch.undo()
    server.keyspace.now = trial.clock.advance(RETRY + 1)
    server.active_expiry.step()
    settle(trial)
    assert not server.keyspace.databases[0].entries
    assert not disagreements(trial)


def test_an_error_while_the_keys_are_mended_is_survived_once():
    trial = Trial()
    example = EXAMPLES["xclaim"][0]
    batch = begin(trial, example)
    passing = Failing()
    trial.send(batch, failing=passing)
    mending = trial.server.mending
    mend = mending._mend
    mended = 0
    for place in range(1, 400, 7):
        batch = begin(trial, example)
        second = Failing(place)

        def fail_once(*args: Any, second: Failing = second) -> None:
            mending._mend = mend  # type: ignore[method-assign]
            sys.setprofile(second)  # the first one is gone: Python forgets a hook that raised
            mend(*args)

        mending._mend = fail_once  # type: ignore[method-assign]
        trial.send(batch, failing=Failing(passing.calls // 3))
        settle(trial)
        assert not trial.died, trial.log
        assert not disagreements(trial), (place, second.raised)
        mended += len(second.raised)
    assert mended > 20


def test_where_keys_cannot_be_mended_the_server_ends_and_the_log_says_so():
    trial = Trial()
    batch = begin(trial, EXAMPLES["xclaim"][0])
    before = trial.seen()

    def fails(*_: object) -> None:
        raise MemoryError

    trial.server.mending._mend = fails  # type: ignore[method-assign]
    trial.send(batch, failing=Failing(90))
    assert trial.died
    assert "can not be mended" in trial.log[-1]
    trial.replay()
    assert trial.replayed() == before  # what was confirmed, and nothing of what was not


def test_every_write_command_has_an_example():
    writing = {name for name, command in REGISTRY.items() if "write" in command.flags}
    assert (
        writing - {"migrate"} <= EXAMPLES.keys()
    )  # which deletes in a task: tests/server/net/test_migration.py
