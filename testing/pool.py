"""The servers of a test session: one for each configuration that its tests ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Self

from .server import Server


class Pool:
    """The servers of a test session, by their arguments. Each starts on first use, and all stop together."""

    def __init__(self) -> None:
        self._servers: dict[tuple[tuple[str, str], ...], Server] = {}
        self._stack = contextlib.ExitStack()

    def get(self, options: Mapping[str, Any]) -> Server:
        """Return the running server with these options; restart it if a test has stopped it.

        Raises StartError: it does not start.
        """
        server = self.find(options)
        server.start()
        return server

    def find(self, options: Mapping[str, Any]) -> Server:
        """Return the server with these arguments; start it on first use.

        It may have stopped since: unlike ``get``, it does not check whether a test has stopped it.
        Raises StartError: it does not start.
        """
        key = tuple(sorted((name, repr(value)) for name, value in options.items()))
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = Server(**options)
            self._stack.callback(server.stop)
            server.start()
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
