"""Counters of INFO stats, commandstats and errorstats."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from itertools import chain
from operator import attrgetter
from typing import Final

from ...commands.runtime.client import Client
from .command_entry import CommandEntry

# The counts of each client, by attribute.
_COUNTS: Final = {
    name: attrgetter(name) for name in ("total_commands", "net_in", "net_out", "reads", "writes")
}

_DISABLED: Final = b"ERRORSTATS_DISABLED"  # the only code once there are too many error codes
_WINDOW_MS: Final = 1500  # the window of the instantaneous figures
# A sample visits each client, for up to 0.4 µs: ten times a second, ten thousand clients would take 3 % of a processor.
_MS_A_CLIENT: Final = 0.4  # milliseconds between two samples, for each client


class Stats:
    """The counters that INFO shows, since the start or CONFIG RESETSTAT.

    Each client counts its own activity. The sums are computed on request, so that each event updates one counter only.

    Args:
        found: the command entries used so far, by name.
        controls: the control connections, which no list shows.
    """

    def __init__(
        self, found: Mapping[str, CommandEntry], clients: Mapping[int, Client], controls: Collection[Client]
    ) -> None:
        self._found = found
        self._clients = clients
        self._controls = controls
        self.errors: dict[bytes, int] = {}
        self.without_subcommand: Counter[str] = Counter()  # refusals by container
        self.denied = {b"auth": 0, b"command": 0, b"key": 0, b"channel": 0}  # by ACL, since the start
        self._samples: deque[tuple[int, int, int, int, int]] = deque(maxlen=16)
        self.peak_memory = 0  # since the start
        self.peak_memory_time = 0  # seconds since the epoch
        self.reset()
        self.busy_before = 0.0  # processor seconds of the server's thread before the last reset

    def reset(self) -> None:
        """CONFIG RESETSTAT: reset everything to zero but the peak of memory and the refusals by ACL, as in Redis."""
        self.busy_before = time.thread_time()
        self.connections_received = 0
        self.connections_rejected = 0
        self.total_errors = 0
        self.unexpected_errors = 0
        self.peak_clients = 0
        self.evicted_keys = 0
        self.evicted_clients = 0
        self.query_buffer_disconnections = 0
        self.output_buffer_disconnections = 0
        self.exceeded_milliseconds = 0  # over maxmemory, without the current excess
        # The counts of disconnected clients; connected clients keep their own.
        self._past = dict.fromkeys(_COUNTS, 0)
        for client in chain(self._clients.values(), self._controls):
            for name, count in _COUNTS.items():
                self._past[name] -= count(client)
        self.errors.clear()
        self.without_subcommand.clear()
        self._samples.clear()
        for entry in self._found.values():
            if entry.calls or entry.rejected or entry.failed:
                entry.reset()

    def keep(self, client: Client) -> None:
        """Add the counts of a disconnected client to the sums."""
        for name, count in _COUNTS.items():
            self._past[name] += count(client)

    def _connected(self, name: str) -> int:
        return sum(map(_COUNTS[name], chain(self._clients.values(), self._controls)))

    def _total(self, name: str) -> int:
        return self._past[name] + self._connected(name)

    @property
    def commands_processed(self) -> int:
        """Commands run by clients and by scripts."""
        return self._total("total_commands")

    @property
    def net_input(self) -> int:
        """Bytes received from clients and from a master."""
        return self._total("net_in")

    @property
    def net_output(self) -> int:
        """Bytes of replies and push messages."""
        return self._total("net_out")

    @property
    def reads_processed(self) -> int:
        """How many reads of clients' sockets returned input."""
        return self._total("reads")

    @property
    def writes_processed(self) -> int:
        """How many times replies or push messages were sent; all replies of one batch count once."""
        return self._total("writes")

    def sums(self) -> tuple[int, int, int, int]:
        """Return the commands, the bytes of input and of output, and the reads; one pass takes a third of the time of four."""
        past = self._past
        commands, net_in, net_out, reads = (
            past["total_commands"], past["net_in"], past["net_out"], past["reads"],
        )  # fmt: skip
        for client in chain(self._clients.values(), self._controls):
            commands += client.total_commands
            net_in += client.net_in
            net_out += client.net_out
            reads += client.reads
        return commands, net_in, net_out, reads

    def note_memory(self, used: int, unix_seconds: int) -> int:
        """Update the peak of used memory (bytes) and its time; return the peak."""
        if used > self.peak_memory:
            self.peak_memory, self.peak_memory_time = used, unix_seconds
        return self.peak_memory

    def count_error(self, text: bytes) -> None:
        """Count an error reply by its code; a text of one word counts as ERR.

        As in Redis, the 129th code disables counting by code until CONFIG RESETSTAT, because scripts choose their codes.
        """
        self.total_errors += 1
        code, blank, _ = text.partition(b" ")
        if not blank:
            code = b"ERR"
        if _DISABLED in self.errors:
            return
        if code in self.errors or len(self.errors) < 128:
            self.errors[code] = self.errors.get(code, 0) + 1
        else:
            self.errors = {_DISABLED: 1}

    def sample(self, monotonic_ms: int) -> None:
        """Take a sample for the instantaneous figures: about ten times a second, less often with many clients."""
        samples = self._samples
        if samples and monotonic_ms - samples[-1][0] < len(self._clients) * _MS_A_CLIENT:
            return
        samples.append((monotonic_ms, *self.sums()))
        while len(samples) > 2 and samples[1][0] <= monotonic_ms - _WINDOW_MS:
            samples.popleft()

    def reads_per_second(self) -> int:
        """Return how many reads of client input there were per second, over the last samples."""
        if len(self._samples) < 2:
            return 0
        first, last = self._samples[0], self._samples[-1]
        return int((last[4] - first[4]) * 1000 / max(last[0] - first[0], 1))

    def per_second(self) -> tuple[int, float, float]:
        """Return commands, input bytes and output bytes per second over the last samples (INFO instantaneous_*)."""
        if len(self._samples) < 2:
            return 0, 0.0, 0.0
        first, last = self._samples[0], self._samples[-1]
        seconds = max(last[0] - first[0], 1) / 1000
        return (
            int((last[1] - first[1]) / seconds),
            (last[2] - first[2]) / seconds,
            (last[3] - first[3]) / seconds,
        )
