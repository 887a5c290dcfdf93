"""Addresses of servers, clusters and sentinels as URLs.

::

    redis://[user:password@]host[:6379][/db]                              one server
    redis+cluster://[user:password@]host[:6379],host…                     a cluster: some of its nodes
    redis+sentinel://[user:password@]host[:26379],host…/master[/db]       the master that sentinels name

``rediss://``, ``rediss+cluster://`` and ``rediss+sentinel://`` speak TLS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

Deployment = Literal["server", "cluster", "sentinel"]
Place = tuple[str, int]

_KINDS: Final[dict[str, Deployment]] = {"": "server", "cluster": "cluster", "sentinel": "sentinel"}
_PORTS: Final = {"server": 6379, "cluster": 6379, "sentinel": 26379}
_SHAPES: Final = (
    "redis://host:port/db, redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/master/db "
    "(rediss… with TLS)"
)


@dataclass(frozen=True)
class Address:
    """The parts of a server's URL; ``service`` is the name that sentinels have for the master."""

    kind: Deployment
    tls: bool
    places: tuple[Place, ...]
    username: str | None = None
    password: str | None = None
    service: str | None = None
    db: int = 0


def parse_address(url: str) -> Address:
    """Parse a server's URL.

    Raises ValueError: it is not such a URL; the text never contains the password.
    """
    try:
        parts = urlsplit(url)
        scheme, _, kind_word = parts.scheme.partition("+")
        kind = _KINDS[kind_word]
        login, _, hosts = parts.netloc.rpartition("@")
        places = tuple(_place(word, _PORTS[kind]) for word in hosts.split(","))
        path = [unquote(word) for word in parts.path.split("/")[1:] if word]
        service = path.pop(0) if kind == "sentinel" else None
        db = int(path.pop(0)) if path else 0
        is_wrong = scheme not in {"redis", "rediss"} or parts.query or parts.fragment or path or db < 0
    except (ValueError, KeyError, IndexError):
        is_wrong, places = True, ()
    if is_wrong or (kind == "server" and len(places) > 1) or (kind == "cluster" and db):
        raise ValueError(f"takes {_SHAPES}")
    username, _, password = login.partition(":")
    return Address(
        kind, scheme == "rediss", places, unquote(username) or None, unquote(password) or None, service, db
    )


def _place(word: str, port: int) -> Place:
    parts = urlsplit(f"//{word}")
    if not parts.hostname:
        raise ValueError
    return parts.hostname, parts.port or port


def place_text(place: Place) -> str:
    """Return ``host:port``, an IPv6 host in brackets."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
