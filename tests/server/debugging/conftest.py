"""A second connection to the server of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.live import LiveServer
    from support.wire import Wire


@pytest.fixture
def other(server: LiveServer) -> Iterator[Wire]:
    with server.wire() as wire:
        yield wire
