"""A server with a process of its own."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Final

from .config.config import Config
from .server import Server

# What a server imports when it first reads or writes a file, has a replica or mends a value. At that moment memory or file
# descriptors may have run out, and a forked child would import it for every save.
_IMPORTED_AT_ONCE: Final = (
    ".execution.failure_recovery", ".persistence.aof_replay", ".persistence.background_writer",
    ".replication.master_link", ".replication.snapshot_sender", "..storage.aof.history",
    "..storage.aof.rewrite", "..storage.aof.writer", "..storage.codecs.stream_commands",
    "..storage.rdb.half_changed_values", "sortedcontainers",
)  # fmt: skip


def server_of_this_process(config: Config, supervisor: str = "no") -> Server:
    """Create a server that handles signals and may fork, and tune the garbage collector; the server does not run yet.

    ``supervisor`` names the supervisor of the process; ``systemd`` is notified.
    """
    gc.disable()
    for module in _IMPORTED_AT_ONCE:
        import_module(module, __package__)
    server = Server(config, handles_signals=True)
    server.supervisor = supervisor
    # All objects so far stay, so no collection needs to visit them. There is no collection before: it would find some
    # kilobytes of garbage, and take a tenth of the start time.
    gc.freeze()
    _tune()
    return server


def say_how_to_look(server: Server) -> None:
    """Log the command that opens the console on this server, if the log goes to a terminal."""
    config = server.config
    if not sys.stdout.isatty() or server.log.path or not config.port or server.sentinel is not None:
        return
    from importlib.util import find_spec
    from shutil import which

    hosts = {host.lstrip("-") for host in config.bind}
    host = "127.0.0.1" if hosts & {"*", "0.0.0.0", "127.0.0.1"} else config.bind[0].lstrip("-")  # noqa: S104 - compared
    program = sys.argv[0] if sys.argv[0].endswith("/rillet") and which("rillet") != sys.argv[0] else "rillet"
    before = "" if find_spec("uvicorn") else f"{sys.executable} -m pip install 'rillet[console]' && "
    place = f"[{host}]" if ":" in host else host
    server.log.notice(
        f"See the streams in a browser: {before}{program} console redis://{place}:{config.port}"
    )


def _tune() -> None:
    """Configure the garbage collector so that collections stay short."""
    # Data forms no cycles, or freeing breaks them (storage/keyspace/lazyfree). So only young objects are collected: mostly
    # by the server's cron, and by this threshold if more of them come in a tenth of a second. The oldest generation would
    # grow to millions of objects, and a collection of it would take half a second.
    # A visit takes 0.07 to 0.1 us per object, so each object is visited only once. With 10,000 and 5 here, most are visited
    # twice: an XREADGROUP of ten then takes 27.0 instead of 24.8 us, one of a hundred 101 instead of 92. A collection still
    # has at most 60,000 objects.
    gc.set_threshold(30_000, 0, 1 << 30)
    gc.enable()
