"""Workers of a group that do jobs, right and wrong, for the simulation and for faults in turn."""

import asyncio

import redis.asyncio


async def work(url: str, name: str, *, acknowledges_first: bool = False) -> None:
    """Take jobs over from those that died, or new ones, and do each."""
    client = redis.asyncio.Redis.from_url(url, decode_responses=True)
    while True:
        _, entries, _ = await client.xautoclaim("jobs", "w", name, 1000, count=1)
        if not entries:
            found = await client.xreadgroup("w", name, {"jobs": ">"}, count=1, block=500)
            entries = (found if isinstance(found, list) else list(found.items()))[0][1] if found else []
            entries = entries[0] if entries and isinstance(entries[0], list) else entries
        for entry, fields in entries:
            if acknowledges_first:
                await client.xack("jobs", "w", entry)
            await asyncio.sleep(0.3)
            await client.sadd("done", fields["n"])
            if not acknowledges_first:
                await client.xack("jobs", "w", entry)


async def ten_jobs(sim, *, acknowledges_first: bool) -> None:
    """Let two workers do ten jobs, of which one dies; all are done once two minutes are over."""
    await sim.client.xgroup_create("jobs", "w", "0", mkstream=True)
    for name in ("a", "b"):
        sim.start(name, work, sim.url, name, acknowledges_first=acknowledges_first)
    for n in range(10):
        await sim.client.xadd("jobs", {"n": n})
    await asyncio.sleep(1)
    sim.crash("a")
    await asyncio.sleep(60)
    assert sim.server.stream("jobs").group("w").pending == []
    assert await sim.client.scard("done") == 10
