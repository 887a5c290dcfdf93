"""One replica of this server: the state of its connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...commands.runtime.state import CLOSING
from ...commands.spec.versions import FIRST_WITH_RDB, rdb_version_of

if TYPE_CHECKING:
    from ..net.connection import Connection

# The states as INFO names them.
WAITING: Final = "wait_bgsave"  # for a snapshot to begin
LOADING: Final = "send_bulk"  # the snapshot is being created or sent
ONLINE: Final = "online"
NEW: Final = ""  # it sent REPLCONF, but not PSYNC yet
DONE: Final = "rdb_transmitted"  # it wanted only the snapshot

_OLDEST: Final = (7, 0)
_VALKEY: Final = (7, 2)
_FIRST_WITH_TWO_CHANNELS: Final = (8, 0)
_ENOUGH: Final = 1 << 16  # bytes that may wait in the transport while a snapshot is sent


class Replica:
    """A connection that sent REPLCONF or PSYNC."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.state = NEW  # or WAITING, LOADING, ONLINE, DONE
        self.held: list[bytes] = []  # the stream since the snapshot, until the replica has loaded that
        self.held_bytes = 0
        # It sent REPLCONF, as every replica does. Others only read the stream; they are assumed to understand our version.
        self.announced = False
        self.acknowledged = -1  # offset up to which it has processed the stream; -1 before its first report
        self.on_disk = -1  # offset up to which its append-only file has the stream on disk
        self.last_seen = 0.0  # when it last acknowledged, in seconds of the event loop
        self.online_on_ack = False  # the stream begins when it acknowledges a snapshot sent without a length
        self.port = 0
        self.host = b""
        self.reads_eof = False  # capa eof
        self.reads_new_id = False  # capa psync2
        self.only_snapshot = False  # rdb-only
        self.needs_data = self.needs_functions = True  # else rdb-filter-only
        self.old_sync = False  # SYNC
        self.rillet: tuple[int, int] | None = None  # capa rillet-8.10: a Rillet that answers as this version
        self.receives_two_channels = False  # capa rdb-channel-repl: Redis 8.0 or later
        self.version = b""
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_replica(self) -> bool:
        """Whether the connection has sent PSYNC or SYNC; False after REPLCONF only."""
        return self.state != NEW

    @property
    def understands(self) -> tuple[int, int]:
        """The Redis version whose commands it understands, as two numbers.

        Rillet and Valkey report their versions. Valkey of any version counts as Redis 7.2, from which it was forked.
        Redis reports none. A replica that offers a second connection for the snapshot is at least Redis 8.0: it counts
        as the version that this server answers as, as a master of that version assumes, too. Any other counts as 7.0.
        ``repl-rdb-version`` replaces these assumptions.
        """
        server = self.connection.server
        if self.rillet is not None:
            return self.rillet
        if not self.announced:
            return server.compat.number
        if self.version:
            major, minor = map(int, self.version.split(b".")[:2])
            return min((major, minor), _VALKEY) if (major, minor) >= _OLDEST else _OLDEST
        chosen = server.config.repl_rdb_version
        if chosen:
            return max(
                FIRST_WITH_RDB[chosen], _FIRST_WITH_TWO_CHANNELS if self.receives_two_channels else _OLDEST
            )
        if self.receives_two_channels:
            return max(server.compat.number, _FIRST_WITH_TWO_CHANNELS)
        return _OLDEST

    @property
    def rdb_version(self) -> int:
        """The RDB version of the snapshot for this replica."""
        server = self.connection.server
        if server.config.repl_rdb_version:
            return server.config.repl_rdb_version
        usual = server.rdb_version
        return min(usual, rdb_version_of(self.understands)) if self.rillet is None else usual

    @property
    def is_filtered(self) -> bool:
        """Whether the replica asked for a snapshot without data or without functions."""
        return not (self.needs_data and self.needs_functions)

    @property
    def wanted(self) -> tuple[bool, bool, int]:
        """What the replica's snapshot must contain: whether data and functions, and its RDB version."""
        return self.needs_data, self.needs_functions, self.rdb_version

    @property
    def address(self) -> bytes:
        """The host that the replica announced, else the one that it connects from."""
        return self.host or self.connection.address.rpartition(b":")[0].strip(b"[]")

    @property
    def name(self) -> str:
        """The replica's host and port, as the log shows them."""
        return f"{self.address.decode('latin-1')}:{self.port or self.connection.address.rpartition(b':')[2].decode()}"

    def feed(self, data: bytes) -> None:
        """Send the replica the next bytes of the stream, or keep them until it has loaded its snapshot."""
        if self.state == ONLINE and not self.online_on_ack:
            self.connection.write(data)
        elif self.state in {LOADING, ONLINE}:
            self.held.append(data)
            self.held_bytes += len(data)

    def release(self) -> None:
        """Send the kept part of the stream, because the replica has its snapshot."""
        self.online_on_ack = False
        held, self.held, self.held_bytes = self.held, [], 0
        if held:
            self.connection.write(b"".join(held))

    # Flow control

    def pause(self) -> None:
        """Let ``drain`` wait, because the write buffer of the transport is full."""
        self._may_write.clear()

    def resume(self) -> None:
        """Let ``drain`` return, because the transport accepts more or is closed."""
        self._may_write.set()

    async def drain(self) -> None:
        """Wait until more of a snapshot may be written, or the connection is closed.

        A replica that accepts nothing for longer than repl-timeout is disconnected.
        """
        replies = self.connection.server.replies
        while replies.is_held(self.connection) and self.connection.state is not CLOSING:  # noqa: ASYNC110 - short
            await asyncio.sleep(0.001)
        transport = self.connection.transport
        if transport is not None and transport.get_write_buffer_size() > _ENOUGH:
            try:
                # `wait_for` may lose a cancellation.
                async with asyncio.timeout(self.connection.server.config.repl_timeout):
                    await self._may_write.wait()
            except TimeoutError:
                self.connection.server.log.warning(f"Disconnecting timedout replica (full sync): {self.name}")
                self.connection.close(after_reply=False)
