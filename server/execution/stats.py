"""Counters of INFO stats, commandstats and errorstats."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .entry import Entry


class Stats:
    """What INFO counts since the start or CONFIG RESETSTAT; ``found`` has the entries that count, by command."""

    def __init__(self, found: Mapping[str, Entry]) -> None:
        self._found = found
        self.errors: dict[bytes, int] = {}
        self._samples: deque[tuple[int, int, int, int, int]] = deque(maxlen=16)
        self.reset()

    def reset(self) -> None:
        """CONFIG RESETSTAT: reset everything to zero."""
        self.connections_received = 0
        self.connections_rejected = 0
        self.net_input = 0
        self.net_output = 0
        self.reads_processed = 0
        self.writes_processed = 0
        self.total_errors = 0
        self.unexpected_errors = 0
        self.denied = {b"auth": 0, b"command": 0, b"key": 0, b"channel": 0}  # by ACL
        self.peak_clients = 0
        self.commands_processed = 0
        self.peak_memory = 0
        self.peak_memory_time = 0  # seconds since the epoch
        self.evicted_keys = 0
        self.evicted_clients = 0
        self.exceeded_milliseconds = 0  # over maxmemory, without the present excess
        self.errors.clear()
        self._samples.clear()
        for entry in self._found.values():
            if entry.calls or entry.rejected or entry.failed:
                entry.reset()

    def note_memory(self, used: int, unix_seconds: int) -> int:
        """Update the peak of used memory, and return it."""
        if used > self.peak_memory:
            self.peak_memory, self.peak_memory_time = used, unix_seconds
        return self.peak_memory

    def count_error(self, text: bytes) -> None:
        """Count an error reply by its code, ERR where it is one word; Redis limits the number of codes, too."""
        self.total_errors += 1
        code, blank, _ = text.partition(b" ")
        if not blank:
            code = b"ERR"
        if code in self.errors or len(self.errors) < 128:
            self.errors[code] = self.errors.get(code, 0) + 1
        else:
            self.errors[b"ERRORSTATS_OVERFLOW"] = self.errors.get(b"ERRORSTATS_OVERFLOW", 0) + 1

    def sample(self, monotonic_ms: int) -> None:
        """Take a sample for the instantaneous figures; called about ten times a second."""
        self._samples.append(
            (monotonic_ms, self.commands_processed, self.net_input, self.net_output, self.reads_processed)
        )

    def reads_per_second(self) -> int:
        """Reads of clients' input per second over the last samples."""
        if len(self._samples) < 2:
            return 0
        first, last = self._samples[0], self._samples[-1]
        return int((last[4] - first[4]) * 1000 / max(last[0] - first[0], 1))

    def per_second(self) -> tuple[int, float, float]:
        """Commands, input and output bytes per second over the last samples (INFO instantaneous_*)."""
        if len(self._samples) < 2:
            return 0, 0.0, 0.0
        first, last = self._samples[0], self._samples[-1]
        seconds = max(last[0] - first[0], 1) / 1000
        return (
            int((last[1] - first[1]) / seconds),
            (last[2] - first[2]) / seconds,
            (last[3] - first[3]) / seconds,
        )
