"""What a request costs within the server's process, without sockets: from its bytes to those of its reply.

    .venv/bin/python benchmarks/in_process.py                    microseconds a request: `make bench-inside`
    .venv/bin/python benchmarks/in_process.py xclaim --profile   and where they go, by cProfile

The figure is the least processor time of many chunks of fifty requests, so that other work on the machine hardly shows: a
change of 0.1 µs is seen where requests a second vary by a fifth. *With an AOF* is with `appendfsync everysec`, its writes
to the file included: fifty clients send a request each, and one write follows. Beside it stand sixteen requests at a time.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import tempfile
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, Final, cast

from loads import ONE, Benchmark, Own
from servers import encode, matches
from support.alone import Turns, Wire
from tables import Table, options, publish
from workloads import WORKLOADS, Workload

from rillet.server.config.config import Config
from rillet.server.net.connection import Connection
from rillet.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loads import Mode

_CLIENTS: Final = 50
_PIPELINE: Final = 16
_REQUESTS: Final = 400


class _Nowhere(Wire):
    """A transport that drops what is written."""

    def write(self, data: bytes) -> None:
        """Drop it."""


class Inside:
    """A server whose clients are called instead of sent to. As its own ``control`` it can be prepared for a workload."""

    def __init__(self, *, aof: bool) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="bench-inside-")
        config = Config()
        config.dir = self.folder.name
        server = Server(config, quiet=True)
        self.turns = Turns()
        server.loop = cast("Any", self.turns)
        if aof:
            server.persistence.open()
        self.control = self
        self.receivers: list[Callable[[bytes], None]] = []
        for _ in range(_CLIENTS):
            connection = Connection(server, unix_socket=True)
            transport: Any = _Nowhere()
            connection.connection_made(transport)
            self.receivers.append(connection.data_received)

    def call(self, *words: object) -> None:
        """Let one client send a command."""
        self.feed([encode(*words)])

    def feed(self, requests: Iterable[bytes], _at_once: int = 1) -> None:
        """Let one client send requests, each alone."""
        for request in requests:
            self.receivers[0](request)
            while self.turns.run():
                pass


_VARARGS: Final = """
-- As a script of some length: with functions, varargs and comments
local function all(prefix, ...)
  local found = {}
  for i = 1, select('#', ...) do found[i] = prefix .. tostring((select(i, ...))) end -- in their order
  return found
end
return all(ARGV[1], unpack(KEYS))
"""


def _new_scripts(_: Mode) -> list[bytes]:
    return [encode("EVAL", f"{_VARARGS}-- {turn}", "1", "key", "p") for turn in range(_REQUESTS)]


_GETS: Final = "for i = 1, 10 do pcall(redis.call, 'GET', KEYS[1]) end return 1"
_SCRIPTS: Final = (
    Workload("EVAL of a GET", Benchmark("EVAL", "return redis.call('GET', KEYS[1])", "1", "key")),
    Workload("EVAL of ten GETs, pcall each", Benchmark("EVAL", _GETS, "1", "key")),
    Workload(
        "EVAL of a new script", Own(_new_scripts, lambda server: server.control.call("SCRIPT", "FLUSH"))
    ),
)


def measure(
    workload: Workload,
    rounds: int,
    *,
    aof: bool = False,
    together: int = 1,
    profile: cProfile.Profile | None = None,
) -> float:
    """Microseconds a request: the least of all chunks, less the luckiest two in a hundred."""
    server = Inside(aof=aof)
    inside: Any = server
    workload.prepare(inside)
    requests = workload.load.requests(ONE)[:_REQUESTS]
    batches = [b"".join(requests[at : at + together]) for at in range(0, len(requests), together)]
    chunk = max(_CLIENTS // together, 1)
    found: list[float] = []
    for turn in range(rounds + 1):
        workload.load.reset(inside)
        gc.collect()
        for start in range(0, len(batches) - chunk + 1, chunk):
            work = list(zip(server.receivers, batches[start : start + chunk], strict=False))
            if profile is not None and turn:
                profile.enable()
            begun = thread_time_ns()
            for receive, data in work:
                receive(data)
            while server.turns.run():
                pass
            if turn:  # the first round looks commands up and imports
                found.append((thread_time_ns() - begun) / len(work) / together)
            if profile is not None:
                profile.disable()
    server.folder.cleanup()
    return sorted(found)[len(found) // 50] / 1000


def _chosen(names: list[str]) -> list[Workload]:
    """By default what README.md sums up, and scripts; by name any workload that has no server of its own kind."""
    # What a workload has beside its load comes by a socket.
    alike = [each for each in WORKLOADS if not (each.flags or each.secure or " beside " in each.name)]
    workloads = [each for each in alike if names or each.everyday]
    return [each for each in (*workloads, *_SCRIPTS) if matches(each.name, names)]


def main() -> None:
    """Print a row for each workload."""
    parser = options(__doc__, "names", "--publish", rounds=40)
    parser.add_argument("--profile", action="store_true", help="print where the time goes as well")
    asked = parser.parse_args()
    table = Table("µs a request | alone | with an AOF | 16 at a time")
    for workload in _chosen(asked.names):
        found = [
            measure(workload, asked.rounds),
            measure(workload, asked.rounds, aof=True),
            measure(workload, asked.rounds, together=_PIPELINE),
        ]
        table.add(workload.name, *[f"{each:.2f}" for each in found])
        if asked.profile:
            profile = cProfile.Profile()
            measure(workload, asked.rounds, profile=profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    publish(asked, "docs/performance.md", "inside", table.text)


if __name__ == "__main__":
    main()
