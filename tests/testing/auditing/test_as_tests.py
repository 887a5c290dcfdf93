"""`rillet.testing.audit` and `AuditMixin`: an audit as tests."""

import importlib.util
import sys
import unittest
from pathlib import Path
from typing import ClassVar

import pytest
import redis

import rillet.testing

WORKERS = Path(__file__).parents[3] / "docs" / "testing" / "workers"


def _async_worker():
    spec = importlib.util.spec_from_file_location("worker_async", WORKERS / "worker_async.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Worker


async def works_as_coroutine(url, name):
    await _async_worker()(url, name).run()


def reads_in_a_thread(url):
    client = redis.Redis.from_url(url, decode_responses=True)
    try:
        client.xgroup_create("jobs", "workers", "0", mkstream=True)
        while True:
            for _, entries in client.xreadgroup("workers", "only", {"jobs": ">"}, block=500) or []:
                for entry, fields in entries:
                    client.sadd("done", fields["n"])
                    client.xack("jobs", "workers", entry)
    except redis.ConnectionError:
        return  # its server has ended
    finally:
        client.close()


test_a_command = rillet.testing.audit(
    command=[sys.executable, str(WORKERS / "worker.py")], only=["works", "backlog", "cut"]
)
test_a_coroutine = rillet.testing.audit(
    target=works_as_coroutine, stream="jobs", group="workers",
    only=["works", "crash", "crash-elsewhere", "delivery-lost", "idle-claim", "fair", "poison-capped"],
)  # fmt: skip
test_what_is_known_to_be_broken = rillet.testing.audit(
    target=reads_in_a_thread, only=["works", "retention"], xfail={"retention": "nobody trims"}, timeout=1
)


def test_a_thread_cannot_be_killed_and_is_not_told_that_it_broke_a_promise():
    test = rillet.testing.audit(target=reads_in_a_thread, only=["works", "crash"], timeout=1)
    with pytest.raises(pytest.skip.Exception, match="a thread cannot be killed"):
        test("crash")


def test_a_broken_promise_fails_with_its_evidence():
    test = rillet.testing.audit(target=reads_in_a_thread, only=["works", "idle-claim"], timeout=1)
    with pytest.raises(
        pytest.fail.Exception,
        match=r"(?s)idle-claim: (\S+) stays pending with gone.*\1 delivered to gone.*clock moved",
    ):
        test("idle-claim")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "a command or a target"),
        ({"command": ["a"], "target": print}, "a command or a target"),
        ({"command": ["a"], "only": ["crsh"]}, "there is no promise 'crsh'"),
        ({"command": ["a"], "xfail": {"crsh": "why"}}, "there is no promise 'crsh'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        rillet.testing.audit(**options)


def test_a_class_of_unittest_has_a_test_for_each_promise():
    class Audited(rillet.testing.AuditMixin, unittest.TestCase):
        audit_options: ClassVar = {
            "target": reads_in_a_thread, "timeout": 1, "only": ["works", "crash", "idle-claim", "retention"],
            "xfail": {"retention": "nobody trims"},
        }  # fmt: skip

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Audited).run(result)
    assert result.testsRun == 4
    assert [test.id().rpartition(".")[2] for test, _ in result.failures] == ["test_idle_claim"]
    assert [test.id().rpartition(".")[2] for test, _ in result.skipped] == ["test_crash"]
    assert len(result.expectedFailures) == 1
    assert result.errors == []
