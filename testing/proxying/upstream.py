"""The server behind a proxy, parsed from its URL."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

_FILES: Final = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname", "db"}


@dataclass(frozen=True, slots=True)
class Upstream:
    """The real server behind a proxy: its address and its login."""

    host: str
    port: int
    path: str  # the path of its unix socket; if set, host and port are not used
    tls: ssl.SSLContext | None  # the TLS context of ``rediss://``; None: no TLS
    username: str | None  # the user for clients and for the tests' own commands; None: ``default``
    password: str | None
    database: int

    async def connect(self, made: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Connect to the server; raise OSError if it cannot be reached or its certificate is not trusted."""
        loop = asyncio.get_running_loop()
        if self.path:
            transport, _ = await loop.create_unix_connection(made, self.path)
            return transport
        name = self.host if self.tls is not None else None
        transport, _ = await loop.create_connection(
            made, self.host, self.port, ssl=self.tls, server_hostname=name
        )
        return transport

    def socket(self, seconds: float) -> socket.socket:
        """Open a socket with a timeout for a test's own commands to the server; raise OSError on failure."""
        if self.path:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(seconds)
            made.connect(self.path)
            return made
        made = socket.create_connection((self.host, self.port), seconds)
        return made if self.tls is None else self.tls.wrap_socket(made, server_hostname=self.host)

    def url(self, host: str, port: int) -> str:
        """Return a URL with a proxy's host and port, and this server's user, password and database."""
        login = ""
        if self.password is not None:
            login = f"{quote(self.username or '', safe='')}:{quote(self.password, safe='')}@"
        return f"redis://{login}{host}:{port}/{self.database}"

    def __str__(self) -> str:
        """Return the address, without the password."""
        return f"unix://{self.path}" if self.path else f"{self.host}:{self.port}"


def parse_url(url: str) -> Upstream:
    """Parse a URL as redis-py does: ``redis://``, ``rediss://`` (with ``?ssl_ca_certs=…``) or ``unix://``.

    Raises ValueError: it is not such a URL.
    """
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(f"a URL begins with redis://, rediss:// or unix://, not {url!r}")
    unknown = options.keys() - _FILES
    if unknown:
        raise ValueError(f"unknown in a URL: {', '.join(sorted(unknown))}")
    number = parts.path.strip("/") if parts.scheme != "unix" else ""
    number = options.get("db", number) or "0"
    if not number.isdecimal():
        raise ValueError(f"the database is a number, not {number!r}")
    return Upstream(
        host=parts.hostname or "localhost",
        port=parts.port or 6379,
        path=unquote(parts.path) if parts.scheme == "unix" else "",
        tls=_context(options) if parts.scheme == "rediss" else None,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password is not None else None,
        database=int(number),
    )


def _context(options: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if options.get("ssl_check_hostname", "true").lower() in {"false", "no", "0"}:
            context.check_hostname = False
        if options.get("ssl_cert_reqs", "required") == "none":
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    except OSError as error:  # ssl.SSLError, too
        raise ValueError(f"the certificates of the URL cannot be read: {error}") from error
    return context
