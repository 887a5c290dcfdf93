"""Clients as the application makes them: `like=`, the table of lost replies in docs/testing/faults.md, no redis-py at all.

`make test-redis-py` runs this with each version of the table.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis
import redis.asyncio

import rillet.testing
from rillet.testing.clients import close as close_async

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "faults.md"
KINDS = (redis.Redis, redis.asyncio.Redis)


async def settled(value):
    return await value if inspect.isawaitable(value) else value


async def close(client):
    if isinstance(client, redis.asyncio.Redis):
        await close_async(client)
    else:
        client.close()


async def lost_once(server, client):
    """Return how many entries an XADD stores whose first reply is lost, and whether the application sees an error."""
    server.reset()
    try:
        with server.fault(command="XADD", close="after", first=1, expect_hits=True):
            await settled(client.xadd("s", {"a": "1"}))
        seen = "ok"
    except redis.ConnectionError:
        seen = "ConnectionError"
    finally:
        await close(client)
    with server.client() as other:
        return f"{other.xlen('s')}, {seen}"


def made(server, kind):
    """Return the columns of the table: the same client, made in each way."""
    ours = server.client if kind is redis.Redis else server.async_client
    return {
        "Redis(…)": kind(host=server.host, port=server.port),
        "like=": ours(like=kind),
        "from_url": kind.from_url(server.url),
        "server.client()": ours(),
    }


async def test_the_table_of_the_page_says_how_often_this_redis_py_stores_what_it_adds():
    version = ".".join(redis.__version__.split(".")[:2])
    row = [version]
    with rillet.testing.Server() as server:
        for kind in KINDS:
            found = {how: await lost_once(server, client) for how, client in made(server, kind).items()}
            assert found["like="] == found["Redis(…)"]
            assert found["server.client()"] == found["from_url"] == "1, ConnectionError"
            row += [found["Redis(…)"], found["from_url"]]
    line = "| " + " | ".join(row) + " |"
    # Between the versions of the table it is as in the one before.
    rows = re.findall(r"^\| (\d+\.\d+) (\|.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    number = tuple(map(int, version.split(".")))
    [*_, nearest] = [cells for each, cells in rows if tuple(map(int, each.split("."))) <= number]
    assert f"| {version} {nearest}" == line


class Mine(redis.Redis):
    pass


class MineToo(redis.asyncio.Redis):
    pass


def mine(**options):
    return Mine(**options, client_name="mine")


async def test_a_client_is_of_the_class_of_the_application_with_its_options_and_the_servers_password():
    with rillet.testing.Server(requirepass="a b/c") as server:
        with server.client(like=Mine, db=3) as client:
            assert type(client) is Mine
            client.set("k", "v")
        with server.client(db=3) as other:
            assert other.get("k") == b"v"
        with server.client(like=mine) as client:
            assert client.client_getname() in {"mine", b"mine"}
        client = server.async_client(like=MineToo, decode_responses=True)
        assert type(client) is MineToo
        assert await client.echo("a") == "a"
        await close(client)


async def test_a_loop_server_and_an_async_server_take_the_class_too():
    for kind in (rillet.testing.LoopServer, rillet.testing.AsyncServer):
        async with kind() as server:
            client = server.client(like=MineToo)
            assert type(client) is MineToo
            assert await client.ping()
            await close(client)


@pytest.mark.parametrize("wrong", ["redis.Redis", 7])
def test_what_is_no_class_of_this_kind_is_refused(wrong):
    with rillet.testing.Server() as server:
        for value in (wrong, MineToo):
            with pytest.raises(TypeError, match=r"like= wants redis\.Redis, a class derived"):
                server.client(like=value)
        for value in (wrong, Mine):
            with pytest.raises(TypeError, match=r"like= wants redis\.asyncio\.Redis, a class"):
                server.async_client(like=value)


@pytest.mark.rillet(like=Mine, decode_responses=True)
def test_a_marker_names_the_class(rillet):
    assert type(rillet) is Mine
    assert rillet.echo("a") == "a"


WITHOUT = """
import sys
sys.modules["redis"] = None
import rillet.testing
from rillet.testing.options import split

with rillet.testing.Server(appendonly=True) as server:
    with server.recording() as seen:
        server._command(b"SET", b"a", b"1")
    server.reset()
    for make in (server.client, server.async_client, lambda: rillet.testing.LoopServer().client()):
        try:
            make()
        except ImportError as error:
            print(error)
assert split({"appendonly": True, "port": 1}).server == {"appendonly": True, "port": 1}
try:
    split({"decode_responses": True})
except ValueError as error:
    print(error)
"""


def test_a_server_needs_no_redis_py_and_a_client_names_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    *clients, option = done.stdout.splitlines()
    assert len(clients) == 3
    assert all("pip install 'rillet[testing]'" in line for line in [*clients, option])
    assert not done.stderr
