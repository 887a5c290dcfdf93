"""taskiq-redis: stream broker with claims, list and pub/sub brokers, results, both schedule sources."""

import asyncio
import datetime as dt

from checks import URL, eventually_async, worker
from redis.asyncio import Redis
from taskiq import ScheduledTask
from taskiq_redis import (
    ListQueueBroker,
    ListRedisScheduleSource,
    PubSubBroker,
    RedisAsyncResultBackend,
    RedisScheduleSource,
    RedisStreamBroker,
)


def results() -> RedisAsyncResultBackend:
    return RedisAsyncResultBackend(URL, result_ex_time=600)


streams = RedisStreamBroker(
    URL, "by-stream", consumer_id="0", idle_timeout=300, xread_block=200
).with_result_backend(results())
lists = ListQueueBroker(URL, queue_name="by-list").with_result_backend(results())
channels = PubSubBroker(URL, queue_name="by-channel").with_result_backend(results())


@streams.task
async def double(number: int) -> int:
    return number * 2


@lists.task
async def triple(number: int) -> int:
    return number * 3


@channels.task
async def quadruple(number: int) -> int:
    return number * 4


@streams.task
async def fail() -> None:
    raise ValueError("as asked")


@streams.task
async def hang_once() -> str:
    async with Redis.from_url(URL) as redis:
        if await redis.incr("hanging") == 1:
            await asyncio.sleep(3600)
    return "at last"


CLI = ("-m", "taskiq", "worker", "--workers", "1")


async def task_and_result() -> None:
    await streams.startup()
    with worker(*CLI, "use_taskiq:streams") as first:
        sent = [await double.kiq(number) for number in range(20)]
        got = [(await task.wait_result(timeout=60)).return_value for task in sent]
        assert got == [2 * number for number in range(20)]
        failed = await (await fail.kiq()).wait_result(timeout=60)
        assert failed.is_err
        assert str(failed.error) == "as asked"

        hanging = await hang_once.kiq()
        async with Redis.from_url(URL) as redis:
            await eventually_async(lambda: redis.get("hanging"))
        first.kill()
    with worker(*CLI, "use_taskiq:streams"):
        # It looks for messages to claim after each new one; the first of them may still go to the dying worker.
        async def taken_up() -> bool:
            await double.kiq(1)
            await asyncio.sleep(0.1)
            return await hanging.is_ready()

        await eventually_async(taken_up)
        assert (await hanging.get_result()).return_value == "at last"
    await streams.shutdown()


async def other_brokers() -> None:
    await lists.startup()
    await channels.startup()
    async with Redis.from_url(URL) as redis:
        with worker(*CLI, "use_taskiq:lists"), worker(*CLI, "use_taskiq:channels"):

            async def subscribed() -> bool:
                return (await redis.pubsub_numsub("by-channel"))[0][1] == 1

            await eventually_async(subscribed)
            for task, factor in ((triple, 3), (quadruple, 4)):
                sent = [await task.kiq(number) for number in range(5)]
                got = [(await each.wait_result(timeout=60)).return_value for each in sent]
                assert got == [factor * number for number in range(5)]
    await lists.shutdown()
    await channels.shutdown()


async def schedules() -> None:
    past = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=3)
    for source in (
        RedisScheduleSource(URL, "single"),
        ListRedisScheduleSource(URL, "listed", max_connection_pool_size=5),
    ):
        await source.startup()
        kicker = double.kicker().with_schedule_id("every minute")
        await kicker.schedule_by_cron(source, "* * * * *", 3)
        await double.kicker().with_schedule_id("at a time").schedule_by_time(source, past, 4)
        report = {item.schedule_id: item for item in await source.get_schedules()}
        assert set(report) == {"every minute", "at a time"}
        assert report["every minute"].args == [3]
        assert isinstance(report["at a time"], ScheduledTask)
        assert abs(report["at a time"].time.timestamp() - past.timestamp()) < 61
        await source.delete_schedule("every minute")
        await source.post_send(report["at a time"])
        left = [item.schedule_id for item in await source.get_schedules()]
        assert left == [], left
        await source.shutdown()


async def main() -> None:
    await task_and_result()
    await other_brokers()
    await schedules()
