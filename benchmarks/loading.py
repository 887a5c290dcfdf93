"""How fast files are loaded: append-only files of several lives, and dump.rdb.

    .venv/bin/python benchmarks/loading.py                   a million entries: `make bench-loading`
    .venv/bin/python benchmarks/loading.py --quick           a hundred thousand

Files are written by redis-server and loaded by each program in turn: processor time, the least of five
starts less the least of those without data.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from servers import LABELS, Server, alternate, binary, encode, matches, pin, where
from tables import Table, options, size
from workloads import entries as xadds
from workloads import entry_id

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS: Final = ("rillet", "redis-server", "redis-8.10")
_AOF: Final = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
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


def main() -> None:
    """Print the table."""
    asked = options(__doc__, "names", "--quick", "--entries").parse_args()
    count = size(asked)
    pin()
    programs = [name for name in _PROGRAMS if binary(name)]
    labels = " | ".join(LABELS[name] for name in programs)
    print(f"{where()}\n")
    table = Table(f"load of {count:,} entries, seconds of processor time | {labels}")
    for kind, flags in {"AOF": _AOF, "RDB": ("--rdbcompression", "no")}.items():
        with ExitStack() as stack:
            servers = [stack.enter_context(Server(name, *flags)) for name in programs]
            for server in servers:
                server.unpin()
            empty = _least_seconds(servers)
            for name, life in _READS.items():
                title = f"{kind}: {name}"
                if kind == "RDB" and any(life[1:]):
                    continue  # leaves what the others leave
                if not matches(title, asked.names):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    written = write_file(Path(folder), count, *life, kind=kind)
                    for server in servers:
                        server.stop()
                        copy = shutil.copytree if written.is_dir() else shutil.copy
                        shutil.rmtree(server.folder / written.name, ignore_errors=True)
                        copy(written, server.folder / written.name)
                        server.start()
                used = _least_seconds(servers)
                assert all(server.control.call("XLEN", "s") == count for server in servers)
                table.add(title, *[f"{a - b:.2f}" for a, b in zip(used, empty, strict=True)])


def write_file(
    folder: Path, entries: int, count: int, acknowledged: int, in_turn: bool, *, kind: str
) -> Path:
    """Have redis-server write a file of such a life into a folder; return `dump.rdb` or `appendonlydir`."""
    flags = (*_AOF, "--appendfsync", "no") if kind == "AOF" else ()
    with Server("redis-server", *flags) as writer:
        writer.unpin()
        writer.control.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        if in_turn:
            added, read = xadds(entries), _reads(entries, count, acknowledged)
            writer.control.feed((each for add in added for each in (add, *islice(read, 2))), 999)
        else:
            writer.control.feed(xadds(entries), 1000)
            if count:
                writer.control.feed(_reads(entries, count, acknowledged), 1000)
        if kind == "RDB":
            writer.control.call("SAVE")
            return Path(shutil.copy(writer.folder / "dump.rdb", folder / "dump.rdb"))
        writer.stop()
        shutil.copytree(writer.folder / "appendonlydir", folder / "appendonlydir")
        writer.start()
    return folder / "appendonlydir"


def _reads(entries: int, count: int, acknowledged: int) -> Iterator[bytes]:
    read = encode("XREADGROUP", "GROUP", "g", "c", "COUNT", count, "STREAMS", "s", ">")
    for begin in range(0, entries, count):
        yield read
        for at in range(begin, begin + count, acknowledged or count):
            if acknowledged:
                yield encode("XACK", "s", "g", *map(entry_id, range(at, at + acknowledged)))


def _least_seconds(servers: list[Server]) -> list[float]:
    """What each has used when its data is there, in one of several starts in turn."""
    ways = {server.program: partial(_load, server) for server in servers}
    return [min(each) for each in alternate(_STARTS, ways).values()]


def _load(server: Server) -> float:
    server.stop()
    server.start()
    return server.cpu_seconds()


if __name__ == "__main__":
    main()
