"""Real servers of three versions, and a proxy in front of each."""

import pytest
from support.servers import start_server

import rillet.testing

REAL = ("redis810", "redis7", "valkey")


@pytest.fixture(scope="module", params=REAL)
def real(request):
    """A real server that the tests of a module share."""
    with start_server(request.param, "--enable-debug-command", "yes") as server:
        yield server


@pytest.fixture
def proxy(real):
    with real.wire() as wire:
        wire.call("FLUSHALL")
    with rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}") as proxy:
        yield proxy
