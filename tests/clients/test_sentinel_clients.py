"""Clients of Sentinel through failovers: each ends at the right master, and nothing that WAIT confirmed is lost.

The same scripts run against a Redis Sentinel over Redises.
"""

import asyncio
import contextlib
import os
import subprocess
import threading
import time

import pytest
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncRedisSentinel
from support.deployments.sentinels import NAME, Deployment
from support.programs.clients import NODE_FOLDER, node_modules, require_program

# The real one takes seconds for each failover.
KINDS = ["rillet", pytest.param("redis810", marks=pytest.mark.frameworks)]
ENOUGH = 20


class Load:
    """What a client has written and all replicas confirmed: `confirmed` grows until `end` is called."""

    def __init__(self) -> None:
        self.confirmed: list[int] = []
        self.ended = threading.Event()
        self.last_port = 0


def write_by_redis_py(deployment: Deployment, load: Load) -> None:
    number = 0
    sentinel = deployment.redis_sentinel(socket_timeout=3)
    with sentinel.master_for(NAME) as client:
        while not load.ended.is_set():
            number += 1
            with contextlib.suppress(redis.RedisError, OSError), client.pipeline(transaction=False) as both:
                both.xadd("s", {"n": number})
                both.execute_command("WAIT", 2, 1000)
                if both.execute()[1] == 2:
                    load.confirmed.append(number)
        load.last_port = retried(lambda: client.info("server")["tcp_port"])
    for each in sentinel.sentinels:
        each.close()


def retried(call):
    for _ in range(200):
        with contextlib.suppress(redis.RedisError, OSError):
            return call()
        time.sleep(0.05)
    raise AssertionError("the client found no master")


def write_by_asyncio(deployment: Deployment, load: Load) -> None:
    async def write() -> None:
        number = 0
        sentinel = AsyncRedisSentinel([("127.0.0.1", deployment.port)], socket_timeout=3)
        client = sentinel.master_for(NAME)
        while not load.ended.is_set():
            number += 1
            with contextlib.suppress(redis.RedisError, OSError, asyncio.TimeoutError):
                async with client.pipeline(transaction=False) as both:
                    both.xadd("s", {"n": number})
                    both.execute_command("WAIT", 2, 1000)
                    if (await both.execute())[1] == 2:
                        load.confirmed.append(number)
        for _ in range(200):
            with contextlib.suppress(redis.RedisError, OSError):
                load.last_port = (await client.info("server"))["tcp_port"]
                break
            await asyncio.sleep(0.05)
        await client.aclose()
        for each in sentinel.sentinels:
            await each.aclose()

    asyncio.run(write())


def write_by_node(library: str):
    def write(deployment: Deployment, load: Load) -> None:
        with subprocess.Popen(
            ["node", NODE_FOLDER / "sentinel.js", library, str(deployment.port)],
            env=os.environ | {"NODE_PATH": str(node_modules())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            stopper = threading.Thread(
                target=lambda: (load.ended.wait(), process.stdin.write("stop\n"), process.stdin.flush())
            )
            stopper.start()
            for line in process.stdout:
                if line.startswith("at "):
                    load.last_port = int(line.removeprefix("at "))
                else:
                    load.confirmed.append(int(line))
            load.ended.set()
            stopper.join()

    return write


CLIENTS = {
    "redis-py": write_by_redis_py,
    "redis-py-asyncio": write_by_asyncio,
    "ioredis": write_by_node("ioredis"),
    "node-redis": write_by_node("node-redis"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_follows_the_master_and_loses_nothing_that_wait_confirmed(client, kind):
    if "redis-py" not in client:
        node_modules()
    with Deployment(kind) as deployment:
        load = Load()
        worker = threading.Thread(target=CLIENTS[client], args=(deployment, load))
        worker.start()
        try:
            grows(load, worker)
            deployment.fail_over()
            # A Redis Sentinel turns the old master only after ten seconds: until then WAIT 2 confirms nothing.
            deployment.until(lambda: deployment.follows() == 2)
            grows(load, worker)
            lost = deployment.lose_master()
            lost.start()
            deployment.until(lambda: deployment.follows() == 2)
            grows(load, worker)
        finally:
            load.ended.set()
            worker.join(100)
        assert not worker.is_alive()
        with redis.Redis(port=deployment.master.port, decode_responses=True) as direct:
            there = {int(fields["n"]) for _, fields in direct.xrange("s")}
        assert set(load.confirmed) - there == set()
        assert load.last_port == deployment.master.port


def grows(load: Load, worker: threading.Thread) -> None:
    enough, deadline = len(load.confirmed) + ENOUGH, time.monotonic() + 60
    while len(load.confirmed) < enough:
        assert worker.is_alive(), "the client ended"
        assert time.monotonic() < deadline, f"only {len(load.confirmed)} confirmed"
        time.sleep(0.02)


def test_redis_cli_finds_the_master_and_sees_the_switch():
    cli = require_program("redis-cli")
    with Deployment("rillet") as deployment:
        asked = [cli, "-p", str(deployment.port)]
        place = [*asked, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]
        with subprocess.Popen(
            [*asked, "SUBSCRIBE", "+switch-master"], stdout=subprocess.PIPE, text=True
        ) as listener:
            assert listener.stdout.readline() == "subscribe\n"
            listener.stdout.readline()
            listener.stdout.readline()
            before = subprocess.run(place, capture_output=True, text=True, check=True).stdout.split()
            deployment.fail_over()
            after = subprocess.run(place, capture_output=True, text=True, check=True).stdout.split()
            said = [listener.stdout.readline().strip() for _ in range(3)]
            listener.terminate()
        assert before == ["127.0.0.1", str(deployment.nodes[0].port)]
        assert said == ["message", "+switch-master", " ".join([NAME, *before, *after])]
