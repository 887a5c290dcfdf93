"""Docket: a worker with one task, whose key is the number of the message.

It looks for abandoned messages each quarter of its redelivery timeout, by a timer of its own: five minutes if nothing is said.
"""

import asyncio
import os
from datetime import timedelta

import redis.asyncio
from docket import Docket, Worker
from docket.dependencies import TaskKey

server = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])


async def work(key: str = TaskKey()):
    await server.sadd("done", int(key))


async def main():
    async with Docket(name="orders", url=os.environ["REDIS_URL"]) as docket:
        docket.register(work)
        async with Worker(
            docket, name=os.environ["CONSUMER"], redelivery_timeout=timedelta(seconds=12)
        ) as worker:
            await worker.run_forever()


asyncio.run(main())
