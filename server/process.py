"""A server that has its process for itself."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import TYPE_CHECKING

from .server import Server

if TYPE_CHECKING:
    from .config.config import Config


def server_of_this_process(config: Config) -> Server:
    """Return a server, not yet running, that handles signals and may fork; the interpreter is tuned for it."""
    _tune()
    server = Server(config, handles_signals=True)
    gc.collect()
    gc.freeze()
    return server


def _tune() -> None:
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
