"""A pytest plugin (``-p support.in_memory``): servers in threads have clients in memory, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from rillet.testing import Server

_plain = Server.__init__


def _in_memory(self: Server, **options: Any) -> None:
    if not options.get("process"):
        options = {"transport": "memory"} | options
    _plain(self, **options)


_in_memory.__wrapped__ = _plain  # type: ignore[attr-defined]  # its arguments are asked for
Server.__init__ = _in_memory  # type: ignore[method-assign]
