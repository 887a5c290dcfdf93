"""The sizes and thresholds by which a server divides its work; no reply shows them, but for ``entry_bytes``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ServerTuning:
    """The sizes and thresholds of one server.

    The defaults are measured, or Redis' own; tests choose tiny ones, so that little data reaches every case.

    Attributes:
        slice_commands: commands between two readings of the clock.
        bit_bytes: bytes of strings that are combined or searched at a time: what the processor's cache holds.
        entry_bytes: the most bytes of all fields and values of an entry, as in Redis.
        few_clients: clients that may be connected and be sent each reply at once, where there is no append-only file.
        waits: waiting clients of WAIT; departed ones are forgotten together.
    """

    slice_commands: int = 128
    bit_bytes: int = 1 << 16
    entry_bytes: int = 1 << 30
    few_clients: int = 6
    waits: int = 64
