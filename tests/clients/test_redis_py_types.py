"""Every method of redis-py for the data types, scripts and users: results as from a redis-server 7.0, both protocols.

A scenario is a list of calls; each gives what redis-py makes of the reply, or the error it raises. What came after
7.0 is compared with Valkey where that has it, and stands with its results at the end of the file otherwise.
"""

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.commands import core
from support.live import LiveServer
from support.programs.redis_py_calls import SCENARIOS, VALKEYS, Call
from support.servers import start_server

# Some methods are deprecated or experimental: they are tried like the others.
pytestmark = pytest.mark.filterwarnings("ignore:Call to")

# Sets, and what is as good in another order.
UNORDERED = {
    "sdiff", "sinter", "sunion", "smembers", "hkeys", "hvals", "keys", "acl_cat", "scan", "sscan", "hscan",
    "sscan_iter", "scan_iter", "hscan_iter", "zscan_iter", "acl_users",
}  # fmt: skip

# Since then every user shows this flag, or its opposite.
SINCE_7_2 = "sanitize-payload"

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
    assert 0 < client.ttl("a") <= 100
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
