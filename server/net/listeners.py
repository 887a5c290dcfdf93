"""Where clients come in: TCP ports, the unix socket, and the files that only a living server has."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .connection import Connection
from .tls_channel import SecureChannel
from .tls_context import TlsError, configure_server, server_context

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable

    from ...commands.runtime.client import Client
    from ..server import Server

    Wire = Connection | SecureChannel  # takes the bytes of a socket: a connection, or what decrypts for it

_LONGEST_ARRIVAL: Final = 0.1


class Listeners:
    """The listening sockets of one server, and its unix socket and pidfile.

    Attributes:
        doors: each socket, and what makes the protocol of a client that comes in there.
        shaking_hands: clients with TLS that are not let in yet.
        arriving: clients that the loop has accepted and will give a transport later in the same turn. Nothing can hear
            them before, not even ``server/net/busy_script``, so a script that could be slow waits for them.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.doors: list[tuple[asyncio.Server, Callable[[], Wire]]] = []
        self.shaking_hands: set[SecureChannel] = set()
        self.arriving: set[Wire] = set()
        self._postponed: list[Connection] = []
        self._tls: ssl.SSLContext | None = None
        self._files: list[Path] = []  # the unix socket and the pidfile, once they are there

    def __bool__(self) -> bool:
        return bool(self.doors)

    async def open(self) -> bool:
        """Listen as configured and leave the pidfile; False if that is impossible (the log says why).

        Port 0 becomes a free port, and ``config.port`` is then that port; with a tls-port it means no other port.
        """
        config = self._server.config
        if config.tls_port:
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
            connection = Connection(server)
            return self._expect(connection if tls is None else SecureChannel(server, tls, connection))

        for host in config.bind:
            optional = host.startswith("-")
            name = host.removeprefix("-")
            address = {"*": "0.0.0.0", "::*": "::"}.get(name, name)  # noqa: S104 - what the user asked for
            try:
                listener = await server.loop.create_server(
                    meet, address, port, backlog=config.tcp_backlog, reuse_address=True
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
            self.doors.append((listener, meet))
            port = port or listener.sockets[0].getsockname()[1]
        if tls is None:
            config.port = port
        return True

    def update_tls(self) -> None:
        """Let new connections meet what the ``tls-*`` directives say now.

        Raises:
            ValueError: that is impossible; the log says why.
        """
        if self._tls is not None:
            try:
                server_context(self._server.config)  # all of it, before the one in use is touched
                configure_server(self._tls, self._server.config)
            except TlsError as error:
                self._server.log.warning(str(error))
                raise ValueError("Unable to update TLS configuration. Check server logs.") from None

    async def _open_unix(self) -> bool:
        server, path = self._server, self._server.config.unixsocket
        if not path:
            return True
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108 - pathlib would be taken for slow in here

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

    # Clients on their way

    def _expect(self, wire: Wire) -> Wire:
        self.arriving.add(wire)
        self._server.update_careful()
        return wire

    def welcome(self, wire: Wire) -> None:
        """Note that a client has its transport."""
        if wire in self.arriving:
            self.arriving.remove(wire)
            if not self.arriving:
                self._all_are_here()

    def postpone(self, client: Client) -> bool:
        """Let a client run its command once those who are arriving are here; False if it is no connection."""
        if not isinstance(client, Connection):
            return False
        client.postponed = True
        client.update_plain()
        if not self._postponed:
            # A client whose socket fails before it has a transport never arrives.
            self._server.loop.call_later(_LONGEST_ARRIVAL, self._all_are_here)
        self._postponed.append(client)
        return True

    def _all_are_here(self) -> None:
        self.arriving.clear()
        self._server.update_careful()
        postponed, self._postponed = self._postponed, []
        for client in postponed:
            client.postponed = False
            # At once: in the next turn of the loop others may be arriving.
            client.take_turn()

    def close(self) -> None:
        """Accept nobody any more."""
        for listener, _ in self.doors:
            listener.close()

    def remove_files(self) -> None:
        """Take the unix socket and the pidfile away."""
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()
