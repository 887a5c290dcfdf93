"""The sizes and thresholds by which a server divides its work; only ``entry_bytes`` shows in replies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServerTuning:
    """The sizes and thresholds of one server.

    The defaults are measured, or Redis' own; tests choose tiny ones, so that little data reaches every case.
    """

    slice_commands: int = 128  # commands between two readings of the clock
    # Bytes of strings to combine or search at a time; they fit into the processor's cache.
    bit_bytes: int = 1 << 16
    entry_bytes: int = 1 << 30  # the most bytes of all fields and values of an entry, as in Redis
    few_clients: int = 6  # with at most so many clients and no append-only file, each reply is sent at once
    waits: int = 64  # WAITs to record before those of departed clients are forgotten, all together
