"""The console behind sentinels: it follows the master."""

import asyncio

import rillet.testing
from rillet.console.connection import GoneError, Link
from rillet.console.poller import Poller
from rillet.console.prompt import Prompt


async def test_pages_and_the_prompt_follow_the_master_of_a_sentinel():
    with rillet.testing.Sentinel() as sentinel:
        sentinel.client().xadd("orders", {"a": 1})
        async with Link(sentinel.url) as link:
            poller, prompt = Poller(link), Prompt(link)
            await poller.round()
            assert list(poller.overview.streams) == [b"orders"]
            await asyncio.to_thread(sentinel.client().wait, 1, 60_000)
            await asyncio.to_thread(sentinel.fail_over)
            await asyncio.to_thread(sentinel.client().xadd, "payments", {"a": 1})
            async with asyncio.timeout(120):
                while set(poller.overview.streams) != {b"orders", b"payments"}:
                    try:
                        await poller.round()
                    except GoneError:
                        await asyncio.sleep(0.1)
            assert poller.overview.facts.role == "master"
            reply = await prompt.run("one", "XLEN payments", read_only=True, sure=False)
            assert reply.text == "(integer) 1"
            await prompt.close()
