"""A blocking RESP2 connection over hiredis for Spark's driver and tasks: reconnects, backs off, and never guesses.

A command that only reads is sent again when the connection breaks. A command that writes is not, once it may have
reached the server: only its caller knows if it may run twice (``repeatable=True``).
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import hiredis

from ..error_tokens import LabelledError
from .addresses import Place, place_text

if TYPE_CHECKING:
    from .options import Endpoint

Word = bytes | str | int
Reply = Any
Answer = TypeVar("Answer")

_CHUNK: Final = 1 << 18
_LONGEST_PAUSE_SECONDS: Final = 5.0
_READING: Final = frozenset(
    "XRANGE XREVRANGE XINFO XLEN XPENDING XREAD GET EXISTS TYPE SCAN TIME PING INFO TTL PTTL DBSIZE COMMAND LRANGE LLEN "
    "MEMORY OBJECT ECHO HGET HGETALL HKEYS".split()
)
_OPENS: Final = frozenset({"WATCH", "MULTI"})
_CLOSES: Final = frozenset({"EXEC", "DISCARD", "UNWATCH"})
# The server is there, did not run the command, and will be able to in a while.
_LATER: Final = ("LOADING", "BUSY ", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "ERR max number of clients")


class RedisError(LabelledError):
    """Any error of the server or of the connection to it."""

    label = "NO_SERVER"


class ServerError(RedisError):
    """An error reply; the text is the server's own: ``"WRONGTYPE Operation against …"``."""

    label = "SERVER_ERROR"

    def __str__(self) -> str:
        # The first word of the server's error is as stable as a token of ours.
        return self.words

    @property
    def code(self) -> str:
        """The first word of the error: ``"WRONGTYPE"``."""
        return self.words.partition(" ")[0]


class ConnectionLost(RedisError):  # noqa: N818 - reads as what it says
    """The server cannot be reached, or the connection broke during a command that must not be repeated."""

    label = "CONNECTION_LOST"


class Unreachable(ConnectionLost):
    """The server cannot be reached, and no command may have run that must not be repeated."""


class Connection:
    """One connection, opened at the first use and reopened when it breaks; a context manager.

    Replies are hiredis': bytes, int, None, lists; simple strings are bytes too. ``WATCH`` and ``MULTI`` pin the
    connection until ``EXEC``, ``DISCARD`` or ``UNWATCH``: if it breaks in between, the command fails.

    ``shards.connect`` returns the connection for an endpoint: this one, or one with the same methods to a cluster or by
    sentinels.

    Raises RedisError: the TLS files of the endpoint cannot be used.

    Args:
        endpoint: the address of the server.
        refuse_others: ask for the kind of server, and refuse a node of a cluster or a sentinel, because the data that
            such a server lacks would be missing silently.
    """

    _may_move = False  # whether `_is_elsewhere` can be true

    def __init__(self, endpoint: Endpoint, *, refuse_others: bool = False) -> None:
        self.endpoint = endpoint
        self._refuse_others = refuse_others
        # How often the connection broke: the server that answers now may not know what was sent before.
        self.breaks = 0
        self.received = 0  # bytes
        self._socket: socket.socket | None = None
        self._reader = hiredis.Reader()
        self._pinned = False
        self._tls = _tls_context(endpoint) if endpoint.tls else None

    def call(self, *words: Word, repeatable: bool | None = None) -> Reply:
        """Run one command and return its reply.

        Raises:
            ServerError: the server replied with an error.
            ConnectionLost: there was no reply.
        """
        reply = self.pipeline([words], repeatable=repeatable)[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def pipeline(self, commands: Sequence[Sequence[Word]], *, repeatable: bool | None = None) -> list[Reply]:
        """Send several commands at once and return as many replies; an error is returned as a ``ServerError`` object.

        Raises ConnectionLost: not every reply came.

        Args:
            commands: the words of each command.
            repeatable: True if all may be sent twice; None: if all of them only read.
        """
        if not commands:
            return []
        names = [command_name(words) for words in commands]
        if repeatable is None:
            repeatable = all(name in _READING for name in names)
        return self.exchange(packed(commands), names, repeatable=repeatable)

    def exchange(
        self, request: bytes, names: Sequence[str], *, repeatable: bool = False, key: str | bytes = b""
    ) -> list[Reply]:
        """Send packed commands and return their replies, as ``pipeline`` does.

        Raises ConnectionLost: not every reply came.

        Args:
            request: the RESP of all commands.
            names: the name of each command, in upper case.
            repeatable: True if all may be sent twice.
            key: for clusters: one of their keys, which are all in one slot.
        """
        del key
        for attempt in range(self.endpoint.retries + 1):
            last = attempt == self.endpoint.retries
            sent = False
            try:
                if not repeatable:
                    self._leave_a_dead_connection()
                sock = self._connected()
                sent = True
                sock.sendall(request)
                replies = self._replies(sock, len(names))
            except ssl.SSLCertVerificationError as error:
                raise ConnectionLost(f"{self.endpoint}: {error.verify_message} (see tlsCaCert)") from error
            except (OSError, hiredis.ProtocolError) as error:
                was_pinned = self._pinned
                self.breaks += self._socket is not None
                self.close()
                if was_pinned or (sent and not repeatable):
                    raise ConnectionLost(
                        f"{self.endpoint}: the connection broke during {names[0]}: {error}"
                    ) from error
                if last:
                    raise Unreachable(_given_up(self.endpoint, error)) from error
            else:
                if self._may_move and any(map(self._is_elsewhere, replies)):
                    self._leave(names, replies, repeatable=repeatable, last=last)
                    self._pause(attempt)
                    continue
                # A connection that just opened gets this reply before it closes: no command ran.
                if last or self._pinned or not all(is_not_yet(reply) for reply in replies):
                    self._note_state(names)
                    return replies
                if replies[0].code == "ERR":
                    self.close()
            self._pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    def hold(self) -> None:
        """Open the connection, and do not reopen it until ``close``: every command fails if it breaks, as in MULTI.

        Raises ConnectionLost: there was no reply.
        """
        self.call("PING")
        self._pinned = True

    # The methods that differ for a cluster, which has several servers

    def ask_masters(self, ask: Callable[[Connection], Answer]) -> list[Answer]:
        """Call ``ask`` with a connection to each server that has a part of the data; return the answers.

        ``ask`` must only read, because it may be called twice.
        """
        return [ask(self)]

    def written(self) -> list[Connection]:
        """Return the connections to the servers that commands of this one were written to."""
        return [self]

    def ask_server_of(self, key: bytes, ask: Callable[[Connection], Answer]) -> Answer:
        """Call ``ask`` with a connection to the server of a key, and return the answer; it may be called twice."""
        del key
        return ask(self)

    def shard_of(self, name: bytes | str) -> str:
        """Return a name for the server of a stream; streams of one server have the same name."""
        del name
        return ""

    def close(self) -> None:
        """Close the connection; the next command opens a new one."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None
        self._pinned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The connection

    def _connected(self) -> socket.socket:
        if self._socket is None:
            sock = self._open()
            self._reader = hiredis.Reader(replyError=ServerError)
            self._socket = sock
            try:
                self._introduce(sock)
            except BaseException:
                self.close()
                raise
        return self._socket

    def _open(self) -> socket.socket:
        to = self.endpoint
        if to.unix_socket:
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                raw.settimeout(to.timeout_ms / 1000)
                raw.connect(to.unix_socket)
            except BaseException:
                raw.close()
                raise
            return raw
        host, port = self._place()
        raw = socket.create_connection((host, port), timeout=to.timeout_ms / 1000)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(raw, server_hostname=host) if self._tls else raw
        except BaseException:
            raw.close()
            raise

    def _place(self) -> Place:
        """Return the address to connect to."""
        return self.endpoint.host, self.endpoint.port

    def _is_elsewhere(self, reply: Reply) -> bool:
        """Return True if a reply says that another server must be asked, which the next connection will find."""
        del reply
        return False

    def _leave(self, names: Sequence[str], replies: Sequence[Reply], *, repeatable: bool, last: bool) -> None:
        """Close the connection to a server that is no longer the right one.

        Raises ConnectionLost: some of the commands may have run, or this was the last try.
        """
        was_pinned = self._pinned
        self.close()
        reason = next(reply for reply in replies if self._is_elsewhere(reply))
        if was_pinned or (len(names) > 1 and not repeatable):
            raise ConnectionLost(f"{self.endpoint}: {reason}")
        if last:
            raise Unreachable(_given_up(self.endpoint, reason))

    def _introduce(self, sock: socket.socket) -> None:
        to = self.endpoint
        hello: list[tuple[Word, ...]] = []
        username, password = to.login()
        if password:
            hello.append(("AUTH", username, password) if username else ("AUTH", password))
        if to.db:
            hello.append(("SELECT", to.db))
        if self._refuse_others:
            hello.append(("HELLO",))
        if not hello:
            return
        sock.sendall(packed(hello))
        for words, reply in zip(hello, self._replies(sock, len(hello)), strict=True):
            if is_not_yet(reply):
                raise ConnectionResetError(str(reply))
            if isinstance(reply, ServerError) and words[0] == "HELLO":
                continue  # before Redis 6, or not allowed: named streams of a cluster end in MOVED then
            if isinstance(reply, ServerError):
                raise ServerError(f"{reply} (at {to})")
            if self._refuse_others and isinstance(reply, list):
                _refuse_mode(to, read_facts(reply).get(b"mode"))

    def _leave_a_dead_connection(self) -> None:
        """Close a connection that the server has closed while idle, before a command that may be sent only once."""
        if self._socket is not None and not self._pinned:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            if poll.poll(0):
                self.breaks += 1
                self.close()

    def _replies(self, sock: socket.socket, count: int) -> list[Reply]:
        replies: list[Reply] = []
        reader = self._reader
        while True:
            while len(replies) < count and (reply := reader.gets()) is not False:
                replies.append(reply)
            if len(replies) == count:
                return replies
            data = sock.recv(_CHUNK)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self.received += len(data)
            reader.feed(data)

    def _note_state(self, names: Sequence[str]) -> None:
        for name in names:
            if name in _OPENS:
                self._pinned = True
            elif name in _CLOSES:
                self._pinned = False

    def _pause(self, attempt: int) -> None:
        time.sleep(min(self.endpoint.retry_interval_ms / 1000 * 2**attempt, _LONGEST_PAUSE_SECONDS))


def in_spite_of_losses(
    once: Callable[[], Answer], retries: int, lost: Callable[[], None] = lambda: None
) -> Answer:
    """Call ``once``, and call it again each time a connection is lost; return its result.

    Raises ConnectionLost: the connection was lost once more.

    Args:
        once: checks itself how much was done before the loss.
        retries: the number of losses to survive.
        lost: called after each loss.
    """
    for _ in range(retries):
        try:
            return once()
        except ConnectionLost:
            lost()
    return once()


def checked(replies: list[Reply]) -> list[Reply]:
    """Return the replies of a pipeline unchanged, if none of them is an error.

    Raises ServerError: the first error.
    """
    for reply in replies:
        if isinstance(reply, ServerError):
            raise reply
    return replies


def read_facts(reply: Sequence[Any]) -> dict[bytes, Any]:
    """Return a reply of alternating names and values, such as a row of XINFO, as a dict."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def packed(commands: Sequence[Sequence[Word]]) -> bytes:
    """Return the RESP bytes of several commands."""
    # hiredis' own stub says a tuple of one word.
    return b"".join(hiredis.pack_command(tuple(words)) for words in commands)  # type: ignore[arg-type]


def command_name(words: Sequence[Word]) -> str:
    """Return the name of a command in upper case."""
    word = words[0]
    return (word.decode(errors="replace") if isinstance(word, bytes) else str(word)).upper()


def is_not_yet(reply: Reply) -> bool:
    """Return True if a reply is the error of a server that will serve soon (LOADING …); the command did not run."""
    return isinstance(reply, ServerError) and str(reply).startswith(_LATER)


def _given_up(to: Endpoint, error: object) -> str:
    times = "once" if to.retries == 0 else f"{to.retries + 1} times"
    return f"no answer from the Redis server at {to} (tried {times}): {error}"


def _refuse_mode(to: Endpoint, mode: bytes | None) -> None:
    """Refuse a server that is a cluster node or a sentinel. Raises RedisError: the server is one."""
    if mode == b"cluster":
        raise RedisError(
            f"{to} is a node of a cluster, which has a part of the data: "
            f"use option 'url' (--url), as in redis+cluster://{place_text((to.host, to.port))}"
        )
    if mode == b"sentinel":
        raise RedisError(
            f"{to} is a sentinel: use option 'url' (--url), as in redis+sentinel://{place_text((to.host, to.port))}/mymaster"
        )


def _tls_context(to: Endpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=to.tls_ca_cert)
        if to.tls_cert:
            context.load_cert_chain(to.tls_cert, to.tls_key)
    except OSError as error:
        raise RedisError(f"cannot use tlsCaCert, tlsCert or tlsKey: {error}") from error
    if to.tls_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
