"""Unmodified workers of frameworks in `rillet.testing.simulation`: each does its jobs although one of two dies."""

import asyncio
import contextlib
import sys

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the simulator needs Python 3.12: make test-simulation", allow_module_level=True)

from support.simulated_workers import arq, claiming, faststream, streaq, taskiq

from rillet.testing import simulation

pytestmark = pytest.mark.frameworks  # make test-simulation installs them

JOBS = 5


async def is_done(sim) -> None:
    """Wait until all jobs are done, at most ten minutes of virtual time."""
    for _ in range(600):
        if await sim.client.scard("done") == JOBS:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"done: {await sim.client.smembers('done')}")


def noting(url):
    """Return a job that tries until its note is there, for taskiq and streaQ acknowledge a job that fails."""

    async def do(n):
        import redis.asyncio

        await asyncio.sleep(0.2)
        while True:
            with contextlib.suppress(redis.ConnectionError):
                async with redis.asyncio.Redis.from_url(url) as client:
                    await client.sadd("done", n)
                    return
            await asyncio.sleep(0.1)

    return do


def simulated(worker, send):
    """Return a simulation in which two workers do jobs that another host sends, and one of them dies."""

    @simulation(seeds=3, chaos=0.05)
    async def test(sim):
        for name in "ab":
            sim.start(name, worker, sim.url, name, noting(sim.url))
        await asyncio.sleep(2)
        sim.start("producer", send, sim.url, *range(JOBS))
        await asyncio.sleep(2)
        sim.crash("a")
        await asyncio.sleep(10)
        sim.restart("a")
        await is_done(sim)

    return test


def test_coredis():
    import coredis

    async def worker(url, name, do):
        async with coredis.Redis.from_url(url, decode_responses=True) as client:
            with contextlib.suppress(coredis.exceptions.StreamDuplicateConsumerGroupError):
                await client.xgroup_create("jobs", "w", "0", mkstream=True)
            while True:
                _, entries, _ = await client.xautoclaim("jobs", "w", name, 1000, "0-0", count=1)
                if not entries:
                    found = await client.xreadgroup("w", name, {"jobs": ">"}, count=1, block=500)
                    entries = found["jobs"] if found else ()
                for entry in entries:
                    await do(int(entry.field_values["n"]))
                    await client.xack("jobs", "w", [entry.identifier])

    async def send(url, *numbers):
        async with coredis.Redis.from_url(url) as client:
            for n in numbers:
                await client.xadd("jobs", {"n": str(n)})

    simulated(worker, send)()


def test_taskiq():
    from taskiq_redis import RedisStreamBroker

    simulated(*taskiq(RedisStreamBroker, idle_timeout=1000, xread_block=500))()


def test_faststream():
    simulated(*faststream(claiming, stream="jobs"))()


def test_streaq():
    simulated(*streaq())()


def test_arq():
    import redis

    run, send = arq()

    async def work(*words):
        try:
            await run(*words)
        except redis.WatchError as error:  # redis-py's word for a connection that is lost behind a WATCH
            raise ConnectionError from error

    simulated(work, send)()
