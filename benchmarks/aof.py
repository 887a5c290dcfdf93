"""What files cost: XADD under each fsync policy, loading AOF and RDB, and how long a rewrite holds clients up.

    .venv/bin/python benchmarks/aof.py                   a million entries, about two minutes
    .venv/bin/python benchmarks/aof.py --quick           a hundred thousand

Rillet and redis-server in one run; XADD on one core, the load on another. The pause is the longest that a PING had to
wait while a rewrite was under way (the median of three rewrites); the load of a file is timed from the start of the
process to its first PONG, less that of a start without data (that of dump.rdb: as the log reports it).

Files with reads and acknowledgements are written by redis-server and loaded by each program in turn, Redis 8.10 too if
it is there: processor time in user mode, the least of five starts less the least of those without data.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import MODES, benchmark
from servers import LABELS, LOAD_CORE, Connection, Server, binary, encode, machine, pin
from workloads import FIELDS, entry_id
from workloads import entries as xadds

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS: Final = ("rillet", "redis-server")
_AOF: Final = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
_ADD: Final = benchmark("XADD", "x", "*", *FIELDS, before=(("DEL", "x"),))
# How many entries a read takes, and how many of them an XACK; 0: none is acknowledged. The last are read as they come.
_READS: Final = {
    "XADD": (0, 0, False),
    "XADD, reads of 10": (10, 0, False),
    "XADD, reads of 10, XACK of each": (10, 1, False),
    "XADD, reads of 10, XACK of all": (10, 10, False),
    "XADD, reads of 1, XACK of each": (1, 1, False),
    "XADD, reads of 100, XACK of each": (100, 1, False),
    "in turn: XADD, read of 1, XACK": (1, 1, True),
}
_STARTS: Final = 5
_LOADED: Final = re.compile(r"DB loaded from disk: ([0-9.]+) seconds")


def main() -> int:
    """Print four tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="100,000 entries, shorter rounds")
    parser.add_argument("--entries", type=int, help="entries that are loaded and rewritten (1,000,000)")
    parser.add_argument("--reads", action="store_true", help="only the load of files with reads")
    options = parser.parse_args()
    entries = options.entries or (100_000 if options.quick else 1_000_000)
    pin(LOAD_CORE)
    print(f"{machine()}\n")
    if not options.reads:
        cost_of_policies(rounds=2 if options.quick else 3, seconds=0.3 if options.quick else 1.0)
        load_and_rewrite(entries)
    load_of_reads(entries)
    return 0


def cost_of_policies(rounds: int, seconds: float) -> None:
    """XADD without an AOF, and with each policy."""
    print("| XADD | load | Rillet req/s | Redis req/s | ratio | Rillet CPU µs | Redis CPU µs | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for policy in ("without", "no", "everysec", "always"):
        flags = () if policy == "without" else (*_AOF, "--appendfsync", policy)
        with Server(_PROGRAMS[0], *flags) as ours, Server(_PROGRAMS[1], *flags) as theirs:
            for mode in MODES:
                samples = {
                    server.program: [_ADD(server, mode, seconds) for _ in range(rounds)]
                    for server in (ours, theirs)
                }
                rate = [
                    median([each.requests / each.seconds for each in samples[name]]) for name in _PROGRAMS
                ]
                cost = [
                    median([each.cpu / each.requests * 1e6 for each in samples[name]]) for name in _PROGRAMS
                ]
                print(
                    f"| {policy} | {mode.name} | {rate[0]:,.0f} | {rate[1]:,.0f} | {rate[0] / rate[1]:.2f} "
                    f"| {cost[0]:.2f} | {cost[1]:.2f} | {cost[1] / cost[0]:.2f} |",
                    flush=True,
                )


def load_and_rewrite(entries: int) -> None:
    """Rewrites in both forms with their pauses, and the load of each kind of file."""
    print(f"\n| {entries:,} entries | Rillet | Redis | ratio |")
    print("| --- | ---: | ---: | ---: |")
    figures: dict[str, list[float]] = {}
    for program in _PROGRAMS:
        for name, value in _measure(program, entries).items():
            figures.setdefault(name, []).append(value)
    for name, (ours, theirs) in figures.items():
        print(f"| {name} | {ours:,.2f} | {theirs:,.2f} | {ours / max(theirs, 1e-9):.2f} |")


def _measure(program: str, entries: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with Server(program, *_AOF) as server:
        empty = server.restart()
        _fill(server, entries)
        for form, preamble in (("", ""), ("commands", "no"), ("RDB", "yes")):
            if form:
                server.control.call("CONFIG", "SET", "aof-use-rdb-preamble", preamble)
                runs = [_rewrite(server) for _ in range(3)]
                found[f"rewrite as {form}, s"] = median([seconds for seconds, _ in runs])
                found[f"longest pause of a rewrite as {form}, ms"] = (
                    median([pause for _, pause in runs]) * 1000
                )
            size = sum(
                file.stat().st_size
                for file in server.folder.glob("appendonlydir/*")
                if file.suffix != ".manifest"
            )
            seconds = max(server.restart() - empty, 1e-3)
            assert server.control.call("XLEN", "s") == entries
            kind = f"base of {form}" if form else "incr file"
            found[f"load of a {kind}, MB/s"] = size / seconds / 1e6
            found[f"load of a {kind}, entries/s"] = entries / seconds
    return {**found, **_measure_dump(program, entries)}


def _measure_dump(program: str, entries: int) -> dict[str, float]:
    """SAVE, and the load of what it wrote, timed by the servers themselves: for redis-server it is milliseconds."""
    with Server(program, "--rdbcompression", "no") as server:
        _fill(server, entries)
        begun = time.perf_counter()
        server.control.call("SAVE")
        saved = time.perf_counter() - begun
        size = (server.folder / "dump.rdb").stat().st_size
        server.restart()
        assert server.control.call("XLEN", "s") == entries
        seconds = max(float(_LOADED.findall(server.log.read_text())[-1]), 1e-3)
        return {
            "SAVE, s": saved,
            "load of dump.rdb, MB/s": size / seconds / 1e6,
            "load of dump.rdb, entries/s": entries / seconds,
        }


def load_of_reads(entries: int) -> None:
    """The load of files in which entries are read and acknowledged."""
    programs = [name for name in (*_PROGRAMS, "redis-8.10") if binary(name)]
    print(f"\n| load of {entries:,} entries, user s | {' | '.join(LABELS[name] for name in programs)} |")
    print(f"| --- |{' ---: |' * len(programs)}")
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(name, *_AOF)) for name in programs]
        for server in servers:
            server.unpin()
        empty = _least_user_seconds(servers)
        for name, (count, acknowledged, in_turn) in _READS.items():
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "appendonlydir")
                _write(file, entries, count, acknowledged, in_turn=in_turn)
                for server in servers:
                    server.stop()
                    shutil.copytree(file, server.folder / file.name, dirs_exist_ok=True)
                    server.start()
            used = _least_user_seconds(servers)
            assert all(server.control.call("XLEN", "s") == entries for server in servers)
            print(
                f"| {name} | {' | '.join(f'{a - b:.2f}' for a, b in zip(used, empty, strict=True))} |",
                flush=True,
            )


def _write(file: Path, entries: int, count: int, acknowledged: int, *, in_turn: bool) -> None:
    with Server("redis-server", *_AOF, "--appendfsync", "no") as writer:
        writer.control.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        if in_turn:
            added, read = xadds(entries), _reads(entries, count, acknowledged)
            writer.control.feed((each for add in added for each in (add, *islice(read, 2))), 999)
        else:
            _fill(writer, entries)
            if count:
                writer.control.feed(_reads(entries, count, acknowledged), 1000)
        writer.stop()
        shutil.copytree(writer.folder / file.name, file)
        writer.start()


def _reads(entries: int, count: int, acknowledged: int) -> Iterator[bytes]:
    read = encode("XREADGROUP", "GROUP", "g", "c", "COUNT", count, "STREAMS", "s", ">")
    for begin in range(0, entries, count):
        yield read
        for at in range(begin, begin + count, acknowledged or count):
            if acknowledged:
                yield encode("XACK", "s", "g", *map(entry_id, range(at, at + acknowledged)))


def _least_user_seconds(servers: list[Server]) -> list[float]:
    """What each has used when its data is there, in one of several starts in turn."""
    rounds: list[list[float]] = []
    for _ in range(_STARTS):
        rounds.append([])
        for server in servers:
            server.restart()
            rounds[-1].append(server.user_seconds())
    return [min(of_one) for of_one in zip(*rounds, strict=True)]


def _fill(server: Server, entries: int) -> None:
    server.unpin()
    server.control.feed(xadds(entries), 1000)


def _rewrite(server: Server) -> tuple[float, float]:
    """How long one takes, and the longest wait of a PING during it; both in seconds."""
    probe = Connection(server.port)
    longest = 0.0
    begun = looked = time.perf_counter()
    server.control.socket.sendall(encode("BGREWRITEAOF"))
    while True:
        before = time.perf_counter()
        probe.call("PING")
        after = time.perf_counter()
        longest = max(longest, after - before)
        if after - looked > 0.02:
            looked = after
            if b"aof_rewrite_in_progress:0" in bytes(probe.call("INFO", "persistence")):  # type: ignore[call-overload]
                break
        time.sleep(0.0005)
    server.control.pipeline([b""])  # the reply to BGREWRITEAOF
    probe.close()
    return time.perf_counter() - begun, longest


if __name__ == "__main__":
    sys.exit(main())
