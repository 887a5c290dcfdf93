"""The command line: ``rillet [redis.conf] [--directive value …]``, in redis-server's own syntax."""

from __future__ import annotations

import ctypes
import gc
import sys

from . import __version__

_USAGE = """\
Usage: rillet [/path/to/redis.conf] [options] [-]
       rillet - (read config from stdin)
       rillet -v or --version
       rillet -h or --help

Options are directives of redis.conf:
       rillet --port 7000 --appendonly yes --dir /var/lib/rillet
       rillet /etc/redis.conf --loglevel verbose
       rillet --port 0            (a free port, told in the log)
"""


def main() -> int:
    """Run a server in this process until it is stopped; the exit status is 0 after an orderly end."""
    from .server.config_file import ConfigFileError, asks_for, parse_arguments

    asked = asks_for(sys.argv[1:])
    if asked == "version":
        print(f"Rillet server v={__version__}")  # noqa: T201 - what was asked for
        return 0
    if asked == "help":
        print(_USAGE, end="")  # noqa: T201 - what was asked for
        return 0
    try:
        config = parse_arguments(sys.argv[1:])
    except ConfigFileError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    _tune_process()
    from .server.app import Server

    server = Server(config, handles_signals=sys.platform != "win32")
    gc.collect()
    gc.freeze()
    return server.run()


def _tune_process() -> None:
    """Fewer collections, and no page faults for each big reply (DESIGN.md 2)."""
    gc.set_threshold(100_000, 50, 1000)
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(parameter, 256 << 20)


if __name__ == "__main__":
    sys.exit(main())
