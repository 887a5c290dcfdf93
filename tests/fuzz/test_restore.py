"""Payloads of RESTORE with right checksums: refused with a clear error, or a key that every command can use."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer, mutate
from fuzz.values import VALUES
from fuzz.victim import Victim

from rillet.server.debugging.digest import value_digest
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import RdbError, dump_value, restore_value

fuzzer = Fuzzer("restore")

REFUSALS = (b"ERR Bad data format", b"ERR DUMP payload version or checksum are wrong")
_ANY = (
    "OBJECT ENCODING k|DEBUG OBJECT k|COPY k l REPLACE|DUMP k|MEMORY USAGE k|EXPIRE k 1000|RENAME l m|TOUCH k"
)
USES = {
    b"string": "GET k|STRLEN k|GETRANGE k 0 -1|APPEND k x|SETBIT k 9 1|BITCOUNT k|PFCOUNT k|PFADD k a|INCR k|SETRANGE k 3 y",
    b"list": "LRANGE k 0 -1|LLEN k|LPOS k a|LINSERT k BEFORE a b|LSET k 0 z|LPOP k|RPUSH k y|LREM k 0 a|LTRIM k 1 -2|SORT k ALPHA",
    b"set": "SMEMBERS k|SCARD k|SISMEMBER k a|SADD k zz 77|SREM k a|SRANDMEMBER k -3|SUNION k m|SPOP k|SSCAN k 0|SINTERSTORE n k m",
    b"zset": "ZRANGE k 0 -1 WITHSCORES|ZCARD k|ZSCORE k a|ZADD k 5 zz|ZRANK k zz|ZRANGEBYSCORE k -inf +inf|ZRANGEBYLEX k - +"
    "|ZPOPMIN k|ZINCRBY k 2 a|ZREM k b|ZSCAN k 0|GEOPOS k a|ZUNIONSTORE n 2 k m",
    b"hash": "HGETALL k|HLEN k|HGET k f|HSET k zz 1|HINCRBY k zz 2|HDEL k f|HSCAN k 0|HRANDFIELD k -3 WITHVALUES|HTTL k FIELDS 1 g"
    "|HPEXPIRE k 100000 FIELDS 1 g|HPERSIST k FIELDS 1 g",
    b"stream": "XINFO STREAM k FULL|XRANGE k - +|XREVRANGE k + - COUNT 2|XLEN k|XADD k * f v|XDEL k 1-0|XGROUP CREATE k gg 0"
    "|XREADGROUP GROUP gg c STREAMS k >|XREADGROUP GROUP g bob COUNT 2 STREAMS k >|XREADGROUP GROUP g bob STREAMS k 0|XPENDING k g"
    "|XPENDING k g - + 10|XAUTOCLAIM k g amy 0 0|XCLAIM k g amy 0 1-0 FORCE|XACK k g 1-0|XTRIM k MAXLEN 5|XSETID k 99999999999999-0"
    "|XINFO GROUPS k|XINFO CONSUMERS k g|XGROUP DELCONSUMER k g bob|XGROUP DESTROY k h|XREAD STREAMS k 0",
}


def signed(payload: bytes) -> bytes:
    """The same with a right checksum."""
    return payload[:-8] + crc64(payload[:-8]).to_bytes(8, "little")


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("--rdb-version", 14) as victim:
        yield victim


def digest_of(payload: bytes) -> tuple[bytes, bytes]:
    """The digest of a payload's value, and how Rillet writes it. RdbError where it is refused."""
    value = restore_value(payload)
    database = Keyspace().databases[0]
    database.add(b"k", value)
    return value_digest(database, b"k"), dump_value(value, version=14)


def check(victim: Victim, payload: bytes) -> None:
    payload = signed(payload)
    try:
        digest, written = digest_of(payload)
    except RdbError:
        if payload[-9] % 8:  # the server is asked about some of them only
            return
        digest = None
    else:
        assert digest_of(written)[0] == digest
    with victim.ready() as wire:
        wire.call("FLUSHALL")
        reply = wire.call("RESTORE", "k", 0, payload)
        assert (reply.value == b"OK") == (digest is not None), reply
        if digest is None:
            assert reply.value in REFUSALS
        else:
            # Before the uses as well as after them: those may mend or empty what is odd.
            check_reload(wire)
            kind = wire.call("TYPE", "k").value
            uses = [use.split() for use in f"{USES.get(kind, 'EXISTS k')}|{_ANY}".split("|")]
            for use in uses:
                wire.send(*use)
            for use in uses:
                text = wire.read().encode()
                assert b"internal error" not in text, (use, text)
            check_reload(wire)
    victim.assert_well()


def check_reload(wire) -> None:
    before = wire.call("DEBUG", "DIGEST")
    assert wire.call("DEBUG", "RELOAD").value == b"OK"
    assert wire.call("DEBUG", "DIGEST") == before, "a reload changes the data"


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    payload = chance.choice(corpus)
    body = bytearray(payload[:-10])
    if chance.random() < 0.1 and body:
        body[0] = chance.randrange(30)  # read it as another type
    return mutate(chance, bytes(body), corpus) + payload[-10:]


@fuzzer.seeds
def test_a_known_payload_is_refused_or_can_be_used(victim, seed):
    fuzzer.check_once(lambda payload: check(victim, payload), seed)


@pytest.mark.parametrize("name", VALUES)
def test_what_the_server_writes_itself_can_be_used(victim, name):
    from fuzz.values import make

    with victim.ready() as wire:
        assert make(wire, VALUES[name])
        payload = wire.call("DUMP", "k").plain()
    digest_of(payload)
    check(victim, payload)


def test_a_mutated_payload_is_refused_or_can_be_used(victim):
    fuzzer.run(lambda payload: check(victim, payload), generate)
