"""The listening sockets (TCP ports, the unix socket), and the files that exist while a server runs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...commands.runtime.client import Client
from ...commands.runtime.state import POSTPONED
from ...storage import system
from ..event_loop import has_sockets
from .connection import Connection
from .peer import address_of

if TYPE_CHECKING:
    from ..server import Server
    from .tls_channel import SecureChannel

    Wire: TypeAlias = Connection | SecureChannel  # receives the bytes of a socket

# Rounds of the event loop until an accepted client has its transport. Not a time, because any is too short on a busy machine.
_TURNS_TO_ARRIVE: Final = 10
_PORT_TAKEN: Final = " (another server has it; --port chooses another, --port 0 a free one)"


def _bound(address: str, port: int, backlog: int) -> list[socket.socket]:
    """Return sockets that listen on an address, or on all addresses of a name.

    The loop is not used for this, because it looks up addresses like names. That would leave four threads and a codec, half
    a megabyte in all, in a server that never looks up anything else.

    Raises OSError with the system's text; nothing listens.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    places: list[Any] = [(address, port)]
    try:
        socket.inet_pton(family, address)
    except OSError:  # a name, or an address with a zone
        found = socket.getaddrinfo(address, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        places = list(dict.fromkeys(each[4] for each in found))
    bound: list[socket.socket] = []
    try:
        for place in places:
            bound.append(socket.socket(family))
            if system.HERE.reuses_addresses:
                bound[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound[-1].bind(place)
            bound[-1].listen(backlog)  # clients may connect before the loop accepts
            bound[-1].setblocking(False)
    except OSError:
        for sock in bound:
            sock.close()
        raise
    return bound


class SharedLoopConnection(Connection):
    """A connection of a server in a test's loop: input wakes the cron, and the network may be simulated."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement ``Connection.connection_made``, and name the client after its simulated host (``naming``)."""
        super().connection_made(transport)
        naming = self.server.listeners.naming
        if naming is not None:
            self.name = naming(self.address)
        self.server.cron.wake()

    def data_received(self, data: bytes) -> None:
        """Implement ``Connection.data_received``, and wake the cron."""
        super().data_received(data)
        self.server.cron.wake()

    def _take_addresses(self) -> None:
        if has_sockets(self.server.loop):
            super()._take_addresses()
        elif self.transport is not None:
            self.address = address_of(self.transport.get_extra_info("peername"))
            self.local_address = address_of(self.transport.get_extra_info("sockname"))


class Listeners:
    """The listening sockets of one server, and its unix socket and pidfile."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # Each listening socket, with the protocol factory for its clients.
        self.doors: list[tuple[asyncio.Server, Callable[[], Wire]]] = []
        # The path that the unix socket is bound to, and the name of its connections; "" without a unix socket.
        self.unix_place = ""
        self.shaking_hands: set[SecureChannel] = set()  # TLS clients that have not completed their handshake
        # Clients that the loop has accepted and gives a transport in a later round. Until then nothing can read from
        # them, not even ``server/net/busy_script``, so a script that may be slow waits for them.
        self.arriving: set[Wire] = set()
        self._postponed: list[Connection] = []
        self._waiting: asyncio.Handle | None = None
        self._tls: ssl.SSLContext | None = None
        self._files: list[Path] = []  # the unix socket and the pidfile, once created
        self._bound: list[tuple[socket.socket, bool]] = []  # sockets that do not accept yet; True: for TLS
        self._tcp: set[asyncio.Server] = set()  # the listeners of `doors` that CONFIG SET may move
        # (port, bind, tls-port); None before `open`
        self._place: tuple[int, tuple[str, ...], int] | None = None
        self._accepting: asyncio.Task[None] | None = None

        # Returns the initial name of a client in a shared loop, by its address.
        self.naming: Callable[[bytes], bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self.doors)

    async def open(self) -> bool:
        """Listen as configured and write the pidfile; return False if that fails (the log says why).

        Port 0 chooses a free port and sets ``config.port`` to it; with a tls-port, port 0 means no plain port.
        """
        config = self._server.config
        if self._server.shares_loop:
            return await self._open_in_shared_loop()
        if not config.tls_port or config.port:
            port = self._bind(config.port)
            if port is None:
                self._server.log.warning(f"Failed listening on port {config.port} (tcp), aborting.")
                return False
            config.port = port
        if config.tls_port:
            if not self._prepare_tls():
                self._server.log.warning("Failed to configure TLS. Check logs for more info.")
                return False
            if self._bind(config.tls_port, secure=True) is None:
                self._server.log.warning(f"Failed listening on port {config.tls_port} (tls), aborting.")
                return False
        await self._accept()
        if not await self._open_unix():
            return False
        if not self.doors:
            self._server.log.warning("Configured to not listen anywhere, exiting.")
            return False
        self._leave_files()
        self._place = self._configured()
        return True

    def move(self, refusal: str) -> None:
        """After CONFIG SET port, bind or tls-port, listen at the new addresses; connections stay. Port 0 means none.

        As in Redis, the old sockets close first, so that an address may replace ``*``.

        Raises ValueError: ``refusal``; the log says why. Nothing listens then, until the old values are restored.
        """
        config, place = self._server.config, self._configured()
        if self._place is None or self._place == place:
            return
        self._place = place
        if self._server.shares_loop:
            self._server.log.warning("A server in the event loop of a test listens where it was started")
            raise ValueError(refusal)
        for door in self.doors:
            if door[0] in self._tcp:
                self._shut(door[0])
        self.doors = [door for door in self.doors if door[0] not in self._tcp]
        self._tcp.clear()
        for sock, _ in self._bound:
            sock.close()
        self._bound.clear()
        if config.port and self._bind(config.port) is None:
            raise ValueError(refusal)
        if config.tls_port and not (self._prepare_tls() and self._bind(config.tls_port, secure=True)):
            raise ValueError(refusal)
        self._accepting = self._server.loop.create_task(self._accept())

    def _configured(self) -> tuple[int, tuple[str, ...], int]:
        config = self._server.config
        return config.port, config.bind, config.tls_port

    def _prepare_tls(self) -> bool:
        from .tls_context import TlsError, server_context

        try:
            self._tls = server_context(self._server.config)
        except TlsError as error:
            self._server.log.warning(str(error))
            return False
        return True

    def _bind(self, port: int, *, secure: bool = False) -> int | None:
        """Listen on a port of each address of ``bind``; return the port, or None if that fails (the log says why)."""
        server, config = self._server, self._server.config
        bound: list[socket.socket] = []
        for host in config.bind:
            name = host.removeprefix("-")
            address = {"*": "0.0.0.0", "::*": "::"}.get(name, name)  # noqa: S104 - what the user asked for
            try:
                bound += _bound(address, port, config.tcp_backlog)
            except OSError as error:
                if host.startswith("-"):
                    continue
                hint = _PORT_TAKEN if error.errno == errno.EADDRINUSE else ""
                server.log.warning(
                    f"Warning: Could not create server TCP listening socket {name}:{port}: bind: {error.strerror}{hint}"
                )
                for sock in bound:
                    sock.close()
                return None
            port = port or bound[-1].getsockname()[1]
        self._bound += [(sock, secure) for sock in bound]
        return port

    async def _open_in_shared_loop(self) -> bool:
        """Listen with ``create_server(factory, host, port)``, which simulated networks also offer."""
        server, config = self._server, self._server.config

        def meet() -> Wire:
            return self._expect(SharedLoopConnection(server))

        for name in config.bind:
            try:
                listener = await server.loop.create_server(meet, name, config.port)
            except OSError as error:
                server.log.warning(
                    f"Warning: Could not create server TCP listening socket {name}:{config.port}: {error}"
                )
                return False
            self.doors.append((listener, meet))
            config.port = config.port or listener.sockets[0].getsockname()[1]
        self._leave_files()
        self._place = self._configured()
        return True

    async def _accept(self) -> None:
        """Let the loop accept the clients of the bound sockets."""
        server = self._server

        def meet() -> Wire:
            return self._expect(Connection(server))

        def meet_securely() -> Wire:
            from .tls_channel import SecureChannel

            assert self._tls is not None
            return self._expect(SecureChannel(server, self._tls, Connection(server)))

        while self._bound:
            sock, secure = self._bound.pop(0)
            factory = meet_securely if secure else meet
            listener = await server.loop.create_server(factory, sock=sock, backlog=server.config.tcp_backlog)
            self.doors.append((listener, factory))
            self._tcp.add(listener)

    @staticmethod
    def _shut(listener: asyncio.Server) -> None:
        """Stop listening at once; the loop alone might close the socket only in its next round."""
        for sock in listener.sockets:
            # Not every system can shut down a listening socket.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(sock.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        listener.close()

    def update_tls(self) -> None:
        """Apply the current ``tls-*`` directives to new connections.

        Raises ValueError: they cannot be applied; the log says why.
        """
        if self._tls is not None:
            from .tls_context import TlsError, configure_server, server_context

            try:
                server_context(self._server.config)  # checks everything before the context in use changes
                configure_server(self._tls, self._server.config)
            except TlsError as error:
                self._server.log.warning(str(error))
                raise ValueError("Unable to update TLS configuration. Check server logs.") from None

    async def _open_unix(self) -> bool:
        server, path = self._server, self._socket_path()
        if not path:
            return True
        if not system.HERE.has_unix_sockets:
            server.log.warning("Failed opening Unix socket: this system has none")
            return False
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - ruff takes pathlib for blocking I/O here

            def meet() -> Wire:
                return self._expect(Connection(server, unix_socket=True))

            self.doors.append((await server.loop.create_unix_server(meet, path), meet))
            self.unix_place = path
        except OSError as error:
            server.log.warning(f"Failed opening Unix socket: bind: {error.strerror}")
            return False
        return True

    def _socket_path(self) -> str:
        """Return the shorter path form of the unix socket, as systems limit it to some 100 bytes; "" without one."""
        path = self._server.config.in_dir(self._server.config.unixsocket)
        return min(path, os.path.relpath(path), key=len) if path else ""

    def _leave_files(self) -> None:
        config = self._server.config
        if config.unixsocket:
            path = Path(config.in_dir(config.unixsocket))
            self._files.append(path)
            if config.unixsocketperm:
                path.chmod(config.unixsocketperm)
        if config.pidfile:
            path = Path(config.in_dir(config.pidfile))
            try:
                path.write_text(f"{os.getpid()}\n", encoding="ascii")
            except OSError as error:
                self._server.log.warning(f"Failed to write PID file: {error.strerror}")
            else:
                self._files.append(path)

    # Arriving clients

    def _expect(self, wire: Wire) -> Wire:
        if not self.arriving:
            self._server.dispatcher.check_scripts(needed=True)
        self.arriving.add(wire)
        return wire

    def welcome(self, wire: Wire) -> None:
        """Remove a client from ``arriving`` once it has its transport.

        After the last one, run the postponed scripts.
        """
        if wire in self.arriving:
            self.arriving.remove(wire)
            if not self.arriving:
                self._all_are_here()

    def postpone(self, client: Client) -> bool:
        """Postpone the client's command until no client is ``arriving``; return False if the client has no connection."""
        if not isinstance(client, Connection):
            return False
        client.wait(POSTPONED)
        if not self._postponed:
            self._wait(_TURNS_TO_ARRIVE)
        self._postponed.append(client)
        return True

    async def all_here(self) -> None:
        """Wait until no client is ``arriving``, for at most `_TURNS_TO_ARRIVE` rounds of the event loop.

        Then stop waiting for the clients that have not connected, and run the postponed commands.
        """
        for _ in range(_TURNS_TO_ARRIVE):
            if not self.arriving:
                return
            await asyncio.sleep(0)
        self._all_are_here()

    def _wait(self, turns: int) -> None:
        """Limit the wait to some turns, because a client whose socket fails before it has a transport never arrives."""
        self._waiting = self._server.loop.call_soon(self._wait_on, turns - 1)

    def _wait_on(self, turns: int) -> None:
        if turns:
            self._wait(turns)
        else:
            self._all_are_here()

    def _all_are_here(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self.arriving.clear()
        self._server.dispatcher.check_scripts(needed=False)
        postponed, self._postponed = self._postponed, []
        for client in postponed:
            client.end_wait()
            # Run it now, because other clients may be arriving in the next round of the event loop.
            client.take_turn()

    def close(self) -> None:
        """Close the listening sockets, so that no new client is accepted."""
        for listener, _ in self.doors:
            listener.close()

    def remove_files(self) -> None:
        """Remove the unix socket and the pidfile."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()
