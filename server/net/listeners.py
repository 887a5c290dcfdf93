"""The listening sockets: TCP ports, the unix socket; and the files of a living server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...commands.runtime.state import POSTPONED
from ...storage import system
from .connection import Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ...commands.runtime.client import Client
    from ..server import Server
    from .tls_channel import SecureChannel

    Wire = Connection | SecureChannel  # receives the bytes of a socket: a connection, or its TLS channel

# Of the loop, until a client that it has accepted has a transport. Turns, because a busy machine makes any time too short.
_TURNS_TO_ARRIVE: Final = 10


def _bound(address: str, port: int) -> socket.socket | None:
    """Return a socket that is bound to an address as the loop would bind it, or None for a name.

    The loop looks up addresses like names: four threads and a codec, half a megabyte in all, stay for the life of a
    server that never looks up anything else.

    Raises:
        OSError: with the words of the loop.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)
    except OSError:
        return None  # a name, or an address with a zone
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        shown = (address, port) if family is socket.AF_INET else (address, port, 0, 0)
        reason = f"error while attempting to bind on address {shown!r}: {str(error.strerror).lower()}"
        raise OSError(error.errno, reason) from None
    return sock


class Listeners:
    """The listening sockets of one server, and its unix socket and pidfile.

    Attributes:
        doors: each listening socket, with the factory of the protocol of its clients.
        shaking_hands: TLS clients that have not completed their handshake.
        arriving: clients that the loop has accepted and gives a transport later in the same turn. Until then nothing
            can read from them, not even ``server/net/busy_script``, so a script that may be slow waits for them.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.doors: list[tuple[asyncio.Server, Callable[[], Wire]]] = []
        self.shaking_hands: set[SecureChannel] = set()
        self.arriving: set[Wire] = set()
        self._postponed: list[Connection] = []
        self._waiting: asyncio.Handle | None = None
        self._tls: ssl.SSLContext | None = None
        self._files: list[Path] = []  # the unix socket and the pidfile, once they exist

    def __bool__(self) -> bool:
        return bool(self.doors)

    async def open(self) -> bool:
        """Listen as configured and write the pidfile; return False if that fails (the log says why).

        Port 0 becomes a free port, and ``config.port`` is set to that port; beside a tls-port it means no other port.
        """
        config = self._server.config
        if config.tls_port:
            from .tls_context import TlsError, server_context

            try:
                self._tls = server_context(config)
            except TlsError as error:
                self._server.log.warning(str(error))
                self._server.log.warning("Failed to configure TLS. Check logs for more info.")
                return False
            if not await self._open_tcp(config.tls_port, self._tls):
                return False
        elif not await self._open_tcp(config.port):
            return False
        if config.port and config.tls_port and not await self._open_tcp(config.port):
            return False
        if not await self._open_unix():
            return False
        if not self.doors:
            self._server.log.warning("Configured to not listen anywhere, exiting.")
            return False
        self._leave_files()
        return True

    async def _open_tcp(self, port: int, tls: ssl.SSLContext | None = None) -> bool:
        server, config = self._server, self._server.config

        def meet() -> Wire:
            return self._expect(Connection(server))

        def meet_securely() -> Wire:
            from .tls_channel import SecureChannel

            assert tls is not None
            return self._expect(SecureChannel(server, tls, Connection(server)))

        factory = meet if tls is None else meet_securely

        for host in config.bind:
            optional = host.startswith("-")
            name = host.removeprefix("-")
            address = {"*": "0.0.0.0", "::*": "::"}.get(name, name)  # noqa: S104 - what the user asked for
            try:
                sock = _bound(address, port)
                listener = await (
                    server.loop.create_server(factory, sock=sock, backlog=config.tcp_backlog)
                    if sock is not None
                    else server.loop.create_server(
                        factory, address, port, backlog=config.tcp_backlog, reuse_address=True
                    )
                )
            except OSError as error:
                if optional:
                    continue
                server.log.warning(
                    f"Warning: Could not create server TCP listening socket {name}:{port}: {error.strerror}"
                )
                kind = "tcp" if tls is None else "tls"
                server.log.warning(f"Failed listening on port {port} ({kind}), aborting.")
                return False
            self.doors.append((listener, factory))
            port = port or listener.sockets[0].getsockname()[1]
        if tls is None:
            config.port = port
        return True

    def update_tls(self) -> None:
        """Apply the present ``tls-*`` directives to new connections.

        Raises:
            ValueError: that is impossible; the log says why.
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
        server, path = self._server, self._server.config.unixsocket
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
        except OSError as error:
            server.log.warning(f"Failed opening Unix socket: bind: {error.strerror}")
            return False
        return True

    def _leave_files(self) -> None:
        config = self._server.config
        if config.unixsocket:
            self._files.append(Path(config.unixsocket))
            if config.unixsocketperm:
                Path(config.unixsocket).chmod(config.unixsocketperm)
        if config.pidfile:
            try:
                Path(config.pidfile).write_text(f"{os.getpid()}\n", encoding="ascii")
            except OSError as error:
                self._server.log.warning(f"Failed to write PID file: {error.strerror}")
            else:
                self._files.append(Path(config.pidfile))

    # Arriving clients

    def _expect(self, wire: Wire) -> Wire:
        if not self.arriving:
            self._server.dispatcher.check_scripts(needed=True)
        self.arriving.add(wire)
        return wire

    def welcome(self, wire: Wire) -> None:
        """Note that a client has its transport."""
        if wire in self.arriving:
            self.arriving.remove(wire)
            if not self.arriving:
                self._all_are_here()

    def postpone(self, client: Client) -> bool:
        """Postpone a command until arriving clients have a transport; False without a connection."""
        if not isinstance(client, Connection):
            return False
        client.wait(POSTPONED, self)
        if not self._postponed:
            self._wait(_TURNS_TO_ARRIVE)
        self._postponed.append(client)
        return True

    async def all_here(self) -> None:
        """Return when arriving clients have a transport, or after some turns, as `postpone` does for a command."""
        for _ in range(_TURNS_TO_ARRIVE):
            if not self.arriving:
                return
            await asyncio.sleep(0)
        self._all_are_here()

    def _wait(self, turns: int) -> None:
        """Wait no longer than some turns: a client whose socket fails before it has a transport never arrives."""
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
            # Immediately: in the next turn of the loop other clients may be arriving.
            client.take_turn()

    def close(self) -> None:
        """Stop accepting clients."""
        for listener, _ in self.doors:
            listener.close()

    def remove_files(self) -> None:
        """Remove the unix socket and the pidfile."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()
