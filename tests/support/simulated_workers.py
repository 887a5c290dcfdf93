"""Unmodified workers of frameworks for a simulation: each function returns a worker and what sends jobs to it.

`await worker(url, name, do)` runs jobs by `await do(n)`; `await send(url, *numbers)` sends a job for each number.
"""

import asyncio


def taskiq(kind, **options):
    from taskiq.api import run_receiver_task

    def broker_of(url, do):
        broker = kind(url, **options)

        @broker.task(task_name="job")
        async def job(n: int) -> None:
            await do(n)

        return broker, job

    async def worker(url, name, do):
        broker, _ = broker_of(url, do)
        await broker.startup()
        await run_receiver_task(broker)

    async def send(url, *numbers):
        broker, job = broker_of(url, None)
        await broker.startup()
        for n in numbers:
            await job.kiq(n)
        await broker.shutdown()

    return worker, send


def faststream(subscriptions, **published):
    """`subscriptions(name)` has the options of each subscriber of the worker of this name."""
    from faststream.redis import RedisBroker

    async def worker(url, name, do):
        broker = RedisBroker(url, logger=None)

        async def job(n: int) -> None:
            await do(n)

        for options in subscriptions(name):
            broker.subscriber(**options)(job)
        async with broker:
            await broker.start()
            await asyncio.Event().wait()

    async def send(url, *numbers):
        async with RedisBroker(url, logger=None) as broker:
            for n in numbers:
                await broker.publish(n, **published)

    return worker, send


def reading(name):
    """Return the subscriptions of a stream group of FastStream."""
    from faststream.redis import StreamSub

    return [{"stream": StreamSub("jobs", group="w", consumer=name, polling_interval=500)}]


def claiming(name):
    from faststream.redis import StreamSub

    claims = StreamSub("jobs", group="w", consumer=f"{name}-c", min_idle_time=1000, polling_interval=500)
    return [*reading(name), {"stream": claims}]


def streaq():
    from streaq import Worker

    def worker_of(url, name, do):
        worker = Worker(redis_url=url, id=name, idle_timeout=1, handle_signals=False)

        @worker.task(timeout=30)
        async def job(n: int) -> None:
            await do(n)

        return worker, job

    async def work(url, name, do):
        await worker_of(url, name, do)[0].run_async()

    async def send(url, *numbers):
        worker, job = worker_of(url, "p", None)
        async with worker:
            for n in numbers:
                await job.enqueue(n)

    return work, send


def arq():
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    settings = RedisSettings(host="redis", port=6379)

    async def work(url, name, do):
        async def job(ctx, n):
            await do(n)

        jobs = [func(job, name="job", timeout=30, max_tries=20)]
        await Worker(jobs, redis_settings=settings, handle_signals=False, poll_delay=0.5).async_run()

    async def send(url, *numbers):
        pool = await create_pool(settings)
        for n in numbers:
            await pool.enqueue_job("job", n, _job_id=str(n))

    return work, send
