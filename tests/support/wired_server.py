"""A FakeServer with the real registries of publish/subscribe and tracking, and clients that keep what they are sent.

server = WiredServer()
alice, bob = server.connect(resp=3), server.connect()
assert talk(alice, "SUBSCRIBE", "news") == b">3..."     # what alice gets for her command, pushes behind it
talk(bob, "PUBLISH", "news", "x")
assert alice.take() == b">3\r\n$7\r\nmessage..."        # what she got since
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from support.fake_server import FakeServer, find, run

from rillet.commands.connection.tracking import TrackingTable
from rillet.commands.pubsub.registry import PubSub
from rillet.commands.runtime.client import Client
from rillet.commands.spec.command import Command
from rillet.protocol.replies import QUEUED

NEVER_QUEUED = {b"EXEC", b"DISCARD", b"MULTI", b"WATCH", b"QUIT", b"RESET"}


class Recorder(Client):
    """A client whose pushes are kept; those to the client whose command runs wait for its reply."""

    def __init__(self, server: Any, client_id: int) -> None:
        super().__init__(server, client_id)
        self.received = b""
        self.closed: str | None = None

    def send(self, data: bytes) -> None:
        if self.server.current_client is self:
            self.deferred.append(data)
        else:
            self.received += data

    def close(self, *, after_reply: bool = True) -> None:
        self.closed = "after the reply" if after_reply else "at once"

    def take(self) -> bytes:
        """What was sent since the last time."""
        received, self.received = self.received, b""
        return received


class FakeCalls:
    """Runs the commands of EXEC; `ran` keeps their names."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def call_queued(
        self, client: Client, commands: list[tuple[Command, list[bytes]]], *, ends: bool = True
    ) -> list[bytes]:
        del ends
        return [self.call(client, command, argv) or b"" for command, argv in commands]

    def call(self, client: Client, entry: Command, argv: list[bytes]) -> bytes | None:
        self.ran.append(entry.name)
        return run(client, *argv)


class WiredServer(FakeServer):
    """What the handlers of connections, tracking, publish/subscribe and transactions see of a server."""

    def __init__(self, now: int = 1_700_000_000_000, **config: Any) -> None:
        super().__init__(now, **config)
        self.version = "8.0.0"
        self.role = "master"
        self.mode = "standalone"
        self.stats = SimpleNamespace(denied=Counter())
        self.current_client: Client | None = None
        self.in_script = False
        self.pauses: list[tuple[int, bool] | None] = []
        self.pause = PauseRecorder(self.pauses)
        me: Any = self
        self.pubsub = PubSub(me)
        self.tracking = TrackingTable(me)
        self.calls = FakeCalls()
        self.keyspace.on_event = self.pubsub.publish_event

    def connect(self, resp: int = 2) -> Recorder:
        client = Recorder(self, len(self.clients) + 1)
        client.resp = resp
        self.clients[client.id] = client
        return client

    def disconnect(self, client: Client) -> None:
        """As the server does when a connection is lost."""
        del self.clients[client.id]
        self.pubsub.remove(client)
        self.tracking.remove(client)
        self.clients.monitors.discard(client)


class PauseRecorder:
    """What CLIENT PAUSE and UNPAUSE asked for."""

    def __init__(self, calls: list[tuple[int, bool] | None]) -> None:
        self._calls = calls
        self.postponed: list[object] = []

    def begin(self, until: int, *, writes_only: bool) -> None:
        self._calls.append((until, writes_only))

    def end(self) -> None:
        self._calls.append(None)


def talk(client: Recorder, *words: bytes | str | int) -> bytes:
    """Run one command as the dispatcher would; returns its reply and the pushes that follow it."""
    argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    server: Any = client.server
    server.current_client = client
    if client.transaction is not None and argv[0].upper() not in NEVER_QUEUED:
        client.transaction.commands.append((find(argv), argv))
        client.transaction.size += sum(map(len, argv))
        reply: bytes | None = QUEUED
    else:
        reply = run(client, *argv)
    return finish(client, argv, reply or b"")


def finish(client: Recorder, argv: list[bytes], reply: bytes) -> bytes:
    """What follows a command: the client's own pushes, then what was collected for broadcasts."""
    server: Any = client.server
    if client.tracking is not None:
        server.tracking.finish(client, argv)
    reply += b"".join(client.deferred)
    client.deferred.clear()
    server.tracking.send_broadcasts()
    reply += b"".join(client.deferred)
    client.deferred.clear()
    server.current_client = None
    return reply


def read(client: Recorder, *keys: bytes) -> bytes:
    """The client runs a read-only command that looks at the keys."""
    server: Any = client.server
    server.current_client = client
    server.tracking.remember(client, keys)
    return finish(client, [b"GET"], b"")


def write(client: Recorder, *keys: bytes) -> bytes:
    """The client runs a command that changes the keys; returns its pushes."""
    server: Any = client.server
    server.current_client = client
    for key in keys:
        client.db.modified(key)
    return finish(client, [b"SET"], b"")
