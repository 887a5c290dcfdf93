"""From source to sink by way of sentinels, without a JVM: a failover in between, and nothing is lost or doubled."""

import pytest
from support.pipeline.cluster_pipeline import Pipeline

import rillet.testing
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect


@pytest.mark.parametrize("mode", ["range", "group"])
def test_nothing_is_lost_or_doubled_by_a_failover_that_loses_nothing(mode, monkeypatch):
    with rillet.testing.Sentinel(replicas=1) as sentinel:
        given = {"url": sentinel.url, "retryIntervalMs": "5", "retries": "60"}
        with connect(Endpoint.of(given)) as connection:
            pipeline = Pipeline(connection, given, mode, monkeypatch)
            for _ in range(2):
                pipeline.add(60)
                pipeline.engine.trigger()
                pipeline.add(30)
                # What was written before, by whomever, is replicated when this is.
                connection.call("SET", "all", "replicated", repeatable=True)
                assert connection.call("WAIT", 1, 10_000) == 1
                sentinel.fail_over()
                sentinel.wait_until_settled()
            pipeline.engine.finish()
            found = pipeline.written()
            assert sorted(found) == list(range(pipeline.added))
            assert set(found.values()) == {1}
            pipeline.engine.restart()
