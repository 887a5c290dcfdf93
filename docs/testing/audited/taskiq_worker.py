"""taskiq-redis: a stream broker with one task; `most`: its group begins at the start, and it claims after a minute."""

import asyncio
import os
import sys

import redis.asyncio
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

options = {"consumer_id": "0", "idle_timeout": 60_000} if sys.argv[1:] == ["most"] else {}
broker = RedisStreamBroker(os.environ["REDIS_URL"], consumer_name=os.environ["CONSUMER"], **options)
server = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])


@broker.task(task_name="work")
async def work(n: int) -> None:
    await server.sadd("done", n)


async def main() -> None:
    await run_receiver_task(broker, run_startup=True)


asyncio.run(main())
