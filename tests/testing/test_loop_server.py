"""`rillet.testing.LoopServer`: a server in the event loop of the test, whichever loop that is."""

import asyncio
import math
import sys
import threading

import hiredis
import pytest
import redis
import uvloop
from support.virtual_loop import VirtualLoop

from rillet.server.cron import Cron
from rillet.testing import ControlError, LoopServer, Server, StartError

LOOPS = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
    "virtual": VirtualLoop,
}
if sys.version_info >= (3, 12):
    import simloom
    import simloop

    LOOPS["simloop"] = simloop.SimLoop
    LOOPS["simloom"] = None  # it wants the coroutine function
VIRTUAL = sorted(LOOPS.keys() - {"asyncio", "uvloop"})


def run(kind: str, test) -> None:
    if kind == "simloom":
        simloom.run(test, seed=1)
        return
    loop = LOOPS[kind]()  # asyncio.Runner would take pytest-asyncio's loop away
    try:
        loop.run_until_complete(test())
        if kind != "simloop":
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@pytest.fixture(params=sorted(LOOPS))
def loop_kind(request):
    return request.param


def test_it_serves_in_any_loop_with_all_that_a_server_shows(loop_kind):
    async def test():
        async with LoopServer(appendonly=True) as server:
            client = server.client(decode_responses=True)
            await client.xgroup_create("jobs", "w", "0", mkstream=True)
            ids = [await client.xadd("jobs", {"n": n}) for n in range(3)]
            with server.recording() as seen:
                await client.xreadgroup("w", "a", {"jobs": ">"}, count=2)
            assert [each.words[0] for each in seen] == ["XREADGROUP"]
            assert [each.id for each in server.stream("jobs").group("w").pending] == ids[:2]
            assert server.history("jobs", ids[0]).events
            with (
                server.fault(command="XACK", close="after", expect_hits=True),
                pytest.raises(redis.ConnectionError),
            ):
                await client.xack("jobs", "w", ids[0])
            assert len(server.stream("jobs").group("w").pending) == 1
            before = server.clock.now
            assert server.clock.advance(hours=1) - before >= 3_600_000
            assert server.stream("jobs").group("w").pending[0].idle >= 3_600_000
            kept = server.snapshot()
            await client.flushall()
            server.restore(kept)
            await server.restart()
            assert await client.xlen("jobs") == 3
            await server.reset()
            assert await client.dbsize() == 0

    run(loop_kind, test)


def test_a_timeout_ends_by_the_time_of_the_loop(loop_kind):
    async def test():
        async with LoopServer() as server:
            client = server.client()
            begun = asyncio.get_running_loop().time()
            assert await client.blpop("nothing", timeout=0.2) is None
            assert asyncio.get_running_loop().time() - begun >= 0.199

    run(loop_kind, test)


@pytest.mark.parametrize("kind", VIRTUAL)
def test_virtual_time_moves_everything_together_and_an_idle_server_costs_nothing(kind, monkeypatch):
    steps = []
    step = Cron.step
    monkeypatch.setattr(Cron, "step", lambda server: (steps.append(server), step(server)))

    async def test():
        async with LoopServer(appendonly=True) as server:
            client = server.client(decode_responses=True, socket_timeout=None)
            assert await client.xadd("jobs", {"n": 1}) >= "1767225600000-0"
            await client.set("two hours", 1, ex=7200)
            await client.set("four hours", 1, ex=14400)
            blocked = asyncio.create_task(client.blpop("nothing", timeout=10_000))
            await asyncio.sleep(1)
            steps.clear()
            await asyncio.sleep(3 * 3600)
            own = [cron for cron in steps if cron._server is server._inside]  # fixtures may have others
            assert len(own) < 10  # three hours, in about a millisecond of processor time
            assert blocked.done()
            assert await client.keys() == ["jobs", "four hours"]
            assert server.stream("jobs").entries
            assert (
                int((await client.xadd("jobs", {"n": 2})).partition("-")[0]) >= 1_767_225_600_000 + 10_800_000
            )

    run(kind, test)


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_the_disk_is_served_in_line(loop_kind, policy):
    async def test():
        async with LoopServer(appendonly=True, appendfsync=policy) as server:
            client = server.client(decode_responses=True)
            await client.set("a", 1)
            threads = {each.name for each in threading.enumerate()}
            assert await client.bgrewriteaof()
            while (info := await client.info("persistence"))["aof_rewrite_in_progress"]:
                await asyncio.sleep(0.1)
            assert info["aof_last_bgrewrite_status"] == "ok"
            assert await client.bgsave()
            while (info := await client.info("persistence"))["rdb_bgsave_in_progress"]:
                await asyncio.sleep(0.1)
            assert info["rdb_last_bgsave_status"] == "ok"
            assert {each.name for each in threading.enumerate()} <= threads  # one of other tests may end
            await client.set("b", 2)
            await server.restart()
            assert await client.mget("a", "b") == ["1", "2"]

    run(loop_kind, test)


def test_a_crash_loses_what_was_not_synced(loop_kind):
    async def test():
        async with LoopServer(appendonly=True, appendfsync="everysec") as server:
            client = server.client(decode_responses=True)
            await client.set("a", 1)
            while server._inside.persistence.aof.unsynced:
                await asyncio.sleep(0.1)
            server._inside.persistence.last_sync = math.inf  # a second may be over before the crash
            await client.set("b", 2)
            await server.restart(crash=True)
            assert await client.mget("a", "b") == ["1", None]
            await client.config_set("appendfsync", "always")
            await client.set("c", 3)
            await server.restart(crash=True)
            assert await client.mget("a", "b", "c") == ["1", None, "3"]

    run(loop_kind, test)


async def test_what_needs_more_than_a_loop_is_refused():
    for directives in ({"replicaof": "127.0.0.1 6379"}, {"cluster_enabled": True}, {"unixsocket": "/tmp/x"}):
        with pytest.raises(ValueError, match=r"use rillet\.testing\.Server"):
            LoopServer(**directives)
    async with LoopServer() as server:
        with pytest.raises(redis.ResponseError, match="event loop"):
            await server.client().replicaof("127.0.0.1", 1)


async def test_it_takes_calls_in_the_thread_of_its_loop_only():
    async with LoopServer() as server:
        with pytest.raises(ControlError, match="thread of its event loop"):
            await asyncio.to_thread(lambda: server.clock.now)
    with pytest.raises(ControlError, match="not running"):
        server.clock.advance(seconds=1)


async def test_a_start_that_fails_says_why():
    async with LoopServer() as first:
        with pytest.raises(StartError, match="address"):
            await LoopServer(port=first.port).start()
    with pytest.raises(StartError, match="maxmemory"):
        await LoopServer(maxmemory="a lot").start()


async def test_seeds_are_planted_and_come_again_with_a_reset(tmp_path):
    with Server(seed={"a": "1"}) as server:
        server.save_seed(tmp_path / "seed.rdb")
    for seed in ({"a": "1"}, tmp_path / "seed.rdb"):
        async with LoopServer(seed=seed) as server:
            client = server.client(decode_responses=True)
            assert await client.get("a") == "1"
            await client.flushall()
            await server.reset()
            assert await client.get("a") == "1"


async def test_wait_until_idle_lets_the_loop_run():
    async with LoopServer() as server:
        client = server.client()
        await client.xgroup_create("jobs", "w", "0", mkstream=True)
        entry = await client.xadd("jobs", {"n": 1})
        await client.xreadgroup("w", "a", {"jobs": ">"})
        waits = asyncio.create_task(server.wait_until_idle("jobs", "w", timeout=60))
        await asyncio.sleep(0.05)
        assert not waits.done()
        await client.xack("jobs", "w", entry)
        await waits
        with pytest.raises(TimeoutError, match="no such key"):
            await server.wait_until_idle("other", "w", timeout=0.01)


async def test_an_error_reply_is_raised():
    async with LoopServer() as server:
        with pytest.raises(hiredis.ReplyError, match="NOSUCH"):
            server._command(b"NOSUCH")


if sys.version_info >= (3, 12):

    def test_eager_tasks_race_as_by_tcp():
        async def add_one(client):
            n = int(await client.get("n") or 0)
            await client.set("n", n + 1)

        async def test():
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            async with LoopServer() as server:
                clients = server.client(), server.client()
                for client in clients:
                    await client.ping()
                await asyncio.gather(*map(add_one, clients))
                assert await clients[0].get("n") == b"1"

        run("asyncio", test)
