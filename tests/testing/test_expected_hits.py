"""A fault that was to hit something, has not and is never stopped, is reported at the end of what it was made for."""

import asyncio
import contextlib
import unittest

import pytest
import redis
from support.programs.pytest_run import run_tests
from support.servers import start_server

import rillet.testing
from rillet.testing.unittest import RilletMixin

NOTHING = "the fault hit nothing: COMMAND SET ERROR OOM"


@pytest.fixture(scope="module")
def url():
    with start_server("redis810") as real:
        yield f"redis://127.0.0.1:{real.port}"


SYNC = {"Server": lambda _: rillet.testing.Server(), "Proxy": rillet.testing.Proxy}
ASYNC = {"LoopServer": lambda _: rillet.testing.LoopServer(), "AsyncProxy": rillet.testing.AsyncProxy}


def expect(made):
    return made.fault(command="SET", error="OOM", expect_hits=True).start()


def expect_and_fail(made):
    expect(made)
    return KeyError()


@pytest.mark.parametrize("kind", SYNC)
def test_the_end_of_a_server_or_a_proxy_reports_it(url, kind):
    with pytest.raises(AssertionError, match=NOTHING), SYNC[kind](url) as made:
        expect(made)
    with pytest.raises(KeyError), SYNC[kind](url) as made:  # the error of the block is more important
        raise expect_and_fail(made)
    made = SYNC[kind](url).start()
    expect(made)
    with pytest.raises(AssertionError, match=NOTHING):
        made.stop()
    with pytest.raises(redis.ConnectionError), made.client() as client:
        client.ping()
    made.stop()


@pytest.mark.parametrize("kind", ASYNC)
def test_the_end_of_one_in_the_loop_of_the_test_reports_it(url, kind):
    async def main():
        with pytest.raises(AssertionError, match=NOTHING):
            async with ASYNC[kind](url) as made:
                expect(made)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(made.host, made.port)
        with pytest.raises(KeyError):
            async with ASYNC[kind](url) as made:
                raise expect_and_fail(made)

    asyncio.run(main())


def test_the_end_of_a_cluster_reports_it_and_all_nodes_have_stopped():
    with pytest.raises(AssertionError, match=NOTHING), rillet.testing.Cluster() as cluster:
        expect(cluster.nodes[1])
    assert not any(node.running for node in cluster.nodes)
    with pytest.raises(KeyError), rillet.testing.Cluster() as cluster:
        raise expect_and_fail(cluster.nodes[1])


@pytest.mark.parametrize("kind", SYNC)
def test_stop_reports_it_and_what_has_hit_or_was_not_to_is_not_reported(url, kind):
    with SYNC[kind](url) as made, made.client() as client:
        fault = expect(made)
        with pytest.raises(AssertionError, match=NOTHING):
            fault.stop()
        hit = expect(made)
        made.fault(command="GET", error="OOM").start()
        with pytest.raises(redis.ResponseError):
            client.set("k", "v")
        assert hit.count == 1


def test_a_server_that_has_ended_says_nothing_of_it():
    with rillet.testing.Server() as server:
        expect(server)
        with contextlib.suppress(redis.ConnectionError), server.client() as client:
            client.shutdown(nosave=True)


def test_the_end_of_a_test_with_unittest_reports_it():
    class Inner(RilletMixin, unittest.TestCase):
        def runTest(self):  # noqa: N802 - unittest's name
            expect(self.rillet_server)

    result = unittest.TestResult()
    unittest.TestSuite([Inner()]).run(result)
    [(_, text)] = result.failures + result.errors
    assert NOTHING in text


def test_the_end_of_a_test_with_the_fixtures_reports_it(tmp_path):
    run = run_tests(
        tmp_path,
        """
        def test_begun(rillet_server):
            rillet_server.fault(command="SET", error="OOM", expect_hits=True).start()

        def test_none(rillet):
            assert rillet.set("k", "v")
        """,
    )
    run.outcome(passed=2, errors=1)
    assert NOTHING in run.output
