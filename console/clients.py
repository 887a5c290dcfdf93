"""The clients and their commands: CLIENT LIST, SLOWLOG, and MONITOR within bounds. Passwords are never shown."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from . import replies
from .link import CLIENT_NAME, Subject, close, command
from .names import command_line, plain, unquote

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from .link import Link

SHOWN: Final = 100  # clients on the page
LISTED: Final = 1_000  # clients that are looked at
# Connections beyond which CLIENT LIST is not sent: it has no COUNT, and holds the server up
MOST: Final = 20_000
SLOW: Final = 30  # entries of the slow log
WATCH_SECONDS: Final = 60.0
WATCH_COMMANDS: Final = 20_000  # at most, and then it ends: a busy server is not held up for long
WATCH_BYTES: Final = 64 << 20  # of all lines
WATCH_LINE: Final = (
    1 << 20
)  # of one: the server holds it as a whole for each that watches, escaped up to four times as long
KEPT: Final = 300  # of those, the last ones
LINE_BYTES: Final = 2_000  # of a command that are looked at
HIDDEN: Final = b"(hidden)"
SECRETS: Final = frozenset(
    b"requirepass masterauth primaryauth masteruser primaryuser tls-key-file-pass tls-client-key-file-pass auth-pass "
    b"auth-user sentinel-pass sentinel-user".split()
)
_WITHIN: Final = {(b"ACL", b"DRYRUN"): 3, (b"COMMAND", b"GETKEYS"): 2, (b"COMMAND", b"GETKEYSANDFLAGS"): 2}
_FIRST: Final = re.compile(rb" name=%b | flags=[^ ]*b" % CLIENT_NAME.encode())
_BLOCKED: Final = re.compile(rb" flags=[^ ]*b")
_MONITORED: Final = re.compile(rb"(\d+)\.(\d{6}) \[(\d+) (.*?)\] (?=\"|$)", re.DOTALL)
_WORD: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def hidden(words: Sequence[bytes]) -> list[bytes]:
    """Return a command with its passwords hidden; servers hide most of them, too, but not all versions all of them."""
    shown = list(words)
    upper = [word.upper() for word in words[:3]]
    if upper[:1] == [b"AUTH"]:
        return _hide(shown, 1, len(shown))
    if upper[:2] == [b"ACL", b"SETUSER"]:
        return _hide(shown, 3, len(shown))
    start = 0
    while len(words) > start + 1:  # a command within a command, perhaps thousands of them
        count = _WITHIN.get((words[start].upper(), words[start + 1].upper()), 0)
        if not count:
            break
        start += count
    if start:
        return shown[:start] + hidden(words[start:])
    if upper[:1] in ([b"HELLO"], [b"MIGRATE"]):
        for at, word in enumerate(words):
            count = {b"AUTH": 2 if upper[0] == b"HELLO" else 1, b"AUTH2": 2}.get(word.upper(), 0)
            _hide(shown, at + 1, min(len(shown), at + 1 + count))
    elif upper[:2] in ([b"CONFIG", b"SET"], [b"SENTINEL", b"SET"]) or upper == [
        b"SENTINEL",
        b"CONFIG",
        b"SET",
    ]:
        for at, word in enumerate(words[:-1]):
            if word.lower() in SECRETS:
                shown[at + 1] = HIDDEN
    return shown


def shown(words: Sequence[bytes]) -> str:
    """Return a command as redis-cli takes it, without its passwords, and not all of a long one."""
    line = command_line(word[:LINE_BYTES] for word in hidden(words[:100]))
    return line if len(line) <= LINE_BYTES else line[:LINE_BYTES] + " …"


def _hide(words: list[bytes], start: int, end: int) -> list[bytes]:
    words[start:end] = [HIDDEN] * (end - start)
    return words


@dataclass(frozen=True, slots=True)
class Client:
    """A client as CLIENT LIST describes it; ``own``: a connection of this or another console."""

    id: int
    address: str
    name: str
    user: str
    library: str
    age: int
    idle: int
    database: str
    command: str
    flags: str
    memory: int | None
    own: bool

    @property
    def blocked(self) -> bool:
        """Whether its command waits for something."""
        return "b" in self.flags

    @property
    def kind(self) -> str:
        """Its kind, in a word; empty for a plain client."""
        words = {
            "S": "replica",
            "M": "master",
            "O": "monitor",
            "P": "subscriber",
            "x": "in MULTI",
            "t": "tracking",
        }
        return next((word for flag, word in words.items() if flag in self.flags), "")


@dataclass(frozen=True, slots=True)
class Slow:
    """An entry of the slow log; its time is in milliseconds, its duration in microseconds."""

    id: int
    time: int
    took: int
    line: str
    address: str
    name: str


@dataclass(frozen=True, slots=True)
class ClientsDetail:
    """What the page of clients shows.

    Attributes:
        clients: blocked ones first, then by their last command; of many a sample.
        connected: how many there are; ``blocked`` of them wait for something.
        slow: the newest entries of the slow log, of ``slow_length``; ``refused`` is what the server replied instead.
    """

    now: int
    clients: tuple[Client, ...]
    slow: tuple[Slow, ...]
    slow_length: int
    connected: int
    blocked: int
    refused: str = ""

    @property
    def too_many(self) -> bool:
        """Whether they were not listed at all."""
        return self.connected > MOST and not self.clients


@dataclass(frozen=True, slots=True)
class ClientsSubject(Subject[ClientsDetail]):
    """The clients of a server, and its slow log."""

    async def read(self, link: Link) -> ClientsDetail:
        """Read both, the clients unless they are too many to list."""
        asked = (("TIME",), ("INFO", "clients"), ("SLOWLOG", "GET", SLOW), ("SLOWLOG", "LEN"))
        now, counts, slow, length = await link.node.send([command(*words) for words in asked])
        said = replies.info(counts) if isinstance(counts, bytes) else {}
        connected, blocked = (
            _number(said.get(f"{word}_clients", "")) or 0 for word in ("connected", "blocked")
        )
        listed: Any = b""
        if connected <= MOST:
            listed = (await link.node.send([command("CLIENT", "LIST")]))[0]
        errors = [str(reply) for reply in (listed, slow) if isinstance(reply, RedisError)]
        if listed and isinstance(listed, bytes):
            connected, blocked = listed.count(b"\n"), len(_BLOCKED.findall(listed))
        return ClientsDetail(
            replies.now(now),
            clients(listed) if isinstance(listed, bytes) else (),
            tuple(_slow(item) for item in replies.listed(slow)),
            length if isinstance(length, int) else 0,
            connected,
            blocked,
            "; ".join(errors),
        )


def clients(reply: bytes) -> tuple[Client, ...]:
    """Return the clients of CLIENT LIST: a line each, whose values hold no spaces.

    Of more than ``LISTED`` waiting ones, and the console itself, come before others.
    """
    lines = reply.split(b"\n")  # a name of a user may hold what str.splitlines splits at
    if len(lines) > LISTED:
        lines = sorted(lines, key=lambda line: _FIRST.search(line) is None)[:LISTED]
    found = []
    for line in lines:
        pairs = plain(line.decode("utf-8", "replace")).split(" ")
        said = dict(pair.partition("=")[::2] for pair in pairs if "=" in pair)
        if _number(said.get("id", "")) is not None:
            found.append(_client(said))
    return tuple(sorted(found, key=lambda one: (not one.blocked, one.own, one.idle, one.id)))


def _number(text: str) -> int | None:
    return int(text) if len(text) < 20 and text.isascii() and text.isdecimal() else None


def _client(said: dict[str, str]) -> Client:
    return Client(
        int(said["id"]),
        said.get("addr", ""),
        said.get("name", ""),
        said.get("user", ""),
        " ".join(filter(None, (said.get("lib-name"), said.get("lib-ver")))),
        _number(said.get("age", "")) or 0,
        _number(said.get("idle", "")) or 0,
        said.get("db", ""),
        said.get("cmd", "").replace("|", " ").upper(),
        said.get("flags", ""),
        _number(said.get("tot-mem", "")),
        said.get("name", "") == CLIENT_NAME,
    )


def _slow(item: Any) -> Slow:
    number, moment, took, words, *by = item
    address, name = (
        plain(word.decode("utf-8", "replace")) for word in (by[:2] if len(by) > 1 else (b"", b""))
    )
    return Slow(number, moment * 1000, took, shown(words), address, name)


@dataclass(frozen=True, slots=True)
class Seen:
    """A command that MONITOR showed: its time in milliseconds, its sender, and its line, perhaps cut."""

    number: int
    time: int
    database: int
    address: str
    words: tuple[bytes, ...]
    cut: bool

    @property
    def line(self) -> str:
        """The command as redis-cli takes it, without passwords."""
        return command_line(self.words) + (" …" if self.cut else "")


def seen(number: int, line: bytes) -> Seen | None:
    """Return what a line of MONITOR says; None if it is of another form."""
    head = _MONITORED.match(line[:LINE_BYTES])
    if head is None:
        return None
    cut = len(line) > LINE_BYTES
    words = tuple(
        unquote('"' + word.decode("utf-8", "replace") + '"')
        for word in _WORD.findall(line[head.end() : LINE_BYTES])
    )
    if not words:
        return None
    seconds, micros, database, address = head.groups()
    moment = int(seconds) * 1000 + int(micros) // 1000
    return Seen(
        number, moment, int(database), plain(address.decode("utf-8", "replace")), tuple(hidden(words)), cut
    )


@dataclass(slots=True)
class Watch:
    """The commands of all clients as they come, by MONITOR: for a minute, some thousand commands or some megabytes, then it ends.

    One watch serves all pages. Its connection is its own, and is closed at the end.

    Attributes:
        count: commands since its beginning; ``commands`` holds the last ones, the newest first.
        by: how many commands of each address; ``names`` of their clients, also after they have left.
        why: why it ended; empty before.
    """

    on: bool = False
    count: int = 0
    began: float = 0.0
    commands: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    by: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    why: str = ""
    _task: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # two pages may begin or end it at once

    def shown(self, find: str, names: Mapping[str, str], own: Container[str]) -> list[Seen]:
        """Return the last commands of all but the console, that have something in their line, address or client's name."""
        self.names |= {address: name for address, name in names.items() if address in self.by}
        wanted = find.lower()
        fits = (
            one
            for one in self.commands
            if one.address not in own
            and (
                not wanted
                or any(
                    wanted in text.lower()
                    for text in (one.line, one.address, self.names.get(one.address, ""))
                )
            )
        )
        return list(islice(fits, SHOWN))

    def last(self, address: str) -> str:
        """Return the last command of an address; empty where none was seen."""
        return next((one.line for one in self.commands if one.address == address), "")

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return max(0.0, WATCH_SECONDS - (time.monotonic() - self.began)) if self.on else 0.0

    async def start(self, link: Link) -> None:
        """Begin, unless it goes on already."""
        async with self._lock:
            if self.on:
                return
            await self._end()
            self.on, self.count, self.began, self.why = True, 0, time.monotonic(), ""
            self.commands.clear()
            self.by.clear()
            self.names.clear()
            self._task = asyncio.ensure_future(self._run(link))

    async def stop(self) -> None:
        """End it."""
        async with self._lock:
            await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            self.on = False  # also of a task that had not begun
            self.why = self.why or "It was ended."

    async def _run(self, link: Link) -> None:
        client = link.another(2)
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                self.why = await self._read(client)
        except TimeoutError:  # before OSError, of which it is one
            self.why = f"It ended after {WATCH_SECONDS:.0f} seconds."
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            self.why = f"The connection was lost: {plain(str(error))[:200]}"
        except RedisError as error:
            self.why = f"The server refused MONITOR: {plain(str(error))[:200]}"
        finally:
            self.on = False
            await close(client)

    async def _read(self, client: Any) -> str:
        """Read until a bound, and return which."""
        size = 0
        connection = await client.connection_pool.get_connection()
        try:
            await connection.send_command("MONITOR")
            await connection.read_response()
            while self.count < WATCH_COMMANDS:
                line = await connection.read_response(timeout=2 * WATCH_SECONDS)
                size += len(line)
                found = seen(self.count + 1, line)
                if found is not None:
                    self.count += 1
                    self.by[found.address] += 1
                    self.commands.appendleft(found)
                if len(line) > WATCH_LINE:
                    return f"It ended at a command of {len(line) >> 20} MB: such commands are too much for MONITOR."
                if size > WATCH_BYTES:
                    return f"It ended after {WATCH_BYTES >> 20} MB."
            return f"It ended after {WATCH_COMMANDS:,} commands."
        finally:
            # The replies that are still to come must reach no other command.
            await connection.disconnect(nowait=True)
            await client.connection_pool.release(connection)
