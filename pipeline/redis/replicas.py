"""Read from replicas only what their masters are known to have had: a replica must have replicated that far.

Streams, positions and counts are looked up on masters. A plan records each master's replication offset. A replica that
has not reached it, or has another history, would show fewer entries, or deleted ones; then the master is read instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from .addresses import place_text
from .connection import Connection, RedisError
from .options import Endpoint
from .shards import connect


class Written(NamedTuple):
    """The replication position of a master: its history (replication ID) and the offset in it."""

    history: str
    offset: int


def written_by_shard(connection: Connection) -> dict[str, Written]:
    """Return the replication position of each master, by ``Connection.shard_of``; {} if replicas are not read."""
    endpoint = connection.endpoint
    if not endpoint.read_replicas:
        return {}
    found: dict[str, Written] = {}
    is_cluster = endpoint.kind == "cluster"
    for place, facts in connection.ask_masters(lambda master: (master.endpoint, _facts(master))):
        at = Written(facts["master_replid"], int(facts["master_repl_offset"]))
        found[place_text((place.host, place.port)) if is_cluster else ""] = at
    return found


@contextmanager
def reading(endpoint: Endpoint, shard: str, written: Written | None, key: bytes) -> Iterator[Connection]:
    """Yield a task's connection to the server that it reads from.

    ``written``: the position that a replica must have reached; None: read from the master.
    """
    with connect(endpoint, near=shard, replica=written is not None and _has(endpoint, written, key)) as found:
        yield found


def _has(endpoint: Endpoint, written: Written, key: bytes) -> bool:
    """Ask a replica once for its position; do not wait for a lost replica, because the master has all data."""
    try:
        with connect(replace(endpoint, retries=0), replica=True) as replica:
            facts = replica.ask_server_of(key, _facts)
    except RedisError:
        return False
    offset = int(facts.get("slave_repl_offset", facts["master_repl_offset"]))
    return facts["master_replid"] == written.history and offset >= written.offset


def _facts(server: Connection) -> dict[str, str]:
    lines = server.call("INFO", "replication").decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
