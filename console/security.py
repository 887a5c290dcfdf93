"""Admit or refuse requests: hosts, origins, tokens, and the headers of every response."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "rillet_console"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
GUESSES: Final = 20  # wrong tokens that are allowed at once; after that, one a second
KNOWN_ADDRESSES: Final = 1000
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?))(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN: Final = re.compile(r"(https?)://(.*)", re.IGNORECASE | re.DOTALL)
_PORTS: Final = {"http": 80, "https": 443}
LOGIN: Final = "/login"
STATIC: Final = "/static/"
OPEN_PLACES: Final = (LOGIN, STATIC)  # paths that start with these need no token
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser would send Origin: null with our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Authority:
    """A host name or address, with or without a port, as in a Host header or an Origin."""

    host: str  # in lower case; an IPv6 address in brackets and in its shortest form
    port: int | None  # None if the text has none

    @classmethod
    def parse(cls, text: str) -> Authority | None:
        """Parse ``host[:port]``; None if the text has anything else: a user, a path, a space, a dot at the end."""
        found = _AUTHORITY.fullmatch(text)
        if found is None or (found["port"] is not None and not 0 < int(found["port"]) < 65536):
            return None
        host = (found["name"] or "").lower()
        if found["six"]:
            try:
                host = f"[{IPv6Address(found['six']).compressed}]"
            except AddressValueError:
                return None
        return None if ".." in host else cls(host, int(found["port"]) if found["port"] else None)

    @classmethod
    def of_option(cls, text: str) -> Authority:
        """Parse --allow-host or --console-bind: an IPv6 address may lack its brackets, and a name may be non-ASCII.

        Raises ValueError: the text is not a host.
        """
        try:
            name = text if text.isascii() else text.encode("idna").decode()
            found = cls.parse(f"[{name}]" if name.count(":") > 1 and "[" not in name else name)
        except UnicodeError:
            found = None
        if found is None:
            raise ValueError(f"{text!r} is not a host: give a name or an address")
        return found

    def is_at(self, other: Authority, port: int) -> bool:
        """Return True if both name the same host and port; ``port`` is the default of one without a port."""
        return self.host == other.host and (self.port or port) == (other.port or port)


@dataclass(slots=True)
class _Guesses:
    """The number of wrong tokens that are still allowed."""

    left: float = GUESSES
    at: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 - tests set it

    def may_be_made(self) -> bool:
        now = time.monotonic()
        self.left, self.at = min(self.left + now - self.at, GUESSES), now
        return self.left >= 1


class TooManyError(Exception):
    """Wrong tokens came too fast, so this one is not checked."""


class Guard:
    """The outermost layer of the application: a request that it refuses reaches no page.

    Raises ValueError: one of ``hosts`` is not a host.

    Args:
        hosts: names that a Host header may have in addition to those of loopback; their ports are ignored.
        token: a browser shows it once at /login, a program as ``Authorization: Bearer``; empty: no token is needed.
    """

    def __init__(self, hosts: frozenset[str] = frozenset(), token: str = "") -> None:
        # The token in each form of the console; a page of another origin cannot read it.
        self.csrf: Final = secrets.token_urlsafe(24)
        self._hosts = LOOPBACK | {Authority.of_option(host).host for host in hosts}
        self._token = token
        # The cookie is not derived from the token alone: else a guessed cookie would test a token, at any speed.
        self._key: Final = secrets.token_bytes(32)
        # One count for all addresses that never showed the token, one for each that has: strangers cannot lock it out.
        self._strangers = _Guesses()
        self._known: dict[str, _Guesses] = {}
        self.app: ASGIApp | None = None

    @property
    def asks_for_token(self) -> bool:
        """Whether requests need the console's token."""
        return bool(self._token)

    def accepts(self, token: str, address: str) -> bool:
        """Return True if this is the console's token.

        It is compared in constant time, and wrong ones are counted for the address.

        Raises TooManyError: there were too many wrong ones, over all connections.
        """
        guesses = self._known.get(address, self._strangers)
        if not guesses.may_be_made():
            raise TooManyError
        if hmac.compare_digest(token.encode(), self._token.encode()):
            if len(self._known) < KNOWN_ADDRESSES:
                self._known.setdefault(address, _Guesses())
            return True
        guesses.left -= 1
        return False

    def cookie(self) -> str:
        """Return the cookie that a browser keeps after /login until the console ends: not the token itself."""
        return hmac.new(self._key, self._token.encode(), hashlib.sha256).hexdigest()

    def is_ours(self, csrf: str) -> bool:
        """Return True if a form has the token of this process' pages (``csrf``)."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on and add the headers to its response."""
        assert self.app is not None
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, text in HEADERS.items():
                    headers[name] = text
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = Authority.parse(hosts[0]) if len(hosts) == 1 else None
        if host is None or host.host not in self._hosts:
            return PlainTextResponse("The console answers to its own name only; see --allow-host.\n", 421)
        origins = headers.getlist("origin")
        if len(origins) > 1 or (origins and not _is_origin_of(origins[0], host)):
            return PlainTextResponse("A page of another origin may not ask the console.\n", 403)
        sites = {*headers.getlist("sec-fetch-site")}
        if scope["method"] not in {"GET", "HEAD"} and not sites <= {"same-origin", "none"}:
            return PlainTextResponse("A page of another site may not post to the console.\n", 403)
        try:
            if (
                not self._token
                or scope["path"] == LOGIN
                or scope["path"].startswith(STATIC)
                or self._knows(headers, address_of(scope))
            ):
                return None
        except TooManyError:
            return too_many()
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("The console wants its token: Authorization: Bearer …\n", 401)

    def _knows(self, headers: Headers, address: str) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accepts(given.strip(), address):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.cookie().encode())


def _is_origin_of(origin: str, host: Authority) -> bool:
    found = _ORIGIN.fullmatch(origin)
    place = Authority.parse(found[2]) if found is not None else None
    return found is not None and place is not None and place.is_at(host, _PORTS[found[1].lower()])


def address_of(scope: Scope) -> str:
    """Return the address of the client, without a port; empty on a unix socket."""
    client = scope.get("client")
    return client[0] if client else ""


def too_many() -> PlainTextResponse:
    """Return the response to a token that is not checked."""
    return PlainTextResponse("Too many wrong tokens came. Wait a second.\n", 429, {"Retry-After": "1"})
