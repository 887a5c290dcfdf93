"""A server alone with its connections: no sockets, no files, no time."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rillet.server.clock import Clock
from rillet.server.config.config import Config
from rillet.server.debugging.commands.recording import fields_of
from rillet.server.debugging.fault_spec import parse_fault
from rillet.server.execution.turns import NEVER
from rillet.server.net.connection import Connection
from rillet.server.server import Server
from rillet.storage.collections.base import Collection
from rillet.storage.streams.iteration import iter_entries

NOW = 1_700_000_000_000


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reads = True

    def get_extra_info(self, _name: str, _default: object = None) -> None:
        return None

    def is_closing(self) -> bool:
        return self.written[-1:] in ([b"closed"], [b"aborted"])

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def close(self) -> None:
        self.written.append(b"closed")

    def abort(self) -> None:
        self.written.append(b"aborted")


class Turns(list[tuple[Callable[..., object], tuple[object, ...]]]):
    """What a server uses of an event loop: the calls of its next turn. No timer of it ever fires."""

    def call_soon(self, what: Callable[..., object], *args: object) -> None:
        self.append((what, args))

    def call_later(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(cancel=lambda: None)

    call_at = call_later

    def time(self) -> float:
        return 0.0

    def run(self) -> bool:
        """Take one turn; whether there was something to call."""
        calls = self[:]
        self.clear()
        for what, args in calls:
            what(*args)
        return bool(calls)


def connect(server: Server) -> Connection:
    connection = Connection(server, unix_socket=True)
    connection.connection_made(Wire())  # type: ignore[arg-type]
    return connection


class Alone:
    """A server without sockets and files, at a standing clock; recorded, or also with a fault that never hits."""

    def __init__(self, *, careful: bool = False, recorded: bool = False, may_fail: bool = False) -> None:
        clock = Clock()
        clock.freeze(NOW)
        self.server = server = Server(Config(), clock=clock, quiet=True)
        server.config.set([(b"slowlog-log-slower-than", b"-1")])
        for name in [name for name, command in server.dispatcher.commands.items() if command.is_served]:
            server.dispatcher.find(name.encode().split(b"|"))  # the first of each takes the general way
        server.loop = self.turns = Turns()  # type: ignore[assignment]
        self.propagated: list[bytes] = []
        server.propagation.connect(self.propagated.append)
        self.clients = [connect(server) for _ in range(4)]
        if careful:
            server.needs_all_checks, server.run_single = True, None
        if recorded:
            server.debugging.recorder.start(100)
        if may_fail:
            server.debugging.faults.add(
                parse_fault([b"COMMAND", b"GET", b"EVERY", b"1000000", b"CLOSE", b"after"])
            )
        server.turns.slice = NEVER  # a busy machine makes no difference

    def send(self, who: int, data: bytes) -> None:
        """Give a client's bytes to the server, and let it do all that is to be done."""
        self.clients[who].data_received(data)
        while self.turn():
            pass

    def turn(self) -> bool:
        """Call what was to be called in the next turn of the loop; whether there was something."""
        return self.turns.run()

    def recorded(self) -> list[list[Any]]:
        """What the recording has."""
        recorder = self.server.debugging.recorder
        (recording,) = recorder.recordings.values()
        return [fields_of(recorder, entry) for entry in recording.entries]

    def state(self) -> dict[str, object]:
        """All that can be seen from outside, times of calls left out."""
        server = self.server
        keyspace = server.keyspace
        return {
            "replies": [b"".join(client.transport.written) for client in self.clients],  # type: ignore[union-attr]
            "propagated": b"".join(self.propagated),
            "streams": [
                {
                    key: (
                        list(iter_entries(value)),
                        value.last_id,
                        value.length,
                        value.entries_added,
                        [node.first_id for node in value.macro_nodes.all()],
                    )
                    if hasattr(value, "macro_nodes")
                    else (type(value).__name__, list(value.parts()))
                    if isinstance(value, Collection)
                    else value
                    for key, value in db.entries.items()
                }
                for db in keyspace.databases[:2]
            ],
            "accessed": [db.accessed for db in keyspace.databases],
            "watched": [db.watched for db in keyspace.databases],
            "counters": (keyspace.dirty, keyspace.hits, keyspace.misses),
            "commands": server.stats.commands_processed,
            "calls": {
                name: (entry.calls, entry.failed, entry.rejected, sum(entry.histogram))
                for name, entry in server.dispatcher.used()
                if entry.calls or entry.failed or entry.rejected
            },
            "clients": [
                (
                    client.total_commands,
                    client.last_command,
                    client.net_in,
                    client.net_out,
                    client.state,
                )
                for client in self.clients
            ],
        }
