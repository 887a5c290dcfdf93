"""A server without sockets, for tests that call handlers directly.

    server = FakeServer()
    client = make_client(resp=3, server=server)
    assert run(client, "XADD", "s", "1-0", "f", "v") == b"$3\r\n1-0\r\n"
    assert server.propagation.effects == [[b"XADD", b"s", b"1-0", b"f", b"v"]]

The keyspace and the clock are the real ones; everything that would reach out is recorded instead.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import hiredis

from rillet.commands.acl.log import AclLog
from rillet.commands.runtime.client import Client
from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.commands.runtime.users import Users
from rillet.commands.spec.command import REGISTRY, Command, handler_for
from rillet.commands.spec.versions import NEWEST, compat_with
from rillet.protocol.errors import ReplyError, wrong_arity
from rillet.server.clock import Clock
from rillet.server.config.config import Config
from rillet.server.families import load_all
from rillet.storage.keyspace.database import Database
from rillet.storage.keyspace.keyspace import Keyspace

load_all()


class FakePropagation:
    """Collects effects: `effects` holds argv lists, `databases` the database of each."""

    def __init__(self) -> None:
        self.active = True
        self.effects: list[list[bytes]] = _Effects(self)
        self.databases: list[int] = []
        self.understood = (999, 0)

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        self.effects.append(list(argv))
        self.databases.append(db)

    def add_encoded(self, db: int, record: bytes) -> None:
        self.add_joined(db, record, 1)

    def add_joined(self, db: int, records: bytes, number: int) -> None:
        reader = hiredis.Reader()
        reader.feed(records)
        for _ in range(number):
            argv = reader.gets()
            assert argv is not False, f"less than {number} commands in {records!r}"
            self.add(db, argv)
        assert reader.gets() is False, f"more than {number} commands in {records!r}"

    def exempt(self, since: int) -> None:
        """No script limits what is kept."""

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """What the data does not show is not kept."""

    def flush_each(self, *, keep: int) -> None:
        """All units are one list here."""
        assert keep == 1

    def needs_downgrade(self, since: tuple[int, int]) -> bool:
        """There are no replicas."""
        assert since
        return False

    def take(self) -> list[list[bytes]]:
        """The effects so far; they are forgotten."""
        taken, self.effects = self.effects, _Effects(self)
        self.databases = []
        return taken


class _Effects(list[list[bytes]]):
    """Takes effects as `Propagation.effects` does, too: (database, record)."""

    def __init__(self, propagation: FakePropagation) -> None:
        self._propagation = propagation

    def append(self, effect: list[bytes] | tuple[int, bytes]) -> None:
        if isinstance(effect, tuple):
            self._propagation.add_encoded(*effect)
        else:
            super().append(effect)


class FakeBlocking:
    """Records who would block: `waiting` holds (client, keys, timeout, argv, on_missing); `recheck_at` the last one's."""

    served = None

    def __init__(self) -> None:
        self.resuming = False
        self.waiting: list[tuple[Client, list[bytes], int, list[bytes], bool]] = []
        self.unblocked: list[tuple[Client, bytes | None]] = []
        self.waiters: dict[Client, object] = {}
        self.recheck_at: Mapping[bytes, int] | None = None
        self.still_blocked: Callable[[], bool] | None = None

    def block(
        self,
        client: Client,
        keys: Sequence[bytes],
        timeout: int,
        argv: list[bytes],
        *,
        on_missing: bool = False,
        wants: object = None,
        on_timeout: bytes | None = None,
        recheck_at: Mapping[bytes, int] | None = None,
        still_blocked: Callable[[], bool] | None = None,
    ) -> None:
        self.wants = wants
        self.on_timeout = on_timeout
        self.recheck_at = recheck_at
        self.still_blocked = still_blocked
        self.waiting.append((client, list(keys), timeout, argv, on_missing))

    def unblock(self, client: Client, error: bytes | None = None, *, asked: bool = False) -> None:
        del asked
        self.unblocked.append((client, error))


class FakeLog:
    """Keeps the lines of each level."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, text: str) -> None:
        self.lines.append(("debug", text))

    def verbose(self, text: str) -> None:
        self.lines.append(("verbose", text))

    def notice(self, text: str) -> None:
        self.lines.append(("notice", text))

    def warning(self, text: str, details: str = "") -> None:
        self.lines.append(("warning", text + details))


class FakeJobs:
    """Runs each job to its end immediately."""

    def run_soon(self, job: Callable[[], bool]) -> None:
        while job():
            pass


class FakeClients(dict[int, Client]):
    """The clients of a server; `observations` counts how often the observers were counted."""

    def __init__(self) -> None:
        super().__init__()
        self.monitors: set[Client] = set()
        self.observations = 0

    def update_observers(self) -> None:
        self.observations += 1

    def end_control(self, client: Client) -> None:
        """There are no control connections."""


class FakeServer:
    """What handlers see of a server, as far as it is easily faked. `events` holds (event, key) of every keyspace notification, in order."""

    def __init__(self, now: int = 1_700_000_000_000, **config: Any) -> None:
        self.clock = Clock()
        self.clock.freeze(now)
        self.keyspace = Keyspace()
        self.keyspace.now = now
        self.keyspace.notify_mask = (1 << 14) - 1
        self.events: list[tuple[bytes, bytes]] = []
        self.keyspace.on_event = lambda _db, event, key, _fields: self.events.append((event, key))
        self.config = Config(**config)
        self.compat = compat_with(NEWEST)
        self.tuning = ServerTuning()
        self.propagation = FakePropagation()
        self.blocking = FakeBlocking()
        self.clients = FakeClients()
        self.stats = SimpleNamespace(denied=Counter())
        self.users = Users()
        self.users.set_password(self.config.requirepass)
        self.acl_log = AclLog(self)
        self.log = FakeLog()
        self.background_jobs = FakeJobs()
        self.interceptor = None
        self.snapshots = SimpleNamespace(after_flushall=lambda: None)  # there is no dump file

    @property
    def rdb_version(self) -> int:
        return self.config.rdb_version or self.compat.rdb_version

    def advance(self, milliseconds: int) -> int:
        """Let the time go on; returns the new time in ms."""
        self.keyspace.now = self.clock.advance(milliseconds)
        return self.keyspace.now


def make_client(resp: int = 2, server: Any = None) -> Client:
    """A client of the given server, or of a new one (then `client.server` is the FakeServer)."""
    server = server or FakeServer()
    client = Client(server, len(server.clients) + 1)
    client.resp = resp
    server.clients[client.id] = client
    return client


def find(argv: Sequence[bytes]) -> Command:
    """The record of a command, or of its subcommand."""
    entry = REGISTRY[argv[0].lower().decode()]
    return entry if entry.is_served else REGISTRY[f"{entry.name}|{argv[1].lower().decode()}"]


def run(client: Client, *words: bytes | str | int) -> bytes | None:
    """Run one command as the dispatcher would: look it up, check the arity, encode errors.

    None means that the client would block now (or is not answered).
    """
    argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    entry = find(argv)
    try:
        if not entry.accepts(len(argv)):
            raise wrong_arity(entry.name)
        return handler_for(entry, compat_with(NEWEST).knows)(client, argv)
    except ReplyError as error:
        return error.encoded


def reply(client: Client, *words: bytes | str | int) -> Any:
    """As `run`, but decoded (bytes, int, list, None; an error as hiredis.ReplyError)."""
    raw = run(client, *words)
    if raw is None:
        return None
    reader = hiredis.Reader()
    reader.feed(raw)
    value = reader.gets()
    assert reader.gets() is False, f"more than one reply in {raw!r}"
    return value


def effects(client: Client) -> tuple[list[bytes], list[bytes], int]:
    """Return the events, the propagated commands and the number of changes so far; forgotten then."""
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    server.events.clear()
    changes, server.keyspace.dirty = server.keyspace.dirty, 0
    return events, [b" ".join(argv) for argv in server.propagation.take()], changes


def wait_for(client: Client, key: bytes) -> None:
    """Let a client wait for a key, so that signals for it are kept."""
    database: Database = client.db
    database.awaited[key] = database.awaited.get(key, 0) + 1
