"""FastStream: streams with groups, batches, lists, channels, replies, and a message whose consumer was killed."""

import asyncio
from collections import defaultdict

from checks import URL, eventually_async, function
from faststream.redis import ListSub, PubSub, RedisBroker, StreamSub
from redis.asyncio import Redis


async def every_way_of_publishing() -> None:
    broker = RedisBroker(URL)
    seen = defaultdict(list)

    @broker.subscriber(stream=StreamSub("orders", group="billing", consumer="one", last_id=">"))
    @broker.publisher(stream="invoices")
    async def bill(order: dict) -> dict:
        seen["orders"].append(order["number"])
        return {"number": order["number"], "total": order["price"] * 2}

    @broker.subscriber(stream=StreamSub("invoices", batch=True, max_records=4, last_id="0"))
    async def file_away(invoices: list[dict]) -> None:
        seen["invoices"].extend(invoice["total"] for invoice in invoices)

    @broker.subscriber(list=ListSub("jobs", batch=True))
    async def work(jobs: list[str]) -> None:
        seen["jobs"].extend(jobs)

    @broker.subscriber(channel=PubSub("news.{topic}"))
    async def read(text: str) -> None:
        seen["news"].append(text)

    @broker.subscriber(list="questions")
    async def answer(number: int) -> int:
        return number + 1

    async with broker:
        await broker.start()
        for number in range(10):
            await broker.publish({"number": number, "price": number}, stream="orders", maxlen=100)
            await broker.publish(f"job {number}", list="jobs")
        await broker.publish_batch("job 10", "job 11", list="jobs")
        await broker.publish("rain", channel="news.weather")
        reply = await broker.request(41, list="questions", timeout=60)
        assert await reply.decode() == 42
        await eventually_async(
            lambda: len(seen["invoices"]) == 10 and len(seen["jobs"]) == 12 and seen["news"]
        )
    assert seen["orders"] == list(range(10))
    assert seen["invoices"] == [2 * number for number in range(10)]
    assert seen["jobs"] == [f"job {number}" for number in range(12)]
    assert seen["news"] == ["rain"]


async def hang() -> None:
    """What the process that is killed does: take a message, and never acknowledge it."""
    broker = RedisBroker(URL)

    @broker.subscriber(stream=StreamSub("parcels", group="carriers", consumer="lost", last_id=">"))
    async def keep(parcel: str) -> None:
        await Redis.from_url(URL).set("hanging", parcel)
        await asyncio.sleep(3600)

    async with broker:
        await broker.start()
        await asyncio.sleep(3600)


async def recover(claiming: dict[str, int]) -> None:
    redis = Redis.from_url(URL, decode_responses=True)
    await redis.delete("parcels", "hanging")
    broker = RedisBroker(URL)
    delivered = []

    @broker.subscriber(stream=StreamSub("parcels", group="carriers", consumer="found", **claiming))
    async def deliver(parcel: str) -> None:
        delivered.append(parcel)

    async def groups() -> list:
        return await redis.exists("parcels") and await redis.xinfo_groups("parcels")

    with function("use_faststream", "hang") as lost:
        await eventually_async(groups)
        async with RedisBroker(URL) as publisher:
            await publisher.publish("a vase", stream="parcels")
        await eventually_async(lambda: redis.get("hanging"))
        lost.kill()
    assert (await redis.xpending("parcels", "carriers"))["consumers"] == [{"name": "lost", "pending": 1}]

    async def settled() -> bool:
        return (await redis.xpending("parcels", "carriers"))["pending"] == 0

    async with broker:
        await broker.start()
        await eventually_async(settled)
    assert delivered == ["a vase"]
    await redis.aclose()


async def main() -> None:
    await every_way_of_publishing()
    await recover({"min_idle_time": 100})  # by XAUTOCLAIM
    async with Redis.from_url(URL, decode_responses=True) as redis:
        version = (await redis.info("server"))["redis_version"]
    if tuple(map(int, version.split("."))) >= (8, 4):
        await recover({"claim_min_idle_time": 100})  # by XREADGROUP CLAIM
