"""Real servers of three versions, and a proxy in front of each."""

import pytest
from support.servers import start_server

import rillet.testing
from rillet.testing.proxying.link import Link

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


class Watched(Link):
    """A link that keeps the bytes of both sides in both directions."""

    def __init__(self, listener, number):
        super().__init__(listener, number)
        self.asked, self.passed, self.answered, self.given = (bytearray() for _ in range(4))
        vars(listener).setdefault("watched", []).append(self)
        self._again = False

    def data_received(self, data):
        if not self._again:  # else it was held
            self.asked += data
        super().data_received(data)

    def _release(self):
        self._again = True
        super()._release()
        self._again = False

    def _begin(self):
        self._server = Tap(self._server, self.passed)
        self._again = True
        super()._begin()
        self._again = False

    def server_data(self, data):
        self.answered += data
        super().server_data(data)

    def connection_made(self, transport):
        super().connection_made(Tap(transport, self.given))


class Tap:
    def __init__(self, transport, passed):
        self._transport, self._passed = transport, passed

    def write(self, data):
        self._passed += data
        self._transport.write(data)

    def __getattr__(self, name):
        return getattr(self._transport, name)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr("rillet.testing.proxying.listener.Link", Watched)
