"""How much memory a server, its data and its process take."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...storage import system
from ...storage.keyspace.memory import memory_of_database

if TYPE_CHECKING:
    from ..server import Server

# Bytes of a server without data, measured with tracemalloc: its tables of commands, users, directives.
SERVER_BYTES: Final = 430_000


def resident_bytes() -> int:
    """Return the resident set size of the process in bytes, with any other code in it; without /proc its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return system.HERE.peak_memory()  # there is no /proc
    return pages * mmap.PAGESIZE


# Bytes of the interpreter with this program loaded, without data.
PROGRAM_BYTES: Final = resident_bytes()


def return_free_memory() -> None:
    """Return free memory to the operating system, if the C library can (MEMORY PURGE)."""
    try:
        trim = system.HERE.function_of_c("malloc_trim")
    except (ImportError, OSError):
        return  # no file descriptor is free to load the module for it; the next call retries
    if trim is not None:
        trim(0)


def overhead_bytes(server: Server) -> int:
    """Return the part of INFO used_memory that is not data: the server's tables, and all buffers and caches.

    The interpreter and the program do not count, because servers of one process share them, and eviction cannot shrink
    them. ``used_memory_rss`` includes them.
    """
    return SERVER_BYTES + buffer_bytes(server) + server.keyspace.lazyfree.memory + not_counted_bytes(server)


def buffer_bytes(server: Server) -> int:
    """Return the bytes of everything but data that ``maxmemory`` limits: clients, caches, logs, backlog."""
    backlog = server.replication.backlog
    return (
        client_bytes(server, replicas=False)
        + sum([client.listed_bytes for client in server.clients.values()])
        + server.tracking.key_bytes
        + server.acl_log.size
        + sum(script_bytes(server))
        + (0 if backlog is None else len(backlog))
    )


def script_bytes(server: Server) -> tuple[int, int]:
    """Return the bytes of the cached scripts, and those of the Lua interpreters."""
    scripting = server.scripting_if_used
    if scripting is None:
        return 0, 0
    return scripting.scripts.size, sum(scripting.memory())


def not_counted_bytes(server: Server) -> int:
    """Return the bytes for AOF and replicas, which ``maxmemory`` ignores, because eviction would increase them."""
    return aof_buffer_bytes(server) + client_bytes(server, replicas=True)


def client_bytes(server: Server, *, replicas: bool) -> int:
    """Return the bytes of all replicas, or of all other clients."""
    return sum([client.memory for client in server.clients.values() if client.is_replica is replicas])


def aof_buffer_bytes(server: Server) -> int:
    """Return the bytes that wait to be written to the AOF."""
    aof = server.persistence.aof
    return 0 if aof is None else aof.unwritten


def dataset_bytes(server: Server) -> int:
    """Return the approximate bytes of all keys. Without ``maxmemory`` large databases are estimated from samples."""
    return sum(
        [
            memory_of_database(db) if db.meter is None else db.meter.memory_of(db)
            for db in server.keyspace.databases
            if db.entries
        ]
    )


def human_bytes(n: int) -> str:
    """Format a size as INFO's ``_human`` fields: ``512B``, ``1.05M``."""
    if n < 1024:
        return f"{n}B"
    size = float(n)
    for unit in "KMGTP":
        size /= 1024
        if size < 1024 or unit == "P":
            return f"{size:.2f}{unit}"
    raise AssertionError
