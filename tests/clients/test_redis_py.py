"""redis-py, plain and asyncio, in both protocols: what an application does with streams, as the library sees it."""

import asyncio
import inspect

import pytest
import redis
import redis.asyncio
from redis.cache import CacheConfig
from support.background import aside
from support.live import LiveServer, eventually

WRAPPED = (redis.asyncio.client.Pipeline, redis.asyncio.client.PubSub)


class Awaited:
    """A `redis.asyncio` object whose coroutines are awaited at once, so that one test serves both libraries."""

    def __init__(self, runner, inner):
        self.runner = runner
        self.inner = inner

    def __getattr__(self, name):
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return attribute

        def call(*arguments, **options):
            async def work():
                result = attribute(*arguments, **options)
                return await result if inspect.iscoroutine(result) else result

            result = self.runner.run(work())
            if result is self.inner:
                return self
            return Awaited(self.runner, result) if isinstance(result, WRAPPED) else result

        return call


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


@pytest.fixture(params=["sync", "asyncio"])
def connect(request, server, protocol):
    """`connect(**options)` gives a client of either library."""
    if request.param == "sync":
        clients = []

        def plain(**options):
            client = server.client(protocol=protocol, **options)
            clients.append(client)
            return client

        yield plain
        for client in clients:
            client.close()
    else:
        with asyncio.Runner() as runner:
            clients = []

            def awaited(**options):
                client = Awaited(runner, server.async_client(protocol=protocol, **options))
                clients.append(client)
                return client

            yield awaited
            for client in clients:
                client.aclose()


@pytest.fixture
def client(connect):
    return connect(decode_responses=True)


def entries(reply) -> dict[str, list]:
    """What XREAD and XREADGROUP gave, by key, in either protocol's shape."""
    pairs = reply.items() if isinstance(reply, dict) else reply
    found = {}
    for key, some in pairs:
        # RESP3 in redis-py's own shape has one more list around the entries.
        flat = (
            some[0] if some and isinstance(some[0], list) and isinstance(some[0][0], (list, tuple)) else some
        )
        found[key] = [(entry[0], entry[1]) for entry in flat]
    return found


# Pipelines, transactions


def test_a_pipeline_and_a_transaction(client):
    for transaction in (False, True):
        client.delete("s")
        pipeline = client.pipeline(transaction=transaction)
        pipeline.xadd("s", {"a": "b"}, id="1-0").xgroup_create("s", "g", id="0")
        results = pipeline.xlen("s").xreadgroup("g", "c", {"s": ">"}).execute()
        assert results[:3] == ["1-0", True, 1]
        assert entries(results[3]) == {"s": [("1-0", {"a": "b"})]}


def test_an_error_in_a_pipeline_is_raised_and_the_others_are_done(client):
    pipeline = client.pipeline(transaction=False)
    pipeline.set("k", "v").xlen("k").set("l", "w")
    results = pipeline.execute(raise_on_error=False)
    assert results[0] is True
    assert isinstance(results[1], redis.ResponseError)
    assert client.get("l") == "w"


def test_watch_fails_a_transaction_after_another_clients_write(client, connect):
    other = connect(decode_responses=True)
    client.set("k", "1")
    for interfere in (True, False):
        pipeline = client.pipeline()
        pipeline.watch("k")
        value = int(pipeline.get("k"))
        if interfere:
            other.set("k", "5")
        pipeline.multi()
        pipeline.set("k", str(value + 1))
        if interfere:
            with pytest.raises(redis.WatchError):
                pipeline.execute()
        else:
            assert pipeline.execute() == [True]
        pipeline.reset()
    assert client.get("k") == "6"


# Objects of the library


def test_objects_for_bit_fields_scripts_and_locks(server, protocol):
    with server.client(protocol=protocol, decode_responses=True) as client:
        field = client.bitfield("b").set("u8", 0, 200).incrby("u8", 0, 100, overflow="SAT").get("u4", "#0")
        assert field.execute() == [0, 255, 15]
        script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        assert script(keys=["n"], args=[5]) == 5
        client.script_flush()
        assert script(keys=["n"], args=[5]) == 10, "loaded again by the library"
        pipeline = client.pipeline()
        client.script_flush()
        script(keys=["n"], args=[1], client=pipeline)
        assert pipeline.execute() == [11]
        lock = client.lock("lock", timeout=10)
        assert lock.acquire()
        assert not client.lock("lock").acquire(blocking=False)
        assert lock.reacquire()
        assert lock.extend(5)
        lock.release()
        with pytest.raises(redis.exceptions.LockError):
            lock.release()


# Pub/sub


def test_publish_reaches_channels_and_patterns(client, connect):
    pubsub = client.pubsub()
    pubsub.subscribe("news")
    pubsub.psubscribe("n*")
    other = connect()
    seen = []

    def heard(count):
        message = pubsub.get_message(timeout=0.1)
        if message is not None:
            seen.append((message["type"], message["data"]))
        return len(seen) >= count

    eventually(lambda: heard(2))
    assert other.publish("news", "hello") == 2
    eventually(lambda: heard(4))
    assert seen == [("subscribe", 1), ("psubscribe", 2), ("message", "hello"), ("pmessage", "hello")]
    pubsub.unsubscribe()
    pubsub.punsubscribe()
    eventually(lambda: heard(6))
    assert other.publish("news", "silence") == 0
    pubsub.aclose() if isinstance(pubsub, Awaited) else pubsub.close()


# Connecting


def test_the_connection_reports_its_user_in_either_protocol(client, protocol):
    info = client.client_info()
    assert info["lib-name"].startswith("redis-py")
    assert info["lib-ver"] == redis.__version__
    assert int(info["resp"]) == protocol


def test_a_name_a_database_and_a_password_are_given_on_connect(protocol):
    with LiveServer(requirepass="secret") as server:
        with server.client(protocol=protocol, db=3, client_name="me", decode_responses=True) as client:
            assert client.client_getname() == "me"
            client.set("k", "v")
            assert int(client.client_info()["db"]) == 3
        wrong = redis.Redis(port=server.port, password="wrong", protocol=protocol, retry=None)
        with pytest.raises(redis.AuthenticationError):
            wrong.ping()
        wrong.close()
        missing = redis.Redis(port=server.port, protocol=protocol, retry=None)
        with pytest.raises(redis.AuthenticationError):
            missing.ping()
        missing.close()


def test_the_newest_library_with_all_its_defaults(server):
    """HELLO 3, CLIENT MAINT_NOTIFICATIONS, SETINFO: nothing of it may end the connection."""
    client = redis.Redis(port=server.port)
    assert client.ping() is True
    assert int(client.client_info()["resp"]) == 3
    assert len(client.client_list()) == 1
    client.close()


def test_health_checks_ping_before_an_idle_connection_is_used(server, protocol):
    client = server.client(protocol=protocol, health_check_interval=1)
    client.set("k", "v")
    for connection in client.connection_pool._available_connections:
        connection.next_health_check = 0.1  # long ago
    before = int(server.info("cmdstat_ping").split("=")[1].split(",")[0]) if has_ping(server) else 0
    assert client.get("k") == b"v"
    assert int(server.info("cmdstat_ping").split("=")[1].split(",")[0]) == before + 1
    client.close()


def has_ping(server) -> bool:
    with server.wire() as wire:
        return b"cmdstat_ping" in wire.call("INFO", "commandstats").value


def test_a_unix_socket_serves_too(tmp_path, protocol):
    with (
        LiveServer(unixsocket=tmp_path / "sock"),
        redis.Redis(unix_socket_path=str(tmp_path / "sock"), protocol=protocol) as client,
    ):
        assert client.xadd("s", {"a": "b"}, id="1-1") == b"1-1"
        assert client.xrange("s") == [(b"1-1", {b"a": b"b"})]


def test_a_client_finds_the_server_again_after_a_restart(server, protocol):
    client = server.client(protocol=protocol)
    client.xadd("s", {"a": "b"}, id="1-1")
    server.restart()
    assert client.xlen("s") == 1
    client.close()


# Blocking reads


def test_threads_that_wait_get_what_comes(server, protocol):
    def wait():
        with server.client(protocol=protocol, decode_responses=True, socket_timeout=None) as client:
            return entries(client.xread({"s": "$"}, block=0))

    waiting = [aside(wait) for _ in range(5)]
    server.wait_for_blocked(5)
    with server.client() as client:
        client.xadd("s", {"a": "b"}, id="1-1")
    assert [each.result(60) for each in waiting] == [{"s": [("1-1", {"a": "b"})]}] * 5


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


def test_coroutines_that_wait_get_what_comes(server, protocol):
    async def work():
        async with server.async_client(
            protocol=protocol, decode_responses=True, socket_timeout=None
        ) as client:
            waiting = [asyncio.create_task(client.xread({"s": "$"}, block=0)) for _ in range(3)]
            while len(server.inside.blocking.waiters) < 3:
                await asyncio.sleep(0.005)
            cancelled = waiting.pop()
            cancelled.cancel()
            while len(server.inside.blocking.waiters) > 2:
                await asyncio.sleep(0.005)
            await client.xadd("s", {"a": "b"}, id="1-1")
            return [entries(reply) for reply in await asyncio.gather(*waiting)]

    assert asyncio.run(work()) == [{"s": [("1-1", {"a": "b"})]}] * 2


# Client-side caching


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
