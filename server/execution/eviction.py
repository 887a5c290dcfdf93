"""``maxmemory``: evict keys, or refuse commands that may need memory, above the limit.

The limit applies to what INFO shows as ``used_memory`` without
``mem_not_counted_for_evict``. ``refusal`` compares it with the limit before each command. Without a limit none of
this runs: the databases have no meter, and no command calls ``refusal``.
"""

from __future__ import annotations

from bisect import insort
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ...protocol.errors import OOM
from ...storage.keyspace import metering
from ...storage.keyspace import notifications as events
from ...storage.keyspace.frequency import HIGHEST, Settings
from ...storage.keyspace.sampling import next_to_expire, sample
from ..admin.memory_use import SERVER_BYTES, buffer_bytes
from .flags import flags_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...commands.runtime.client import Client
    from ...storage.keyspace.database import Database
    from ..server import Server
    from .entry import CommandEntry

_POOL: Final = 16  # candidates kept from one victim to the next
_AT_ONCE: Final = 16  # victims between two readings of the clock
_LINEAR: Final = 10  # up to this tenacity each step is worth 50 microseconds, above it 15 per cent
_STEP: Final = 50e-6  # seconds
_NO_LIMIT: Final = 100
# Commands that can end a transaction of 7.0 when memory is out.
_ENDINGS: Final = frozenset(("exec", "discard", "quit", "reset"))


class Eviction:
    """The memory limit of one server.

    Attributes:
        out_of_memory: no room could be made before the present command; scripts read it, as none is stopped midway. Without
            a limit it stays: a transaction may set one before its script.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.out_of_memory = False
        self._buffers = 0  # bytes, at the last cron
        self._exceeded_since: float | None = None
        # Candidates, the best one last. A rank is higher the longer ago or the less often a key was used.
        self._pool: list[tuple[int, int, bytes]] = []
        self._turn = 0  # the database that last lost a key at random

    # Settings

    def reset(self) -> None:
        """Apply the directives to a server without data."""
        self._turn = self._buffers = 0
        self.out_of_memory = False
        self.update()

    def update(self) -> None:
        """Apply the directives: switch metering on or off, and begin to evict above the limit."""
        server = self.server
        config, keyspace = server.config, server.keyspace
        policy = config.maxmemory_policy
        self._pool.clear()
        lfu = policy.endswith("lfu")
        keyspace.usage = Settings(config.lfu_log_factor, config.lfu_decay_time) if lfu else None
        if not lfu:
            for db in keyspace.databases:
                db.frequencies = {}
        keyspace.keeps_idle = policy.endswith("lru")
        keyspace.by_modification = policy.endswith("lrm")
        keyspace.touching = not keyspace.by_modification
        if config.maxmemory or lfu or keyspace.by_modification:
            metering.switch_on(keyspace)
            self._start(self._measure)
        else:
            metering.switch_off(keyspace)
        server.update_checks()
        if not config.maxmemory:
            self._within_limit()
            return
        self._buffers = buffer_bytes(server)
        if self._used() > config.maxmemory:
            self._start(self._go_on)

    def warn(self) -> None:
        """CONFIG SET maxmemory: log a warning if the limit is below the used memory."""
        limit = self.server.config.maxmemory
        if limit and (used := self._used()) > limit:
            self.server.log.warning(
                f"WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory "
                f"usage ({used}). This will result in key eviction and/or the inability to accept new write commands "
                "depending on the maxmemory-policy."
            )

    def cron(self) -> None:
        """Measure what no command changes; called ten times a second."""
        if self.server.config.maxmemory:
            self._buffers = buffer_bytes(self.server)
            metering.measure_unseen(self.server.keyspace)
            self._start(self._measure)

    def _start(self, job: Callable[[], bool]) -> None:
        if hasattr(self.server, "loop"):  # else the cron starts it
            self.server.background_jobs.run_soon(job)

    def _measure(self) -> bool:
        return metering.measure_some(self.server.keyspace)

    # Before each command

    def refusal(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bytes | None:
        """Make room for a command; return the refusal if it may need memory that is not there."""
        self.out_of_memory = not self.make_room(sum(map(len, argv)))
        if self.out_of_memory and not client.trusted and self._may_grow(client, entry, argv):
            return OOM
        return None

    def refuses_in_script(self, entry: CommandEntry) -> bool:
        """Whether a script that has not written yet may not begin with this command."""
        return self.out_of_memory and self.server.config.maxmemory > 0 and "denyoom" in entry.command.flags

    def _may_grow(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bool:
        transaction = client.transaction
        if transaction is None:
            return self._needs_memory(client, entry, argv)
        if self.server.compat.number < (7, 2) and entry.name not in _ENDINGS:
            return True
        if entry.name == "exec":
            return any(self._needs_memory(client, queued, words) for queued, words in transaction.commands)
        return self._needs_memory(client, entry, argv)

    def _needs_memory(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bool:
        return "denyoom" in flags_of(self.server, client, entry, argv)

    # Making room

    def make_room(self, more: int = 0) -> bool:
        """Evict until the limit holds or the time is up.

        Args:
            more: bytes beside those in use: the arguments of a command, which are there before it runs.

        Returns:
            False if the limit is exceeded and no key may be evicted.
        """
        limit = self.server.config.maxmemory
        if not limit or self._used() + more <= limit:
            self._within_limit()
            return True
        if not self._is_safe():
            return True
        if self._exceeded_since is None:
            self._exceeded_since = perf_counter()
        if self.server.config.maxmemory_policy == "noeviction":
            return False
        return self._evict(limit - more)

    def exceeded_milliseconds(self) -> tuple[int, int]:
        """Milliseconds over the limit, in total and for the present excess."""
        since = self._exceeded_since
        current = 0 if since is None else int((perf_counter() - since) * 1000)
        return self.server.stats.exceeded_milliseconds + current, current

    def _used(self) -> int:
        total = SERVER_BYTES + self._buffers
        for db in self.server.keyspace.databases:
            if db.entries:
                assert db.meter is not None
                total += db.meter.bytes_of(db)
        return total

    def _within_limit(self) -> None:
        if self._exceeded_since is not None:
            self.server.stats.exceeded_milliseconds += int((perf_counter() - self._exceeded_since) * 1000)
            self._exceeded_since = None

    def _is_safe(self) -> bool:
        """Whether keys may be evicted now: not within a script, while loading, or during a pause."""
        server = self.server
        return not (
            server.loading
            or server.in_script
            or server.pause.is_on
            or (server.role != "master" and server.config.replica_ignore_maxmemory)
        )

    def _evict(self, limit: int) -> bool:
        server = self.server
        started = perf_counter()
        until = started + _patience(server.config.maxmemory_eviction_tenacity)
        count = 0
        found = True
        while self._used() > limit:
            victim = self._victim()
            if victim is None:
                found = False
                break
            self._drop(*victim, until)
            count += 1
            if not count % _AT_ONCE and perf_counter() > until:
                self._start(self._go_on)
                break
        else:
            self._within_limit()
        self._note_latency("eviction-cycle", started)
        return found

    def _go_on(self) -> bool:
        """Evict a few keys between requests; return False when there is nothing to evict."""
        limit = self.server.config.maxmemory
        if not limit or not self._is_safe():
            return False
        for _ in range(_AT_ONCE):
            if self._used() <= limit:
                self._within_limit()
                break
            victim = None if self.server.config.maxmemory_policy == "noeviction" else self._victim()
            if victim is None:
                break
            self._drop(*victim, 0.0)
        else:
            self.server.finish_unit()
            return True
        self.server.finish_unit()
        return False

    def _drop(self, db: Database, key: bytes, until: float) -> None:
        """Evict a key and propagate that; free it now, while there is time, unless lazy."""
        server = self.server
        lazy = server.config.lazyfree_lazy_eviction
        started = perf_counter()
        client, server.current_client = server.current_client, None  # its NOLOOP must not hide this
        try:
            db.remove(key)
            # Even if a listener fails, the record follows the removal.
            server.propagation.add(db.index, [b"UNLINK" if lazy else b"DEL", key])
            db.modified(key)
            server.keyspace.notify(events.EVICTED, b"evicted", key, db)
        finally:
            server.current_client = client
        lazyfree = server.keyspace.lazyfree
        while not lazy and lazyfree.pending and perf_counter() < until and lazyfree.step():
            pass
        server.stats.evicted_keys += 1
        if server.propagation.effects:
            server.propagation.flush()
        self._note_latency("eviction-del", started)

    def _note_latency(self, event: str, started: float) -> None:
        threshold = self.server.config.latency_monitor_threshold
        milliseconds = int((perf_counter() - started) * 1000)
        if threshold and milliseconds >= threshold:
            self.server.latency.add(event, milliseconds)

    # Choice of the victim

    def _victim(self) -> tuple[Database, bytes] | None:
        """The next key to evict, None if no key may be evicted."""
        policy = self.server.config.maxmemory_policy
        if policy == "volatile-ttl":
            return self._first_to_expire()
        if policy.endswith("random"):
            return self._by_chance(volatile=policy.startswith("volatile"))
        return self._best_candidate(volatile=policy.startswith("volatile"))

    def _first_to_expire(self) -> tuple[Database, bytes] | None:
        found = [(*first, db.index) for db in self.server.keyspace.databases if (first := next_to_expire(db))]
        if not found:
            return None
        _, key, index = min(found)
        return self.server.keyspace.databases[index], key

    def _by_chance(self, *, volatile: bool) -> tuple[Database, bytes] | None:
        databases = self.server.keyspace.databases
        for _ in databases:
            self._turn = (self._turn + 1) % len(databases)
            db = databases[self._turn]
            for key in sample(db, 1, volatile=volatile):
                return db, key
        return None

    def _best_candidate(self, *, volatile: bool) -> tuple[Database, bytes] | None:
        databases = self.server.keyspace.databases
        while self._fill_pool(volatile=volatile):
            while self._pool:
                rank, index, key = self._pool.pop()
                db = databases[index]
                if key in (db.expires if volatile else db.entries) and self._rank(db, key) >= rank:
                    return db, key
        return None

    def _fill_pool(self, *, volatile: bool) -> bool:
        """Sample keys of each database; return False if there is no key to sample."""
        pool, samples = self._pool, self.server.config.maxmemory_samples
        found = False
        for db in self.server.keyspace.databases:
            if not db.entries:
                continue
            for key in sample(db, samples, volatile=volatile):
                found = True
                candidate = (self._rank(db, key), db.index, key)
                if (len(pool) < _POOL or candidate > pool[0]) and candidate not in pool:
                    insort(pool, candidate)
                    if len(pool) > _POOL:
                        del pool[0]
        return found

    def _rank(self, db: Database, key: bytes) -> int:
        if db.keyspace.usage is not None:
            return HIGHEST - db.frequency(key)
        return -db.accessed[key]


def _patience(tenacity: int) -> float:
    """Seconds that eviction may delay a command at a tenacity (0.5 ms by default)."""
    if tenacity >= _NO_LIMIT:
        return float("inf")
    if tenacity <= _LINEAR:
        return tenacity * _STEP
    return float(_LINEAR * _STEP * 1.15 ** (tenacity - _LINEAR))
