"""The clients and their commands: CLIENT LIST, SLOWLOG, and a limited MONITOR. Passwords are never shown."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from . import replies
from .connection import CLIENT_NAME, Link, Subject, close, command
from .names import command_line, plain, unquote

SHOWN: Final = 100  # clients on the page
LISTED: Final = 1_000  # clients to parse
# With more connections CLIENT LIST is not sent: it has no COUNT, and blocks the server
MOST: Final = 20_000
SLOW: Final = 30  # entries of the slow log
WATCH_SECONDS: Final = 60.0
WATCH_COMMANDS: Final = 20_000  # then the watch ends, so that a busy server is not slowed for long
WATCH_BYTES: Final = 64 << 20  # bytes of all lines
# Of one: the server holds it as a whole for each that watches, escaped up to four times as long.
WATCH_LINE: Final = 1 << 20
KEPT: Final = 300  # commands kept: the last ones
LINE_BYTES: Final = 2_000  # bytes of a command that are examined
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
    """Return a command with its passwords hidden; servers hide most of them, but not every version hides all."""
    shown = list(words)
    upper = [word.upper() for word in words[:3]]
    if upper[:1] == [b"AUTH"]:
        return _hide(shown, 1, len(shown))
    if upper[:2] == [b"ACL", b"SETUSER"]:
        return _hide(shown, 3, len(shown))
    start = 0
    while len(words) > start + 1:  # a command within a command, perhaps thousands deep
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
    """Return a command in redis-cli's syntax, without passwords; a long one is cut."""
    line = command_line(word[:LINE_BYTES] for word in hidden(words[:100]))
    return line if len(line) <= LINE_BYTES else line[:LINE_BYTES] + " …"


def _hide(words: list[bytes], start: int, end: int) -> list[bytes]:
    words[start:end] = [HIDDEN] * (end - start)
    return words


@dataclass(frozen=True, slots=True)
class Client:
    """A client from CLIENT LIST."""

    id: int
    address: str
    name: str
    user: str
    library: str
    # Seconds since it connected, and since its last command.
    age: int
    idle: int
    database: str
    command: str
    flags: str  # the letters of CLIENT LIST
    memory: int | None  # tot-mem, in bytes; None if the server does not report it
    own: bool  # whether it is a connection of this or another console

    @property
    def blocked(self) -> bool:
        """Whether the client's command is blocked."""
        return "b" in self.flags

    @property
    def kind(self) -> str:
        """The kind of the client in a word; empty for a normal client."""
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
    """The content of the page of clients."""

    now: int
    # The blocked clients first, then by their last command; a sample if there are many.
    clients: tuple[Client, ...]
    # The newest of the ``slow_length`` entries in the slow log; ``refused`` is the server's error instead.
    slow: tuple[Slow, ...]
    slow_length: int
    connected: int  # the number of clients; ``blocked`` of them are blocked
    blocked: int
    refused: str = ""

    @property
    def too_many(self) -> bool:
        """Whether there were too many clients to list."""
        return self.connected > MOST and not self.clients


@dataclass(frozen=True, slots=True)
class ClientsSubject(Subject[ClientsDetail]):
    """The clients of a server, and its slow log."""

    async def read(self, link: Link) -> ClientsDetail:
        """Read the slow log, and the clients unless they are too many to list."""
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
    """Parse the reply of CLIENT LIST: one line per client, whose values contain no spaces.

    If there are more than ``LISTED``, blocked clients and the console itself come first.
    """
    lines = reply.split(b"\n")  # a user's name may contain a character at which str.splitlines splits
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
        """The command that MONITOR showed in redis-cli's syntax, without passwords."""
        return command_line(self.words) + (" …" if self.cut else "")


def seen(number: int, line: bytes) -> Seen | None:
    """Parse a line of MONITOR; None if it has another form."""
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
    """All clients' commands from MONITOR; ends after a minute, some thousand commands or some megabytes.

    All pages share one watch. It has its own connection, which is closed at the end.
    """

    on: bool = False
    count: int = 0  # number of commands since the start; ``commands`` holds the last ones, the newest first
    began: float = 0.0
    commands: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    # Number of commands by address; ``names`` of the clients, even after they have left.
    by: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    why: str = ""  # the reason why it ended; empty before that
    _task: asyncio.Task[None] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # two pages may begin or end it at once

    def shown(self, find: str, names: Mapping[str, str], own: Container[str]) -> list[Seen]:
        """Return the last commands whose line, address or client name contains ``find``, the newest first.

        Args:
            find: a text, in any case.
            own: the addresses of the console's own connections, which are left out.
        """
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
        """Return the line of the last command that came from an address; "" if none was seen."""
        return next((one.line for one in self.commands if one.address == address), "")

    @property
    def left(self) -> float:
        """Seconds until the watch over MONITOR ends."""
        return max(0.0, WATCH_SECONDS - (time.monotonic() - self.began)) if self.on else 0.0

    async def start(self, link: Link) -> None:
        """Start the watch: send MONITOR on its own connection, unless it is running."""
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
        """End the watch: stop MONITOR."""
        async with self._lock:
            await self._end()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            self.on = False  # the task may not have started
            self.why = self.why or "It was ended."

    async def _run(self, link: Link) -> None:
        client = link.another(2)
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                self.why = await self._read(client)
        except TimeoutError:  # before OSError, because it is a subclass
            self.why = f"It ended after {WATCH_SECONDS:.0f} seconds."
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            self.why = f"The connection was lost: {plain(str(error))[:200]}"
        except RedisError as error:
            self.why = f"The server refused MONITOR: {plain(str(error))[:200]}"
        finally:
            self.on = False
            await close(client)

    async def _read(self, client: Any) -> str:
        """Read until a limit is reached, and return which."""
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
            # The outstanding replies must not reach another command.
            await connection.disconnect(nowait=True)
            await client.connection_pool.release(connection)
