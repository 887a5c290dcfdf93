"""channels-redis: both layers (sorted sets with Lua, and pub/sub): channels, groups, capacity, expiry."""

import asyncio

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer
from checks import URL


async def with_sorted_sets() -> None:
    layer = RedisChannelLayer(hosts=[URL], capacity=3, expiry=60, symmetric_encryption_keys=[])
    await layer.send("one", {"type": "greet", "text": "hello"})
    assert await layer.receive("one") == {"type": "greet", "text": "hello"}

    # The reader waits first.
    waiting = asyncio.create_task(layer.receive("one"))
    await asyncio.sleep(0.05)
    await layer.send("one", {"type": "greet", "text": "again"})
    assert (await asyncio.wait_for(waiting, 20))["text"] == "again"

    for number in range(3):
        await layer.send("full", {"type": "count", "number": number})
    try:
        await layer.send("full", {"type": "count", "number": 3})
    except ChannelFull:
        pass
    else:
        raise AssertionError("it was not full")
    assert [(await layer.receive("full"))["number"] for _ in range(3)] == [0, 1, 2]

    first, second = await layer.new_channel(), await layer.new_channel("other")
    for channel in (first, second):
        await layer.group_add("everybody", channel)
    await layer.group_send("everybody", {"type": "shout", "text": "to all"})
    got = await asyncio.wait_for(asyncio.gather(layer.receive(first), layer.receive(second)), 20)
    assert [message["text"] for message in got] == ["to all", "to all"]
    await layer.group_discard("everybody", first)
    await layer.group_send("everybody", {"type": "shout", "text": "to one"})
    assert (await asyncio.wait_for(layer.receive(second), 20))["text"] == "to one"
    try:
        await asyncio.wait_for(layer.receive(first), 0.3)
    except TimeoutError:
        pass
    else:
        raise AssertionError("a message after leaving the group")

    # A group over its capacity leaves out the full channel, in one script.
    await layer.group_add("both", first)
    await layer.group_add("both", second)
    for number in range(5):
        await layer.group_send("both", {"type": "count", "number": number})
    assert [(await layer.receive(second))["number"] for _ in range(3)] == [0, 1, 2]

    shortly = RedisChannelLayer(hosts=[URL], expiry=1, prefix="short")
    await shortly.send("gone", {"type": "greet"})
    await asyncio.sleep(1.2)
    try:
        await asyncio.wait_for(shortly.receive("gone"), 0.3)
    except TimeoutError:
        pass
    else:
        raise AssertionError("it had expired")
    await layer.flush()
    await layer.close_pools()
    await shortly.close_pools()


async def with_pubsub() -> None:
    here, there = RedisPubSubChannelLayer(hosts=[URL]), RedisPubSubChannelLayer(hosts=[URL])
    one, other = await here.new_channel(), await there.new_channel()
    await here.send(one, {"type": "greet", "n": 1})
    assert (await asyncio.wait_for(here.receive(one), 20))["n"] == 1
    await here.group_add("everybody", one)
    await there.group_add("everybody", other)
    await there.group_send("everybody", {"type": "shout", "n": 2})
    got = await asyncio.wait_for(asyncio.gather(here.receive(one), there.receive(other)), 20)
    assert [message["n"] for message in got] == [2, 2]
    await here.flush()
    await there.flush()


async def main() -> None:
    await with_sorted_sets()
    await with_pubsub()
