"""The link to our master: connect, load its snapshot, follow its stream, reconnect.

The stream is applied in units: a command, or a transaction as a whole. They run like the commands of a client with every
permission, and are forwarded byte for byte to our own replicas. The offset moves by whole units, so a transaction that
was cut off with the connection is requested again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import traceback
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import CLOSING
from ...protocol import replies
from ...protocol.errors import ReplyError, wrong_arity
from ...protocol.regex import regex
from ..net.peer import address_of
from .snapshot_receiver import SnapshotReceiver, load_snapshot
from .state import Replication
from .stream_reader import LostPlaceError, StreamError, UnitReader

# The states as ROLE names them.
CONNECT: Final = "connect"
CONNECTING: Final = "connecting"
HANDSHAKE: Final = "handshake"
SYNC: Final = "sync"
CONNECTED: Final = "connected"

_READ: Final = 1 << 18
_LONGEST_PAUSE: Final = 1.0  # seconds between two attempts
_FIRST_PAUSE: Final = 0.05
_ID: Final = 40  # characters of a replication ID
_OFFSET: Final = regex(rb"0|[1-9][0-9]{0,17}")
_READS_FILES_OF: Final = b"9.0.0"  # only Valkey uses it: it writes field expiries for its 9.0 or later
_SHOWN: Final = 80  # bytes of a reply that the log shows
_OF_THE_LINK: Final = frozenset((b"REPLCONF", b"MULTI", b"EXEC", b"PING"))


class LinkError(Exception):
    """The link to the master cannot continue; the text says why."""


class MasterClient(Client):
    """The internal client for the master's commands: they need no permissions and get no reply."""

    __slots__ = ("link",)

    def __init__(self, link: MasterLink) -> None:
        server = link.server
        super().__init__(server, server.clients.next_id())
        self.link = link
        self.trusted = self.replays = True
        self.authenticated = True
        self.address = f"{link.host}:{link.port}".encode()
        self.update_state()

    def close(self, *, after_reply: bool = True) -> None:
        """CLIENT KILL of the master: drop the link, which then reconnects."""
        del after_reply
        self.begin_to_close()
        self.link.server.clients.forget(self)
        self.link.drop()


class MasterLink:
    """The link to one master."""

    def __init__(
        self, replication: Replication, host: str, port: int, *, can_continue: bool, database: int
    ) -> None:
        self.replication = replication
        self.server = replication.server
        self.host = host
        self.port = port
        self.state = CONNECT  # state of the link, in the words of ROLE
        # The master as a client, while we follow its stream; its selected database is the stream's.
        self.client: MasterClient | None = None
        self.receiver: SnapshotReceiver | None = None  # the snapshot that is being received, for INFO
        self.last_io = 0.0  # when data last arrived from the master, in seconds of the event loop
        # When the link was established or lost; None before the first time.
        self.changed_at: float | None = None
        # Number of attempts to connect since the link was last lost, and to this master in all.
        self.attempts = self.attempts_in_all = 0
        self.seconds_down = 0.0  # how long the link was down in all, without the current outage
        # Offset up to which our append-only file has the stream on the disk; -1 before it has any.
        self.on_disk = -1
        # The data matches the history at our offset; if False, the link requests a full resync.
        self.can_continue = can_continue
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._units = UnitReader()
        self.applied = 0  # bytes of the stream that are applied but not forwarded to our replicas yet

    @property
    def is_connected(self) -> bool:
        """Whether the link follows the master's stream."""
        return self.state == CONNECTED

    @property
    def read_offset(self) -> int:
        """Offset up to which the stream has been received, applied or not."""
        return self.replication.offset + self._units.waiting

    @property
    def is_held(self) -> bool:
        """Whether a received unit waits for the end of a pause before it is applied."""
        return self._units.holds_unit

    @property
    def database(self) -> int:
        """Index of the database that the stream has selected."""
        return self._database if self.client is None else self.client.db.index

    # Life

    def start(self) -> None:
        """Start a task that connects, follows the master and reconnects."""
        self._task = self.server.loop.create_task(self._run())

    def stop(self) -> None:
        """Close the link for good: it does not reconnect."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._forget_client()
        self.drop()

    def drop(self) -> None:
        """Abort the connection; the link then reconnects, unless ``stop`` was called."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _run(self) -> None:
        pause = 0.0
        log = self.server.log
        while True:
            try:
                await self._session()
            except (OSError, LinkError, StreamError, EOFError, TimeoutError) as error:
                if isinstance(error, LostPlaceError):
                    self.can_continue = False
                if self.state == CONNECTED:
                    self.changed_at = self.server.loop.time()
                    self.attempts = 0
                    log.warning(f"Connection with master lost: {error}")
                    pause = 0.0
                else:
                    log.warning(f"MASTER <-> REPLICA sync: {error or type(error).__name__}")
            except Exception:  # noqa: BLE001 - a bug of ours must not end the link permanently
                log.warning("Internal error in the link to the master:", details=traceback.format_exc())
                self.can_continue = False
            finally:
                self._end_session()
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)

    def _end_session(self) -> None:
        self.state = CONNECT
        self.receiver = None
        self._units = UnitReader()
        self._forget_client()
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        self.server.update_checks()

    def _forget_client(self) -> None:
        if self.client is not None:
            self._database = self.database
            self.server.clients.forget(self.client)
            self.client = None

    def _tls(self) -> ssl.SSLContext | None:
        if not self.server.config.tls_replication:
            return None
        from ..net.tls_context import TlsError, client_context

        try:
            return client_context(self.server.config)
        except TlsError as error:
            raise LinkError(str(error)) from None

    async def _session(self) -> None:
        server = self.server
        self.state = CONNECTING
        self.attempts += 1
        self.attempts_in_all += 1
        server.log.notice(f"Connecting to MASTER {self.host}:{self.port}")
        secure = self._tls()
        source = (server.config.bind_source_addr, 0) if server.config.bind_source_addr else None
        # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the connection, and the link never ends.
        async with asyncio.timeout(server.config.repl_timeout):
            reader, writer = await asyncio.open_connection(
                self.host, self.port, limit=_READ, local_addr=source, ssl=secure
            )
        self._writer = writer
        sock = writer.get_extra_info("socket")
        if sock is not None and not server.config.repl_disable_tcp_nodelay:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.last_io = server.loop.time()
        self.state = HANDSHAKE
        server.log.notice("MASTER <-> REPLICA sync started")
        await self._introduce(reader)
        await self._synchronize(reader)
        await self._follow(reader)

    # Handshake

    async def _introduce(self, reader: asyncio.StreamReader) -> None:
        config = self.server.config
        answer = await self._ask(reader, b"PING")
        if not answer.startswith((b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")):
            raise LinkError(f"Error reply to PING from master: {_text(answer[:_SHOWN])}")
        if config.masterauth:
            user = [config.masteruser] if config.masteruser else []
            answer = await self._ask(reader, b"AUTH", *user, config.masterauth)
            if answer.startswith(b"-"):
                raise LinkError(f"Unable to AUTH to MASTER: {_text(answer)}")
        own = config.tls_port if config.tls_replication else config.port
        port = config.replica_announce_port or own
        await self._announce(reader, b"listening-port", b"%d" % port)
        if config.replica_announce_ip:
            await self._announce(reader, b"ip-address", config.replica_announce_ip.encode())
        mine = b"rillet-" + self.server.compat.version.encode()
        await self._announce(reader, b"capa", b"eof", b"capa", b"psync2", b"capa", mine)
        await self._announce(reader, b"version", _READS_FILES_OF)

    async def _announce(self, reader: asyncio.StreamReader, *words: bytes) -> None:
        """Send REPLCONF; a master that does not know it may refuse it."""
        answer = await self._ask(reader, b"REPLCONF", *words)
        if answer.startswith(b"-"):
            self.server.log.verbose(
                f"(Non critical) Master does not understand REPLCONF {words[0].decode()}: {_text(answer)}"
            )

    async def _ask(self, reader: asyncio.StreamReader, *argv: bytes) -> bytes:
        self._send(replies.command(argv))
        return await self._line(reader)

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        """Return the next line, skipping the empty lines that a master sends to keep the link alive."""
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # the reader keeps no more than _READ bytes
                raise LinkError("Bad protocol from MASTER: a line without an end") from None
            if not line.endswith(b"\n"):
                raise LinkError("the master closed the connection")
            self.last_io = self.server.loop.time()
            if line.strip():
                return line.strip()

    async def _read(self, reader: asyncio.StreamReader, count: int) -> bytes:
        """Read at most ``count`` bytes."""
        data = await reader.read(count)
        if not data:
            raise LinkError("the master closed the connection")
        self.last_io = self.server.loop.time()
        return data

    def _send(self, data: bytes) -> None:
        assert self._writer is not None
        if not self._writer.transport.is_closing():  # otherwise the next read ends the session
            self._writer.write(data)

    async def _synchronize(self, reader: asyncio.StreamReader) -> None:
        replication = self.replication
        log = self.server.log
        if self.can_continue:
            known, offset = replication.id.encode(), replication.offset + 1
            log.notice(f"Trying a partial resynchronization (request {replication.id}:{offset}).")
        else:
            known, offset = b"?", -1
            log.notice("Full resync forced: nothing to continue from")
        takes_over = [b"FAILOVER"] if replication.failover.active else []
        answer = await self._ask(reader, b"PSYNC", known, b"%d" % offset, *takes_over)
        words = answer.split()
        if takes_over and replication.failover.active:
            if words[0] not in {b"+CONTINUE", b"+FULLRESYNC"}:
                log.warning(f"Failover target replied to PSYNC: {_text(answer[:_SHOWN])}")
                replication.failover.abort("Failover target rejected psync request")
                raise LinkError("this server remains the master")
            replication.failover.finish()
        if words[0] == b"+CONTINUE":
            if not self.can_continue:
                raise LinkError("Bad protocol from MASTER: it continues a stream that was not asked for")
            has_id = len(words) > 1 and len(words[1]) == _ID
            self._continue(words[1].decode("latin-1") if has_id else replication.id)
        elif words[0] == b"+FULLRESYNC":
            if len(words) != 3 or len(words[1]) != _ID or not _OFFSET().fullmatch(words[2]):
                raise LinkError(f"Master replied with wrong +FULLRESYNC syntax: {_text(answer[:_SHOWN])}")
            self.state = SYNC
            log.notice(f"Full resync from master: {_text(words[1])}:{_text(words[2])}")
            await self._take_snapshot(reader, words[1].decode("latin-1"), int(words[2]))
        else:
            raise LinkError(f"Master replied to PSYNC: {_text(answer[:_SHOWN])}")

    def _continue(self, history: str) -> None:
        replication = self.replication
        self.server.log.notice("Successful partial resynchronization with master.")
        if history != replication.id:
            replication.begin_second_history(history)
            self.server.log.notice(f"Master replication ID changed to {history}")
            replication.replicas.disconnect_all()
        replication.open_backlog()

    async def _take_snapshot(self, reader: asyncio.StreamReader, history: str, offset: int) -> None:
        persistence = self.server.persistence
        with self._temporary_file() as file:
            self.receiver = SnapshotReceiver(await self._line(reader))
            how = "with EOF" if self.receiver.total < 0 else f"{self.receiver.total} bytes"
            self.server.log.notice(f"MASTER <-> REPLICA sync: receiving {how} from master to disk")
            await self.receiver.copy(partial(self._read, reader), file)
            file.seek(0)
            appends = persistence.aof is not None
            if appends:
                persistence.switch_off()  # it would record changes to data that is being replaced
            try:
                self._database = await load_snapshot(self.server, file)
                self.replication.adopt(history, offset)
                self.can_continue = True
            finally:
                # DEBUG RESET may have opened another one.
                if appends and persistence.aof is None and not self.server.stopping:
                    persistence.switch_on()
        self.server.log.notice("MASTER <-> REPLICA sync: Finished with success")

    @contextlib.contextmanager
    def _temporary_file(self) -> Iterator[BinaryIO]:
        """Open a file in the server's folder that does not stay behind, however the server ends."""
        import tempfile

        handle, path = tempfile.mkstemp(
            prefix=f"temp-sync-{os.getpid()}-", suffix=".rdb", dir=self.server.config.dir
        )
        try:
            with os.fdopen(handle, "w+b") as file:
                with contextlib.suppress(OSError):  # Windows keeps the name of an open file
                    os.unlink(path)  # noqa: PTH108 - one call
                yield file
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - one call

    # The stream

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        server = self.server
        self._units = UnitReader()
        self.applied = 0
        self.client = MasterClient(self)
        assert self._writer is not None
        self.client.local_address = address_of(self._writer.get_extra_info("sockname"))
        self.client.db = server.keyspace.databases[self._database]
        server.clients[self.client.id] = self.client
        self.state = CONNECTED
        now = server.loop.time()
        if self.changed_at is not None:
            self.seconds_down += now - self.changed_at
        self.changed_at = now
        server.update_checks()
        self.acknowledge()
        while True:
            data = await self._read(reader, _READ)
            self.client.net_in += len(data)
            self._units.feed(data)
            self._apply()
            await asyncio.sleep(0)  # the reader may have more, and other clients need their turn

    def _apply(self) -> None:
        server = self.server
        client = self.client
        assert client is not None
        server.keyspace.now = client.last_interaction = server.clock.tick()
        server.current_client = client
        # The master alone decides what has expired: its commands still find keys whose expiry has passed.
        server.keyspace.expiring = False
        self.applied = 0
        try:
            for unit, size in self._units.take():
                if self.server.pause.concerns_unit(client, unit):
                    self._units.put_back(unit, size)
                    break
                self._run_unit(client, unit)
                self.applied += size
                if client.state is CLOSING:  # the next link requests the rest
                    break
        finally:
            server.keyspace.expiring = True
            server.current_client = None
            done, self.applied = self.applied, 0
            if done:
                self.replication.feed(self._units.forward(done))
        server.finish_unit()

    def end_pause(self) -> None:
        """After a pause, schedule to apply what was received during it."""
        if self.state == CONNECTED:
            self.server.loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        if self.state != CONNECTED:
            return
        try:
            self._apply()
        except Exception:
            self.drop()  # the next link requests the rest, and handles the error if it recurs
            raise

    def _run_unit(self, client: MasterClient, unit: list[list[bytes]]) -> None:
        server = self.server
        for argv in unit:
            client.total_commands += 1
            if argv[0].upper() in _OF_THE_LINK:
                self._mind(client, argv)
                continue
            try:
                entry = server.dispatcher.find(argv)
                if not entry.minimum <= len(argv) <= entry.maximum:
                    raise wrong_arity(entry.name)
            except ReplyError as error:
                self._complain(argv, error.encoded)
                continue
            client.last_command = entry.name
            reply = server.calls.call(client, entry, argv)
            if reply is not None and reply.startswith(b"-"):
                self._complain(argv, reply)
        server.keyspace.expiring = True  # for the clients that the unit wakes
        server.calls.end_unit(client)
        server.keyspace.expiring = False

    def _mind(self, client: MasterClient, argv: list[bytes]) -> None:
        """Count a command that changes nothing, because a unit is applied as a whole; acknowledge if it is GETACK."""
        with contextlib.suppress(ReplyError):  # rename-command has another name for it
            entry = self.server.dispatcher.find(argv)
            entry.calls += 1
            client.last_command = entry.name
        if argv[0].upper() == b"REPLCONF" and argv[1:2] and argv[1].upper() == b"GETACK":
            self.acknowledge()

    def _complain(self, argv: list[bytes], reply: bytes) -> None:
        self.server.stats.unexpected_errors += 1
        self.server.log.warning(
            f"== CRITICAL == This replica could not apply a command of its master: {_text(reply.strip())} "
            f"after processing the command '{_text(argv[0])}'"
        )

    # Acknowledgements, every second

    def acknowledge(self) -> None:
        """Send the master our offset, and that of our append-only file if there is one.

        The file is written first: the master's clients in WAIT rely on what a replica still has after it is killed.
        """
        if self._writer is None or self.state != CONNECTED or not self.server.persistence.write_now():
            return
        offset = self.replication.offset + self.applied
        words = [b"REPLCONF", b"ACK", b"%d" % offset]
        aof = self.server.persistence.aof
        if aof is not None:
            if aof.is_on_disk:
                self.on_disk = offset
            words += [b"FACK", b"%d" % max(self.on_disk, 0)]
        self._send(replies.command(words))

    def cron(self) -> None:
        """Send an acknowledgement, and drop the connection after repl-timeout without data; called once a second."""
        now = self.server.loop.time()
        loads = self.state == SYNC and self.receiver is not None and self.receiver.is_complete
        if self._writer is not None and not loads and now - self.last_io > self.server.config.repl_timeout:
            self.server.log.warning("MASTER timeout: no data nor PING received...")
            self.drop()
            return
        if self.state == CONNECTED:
            self.acknowledge()
        elif loads:
            self._send(b"\n")  # keeps the link alive while we load


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
