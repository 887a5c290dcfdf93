"""LATENCY: spikes over latency-monitor-threshold, and the histogram of command times."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ..spec.command import command, container
from ..spec.usage import help_lines
from . import specs as syntax

if TYPE_CHECKING:
    from ..runtime.client import Client
    from ..runtime.context import ServerContext

_SAMPLES: Final = 160
_TIPS: Final = ("nondeterministic_output", "request_policy:all_nodes", "response_policy:special")
_FLAGS: Final = "admin noscript loading stale"


class Latency:
    """Spikes by event: at most 160 samples each of (unix seconds, milliseconds), one a second."""

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self.events: dict[str, deque[tuple[int, int]]] = {}
        self.worst: dict[str, int] = {}

    def add(self, event: str, milliseconds: int) -> None:
        """Remember a spike; within one second only the worst counts."""
        second = self._server.clock.now // 1000
        samples = self.events.setdefault(event, deque(maxlen=_SAMPLES))
        self.worst[event] = max(self.worst.get(event, 0), milliseconds)
        if samples and samples[-1][0] == second:
            samples[-1] = (second, max(samples[-1][1], milliseconds))
        else:
            samples.append((second, milliseconds))

    def reset(self, names: list[str]) -> int:
        """Forget the named events, or all; returns how many there were."""
        gone = [name for name in (names or list(self.events)) if name in self.events]
        for name in gone:
            del self.events[name]
            del self.worst[name]
        return len(gone)


container("LATENCY", since="2.8.13", group="server", summary="A container for latency diagnostics commands.")


# LATENCY LATEST
@command(
    "LATENCY|LATEST",
    arity=2,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Returns the latest latency samples of all events.",
    arguments=syntax.LATENCY_LATEST,
)
def latency_latest(client: Client, args: list[bytes]) -> bytes:
    """``[event, unix seconds, last milliseconds, worst milliseconds]`` per event."""
    del args
    latency = client.server.part(Latency)
    return replies.array(
        [
            replies.array(
                [
                    replies.bulk(name.encode()),
                    replies.integer(samples[-1][0]),
                    replies.integer(samples[-1][1]),
                    replies.integer(latency.worst[name]),
                ]
            )
            for name, samples in latency.events.items()
        ]
    )


# LATENCY HISTORY event
@command(
    "LATENCY|HISTORY",
    arity=3,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Returns the samples of an event over time.",
    arguments=syntax.LATENCY_HISTORY,
)
def latency_history(client: Client, args: list[bytes]) -> bytes:
    """``[unix seconds, milliseconds]`` per sample."""
    samples = client.server.part(Latency).events.get(args[2].decode("latin-1"), ())
    return replies.array(
        [replies.array([replies.integer(when), replies.integer(ms)]) for when, ms in samples]
    )


# LATENCY RESET [event [event ...]]
@command(
    "LATENCY|RESET",
    arity=-2,
    flags=_FLAGS,
    tips=("request_policy:all_nodes", "response_policy:agg_sum"),
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Forgets the samples of some or all events.",
    arguments=syntax.LATENCY_RESET,
)
def latency_reset(client: Client, args: list[bytes]) -> bytes:
    """How many events were forgotten."""
    return replies.integer(client.server.part(Latency).reset([word.decode("latin-1") for word in args[2:]]))


# LATENCY GRAPH event
@command(
    "LATENCY|GRAPH",
    arity=3,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Draws the samples of an event as text.",
    arguments=syntax.LATENCY_GRAPH,
)
def latency_graph(client: Client, args: list[bytes]) -> bytes:
    """One bar a sample."""
    name = args[2].decode("latin-1")
    samples = client.server.part(Latency).events.get(name)
    if not samples:
        raise ReplyError(b"ERR No samples available for event '%b'" % shown(args[2]))
    worst = max(ms for _, ms in samples) or 1
    lowest = min(ms for _, ms in samples)
    lines = [
        f"{name} - high {worst} ms, low {lowest} ms (all time high {client.server.part(Latency).worst[name]} ms)"
    ]
    lines += [f"{when} {'#' * max(1, ms * 40 // worst)} {ms} ms" for when, ms in samples]
    return replies.verbatim("\n".join(lines).encode() + b"\n", client.resp)


# LATENCY DOCTOR
@command(
    "LATENCY|DOCTOR",
    arity=2,
    flags=_FLAGS,
    tips=_TIPS,
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Tells in plain words what the samples show.",
    arguments=syntax.LATENCY_DOCTOR,
)
def latency_doctor(client: Client, args: list[bytes]) -> bytes:
    """A short report."""
    del args
    latency = client.server.part(Latency)
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


# LATENCY HISTOGRAM [command [command ...]]
@command(
    "LATENCY|HISTOGRAM",
    arity=-2,
    flags=_FLAGS,
    tips=_TIPS,
    since="7.0.0",
    group="server",
    complexity="O(N) where N is the number of commands with latency information being retrieved.",
    summary="Returns the cumulative distribution of command times.",
    arguments=syntax.LATENCY_HISTOGRAM,
)
def latency_histogram(client: Client, args: list[bytes]) -> bytes:
    """A map of command to ``calls`` and ``histogram_usec``, itself a map of upper bound to cumulative calls."""
    resp = client.resp
    entries = client.server.dispatcher.entries
    if len(args) > 2:
        wanted = [word.lower().decode("latin-1") for word in args[2:]]
        names = [full for name in wanted for full in entries if full == name or full.startswith(name + "|")]
    else:
        names = list(entries)
    pairs: list[tuple[bytes, bytes]] = []
    for name in dict.fromkeys(names):
        entry = entries[name]
        if not entry.calls:
            continue
        buckets: dict[int, int] = {}
        seen = 0
        for bits, calls in enumerate(entry.histogram):
            if calls:
                seen += calls
                buckets[1 << max(bits - 10, 0)] = seen
        inner = replies.map_header(len(buckets), resp) + b"".join(
            replies.integer(bound) + replies.integer(calls) for bound, calls in buckets.items()
        )
        value = replies.map_of([(b"calls", replies.integer(entry.calls)), (b"histogram_usec", inner)], resp)
        pairs.append((name.encode(), value))
    return replies.map_of(pairs, resp)


# LATENCY HELP
@command(
    "LATENCY|HELP",
    arity=2,
    flags="loading stale",
    since="2.8.13",
    group="server",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.LATENCY_HELP,
)
def latency_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("latency"))
