"""The keyspace: all databases, their common state, and the hooks for its events.

It holds data only and knows no clients. The server sets ``Keyspace.now`` once per batch of commands and installs the
hooks. Every lookup then expires keys lazily, every change is signalled, and ``ready`` lists the keys that may wake
blocked clients.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakSet

from ..collections.encoding_limits import Limits
from ..streams.cold_chunks import ChunkCache
from ..streams.idempotency import Idempotency
from ..streams.stream import Stream
from . import frequency
from .database import Database
from .function_libraries import Libraries
from .lazyfree import LazyFree

V = TypeVar("V")


class Keyspace:
    """All databases, and their common state."""

    __slots__ = (
        "behind", "by_modification", "cold", "databases", "dirty", "expired", "expired_fields",
        "expired_fields_in_cycle", "expired_in_cycle", "expiring", "hides_expired", "hits",
        "idempotency_defaults", "idempotent", "keeps_idle", "lazyfree", "libraries", "limits", "misses",
        "names_last_expired", "notify_mask", "now", "on_event", "on_expired", "on_field_expired",
        "on_flushed", "on_modified", "own_expiries", "ready", "shows_expired", "skips_checksums", "touching",
        "usage",
    )  # fmt: skip

    def __init__(self, databases: int = 16) -> None:
        self.now = 0  # milliseconds since the epoch; every command of the current batch sees the same time
        self.dirty = 0  # number of changes since the last save (INFO rdb_changes_since_last_save)
        # INFO keyspace_hits, keyspace_misses, expired_keys, expired_subkeys.
        self.hits = 0
        self.misses = 0
        self.expired = 0
        self.expired_fields = 0
        # The part of these that the active cycle found.
        self.expired_in_cycle = self.expired_fields_in_cycle = 0
        self.expiring = True  # False while a file is loaded or a master's command runs: nothing expires then
        # True on a replica and during a pause: expired keys are hidden, and stay until the master sends DEL or the
        # pause ends.
        self.hides_expired = False
        # Keys whose expiry was set by clients of this replica, with the indexes of their databases. The replica
        # deletes these itself, even if the current expiry came from the master. May hold outdated keys; None on a
        # master.
        self.own_expiries: OrderedDict[bytes, set[int]] | None = None
        # ``shows_expired``: DEBUG SET-ALLOW-ACCESS-EXPIRED: commands find expired keys; the active cycle still
        # deletes them.
        # ``skips_checksums``: DEBUG SET-SKIP-CHECKSUM-VALIDATION: files and payloads with a wrong checksum are read.
        self.shows_expired = self.skips_checksums = False
        # False while a client under CLIENT NO-TOUCH runs a command: lookups do not update ``accessed``.
        self.touching = True
        # The policy is LRM: ``accessed`` has the last modification, and ``touching`` is always False.
        self.by_modification = False
        self.keeps_idle = False  # the policy is LRU: files have the idle time of each key
        # If a read finds the last field of a hash expired, it sends ``hexpired`` before ``del``.
        self.names_last_expired = False
        # The LFU settings (growth and decay) while the policy is LFU, else None.
        self.usage: frequency.Settings | None = None
        self.notify_mask = 0  # bits of ``notifications``; 0 when notifications are off
        # Keys that were signalled to waiting clients, in the order of the first signal; True for a key that was only
        # overwritten.
        self.ready: dict[tuple[Database, bytes], bool] = {}
        # The idempotency states of streams that have producers; the server removes their old iids.
        self.idempotent: WeakSet[Idempotency] = WeakSet()
        self.idempotency_defaults = (100, 100)  # duration (seconds) and maxsize of new streams
        self.limits = Limits()  # the sizes up to which collections have a compact encoding
        self.libraries = Libraries()  # the source code of function libraries
        self.lazyfree = LazyFree()  # big values without a key, to be freed piece by piece
        # Streams whose macro nodes are not up to date; the server updates them when it is idle.
        self.behind: WeakSet[Stream] = WeakSet()
        self.cold = ChunkCache()  # packs old chunks of streams, according to its settings
        # Called with (database index, event, key, affected fields of a hash), for keyspace notifications.
        self.on_event: Callable[[int, bytes, bytes, Sequence[bytes]], None] | None = None
        # Called with (database, key) for every expired key before it is deleted, to propagate it.
        self.on_expired: Callable[[Database, bytes], None] | None = None
        # The same for fields of hashes: (database, key, field).
        self.on_field_expired: Callable[[Database, bytes, bytes], None] | None = None
        # Called once after each FLUSHDB or FLUSHALL, for client tracking.
        self.on_flushed: Callable[[], None] | None = None
        # Called with (database, key, whether it expired) for each modified key; None while no client tracks.
        self.on_modified: Callable[[Database, bytes, bool], None] | None = None
        self.databases = [Database(self, index) for index in range(databases)]

    def notify(
        self, event_class: int, event: bytes, key: bytes, database: Database, fields: Sequence[bytes] = ()
    ) -> None:
        """Call ``on_event`` for keyspace notifications if the event's class is switched on; ``fields`` are a hash's."""
        if self.notify_mask & event_class and self.on_event is not None:
            self.on_event(database.index, event, key, fields)

    def reset_statistics(self) -> None:
        """Reset the counters of hits, misses, expired and freed values."""
        self.hits = self.misses = self.expired = self.expired_fields = self.lazyfree.freed = 0
        self.expired_in_cycle = self.expired_fields_in_cycle = 0

    def idempotency_of(self, stream: Stream) -> Idempotency:
        """Return a stream's record of its producers; create it at the first use, and register it for expiry."""
        state = stream.idempotency
        if state is None:
            state = stream.idempotency = Idempotency(*self.idempotency_defaults)
        self.idempotent.add(state)
        return state

    def set_idempotency_defaults(self, duration: int, maxsize: int) -> None:
        """Change the defaults of new streams; existing streams keep their settings."""
        before = self.idempotency_defaults
        if before == (duration, maxsize):
            return
        for stream in self._values_of(Stream):
            if stream.idempotency is None:
                stream.idempotency = Idempotency(*before)
        self.idempotency_defaults = (duration, maxsize)

    def set_compress_depth(self, depth: int) -> None:
        """Set the number of newest chunks of each stream that are never packed; 0: pack none from now on."""
        self.cold.depth = depth
        for stream in self._values_of(Stream):
            self.cold.watch(stream)

    def _values_of(self, cls: type[V]) -> Iterator[V]:
        """Yield all values of a type."""
        for database in self.databases:
            for value in database.entries.values():
                if type(value) is cls:
                    yield value

    def expire_idempotent(self) -> None:
        """Forget iids that are too old; the server calls this from time to time."""
        for state in list(self.idempotent):
            if state.producers:
                state.expire(self.now)
            if not state.producers:
                self.idempotent.discard(state)

    def account_some(self) -> bool:
        """Update the macro nodes of one stream in ``behind`` by a few entries; return False if there is none."""
        stream = next(iter(self.behind), None)
        if stream is not None and not stream.macro_nodes.account_some():
            self.behind.discard(stream)
        return stream is not None

    def flush(self, databases: Iterable[Database], *, counted: bool | None = None) -> int:
        """Remove all keys of some databases; return their number. ``counted``: see ``Database.clear``."""
        count = sum([database.clear(counted=counted) for database in databases])
        if databases is self.databases and self.own_expiries is not None:
            self.own_expiries.clear()
        if self.on_flushed is not None:
            self.on_flushed()
        return count

    @property
    def drops_expired(self) -> bool:
        """Whether a key or field whose new expiry is already past is deleted at once.

        A replica only hides it.
        """
        return self.expiring and not self.hides_expired

    @staticmethod
    def swap(first: Database, second: Database) -> None:
        """Exchange the keys of two databases (SWAPDB). Their clients, watchers and waiters stay."""
        if first is second:
            return
        first.note_exchange(second)
        second.note_exchange(first)
        first.entries, second.entries = second.entries, first.entries
        first.expires, second.expires = second.expires, first.expires
        first.accessed, second.accessed = second.accessed, first.accessed
        first.due, second.due = second.due, first.due
        first.field_due, second.field_due = second.field_due, first.field_due
        first.encodings, second.encodings = second.encodings, first.encodings
        first.scan_order, second.scan_order = second.scan_order, first.scan_order
        first.frequencies, second.frequencies = second.frequencies, first.frequencies
        if first.meter is not None and second.meter is not None:
            first.meter, second.meter = second.meter, first.meter
        else:  # one of them belongs to a keyspace that was loaded separately
            for meter in (first.meter, second.meter):
                if meter is not None:
                    meter.clear()

    def expire_own(self, limit: int) -> int:
        """On a replica, delete expired keys whose expiry a client of this replica has set.

        Examine up to ``limit`` such keys, and return how many had expired.

        Keys that no longer have an expiry are forgotten; the others are examined in a later call.
        """
        own, gone = self.own_expiries, 0
        if own is None or not self.expiring:
            return 0
        for _ in range(min(limit, len(own))):
            key = next(iter(own))
            own.move_to_end(key)  # before the deletion: a key where that fails must not hold up the others
            indexes = own[key]
            for index in tuple(indexes):
                database = self.databases[index]
                when = database.expires.get(key)
                if when is not None and when < self.now:
                    database.expire(key)
                    gone += 1
                if key not in database.expires:
                    indexes.remove(index)
            if not indexes:
                del own[key]
        return gone

    def empty_twin(self) -> Keyspace:
        """Return an empty keyspace with the same time, LRU and LFU policy, and loading settings.

        A file can be loaded into it while this one stays.
        """
        twin = Keyspace(len(self.databases))
        twin.now = self.now
        twin.keeps_idle, twin.usage = self.keeps_idle, self.usage
        twin.idempotency_defaults = self.idempotency_defaults
        twin.skips_checksums = self.skips_checksums
        return twin

    def clear(self) -> None:
        """Forget all keys and all function libraries, without events or propagation."""
        for database in self.databases:
            database.clear()
        self.libraries.clear()

    def drop_everything(self) -> None:
        """Remove all keys and libraries before a file is loaded in their place, and tell tracking clients."""
        self.flush(self.databases)
        self.libraries.clear()

    def reset(self) -> None:
        """Remove all data and state; keep the settings."""
        self.clear()
        self.reset_statistics()
        self.dirty = 0
        self.ready = {}
        self.shows_expired = self.skips_checksums = False
        self.idempotent = WeakSet()
        self.behind = WeakSet()
        self.cold.reset()

    def take_over(self, other: Keyspace) -> None:
        """Replace all data by that of another keyspace, which must not be used afterwards. Signals watchers and waiters."""
        for mine, fresh in zip(self.databases, other.databases, strict=True):
            self.swap(mine, fresh)
        if self.own_expiries is not None:
            self.own_expiries.clear()
        self.idempotent = other.idempotent
        self.behind = other.behind
        self.libraries.take_over(other.libraries)
        other.lazyfree = self.lazyfree
        other.clear()
        if self.on_flushed is not None:
            self.on_flushed()
