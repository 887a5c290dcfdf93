"""Unmodified workers of frameworks in `rillet.testing.simulation`: each does its jobs although one of two dies."""

import asyncio
import contextlib
import sys

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the simulator needs Python 3.12: make test-simulation", allow_module_level=True)

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


async def note(url, n) -> None:
    """Do a job: try until the note is there, for taskiq and streaQ acknowledge a job that fails."""
    import redis.asyncio

    while True:
        with contextlib.suppress(redis.ConnectionError):
            async with redis.asyncio.Redis.from_url(url) as client:
                await client.sadd("done", n)
                return
        await asyncio.sleep(0.1)


def simulated(worker, send):
    """Return a simulation in which two workers do jobs that another host sends, and one of them dies."""

    @simulation(seeds=3, chaos=0.05)
    async def test(sim):
        sim.start("a", worker, sim.url, "a")
        sim.start("b", worker, sim.url, "b")
        await asyncio.sleep(2)
        sim.start("producer", send, sim.url)
        await asyncio.sleep(2)
        sim.crash("a")
        await asyncio.sleep(10)
        sim.restart("a")
        await is_done(sim)

    return test


def test_coredis():
    import coredis

    async def worker(url, name):
        async with coredis.Redis.from_url(url, decode_responses=True) as client:
            with contextlib.suppress(coredis.exceptions.StreamDuplicateConsumerGroupError):
                await client.xgroup_create("jobs", "w", "0", mkstream=True)
            while True:
                _, entries, _ = await client.xautoclaim("jobs", "w", name, 1000, "0-0", count=1)
                if not entries:
                    found = await client.xreadgroup("w", name, {"jobs": ">"}, count=1, block=500)
                    entries = found["jobs"] if found else ()
                for entry in entries:
                    await asyncio.sleep(0.2)
                    await client.sadd("done", [entry.field_values["n"]])
                    await client.xack("jobs", "w", [entry.identifier])

    async def send(url):
        async with coredis.Redis.from_url(url) as client:
            for n in range(JOBS):
                await client.xadd("jobs", {"n": str(n)})

    simulated(worker, send)()


def test_taskiq():
    from taskiq.api import run_receiver_task
    from taskiq_redis import RedisStreamBroker

    def broker_of(url, name="p"):
        broker = RedisStreamBroker(url, consumer_name=name, idle_timeout=1000, xread_block=500)

        @broker.task(task_name="job")
        async def job(n: int) -> None:
            await asyncio.sleep(0.2)
            await note(url, n)

        return broker, job

    async def worker(url, name):
        broker, _ = broker_of(url, name)
        await broker.startup()
        await run_receiver_task(broker)

    async def send(url):
        broker, job = broker_of(url)
        await broker.startup()
        for n in range(JOBS):
            await job.kiq(n)

    simulated(worker, send)()


def test_faststream():
    from faststream.redis import RedisBroker, StreamSub

    async def worker(url, name):
        broker = RedisBroker(url, logger=None)

        async def job(n: int) -> None:
            await asyncio.sleep(0.2)
            await note(url, n)

        broker.subscriber(stream=StreamSub("jobs", group="w", consumer=name, polling_interval=500))(job)
        claims = StreamSub(
            "jobs", group="w", consumer=f"{name}-claims", min_idle_time=1000, polling_interval=500
        )
        broker.subscriber(stream=claims)(job)
        async with broker:
            await broker.start()
            await asyncio.Event().wait()

    async def send(url):
        async with RedisBroker(url, logger=None) as broker:
            for n in range(JOBS):
                await broker.publish(n, stream="jobs")

    simulated(worker, send)()


def test_streaq():
    from streaq import Worker

    def worker_of(url, name="p"):
        worker = Worker(redis_url=url, id=name, idle_timeout=1, handle_signals=False)

        @worker.task(timeout=30)
        async def job(n: int) -> None:
            await asyncio.sleep(0.2)
            await note(url, n)

        return worker, job

    async def work(url, name):
        worker, _ = worker_of(url, name)
        await worker.run_async()

    async def send(url):
        worker, job = worker_of(url)
        async with worker:
            for n in range(JOBS):
                await job.enqueue(n)

    simulated(work, send)()


def test_arq():
    import redis
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    settings = RedisSettings(host="redis", port=6379)

    async def work(url, name):
        async def job(ctx, n):
            await asyncio.sleep(0.2)
            await note(url, n)

        worker = Worker(
            [func(job, name="job", timeout=30, max_tries=20)],
            redis_settings=settings,
            handle_signals=False,
            poll_delay=0.5,
        )
        try:
            await worker.async_run()
        except redis.WatchError as error:  # redis-py's word for a connection that is lost behind a WATCH
            raise ConnectionError from error

    async def send(url):
        pool = await create_pool(settings)
        for n in range(JOBS):
            await pool.enqueue_job("job", n, _job_id=str(n))

    simulated(work, send)()
