"""Reading from replicas what masters were seen to have: a replica is asked only if it has got that far.

Streams of entries are looked at in masters, and so are positions and counts. A plan notes how far the replication of each
master has come. A replica that is not there yet, or follows another history, would show less, or entries that were
deleted: then the master is read after all.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .addresses import place_text
from .connection import RedisError
from .shards import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .connection import Connection
    from .options import Endpoint


class Written(NamedTuple):
    """How far the writes of a master go: its history, and an offset in it."""

    history: str
    offset: int


def written_by_shard(connection: Connection) -> dict[str, Written]:
    """Return how far the masters are now, by ``Connection.shard_of``; nothing where no replicas are read."""
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
    """Connect a task to what it reads from.

    Args:
        endpoint: where to.
        shard: that it was planned for.
        written: how far a replica is to be; None: the master is read.
        key: one of its streams.
    """
    with connect(endpoint, near=shard, replica=written is not None and _has(endpoint, written, key)) as found:
        yield found


def _has(endpoint: Endpoint, written: Written, key: bytes) -> bool:
    """Ask a replica once: one that is gone is not waited for, as the master has all."""
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
