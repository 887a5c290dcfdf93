"""MEMORY: the memory that the data takes, measured by the structures that hold it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

from ...commands.runtime.arguments import parse_integer
from ...commands.runtime.client import Client
from ...commands.spec.command import handles
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.keyspace.memory import EXPIRY_ENTRY, KEY_ENTRY, SAMPLES, memory_of_key
from ..server import Server
from . import specs
from .used_memory import (
    PROGRAM_BYTES,
    SERVER_BYTES,
    aof_buffer_bytes,
    client_bytes,
    dataset_bytes,
    human_bytes,
    overhead_bytes,
    resident_bytes,
    return_free_memory,
    script_bytes,
)


@handles(specs.MEMORY_USAGE)
def memory_usage(client: Client, args: list[bytes]) -> bytes:
    """Reply with the estimated bytes of a key and its value, or null if the key is missing."""
    samples = SAMPLES
    for position in range(3, len(args), 2):
        if args[position].upper() != b"SAMPLES" or position + 1 == len(args):
            raise ReplyError(SYNTAX)
        samples = parse_integer(args[position + 1])
        if samples < 0:
            raise ReplyError(SYNTAX)
    value = client.db.peek(args[2])
    if value is None:
        return replies.null(client.resp)
    return replies.integer(memory_of_key(args[2], value, samples))


@handles(specs.MEMORY_STATS)
def memory_stats(client: Client, _args: list[bytes]) -> bytes:
    """Reply with a map of names to integers, ratios (doubles), and one map per database that holds keys."""
    return replies.map_of(list(_stats(client.server, client.resp)), client.resp)


def _stats(server: Server, resp: int) -> Iterator[tuple[bytes, bytes]]:
    data, overhead, resident = dataset_bytes(server), overhead_bytes(server), resident_bytes()
    used = overhead + data
    peak = server.stats.note_memory(used, server.clock.now // 1000)
    keys = sum(len(db) for db in server.keyspace.databases)
    integers = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", SERVER_BYTES),
        ("replication.backlog", len(server.replication.backlog or b"")),
        ("clients.slaves", client_bytes(server, replicas=True)),
        ("clients.normal", client_bytes(server, replicas=False)),
        ("cluster.links", 0),
        ("aof.buffer", aof_buffer_bytes(server)),
        ("lua.caches", script_bytes(server)[0]),
        ("functions.caches", sum(map(len, server.keyspace.libraries.codes.values()))),
        ("script.VMs", script_bytes(server)[1]),
    ]
    for name, number in integers:
        yield name.encode(), replies.integer(number)
    for db in server.keyspace.databases:
        if db.entries:
            tables = [
                (b"overhead.hashtable.main", replies.integer(len(db) * KEY_ENTRY)),
                (b"overhead.hashtable.expires", replies.integer(len(db.expires) * EXPIRY_ENTRY)),
            ]
            yield b"db.%d" % db.index, replies.map_of(tables, resp)
    yield b"overhead.db.hashtable.lut", replies.ZERO
    yield b"overhead.db.hashtable.rehashing", replies.ZERO
    yield b"db.dict.rehashing.count", replies.ZERO
    yield b"overhead.total", replies.integer(overhead)
    yield b"keys.count", replies.integer(keys)
    yield b"keys.bytes-per-key", replies.integer(data // keys if keys else 0)
    yield b"dataset.bytes", replies.integer(data)
    yield b"dataset.percentage", replies.double(data * 100 / max(used - SERVER_BYTES, 1), resp)
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


@handles(specs.MEMORY_DOCTOR)
def memory_doctor(client: Client, _args: list[bytes]) -> bytes:
    """Reply with a text: the memory of the process, and of the keys."""
    server = client.server
    data, resident = dataset_bytes(server), resident_bytes()
    keys = sum(len(db) for db in server.keyspace.databases)
    text = (
        f"The process takes {human_bytes(resident)}, {human_bytes(PROGRAM_BYTES)} of it before any data.\n"
        f"{keys} keys take about {human_bytes(data)}.\n"
    )
    return replies.verbatim(text.encode(), client.resp)


@handles(specs.MEMORY_MALLOC_STATS)
def memory_malloc_stats(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the figures of CPython's allocator and garbage collector."""
    lines = [f"allocated blocks: {sys.getallocatedblocks()}"]
    lines += [
        f"generation {number}: {counts['collections']} collections, {counts['collected']} objects collected"
        for number, counts in enumerate(gc.get_stats())
    ]
    return replies.verbatim("\n".join(lines).encode() + b"\n", client.resp)


@handles(specs.MEMORY_PURGE)
def memory_purge(_client: Client, _args: list[bytes]) -> bytes:
    """Collect garbage, and return free memory to the system if the C library can; reply OK."""
    gc.collect()
    return_free_memory()
    return replies.OK


handles(specs.MEMORY_HELP, container="memory")(help_of)
