"""The replicas of this server: handshake, snapshots, the stream, acknowledgements.

A replica that cannot continue from the backlog waits for a snapshot; all waiting replicas share one. When the snapshot
is taken, each replica gets ``+FULLRESYNC <id> <offset>``, and the stream from then on is held until the replica has the
snapshot. The stream of one round of the event loop is gathered and written once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from .replica import DONE, LOADING, ONLINE, WAITING, Replica

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ..net.connection import Connection
    from .snapshot_sender import SnapshotSender
    from .state import Replication

GETACK: Final = replies.command([b"REPLCONF", b"GETACK", b"*"])
PING: Final = replies.command([b"ping"])
_KEEP_ALIVE: Final = b"\n"


class Replicas:
    """The master's side of replication (also of a replica that has replicas of its own)."""

    def __init__(self, replication: Replication) -> None:
        self.replication = replication
        self.server = replication.server
        # Connections that requested the stream, in the order of their requests.
        self.connected: dict[Connection, Replica] = {}
        self.good = 0  # how many of them lag little enough to count for min-replicas-to-write
        # INFO sync_full, sync_partial_ok, sync_partial_err.
        self.full_syncs = 0
        self.partial_syncs = 0
        self.refused_partial_syncs = 0
        self.without_replicas_since = 0.0  # when the last replica left, in seconds of the event loop
        self.transfer: SnapshotSender | None = None
        self._pending: list[bytes] = []
        self._scheduled = False
        self._asked_for_acks = False
        self._start: asyncio.TimerHandle | None = None
        self._crons = 0

    @property
    def online(self) -> list[Replica]:
        """The replicas that have their snapshot and receive the stream."""
        return [each for each in self.connected.values() if each.state == ONLINE]

    @property
    def lagging(self) -> list[Replica]:
        """Replicas that have not acknowledged the whole stream, even before their snapshot; not if their link is done."""
        return [
            each
            for each in self.connected.values()
            if each.state != DONE and max(each.acknowledged, 0) != self.replication.offset
        ]

    # The stream

    def feed(self, data: bytes) -> None:
        """Gather the next bytes of the stream; they are sent to all replicas at the end of this round of the event loop."""
        if self.connected:
            self._pending.append(data)
            if not self._scheduled:
                self._scheduled = True
                self.server.loop.call_soon(self._flush_in_turn)

    def _flush_in_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Send the gathered bytes of the replication stream to the replicas now."""
        if not self._pending:
            return
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        for replica in list(self.connected.values()):
            replica.feed(data)

    def ask_for_acks(self) -> None:
        """Send REPLCONF GETACK to all replicas, once in a round of the event loop, after the effects of the round."""
        if not self._asked_for_acks:
            self._asked_for_acks = True
            self.server.loop.call_soon(self._send_getack)

    def _send_getack(self) -> None:
        if not self._asked_for_acks:
            return  # DEBUG RESET came between
        self._asked_for_acks = False
        # A replica's stream belongs to its master, so nothing may be inserted into it.
        if self.replication.link is not None:
            return
        if self.replication.backlog is not None:
            self.replication.feed(GETACK)
        elif self.server.compat.counts_without_replicas:
            self.replication.offset += 1

    # PSYNC

    def synchronize(self, client: Client, replication_id: bytes, offset: int, *, old: bool = False) -> bytes:
        """Serve PSYNC or SYNC: continue from the backlog if it has the missing bytes, else schedule a snapshot.

        Return ``+CONTINUE`` and the missing bytes; empty if a snapshot follows.

        Args:
            client: the connection that becomes a replica.
            replication_id: the history it knows; ``?`` for none.
            offset: of the first byte that it lacks.
            old: the command is SYNC, so no line may precede the snapshot.
        """
        replica = self.of(client)
        log = self.server.log
        if not replica.only_snapshot:
            self._understand(replica)
        log.notice(f"Replica {replica.name} asks for synchronization")
        # The stream of this turn so far belongs only to the replicas that are already connected.
        self.flush()
        if not old and not replica.only_snapshot:
            missing = self._missing_since(replication_id, offset, replica)
            if missing is not None:
                self.partial_syncs += 1
                replica.state = ONLINE
                replica.last_seen = self.server.loop.time()
                self._enrol(replica)
                log.notice(
                    f"Partial resynchronization request from {replica.name} accepted. "
                    f"Sending {len(missing)} bytes of backlog starting from offset {offset}."
                )
                self.count_good()
                mine = b" " + self.replication.id.encode() if replica.reads_new_id else b""
                return b"+CONTINUE%b\r\n%b" % (mine, missing)
            if replication_id != b"?":
                self.refused_partial_syncs += 1
        self.full_syncs += 1
        replica.state = WAITING
        replica.old_sync = old
        self.replication.open_backlog()
        self._enrol(replica)
        self._schedule_transfer(replica)
        return b""

    def _understand(self, replica: Replica) -> None:
        """Limit the commands in the stream to those that a replica understands."""
        server, understands = self.server, replica.understands
        version = ".".join(map(str, understands))
        if not replica.version and replica.rillet is None:
            server.log.notice(
                f"Replica {replica.name} announces no version and is taken for Redis {version} (repl-rdb-version says "
                "what to take it for)"
            )
        propagation = server.propagation
        if understands >= propagation.understood:
            return
        propagation.understood = understands
        if understands < server.compat.number:
            server.log.warning(
                f"Replica {replica.name} understands the commands of Redis {version} only: from now on all replicas get "
                "older commands with the same effect. A command without an older form reaches only replicas that understand it."
            )

    def _missing_since(self, replication_id: bytes, offset: int, replica: Replica) -> bytes | None:
        replication = self.replication
        wanted = replication_id.decode("latin-1")
        log = self.server.log
        if wanted != replication.id and (wanted != replication.id2 or offset > replication.second_offset):
            if wanted != "?":
                log.notice(
                    f"Partial resynchronization not accepted: {replica.name} knows the history {wanted} "
                    f"up to {offset}, ours are {replication.id} and {replication.id2} up to {replication.second_offset}"
                )
            return None
        missing = None if replication.backlog is None else replication.backlog.since(offset)
        if missing is None:
            log.notice(
                f"Unable to partial resync with replica {replica.name} for lack of backlog ({offset})."
            )
        return missing

    def of(self, client: Client) -> Replica:
        """Return the replica state of a connection; create it if there is none."""
        if client.replica is None:
            client.replica = Replica(client)  # type: ignore[arg-type]
        return client.replica

    def introduce(self, client: Client) -> Replica:
        """Return the replica state that REPLCONF fills in before PSYNC, and mark the connection as a real replica."""
        replica = self.of(client)
        replica.announced = True
        return replica

    def _enrol(self, replica: Replica) -> None:
        self.connected[replica.connection] = replica

    # Snapshots

    def _schedule_transfer(self, replica: Replica) -> None:
        """Schedule a snapshot, one at a time, after a delay in which more replicas may join."""
        if self.transfer is not None:
            self.server.log.notice("Waiting for end of the snapshot under way for SYNC")
            return
        config = self.server.config
        waiting = sum(each.state == WAITING for each in self.connected.values())
        enough = config.repl_diskless_sync_max_replicas
        diskless = config.repl_diskless_sync and replica.reads_eof
        delay = config.repl_diskless_sync_delay if diskless and not (enough and waiting >= enough) else 0
        if self._start is not None:
            if delay:
                return
            self._start.cancel()
        if delay:
            self.server.log.notice("Delay next snapshot for diskless SYNC")
        self._start = self.server.loop.call_later(delay, self._begin_transfer)

    def _begin_transfer(self) -> None:
        self._start = None
        waiting = [each for each in self.connected.values() if each.state == WAITING]
        if not waiting or self.transfer is not None or self.server.stopping:
            return
        from .snapshot_sender import SnapshotSender

        first = waiting[0]
        # No replica loses data that another one cannot read: the others get a snapshot of their own.
        together = [each for each in waiting if each.wanted == first.wanted]
        self.transfer = SnapshotSender(self, together)
        self.flush()
        self.replication.begin_again_for_readers()
        mine = self.replication
        for replica in together:
            replica.state = LOADING
            if not replica.old_sync:
                replica.connection.write(b"+FULLRESYNC %b %d\r\n" % (mine.id.encode(), mine.offset))
        self.transfer.start()

    def transfer_is_over(self) -> None:
        """After a snapshot was sent or failed, schedule another for the replicas that wait for one."""
        self.transfer = None
        waiting = [each for each in self.connected.values() if each.state == WAITING]
        if waiting:
            self._schedule_transfer(waiting[0])

    def disconnect(self, replica: Replica) -> None:
        """Disconnect a replica whose snapshot failed; it reconnects."""
        replica.connection.close(after_reply=False)

    def put_online(self, replica: Replica, *, wait_for_ack: bool) -> None:
        """Begin a replica's stream after its snapshot is sent.

        ``wait_for_ack``: begin only when it acknowledges that it has loaded the snapshot.
        """
        if replica.only_snapshot:
            replica.state = DONE
            return
        replica.state = ONLINE
        replica.last_seen = self.server.loop.time()
        replica.online_on_ack = wait_for_ack
        if not wait_for_ack:
            replica.release()
        self.count_good()
        self.server.log.notice(f"Synchronization with replica {replica.name} succeeded")

    # Acknowledgements

    def acknowledge(self, client: Client, offset: int, on_disk: int | None) -> None:
        """REPLCONF ACK: record the offsets of a replica, and wake whatever waits for them; ignore other clients.

        Args:
            offset: up to which it has applied the stream.
            on_disk: up to which its append-only file is synced; None if it does not say.
        """
        replica = client.replica
        if replica is None or not replica.is_replica:
            return
        replica.acknowledged = max(replica.acknowledged, offset)
        if on_disk is not None:
            replica.on_disk = max(replica.on_disk, on_disk)
        replica.last_seen = self.server.loop.time()
        if replica.online_on_ack and replica.state == ONLINE:
            replica.release()
        if self.server.config.min_replicas_to_write:
            self.count_good()
        self.replication.waits.recheck()
        self.replication.failover.hand_over_if_synced()
        self.server.ending.finish_if_ready()

    def lag(self, replica: Replica) -> int:
        """Return the whole seconds since a replica last acknowledged."""
        return int(self.server.loop.time() - replica.last_seen)

    def count_good(self) -> None:
        """Set ``good`` to the number of online replicas whose lag is at most min-replicas-max-lag."""
        most = self.server.config.min_replicas_max_lag
        self.good = sum(self.lag(each) <= most for each in self.online)

    # Every second, and the end

    def cron(self) -> None:
        """Ping the replicas, disconnect silent ones after repl-timeout, and check output limits; called once a second."""
        now = self.server.loop.time()
        config = self.server.config
        replication = self.replication
        self._crons += 1  # a stream that just began, or continued after a restart, gets no PING at once
        if not self.connected:
            self._forget_backlog_in_time(now)
            self.count_good()
            return
        idle = replication.link is None and not replication.failover.active
        if idle and self._crons % config.repl_ping_replica_period == 0:
            replication.feed(PING)
        for replica in list(self.connected.values()):
            connection = replica.connection
            waits = replica.state == WAITING or (
                replica.state == LOADING and self.transfer is not None and self.transfer.is_preparing
            )
            if waits and not replica.old_sync:
                connection.write(_KEEP_ALIVE)
            elif (
                replica.state == ONLINE
                and not replica.online_on_ack
                and now - replica.last_seen > config.repl_timeout
            ):
                self.server.log.warning(f"Disconnecting timedout replica (streaming sync): {replica.name}")
                connection.close(after_reply=False)
                continue
            connection.check_output_limit(self.server.clock.now)
        self.count_good()

    def _forget_backlog_in_time(self, now: float) -> None:
        """Free the backlog after repl-backlog-ttl without replicas; the ID then changes."""
        replication = self.replication
        ttl = self.server.config.repl_backlog_ttl
        if replication.backlog is None or replication.link is not None or not ttl:
            return
        if now - self.without_replicas_since > ttl:
            replication.close_backlog()
            self.server.log.notice(
                f"Replication backlog freed after {ttl} seconds without connected replicas."
            )

    def forget(self, client: Client) -> None:
        """Forget a disconnected replica; ignore other clients."""
        replica = self.connected.pop(client, None)  # type: ignore[call-overload]
        if replica is None:
            return
        replica.resume()
        self.server.log.notice(f"Connection with replica {replica.name} lost.")
        if not self.connected:
            self.without_replicas_since = self.server.loop.time()
            self._pending.clear()
        if self.transfer is not None:
            self.transfer.note_lost()
        self.count_good()

    def disconnect_all(self) -> None:
        """Disconnect all replicas, so that they reconnect and learn our new replication ID."""
        self.flush()
        for connection in list(self.connected):
            connection.close()

    def reset(self) -> None:
        """Disconnect all replicas and abort a transfer; they need a full resync when they reconnect."""
        self.stop()
        for connection in list(self.connected):
            connection.close()
        self.transfer = None
        self._pending.clear()
        self._asked_for_acks = False
        self.good = self.full_syncs = self.partial_syncs = self.refused_partial_syncs = 0

    def stop(self) -> None:
        """Send the gathered part of the stream and abort a transfer, because the server stops."""
        if self._start is not None:
            self._start.cancel()
            self._start = None
        self.flush()
        if self.transfer is not None:
            self.transfer.abort()
