"""Rillet in ``unittest``: a server for a class of tests, reset before each.

::

    class TestWorker(RilletMixin, unittest.TestCase):
        rillet_options = {"compat_version": "7.2", "decode_responses": True}

        def test_it(self):
            self.rillet.xadd("s", {"a": "b"})
            self.rillet_server.clock.advance(hours=1)
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .clients import close
from .options import split
from .server import Server

if TYPE_CHECKING:
    import redis
    import redis.asyncio


class RilletMixin(unittest.TestCase):
    """Gives each test ``self.rillet``, a redis-py client on a freshly reset ``self.rillet_server``.

    Each test class has its own server. Put this mixin before the other base classes: ``unittest.TestCase``, Django's …
    """

    # Directives of the server and options of the client, as in the pytest marker.
    rillet_options: ClassVar[Mapping[str, Any]] = {}
    rillet_server: ClassVar[Server]
    rillet: redis.Redis

    @classmethod
    def setUpClass(cls) -> None:
        """Start the server of the class."""
        server = Server(**split(cls.rillet_options).server).start()
        cls.addClassCleanup(server.stop)
        cls.rillet_server = server
        super().setUpClass()

    def setUp(self) -> None:
        """Reset the server and connect the client."""
        self.rillet_server.start()  # a test may have stopped it
        self.rillet_server.reset()
        self.rillet_server.watch()
        self.addCleanup(self.rillet_server.check_faults)
        self.rillet = self.enterContext(
            self.rillet_server.client_of_test(**split(self.rillet_options).client)
        )
        super().setUp()


class AsyncRilletMixin(RilletMixin, unittest.IsolatedAsyncioTestCase):
    """Gives each test ``self.rillet_async`` as well, a ``redis.asyncio`` client."""

    rillet_async: redis.asyncio.Redis

    async def asyncSetUp(self) -> None:
        """Connect the asynchronous client."""
        self.rillet_async = self.rillet_server.async_client(**split(self.rillet_options).client)
        self.addAsyncCleanup(close, self.rillet_async)
        await super().asyncSetUp()
