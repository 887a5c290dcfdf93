"""The connection to a server: commands in one batch, replies as they come, and an address without its password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECT_SECONDS: Final = 3.0
REPLY_SECONDS: Final = 10.0
SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)

Command = tuple[bytes, ...]
Reply = Any  # int, bytes, None, list, dict, or a RedisError that came instead


# What is sent to a server that may not be changed; of containers each subcommand.
READING: Final = frozenset(
    """CLIENT|LIST COMMAND COMMAND|DOCS COMMAND|INFO DBSIZE DEBUG|CLOCK DEBUG|FAULT INFO MEMORY|USAGE SCAN SLOWLOG|GET
    SLOWLOG|LEN TIME TYPE XINFO|CONSUMERS XINFO|GROUPS XINFO|STREAM XLEN XPENDING XRANGE XREVRANGE""".split()
)
_CHANGING: Final = {b"DEBUG|CLOCK": {b"NOW"}, b"DEBUG|FAULT": {b"LIST", b"HELP"}}


class GoneError(Exception):
    """The server cannot be reached; the text says why, without a password."""


class ReadOnlyError(Exception):
    """A command that changes something, and nothing may be changed."""


class Link:
    """A server at an address. Connections are made when they are needed, and again after each loss.

    Attributes:
        shown: the address without its password.
        read_only: whether ``send`` refuses all but the reading commands that the console knows.

    Args:
        address: ``redis://user:password@host:port/db``, ``rediss://…``, ``unix:///path?db=0``,
            ``redis+sentinel://host:port[,host:port…]/service`` or ``redis+cluster://host:port``.

    Raises:
        ValueError: an address of another form.
    """

    def __init__(self, address: str) -> None:
        self.read_only = True
        scheme = urlsplit(address).scheme
        if scheme not in SCHEMES:
            raise ValueError(f"an address begins with one of {', '.join(f'{word}://' for word in SCHEMES)}")
        self.shown: Final = shown(address)
        self.is_cluster: Final = scheme.endswith("+cluster")
        self._client: redis.asyncio.Redis | RedisCluster = _client(address)
        if not isinstance(self._client, RedisCluster):
            # Replies are wanted as the server sends them.
            self._client.response_callbacks.clear()

    async def send(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands in one batch; return a reply for each, which may be an error.

        Raises:
            GoneError: the connection could not be made, or was lost.
        """
        if not commands:
            return []
        if self.read_only:
            _refuse_writes(commands)
        try:
            pipeline: Any = (
                self._client.pipeline()
                if isinstance(self._client, RedisCluster)
                else self._client.pipeline(transaction=False)
            )
            for words in commands:
                pipeline.execute_command(*words)
            replies: list[Reply] = await pipeline.execute(raise_on_error=False)
        except (TimeoutError, RedisConnectionError, RedisTimeoutError, OSError) as error:
            raise GoneError(_plain(error)) from None
        for reply in replies:
            if isinstance(reply, RedisConnectionError):
                raise GoneError(_plain(reply))
        return replies

    async def call(self, *words: bytes | str | int) -> Reply:
        """Send one command and return its reply.

        Raises:
            GoneError: as ``send``.
            RedisError: what the server replied.
        """
        reply = (await self.send([command(*words)]))[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _refuse_writes(commands: Sequence[Command]) -> None:
    """Let only reading commands through.

    Raises:
        ReadOnlyError: one of them is another.
    """
    for words in commands:
        first = words[0].upper()
        both = first + b"|" + words[1].upper() if len(words) > 1 else first
        third = words[2].upper() if len(words) > 2 else b""
        if first.decode("latin-1") not in READING and both.decode("latin-1") not in READING:
            raise ReadOnlyError(f"{first.decode('utf-8', 'replace')} is not sent: the console is read-only")
        if both in _CHANGING and third not in _CHANGING[both]:
            raise ReadOnlyError(f"{both.decode('latin-1')} is not sent: the console is read-only")


def command(*words: bytes | str | int) -> Command:
    """Return a command in bytes."""
    return tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)


def _plain(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300] or type(error).__name__


def shown(address: str) -> str:
    """Return an address without its password and its options, for pages and logs."""
    parts = urlsplit(address)
    user = f"{unquote(parts.username)}@" if parts.username else ""
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{user}{place}{parts.path}"


def _client(address: str) -> redis.asyncio.Redis | RedisCluster:
    parts = urlsplit(address)
    timeouts = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": REPLY_SECONDS}
    common: dict[str, Any] = {**timeouts, "protocol": 2, "client_name": "rillet-console"}
    scheme, _, kind = parts.scheme.partition("+")
    if kind == "cluster":
        return RedisCluster.from_url(parts._replace(scheme=scheme).geturl(), **common)
    if kind == "sentinel":
        service, _, database = parts.path.lstrip("/").partition("/")
        if not service:
            raise ValueError(
                "a sentinel's address ends with the name of the service: redis+sentinel://host:26379/mymaster"
            )
        places = [place.rpartition(":") for place in parts.netloc.rpartition("@")[2].split(",")]
        login = {
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
            "db": int(database or dict(parse_qsl(parts.query)).get("db", "0")),
            "ssl": scheme == "rediss",
        }
        hosts = [(host or port, int(port) if host else 26379) for host, _, port in places]
        sentinel = Sentinel(hosts, sentinel_kwargs={**timeouts, "protocol": 2}, **common, **login)  # type: ignore[no-untyped-call]
        master: redis.asyncio.Redis = sentinel.master_for(service)
        return master
    return redis.asyncio.Redis.from_url(address, **common)
