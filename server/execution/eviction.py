"""``maxmemory``: above the limit, evict keys or refuse commands that may need memory.

The limit applies to INFO ``used_memory`` minus ``mem_not_counted_for_evict``. ``refusal`` compares that with the limit
before each command. Without a limit, none of this runs: the databases have no meter, and no command calls ``refusal``.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...protocol.errors import OOM
from ...storage.keyspace import metering
from ...storage.keyspace import notifications as events
from ...storage.keyspace.database import Database
from ...storage.keyspace.frequency import HIGHEST, Settings
from ...storage.keyspace.sampling import next_to_expire, sample
from ..admin.used_memory import SERVER_BYTES, buffer_bytes
from .command_entry import CommandEntry
from .flags import flags_of

if TYPE_CHECKING:
    from ..server import Server

_POOL: Final = 16  # candidates kept from one victim to the next
_AT_ONCE: Final = 16  # victims between two readings of the clock
_LINEAR: Final = 10  # up to this tenacity each step adds 50 microseconds, above it 15 per cent
_STEP: Final = 50e-6  # seconds
_NO_LIMIT: Final = 100
# Commands that can end a transaction in 7.0 when memory is out.
_ENDINGS: Final = frozenset(("exec", "discard", "quit", "reset"))


class Eviction:
    """Keeps the memory of one server within ``maxmemory``."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # No room could be made before the current command. Scripts read it, because they are not stopped midway.
        # Without a limit it keeps its value, because a transaction may set a limit before its script.
        self.out_of_memory = False
        self._buffers = 0  # bytes, at the last cron
        self._exceeded_since: float | None = None
        # Candidates, the best one last. The rank grows with the idle time, or with the rarity of use, of a key.
        self._pool: list[tuple[int, int, bytes]] = []
        self._turn = 0  # the database that last lost a key at random

    # Settings

    def reset(self) -> None:
        """Reset all figures, and apply the directives, after all data was deleted."""
        self._turn = self._buffers = 0
        self.out_of_memory = False
        self.update()

    def update(self) -> None:
        """Apply the directives: switch the meters of the databases on or off, and begin to evict above the limit."""
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
        """After CONFIG SET maxmemory, log a warning if the limit is below the used memory."""
        limit = self.server.config.maxmemory
        if limit and (used := self._used()) > limit:
            self.server.log.warning(
                f"WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory "
                f"usage ({used}). This will result in key eviction and/or the inability to accept new write commands "
                "depending on the maxmemory-policy."
            )

    def cron(self) -> None:
        """Measure the memory that the meters miss: client buffers, and values that grew without a command.

        Called ten times a second.
        """
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
        """Evict keys until a command may run; return None if it may.

        Return the text of the OOM error if too few keys can be evicted and the command may need memory.
        """
        self.out_of_memory = not self.make_room(sum(map(len, argv)))
        if self.out_of_memory and not client.trusted and self._may_grow(client, entry, argv):
            return OOM
        return None

    def refuses_in_script(self, entry: CommandEntry) -> bool:
        """Return True if memory is too short for a script whose first write command is this one."""
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
        """Evict keys until the memory is within the limit, or a time limit is reached.

        ``more``: bytes beyond those in use: the arguments of a command, which take memory before it runs.
        Return False if the limit is exceeded and no key may be evicted.
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
        """Return for how many milliseconds memory has exceeded the limit: in total, and since it last did not."""
        since = self._exceeded_since
        current = 0 if since is None else int((perf_counter() - since) * 1000)
        return self.server.stats.exceeded_milliseconds + current, current

    def _used(self) -> int:
        total = SERVER_BYTES + self._buffers
        for db in self.server.keyspace.databases:
            if db.entries:
                assert db.meter is not None
                total += db.meter.memory_of(db)
        return total

    def _within_limit(self) -> None:
        if self._exceeded_since is not None:
            self.server.stats.exceeded_milliseconds += int((perf_counter() - self._exceeded_since) * 1000)
            self._exceeded_since = None

    def _is_safe(self) -> bool:
        """Return True if keys may be evicted now: not within a script, while loading, or during a pause."""
        server = self.server
        return not (
            server.loading
            or server.in_script
            or server.pause.is_on
            or (server.role != "master" and server.config.replica_ignore_maxmemory)
        )

    def _evict(self, limit: int) -> bool:
        started = perf_counter()
        until = started + _patience(self.server.config.maxmemory_eviction_tenacity)
        count = 0
        found = True
        while (excess := self._used() - limit) > 0:
            evicted = self._evict_some(excess, until)
            if not evicted:
                found = False
                break
            count += evicted
            if count >= _AT_ONCE and perf_counter() > until:
                self._start(self._go_on)
                break
        else:
            self._within_limit()
        self._note_latency("eviction-cycle", started)
        return found

    def _go_on(self) -> bool:
        """Evict a few keys between requests; return False when there is nothing to evict."""
        limit = self.server.config.maxmemory
        if not limit or not self._is_safe() or self.server.config.maxmemory_policy == "noeviction":
            return False
        count = 0
        while count < _AT_ONCE:
            excess = self._used() - limit
            if excess <= 0:
                self._within_limit()
                break
            evicted = self._evict_some(excess, 0.0)
            if not evicted:
                break
            count += evicted
        self.server.finish_unit()
        return count >= _AT_ONCE

    def _evict_some(self, excess: int, until: float) -> int:
        """Evict up to ``_AT_ONCE`` keys, until their measured bytes reach the excess; propagate each as its own unit.

        Return the number of evicted keys; 0 if none may be evicted.

        Args:
            excess: bytes above the limit.
            until: a time of ``perf_counter``; until then values are freed immediately, unless eviction is lazy.
        """
        server = self.server
        keyspace, propagation = server.keyspace, server.propagation
        lazy = server.config.lazyfree_lazy_eviction
        word = b"UNLINK" if lazy else b"DEL"
        count = 0
        client, server.current_client = server.current_client, None  # its NOLOOP must not hide this
        try:
            for db, key in self._victims(excess):
                started = perf_counter()
                assert db.meter is not None
                # If the size is unknown, stop here: the caller measures again what is left to evict.
                size = db.meter.memory.get(key, excess)
                db.remove(key)
                # Record the removal at once, in case a listener fails.
                propagation.add(db.index, [word, key])
                db.modified(key)
                if keyspace.notify_mask & events.EVICTED:
                    keyspace.notify(events.EVICTED, b"evicted", key, db)
                while not lazy and keyspace.lazyfree.pending and perf_counter() < until:
                    keyspace.lazyfree.step()
                count += 1
                server.stats.evicted_keys += 1
                if server.config.latency_monitor_threshold:
                    self._note_latency("eviction-del", started)
                excess -= size
                if excess <= 0:
                    break
        finally:
            server.current_client = client
        propagation.flush_each()
        return count

    def _note_latency(self, event: str, started: float) -> None:
        threshold = self.server.config.latency_monitor_threshold
        milliseconds = int((perf_counter() - started) * 1000)
        if threshold and milliseconds >= threshold:
            self.server.latency.add(event, milliseconds)

    # Choice of the victim

    def _victims(self, excess: int) -> list[tuple[Database, bytes]]:
        """Return the next keys to evict, ranked ones as many as the mean size suggests; empty if none may be evicted."""
        policy = self.server.config.maxmemory_policy
        if policy == "volatile-ttl":
            return self._first_to_expire()
        if policy.endswith("random"):
            return self._by_chance(volatile=policy.startswith("volatile"))
        meters = [db.meter for db in self.server.keyspace.databases if db.meter is not None]
        mean = sum([meter.total for meter in meters]) // max(sum([len(meter.memory) for meter in meters]), 1)
        number = min(max(excess // max(mean, 1), 1), _AT_ONCE)
        return self._best_candidates(number, volatile=policy.startswith("volatile"))

    def _first_to_expire(self) -> list[tuple[Database, bytes]]:
        found = [(*first, db.index) for db in self.server.keyspace.databases if (first := next_to_expire(db))]
        if not found:
            return []
        _, key, index = min(found)
        return [(self.server.keyspace.databases[index], key)]

    def _by_chance(self, *, volatile: bool) -> list[tuple[Database, bytes]]:
        databases = self.server.keyspace.databases
        for _ in databases:
            self._turn = (self._turn + 1) % len(databases)
            db = databases[self._turn]
            for key in sample(db, 1, volatile=volatile):
                return [(db, key)]
        return []

    def _best_candidates(self, number: int, *, volatile: bool) -> list[tuple[Database, bytes]]:
        """Return up to ``number`` keys: the best of the pool and of ``maxmemory-samples`` draws for each."""
        databases = self.server.keyspace.databases
        found: list[tuple[Database, bytes]] = []
        while not found and self._fill_pool(number, volatile=volatile):
            while self._pool and len(found) < number:
                rank, index, key = self._pool.pop()
                db = databases[index]
                keys = db.expires if volatile else db.entries
                # The pool holds a key twice if its frequency fell between two samples.
                if key in keys and self._rank(db, key) >= rank and (db, key) not in found:
                    found.append((db, key))
        return found

    def _fill_pool(self, number: int, *, volatile: bool) -> bool:
        """Sample keys of each database for ``number`` victims; return False if there is no key to sample."""
        pool, samples = self._pool, self.server.config.maxmemory_samples * number
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
    """Return the seconds that eviction may delay a command at this tenacity (0.5 ms by default)."""
    if tenacity >= _NO_LIMIT:
        return float("inf")
    if tenacity <= _LINEAR:
        return tenacity * _STEP
    return float(_LINEAR * _STEP * 1.15 ** (tenacity - _LINEAR))
