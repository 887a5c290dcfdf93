"""A consumer of a group: its name, its seen-time and active-time, and how many entries it owns.

Its callers decide when the times change: XREADGROUP, and ``claim`` in ``claiming``.
"""

from __future__ import annotations

from typing import Final

NEVER: Final = -1  # the active-time of a consumer that has received nothing


class Consumer:
    """A consumer of a group."""

    __slots__ = ("active_ms", "name", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> None:
        self.name = name  # b"" for the owner of entries without an owner
        self.seen_ms = seen_ms  # the last time that a command named it, in milliseconds
        self.active_ms = active_ms  # the last time that it received entries, ``NEVER`` if it never did
        self.pending = 0  # the number of entries it owns; the PEL counts them

    def see(self, now: int) -> None:
        """Set the seen-time: a command has named this consumer at ``now`` (milliseconds)."""
        self.seen_ms = now

    def receive(self, now: int) -> None:
        """Set the active-time: this consumer has received entries at ``now`` (milliseconds)."""
        self.active_ms = now
