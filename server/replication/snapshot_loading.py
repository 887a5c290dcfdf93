"""Load a master's snapshot beside the data, then replace the data with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...storage.rdb import ByteSource, RdbError, RdbInfo
from ..persistence.rdb import load_in_turns, read_file

if TYPE_CHECKING:
    from typing import BinaryIO

    from ..server import Server


async def load_snapshot(server: Server, file: BinaryIO) -> int:
    """Load a snapshot, then replace the data with it in one step.

    During the load clients get LOADING, or use the old data if repl-diskless-load is swapdb.

    Return the database that the master's stream has selected.
    Raises OSError: the snapshot cannot be read; the data is unchanged.
    """
    config = server.config
    log = server.log
    fresh = server.keyspace.empty_twin()
    fresh.lazyfree = server.keyspace.lazyfree
    fresh.cold = server.keyspace.cold
    fresh.expiring = False
    info = RdbInfo()
    reports_loading = config.repl_diskless_load != "swapdb"
    log.notice("MASTER <-> REPLICA sync: Loading DB in memory")
    size = os.fstat(file.fileno()).st_size
    persistence = server.persistence
    persistence.loading_started = server.clock.tick()
    persistence.loaded_bytes, persistence.total_bytes = 0, size
    server.loading = reports_loading
    server.update_checks()
    try:
        source = ByteSource(file.read)
        if not await load_in_turns(server, read_file(server, source, fresh, info), source, info):
            raise OSError("the server ends")
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
