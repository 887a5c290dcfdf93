"""The replication of one server: histories, the offset in them, the backlog, the role.

The bytes of a history's stream are numbered. A master produces the stream from its propagated commands. A replica takes it
from its master and forwards it byte for byte, so its own replicas have the same history with the same offsets. A
replica that becomes a master begins a new history where the old one ended, and remembers the old one as its second:
replicas of the old master can continue with it. A master that becomes a replica requests to continue from its own
history. A dump file names the history and the offset of its data: a replica that restarts continues there, and for a
master the history of the file becomes the second one.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...protocol.errors import ReplyError
from ...protocol.regex import regex
from ..execution.propagation import ALL_VERSIONS
from .backlog import Backlog
from .failover import Failover
from .replicas import Replicas
from .wait import Waits

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ...storage.keyspace.database import Database
    from ...storage.keyspace.keyspace import Keyspace
    from ...storage.loading import RdbInfo
    from ...storage.rdb import Unsaid
    from ..persistence.background_writer import Pieces
    from ..server import Server
    from .master_link import MasterLink
    from .replica import Replica

_HISTORY: Final = regex(rb"([0-9a-f]{40}) ([0-9]{1,18}) ([0-9]{1,9})")  # ID, offset, database
NO_ID: Final = "0" * 40
UNBLOCKED: Final = ReplyError(
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
).encoded


class Replication:
    """The replication of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = os.urandom(20).hex()  # ID of the current history, 40 hexadecimal digits
        # ID of the previous history, valid up to ``second_offset``; forty zeroes and -1 for none.
        self.id2 = NO_ID
        self.second_offset = -1
        # Offset of the last byte of the stream; ``count_commands`` brings it up to date while no stream is kept.
        self.offset = 0
        self._counted = 0  # how many commands had been propagated when ``offset`` was last updated
        # The newest part of the stream; None until there is a replica or a master.
        self.backlog: Backlog | None = None
        self.link: MasterLink | None = None  # our link to a master; None for a master
        self._database: int | None = None  # the database that the stream has selected, if a replica restarts
        self.waits = Waits(self)  # clients in WAIT and WAITAOF
        self.replicas = Replicas(self)
        self.failover = Failover(self)  # hands the role of the master to a replica
        self._last_cron = 0.0
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            server.config.on_change(name, self._update_demands)
        server.config.on_change("repl-backlog-size", self._resize_backlog)

    # Attributes that other modules read

    @property
    def role(self) -> str:
        """The role as INFO and ROLE report it: ``master`` or ``slave``."""
        return "master" if self.link is None else "slave"

    @property
    def needs_care(self) -> bool:
        """Whether a check of replication may refuse a command: this is a replica, or min-replicas-to-write is set."""
        return self.link is not None or self._wants_replicas

    @property
    def _wants_replicas(self) -> bool:
        config = self.server.config
        return config.min_replicas_to_write > 0 and config.min_replicas_max_lag > 0

    @property
    def lacks_replicas(self) -> bool:
        """Whether too few replicas are good, so that min-replicas-to-write refuses writes."""
        return (
            self.link is None
            and self._wants_replicas
            and self.replicas.good < self.server.config.min_replicas_to_write
        )

    @property
    def is_readonly(self) -> bool:
        """Whether clients may not write because this is a read-only replica.

        During a failover in a cluster the old master is not read-only yet: writes wait in the pause, and are redirected once
        the topology names the new master. Without a cluster they are refused, as in Redis.
        """
        if self.link is None or (self.failover.active and self.server.config.cluster_enabled):
            return False
        return self.server.config.replica_read_only

    @property
    def is_stale(self) -> bool:
        """Whether clients may not read, because this replica is not connected and replica-serve-stale-data is off."""
        return (
            self.link is not None
            and not self.link.is_connected
            and not self.server.config.replica_serve_stale_data
        )

    # The stream

    def count_commands(self) -> None:
        """Without a backlog, increase the offset by one for each command propagated to the AOF since the last call.

        Redis versions differ in this (``counts_without_replicas``).
        """
        commands = self.server.propagation.commands
        if self.backlog is None and self.server.compat.counts_without_replicas:
            self.offset += commands - self._counted
        self._counted = commands

    def forget_commands(self) -> None:
        """Let ``count_commands`` ignore the commands propagated so far."""
        self._counted = self.server.propagation.commands

    def feed(self, data: bytes) -> None:
        """Append bytes to the replication stream: to the backlog, and to all replicas."""
        assert self.backlog is not None
        self.offset += len(data)
        try:
            self.backlog.append(data)
            self.replicas.feed(data)
        except Exception:  # noqa: BLE001 - out of memory: a missing part cannot be sent later
            self.begin_again()

    def begin_again(self) -> None:
        """Begin a new replication history, because a part of the stream is lost.

        It has a new ID. All replicas are disconnected, and need a full resync.
        """
        self.server.log.warning("Can't continue the replication stream: replicas have to synchronize again.")
        self.replicas.disconnect_all()
        self.id = os.urandom(20).hex()
        self.forget_second()
        self.backlog = Backlog(self.server.config.repl_backlog_size, self.offset)

    def open_backlog(self) -> None:
        """Begin to keep the stream in a backlog, unless there is one, because a replica or a master needs it."""
        if self.backlog is not None:
            return
        self.count_commands()
        if self.link is None:
            # The stream so far was not kept, so no replica may continue from the history up to here.
            self.id = os.urandom(20).hex()
            self.forget_second()
        self.backlog = Backlog(self.server.config.repl_backlog_size, self.offset)
        self._connect_stream()

    def close_backlog(self) -> None:
        """Drop the backlog and begin a new replication history, with which no replica can continue."""
        self.count_commands()
        self.backlog = None
        self.server.propagation.understood = ALL_VERSIONS
        self._disconnect_stream()
        self.id = os.urandom(20).hex()
        self.forget_second()

    def _connect_stream(self) -> None:
        if self.link is None and self.server.propagation.replicas is None:
            self.server.propagation.connect(self.feed, to_replicas=True)

    def _disconnect_stream(self) -> None:
        if self.server.propagation.replicas is not None:
            self.server.propagation.disconnect(self.feed)

    def forget_second(self) -> None:
        """Forget the second replication ID, so that no replica can continue with it."""
        self.id2 = NO_ID
        self.second_offset = -1

    def begin_again_for_readers(self) -> None:
        """Write a SELECT before the next effect, because the readers of a new snapshot need it."""
        self.server.propagation.select_again(self.feed)

    def fields(self) -> dict[bytes, bytes]:
        """Return the fields of a dump file that name the replication history and offset of its data.

        Empty if the offset is not exact.
        """
        database, applied = 0, 0
        if self.link is not None:
            if not self.link.can_continue:
                return {}
            database, applied = self.link.database, self.link.applied
        elif self.backlog is None or self.server.propagation.effects:  # the data would be ahead of the stream
            return {}
        else:
            database = max(self.server.propagation.sinks.get(self.feed, 0), 0)
        return self._fields(database, self.offset + applied)

    def _fields(self, database: int, offset: int) -> dict[bytes, bytes]:
        return {
            b"repl-stream-db": b"%d" % database,
            b"repl-id": self.id.encode(),
            b"repl-offset": b"%d" % offset,
        }

    def snapshot_pieces(self, replica: Replica, unsaid: Unsaid) -> Pieces:
        """Return a function that yields the RDB file for a replica, with our replication ID and offset.

        Args:
            replica: it decides on the contents and the RDB version.
            unsaid: counts the data that the file's RDB version has no place for.
        """
        selected = 0 if self.link is None else self.link.database
        aux = {b"redis-ver": self.server.version.encode(), **self._fields(selected, self.offset)}
        from ...storage.rdb import rdb_chunks

        needs_data, needs_functions, version = replica.wanted
        config = self.server.config
        checksum, compress, key_delay = config.rdbchecksum, config.rdbcompression, config.rdb_key_save_delay

        def pieces(keyspace: Keyspace) -> Iterator[bytes]:
            if not needs_data:
                libraries, keyspace = keyspace.libraries, type(keyspace)(len(keyspace.databases))
                if needs_functions:
                    keyspace.libraries = libraries
            return rdb_chunks(
                keyspace,
                version=version,
                aux=aux,
                checksum=checksum,
                compress=compress,
                unsaid=unsaid,
                key_delay=key_delay,
            )

        return pieces

    # Changes of role

    def follow(self, host: str, port: int, *, can_continue: bool = True) -> None:
        """Become the replica of a master, or of another master; INFO shows the progress of the link.

        The link requests the stream from our own offset on, unless it cannot continue. A stream that never began has an ID
        that no other server knows, so every master refuses to continue it, and counts the refusal.
        """
        from .master_link import MasterLink

        self.count_commands()
        server = self.server
        was_master = self.link is None
        database, self._database = self._database or 0, None
        if self.link is not None:
            can_continue, database = self.link.can_continue, self.link.database
            self.link.stop()
        server.config.replicaof = (host, port)
        self._disconnect_stream()
        self.link = MasterLink(self, host, port, can_continue=can_continue, database=database)
        server.role = self.role
        server.log.role = "S"
        server.update_checks()
        if was_master:
            server.keyspace.own_expiries = OrderedDict()
            server.blocking.send_away_all(UNBLOCKED)
            if not self.failover.active:  # else they stay until the target has agreed
                # They reconnect, and then find us in the history of the new master.
                self.replicas.disconnect_all()
        self.link.start()

    def lead(self) -> None:
        """Become a master, with a new replication history that continues the current one.

        Do nothing if this is one.
        """
        if self.link is not None:
            self._leave_master()
            self.server.cluster.note_lead()

    def _leave_master(self) -> None:
        assert self.link is not None
        server = self.server
        self.link.stop()
        self.link = None
        server.keyspace.own_expiries = None
        server.config.replicaof = None
        self.begin_second_history()
        self.replicas.disconnect_all()
        self.replicas.without_replicas_since = server.loop.time()
        server.role = self.role
        server.log.role = "M"
        server.update_checks()
        if self.backlog is not None:
            self._connect_stream()
            self.begin_again_for_readers()

    def begin_second_history(self, new_id: str | None = None) -> None:
        """Make the current replication ID the second, and begin a new one at the same offset.

        Replicas can continue with either.
        """
        self.id2 = self.id
        self.second_offset = self.offset + 1
        self.id = new_id or os.urandom(20).hex()

    def adopt(self, history: str, offset: int) -> None:
        """After a full resync, use the master's replication ID from ``offset`` on.

        Disconnect our own replicas.
        """
        self.id = history
        self.offset = offset
        self.forget_second()
        self.replicas.disconnect_all()
        self.backlog = Backlog(self.server.config.repl_backlog_size, offset)

    # Start from files

    def note_dropped(self, database: Database, key: bytes) -> None:
        """Propagate the deletion of an expired key that a master has skipped in its dump file."""
        self.server.active_expiry.propagate_key(database, key)
        self.server.propagation.flush()

    def take_up(self, info: RdbInfo) -> None:
        """After a dump file was loaded, continue at the replication history and offset that it names.

        The stream that began with ``open_backlog`` before the load follows that offset.
        """
        history = self._history_of(info)
        if self.backlog is None:  # a replica
            if history is not None:
                self.id, self.offset, self._database = history
            return
        if history is None:
            self.close_backlog()
            self.offset = 0
            return
        self.id2, offset, _ = history
        self.second_offset = offset + 1
        self.offset += offset
        self.backlog.first += offset

    def _history_of(self, info: RdbInfo) -> tuple[str, int, int] | None:
        """Return the history that a dump file names, its offset, and the database that its stream has selected."""
        names = (b"repl-id", b"repl-offset", b"repl-stream-db")
        found = _HISTORY().fullmatch(b" ".join(info.aux.get(name, b"") for name in names))
        if found is None or info.skipped:  # without a part of its data it is another history
            return None
        history, offset, database = found[1].decode(), int(found[2]), int(found[3])
        return (history, offset, database) if database < len(self.server.keyspace.databases) else None

    def count_from(self, offset: int) -> None:
        """Set the offset to that at which the loaded append-only file ends."""
        self.offset = offset
        self.forget_commands()

    # Life

    def reset(self) -> None:
        """Become a master without replicas and history (DEBUG RESET).

        ``start`` then follows a configured master again.
        """
        self.failover.stop()
        if self.link is not None:
            self._leave_master()
        self.replicas.reset()
        self.waits.clear()
        if self.backlog is not None:
            self.close_backlog()
        self.forget_second()
        self.offset, self._database = 0, None
        self.forget_commands()  # opening the append-only file settles what is left of them

    def start(self) -> None:
        """Follow the master that replicaof names, if any, once the server is up."""
        master = self.server.config.replicaof
        self.replicas.without_replicas_since = self.server.loop.time()
        self._update_demands()
        if master is not None:
            self.follow(*master, can_continue=self._database is not None)

    @property
    def is_in_use(self) -> bool:
        """Whether there is a master, a replica or a backlog, so that the stream must be kept."""
        return self.link is not None or bool(self.replicas.connected) or self.backlog is not None

    def note_first_base(self) -> None:
        """After the AOF got its first base, recheck WAITAOF, and acknowledge to our master that the data is on disk."""
        self.waits.recheck()
        if self.link is not None:
            self.link.acknowledge()

    def cron(self) -> None:
        """Once a second, run the periodic work of both directions; called about ten times a second."""
        now = self.server.loop.time()
        if now - self._last_cron < 1:
            return
        self._last_cron = now
        self.replicas.cron()
        if self.link is not None:
            self.link.cron()

    def stop(self) -> None:
        """Stop the link to the master, the replicas and any failover, because the server stops."""
        self.failover.stop()
        self.replicas.stop()
        if self.link is not None:
            self.link.stop()

    def forget(self, client: Client) -> None:
        """Forget a replica that has disconnected; ignore other clients."""
        self.replicas.forget(client)

    def _update_demands(self) -> None:
        if self._wants_replicas:
            self.replicas.count_good()
        self.server.update_checks()

    def _resize_backlog(self) -> None:
        if self.backlog is not None:
            self.backlog.size = self.server.config.repl_backlog_size
