"""The sizes by which a server cuts long work into steps; only ``entry_bytes`` shows in replies."""

from __future__ import annotations


class ServerTuning:
    """The sizes and thresholds of one server.

    The defaults are measured, or Redis' own; tests choose tiny ones, so that little data reaches every case.
    """

    def __init__(
        self,
        slice_commands: int = 128,
        bit_bytes: int = 1 << 16,
        entry_bytes: int = 1 << 30,
        few_clients: int = 6,
        waits: int = 64,
    ) -> None:
        self.slice_commands = slice_commands  # commands between two readings of the clock
        # Bytes of strings to combine or search at a time; they fit into the processor's cache.
        self.bit_bytes = bit_bytes
        self.entry_bytes = entry_bytes  # the most bytes of all fields and values of an entry, as in Redis
        self.few_clients = (
            few_clients  # with at most so many clients and no append-only file, each reply is sent at once
        )
        self.waits = waits  # WAITs to record before those of departed clients are forgotten, all together
