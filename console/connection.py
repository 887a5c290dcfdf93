"""The connection to a server: send commands in a batch, return their replies, and hide the password in its address."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import unquote, urlsplit

import redis.asyncio
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError, NoPermissionError, RedisError

from .read_only import refuse_writes

CLIENT_NAME: Final = "rillet-console"
CONNECT_SECONDS: Final = 3.0
REPLY_SECONDS: Final = 10.0
SCHEMES: Final = tuple(
    "redis rediss unix redis+sentinel rediss+sentinel redis+cluster rediss+cluster".split()
)

Command = tuple[bytes, ...]
Reply = Any  # int, bytes, None, list, dict, or a RedisError that came instead
Found_co = TypeVar("Found_co", covariant=True)

_CONTROL: Final = (b"DEBUG", b"CONTROL")


class GoneError(Exception):
    """The server cannot be reached; the text says why, without a password."""


@dataclass(slots=True)
class Tape:
    """The part of its own recording on a Rillet that the console has read."""

    id: int = 0  # the ID of the recording on the server; 0 without one
    # Commands by number, as DEBUG RECORD READ returns them.
    rows: dict[int, Any] = field(default_factory=dict)
    read: int = 0  # the greatest number that was read
    dropped: int = 0  # the number of commands that the recording no longer has

    def forget(self) -> None:
        """Forget what was read of the recording."""
        self.id = self.read = self.dropped = 0
        self.rows.clear()


@dataclass(slots=True)
class Written:
    """The part of a Rillet's append-only file that the console has read, about one message."""

    cursor: bytes = b""  # the cursor of DEBUG AOF-HISTORY for the next read; empty before the first reply
    left: int = 0  # bytes of the file that are still unread
    base: bool = False  # whether the file begins with data whose history it does not contain
    # Times (None if unknown) and commands, oldest first.
    rows: list[tuple[int | None, list[bytes]]] = field(default_factory=list)
    dropped: int = 0  # the number of rows that were dropped after the first
    error: str = ""  # why the file cannot be read; empty if it can


class Link:
    """A server at an address. Connections are made when needed, and again after each loss.

    ``address``: ``redis://user:password@host:port/db``, ``rediss://…``, ``unix:///path?db=0``,
    ``redis+sentinel://host:port[,host:port…]/service[/db]`` or ``redis+cluster://host:port``. With ``rediss+`` all of
    them use TLS, the sentinels too; redis-py's options follow a question mark.
    Raises ValueError: the address has another form.
    """

    def __init__(self, address: str) -> None:
        # Whether ``send`` refuses all commands except the reading ones that the console knows.
        self.read_only = True
        self.tape = Tape()
        # The content of its append-only file about messages, by key and ID.
        self.written: dict[tuple[bytes, str], Written] = {}
        self._address = address
        # Whether DEBUG CONTROL exempts its connections from a Rillet's faults and recordings.
        self.controls = False
        self._others: dict[str, Link] = {}
        scheme = urlsplit(address).scheme
        if scheme not in SCHEMES:
            hint = "" if "://" in address else f": write redis://{address}"
            raise ValueError(
                f"an address begins with one of {', '.join(f'{word}://' for word in SCHEMES)}{hint}"
            )
        self.shown: Final = shown(address)  # the address without its password
        self.is_cluster: Final = scheme.endswith("+cluster")
        # Whether the address is the server's own, not that of a sentinel or a cluster.
        self.is_direct: Final = "+" not in scheme
        self._client = _client(address.replace("+cluster", "", 1))
        self._nodes = _Nodes(self, address.replace("+cluster", "", 1)) if self.is_cluster else None
        # Keep replies in the form in which the server sends them.
        self._client.response_callbacks.clear()
        # The index in the address.
        self.database = int(self._client.connection_pool.connection_kwargs.get("db") or 0)

    async def send(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands in one batch; return a reply for each, which may be an error.

        Raises GoneError: the connection could not be made, or was lost.
        """
        if not commands:
            return []
        if self.read_only:
            refuse_writes(commands)
        if self._nodes is not None:
            return await self._nodes.send(commands)
        try:
            pipeline: Any = self._client.pipeline(transaction=False)
            for words in [_CONTROL, *commands] if self.controls else commands:
                pipeline.execute_command(*words)
            replies: list[Reply] = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError) as error:  # of connecting: error replies are returned
            raise GoneError(_plain(error)) from None
        for reply in replies:
            if isinstance(reply, RedisConnectionError):
                raise GoneError(_plain(reply))
        return replies[1:] if self.controls else replies

    async def call(self, *words: bytes | str | int) -> Reply:
        """Send one command and return its reply.

        Raises:
            GoneError: as ``send``.
            RedisError: the server's error reply.
        """
        reply = (await self.send([command(*words)]))[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    @property
    def node(self) -> Link:
        """A link to a single server: for a cluster the node in the address, else this link itself."""
        if not self.is_cluster:
            return self
        return self._other("node", self._address.replace("+cluster", "", 1))

    @property
    def actor(self) -> Link:
        """The link for changes, which is never read-only; a Rillet's recordings and faults apply to its commands."""
        made = self._other("actor", self._address)
        made.read_only = False
        return made

    def another(self, protocol: int) -> redis.asyncio.Redis:
        """Return a new client for the server at the address; ``protocol`` is 2 or 3 (RESP)."""
        return _client(self._address.replace("+cluster", "", 1), protocol)

    def _other(self, what: str, address: str) -> Link:
        made = self._others.get(what)
        if made is None:
            made = self._others[what] = Link(address)
            made.tape = self.tape
        return made

    async def close(self) -> None:
        """Close all connections to the server."""
        await close(self._client)
        if self._nodes is not None:
            await self._nodes.close()
        for other in self._others.values():
            await other.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Subject(ABC, Generic[Found_co]):
    """A thing that a page shows in detail, e.g. a stream. Equal subjects are read once, however many pages show them."""

    __slots__ = ()

    @property
    def series(self) -> tuple[tuple[bytes, ...], ...]:
        """The keys of the series (``Samples``) that its page draws; these are recorded from then on."""
        return ()

    @abstractmethod
    async def read(self, link: Link) -> Found_co:
        """Read the data that the page shows, in few batches of commands."""


Place = tuple[str, int]  # host and port of a master

# The index of the key, for commands whose first argument is not a key; 0: the command has none.
_KEY_AT: Final = dict.fromkeys(b"CLIENT COMMAND DBSIZE DEBUG INFO SCAN SLOWLOG TIME".split(), 0) | {
    b"XINFO": 2,
    b"XGROUP": 2,
    b"MEMORY": 2,
    b"EVAL": 3,
}


class _Nodes:
    """The masters of a cluster. Each command goes to the master that serves its key, in one batch per node.

    Commands without a key go to the first master, DBSIZE to all. SCAN visits one master after another: its cursor here
    is the number of the master and the master's own cursor, ``2:1711``.
    """

    def __init__(self, owner: Link, address: str) -> None:
        self._owner = owner
        self._parts = urlsplit(address)
        self._links: dict[Place, Link] = {}
        self._slots: list[tuple[int, int, Place]] = []

    async def send(self, commands: Sequence[Command]) -> list[Reply]:
        """Send commands; if a slot has moved, send the command once more."""
        try:
            if not self._slots:
                await self._learn()
            replies = await self._spread(commands)
            moved = [at for at, reply in enumerate(replies) if isinstance(reply, MovedError)]
            if moved:
                await self._learn()
                for at, reply in zip(moved, await self._spread([commands[at] for at in moved]), strict=True):
                    replies[at] = reply
        except GoneError:
            self._slots = []  # a replica may have taken over
            raise
        return replies

    async def _learn(self) -> None:
        (slots,) = await self._owner.node.send([command("CLUSTER", "SLOTS")])
        if isinstance(slots, RedisError):
            raise GoneError(_plain(slots))
        own = self._parts.hostname or "127.0.0.1"
        self._slots = sorted(
            (first, last, ((master[0] or b"").decode() or own, int(master[1])))
            for first, last, master, *_ in slots
        )
        if not self._slots:
            raise GoneError("the cluster has no slots yet")

    @property
    def _masters(self) -> list[Place]:
        return sorted({place for _, _, place in self._slots})

    def _place(self, words: Command) -> Place:
        at = _KEY_AT.get(words[0].upper(), 1)
        if words[0].upper() == b"SCAN":
            number = int(words[1].partition(b":")[0]) if b":" in words[1] else 0
            return self._masters[min(number, len(self._masters) - 1)]
        if words[0].upper() == b"XREADGROUP":
            at = [word.upper() for word in words].index(b"STREAMS", 4) + 1  # behind group and consumer
        if not at or at >= len(words):
            return self._masters[0]
        slot = key_slot(words[at])
        return next((place for first, last, place in self._slots if first <= slot <= last), self._masters[0])

    def _link(self, place: Place) -> Link:
        if place not in self._links:
            login, _, _ = self._parts.netloc.rpartition("@")
            host = f"[{place[0]}]" if ":" in place[0] else place[0]
            netloc = f"{login}@{host}:{place[1]}" if login else f"{host}:{place[1]}"
            self._links[place] = Link(self._parts._replace(netloc=netloc).geturl())
        self._links[place].read_only = self._owner.read_only
        return self._links[place]

    async def _spread(self, commands: Sequence[Command]) -> list[Reply]:
        places = [self._place(words) for words in commands]
        found: list[Reply] = [None] * len(commands)

        async def ask(place: Place) -> None:
            asked = [at for at, one in enumerate(places) if one == place]
            got = await self._link(place).send([_own_cursor(commands[at]) for at in asked])
            for at, reply in zip(asked, got, strict=True):
                found[at] = self._whole_cursor(place, reply) if commands[at][0].upper() == b"SCAN" else reply

        await asyncio.gather(*(ask(place) for place in dict.fromkeys(places)))
        for at, words in enumerate(commands):
            if words[0].upper() == b"DBSIZE":
                sizes = await asyncio.gather(*(self._link(place).send([words]) for place in self._masters))
                found[at] = sum(size for (size,) in sizes if isinstance(size, int))
        return found

    def _whole_cursor(self, place: Place, reply: Reply) -> Reply:
        if isinstance(reply, RedisError):
            return reply
        number = self._masters.index(place)
        if reply[0] != b"0":
            return [b"%d:%s" % (number, reply[0]), reply[1]]
        return [b"%d:0" % (number + 1) if number + 1 < len(self._masters) else b"0", reply[1]]

    async def close(self) -> None:
        """Close the connections to all masters."""
        for link in self._links.values():
            await link.close()


def _own_cursor(words: Command) -> Command:
    return (words[0], words[1].rpartition(b":")[2], *words[2:]) if words[0].upper() == b"SCAN" else words


async def close(client: redis.asyncio.Redis) -> None:
    """Close a redis-py client's connections, and its connections to sentinels."""
    await client.aclose()
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    for sentinel in manager.sentinels if manager is not None else ():
        await sentinel.aclose()


def command(*words: bytes | str | int) -> Command:
    """Encode the words of a command as bytes."""
    return tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)


def _plain(error: BaseException) -> str:
    said = str(error).partition("\n")[0].partition(" : <")[0]  # a sentinel's names the client's objects, too
    return said[:300].rstrip(".") or type(error).__name__


async def _greet(connection: Any) -> None:
    """Log in, and set the connection's name if the user may: a user that only reads streams needs no CLIENT SETNAME."""
    await connection.on_connect()
    await connection.send_command("CLIENT", "SETNAME", CLIENT_NAME)
    with contextlib.suppress(NoPermissionError):
        await connection.read_response()


def shown(address: str) -> str:
    """Return an address without its password and its options, for pages and logs."""
    parts = urlsplit(address)
    user = f"{unquote(parts.username)}@" if parts.username else ""
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{user}{place}{parts.path}"


def _client(address: str, protocol: int = 2) -> redis.asyncio.Redis:
    parts = urlsplit(address)
    timeouts = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": REPLY_SECONDS}
    common: dict[str, Any] = {**timeouts, "protocol": protocol, "redis_connect_func": _greet}
    scheme, _, kind = parts.scheme.partition("+")
    if kind == "sentinel":
        service, _, database = parts.path.lstrip("/").partition("/")
        if not service:
            raise ValueError(
                "a sentinel's address ends with the name of the service: redis+sentinel://host:26379/mymaster"
            )
        login, _, hosts = parts.netloc.rpartition("@")
        first = parts._replace(scheme=scheme, netloc=f"{login}@server" if login else "server", path="")
        options: dict[str, Any] = {
            "db": int(database or 0),
            "ssl": scheme == "rediss",
            **parse_url(first.geturl()),
        }
        for unused in ("host", "connection_class"):
            options.pop(unused, None)
        tls = {name: value for name, value in options.items() if name.startswith("ssl")}
        places = [urlsplit(f"//{place}") for place in hosts.split(",")]
        if not all(place.hostname for place in places):
            raise ValueError(
                "a sentinel's address names the hosts of the sentinels: redis+sentinel://a:26379,b/mymaster"
            )
        # Without `retry` a sentinel that is down is asked four times, for five seconds, before the next one.
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            [(place.hostname, place.port or 26379) for place in places],
            sentinel_kwargs={**timeouts, "protocol": 2, "retry": Retry(NoBackoff(), 0), **tls},
            **{**common, **options},
        )
        master: redis.asyncio.Redis = sentinel.master_for(service)
        return master
    return redis.asyncio.Redis.from_url(address, **common)
