"""The mixins for unittest: run by unittest itself, in this process."""

import unittest

import pytest

from rillet.testing import StartError
from rillet.testing.unittest import AsyncRilletMixin, RilletMixin


def run(case):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert not result.errors, result.errors[0][1]
    assert not result.failures, result.failures[0][1]
    return result


def test_each_test_has_a_client_on_a_reset_server_of_its_class():
    ports = set()

    class Case(RilletMixin, unittest.TestCase):
        def look(self):
            ports.add(self.rillet_server.port)
            assert self.rillet.dbsize() == 0
            self.rillet.set("k", "v")

        test_1 = test_2 = look

        def test_3_that_shuts_it_down(self):
            self.rillet.shutdown(nosave=True)

        test_4 = look

    assert run(Case).testsRun == 4
    assert len(ports) == 1
    assert not Case.rillet_server.running


def test_options_are_those_of_the_marker():
    class Case(RilletMixin):
        rillet_options = {"compat_version": "7.2", "decode_responses": True}  # noqa: RUF012 - as users write it

        def test_it(self):
            self.rillet.set("k", "v")
            assert self.rillet.get("k") == "v"
            assert self.rillet.info("server")["redis_version"].startswith("7.2")

    run(Case)


def test_asyncio():
    class Case(AsyncRilletMixin):
        async def test_it(self):
            self.rillet.set("k", "v")
            assert await self.rillet_async.get("k") == b"v"

        async def test_again(self):
            assert await self.rillet_async.dbsize() == 0

    assert run(Case).testsRun == 2


def test_an_assertion_on_the_server_knows_the_history():
    class Case(RilletMixin, unittest.TestCase):
        def test_it(self):
            self.rillet.xadd("orders", {"n": 1}, id="1-0")
            self.rillet.xgroup_create("orders", "billing", "0")
            self.rillet.xreadgroup("billing", "Bob", {"orders": ">"})
            with pytest.raises(AssertionError, match="delivered to Bob in group billing"):
                self.rillet_server.assert_acked("orders", "billing", "1-0")
            self.rillet_server.assert_delivered_once("orders", "billing")

    run(Case)


def test_a_set_up_of_ones_own_runs_with_the_client():
    class Case(RilletMixin, unittest.TestCase):
        def setUp(self):
            super().setUp()
            self.rillet.set("k", "v")

        def test_it(self):
            assert self.rillet.get("k") == b"v"

    run(Case)


def test_a_bad_option_is_an_error_of_the_class():
    class Case(RilletMixin):
        rillet_options = {"appendonly": "perhaps"}  # noqa: RUF012 - as users write it

        def test_it(self):
            raise AssertionError

    with pytest.raises(StartError):
        Case.setUpClass()
