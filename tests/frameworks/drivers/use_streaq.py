"""streaQ: results, retries, delays, priorities, dependencies, aborts, cron, and a worker that was killed."""

from datetime import timedelta

from anyio import sleep
from checks import URL, eventually_async, worker
from streaq import StreaqRetry, TaskStatus, Worker

queue = Worker(redis_url=URL, priorities=["low", "high"], idle_timeout=1, concurrency=4, prefetch=1)


@queue.task
async def double(number: int) -> int:
    return number * 2


@queue.task(max_tries=3)
async def fail_twice() -> str:
    if await queue.redis.incr("tries") <= 2:
        raise StreaqRetry("not yet", delay=0)
    return "third time"


@queue.task
async def fail() -> None:
    raise ValueError("as asked")


@queue.task
async def hang() -> None:
    await queue.redis.incr("aborting")
    await sleep(3600)


@queue.task
async def hang_once() -> str:
    if await queue.redis.incr("hanging") == 1:
        await sleep(3600)
    return "at last"


@queue.cron("* * * * * * *")
async def tick() -> None:
    await queue.redis.incr("ticks")


CLI = ("-m", "streaq", "run", "use_streaq:queue")


async def main() -> None:
    async with queue:
        # It reads with CLAIM and MAXCOUNT and gives back with XNACK where these are known, else by functions in Lua.
        version = (await queue.redis.info("server"))["redis_version"]
        assert queue._supports_max_count == (tuple(map(int, version.split("."))) >= (8, 10))
        doubled = [await double.enqueue(number) for number in range(10)]
        later = await double.enqueue(21).start(delay=timedelta(seconds=1))
        assert await later.status() == TaskStatus.SCHEDULED
        urgent = await double.enqueue(50).start(priority="high")
        retried = await fail_twice.enqueue()
        failed = await fail.enqueue()
        after = await double.enqueue(7).start(after=doubled[0].id)
        never = await double.enqueue(8).start(after=failed.id)
        aborted = await hang.enqueue()
        with worker(*CLI) as killed:
            assert [(await task.result(20)).result for task in doubled] == list(range(0, 20, 2))
            assert (await urgent.result(20)).result == 100
            assert (await retried.result(20)).result == "third time"
            assert isinstance((await failed.result(20)).exception, ValueError)
            assert (await after.result(20)).result == 14
            assert not (await never.result(20)).success
            assert (await later.result(20)).result == 42
            await eventually_async(lambda: queue.redis.get("aborting"))
            assert await aborted.abort(20)
            await eventually_async(lambda: queue.redis.get("ticks"))
            hanging = await hang_once.enqueue()
            await eventually_async(lambda: queue.redis.get("hanging"))
            killed.kill()
        assert await hanging.status() != TaskStatus.DONE
        with worker(*CLI):
            assert (await hanging.result(30)).result == "at last"
