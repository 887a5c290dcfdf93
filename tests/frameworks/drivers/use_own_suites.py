"""huey ships its own tests, as walrus does (`use_walrus.py`): they pass against this server."""

import unittest

from checks import PORT
from redis.connection import Connection

original = Connection.__init__


def connect_here(self: Connection, *words: object, **options: object) -> None:
    """The suites connect to port 6379 of this machine, which may be anybody's."""
    original(self, *words, **{**options, "host": "127.0.0.1", "port": PORT})


def passed(*modules: str, of: str = "", but: str = "") -> int:
    """How many tests ran here and passed: those of the classes whose names contain a word, but of one name."""
    Connection.__init__ = connect_here
    loader = unittest.TestLoader()
    tests = [test for suite in loader.loadTestsFromNames(modules) for test in flattened(suite)]
    chosen = unittest.TestSuite(
        test for test in tests if of in type(test).__name__ and not test.id().endswith(f".{but}")
    )
    result = unittest.TextTestRunner(verbosity=1).run(chosen)
    assert result.wasSuccessful()
    return result.testsRun - len(result.skipped)


def flattened(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """The tests of a tree of suites."""
    if isinstance(suite, unittest.TestCase):
        return [suite]
    return [test for part in suite for test in flattened(part)]


def main() -> None:
    # Those of its other storages share a file of this folder, and say nothing of a server.
    assert passed("huey.tests.test_priority", "huey.tests.test_storage", of="Redis") == 59
