"""The command line: ``rillet [redis.conf] [--directive value …]``, as redis-server's."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

from . import __version__

_USAGE = """\
Usage: rillet [/path/to/redis.conf] [options] [-]
       rillet - (read config from stdin)
       rillet -v or --version
       rillet -h or --help
       rillet check-aof [--fix] <file.manifest|file.aof>
       rillet check-rdb <dump.rdb>
       rillet pipeline <verb>     (Spark: --help lists the verbs)

Options are directives of redis.conf:
       rillet --port 7000 --appendonly yes --dir /var/lib/rillet
       rillet /etc/redis.conf --loglevel verbose
       rillet --port 0            (a free port, told in the log)
"""


def main() -> int:
    """Run a server in this process until it stops; return 0 after an orderly end."""
    from .server.config.file import ConfigFileError, asks_for, parse_arguments

    if sys.argv[1:2] == ["check-aof"]:
        return _check_aof(sys.argv[2:])
    if sys.argv[1:2] == ["check-rdb"]:
        return _check_rdb(sys.argv[2:])
    if sys.argv[1:2] == ["pipeline"]:
        from .pipeline.cli.main import main as pipeline

        return pipeline(sys.argv[2:])
    asked = asks_for(sys.argv[1:])
    if asked == "version":
        print(f"Rillet server v={__version__}")  # noqa: T201 - the requested output
        return 0
    if asked == "help":
        print(_USAGE, end="")  # noqa: T201 - the requested output
        return 0
    try:
        config = parse_arguments(sys.argv[1:])
    except ConfigFileError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    _tune_process()
    from .server.server import Server

    server = Server(config, handles_signals=sys.platform != "win32")
    gc.collect()
    gc.freeze()
    return server.run()


def _check_aof(words: list[str]) -> int:
    """Check append-only files; return 1 if one is not sound."""
    from .storage.aof.check import check_aof

    fixes = words[:1] == ["--fix"]
    if len(words) != 1 + fixes:
        print("Usage: rillet check-aof [--fix] <file.manifest|file.aof>")  # noqa: T201 - a command-line tool
        return 1
    return 0 if check_aof(Path(words[-1]), print, confirm=_confirm if fixes else None) else 1


def _check_rdb(words: list[str]) -> int:
    """Check an RDB file; return 1 if it is not sound."""
    from .server.clock import Clock
    from .storage.rdb.check import check_rdb

    if len(words) != 1:
        print("Usage: rillet check-rdb <dump.rdb>")  # noqa: T201 - a command-line tool
        return 1
    return 0 if check_rdb(Path(words[0]), print, now=Clock().now) else 1


def _confirm(question: str) -> bool:
    print(question)  # noqa: T201 - a command-line tool
    return input("Continue? [y/N]: ").lower().startswith("y")


def _tune_process() -> None:
    """Keep garbage collections short, and avoid page faults for each big reply."""
    # Data forms no cycles, or they are broken when it is freed (storage/keyspace/lazyfree). So only young objects are
    # collected, here and by the server's cron. The oldest generation would grow to millions of objects, and a
    # collection of it would take half a second.
    gc.set_threshold(10_000, 5, 1 << 30)
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(parameter, 256 << 20)


if __name__ == "__main__":
    sys.exit(main())
