"""FastStream: a subscriber of a stream with a group; `most`: another one claims, and a failed message stays pending."""

import asyncio
import os
import sys

import redis.asyncio
from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, StreamSub

broker = RedisBroker(os.environ["REDIS_URL"])
app = FastStream(broker)
server = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])


async def work(n: int) -> None:
    await server.sadd("done", n)


if sys.argv[1:] == ["most"]:
    for options in ({"last_id": ">"}, {"min_idle_time": 60_000}):
        sub = StreamSub("orders", group="billing", consumer=os.environ["CONSUMER"], **options)
        broker.subscriber(stream=sub, ack_policy=AckPolicy.NACK_ON_ERROR)(work)
else:
    broker.subscriber(stream=StreamSub("orders", group="billing", consumer=os.environ["CONSUMER"]))(work)

asyncio.run(app.run())
