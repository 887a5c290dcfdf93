"""A server that runs elsewhere, in the place of a test server: ``--rillet-url``."""

from __future__ import annotations

from typing import Any, Final

import pytest

from .proxy import Proxy
from .server import Server


class RemoteRillet(Proxy):
    """A running Redis or Valkey behind a proxy: faults, recordings and spies are those of a ``rillet.testing.Server``.

    A test that wants of it what only Rillet can do (``clock``, ``restart`` …) is skipped.
    """

    client_of_test = Proxy.client  # which closes it at the end

    def reset(self) -> None:
        """Remove all keys, or those of the database that the URL names; end all faults. Nothing else is as at the start."""
        for fault in self.faults:
            fault.stop()
        self._command(b"FLUSHDB" if self._upstream.database else b"FLUSHALL")

    def is_empty(self) -> bool:
        """Whether there is no key that ``reset`` would remove."""
        if self._upstream.database:
            return not self._command(b"DBSIZE")
        return b"keys=" not in self._command(b"INFO", b"keyspace")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(_EXAMPLE, name):
            pytest.skip(f"server.{name} needs Rillet, and --rillet-url names a server that runs")
        raise AttributeError(name)


_EXAMPLE: Final = Server()  # not started: its attributes are what a test may want
