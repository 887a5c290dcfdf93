"""arq: results, retries, deferred jobs, unique job ids, aborts, cron, and a worker that was killed."""

import asyncio
from typing import ClassVar

from arq import Retry, create_pool, cron
from arq.connections import RedisSettings
from arq.jobs import Job, JobStatus
from arq.worker import Worker
from checks import PORT, eventually_async, worker

SETTINGS = RedisSettings(host="127.0.0.1", port=PORT)


async def double(ctx: dict, number: int) -> int:
    return number * 2


async def fail_twice(ctx: dict) -> int:
    if ctx["job_try"] <= 2:
        raise Retry(defer=0.05)
    return ctx["job_try"]


async def fail(ctx: dict) -> None:
    raise ValueError("as asked")


async def sleep(ctx: dict) -> None:
    await ctx["redis"].incr("sleeping")
    await asyncio.sleep(3600)


async def sleep_once(ctx: dict) -> str:
    if await ctx["redis"].incr("hanging") == 1:
        await asyncio.sleep(3600)
    return "at last"


async def tick(ctx: dict) -> None:
    await ctx["redis"].incr("ticks")


class WorkerSettings:
    redis_settings = SETTINGS
    functions: ClassVar = [double, fail_twice, fail, sleep, sleep_once]
    cron_jobs: ClassVar = [cron(tick, second=set(range(60)), run_at_startup=True)]
    allow_abort_jobs = True
    poll_delay = 0.05
    job_timeout = 1  # after it (and ten seconds) the job of a killed worker is taken up again


CLI = ("-m", "arq", "use_arq.WorkerSettings")


async def main() -> None:
    pool = await create_pool(SETTINGS)
    doubled = [await pool.enqueue_job("double", number) for number in range(10)]
    assert await pool.enqueue_job("double", 1, _job_id="once") is not None
    assert await pool.enqueue_job("double", 2, _job_id="once") is None
    retried = await pool.enqueue_job("fail_twice")
    failed = await pool.enqueue_job("fail")
    deferred = await pool.enqueue_job("double", 21, _defer_by=1)
    assert await deferred.status() == JobStatus.deferred
    assert len(await pool.queued_jobs()) == 14
    with worker(*CLI):
        assert [await job.result(timeout=60) for job in doubled] == list(range(0, 20, 2))
        assert await retried.result(timeout=60) == 3
        outcome = (await asyncio.gather(failed.result(timeout=60), return_exceptions=True))[0]
        assert repr(outcome) == "ValueError('as asked')"
        assert await deferred.result(timeout=60) == 42
        assert await Job("once", pool).result(timeout=60) == 2
        await eventually_async(lambda: pool.get("ticks"))
        aborted = await pool.enqueue_job("sleep")
        await eventually_async(lambda: pool.get("sleeping"))
        assert await aborted.abort(timeout=60)
    assert len(await pool.all_job_results()) >= 14

    hanging = await pool.enqueue_job("sleep_once")
    with worker(*CLI) as killed:
        await eventually_async(lambda: pool.get("hanging"))
        killed.kill()
    assert await hanging.status() == JobStatus.in_progress
    taken_up = Worker(
        [sleep_once],
        redis_settings=SETTINGS,
        burst=True,
        poll_delay=0.05,
        handle_signals=False,
        keep_result=60,
    )
    await pool.pexpire(f"arq:in-progress:{hanging.job_id}", 50)  # instead of waiting for eleven seconds
    await taken_up.async_run()
    await taken_up.close()
    assert await hanging.result(timeout=60) == "at last"
    await pool.aclose()
