"""redis-stream-queue: the consumer of its README; `most`: what is done is deleted, and COUNT is 10."""

import asyncio
import os
import sys

import redis.asyncio
from redis_stream_queue import ConsumerConfig, StreamClient, StreamConsumer

MOST = sys.argv[1:] == ["most"]
server = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])


async def handle(messages):
    for each in messages:
        await server.sadd("done", int(each.data["n"]))
    return [each.id for each in messages]


async def handle_and_delete(messages):
    ids = await handle(messages)
    async with server.pipeline(transaction=True) as pipe:
        pipe.xack("orders", "order_workers", *ids)
        pipe.xdel("orders", *ids)
        await pipe.execute()
    return []


async def give_up(message, _reason):
    await server.rpush("dead", message.id)


async def main():
    config = ConsumerConfig(
        group="order_workers",
        worker_name=os.environ["CONSUMER"],
        dlq_stream="orders_dlq",
        batch_size=10 if MOST else 100,
        block_ms=5_000,
        max_deliveries=3,
    )
    consumer = StreamConsumer(
        client=StreamClient.from_url(os.environ["REDIS_URL"]),
        stream="orders",
        config=config,
        handler=handle_and_delete if MOST else handle,
        dlq_handler=give_up,
    )
    await consumer.run()


asyncio.run(main())
