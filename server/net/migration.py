"""MIGRATE: send keys to another server, and delete them here after the target has confirmed them.

Only the calling client is blocked, so other clients may change a key during its transfer. The key is then resent, and
replaces the copy on the target. Keys are deleted as soon as the last confirmation arrives, before any other command runs,
and only if their dump is still the same. (WATCH does not suffice, because it misses changes of consumer groups.) If other
clients keep changing the keys, the last round postpones their writes. Keys that the target does not confirm stay here. After
a timeout, or if writes are paused during the transfer, a key may exist on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

from ...commands.keys.lifecycle import delete_from
from ...commands.runtime.client import Client
from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.keyspace.database import Database
from ...storage.rdb import dump_value
from ..execution.blocking import Waiter
from ..execution.call import INTERNAL_ERROR
from ..server import Server

if TYPE_CHECKING:
    from ...commands.keys.migrate import Migration

    Result = TypeVar("Result")

_CONNECTING: Final = ReplyError(b"IOERR error or timeout connecting to the client")
_WRITING: Final = ReplyError(b"IOERR error or timeout writing to target instance")
_READING: Final = ReplyError(b"IOERR error or timeout reading to target instance")
_LONGEST_LINE: Final = 1 << 16
_ENOUGH: Final = 1 << 20  # unsent bytes
_ROUNDS: Final = 3  # rounds in which others may write; the round after them postpones writes
_UNSELECTED: Final = -1  # as in Redis, no SELECT is sent for this database number


class Migrations:
    """The MIGRATE commands of one server that are running."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, client: Client, argv: list[bytes], migration: Migration) -> None:
        """Block the client of a MIGRATE and begin its transfer in a task, which unblocks the client at the end."""
        blocking = self._server.blocking
        blocking.block(client, (), 0, argv, on_timeout=_WRITING.encoded)
        transfer = _Transfer(self._server, client, migration)
        task = self._server.loop.create_task(self._run(transfer, blocking.waiters[client]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, transfer: _Transfer, waiter: Waiter) -> None:
        error = b""
        try:
            await transfer.run()
        except ReplyError as reason:
            error = reason.encoded
        except Exception as reason:  # noqa: BLE001 - a bug of ours, or out of memory: as for every command
            self._fail(waiter, reason)
            return
        server, client = self._server, waiter.client
        if server.blocking.waiters.get(client) is not waiter:
            return  # the client has disconnected
        client.write_offset = server.replication.offset
        waiter.on_timeout = replies.OK
        server.blocking.unblock(client, error or None)

    def _fail(self, waiter: Waiter, reason: Exception) -> None:
        """Repair the keys, which also ends the wait, and reply to the client if it is still connected."""
        server, client = self._server, waiter.client
        waits = server.blocking.waiters.get(client) is waiter
        server.mending.mend(client, waiter.entry, waiter.argv, reason)
        server.finish_unit()
        if waits:
            waiter.entry.calls += 1
            waiter.entry.failed += 1
            server.stats.count_error(b"ERR")
            server.blocking.answer(waiter, INTERNAL_ERROR)

    def stop(self) -> None:
        """Cancel the transfers of all MIGRATE commands, because the server stops or is reset; the keys stay."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()


class _Transfer:
    """One connection to a target, and the keys to send."""

    def __init__(self, server: Server, client: Client, migration: Migration) -> None:
        self._server = server
        self._client = client
        self._db: Database = client.db
        self._migration = migration
        self._seconds = migration.timeout / 1000
        self._sent: dict[bytes, tuple[int | None, bytes]] = {}  # expiry and digest of the payload
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def run(self) -> None:
        """Move the keys. Raises ReplyError: the target refused something, or cannot be reached in time."""
        await self._connect()
        try:
            await self._introduce()
            keys, replace = self._migration.keys, self._migration.replace
            for _ in range(_ROUNDS):
                keys = await self._round(keys, replace=replace)
                if not keys:
                    return
                replace = True
            await self._last_round(keys)
        finally:
            self._writer.transport.abort()

    async def _last_round(self, keys: list[bytes]) -> None:
        """Move keys while writes are postponed; one timeout limits the whole round, because all writers wait for it."""
        pause = self._server.pause
        pause.hold_writes(self)
        try:
            async with asyncio.timeout(self._seconds):
                changed = await self._round(keys, replace=True)
        except TimeoutError:
            raise _WRITING from None
        finally:
            pause.release_writes(self)
        if changed:
            raise _WRITING

    async def _connect(self) -> None:
        if self._migration.port < 0:
            raise _CONNECTING
        source = self._server.config.bind_source_addr
        try:
            async with asyncio.timeout(self._seconds):  # wait_for may lose a cancellation
                self._reader, self._writer = await asyncio.open_connection(
                    self._migration.host,
                    self._migration.port,
                    limit=_LONGEST_LINE,
                    local_addr=(source, 0) if source else None,
                )
        except ConnectionRefusedError:
            raise _WRITING from None
        except (OSError, ValueError):  # ValueError: an invalid host name
            raise _CONNECTING from None

    async def _introduce(self) -> None:
        """Authenticate and select the database first, so that a refusal cannot put keys into the wrong database."""
        steps = []
        if self._migration.credentials:
            steps.append([b"AUTH", *self._migration.credentials])
        if self._migration.database != _UNSELECTED:
            steps.append([b"SELECT", b"%d" % self._migration.database])
        self._writer.write(b"".join(map(replies.command, steps)))
        refused = [error for error in [await self._answer() for _ in steps] if error is not None]
        if refused:
            raise refused[0]

    async def _round(self, keys: list[bytes], *, replace: bool) -> list[bytes]:
        """Send keys and delete the ones that arrived; return the ones that changed meanwhile and still exist."""
        self._sent.clear()
        for key in keys:
            record = self._record(key, replace=replace)
            if record is not None:
                self._writer.write(record)
                if self._writer.transport.get_write_buffer_size() > _ENOUGH:
                    await self._within(self._writer.drain(), _WRITING)
        arrived: list[bytes] = []
        refusal: ReplyError | None = None
        try:
            for key in self._sent:
                error = await self._answer()
                if error is None:
                    arrived.append(key)
                refusal = refusal or error
        finally:
            changed = [] if self._migration.copy else self._delete(arrived)
        if refusal is not None:
            raise refusal
        return changed

    def _record(self, key: bytes, *, replace: bool) -> bytes | None:
        """Return the RESTORE command for a key; None if the key no longer exists."""
        keyspace = self._server.keyspace
        keyspace.now = self._server.clock.tick()
        payload = self._payload(key)
        self._server.finish_unit()  # the key may have expired just now
        if payload is None:
            return None
        expiry = self._db.expires.get(key)
        self._sent[key] = expiry, blake2b(payload).digest()
        left = 0 if expiry is None else max(expiry - keyspace.now, 1)
        # The target may be a node of a cluster that imports the slot of the key.
        name = b"RESTORE-ASKING" if self._server.config.cluster_enabled else b"RESTORE"
        return replies.command([name, key, b"%d" % left, payload, *([b"REPLACE"] if replace else [])])

    def _payload(self, key: bytes) -> bytes | None:
        value = self._db.peek(key)
        if value is None:
            return None
        defaults = self._server.keyspace.idempotency_defaults
        return dump_value(value, version=self._server.rdb_version, idempotency_defaults=defaults)

    def _delete(self, arrived: list[bytes]) -> list[bytes]:
        """Delete the keys that arrived; return the keys that changed since their dump."""
        server, client = self._server, self._client
        server.keyspace.now = server.clock.tick()
        deleted: list[bytes] = []
        changed: list[bytes] = []
        pause = server.pause
        if server.replication.is_readonly or pause.until or pause.holders - {self}:
            raise _WRITING
        for key in arrived:
            payload = self._payload(key)
            if payload is None:
                continue
            if self._sent[key] == (self._db.expires.get(key), blake2b(payload).digest()):
                delete_from(self._db, key)  # the client may be in another database by now
                deleted.append(key)
            else:
                changed.append(key)
        if deleted and server.propagation.active:
            server.propagation.add(self._db.index, [b"DEL", *deleted])
        server.finish_unit()
        client.write_offset = server.replication.offset
        return changed

    async def _answer(self) -> ReplyError | None:
        """Read one reply; return None for OK, or the target's error. Any other reply ends the transfer."""
        line = await self._within(self._reader.readline(), _READING)
        if line == b"+OK\r\n":
            return None
        if line.startswith(b"-") and line.endswith(b"\r\n"):
            return ReplyError(b"ERR Target instance replied with error: " + line[1:-2])
        raise _READING

    async def _within(self, step: Awaitable[Result], error: ReplyError) -> Result:
        try:
            async with asyncio.timeout(self._seconds):
                return await step
        # ValueError: a line without an end.
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            raise error from None
