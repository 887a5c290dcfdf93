"""The same with redis.asyncio: a stream consumer that keeps its promises."""

import asyncio
import contextlib
import os
import signal

import redis
import redis.asyncio

STREAM, GROUP = "jobs", "workers"
LEASE = 30_000  # milliseconds after which a message counts as abandoned
HEARTBEAT = 1  # seconds
MOST_DELIVERIES = 5


class Worker:
    """Reads, claims, works, acknowledges, until it is to stop."""

    def __init__(self, url, name):
        self.server, self.name = redis.asyncio.Redis.from_url(url, decode_responses=True), name
        self.stopping = asyncio.Event()

    async def run(self):
        while not self.stopping.is_set():
            try:
                for entry, fields in await self.claim() or await self.read():
                    await self.handle(entry, fields)
                    if self.stopping.is_set():
                        break  # the rest stays pending, and another consumer claims it
            except redis.ResponseError as error:
                if str(error).startswith("NOGROUP"):
                    await self.make_group()
                else:
                    await asyncio.sleep(0.1)  # READONLY, LOADING …
            except (redis.ConnectionError, redis.TimeoutError):
                await asyncio.sleep(0.1)
        await self.server.aclose()

    async def make_group(self):
        try:
            await self.server.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def read(self):
        found = await self.server.xreadgroup(GROUP, self.name, {STREAM: ">"}, count=10, block=2000)
        return found[0][1] if found else []

    async def claim(self):
        _, entries, _ = await self.server.xautoclaim(STREAM, GROUP, self.name, LEASE, count=10)
        if not entries:
            for each in await self.server.xinfo_consumers(STREAM, GROUP):
                if each["name"] != self.name and each["pending"] == 0 and each["idle"] > 3_600_000:
                    await self.server.xgroup_delconsumer(STREAM, GROUP, each["name"])
        return entries

    async def handle(self, entry, fields):
        heartbeat = asyncio.create_task(self.beat(entry))
        try:
            await self.work(fields)
        except redis.RedisError:
            raise
        except Exception as error:
            [pending] = await self.server.xpending_range(STREAM, GROUP, entry, entry, 1)
            if pending["times_delivered"] < MOST_DELIVERIES:
                return  # it stays pending, and is claimed again later
            await self.server.xadd("jobs:dead", {**fields, "error": repr(error)})
        finally:
            heartbeat.cancel()
        async with self.server.pipeline(transaction=True) as both:
            await both.xack(STREAM, GROUP, entry).xdel(STREAM, entry).execute()

    async def work(self, fields):
        await self.server.sadd("done", int(fields["n"]))

    async def beat(self, entry):
        """Keep a message from being claimed while this worker works on it."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            with contextlib.suppress(redis.RedisError):  # the next beat tries again
                await self.server.xclaim(STREAM, GROUP, self.name, 0, [entry], justid=True)


async def main():
    worker = Worker(os.environ["REDIS_URL"], os.environ["CONSUMER"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stopping.set)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
