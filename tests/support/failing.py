"""A server in this process whose commands fail on purpose: at the n-th call that they make.

trial = Trial()
trial.send([[b"SET", b"a", b"1"]])
trial.send([[b"SET", b"a", b"2"]], failing=Failing(7))    # a MemoryError at the 7th call
assert trial.seen() == trial.replayed()    # memory, and what the AOF and the replicas were given
"""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hiredis import Reader
from support.alone import NOW, Turns, connect
from support.invariants import check_invariants

from rillet.commands.runtime.client import Client
from rillet.commands.runtime.state import State
from rillet.protocol.replies import command
from rillet.server.clock import Clock
from rillet.server.config.config import Config
from rillet.server.execution.turns import NEVER
from rillet.server.net.connection import Connection
from rillet.server.net.held_replies import Replies
from rillet.server.server import Server
from rillet.storage.collections.base import Collection
from rillet.storage.collections.hash import Hash
from rillet.storage.collections.list import List
from rillet.storage.keyspace.database import RETRY, Database
from rillet.storage.streams.iteration import iter_entries
from rillet.storage.value_types import Value


class Failing:
    """Raises an error at the n-th call of Python or C code, and counts the calls."""

    def __init__(self, *places: int, error: type[Exception] = MemoryError) -> None:
        self.places = frozenset(places)
        self.error = error
        self.calls = 0
        self.raised: list[str] = []

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        if event not in {"call", "c_call"}:
            return
        if arg is sys.setprofile or frame.f_code.co_filename == __file__:
            return
        self.calls += 1
        if self.calls in self.places:
            code = frame.f_code
            self.raised.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname} {event} {arg}")
            raise self.error("on purpose")


class Trial:
    """A server without sockets and files, at a clock that only tests move, and all that it propagates."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.clock.freeze(NOW)
        self.server = _server(self.clock)
        self.propagated: list[bytes] = []
        self.server.loop = self.turns = Turns()  # type: ignore[assignment]
        self.server.propagation.connect(self.propagated.append)
        self.clients = [connect(self.server)]
        self.other = _server(self.clock)
        self.other_client = Client(self.other)
        self.other_client.trusted = self.other_client.replays = self.other_client.authenticated = True
        self.replayed_until = 0
        self.errors: list[BaseException] = []  # that no handler caught
        self.log: list[str] = []
        self.server.log.warning = self._keep_line  # type: ignore[method-assign]
        self.server.turns.slice = NEVER  # a slow machine makes no further calls
        self.server.log.notice = self.server.log.verbose = lambda _text: None  # type: ignore[method-assign]

    def _keep_line(self, text: str, *, details: str = "") -> None:
        del details
        self.log.append(text)

    @property
    def died(self) -> bool:
        """Whether the server gave itself up."""
        return self.server.exit_status != 0

    def client(self, who: int) -> Connection:
        """One of the clients; connected at its first use, and again when it was closed."""
        while len(self.clients) <= who:
            self.clients.append(connect(self.server))
        if self.clients[who].state is State.CLOSING:
            self.clients[who] = connect(self.server)
        return self.clients[who]

    def send(
        self, commands: Sequence[Sequence[bytes]], who: int = 0, failing: Failing | None = None
    ) -> bytes:
        """Let a client send commands in one batch, which may fail; return the replies."""
        connection = self.client(who)
        wire: Any = connection.transport
        wire.written.clear()
        data = b"".join(map(command, commands))
        sys.setprofile(failing)
        try:
            self._guarded(connection, connection.data_received, data)
            self.turn()
        finally:
            sys.setprofile(None)
        return b"".join(wire.written)

    def _guarded(self, connection: Connection | None, what: Any, *args: Any) -> None:
        """Run a callback as the loop does: what it raises ends its connection, and goes to the log."""
        try:
            what(*args)
        except Exception as error:  # noqa: BLE001 - as the loop
            self.errors.append(error)
            if connection is not None:
                connection.connection_lost(error)

    def guard(self, what: Callable[[], object]) -> None:
        """Call something that belongs to no connection, as the loop does."""
        self._guarded(None, what)

    def turn(self) -> None:
        """Run what waits for the next turn of the loop."""
        for _ in range(1000):
            if not self.turns:
                return
            what, args = self.turns.pop(0)
            owner = getattr(what, "__self__", None)
            self._guarded(owner if isinstance(owner, Connection) else None, what, *args)
        raise AssertionError("the loop never comes to rest")

    def replay(self) -> list[bytes]:
        """Give what was propagated since the last time to the other server, as a load replays a file; return errors."""
        reader = Reader()
        reader.feed(b"".join(self.propagated[self.replayed_until :]))
        self.replayed_until = len(self.propagated)
        other, client = self.other, self.other_client
        other.keyspace.now = self.clock.now
        errors: list[bytes] = []
        while (argv := reader.gets()) is not False:
            if argv[0] in {b"MULTI", b"EXEC"}:
                continue
            reply = other.calls.call(client, other.dispatcher.find(argv), argv)
            if reply is not None and reply.startswith(b"-"):
                errors.append(b" ".join(argv) + b": " + reply)
            other.propagation.forget()
        return errors

    def seen(self) -> dict[str, Any]:
        """The data in memory."""
        return data_of(self.server)

    def replayed(self) -> dict[str, Any]:
        """The data of the other server."""
        return data_of(self.other)

    def reset(self) -> None:
        """Forget all data, on both."""
        for server in (self.server, self.other):
            for database in server.keyspace.databases:
                database.clear()
            server.keyspace.libraries.clear()
            server.keyspace.ready.clear()
            server.keyspace.notify_mask = 0
            server.keyspace.expiring = True
        for connection in list(self.server.clients.values()):
            connection.close(after_reply=False)
            connection.connection_lost(None)  # type: ignore[attr-defined]
        # A fault of one trial is not one of the next.
        self.server.blocking.waiters.clear()
        self.server.blocking.waiting.clear()
        for database in self.server.keyspace.databases:
            database.awaited.clear()
        self.server.propagation.forget()
        self.clients = [connect(self.server)]
        self.turns.clear()
        self.server.replies = Replies(self.server)  # its turn is cleared
        self.propagated.clear()
        self.errors.clear()
        self.log.clear()
        self.replayed_until = 0
        self.clock.freeze(NOW)
        sinks = self.server.propagation.sinks
        sinks[next(iter(sinks))] = -1
        self.other_client.db = self.other.keyspace.databases[0]


def _server(clock: Clock) -> Server:
    server = Server(Config(), clock=clock, quiet=True)
    server.config.set([(b"slowlog-log-slower-than", b"-1"), (b"save", b"")])  # FLUSHALL shall write no file
    return server


def data_of(server: Server) -> dict[str, Any]:
    """What of the data of a server an append-only file keeps."""
    data: dict[str, Any] = {
        f"{db.index} {key!r}": (_facts(value, db.keyspace.now), db.expires.get(key))
        for db in server.keyspace.databases[:4]
        for key, value in db.entries.items()
        if not db.is_due(key)
    }
    data = {
        key: facts for key, facts in data.items() if facts[0]
    }  # of a hash all fields may be past their time
    return data | {"libraries": dict(server.keyspace.libraries.codes)}


def _facts(value: Value, now: int) -> object:
    if isinstance(value, bytes):
        return value
    if isinstance(value, Hash):
        times = {} if value.times is None else value.times.when
        return {
            field: (text, times.get(field))
            for field, text in value.fields.items()
            if times.get(field, now) >= now
        }
    if isinstance(value, Collection):
        parts = list(value.digest_parts())
        return type(value).__name__, parts if isinstance(value, List) else sorted(parts)
    return {
        "entries": list(iter_entries(value)),
        "last": (value.last_id, value.max_deleted_id, value.entries_added, value.length),
        "groups": {
            name: (
                group.last_id,
                group.entries_read,
                sorted(group.consumers),
                [(each.number, each.consumer.name, each.ms, each.count) for each in group],
            )
            for name, group in value.groups.items()
        },
        "producers": value.idempotency
        and (
            value.idempotency.duration,
            value.idempotency.maxsize,
            {pid: list(iids.items()) for pid, iids in value.idempotency.producers.items()},
        ),
    }


def faults_of(server: Server) -> list[str]:
    """What does not hold that always must: in the tables of keys, inside values, and around clients."""
    faults: list[str] = []

    def check(right: object, what: str) -> None:
        if not right:
            faults.append(what)

    keyspace = server.keyspace
    check(not keyspace.ready, "keys are still to be served")
    check(not server.propagation.effects, "effects are left")
    check(
        not server.propagation._downgraded and not server.propagation._replicas_only,
        "marks of effects are left",
    )
    check(server.current_client is None, "a client still runs")
    check(keyspace.touching, "lookups are still no access")
    check(not server.blocking.resuming, "a command still runs again")
    for db in keyspace.databases[:4]:
        faults += [f"db {db.index}: {fault}" for fault in _faults_of_tables(db)]
        for key, value in db.entries.items():
            try:
                faults += [f"{key!r}: {fault}" for fault in _faults_inside(value)]
            except Exception as error:  # noqa: BLE001 - that is a fault
                faults.append(f"{key!r}: {error!r}")
    waits: dict[tuple[Database, bytes], int] = {}
    for client, waiter in server.blocking.waiters.items():
        for key in waiter.keys:
            check(client in server.blocking.waiting.get((waiter.db, key), {}), "a waiter stands in no queue")
            waits[waiter.db, key] = waits.get((waiter.db, key), 0) + 1
    check({place: len(there) for place, there in server.blocking.waiting.items()} == waits, "queues differ")
    for db in keyspace.databases:
        check(db.awaited == {key: n for (of, key), n in waits.items() if of is db}, "awaited keys differ")
    for client in server.clients.values():
        check(
            (client.state is State.BLOCKED) == (client in server.blocking.waiters),
            "a client waits for nothing",
        )
        check(not client.in_exec, "a client is still in EXEC")
        check(not client.deferred, "pushes are left")
        before = client.mode, client.state
        client.update_state()
        check(before == (client.mode, client.state), "a mode or a state is out of date")
    return faults


def _faults_of_tables(db: Database) -> Iterator[str]:
    entries = db.entries
    if not db.expires.keys() <= entries.keys():
        yield "an expiry without a key"
    if db.accessed.keys() != entries.keys():
        yield "accesses of other keys"
    if not db.encodings.keys() <= {key for key, value in entries.items() if type(value) is bytes}:
        yield "an encoding of a key that is no string"
    retry = db.keyspace.now + RETRY  # a key whose deletion failed
    looked_at = {key for when, key in db.due if when <= max(retry, db.expires.get(key, 0))}
    if not db.expires.keys() <= looked_at:
        yield "an expiry that is never due"
    if db.scan_order is not None:
        order = db.scan_order
        if sorted(order.page(0, 1 << 20)[1]) != sorted(entries) or len(order) != len(entries):
            yield "SCAN sees other keys"
    for key, value in entries.items():
        times = getattr(value, "times", None)
        if times and (first := times.first()) is not None:
            when = db.field_due.when.get(key)
            if when is None or when > max(retry, first[0]):
                yield f"the fields of {key!r} are never due"


def _faults_inside(value: Value) -> Iterator[str]:
    if isinstance(value, Collection) and not len(value):
        yield "it is empty"
    for each in () if isinstance(value, bytes) else (value, *getattr(value, "groups", {}).values()):
        try:
            check_invariants(each)
        except AssertionError as error:
            yield f"{error!r} in {traceback.extract_tb(error.__traceback__)[-1].line}"
