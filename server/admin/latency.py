"""LATENCY: spikes over latency-monitor-threshold, and the histogram of command times."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.spec.command import handles
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from . import specs

if TYPE_CHECKING:
    from ..server import Server

_SAMPLES: Final = 160


class Latency:
    """Latency spikes by event: for each at most 160 samples (unix seconds, milliseconds), one for each second."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.events: dict[str, deque[tuple[int, int]]] = {}
        self.worst: dict[str, int] = {}

    def add(self, event: str, milliseconds: int) -> None:
        """Record a spike of ``event`` that took so many milliseconds; of several within one second, keep only the worst."""
        second = self._server.clock.now // 1000
        samples = self.events.setdefault(event, deque(maxlen=_SAMPLES))
        self.worst[event] = max(self.worst.get(event, 0), milliseconds)
        if samples and samples[-1][0] == second:
            samples[-1] = (second, max(samples[-1][1], milliseconds))
        else:
            samples.append((second, milliseconds))

    def reset(self, names: list[str]) -> int:
        """Forget the samples of the named events, or of all if ``names`` is empty.

        Return the number of events.
        """
        gone = [name for name in (names or list(self.events)) if name in self.events]
        for name in gone:
            del self.events[name]
            del self.worst[name]
        return len(gone)


@handles(specs.LATENCY_LATEST)
def latency_latest(client: Client, _args: list[bytes]) -> bytes:
    """Reply with ``[event, unix seconds, last milliseconds, worst milliseconds]`` for each latency event."""
    latency = client.server.latency
    rows = [(name.encode(), *samples[-1], latency.worst[name]) for name, samples in latency.events.items()]
    return replies.plain(rows, client.resp)


@handles(specs.LATENCY_HISTORY)
def latency_history(client: Client, args: list[bytes]) -> bytes:
    """Reply with ``[unix seconds, milliseconds]`` for each sample of an event."""
    samples = client.server.latency.events.get(args[2].decode("latin-1"), ())
    return replies.plain(tuple(samples), client.resp)


@handles(specs.LATENCY_RESET)
def latency_reset(client: Client, args: list[bytes]) -> bytes:
    """Forget the samples of the named events, or of all without names; reply with the number of events."""
    return replies.integer(client.server.latency.reset([word.decode("latin-1") for word in args[2:]]))


@handles(specs.LATENCY_GRAPH)
def latency_graph(client: Client, args: list[bytes]) -> bytes:
    """Reply with a text that shows the samples of one event as bars."""
    name = args[2].decode("latin-1")
    samples = client.server.latency.events.get(name)
    if not samples:
        raise ReplyError(b"ERR No samples available for event '%b'" % shown(args[2]))
    worst = max(ms for _, ms in samples) or 1
    lowest = min(ms for _, ms in samples)
    lines = [
        f"{name} - high {worst} ms, low {lowest} ms (all time high {client.server.latency.worst[name]} ms)"
    ]
    lines += [f"{when} {'#' * max(1, ms * 40 // worst)} {ms} ms" for when, ms in samples]
    return replies.verbatim("\n".join(lines).encode() + b"\n", client.resp)


@handles(specs.LATENCY_DOCTOR)
def latency_doctor(client: Client, _args: list[bytes]) -> bytes:
    """Reply with a text: the number of spikes and the worst one for each event, or why there are none."""
    latency = client.server.latency
    if not client.server.config.latency_monitor_threshold:
        text = "Latency monitoring is off: set latency-monitor-threshold to a number of milliseconds.\n"
    elif not latency.events:
        text = "No latency spike was seen.\n"
    else:
        text = "".join(
            f"{name}: {len(samples)} spikes, worst {latency.worst[name]} ms.\n"
            for name, samples in latency.events.items()
        )
    return replies.verbatim(text.encode(), client.resp)


@handles(specs.LATENCY_HISTOGRAM)
def latency_histogram(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map of command to ``calls`` and ``histogram_usec``, which maps upper bounds to cumulative calls.

    The bounds are in microseconds, those of Redis' histogram: 1, 2, 4, 8, 16, 33, 66 …
    """
    resp = client.resp
    entries = dict(client.server.dispatcher.used())
    if len(args) > 2:
        named = client.server.dispatcher.own_name
        wanted = [
            (named(container) or "") + (bar + subcommand).lower().decode("latin-1")
            for container, bar, subcommand in (word.partition(b"|") for word in args[2:])
        ]
        names = [full for name in wanted for full in entries if full == name or full.startswith(name + "|")]
    else:
        names = list(entries)
    pairs: list[tuple[bytes, bytes]] = []
    for name in dict.fromkeys(names):
        entry = entries[name]
        buckets: dict[int, int] = {}
        seen = 0
        for bits, calls in enumerate(entry.histogram):
            if calls:
                seen += calls
                buckets[((1032 << max(bits - 10, 0)) - 1) // 1000] = seen
        if not seen:
            continue
        inner = replies.map_header(len(buckets), resp) + b"".join(
            replies.integer(bound) + replies.integer(calls) for bound, calls in buckets.items()
        )
        value = replies.map_of([(b"calls", replies.integer(seen)), (b"histogram_usec", inner)], resp)
        pairs.append((name.encode(), value))
    return replies.map_of(pairs, resp)


handles(specs.LATENCY_HELP, container="latency")(help_of)
