"""MEMORY: what the data takes, by the sizes of the structures that hold it."""

from __future__ import annotations

import gc
import mmap
import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol import replies
from ..protocol.errors import SYNTAX, ReplyError
from ..storage.collection import Collection
from ..storage.stream import Stream
from .arguments import parse_integer
from .syntax import server as syntax
from .table import command, container, key
from .usage import help_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..server.app import Server
    from ..storage.group import Group
    from ..storage.keyspace import Database, Value
    from .client import Client

# Bytes of CPython's structures on 64-bit systems; estimates where a table grows by doubling.
_BYTES_OBJECT: Final = 33
_KEY_ENTRY: Final = 100 + 60  # its slots in `entries` and `accessed`, and the time of the last access
_EXPIRY_ENTRY: Final = 100 + 32 + 72  # a slot in `expires`, the time, the pair in the heap
_STREAM: Final = 800
_COLLECTION: Final = 250
_GROUP: Final = 1200
_CONSUMER: Final = 400
_PENDING: Final = (
    8 + 16 + 2
)  # the reference to its block, its ID if the stream no longer shares it, its part of a page
_SAMPLES: Final = 5  # of nested values, unless SAMPLES says something else
# More keys than that are estimated from the first so many: INFO must not stop a big server.
_LOOKED_AT: Final = 20_000


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return _peak_resident()
    return pages * mmap.PAGESIZE


def _peak_resident() -> int:
    """The nearest thing where there is no /proc; 0 where the system does not tell (Windows)."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# The interpreter with this program loaded, before any data.
STARTUP_BYTES: Final = _resident()


def resident_bytes() -> int:
    """Physical memory of the process, whatever else it runs besides this server."""
    return _resident()


def give_back() -> None:
    """Let the system have what is free between the data, as far as the C library can do that."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # glibc
            trim(0)


def used_bytes(server: Server) -> int:
    """INFO used_memory: the program as it was loaded, the data, and what waits for the AOF."""
    return overhead_bytes(server) + dataset_bytes(server)


def overhead_bytes(server: Server) -> int:
    """The part of ``used_bytes`` that is not data."""
    return STARTUP_BYTES + aof_buffer_bytes(server)


def aof_buffer_bytes(server: Server) -> int:
    """What waits to be written into the AOF."""
    aof = server.persistence.aof
    return 0 if aof is None else aof.pending


def system_bytes() -> int:
    """The machine's memory, 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def dataset_bytes(server: Server) -> int:
    """About the bytes that all keys of all databases take; large databases are estimated from a part."""
    return sum(_database_bytes(db) for db in server.keyspace.databases if db.entries)


def human_bytes(n: int) -> str:
    """A size as INFO's ``_human`` fields tell it: ``512B``, ``1.05M``."""
    if n < 1024:
        return f"{n}B"
    size = float(n)
    for unit in "KMGTP":
        size /= 1024
        if size < 1024 or unit == "P":
            return f"{size:.2f}{unit}"
    raise AssertionError


def _database_bytes(db: Database) -> int:
    count = len(db.entries)
    looked_at = min(count, _LOOKED_AT)
    size = sum(key_bytes(name, value) for name, value in islice(db.entries.items(), looked_at))
    return size * count // looked_at + len(db.expires) * _EXPIRY_ENTRY


def key_bytes(name: bytes, value: Value, samples: int = _SAMPLES) -> int:
    """About the bytes of one key with its value, of a stream's chunks looking at so many; 0: at all."""
    size = _KEY_ENTRY + _BYTES_OBJECT + len(name)
    if type(value) is Stream:
        return size + _STREAM + value.estimated_bytes(samples) + sum(map(_group_bytes, value.groups.values()))
    if isinstance(value, Collection):
        return size + _COLLECTION + value.payload_bytes
    assert type(value) is bytes
    return size + _BYTES_OBJECT + len(value)


def _group_bytes(group: Group) -> int:
    consumers, pending = group.weight
    return _GROUP + consumers * _CONSUMER + pending * _PENDING


container("MEMORY", since="4.0.0", group="server", summary="A container for memory diagnostics commands.")


# MEMORY USAGE key [SAMPLES count]
@command(
    "MEMORY|USAGE",
    arity=-3,
    flags="readonly",
    keys=(key(2, "RO"),),
    since="4.0.0",
    group="server",
    complexity="O(N) where N is the number of samples.",
    summary="Estimates the memory that a key takes.",
    arguments=syntax.MEMORY_USAGE,
)
def memory_usage(client: Client, args: list[bytes]) -> bytes:
    """Bytes, or null for a missing key."""
    samples = _SAMPLES
    for position in range(3, len(args), 2):
        if args[position].upper() != b"SAMPLES" or position + 1 == len(args):
            raise ReplyError(SYNTAX)
        samples = parse_integer(args[position + 1])
        if samples < 0:
            raise ReplyError(SYNTAX)
    value = client.db.peek(args[2])
    if value is None:
        return replies.null(client.resp)
    return replies.integer(key_bytes(args[2], value, samples))


# MEMORY STATS
@command(
    "MEMORY|STATS",
    arity=2,
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
    since="4.0.0",
    group="server",
    complexity="O(1)",
    summary="Returns figures about the server's memory.",
    arguments=syntax.MEMORY_STATS,
)
def memory_stats(client: Client, args: list[bytes]) -> bytes:
    """A map of names to integers, ratios (doubles), and one map per database that holds keys."""
    del args
    return replies.map_of(list(_stats(client.server, client.resp)), client.resp)


def _stats(server: Server, resp: int) -> Iterator[tuple[bytes, bytes]]:
    data, overhead, resident = dataset_bytes(server), overhead_bytes(server), resident_bytes()
    used = overhead + data
    peak = server.stats.note_memory(used)
    keys = sum(len(db) for db in server.keyspace.databases)
    integers = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", STARTUP_BYTES),
        ("replication.backlog", len(server.replication.backlog or b"")),
        ("clients.slaves", 0),
        ("clients.normal", 0),
        ("cluster.links", 0),
        ("aof.buffer", aof_buffer_bytes(server)),
        ("lua.caches", server.scripting.scripts.size),
        ("functions.caches", sum(map(len, server.keyspace.libraries.codes.values()))),
        ("script.VMs", sum(server.scripting.memory())),
    ]
    for name, number in integers:
        yield name.encode(), replies.integer(number)
    for db in server.keyspace.databases:
        if db.entries:
            tables = [
                (b"overhead.hashtable.main", replies.integer(len(db) * _KEY_ENTRY)),
                (b"overhead.hashtable.expires", replies.integer(len(db.expires) * _EXPIRY_ENTRY)),
            ]
            yield b"db.%d" % db.index, replies.map_of(tables, resp)
    yield b"overhead.db.hashtable.lut", replies.ZERO
    yield b"overhead.db.hashtable.rehashing", replies.ZERO
    yield b"db.dict.rehashing.count", replies.ZERO
    yield b"overhead.total", replies.integer(overhead)
    yield b"keys.count", replies.integer(keys)
    yield b"keys.bytes-per-key", replies.integer(data // keys if keys else 0)
    yield b"dataset.bytes", replies.integer(data)
    yield b"dataset.percentage", replies.double(data * 100 / max(used - STARTUP_BYTES, 1), resp)
    yield b"peak.percentage", replies.double(used * 100 / max(peak, 1), resp)
    for name in ("allocator.allocated", "allocator.active"):
        yield name.encode(), replies.integer(used)
    yield b"allocator.resident", replies.integer(resident)
    yield b"allocator-fragmentation.ratio", replies.double(1.0, resp)
    yield b"allocator-fragmentation.bytes", replies.ZERO
    yield b"allocator-rss.ratio", replies.double(resident / max(used, 1), resp)
    yield b"allocator-rss.bytes", replies.integer(resident - used)
    yield b"rss-overhead.ratio", replies.double(1.0, resp)
    yield b"rss-overhead.bytes", replies.ZERO
    yield b"fragmentation", replies.double(resident / max(used, 1), resp)
    yield b"fragmentation.bytes", replies.integer(resident - used)


# MEMORY DOCTOR
@command(
    "MEMORY|DOCTOR",
    arity=2,
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
    since="4.0.0",
    group="server",
    complexity="O(1)",
    summary="Tells in plain words where the memory goes.",
    arguments=syntax.MEMORY_DOCTOR,
)
def memory_doctor(client: Client, args: list[bytes]) -> bytes:
    """A short report."""
    del args
    server = client.server
    data, resident = dataset_bytes(server), resident_bytes()
    keys = sum(len(db) for db in server.keyspace.databases)
    text = (
        f"The process takes {human_bytes(resident)}, {human_bytes(STARTUP_BYTES)} of it before any data.\n"
        f"{keys} keys take about {human_bytes(data)}.\n"
    )
    return replies.verbatim(text.encode(), client.resp)


# MEMORY MALLOC-STATS
@command(
    "MEMORY|MALLOC-STATS",
    arity=2,
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
    since="4.0.0",
    group="server",
    complexity="Depends on how much memory is allocated, could be slow",
    summary="Returns the memory allocator's own figures.",
    arguments=syntax.MEMORY_MALLOC_STATS,
)
def memory_malloc_stats(client: Client, args: list[bytes]) -> bytes:
    """What CPython tells of its allocator and its garbage collector."""
    del args
    lines = [f"allocated blocks: {sys.getallocatedblocks()}"]
    lines += [
        f"generation {number}: {counts['collections']} collections, {counts['collected']} objects collected"
        for number, counts in enumerate(gc.get_stats())
    ]
    return replies.verbatim("\n".join(lines).encode() + b"\n", client.resp)


# MEMORY PURGE
@command(
    "MEMORY|PURGE",
    arity=2,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
    since="4.0.0",
    group="server",
    complexity="Depends on how much memory is allocated, could be slow",
    summary="Gives memory that is not needed back to the system.",
    arguments=syntax.MEMORY_PURGE,
)
def memory_purge(client: Client, args: list[bytes]) -> bytes:
    """Collect garbage, and let the C library return free memory where it can."""
    del client, args
    gc.collect()
    give_back()
    return replies.OK


# MEMORY HELP
@command(
    "MEMORY|HELP",
    arity=2,
    flags="loading stale",
    since="4.0.0",
    group="server",
    complexity="O(1)",
    summary="Shows helpful text about the subcommands.",
    arguments=syntax.MEMORY_HELP,
)
def memory_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del client, args
    return replies.simple_array(help_lines("memory"))
