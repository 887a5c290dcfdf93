"""The clock of a test server: by hand, by skips, and by libraries that stop the time of a test."""

import asyncio
import datetime as dt
import time
from functools import partial

import freezegun
import pytest
import time_machine
from support.background import aside
from support.until import until

import rillet.testing
from rillet.testing import LoopServer

HOUR = dt.timedelta(hours=1)
NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
NOON_MS = 1_893_499_200_000


def blocked(server, *words):
    """Run a command in a thread; return a function that waits for its reply."""
    client = server.client(decode_responses=True)
    before = client.info("clients")["blocked_clients"]
    running = aside(server.client().execute_command, *words)
    while client.info("clients")["blocked_clients"] == before:
        time.sleep(0.01)
    return partial(running.result, 60)


def test_advance_takes_a_timedelta_and_freeze_a_datetime(server):
    assert server.clock.freeze(NOON) == NOON_MS
    assert server.clock.freeze(NOON.astimezone(dt.timezone(HOUR))) == NOON_MS
    assert server.clock.advance(HOUR) == NOON_MS + 3_600_000
    assert server.clock.advance(dt.timedelta(milliseconds=1), seconds=1) == NOON_MS + 3_601_001
    with pytest.raises(TypeError, match="timedelta"):
        server.clock.advance(3600)
    server.clock.resume()
    until(lambda: server.clock.now > NOON_MS + 3_601_001)


def test_skip_moves_to_what_comes_next_and_no_farther(server):
    server.clock.freeze(NOON)
    client = server.client(decode_responses=True)
    assert server.clock.skip() == NOON_MS
    client.set("key", 1, px=5000)
    client.hset("hash", "field", 1)
    client.hpexpire("hash", 3000, "field")
    reply = blocked(server, "BLPOP", "nothing", "4")
    assert server.clock.skip() - NOON_MS == 3001
    assert not client.exists("hash")
    assert server.clock.skip() - NOON_MS == 4000
    assert reply() is None
    assert server.clock.skip() - NOON_MS == 5001
    assert not client.exists("key")
    assert server.clock.skip() - NOON_MS == 5001


def test_skip_moves_to_the_idle_time_that_a_reader_waits_for(server):
    server.clock.freeze(NOON)
    client = server.client(decode_responses=True)
    client.xgroup_create("jobs", "w", "0", mkstream=True)
    client.xadd("jobs", {"n": 1})
    client.xreadgroup("w", "a", {"jobs": ">"})
    reply = blocked(
        server, "XREADGROUP", "GROUP", "w", "b", "BLOCK", "9999999", "CLAIM", "60000", "STREAMS", "jobs", ">"
    )
    assert 60_000 <= server.clock.skip() - NOON_MS <= 60_001
    assert reply()


def test_auto_skip_passes_a_day_in_a_moment(server):
    with server.clock.auto_skip():
        before = server.clock.now
        assert server.client().blpop("nothing", timeout=86_400) is None
        assert server.clock.now - before >= 86_400_000
    assert server.clock.now - before < 2 * 86_400_000
    server.clock.auto_skip()
    server.reset()
    assert abs(server.clock.now - time.time() * 1000) < 60_000


def test_a_frozen_clock_of_the_server_holds_its_timeouts(server):
    server.clock.freeze()
    reply = blocked(server, "BLPOP", "nothing", "0.05")
    time.sleep(0.2)
    assert server.client().info("clients")["blocked_clients"] == 1
    server.clock.advance(milliseconds=60)
    assert reply() is None


LIBRARIES = {
    "freezegun": lambda: freezegun.freeze_time(NOON, real_asyncio=True),
    "time-machine": lambda: time_machine.travel(NOON, tick=False),
}


@pytest.fixture(params=LIBRARIES)
def frozen(request):
    return LIBRARIES[request.param]


def move(travel, by: dt.timedelta) -> None:
    travel.tick(by) if hasattr(travel, "tick") else travel.shift(by)


def test_a_server_in_a_thread_follows_a_library_that_stops_the_time(frozen):
    with rillet.testing.Server() as server, frozen() as travel:
        client = server.client(decode_responses=True)
        assert client.xadd("jobs", {"n": 1}) == f"{NOON_MS}-0"
        client.set("key", 1, ex=3600)
        move(travel, HOUR + dt.timedelta(seconds=1))
        assert client.get("key") is None
        assert client.time()[0] == NOON_MS // 1000 + 3601


def test_a_process_has_a_time_of_its_own_and_is_stopped_by_its_clock(frozen):
    with rillet.testing.Server(process=True) as server, frozen():
        assert server.clock.now != NOON_MS
        server.clock.freeze(dt.datetime.now(dt.UTC))
        assert server.client(decode_responses=True).xadd("jobs", {"n": 1}) == f"{NOON_MS}-0"


def test_timeouts_end_while_a_library_stops_the_time(frozen, process):
    with rillet.testing.Server(process=process) as server, frozen():
        client = server.client()
        for _ in range(3):
            assert client.blpop("nothing", timeout=0.1) is None
        client.client_pause(100)
        assert client.ping()


async def test_a_server_in_the_loop_follows_a_library_that_stops_the_time(frozen):
    async with LoopServer() as server:
        with frozen() as travel:
            client = server.client(decode_responses=True)
            assert await client.xadd("jobs", {"n": 1}) == f"{NOON_MS}-0"
            await client.set("key", 1, ex=3600)
            async with asyncio.timeout(60):
                assert await client.blpop("nothing", timeout=0.1) is None
            move(travel, HOUR + dt.timedelta(seconds=1))
            assert await client.get("key") is None


@pytest.mark.parametrize(
    "words",
    [
        ("BLPOP", "nothing", 600),
        ("XREADGROUP", "GROUP", "g", "bob", "BLOCK", 600_000, "STREAMS", "jobs", ">"),
        ("XREADGROUP", "GROUP", "g", "bob", "BLOCK", 0, "CLAIM", 600_000, "STREAMS", "jobs", ">"),
    ],
    ids=["BLPOP", "XREADGROUP", "CLAIM"],
)
def test_a_blocked_command_follows_a_library_that_moves_the_time(frozen, words):
    with rillet.testing.Server() as server, frozen() as travel:
        client = server.client()
        client.xgroup_create("jobs", "g", "0", mkstream=True)
        client.xadd("jobs", {"n": 1})
        client.xreadgroup("g", "alice", {"jobs": ">"})
        reply = blocked(server, *words)
        move(travel, dt.timedelta(minutes=10, seconds=1))
        assert bool(reply()) == ("CLAIM" in words)


def test_a_pause_follows_a_library_that_moves_the_time(frozen):
    with rillet.testing.Server() as server, frozen() as travel:
        client = server.client()
        client.client_pause(600_000)
        move(travel, dt.timedelta(minutes=10, seconds=1))
        assert client.ping()


async def test_a_blocked_command_in_the_loop_follows_it_too(frozen):
    async with LoopServer() as server:
        with frozen() as travel:
            task = asyncio.ensure_future(server.client().blpop("nothing", timeout=600))
            while not (await server.client().info("clients"))["blocked_clients"]:
                await asyncio.sleep(0.01)
            move(travel, dt.timedelta(minutes=10, seconds=1))
            async with asyncio.timeout(60):
                assert await task is None
