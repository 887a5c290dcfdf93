"""One replica that follows us, as its connection's state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..net.connection import Connection

# As INFO names them.
WAITING: Final = "wait_bgsave"  # for a snapshot to begin
LOADING: Final = "send_bulk"  # the snapshot is being made or sent
ONLINE: Final = "online"
NEW: Final = ""  # has told about itself, and not asked for the stream yet
DONE: Final = "rdb_transmitted"  # wanted nothing but the snapshot

_OLDEST: Final = (7, 0)
_FIRST_OF_VALKEY_ALONE: Final = 9  # no Redis has that number
_ENOUGH: Final = 1 << 16  # bytes that may wait in the transport while a snapshot is sent


class Follower:
    """A connection that sent REPLCONF or PSYNC.

    Attributes:
        state: NEW, WAITING, LOADING, ONLINE or DONE.
        held: what the stream got since the snapshot was taken; sent when the replica has loaded that.
        acknowledged: offset that it said to have processed; -1 before it said any.
        on_disk: offset that it said to have in its append-only file.
        last_seen: when it last acknowledged, in seconds of the event loop.
        online_on_ack: it gets the stream once it acknowledges the snapshot (after a transfer without a length).
        newest_rdb: RDB version that it is known to read; 0 for an unknown one.
    """

    __slots__ = (
        "_may_write",
        "acknowledged",
        "connection",
        "held",
        "held_bytes",
        "host",
        "last_seen",
        "needs_nothing",
        "newest_rdb",
        "old_sync",
        "on_disk",
        "online_on_ack",
        "only_snapshot",
        "port",
        "reads_eof",
        "reads_new_id",
        "state",
        "version",
    )

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.state = NEW
        self.held: list[bytes] = []
        self.held_bytes = 0
        self.acknowledged = -1
        self.on_disk = -1
        self.last_seen = 0.0
        self.online_on_ack = False
        self.port = 0
        self.host = b""
        self.reads_eof = False  # capa eof
        self.reads_new_id = False  # capa psync2
        self.only_snapshot = False  # rdb-only
        self.needs_nothing = False  # rdb-filter-only functions: no data
        self.old_sync = False  # SYNC
        self.version = b""
        self.newest_rdb = 0
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_replica(self) -> bool:
        """Whether it asked for the stream."""
        return self.state != NEW

    @property
    def understands(self) -> tuple[int, int]:
        """The version of Redis whose stream commands it knows for certain, as two numbers.

        Redis does not tell its version, so it counts as an old one. Valkey does, and knows what 7.2 knew; its 8.0 and
        8.1 know no more than the Redis of that number.
        """
        parts = self.version.split(b".")
        if len(parts) < 2 or int(parts[0]) >= _FIRST_OF_VALKEY_ALONE:
            return _OLDEST
        return int(parts[0]), int(parts[1])

    @property
    def address(self) -> bytes:
        """Where it says it is, else where it comes from."""
        return self.host or self.connection.address.rpartition(b":")[0].strip(b"[]")

    @property
    def name(self) -> str:
        """How the log calls it."""
        return f"{self.address.decode('latin-1')}:{self.port or self.connection.address.rpartition(b':')[2].decode()}"

    def feed(self, data: bytes) -> None:
        """Give it a part of the stream, or keep that until it has the snapshot."""
        if self.state == ONLINE and not self.online_on_ack:
            self.connection.write(data)
        elif self.state in {LOADING, ONLINE}:
            self.held.append(data)
            self.held_bytes += len(data)

    def release(self) -> None:
        """It has the snapshot: the stream begins with what was held."""
        self.online_on_ack = False
        held, self.held, self.held_bytes = self.held, [], 0
        if held:
            self.connection.write(b"".join(held))

    # Sending no faster than it reads

    def pause(self) -> None:
        """Its transport has enough to send."""
        self._may_write.clear()

    def resume(self) -> None:
        """Its transport wants more, or is gone."""
        self._may_write.set()

    async def drain(self) -> None:
        """Return once more of a snapshot may be written, or the connection is gone.

        One that takes nothing for longer than repl-timeout is closed.
        """
        while self.connection.outbox and not self.connection.close_asap:  # noqa: ASYNC110 - seldom, and short
            await asyncio.sleep(0.001)  # held for the append-only file
        transport = self.connection.transport
        if transport is not None and transport.get_write_buffer_size() > _ENOUGH:
            try:
                await asyncio.wait_for(self._may_write.wait(), self.connection.server.config.repl_timeout)
            except TimeoutError:
                self.connection.server.log.warning(f"Disconnecting timedout replica (full sync): {self.name}")
                self.connection.close(after_reply=False)
