"""A server that runs elsewhere, in place of a test server: ``--rillet-url``."""

from __future__ import annotations

from typing import Any, Final

import pytest

from .proxy import Proxy
from .server import Server


class RemoteRillet(Proxy):
    """A running Redis or Valkey behind a proxy, with the faults, recordings and spies of a ``rillet.testing.Server``.

    A test that uses a feature that only Rillet has (``clock``, ``restart`` …) is skipped.
    """

    client_of_test = Proxy.client  # the client closes at the end of its `with` block

    def reset(self) -> None:
        """Remove all keys, or those of the database in the URL, and end all faults. Nothing else is reset."""
        for fault in self.faults:
            fault.stop()
        self._command(b"FLUSHDB" if self._upstream.database else b"FLUSHALL")

    def is_empty(self) -> bool:
        """Return True if the server, or the database in its URL, has no keys."""
        if self._upstream.database:
            return not self._command(b"DBSIZE")
        return b"keys=" not in self._command(b"INFO", b"keyspace")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(_EXAMPLE, name):
            pytest.skip(f"server.{name} needs Rillet, and --rillet-url names a server that runs")
        raise AttributeError(name)


_EXAMPLE: Final = Server()  # not started: its attributes are what a test may want
