"""Every method of redis-py for the data types, scripts and users: results as from a redis-server 7.0, both protocols.

A scenario is a list of calls; each gives what redis-py makes of the reply, or the error it raises. What came after
7.0 is compared with Valkey where that has it, and stands with its results at the end of the file otherwise.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.commands import core
from support.live import LiveServer
from support.servers import start_server

# Some methods are deprecated or experimental: they are tried like the others.
pytestmark = pytest.mark.filterwarnings("ignore:Call to")

# Sets, and what is as good in another order.
UNORDERED = {
    "sdiff", "sinter", "sunion", "smembers", "hkeys", "hvals", "keys", "acl_cat", "scan", "sscan", "hscan",
    "sscan_iter", "scan_iter", "hscan_iter", "zscan_iter", "acl_users",
}  # fmt: skip


class Call:
    """A method of the client and its arguments; `masked` leaves of the result only its type."""

    def __init__(self, name: str, args: tuple[Any, ...], options: dict[str, Any], masked: bool) -> None:
        self.name, self.args, self.options, self.masked = name, args, options, masked

    def __repr__(self) -> str:
        facts = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{self.name}({', '.join(facts)})"


class _Calls:
    def __init__(self, masked: bool = False) -> None:
        self._masked = masked

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: Call(name, args, options, self._masked)


c = _Calls()
masked = _Calls(masked=True)

SUM = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
TABLE = "return {1, 2.9, 'three', {ok='FINE'}, false, {4, {5}}, redis.sha1hex('')}"
LIBRARY = """#!lua name=lib
redis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function{function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end,
                        flags={'no-writes'}, description='looks'}
"""

SCENARIOS: dict[str, list[Call]] = {
    "strings": [
        c.set("k", "v"),
        c.set("k", "w", nx=True),
        c.set("k", "w", xx=True, get=True),
        c.set("k", 5, ex=100, keepttl=False),
        c.set("k", 5, get=True, keepttl=True),
        c.get("k"),
        c.get("none"),
        c.getset("k", "6"),
        c.getdel("k"),
        c.getex("k", ex=10),
        c.setex("k", 100, "v"),
        c.psetex("k", 100_000, "v"),
        c.setnx("k", "v"),
        c.setnx("l", "v"),
        c.getex("k", persist=True),
        c.ttl("k"),
        c.pttl("none"),
        c.append("k", "abc"),
        c.strlen("k"),
        c.substr("k", 1, 2),
        c.getrange("k", 0, 1),
        c.setrange("k", 6, "xyz"),
        c.get("k"),
        c.mset({"a": 1, "b": 2}),
        c.msetnx({"b": 1, "z": 2}),
        c.mget("a", "b", "z"),
        c.incr("a"),
        c.incrby("a", 5),
        c.decr("a"),
        c.decrby("a", 2),
        c.incrbyfloat("a", 1.5),
        c.incr("k"),
        c.lcs("k", "l"),
        c.lcs("k", "l", len=True),
        c.lcs("k", "l", idx=True, minmatchlen=1, withmatchlen=True),
        c.stralgo("LCS", "a", "b"),
        c.lpush("list", 1),
        c.get("list"),
    ],
    "keys": [
        c.mset({"a": 1, "b": 2, "c": "x"}),
        c.copy("a", "d"),
        c.copy("a", "d"),
        c.copy("a", "b", replace=True),
        c.copy("a", "a", destination_db=1),
        c.exists("a", "b", "none"),
        c.expire("a", 100),
        c.expire("a", 50, gt=True),
        c.expireat("a", 33177117420),
        c.expiretime("a"),
        c.pexpiretime("a"),
        c.pexpire("a", 100_000, lt=True),
        c.pexpireat("a", 33177117420123),
        c.pexpireat("a", 33177117420123, nx=True),
        c.persist("a"),
        c.keys("*"),
        c.scan(count=1000),
        c.scan_iter(count=1000, _type="string"),
        c.move("b", 1),
        c.move("b", 1),
        c.rename("c", "e"),
        c.renamenx("e", "a"),
        c.rename("none", "a"),
        c.touch("a", "d"),
        c.type("a"),
        c.type("none"),
        masked.randomkey(),
        masked.dump("a"),
        c.dump("none"),
        c.restore("r", 0, b"\x00\x01x\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
        c.restore("r", 0, b"nonsense"),
        c.unlink("a", "none"),
        c.delete("d"),
        c.dbsize(),
        c.swapdb(0, 1),
        c.keys("*"),
        c.object("encoding", "a"),
        c.object("refcount", "none"),
        masked.object("idletime", "a"),
        masked.memory_usage("a", samples=0),
        c.memory_usage("none"),
        c.flushdb(asynchronous=True),
        c.flushall(),
    ],
    "bitmaps": [
        c.setbit("b", 7, 1),
        c.setbit("b", 7, 0),
        c.setbit("b", 100, 1),
        c.getbit("b", 100),
        c.bitcount("b"),
        c.bitcount("b", 0, 1),
        c.bitcount("b", 90, 110, "BIT"),
        c.bitpos("b", 1),
        c.bitpos("b", 0, 2, -1),
        c.bitpos("b", 1, 0, -1, "BIT"),
        c.set("x", "abc"),
        c.bitop("AND", "d", "b", "x"),
        c.bitop("NOT", "d", "x"),
        c.bitop("NOT", "d", "x", "b"),
        c.get("b"),
        c.bitfield_ro("x", "u8", 0, [("u4", "#1")]),
        c.object("encoding", "b"),
    ],
    "hashes": [
        c.hset("h", "a", 1),
        c.hset("h", mapping={"b": 2, "c": "x"}, items=["d", 4]),
        c.hset("h"),
        c.hmset("h", {"e": 5}),
        c.hsetnx("h", "e", 6),
        c.hget("h", "a"),
        c.hget("h", "none"),
        c.hmget("h", ["a", "none"], "b"),
        c.hgetall("h"),
        c.hgetall("none"),
        c.hkeys("h"),
        c.hvals("h"),
        c.hlen("h"),
        c.hexists("h", "a"),
        c.hstrlen("h", "c"),
        c.hincrby("h", "a", 3),
        c.hincrby("h", "c", 3),
        c.hincrbyfloat("h", "a", 1.25),
        c.hscan("h", count=100),
        c.hscan_iter("h", match="a"),
        masked.hrandfield("h"),
        masked.hrandfield("h", 2),
        c.hrandfield("none", 2),
        c.hrandfield("none", 2, withvalues=True),
        c.hdel("h", "b", "c", "d", "none"),
        c.hrandfield("h", 5, withvalues=True),
        c.set("s", "x"),
        c.hget("s", "f"),
    ],
    "lists": [
        c.rpush("l", "a", "b", "c"),
        c.lpush("l", 1, 2),
        c.lpushx("none", 1),
        c.rpushx("l", "z"),
        c.lrange("l", 0, -1),
        c.llen("l"),
        c.lindex("l", 1),
        c.lindex("l", 99),
        c.linsert("l", "BEFORE", "b", "new"),
        c.linsert("l", "after", "none", "new"),
        c.lset("l", 0, "first"),
        c.lset("l", 100, "first"),
        c.lset("none", 0, "first"),
        c.lrem("l", 0, "new"),
        c.lpos("l", "b"),
        c.lpos("l", "b", rank=-1, count=0, maxlen=10),
        c.lpos("l", "none"),
        c.lpos("l", "none", count=1),
        c.ltrim("l", 0, 3),
        c.lpop("l"),
        c.rpop("l", 2),
        c.lpop("none"),
        c.lpop("none", 2),
        c.rpush("l", *range(10)),
        c.lmove("l", "m", "LEFT", "RIGHT"),
        c.blmove("l", "m", 1, "RIGHT", "LEFT"),
        c.lmove("none", "m"),
        c.rpoplpush("l", "m"),
        c.brpoplpush("l", "m", 1),
        c.brpoplpush("none", "m", 0.001),
        c.blpop(["none", "l"], 1),
        c.brpop("m", 1),
        c.blpop("none", 0.001),
        c.lmpop(2, "none", "l", direction="LEFT", count=2),
        c.lmpop(1, "none", direction="RIGHT"),
        c.blmpop(1, 2, "none", "m", direction="RIGHT", count=5),
        c.blmpop(0.001, 1, "none", direction="RIGHT"),
        c.lrange("l", 0, -1),
        c.sort("l", desc=True, start=0, num=3),
        c.sort("l", by="w_*", get=["#", "w_*"], groups=True),
        c.sort("l", alpha=True, store="sorted"),
        c.sort_ro("sorted", alpha=True),
        c.rpush("words", "x", "y"),
        c.sort("words"),
        c.lpush("l"),
        c.set("s", "x"),
        c.lpush("s", 1),
    ],
    "sets": [
        c.sadd("s", "a", "b", "c", 1),
        c.sadd("s", "a"),
        c.sadd("t", "b", "c", "d"),
        c.scard("s"),
        c.smembers("s"),
        c.smembers("none"),
        c.sismember("s", "a"),
        c.sismember("s", "x"),
        c.smismember("s", "a", "x"),
        c.sdiff("s", "t"),
        c.sinter("s", "t"),
        c.sunion(["s", "t"]),
        c.sintercard(2, ["s", "t"], limit=1),
        c.sdiffstore("d", "s", "t"),
        c.sinterstore("d", "s", "t"),
        c.sunionstore("d", "s", "t"),
        c.smove("s", "t", "a"),
        c.smove("s", "t", "x"),
        c.srem("s", "b", "x"),
        c.sscan("t", count=100),
        c.sscan_iter("t", match="[ab]"),
        masked.srandmember("t"),
        masked.srandmember("t", -5),
        c.srandmember("none"),
        c.srandmember("none", 2),
        masked.spop("t"),
        c.spop("none"),
        c.spop("none", 2),
        masked.spop("t", 2),
        c.sadd("n", 3, 1, 2),
        c.object("encoding", "n"),
        c.sort("n"),
        c.hget("n", "f"),
    ],
    "sorted sets": [
        c.zadd("z", {"a": 1, "b": 2, "c": 3.5, "d": "inf"}),
        c.zadd("z", {"a": 5, "e": 5}, nx=True, ch=True),
        c.zadd("z", {"a": 0}, xx=True, gt=True, ch=True),
        c.zadd("z", {"a": 2}, incr=True),
        c.zadd("z", {"a": 2}, incr=True, nx=True),
        c.zadd("z", {"a": "nan"}),
        c.zadd("z", {}),
        c.zcard("z"),
        c.zcount("z", "-inf", "(3.5"),
        c.zincrby("z", 1.5, "a"),
        c.zlexcount("z", "-", "+"),
        c.zscore("z", "a"),
        c.zscore("z", "none"),
        c.zmscore("z", ["a", "none", "d"]),
        c.zrank("z", "a"),
        c.zrevrank("z", "a"),
        c.zrank("z", "none"),
        c.zrange("z", 0, -1),
        c.zrange("z", 0, -1, withscores=True),
        c.zrange("z", 0, -1, desc=True, withscores=True, score_cast_func=str),
        c.zrange("z", 1, 4, byscore=True, offset=0, num=1, withscores=True),
        c.zrange("z", "[a", "[c", bylex=True),
        c.zrevrange("z", 0, 1, withscores=True),
        c.zrangestore("y", "z", 0, 1),
        c.zrangebylex("y", "-", "(z", start=0, num=5),
        c.zrevrangebylex("y", "+", "-"),
        c.zrangebyscore("z", 1, 5, withscores=True),
        c.zrevrangebyscore("z", "+inf", 1, start=1, num=2, withscores=True),
        c.zdiff(["z", "y"]),
        c.zdiff(["z", "y"], withscores=True),
        c.zdiffstore("d", ["z", "y"]),
        c.zinter(["z", "y"], aggregate="MAX", withscores=True),
        c.zinter({"z": 2, "y": 0.5}, withscores=True),
        c.zinterstore("d", ["z", "y"]),
        c.zintercard(2, ["z", "y"], limit=1),
        c.zunion(["z", "y"]),
        c.zunion({"z": 1, "y": -1}, withscores=True),
        c.zunionstore("d", {"z": 1, "y": 2}, aggregate="MIN"),
        c.zscan("z"),
        c.zscan("z", match="a", count=100),
        c.zscan_iter("z"),
        masked.zrandmember("z"),
        c.zrandmember("none", 2),
        c.zrandmember("y", 5, withscores=True),
        c.zpopmin("z"),
        c.zpopmax("z", 2),
        c.zpopmin("none"),
        c.bzpopmin(["none", "z"], 1),
        c.bzpopmax("y", 1),
        c.bzpopmax("none", 0.001),
        c.zadd("z", {str(number): number for number in range(10)}),
        c.zmpop(2, ["none", "z"], min=True, count=2),
        c.zmpop(1, ["none"], max=True),
        c.bzmpop(1, 2, ["none", "z"], max=True),
        c.bzmpop(0.001, 1, ["none"], max=True),
        c.zrem("z", "3", "none"),
        c.zremrangebyrank("z", 0, 0),
        c.zremrangebyscore("z", 5, 6),
        c.zremrangebylex("z", "[7", "[8"),
        c.zrange("z", 0, -1),
        c.object("encoding", "z"),
        c.set("s", "x"),
        c.zadd("s", {"a": 1}),
        c.zrange("s", 0, -1),
    ],
    "hyperloglog": [
        c.pfadd("p", *"abcdef"),
        c.pfadd("p", "a"),
        c.pfadd("q", *"efgh"),
        c.pfcount("p"),
        c.pfcount("p", "q", "none"),
        c.pfmerge("r", "p", "q"),
        c.pfcount("r"),
        c.object("encoding", "p"),
        c.set("s", "x"),
        c.pfadd("s", "a"),
    ],
    "geo": [
        c.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")),
        c.geoadd("g", (13.5, 38.0, "Palermo"), xx=True, ch=True),
        c.geoadd("g", (200, 38.0, "Nowhere")),
        c.geodist("g", "Palermo", "Catania"),
        c.geodist("g", "Palermo", "Catania", "km"),
        c.geodist("g", "Palermo", "none"),
        c.geohash("g", "Palermo", "none"),
        c.geopos("g", "Palermo", "none"),
        c.georadius("g", 15, 37, 200, unit="km"),
        c.georadius("g", 15, 37, 200, unit="km", withdist=True, withcoord=True, withhash=True, sort="ASC"),
        c.georadius("g", 15, 37, 200, unit="km", store="stored"),
        c.georadiusbymember("g", "Catania", 200, unit="km", withdist=True, count=1, any=True),
        c.geosearch("g", member="Catania", radius=200, unit="km", sort="DESC"),
        c.geosearch("g", longitude=15, latitude=37, width=400, height=400, unit="km", withcoord=True),
        c.geosearch("g", longitude=15, latitude=37, width=400, height=400, unit="km", withdist=True, count=1),
        c.geosearchstore("d", "g", longitude=15, latitude=37, radius=200, unit="km", storedist=True),
        c.zrange("d", 0, -1, withscores=True),
    ],
    "scripts": [
        c.eval(SUM, 1, "n", 5),
        c.eval(TABLE, 0),
        c.eval("return", 0),
        c.eval("return redis.error_reply('MINE an error')", 0),
        c.eval("return redis.call('LPUSH', 'n', 1)", 0),
        c.eval("return nonsense", 0),
        c.eval("return (", 0),
        c.eval("error('my own')", 0),
        c.eval("error({err='MY own'})", 0),
        c.eval("redis.setresp(3) return redis.call('HGETALL', KEYS[1])", 1, "h"),
        c.eval("return {double=3.5}", 0),
        c.eval("redis.setresp(3) return {map={a=1}}", 0),
        c.eval("return cjson.decode('[1,')", 0),
        c.eval("local x = cjson.decode('[1,') return x", 0),
        c.eval("return cmsgpack.unpack('\\220')", 0),
        c.eval("return table.concat({1,{}})", 0),
        c.eval("table.insert(redis, 1)", 0),
        c.eval("redis.x = 1", 0),
        c.eval("return tostring(redis.x)", 0),
        c.script_load(SUM),
        c.evalsha("e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4", 1, "n", 5),
        c.evalsha("0" * 40, 0),
        c.script_exists("0" * 40),
        c.eval_ro("return redis.call('GET', KEYS[1])", 1, "n"),
        c.eval_ro(SUM, 1, "n", 5),
        c.evalsha_ro("0" * 40, 0),
        c.script_kill(),
        c.script_flush(),
        c.script_flush("ASYNC"),
        c.eval("return redis.call('ACL', 'WHOAMI')", 0),
        c.eval("return redis.acl_check_cmd('SET', 'a', 'b')", 0),
        c.eval("return redis.acl_check_cmd('NOSUCH', 'a', 'b')", 0),
    ],
    "functions": [
        c.function_load(LIBRARY),
        c.function_load(LIBRARY),
        c.function_load(LIBRARY, replace=True),
        c.function_load("#!lua name=bad\nnonsense("),
        c.fcall("put", 1, "k", "v"),
        c.fcall("look", 1, "k"),
        c.fcall_ro("look", 1, "k"),
        c.fcall_ro("put", 1, "k", "v"),
        c.fcall("none", 0),
        c.function_list(),
        c.function_list(library="lib", withcode=True),
        c.function_list(library="none"),
        c.function_stats(),
        masked.function_dump(),
        c.function_kill(),
        c.function_delete("lib"),
        c.function_delete("lib"),
        c.function_restore(b"nonsense"),
        c.function_flush("SYNC"),
    ],
    "users": [
        c.acl_whoami(),
        c.acl_setuser("bob", enabled=True, passwords=["+secret"], commands=["+get", "+config|get", "-@all", "+set"],
                      keys=["a*", "b*"], channels=["c*"], categories=["+@hash"]),
        c.acl_setuser("bob", selectors=[("+get", "%R~x*")]),
        c.acl_setuser("bob", passwords=["-none"]),
        c.acl_setuser("eve", nopass=True, commands=["+nosuch"]),
        c.acl_getuser("bob"),
        c.acl_getuser("none"),
        c.acl_list(),
        c.acl_users(),
        c.acl_cat(),
        c.acl_cat("geo"),
        c.acl_cat("none"),
        c.acl_dryrun("bob", "SET", "a1", "x"),
        c.acl_dryrun("bob", "GET", "x1"),
        c.acl_dryrun("none", "GET", "x"),
        masked.acl_genpass(64),
        c.acl_log(),
        c.acl_log_reset(),
        c.acl_load(),
        c.acl_save(),
        c.acl_deluser("bob", "none"),
        c.acl_deluser("default"),
        c.acl_users(),
    ],
    "scans": [
        c.hset("h", mapping={str(number): number for number in range(1000)}),
        c.sadd("s", *(f"m{number}" for number in range(1000))),
        c.zadd("z", {f"m{number}": number for number in range(1000)}),
        c.hscan_iter("h", count=7),
        c.sscan_iter("s", count=7, match="*1*"),
        c.zscan_iter("z", count=7, match="m?"),
        c.scan_iter(_type="hash"),
        c.scan_iter(_type="zset", match="*"),
        c.object("encoding", "h"),
        c.object("encoding", "s"),
        c.object("encoding", "z"),
    ],
}  # fmt: skip

# Since then every user shows this flag, or its opposite.
SINCE_7_2 = "sanitize-payload"

# What 7.0 does not have and Valkey 9 does.
VALKEYS: dict[str, list[Call]] = {
    "expiring fields": [
        c.hset("h", mapping={"a": 1, "b": 2, "c": 3}),
        c.hexpire("h", 100, "a", "none"),
        c.hexpire("h", 50, "a", gt=True),
        c.hexpire("none", 50, "a"),
        c.httl("h", "a", "b", "none"),
        masked.hpttl("h", "a"),
        c.hexpireat("h", 33177117420, "b"),
        c.hpexpire("h", 100_000, "b", lt=True),
        c.hpexpireat("h", 33177117420000, "c"),
        c.hexpiretime("h", "c"),
        c.hpexpiretime("h", "c", "none"),
        c.hpersist("h", "c", "none"),
        c.hpexpire("h", 0, "a"),
        c.hgetall("h"),
        c.hsetex("h", mapping={"a": 1, "d": 5}, ex=100),
        c.hsetex("h", "a", 7, keepttl=True),
        c.hgetex("h", "a", "none", ex=1000),
        c.hgetex("h", "a", persist=True),
        c.httl("h", "a", "d"),
    ],
}  # fmt: skip

METHODS = {
    *vars(core.HashCommands), *vars(core.ListCommands), *vars(core.SetCommands), *vars(core.SortedSetCommands),
    *vars(core.ScanCommands), *vars(core.HyperlogCommands), *vars(core.GeoCommands), *vars(core.ScriptCommands),
    *vars(core.FunctionCommands), *vars(core.ACLCommands), *vars(core.BasicKeyCommands),
}  # fmt: skip
# Tried by name further down.
TRIED_BELOW = {
    "bitfield", "register_script", "digest", "delex", "msetex", "increx", "hgetdel", "watch", "unwatch",
    "sdiffcard", "sunioncard", "lmovem", "blmovem", "himport_set",
}  # fmt: skip
# No server hears of the first, the next two raise in the library, the others are what `himport_…` send.
NOT_TRIED = {
    "digest_local", "script_debug", "acl_help", "himport_prepare_internal", "himport_discard_internal",
    "himport_discard_all_internal",
}  # fmt: skip


def test_every_method_is_tried():
    tried = {call.name for scenario in [*SCENARIOS.values(), *VALKEYS.values()] for call in scenario}
    methods = {name for name in METHODS if not name.startswith("_")}
    assert methods - tried - TRIED_BELOW - NOT_TRIED == set()
    assert methods - tried >= TRIED_BELOW | NOT_TRIED


@pytest.fixture(scope="module")
def servers():
    with LiveServer() as rillet, start_server("redis7") as redis7, start_server("valkey") as valkey:
        yield {"rillet": rillet, "redis7": redis7, "valkey": valkey}


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


def in_order(value: Any) -> Any:
    """A list whose order means nothing, or a cursor and such a list, sorted."""
    if isinstance(value, tuple) and isinstance(value[1], list):
        return value[0], sorted(value[1])
    return sorted(value) if isinstance(value, list) else value


def functions_in_order(libraries: list[Any]) -> list[Any]:
    """FUNCTION LIST with the functions of each library sorted."""
    for library in libraries:
        if isinstance(library, dict):
            library["functions"] = sorted(library["functions"], key=str)
        else:
            library[5] = sorted(library[5], key=str)
    return libraries


def seen(call: Call, value: Any) -> Any:
    """A result as it is compared."""
    if call.masked:
        return type(value).__name__
    if isinstance(value, Exception):
        return type(value).__name__, str(value)
    if call.name == "acl_getuser" and value:
        return {**value, "flags": [flag for flag in value["flags"] if flag != SINCE_7_2]}
    if call.name == "acl_list":
        return [line.replace(f" {SINCE_7_2}", "") for line in value]
    if call.name == "function_list":
        return functions_in_order(value)
    return in_order(value) if call.name in UNORDERED else value


def run_plain(port: int, protocol: int, scenario: list[Call]) -> list[Any]:
    results = []
    with redis.Redis(port=port, protocol=protocol, decode_responses=True) as client:
        client.flushall()
        for call in scenario:
            try:
                value = getattr(client, call.name)(*call.args, **call.options)
                if call.name.endswith("_iter"):
                    value = list(value)
            except (redis.RedisError, ValueError) as error:
                value = error
            results.append((str(call), seen(call, value)))
    return results


async def run_async(port: int, protocol: int, scenario: list[Call]) -> list[Any]:
    results = []
    async with redis.asyncio.Redis(port=port, protocol=protocol, decode_responses=True) as client:
        await client.flushall()
        for call in scenario:
            try:
                made = getattr(client, call.name)(*call.args, **call.options)
                value = [item async for item in made] if call.name.endswith("_iter") else await made
            except (redis.RedisError, ValueError) as error:
                value = error
            results.append((str(call), seen(call, value)))
    return results


def run(style: str, port: int, protocol: int, scenario: list[Call]) -> list[Any]:
    """What each call gives, with the call."""
    if style == "sync":
        return run_plain(port, protocol, scenario)
    return asyncio.run(run_async(port, protocol, scenario))


@pytest.mark.parametrize("style", ["sync", "asyncio"])
@pytest.mark.parametrize("name", [*SCENARIOS, *VALKEYS])
def test_results_are_those_of_a_real_server(servers, protocol, name, style):
    peer, scenario = ("redis7", SCENARIOS[name]) if name in SCENARIOS else ("valkey", VALKEYS[name])
    expected = run(style, servers[peer].port, protocol, scenario)
    assert run(style, servers["rillet"].port, protocol, scenario) == expected


# What no peer has, and what is an object of redis-py


@pytest.fixture
def client(servers, protocol):
    servers["rillet"].reset()
    with servers["rillet"].client(protocol=protocol, decode_responses=True) as client:
        yield client


def test_the_newest_commands_for_strings(client):
    client.set("k", "v")
    digest = client.digest("k")
    assert digest == client.digest_local(b"v")
    assert client.set("k", "w", ifeq="x") is None
    assert client.set("k", "w", ifdeq=digest) is True
    assert client.delex("k", ifne="w") == 0
    assert client.delex("k", ifeq="w") == 1
    assert client.msetex({"a": 1, "b": 2}, ex=100) == 1
    assert client.msetex({"a": 1, "c": 2}, data_persist_option=redis.commands.core.DataPersistOptions.NX) == 0
    assert client.ttl("a") == 100
    assert client.increx("a", byint=5, ubound=10) == [6, 5]
    assert client.increx("a", byfloat=0.5) in ([6.5, 0.5], ["6.5", "0.5"])


def test_the_newest_commands_for_sets_and_hashes(client):
    client.sadd("s", "a", "b")
    client.sadd("t", "b", "c")
    assert client.sunioncard(2, ["s", "t"]) == 3
    assert client.sdiffcard(2, ["s", "t"]) == 1
    client.hset("h", mapping={"a": 1, "b": 2})
    assert client.hgetdel("h", "a", "none") == ["1", None]
    assert client.hgetdel("h", "b") == ["2"]
    assert client.exists("h") == 0


def test_several_elements_move_between_lists(client):
    client.rpush("l", *"abcdef")
    assert client.lmovem("l", "m") == ["a"]
    assert client.lmovem("l", "m", "LEFT", "LEFT", count=2, ordering="OBO") == ["c", "b"]
    assert client.lmovem("l", "m", count=9, mode="EXACTLY", ordering="BULK") is None
    assert client.blmovem("l", "m", 1, "RIGHT", "RIGHT", count=9, ordering="BULK") == ["d", "e", "f"]
    assert client.blmovem("l", "m", 0.001) is None
    assert client.lrange("m", 0, -1) == list("cbadef")


def test_many_hashes_of_the_same_fields(client):
    client.himport_prepare("users", ["name", "age"])
    client.hset("u:1", "old", 1)
    assert client.himport_set("u:1", "users", ["ann", 30])
    assert client.himport_set("u:2", "users", ["bob", 40])
    assert [client.hgetall(key) for key in ("u:1", "u:2")] == [
        {"age": "30", "name": "ann"},
        {"age": "40", "name": "bob"},
    ]
    assert client.himport_discard("users") == 1
    with pytest.raises(redis.ResponseError, match="fieldset"):
        client.himport_set("u:3", "users", ["eve", 50])


def test_objects_for_bit_fields_scripts_and_locks(client):
    field = client.bitfield("b").set("u8", 0, 200).incrby("u8", 0, 100, overflow="SAT").get("u4", "#0")
    assert field.execute() == [0, 255, 15]
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert script(keys=["n"], args=[5]) == 5
    client.script_flush()
    assert script(keys=["n"], args=[5]) == 10, "loaded again by the library"
    pipeline = client.pipeline()
    client.script_flush()
    script(keys=["n"], args=[1], client=pipeline)
    assert pipeline.execute() == [11]
    lock = client.lock("lock", timeout=10)
    assert lock.acquire()
    assert not client.lock("lock").acquire(blocking=False)
    assert lock.reacquire()
    assert lock.extend(5)
    lock.release()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()


def test_a_transaction_on_watched_keys_of_every_type(client, servers, protocol):
    adds = {"h": ("hset", "f", 1), "l": ("rpush", 1), "s": ("sadd", 1), "z": ("zadd", {"m": 1}), "k": ("append", "x"),
            "b": ("setbit", 7, 1), "p": ("pfadd", "x"), "g": ("geoadd", (1, 1, "m"))}  # fmt: skip
    with servers["rillet"].client(protocol=protocol) as other:
        for key, (method, *arguments) in adds.items():
            with client.pipeline() as pipeline:
                pipeline.watch(key)
                getattr(other, method)(key, *arguments)
                pipeline.multi()
                pipeline.delete(key)
                with pytest.raises(redis.WatchError):
                    pipeline.execute()
                pipeline.watch(key)
                pipeline.unwatch()
            assert client.exists(key) == 1
