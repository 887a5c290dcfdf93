"""What a proxy costs: redis-py's GET, a pipeline of 100 and a GET of raw bytes, through `rillet proxy` and without.

In front of Redis 8.10.2: `make bench-proxy`.
Direct and proxied rounds alternate; each figure is the least of all rounds, as other work on the machine only adds. The
proxy's processor time includes what the kernel does for its two sockets.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import redis
from servers import Connection, Server, alternate, cpu_seconds, encode
from tables import Table, options, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def proxying(port: int) -> Iterator[tuple[int, int]]:
    """Run a proxy; give its process ID and its port."""
    words = [sys.executable, "-m", "rillet", "proxy", f"redis://127.0.0.1:{port}", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        process.stdout.readline()
        try:
            yield process.pid, int(address.rpartition(":")[2])
        finally:
            process.terminate()


def get(port: int) -> Callable[[], object]:
    """Return a GET by redis-py."""
    client = redis.Redis(port=port)
    return lambda: client.get("k")


def pipeline(port: int) -> Callable[[], object]:
    """Return a pipeline of 100 GETs by redis-py."""
    client = redis.Redis(port=port)

    def run() -> None:
        pipe = client.pipeline(transaction=False)
        for _ in range(100):
            pipe.get("k")
        pipe.execute()

    return run


def raw(port: int) -> Callable[[], object]:
    """Return a GET that costs the client next to nothing."""
    sock, request = Connection(port).socket, encode("GET", "k")

    def run() -> None:
        sock.sendall(request)
        sock.recv(100)

    return run


# How to make the operation, and how many of them are a round.
ROWS = {
    "GET of redis-py": (get, 500),
    "pipeline of 100 GETs of redis-py": (pipeline, 20),
    "GET of raw bytes": (raw, 500),
}


def timed(run: Callable[[], object], count: int, pid: int) -> tuple[float, float]:
    """Return microseconds of an operation: by the clock, and of the proxy's processor."""
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count * 1e6, (cpu_seconds(pid) - cpu) / count * 1e6


def main() -> None:
    """Print the table, or put it into a page."""
    asked = options(__doc__, "--publish", rounds=40).parse_args()
    table = Table(" | direct | through a proxy | ratio | the proxy's processor time")
    with Server("redis-8.10") as server, proxying(server.port) as (pid, proxied):
        server.control.call("SET", "k", "v" * 10)
        for name, (make, count) in ROWS.items():
            ways = {
                "direct": partial(timed, make(server.port), count, pid),
                "through": partial(timed, make(proxied), count, pid),
            }
            rounds = alternate(asked.rounds, ways)
            direct, _ = map(min, zip(*rounds["direct"], strict=True))
            through, work = map(min, zip(*rounds["through"], strict=True))
            table.add(
                name, f"{direct:.0f} µs", f"{through:.0f} µs", f"{through / direct:.2f}", f"{work:.0f} µs"
            )
    publish(asked, "docs/testing/proxy.md", "proxied", table.text)


if __name__ == "__main__":
    main()
