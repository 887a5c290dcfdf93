"""A raw RESP client for tests: what a server sent is kept byte for byte, beside its tree.

`parse` builds a `Node` tree that distinguishes every RESP2 and RESP3 type and can be written back to the
very bytes it came from, so comparing masked trees is comparing bytes.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

LINE_TYPES = b"+-:_,#("
BULK_TYPES = b"$=!"
AGGREGATE_TYPES = b"*%~>|"


class ConnectionClosedError(Exception):
    """The server closed the connection where a reply was expected."""


@dataclass(slots=True, unsafe_hash=True)  # frozen, it takes three times as long to make
class Node:
    """One RESP value: its type byte, its header line (without type and CRLF), and what follows. Nobody changes it."""

    kind: str
    header: bytes
    body: bytes | None = None
    children: tuple[Node, ...] | None = None

    @property
    def is_null(self) -> bool:
        return self.kind == "_" or (self.kind in "$*" and self.header == b"-1")

    @property
    def value(self) -> bytes:
        """The text of a scalar: the body of a bulk, else the header."""
        return self.header if self.body is None else self.body

    def encode(self) -> bytes:
        """Its bytes; replies nest deeper than functions of Python may."""
        if self.children is None:
            start = self.kind.encode() + self.header + b"\r\n"
            return start if self.body is None else start + self.body + b"\r\n"
        out, rest = [], [self]
        while rest:
            node = rest.pop()
            out.append(node.kind.encode() + node.header + b"\r\n")
            if node.body is not None:
                out.append(node.body + b"\r\n")
            rest += reversed(node.children or ())
        return b"".join(out)

    def with_value(self, text: bytes) -> Node:
        """The same scalar with another text."""
        if self.body is None:
            return replace(self, header=text)
        return replace(self, header=b"%d" % len(text), body=text)

    def plain(self) -> object:
        """Python values for tests that only look inside: bytes, int, None, list, dict (pairs for maps)."""
        if self.is_null:
            return None
        if self.children is not None:
            values = [child.plain() for child in self.children]
            return list(zip(values[::2], values[1::2], strict=True)) if self.kind == "%" else values
        return int(self.header) if self.kind == ":" else self.value

    def __str__(self) -> str:
        """One readable line: `*[+OK $"a" :3 _]`."""
        if self.children is not None:
            return f"{self.kind}[{' '.join(map(str, self.children))}]"
        if self.is_null:
            return f"null{self.kind}"
        if self.body is not None:
            return self.kind + '"' + self.body.decode("latin-1").encode("unicode_escape").decode() + '"'
        return self.kind + self.header.decode("latin-1")


def parse(data: bytes, at: int = 0) -> tuple[Node, int] | None:
    """The value that begins at `at` and the offset behind it, or None where bytes are still missing."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, header, at = data[at], data[at + 1 : end], end + 2
    if kind in LINE_TYPES:
        return Node(chr(kind), header), at
    if kind in BULK_TYPES:
        size = int(header)
        if size < 0:
            return Node(chr(kind), header), at
        if len(data) < at + size + 2:
            return None
        assert data[at + size : at + size + 2] == b"\r\n", f"a bulk not ended by CRLF: {data[at:]!r}"
        return Node(chr(kind), header, data[at : at + size]), at + size + 2
    if kind not in AGGREGATE_TYPES:
        raise AssertionError(f"not a RESP value: {data[at - 2 - len(header) - 1 :][:80]!r}")
    count = int(header) * (2 if kind in b"%|" else 1)
    if count < 0:
        return Node(chr(kind), header), at
    children = []
    for _ in range(count):
        found = parse(data, at)
        if found is None:
            return None
        child, at = found
        children.append(child)
    return Node(chr(kind), header, None, tuple(children)), at


def split_replies(data: bytes) -> Iterator[Node]:
    """Every value of a complete byte string, such as an AOF."""
    at = 0
    while at < len(data):
        found = parse(data, at)
        assert found is not None, f"incomplete value: {data[at:][:80]!r}"
        node, at = found
        yield node


def commands(text: str) -> list[list[str]]:
    """The commands of a text, in lines or between semicolons; words with blanks stand in quotes."""
    return [shlex.split(line) for line in re.split(r"[;\n]", text) if line.strip()]


def encode_command(*words: bytes | str | int) -> bytes:
    """One request as a multibulk."""
    raw = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(raw) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in raw])


class Wire:
    """One connection. `call` sends a command and reads exactly one reply."""

    def __init__(self, port: int, protocol: int = 2, timeout: float = 60.0) -> None:
        self._socket = self._connect(port, timeout)
        self._unread = b""
        self.protocol = protocol
        if protocol == 3:
            reply = self.call("HELLO", 3)
            if reply.kind != "%":
                self.close()
                raise AssertionError(f"HELLO 3 was answered by {reply}")

    def _connect(self, port: int, timeout: float) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", port), timeout)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def wait_at_most(self, seconds: float) -> None:
        """Let what reads raise TimeoutError after this time."""
        self._socket.settimeout(seconds)

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, *words: bytes | str | int) -> None:
        self.send_raw(encode_command(*words))

    def call(self, *words: bytes | str | int) -> Node:
        self.send(*words)
        return self.read()

    def calls(self, commands: Iterable[Sequence[bytes | str | int]]) -> list[Node]:
        """Send commands at once, and read a reply to each."""
        requests = [encode_command(*words) for words in commands]
        self.send_raw(b"".join(requests))
        return [self.read() for _ in requests]

    def do(self, text: str) -> None:
        """Run commands one after the other (see ``commands``), none of which may be refused."""
        for words in commands(text):
            reply = self.call(*words)
            assert reply.kind != "-", f"{words}: {reply}"

    def read(self) -> Node:
        """Exactly one reply or push, whose bytes are `node.encode()`."""
        while True:
            found = parse(self._unread)
            if found is not None:
                node, end = found
                self._unread = self._unread[end:]
                return node
            data = self._socket.recv(max(1 << 16, len(self._unread)))
            if not data:
                raise ConnectionClosedError(f"closed with {self._unread!r} unread")
            self._unread += data

    def pending(self, wait: float = 0.0) -> bytes:
        """What has arrived and was not read, within `wait` seconds."""
        before = self._socket.gettimeout()
        self._socket.settimeout(wait)
        try:
            self._unread += self._socket.recv(1 << 16)
        except (BlockingIOError, TimeoutError):
            pass
        finally:
            self._socket.settimeout(before)
        return self._unread

    def take(self) -> bytes:
        """What has arrived and was not read; it counts as read then."""
        data, self._unread = self._unread, b""
        return data

    def rest(self) -> bytes:
        """All that arrives until the server closes, with what was not read before."""
        data = self._unread
        while more := self._socket.recv(1 << 16):
            data += more
        return data

    def put_back(self, node: Node) -> None:
        """Have the next `read` return this value."""
        self._unread = node.encode() + self._unread

    def is_over(self) -> bool:
        """Whether the server has closed and all that it sent was read; never waits."""
        if self._unread:
            return False
        before = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        finally:
            self._socket.settimeout(before)

    def is_closed_by_server(self) -> bool:
        """Waits for the end of the stream; anything else that arrives first means no."""
        if self._unread:
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            return True
