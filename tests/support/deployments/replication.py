"""Servers that follow each other: a proxy that cuts links, waiting for the same state, and what that state is.

with Proxy(master.port) as proxy:
    follow(replica, proxy.port)
    ...
    proxy.cut()
    in_step(master, replica)
    assert picture(master) == picture(replica)
"""

import contextlib
import socket
import threading
import time
from typing import Any, Self

from support.servers import ServerProcess, start_server
from support.streams.random_data import OWN, values
from support.until import until
from support.wire import Wire

_FAST = ("--repl-diskless-sync-delay", 0)


def start(kind: str, *flags: str | int) -> ServerProcess:
    """A server that does not wait for others to share a snapshot."""
    version = ("--compat-version", "8.0") if kind == "rillet" else ()
    return start_server(kind, *_FAST, *version, *flags)


def call(server: ServerProcess, *words: bytes | str | int) -> Any:
    """One command on a connection of its own, as Python values."""
    with server.wire() as wire:
        return wire.call(*words).plain()


def info(server: ServerProcess, field: str) -> str:
    """One field of INFO."""
    text = call(server, "INFO", "everything").decode()
    return next((line.split(":", 1)[1] for line in text.splitlines() if line.startswith(f"{field}:")), "")


def follow(replica: ServerProcess, port: int) -> None:
    """Let a server become a replica, and wait until its link is up."""
    assert call(replica, "REPLICAOF", "127.0.0.1", port) in {
        b"OK",
        b"OK Already connected to specified master",
    }
    until_up(replica)


def until_up(replica: ServerProcess) -> None:
    until(lambda: info(replica, "master_link_status") == "up")


def in_step(master: ServerProcess, *replicas: ServerProcess) -> None:
    """Wait until the replicas have everything that the master has sent."""

    def are_in_step() -> bool:
        offset = info(master, "master_repl_offset")
        return all(
            info(each, "master_link_status") == "up" and info(each, "slave_repl_offset") == offset
            for each in replicas
        )

    until(are_in_step)


def picture(server: ServerProcess, *, without: str = "") -> dict[tuple[int, bytes], Any]:
    """All that can be seen of the data and should be the same on a replica, less one field of XINFO."""
    with server.wire() as wire:
        return values(wire, (0, 1), {*OWN, b"seen-time", b"active-time", without.encode()}, fields=False)


class Proxy:
    """Forwards connections to a port of this machine until it cuts them on request."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.is_open = True
        self.cut_in: int | None = None  # bytes from the target, after which the link is cut
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Close every connection; new ones are accepted unless `is_open` is False."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        self.cuts += bool(sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_open:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._sockets |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pump, args=(source, target, source is server), daemon=True
                ).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                left = self.cut_in
                if not counted or left is None:
                    target.sendall(data)
                    continue
                target.sendall(data[:left])
                self.cut_in = left - len(data) if left > len(data) else None
                if left <= len(data):
                    break
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def play(wire: Wire, commands: list[list[str]]) -> None:
    """Run commands; errors among the replies are part of a random run."""
    for command in commands:
        wire.call(*command)


def pause(seconds: float) -> None:
    """Let two other processes meet; nothing is concluded from how long it takes."""
    time.sleep(seconds)


class Peer(Wire):
    """The other end of a connection, by hand: what the server sends are commands here."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.settimeout(60)
        self._socket = accepted
        self._unread = b""

    def command(self) -> list[bytes]:
        """The next command, in lower case its first word."""
        words = self.read().plain()
        assert isinstance(words, list)
        return [words[0].lower(), *words[1:]]

    def expect(self, *names: str) -> list[bytes]:
        """Read commands that must begin with these words; gives the last."""
        words: list[bytes] = []
        for name in names:
            words = self.command()
            assert b" ".join(words).decode().lower().startswith(name), words
        return words


class FakeMaster:
    """A listening socket that plays the master."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self.port: int = self._listener.getsockname()[1]
        self._links: list[Peer] = []  # closed at the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for peer in self._links:
            peer.close()

    def lead(self, replica: ServerProcess) -> tuple[Peer, list[bytes]]:
        """Let a server follow this master; return its link and its PSYNC, which is not answered yet."""
        assert call(replica, "REPLICAOF", "127.0.0.1", self.port) == b"OK"
        return self.accept()

    def accept(self) -> tuple[Peer, list[bytes]]:
        """The next link, led through the handshake up to its PSYNC, which is not answered yet."""
        peer = Peer(self._listener.accept()[0])
        self._links.append(peer)
        while (words := peer.command())[0] != b"psync":
            peer.send_raw(b"+PONG\r\n" if words[0] == b"ping" else b"+OK\r\n")
        return peer, words


class FakeReplica(Peer):
    """A connection that plays the replica."""

    def __init__(self, server: ServerProcess, *capabilities: str) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", server.port), 60))
        for name in capabilities:
            assert self.call("REPLCONF", "capa", name).value == b"OK"

    def line(self) -> bytes:
        """The next line that is not empty."""
        while True:
            while b"\n" not in self._unread:
                data = self._socket.recv(1 << 16)
                assert data, "closed"
                self._unread += data
            line, self._unread = self._unread.split(b"\n", 1)
            if line.strip():
                return line.strip()

    def full_sync(self, *words: str | int) -> tuple[bytes, int, bytes]:
        """PSYNC answered by a snapshot: the history, the offset, the file."""
        self.send("PSYNC", *(words or ("?", -1)))
        kind, history, offset = self.line().split()
        assert kind == b"+FULLRESYNC"
        return history, int(offset), self.payload()

    def acknowledged_sync(self) -> int:
        """A snapshot that is acknowledged, so that the stream begins: its offset."""
        offset = self.full_sync()[1]
        self.send("REPLCONF", "ACK", offset)
        return offset

    def payload(self, *, with_length: bool = False) -> bytes:
        header = self.line()
        assert header.startswith(b"$"), header
        assert header[1:].isdigit() or not with_length
        if not header.startswith(b"$EOF:"):
            return self.exactly(int(header[1:]))
        mark = header[5:]
        assert len(mark) == 40
        file = b""
        while not file.endswith(mark):
            file += self.exactly(1)
        return file[:-40]

    def exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            data = self._socket.recv(1 << 16)
            assert data, "closed"
            self._unread += data
        data, self._unread = self._unread[:size], self._unread[size:]
        return data
