"""redis-py in both protocols: what it does of itself when it connects, waits and caches.

Its own suite (tests/frameworks/test_redis_py_suite.py) has its commands, pipelines, locks, scripts and subscribers.
"""

import asyncio

import pytest
import redis
import redis.asyncio
from redis.cache import CacheConfig
from support.live import eventually


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_the_connection_reports_its_user_in_either_protocol(server, protocol, kind):
    async def ask():
        async with server.async_client(protocol=protocol) as client:
            return await client.client_info()

    info = asyncio.run(ask()) if kind == "asyncio" else server.client(protocol=protocol).client_info()
    assert info["lib-name"].startswith("redis-py")
    assert info["lib-ver"] == redis.__version__
    assert int(info["resp"]) == protocol


def test_the_newest_library_with_all_its_defaults(server):
    """HELLO 3, CLIENT MAINT_NOTIFICATIONS, SETINFO: nothing of it may end the connection."""
    client = redis.Redis(port=server.port)
    assert client.ping() is True
    assert int(client.client_info()["resp"]) == 3
    assert len(client.client_list()) == 1
    client.close()


def test_health_checks_ping_before_an_idle_connection_is_used(server, protocol):
    def pings() -> int:  # by another connection: an idle one would ping for this
        return int(server.info("cmdstat_ping").split("=")[1].split(",")[0])

    with server.client(protocol=protocol, health_check_interval=1) as client:
        client.set("k", "v")
        before = pings()  # of the handshake
        for connection in client.connection_pool._available_connections:
            connection.next_health_check = 0.1  # long ago
        assert client.get("k") == b"v"
        assert pings() == before + 1


def test_a_reader_that_gives_up_by_its_own_timeout_takes_nothing(server, protocol):
    """redis-py's socket_timeout: the connection is dropped, and the entry goes to the next reader."""
    with server.client(protocol=protocol) as admin:
        admin.xgroup_create("s", "g", mkstream=True)
        client = server.client(protocol=protocol, socket_timeout=0.05, retry=None)
        with pytest.raises(redis.TimeoutError):
            client.xreadgroup("g", "gone", {"s": ">"}, block=0)
        client.close()
        server.wait_for_blocked(0)
        admin.xadd("s", {"a": "b"})
        assert admin.xpending("s", "g")["pending"] == 0


def test_the_cache_of_the_client_is_invalidated_by_writes_of_others(server):
    client = redis.Redis(port=server.port, protocol=3, cache_config=CacheConfig(), decode_responses=True)
    with server.client() as other:
        other.set("k", "1")
        assert client.get("k") == "1"
        before = server.info("cmdstat_get")
        assert client.get("k") == "1"
        assert server.info("cmdstat_get") == before, "the second answer came from the cache"
        other.set("k", "2")
        eventually(lambda: client.get("k") == "2")
        assert server.info("tracking_clients") == "1"
    client.close()
