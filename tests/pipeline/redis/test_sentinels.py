"""The master that sentinels name, before and after a failover."""

import pytest

import rillet.testing
from rillet.pipeline.redis.connection import ConnectionLost, RedisError
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.sentinels import SentinelConnection
from rillet.pipeline.redis.shards import connect


@pytest.fixture
def sentinel():
    with rillet.testing.Sentinel(replicas=1) as sentinel:
        yield sentinel


def endpoint(url, **given):
    return Endpoint.of({"url": url, "retryIntervalMs": "5", "retries": "40"} | given)


def test_reads_and_writes_go_to_the_new_master(sentinel):
    with connect(endpoint(sentinel.url)) as connection:
        assert connection.call("XADD", "s", "1-1", "n", "1") == b"1-1"
        assert connection.call("WAIT", 1, 30_000) == 1  # else the new master may never have had it
        sentinel.fail_over()
        assert connection.call("XLEN", "s") == 1
        assert connection.call("XADD", "s", "2-1", "n", "2", repeatable=True) == b"2-1"
        assert connection.call("ROLE")[0] == b"master"


@pytest.fixture
def misled(sentinel, monkeypatch):
    """A connection that is sent to a former master, once or always, and does not ask what it is."""

    def make(times):
        old = sentinel.master
        sentinel.fail_over()
        sentinel.wait_until_settled()
        honest = SentinelConnection._place
        places = [(old.host, old.port)] * times
        monkeypatch.setattr(
            SentinelConnection, "_place", lambda self: places.pop() if places else honest(self)
        )
        monkeypatch.setattr(SentinelConnection, "_introduce", lambda *_: None)
        return connect(endpoint(sentinel.url))

    return make


def test_a_write_that_a_former_master_refuses_goes_to_the_new_one(misled):
    with misled(1) as connection:
        assert connection.call("XADD", "s", "2-1", "n", "2") == b"2-1"


def test_a_transaction_that_a_former_master_refuses_is_for_its_caller(misled):
    with misled(9) as connection, pytest.raises(ConnectionLost, match="READONLY"):
        connection.pipeline([("MULTI",), ("XADD", "s", "*", "n", "1"), ("EXEC",)])


def test_one_sentinel_of_several_is_enough(sentinel):
    url = sentinel.url.replace("sentinel://", "sentinel://127.0.0.1:1,")
    with connect(endpoint(url)) as connection:
        assert connection.call("XLEN", "s") == 0


def test_a_name_that_no_sentinel_knows_is_named(sentinel):
    url = sentinel.url.replace(sentinel.name, "unknown")
    with (
        connect(endpoint(url, retries="1")) as connection,
        pytest.raises(ConnectionLost, match="knows no master 'unknown'"),
    ):
        connection.call("XLEN", "s")


def test_readers_get_a_replica_and_without_one_the_master(sentinel):
    with connect(endpoint(sentinel.url), replica=True) as reader:
        assert reader.call("ROLE")[0] == b"slave"
    sentinel.replicas[0].stop()
    with connect(endpoint(sentinel.url), replica=True) as reader:
        assert reader.call("XLEN", "s") == 0


def test_a_sentinel_is_no_server(sentinel):
    with (
        connect(Endpoint(port=sentinel.port), at_start=True) as connection,
        pytest.raises(RedisError, match="is a sentinel: use option 'url'"),
    ):
        connection.call("PING")
