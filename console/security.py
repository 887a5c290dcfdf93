"""Who may ask: hosts, origins, tokens, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE: Final = "rillet_console"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOGIN: Final = "/login"
STATIC: Final = "/static/"
OPEN_PLACES: Final = (LOGIN, STATIC)  # what begins so may be asked for without a token
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


class Guard:
    """The outermost layer of the application: what it refuses reaches no page.

    Attributes:
        csrf: the token that each form of ours carries; a page of another origin cannot read it.

    Args:
        hosts: names that a Host header may have besides loopback's, without a port.
        token: what a browser shows once at /login, and programs as ``Authorization: Bearer``; empty: nothing is asked.
    """

    def __init__(self, hosts: frozenset[str] = frozenset(), token: str = "") -> None:
        self.csrf: Final = secrets.token_urlsafe(24)
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._token = token
        self.app: ASGIApp | None = None

    @property
    def asks_for_token(self) -> bool:
        """Whether there is a token."""
        return bool(self._token)

    def fits(self, token: str) -> bool:
        """Compare a token without a hint in the time it takes."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def cookie(self) -> str:
        """Return what a browser keeps after /login: not the token itself."""
        return hmac.new(self._token.encode(), b"rillet console", hashlib.sha256).hexdigest()

    def is_ours(self, csrf: str) -> bool:
        """Return whether a form is from a page of this process."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on and add the headers to its answer."""
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
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or _name(host) not in self._hosts:
            return PlainTextResponse("The console answers to its own name only; see --allow-host.\n", 421)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return PlainTextResponse("A page of another origin may not ask the console.\n", 403)
        if scope["method"] not in {"GET", "HEAD"} and headers.get("sec-fetch-site", "same-origin") not in {
            "same-origin",
            "none",
        }:
            return PlainTextResponse("A page of another site may not post to the console.\n", 403)
        if (
            not self._token
            or scope["path"] == LOGIN
            or scope["path"].startswith(STATIC)
            or self._knows(headers)
        ):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("The console wants its token: Authorization: Bearer …\n", 401)

    def _knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.fits(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self.cookie().encode())


def _name(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
