"""What one lost reply does to workers of frameworks: each row of the table in docs/testing/frameworks.md."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from pathlib import Path

import pytest

if sys.version_info < (3, 12):
    pytest.skip("the simulator needs Python 3.12: make test-simulation", allow_module_level=True)

from rillet.testing import every_fault, simulation

pytestmark = pytest.mark.frameworks  # make test-simulation installs them

ROOT = Path(__file__).parents[2]


def test_the_page_names_the_versions_that_are_tested():
    page = (ROOT / "docs/testing/frameworks.md").read_text(encoding="utf-8")
    versions = (ROOT / "tests/frameworks/environments/simulation.txt").read_text(encoding="utf-8")
    for name in ("taskiq-redis", "faststream", "streaq", "arq", "huey", "kombu", "rq"):
        [version] = [line.partition("==")[2] for line in versions.splitlines() if line.split("==")[0] == name]
        assert f"{name} {version}" in page


def meet(worker, send, command, close, *, seconds=60, again=False):
    """Let two workers do a job, and a command of theirs fail: the first that is answered with something.

    Args:
        worker: a coroutine function of the URL, a name, and the list that the job adds its number to.
        send: sends the job of a number.
        command: by name.
        close: before or after it ran.
        seconds: of virtual time until the end.
        again: send a second job after them, and wait as long for it.

    Returns:
        The jobs that have run.
    """
    done: list[int] = []
    nth = 0

    async def test(sim):
        nonlocal nth
        fault = sim.server.fault(client="!driver", command=command, nth=nth, close=close) if nth else None
        with sim.server.recording() as seen, fault or contextlib.nullcontext():
            sim.start("a", worker, sim.url, "a", done)
            sim.start("b", worker, sim.url, "b", done)
            await asyncio.sleep(2)
            await send(sim.url, 1)
            await asyncio.sleep(seconds)
            if again:
                await send(sim.url, 2)
                await asyncio.sleep(seconds)
            if fault is None:
                theirs = [each for each in seen.of(command=command) if each.client != "driver"]
                nth = next(number for number, each in enumerate(theirs, 1) if each.reply)
            else:
                assert [each for each in seen if each.fault == fault.id]

    simulation(seeds=[0], chaos=0)(test)()
    assert done[:1] == [1], "without a fault the job runs"
    done.clear()
    simulation(seeds=[0], chaos=0)(test)()
    return done


def taskiq(kind, **options):
    from taskiq.api import run_receiver_task

    def broker_of(url, done):
        broker = kind(url, **options)

        @broker.task(task_name="job")
        async def job(n: int) -> None:
            done.append(n)

        return broker, job

    async def worker(url, name, done):
        broker, _ = broker_of(url, done)
        await broker.startup()
        await run_receiver_task(broker)

    async def send(url, n):
        broker, job = broker_of(url, [])
        await broker.startup()
        await job.kiq(n)
        await broker.shutdown()

    return worker, send


def test_taskiq_claims_only_after_a_read_that_found_something():
    from taskiq_redis import RedisStreamBroker

    lost = functools.partial(
        meet, *taskiq(RedisStreamBroker, idle_timeout=1000, xread_block=500), "XREADGROUP", "after"
    )
    assert lost() == []
    assert sorted(lost(again=True)) == [1, 2]


def test_a_list_of_taskiq_loses_a_job():
    from taskiq_redis import ListQueueBroker

    assert meet(*taskiq(ListQueueBroker), "BRPOP", "after") == []


def faststream(subscriptions, **published):
    from faststream.redis import RedisBroker

    async def worker(url, name, done):
        broker = RedisBroker(url, logger=None)

        async def job(n: int) -> None:
            done.append(n)

        for options in subscriptions(name):
            broker.subscriber(**options)(job)
        async with broker:
            await broker.start()
            await asyncio.Event().wait()

    async def send(url, n):
        async with RedisBroker(url, logger=None) as broker:
            await broker.publish(n, **published)

    return worker, send


def test_a_list_of_faststream_loses_a_message():
    assert meet(*faststream(lambda _: [{"list": "jobs"}], list="jobs"), "BLPOP", "after") == []


def test_a_stream_group_of_faststream_keeps_a_message_that_nobody_claims():
    from faststream.redis import StreamSub

    def read(name):
        return [{"stream": StreamSub("jobs", group="w", consumer=name, polling_interval=500)}]

    def claim(name):
        claims = StreamSub("jobs", group="w", consumer=f"{name}-c", min_idle_time=1000, polling_interval=500)
        return [*read(name), {"stream": claims}]

    assert meet(*faststream(read, stream="jobs"), "XREADGROUP", "after") == []
    assert meet(*faststream(claim, stream="jobs"), "XREADGROUP", "after") == [1]
    assert meet(*faststream(claim, stream="jobs"), "XACK", "before") == [1, 1]


def test_streaq_runs_a_task_again_whose_end_was_not_written():
    from streaq import Worker

    def worker_of(url, name, done):
        worker = Worker(redis_url=url, id=name, idle_timeout=1, handle_signals=False)

        @worker.task(timeout=30)
        async def job(n: int) -> None:
            done.append(n)

        return worker, job

    async def work(url, name, done):
        await worker_of(url, name, done)[0].run_async()

    async def send(url, n):
        worker, job = worker_of(url, "p", [])
        async with worker:
            await job.enqueue(n)

    assert meet(work, send, "EXEC", "before") == [1, 1]


def test_arq_waits_for_the_end_of_a_mark():
    import redis
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    settings = RedisSettings(host="redis", port=6379)

    async def work(url, name, done):
        async def job(ctx, n):
            done.append(n)

        worker = Worker(
            [func(job, name="job", timeout=30)],
            redis_settings=settings,
            handle_signals=False,
            poll_delay=0.5,
        )
        await worker.async_run()

    async def send(url, n):
        pool = await create_pool(settings)
        await pool.enqueue_job("job", n)

    assert meet(work, send, "GET", "after", seconds=30) == []
    assert meet(work, send, "GET", "after", seconds=60) == [1]
    with pytest.raises(redis.WatchError):
        meet(work, send, "ZSCORE", "after")


def test_huey_loses_a_task():
    import redis
    from huey import RedisHuey

    def body(server):
        done: list[int] = []
        huey = RedisHuey("h", url=server.url, read_timeout=0.1)
        huey.task(name="job")(done.append)(1)
        for _ in range(3):
            with contextlib.suppress(redis.ConnectionError):
                task = huey.dequeue()
                if task is not None:
                    huey.execute(task)
        assert done == [1]

    with pytest.raises(AssertionError, match=r"(?s)1 of 6 faults break.*BRPOP number 1 with close='after'"):
        every_fault("BRPOP")(body)()


def test_kombu_loses_a_message():
    import redis
    from kombu import Connection

    def body(server):
        done = []
        with Connection(server.url) as connection, connection.SimpleQueue("jobs") as queue:
            queue.put(1)
            for _ in range(3):
                with contextlib.suppress(redis.ConnectionError, queue.Empty):
                    message = queue.get(timeout=1)
                    done.append(message.payload)
                    message.ack()
        assert done == [1]

    with pytest.raises(AssertionError, match=r"BRPOP number 1 with close='after'"):
        every_fault("BRPOP", close="after")(body)()


done_by_rq: list[int] = []


def job_of_rq(n):
    done_by_rq.append(n)


def test_rq_runs_no_job_again_whose_beginning_was_cut_off():
    import redis
    from rq import Queue, SimpleWorker

    def body(server):
        done_by_rq.clear()
        queue = Queue("q", connection=redis.Redis.from_url(server.url))
        queue.enqueue(job_of_rq, 1)
        for _ in range(2):
            with contextlib.suppress(redis.ConnectionError):
                SimpleWorker([queue], connection=redis.Redis.from_url(server.url)).work(
                    burst=True, logging_level="CRITICAL"
                )
        assert done_by_rq == [1]

    with pytest.raises(AssertionError, match="2 of 2 faults break"):
        every_fault("PERSIST")(body)()
