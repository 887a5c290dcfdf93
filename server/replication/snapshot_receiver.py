"""Receive the snapshot that a master sends (a length comes first, or a mark last), and replace the data with it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import BinaryIO, Final

from ...protocol.regex import regex
from ...storage.loading import RdbError, RdbInfo
from ...storage.rdb import ByteSource
from ..persistence.rdb import load_in_steps, read_file
from ..server import Server

_CHUNK: Final = 1 << 18
_MARK: Final = 40
_LENGTH: Final = regex(rb"\$[0-9]{1,18}")


class SnapshotReceiver:
    """A snapshot that is being received.

    ``header``: the line before the snapshot: ``$<length>`` or ``$EOF:<mark>``.
    Raises EOFError: the header is something else.
    """

    def __init__(self, header: bytes) -> None:
        self.received = 0  # bytes so far
        self.is_complete = False  # all of it has arrived, and it is being loaded
        self._mark = header[5:] if header.startswith(b"$EOF:") else b""
        self._last = b""  # possibly the beginning of the mark
        if self._mark:
            self.total = -1  # its length in bytes; -1 if only a mark shows its end
            if len(self._mark) != _MARK:
                raise EOFError(f"Bad protocol from MASTER: a mark of {len(self._mark)} bytes")
        elif _LENGTH().fullmatch(header):
            self.total = int(header[1:])
        else:
            raise EOFError(f"Bad protocol from MASTER, the first byte is not '$': {header[:80]!r}")

    @property
    def wanted(self) -> int:
        """Maximum number of bytes to read next; 0 when the snapshot is complete."""
        if self.is_complete:
            return 0
        return _CHUNK if self._mark else min(_CHUNK, self.total - self.received)

    def take(self, data: bytes) -> bytes:
        """Count received bytes; return the ones that are certainly data, not part of the mark at the end."""
        self.received += len(data)
        if not self._mark:
            self.is_complete = self.received == self.total
            return data
        # The master sends nothing after the mark until we acknowledge, so a mark at the end of the received bytes is
        # the end.
        data = self._last + data
        self._last = data[-_MARK:]
        self.is_complete = self._last == self._mark
        return data[:-_MARK]

    async def copy(self, read: Callable[[int], Awaitable[bytes]], file: BinaryIO) -> None:
        """Receive the whole snapshot and write it to ``file``; ``read`` returns at most as many bytes as it is asked for."""
        self.is_complete = self.total == 0
        while wanted := self.wanted:
            file.write(self.take(await read(wanted)))


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
        if not await load_in_steps(server, read_file(server, source, fresh, info), source, info):
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
