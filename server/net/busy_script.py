"""Serve other clients during a slow script.

A script runs to its end on the thread of the event loop, which makes it atomic and blocks the loop. Once it has run longer
than ``busy-reply-threshold``, the interpreter's hook calls this module about every millisecond of Lua. The module polls the
sockets itself and passes received bytes to the connections as usual. Most commands get the error BUSY; those with the flag
``allow_busy``, such as SCRIPT KILL, run (``server/execution/checks``). New clients are accepted the same way, and handed to
the loop after the script.

Other clients see nothing of the script's unfinished unit: its effects, the keys that it made ready and its time are set
aside while they are served. The client that runs the script, and replicas, are not served. The first SIGTERM or SIGINT
ends a script that has not written yet; a second one ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from ...commands.runtime.state import AWAITING_TURN, CLOSING
from ...commands.scripting.lua.script_kill import BUSY_FUNCTION, BUSY_SCRIPT, stop_script
from ..server import Server
from .connection import Connection
from .held_replies import ALWAYS, UNSCHEDULED
from .tls_channel import SecureChannel

if TYPE_CHECKING:
    from ...commands.scripting.lua.script_run import Run

    Wire = Connection | SecureChannel  # receives the bytes of a socket

_READ_AT_ONCE: Final = 1 << 16


@contextlib.contextmanager
def _lent(fd: int) -> Iterator[socket.socket]:
    """Lend a socket object for a descriptor, which stays open; on Windows only socket objects can read and write it."""
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)  # else socket.setdefaulttimeout of the process would make it wait
    try:
        yield sock
    finally:
        sock.detach()


class DirectTransport:
    """Replaces the transport of a connection while the loop is blocked, and writes immediately.

    Args:
        real: the transport that it replaces; None for a client accepted during the script.
        sock: the socket of such a client.
    """

    def __init__(self, fd: int, real: asyncio.Transport | None, sock: socket.socket | None = None) -> None:
        self.fd = fd
        self.real = real
        self.sock = sock
        self.unsent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        """Send as much as the socket accepts now; the rest is sent when the loop runs again."""
        if self.real is not None and self.real.get_write_buffer_size():
            self.real.write(data)
            return
        if not self.unsent:
            try:
                with _lent(self.fd) as sock:
                    data = data[sock.send(data) :]
            except BlockingIOError:
                pass
            except OSError:
                return  # closed: the loop notices that later
        if self.real is not None and data:
            self.real.write(data)
        else:
            self.unsent += data

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return self.real.get_write_buffer_size() if self.real is not None else len(self.unsent)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Implement ``asyncio.Transport.get_extra_info``."""
        if self.real is not None:
            return self.real.get_extra_info(name, default)
        assert self.sock is not None
        if name == "peername":
            return self.sock.getpeername()
        if name == "sockname":
            return self.sock.getsockname()
        return self.sock if name == "socket" else default

    def is_closing(self) -> bool:
        """Return True if the connection takes no more data."""
        return self.closed or (self.real is not None and self.real.is_closing())

    def close(self) -> None:
        """Close the connection after the script, once everything is sent."""
        self.closed = True
        if self.real is not None:
            self.real.close()

    def abort(self) -> None:
        """Close without sending the unsent bytes."""
        self.unsent = b""
        self.closed = True
        if self.real is not None:
            self.real.abort()

    def pause_reading(self) -> None:
        """After the script, do not let the loop read from the socket; unread bytes stay there."""
        if self.real is not None:
            self.real.pause_reading()

    def resume_reading(self) -> None:
        """After the script, let the loop read from the socket."""
        if self.real is not None:
            self.real.resume_reading()


def _wire_of(connection: Connection) -> Wire:
    return connection.transport if isinstance(connection.transport, SecureChannel) else connection


@contextlib.contextmanager
def _directly(wire: Wire, fd: int) -> Iterator[None]:
    """Let a client write to its socket without the loop."""
    transport = wire.transport
    if transport is None or isinstance(transport, DirectTransport):
        yield
        return
    wire.transport = cast("asyncio.Transport", DirectTransport(fd, transport))
    try:
        yield
    finally:
        if wire.transport is not None:
            wire.transport = transport


class _Successor(asyncio.Protocol):
    """Connects a client that was accepted during a script to the loop's transport."""

    def __init__(self, wire: Wire, before: DirectTransport) -> None:
        self._wire = wire
        self._before = before

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        real = cast("asyncio.Transport", transport)
        self._wire.transport = real
        real.set_protocol(self._wire)
        if self._before.unsent:
            real.write(self._before.unsent)


class Busy:
    """Serves all other clients while a script of one server is slow."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._run: Run | None = None
        self._selector: selectors.BaseSelector | None = None
        self._doors: list[socket.socket] = []
        self._guests: list[tuple[Wire, DirectTransport]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # One poll

    def serve(self, run: Run) -> None:
        """Accept waiting clients, read from all sockets and run what they sent.

        The interpreter calls this during a slow script.

        ``run``: the running script.
        """
        if self._run is not run:
            self._begin(run)
        assert self._selector is not None
        ready = self._selector.select(0)
        server = self._server
        lend = getattr(server.loop, "lend", None)  # only loops that other threads share have it
        if not ready and not server.turns.waiting and lend is None:
            return
        keyspace, clock, propagation = server.keyspace, server.clock, server.propagation
        now, tick, keys_ready = keyspace.now, clock.now, keyspace.ready
        caller, current, replies = server.current_client, server.calls.current, server.replies
        at_once, since = replies.at_once, replies.since
        effects = propagation.set_aside()
        own, server.tracking.own = server.tracking.own, []
        keyspace.ready = {}
        # Send at once: no reply sent here confirms a change that must be on the disk.
        replies.at_once, replies.since = ALWAYS, UNSCHEDULED
        server.busy_error = BUSY_FUNCTION if run.is_function else BUSY_SCRIPT
        server.update_checks()
        try:
            for key, _ in ready:
                key.data(key.fd)
            self._give_turns(run)
            if lend is not None:
                lend()
        finally:
            server.busy_error = None
            server.update_checks()
            replies.at_once, replies.since = at_once, since
            keyspace.now, clock.now, keyspace.ready = now, tick, keys_ready
            propagation.take_back(effects)
            server.tracking.own = own
            server.current_client, server.calls.current = caller, current

    def _read(self, wire: Wire, fd: int) -> None:
        assert self._selector is not None
        transport = wire.transport
        connection = wire.connection if isinstance(wire, SecureChannel) else wire
        if connection.state is AWAITING_TURN or self._server.replies.is_held(connection):
            return  # its turn or its held replies come first; until then its input stays in the socket
        try:
            with _lent(fd) as sock:
                data = sock.recv(_READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or transport is None:
            self._selector.unregister(fd)  # the loop will also notice the end
            return
        with _directly(wire, fd):
            wire.data_received(data)
        if wire.state is CLOSING or transport.is_closing():
            self._selector.unregister(fd)

    def _give_turns(self, run: Run) -> None:
        """Run queued connections for a slice of time each, as ``server/execution/turns`` would in the loop."""
        server = self._server
        waiting = server.turns.waiting
        for _ in range(len(waiting)):
            connection = cast("Connection", waiting.popleft())
            if self._is_left_alone(connection, run):
                waiting.append(connection)
            else:
                with _directly(_wire_of(connection), connection.fd):
                    connection.take_turn()

    def _is_left_alone(self, client: Connection, run: Run) -> bool:
        return client is run.caller or client.replica is not None or self._server.replies.is_held(client)

    def _accept(self, door: socket.socket, meet: Callable[[], Wire], _fd: int) -> None:
        assert self._selector is not None
        try:
            sock, _ = door.accept()
        except OSError as error:
            self._server.exhaustion.note(error, self._server.loop.time())
            return
        sock.setblocking(False)
        wire, transport = meet(), DirectTransport(sock.fileno(), None, sock)
        self._guests.append((wire, transport))
        wire.connection_made(cast("asyncio.Transport", transport))
        if wire.state is not CLOSING:
            self._watch(sock.fileno(), partial(self._read, wire))

    # Beginning and end

    def _watch(self, fd: int, act: Callable[[int], None]) -> None:
        assert self._selector is not None
        self._selector.register(fd, selectors.EVENT_READ, act)

    def _begin(self, run: Run) -> None:
        """Register all sockets, because a script has become slow."""
        server = self._server
        self._leave()  # of an earlier slow script in the same round of the event loop
        self._run = run
        server.replies.release_early()
        self._selector = selectors.DefaultSelector()
        server.loop.call_soon(self._leave)
        for listener, meet in server.listeners.doors:
            for known in listener.sockets:
                with _lent(known.fileno()) as sock:
                    door = sock.dup()
                self._doors.append(door)
                self._watch(door.fileno(), partial(self._accept, door, meet))
        for dormant in list(server.clients.dormant):
            dormant.wake()
        for client in [*server.clients.values(), *server.clients.controls]:
            if (
                isinstance(client, Connection)
                and not self._is_left_alone(client, run)
                and client.fd >= 0
                and client.transport is not None
                and not client.transport.is_closing()
            ):
                self._watch(client.fd, partial(self._read, _wire_of(client)))
        for channel in server.listeners.shaking_hands:
            if not channel.is_closing():
                self._watch(channel.get_extra_info("socket").fileno(), partial(self._read, channel))

    def _leave(self) -> None:
        """Hand all clients back to the loop, which runs again."""
        if self._selector is None:
            return
        self._selector.close()
        self._selector = self._run = None
        for door in self._doors:
            door.close()
        self._doors.clear()
        guests, self._guests = self._guests, []
        for wire, transport in guests:
            assert transport.sock is not None
            if wire.state is CLOSING or transport.closed:
                transport.sock.close()
                wire.connection_lost(None)
            else:
                task = self._server.loop.create_task(self._hand_over(wire, transport))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _hand_over(self, wire: Wire, transport: DirectTransport) -> None:
        """Connect a client that was accepted during the script to the loop's transport."""
        assert transport.sock is not None
        await self._server.loop.connect_accepted_socket(lambda: _Successor(wire, transport), transport.sock)

    # Signals

    def note_signal(self, number: int) -> None:
        """After a shutdown signal, stop a slow script that has not written; if it has, log that the shutdown must wait."""
        run = self._run
        if run is None:
            return
        if run.wrote:
            self._server.log.warning(
                f"Received {signal.Signals(number).name}, but a slow script that has already written is running. "
                "The server waits for it; a second signal ends the server immediately."
            )
        else:
            stop_script(self._server.scripting.run)
