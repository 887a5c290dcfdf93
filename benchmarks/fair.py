"""How long one client waits while another sends without pause: the longest wait of a PING, and the p99.9.

    .venv/bin/python benchmarks/fair.py                 every load for 6 seconds, with and without reading the replies
    .venv/bin/python benchmarks/fair.py --quick         for 1.5 seconds
    .venv/bin/python benchmarks/fair.py set xadd        only loads whose names contain one of the words
    .venv/bin/python benchmarks/fair.py --plain         without TLS, for servers that are built without it

One process sends, over a connection of its own, as fast as the server takes it. Another one sends a PING every millisecond
over plain TCP (`latency.py`). *Work* is the most processor time that the server used while one PING waited: a long wait
with little work is the machine's doing. *Turn* is the processor time of the longest turn of Rillet's loop (`loop_time.py`), and
behind it stand how many commands ran in it, and the longest piece of work in it: unlike the waits, that does not depend
on what else the machine does.
`BENCH_REDIS_SERVER` names another redis-server, for one that is newer.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import select
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latency import Probe, Waits
from servers import (
    LABELS,
    LOAD_CORE,
    Server,
    encode,
    machine,
    pin,
    require,
    versions,
)
from workloads import FIELDS, entries

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_MOST: Final = 50.0
_CHUNK: Final = 1 << 18
_IMPORTED: Final = 500_000
_BIG: Final = 50 << 20
_WATCHED: Final = Path(__file__).with_name("loop_time.py")


@dataclass(frozen=True)
class Load:
    """What the greedy client sends: a request again and again, or something as a whole."""

    name: str
    request: bytes = b""
    whole: Callable[[], bytes] | None = None
    prepare: Callable[[Server], object] = lambda _: None
    modes: tuple[tuple[bool, bool], ...] = ((True, False), (False, False), (True, True), (False, True))
    """(whether it reads the replies, whether it speaks TLS)"""


def _import() -> bytes:
    return b"".join(encode("SET", f"key:{at}", f"value:{at}") for at in range(_IMPORTED))


def _big_value(server: Server) -> None:
    server.control.call("SET", "big", b"x" * _BIG)


LOADS: Final = (
    Load("inline PING", b"PING\r\n"),
    Load("PING", encode("PING")),
    Load("SET", encode("SET", "key", "value")),
    Load("XADD", encode("XADD", "s", "MAXLEN", "~", "100000", "*", *FIELDS)),
    Load(
        "XRANGE COUNT 100",
        encode("XRANGE", "s", "-", "+", "COUNT", "100"),
        prepare=lambda server: server.control.feed(entries(1000)),
    ),
    Load(f"import of {_IMPORTED:,} SETs", whole=_import, modes=((True, False), (True, True))),
    Load(
        "20 GETs of 50 MB",
        whole=lambda: encode("GET", "big") * 20,
        prepare=_big_value,
        modes=((True, False), (False, False), (True, True), (False, True)),
    ),
)


def _connect(port: int, *, secure: bool) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not secure:
        return plain
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # our own server, on the loopback
    return context.wrap_socket(plain)


def _greedy(load: Load, port: int, seconds: float, *, reads: bool, secure: bool) -> None:
    """Send without pause until the time is over; or once, until every reply is there."""
    pin(LOAD_CORE)
    sock = _connect(port, secure=secure)
    sock.setblocking(False)
    if load.whole is not None:
        data, again = load.whole() + encode("ECHO", "the last one"), False
    else:
        data, again = load.request * (_CHUNK // len(load.request)), True
    until = time.monotonic() + (seconds if again or not reads else 120)
    at = 0
    tail = b""
    view = memoryview(data)
    busy = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
    while time.monotonic() < until:
        moved = False
        if at < len(data):
            with contextlib.suppress(*busy):
                at += sock.send(view[at : at + _CHUNK])
                moved = True
                if again and at == len(data):
                    at = 0
        if reads:
            with contextlib.suppress(*busy):
                received = sock.recv(1 << 20)
                moved = True
                tail = (tail + received)[-20:]
                if not again and b"the last one" in tail:
                    break
        if not moved:
            select.select([sock] if reads else [], [sock] if at < len(data) else [], [], 0.05)
    sock.close()


@dataclass(frozen=True)
class Found:
    """What was measured: the waits, commands a second, megabytes in use at the end, and Rillet's longest turn."""

    waits: Waits
    rate: float
    resident: float
    turn: str


def measure(load: Load, program: str, seconds: float, *, reads: bool, secure: bool) -> Found:
    """One load on a server of its own."""
    watched = program == "rillet"
    with Server(program, wrapper=_WATCHED if watched else None, secure=secure) as server:
        load.prepare(server)
        probe = Probe(server)
        if watched:
            server.control.call("LOOPTIME")
        before, begun = _processed(server), time.monotonic()
        process = multiprocessing.get_context("fork").Process(
            target=_greedy,
            args=(load, server.load_port, seconds),
            kwargs={"reads": reads, "secure": secure},
        )
        process.start()
        process.join()
        lasted = time.monotonic() - begun
        turn = ""
        if watched:
            lasted_longest, commands, piece, name = server.control.call("LOOPTIME")  # type: ignore[misc]
            turn = f"{lasted_longest / 1000:.1f} ({commands:,} commands; {name.decode()} {piece / 1000:.1f})"
        rate = (_processed(server) - before) / lasted
        return Found(probe.stop(), rate, server.resident_bytes() / (1 << 20), turn)


def _processed(server: Server) -> int:
    statistics = bytes(server.control.call("INFO", "stats"))  # type: ignore[call-overload]
    return int(statistics.split(b"total_commands_processed:")[1].split(b"\r\n")[0])


def main() -> int:
    """Print a table; return 1 with --strict if a client waits too long on Rillet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only loads whose names contain one of these")
    parser.add_argument("--quick", action="store_true", help="1.5 seconds for each")
    parser.add_argument("--seconds", type=float, help="how long each load lasts (6)")
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--programs", nargs="+", default=["rillet", "redis-server"], choices=list(LABELS))
    parser.add_argument(
        "--strict", action="store_true", help=f"exit with 1 if a PING waits for over {_AT_MOST:g} ms"
    )
    asked = parser.parse_args()
    seconds = asked.seconds or (1.5 if asked.quick else 6.0)
    require(*asked.programs)
    pin(LOAD_CORE)
    print(f"{time.strftime('%Y-%m-%d')}; {versions()}; {machine()}; {seconds:g} s for each; milliseconds.\n")
    columns = [
        f"{LABELS[name]} {what}"
        for name in asked.programs
        for what in ("longest", "p99.9", "work", "commands/s", "MB")
    ]
    print("| load | " + " | ".join(columns) + " | turn |")
    print("| --- |" + " ---: |" * len(columns) + " --- |")
    too_long = []
    for load in LOADS:
        if asked.names and not any(name.lower() in load.name.lower() for name in asked.names):
            continue
        for reads, secure in load.modes:
            if secure and asked.plain:
                continue
            name = f"{load.name}{', TLS' if secure else ''}{'' if reads else ', replies not read'}"
            cells, turn = [], ""
            for program in asked.programs:
                found = measure(load, program, seconds, reads=reads, secure=secure)
                waits = found.waits
                cells += [
                    f"{waits.longest:.1f}",
                    f"{waits.p999:.1f}",
                    f"{waits.work:.1f}",
                    f"{found.rate:,.0f}",
                    f"{found.resident:.0f}",
                ]
                if program == "rillet":
                    turn = found.turn
                    if waits.longest > _AT_MOST:
                        too_long.append(f"- {name}: {waits.longest:.0f} ms")
            print(f"| {name} | " + " | ".join([*cells, turn]) + " |", flush=True)
    print("\n".join([f"\nA PING waits for more than {_AT_MOST:g} ms on Rillet:", *(too_long or ["nowhere"])]))
    return 1 if too_long and asked.strict else 0


if __name__ == "__main__":
    sys.exit(main())
