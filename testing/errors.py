"""Errors of ``rillet.testing``."""

from __future__ import annotations


class StartError(RuntimeError):
    """A server did not start, whatever the reason; the text says why, with the server's log."""
