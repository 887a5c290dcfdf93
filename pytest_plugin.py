"""pytest fixtures of Rillet, always on and light to import: nothing of the server is loaded before it is used.

``rillet_server`` (session): a ``rillet.testing.Server``, one for each pytest-xdist worker.
``rillet``: a redis-py client on that server, emptied and reset before the test.
``rillet_async``: the same as a ``redis.asyncio`` client (with pytest-asyncio).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis
    import redis.asyncio

    from . import testing


@pytest.fixture(scope="session")
def rillet_server() -> Iterator[testing.Server]:
    """A Rillet server for the whole session; tests that use it directly may call its ``reset()``."""
    from .testing import Server

    with Server() as server:
        yield server


@pytest.fixture
def rillet(rillet_server: testing.Server) -> Iterator[redis.Redis]:
    """A redis-py client on a freshly reset server."""
    rillet_server.reset()
    with rillet_server.client() as client:
        yield client


try:
    import pytest_asyncio
except ImportError:
    pass  # without pytest-asyncio nothing could run an async fixture
else:

    @pytest_asyncio.fixture
    async def rillet_async(rillet_server: testing.Server) -> AsyncIterator[redis.asyncio.Redis]:
        """A ``redis.asyncio`` client on a freshly reset server."""
        rillet_server.reset()
        async with rillet_server.async_client() as client:
            yield client
