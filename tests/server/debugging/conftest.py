"""A second connection to the server of a test."""

from collections.abc import Iterator

import pytest
from support.live import LiveServer
from support.wire import Wire


@pytest.fixture
def other(server: LiveServer) -> Iterator[Wire]:
    with server.wire() as wire:
        yield wire
