"""What a proxy costs: redis-py's GET, a pipeline of 100 and a GET of raw bytes, through `rillet proxy` and without.

    .venv/bin/python benchmarks/proxied.py                           in front of Redis 8.10.2: `make bench-proxy`
    .venv/bin/python benchmarks/proxied.py --server valkey-server    in front of another one

Direct and proxied rounds alternate; each figure is the least of all rounds, as other work on the machine only adds. The
proxy's processor time includes what the kernel does for its two sockets.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from results import put_into
from servers import Server, cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GETS, PIPELINES = 500, 20


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


def get(port: int) -> Callable[[], int]:
    """Return a round of GETs by redis-py."""
    client = redis.Redis(port=port)

    def run() -> int:
        for _ in range(GETS):
            client.get("k")
        return GETS

    return run


def pipeline(port: int) -> Callable[[], int]:
    """Return a round of pipelines of 100 GETs by redis-py."""
    client = redis.Redis(port=port)

    def run() -> int:
        for _ in range(PIPELINES):
            pipe = client.pipeline(transaction=False)
            for _ in range(100):
                pipe.get("k")
            pipe.execute()
        return PIPELINES

    return run


def raw(port: int) -> Callable[[], int]:
    """Return a round of GETs that costs the client next to nothing."""
    one = socket.create_connection(("127.0.0.1", port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run() -> int:
        for _ in range(GETS):
            one.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
            one.recv(100)
        return GETS

    return run


ROWS = {"GET of redis-py": get, "pipeline of 100 GETs of redis-py": pipeline, "GET of raw bytes": raw}


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="redis-8.10")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    lines = [
        "| | direct | through a proxy | ratio | the proxy's processor time |",
        "| --- | --- | --- | --- | --- |",
    ]
    with Server(options.server) as server, proxying(server.port) as (pid, proxied):
        redis.Redis(port=server.port).set("k", "v" * 10)
        for name, make in ROWS.items():
            runs = make(server.port), make(proxied)
            least = [float("inf")] * 3
            for _ in range(options.rounds):
                for at, run in enumerate(runs):
                    cpu, begun = cpu_seconds(pid), time.perf_counter()
                    count = run()
                    least[at] = min(least[at], (time.perf_counter() - begun) / count * 1e6)
                    if at:
                        least[2] = min(least[2], (cpu_seconds(pid) - cpu) / count * 1e6)
            direct, through, work = least
            lines.append(
                f"| {name} | {direct:.0f} µs | {through:.0f} µs | {through / direct:.2f} | {work:.0f} µs |"
            )
    table = "\n".join(lines) + "\n"
    print(table)
    if options.markdown is not None:
        text = options.markdown.read_text(encoding="utf-8")
        options.markdown.write_text(put_into(text, "proxied", table), encoding="utf-8")


if __name__ == "__main__":
    main()
