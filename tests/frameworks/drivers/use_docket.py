"""docket: tasks, retries, schedules, replacement, cancellation, perpetual tasks, results, redelivery after a crash."""

import asyncio
from datetime import UTC, datetime, timedelta

from checks import URL, eventually_async, function
from docket import ConcurrencyLimit, Docket, Perpetual, Retry, Worker
from redis.asyncio import Redis

# What docket finds in a default argument it does around each run of the task.
RETRY = Retry(attempts=3, delay=timedelta(milliseconds=10))
EVERY_TWENTIETH = Perpetual(every=timedelta(milliseconds=20))
ONE_PER_CUSTOMER = ConcurrencyLimit("customer", max_concurrent=1)
redis = Redis.from_url(URL)


async def note(word: str) -> None:
    await redis.rpush("noted", word)


async def double(number: int) -> int:
    return number * 2


async def fail_twice(retry: Retry = RETRY) -> str:
    if await redis.incr("tries") <= 2:
        raise ValueError("not yet")
    return "third time"


async def tick(perpetual: Perpetual = EVERY_TWENTIETH) -> None:
    if await redis.incr("ticks") == 3:
        perpetual.cancel()


async def one_at_a_time(customer: str, limit: ConcurrencyLimit = ONE_PER_CUSTOMER) -> None:
    inside = await redis.incr("inside")
    assert inside == 1, inside
    await asyncio.sleep(0.02)
    await redis.decr("inside")
    await redis.incr("served")


async def hang_once() -> None:
    if await redis.incr("hanging") == 1:
        await asyncio.sleep(3600)
    await redis.set("recovered", 1)


def docket(name: str) -> Docket:
    made = Docket(name, URL, heartbeat_interval=timedelta(milliseconds=100))
    for task in (note, double, fail_twice, tick, one_at_a_time, hang_once):
        made.register(task)
    return made


def worker(of: Docket) -> Worker:
    return Worker(
        of,
        minimum_check_interval=timedelta(milliseconds=10),
        scheduling_resolution=timedelta(milliseconds=10),
        redelivery_timeout=timedelta(milliseconds=500),
    )


async def hang() -> None:
    """What the process that is killed does."""
    async with docket("crash") as made, worker(made) as running:
        await running.run_forever()


async def tasks() -> None:
    async with docket("tasks") as made:
        soon = datetime.now(UTC) + timedelta(milliseconds=300)
        doubled = [await made.add(double)(number) for number in range(10)]
        await made.add(note)("now")
        await made.add(note, when=soon, key="later")("replaced")
        await made.replace(note, when=soon, key="later")("later")
        await made.add(note, when=soon, key="later")("ignored, as the key is there")
        await made.add(note, when=soon, key="never")("never")
        await made.cancel("never")
        retried = await made.add(fail_twice)()
        await made.add(tick)()
        for _ in range(3):
            await made.add(one_at_a_time)("somebody")
        snapshot = await made.snapshot()
        assert (len(snapshot.future), len(snapshot.running)) == (17, 0)
        async with worker(made) as running:
            await running.run_until_finished()
        assert [await each.get_result(timeout=timedelta(seconds=60)) for each in doubled] == list(
            range(0, 20, 2)
        )
        assert await retried.get_result(timeout=timedelta(seconds=60)) == "third time"
        assert sorted(await redis.lrange("noted", 0, -1)) == [b"later", b"now"]
        assert await redis.get("ticks") == b"3"
        assert await redis.get("served") == b"3"

        # A strike travels through a stream of its own.
        async with docket("tasks") as elsewhere:
            await made.strike(None, "word", "==", "struck")
            await eventually_async(lambda: elsewhere.strike_list.is_stricken({"word": "struck"}))
            await elsewhere.add(note)("struck")
            await elsewhere.add(note)("spared")
            await made.restore(None, "word", "==", "struck")
            await eventually_async(lambda: not elsewhere.strike_list.is_stricken({"word": "struck"}))
            await elsewhere.add(note)("struck no more")
        async with worker(made) as running:
            await running.run_until_finished()
        assert sorted(await redis.lrange("noted", 2, -1)) == [b"spared", b"struck no more"]


async def crash() -> None:
    async with docket("crash") as made:
        await made.add(hang_once)()
        with function("use_docket", "hang") as killed:
            await eventually_async(lambda: redis.get("hanging"))
            assert len(await made.workers()) == 1
            killed.kill()
        async with worker(made) as running:
            await running.run_until_finished()
        assert await redis.get("hanging") == b"2"
        assert await redis.get("recovered") == b"1"


async def main() -> None:
    await tasks()
    await crash()
    await redis.aclose()
