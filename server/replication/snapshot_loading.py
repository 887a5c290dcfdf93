"""Load a master's snapshot beside the data, then replace the data by it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from ...storage.keyspace.keyspace import Keyspace
from ...storage.rdb import ByteSource, RdbError, RdbInfo, load_rdb
from ..persistence.load_delay import delay_for

if TYPE_CHECKING:
    from typing import BinaryIO

    from ..server import Server

_SLICE: Final = 0.02  # seconds of loading before clients get a turn


async def load_snapshot(server: Server, file: BinaryIO) -> int:
    """Replace the data by a snapshot in one step, once all of it is loaded.

    Until then clients get LOADING, or use the old data if repl-diskless-load is swapdb.

    Returns:
        The database that the master's stream has selected.

    Raises:
        OSError: the snapshot cannot be read; the data is unchanged.
    """
    config = server.config
    log = server.log
    fresh = Keyspace(len(server.keyspace.databases))
    fresh.track_usage_as(server.keyspace)
    fresh.lazyfree = server.keyspace.lazyfree
    fresh.cold = server.keyspace.cold
    fresh.now = server.keyspace.now
    fresh.expiring = False
    fresh.idempotency_defaults = server.keyspace.idempotency_defaults
    info = RdbInfo()
    reports_loading = config.repl_diskless_load != "swapdb"
    log.notice("MASTER <-> REPLICA sync: Loading DB in memory")
    size = os.fstat(file.fileno()).st_size
    persistence = server.persistence
    persistence.loading_started = server.clock.tick()
    persistence.loaded_bytes, persistence.total_bytes = 0, size
    server.loading = reports_loading
    server.update_checks()
    loop = server.loop
    try:
        source = ByteSource(file.read)
        until = loop.time() + _SLICE
        delayed = 0
        for _ in load_rdb(
            source,
            fresh,
            skip_unknown=config.rdb_skip_unknown_types,
            sanitize=config.sanitize_dump_payload == "yes",
            log=log.warning,
            info=info,
        ):
            if config.key_load_delay:
                persistence.loaded_bytes = source.position
                await delay_for(server, info.keys - delayed)
                delayed = info.keys
            if loop.time() > until:
                persistence.loaded_bytes = source.position
                await asyncio.sleep(0)
                until = loop.time() + _SLICE
        await delay_for(server, info.keys - delayed)
    except RdbError as error:
        raise OSError(f"Failed trying to load the MASTER synchronization DB: {error}") from error
    finally:
        server.loading = False
        server.update_checks()
    server.keyspace.take_over(fresh)
    server.finish_unit()
    log.notice(f"MASTER <-> REPLICA sync: {info.keys} keys loaded")
    selected = info.aux.get(b"repl-stream-db", b"0")
    number = int(selected) if selected.isdigit() else 0
    return number if number < len(server.keyspace.databases) else 0
