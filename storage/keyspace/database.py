"""One numbered database: its keys and values, with expiry, WATCH versions and signals to blocked clients."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..collections.deadlines import Deadlines
from ..collections.scan_order import ScanOrder
from ..value_types import TYPES, Value
from . import frequency
from . import notifications as events

if TYPE_CHECKING:
    from .keyspace import Keyspace
    from .metering import Meter

RETRY: Final = 1000  # milliseconds until the expiry cycle tries a key again whose deletion failed


class WatchedKey:
    """One client's WATCH of a key, with the version of the key at that time."""

    __slots__ = ("database", "key", "touched", "version", "was_due")

    def __init__(
        self, database: Database, key: bytes, version: int, was_due: bool, touched: list[WatchedKey]
    ) -> None:
        self.database = database  # the database of the key; the key need not exist
        self.key = key
        self.version = version  # the version of the key when the watch began
        self.was_due = was_due  # True if the key had already expired when the watch began
        self.touched = touched  # the list that receives this watch at the next change of the key


class Database:
    """One numbered database: its keys with their values and expiries."""

    __slots__ = (
        "accessed", "awaited", "due", "encodings", "entries", "expires", "field_due", "frequencies", "index",
        "keyspace", "meter", "scan_order", "untouched", "watched",
    )  # fmt: skip

    def __init__(self, keyspace: Keyspace, index: int) -> None:
        self.keyspace = keyspace
        self.index = index
        # Key to value. A string is ``bytes``, a stream ``Stream``, any other value a ``Collection``. It may still
        # hold expired keys; ``read`` and ``write`` return only what a client may see.
        self.entries: dict[bytes, Value] = {}
        # Key to absolute expiry in milliseconds; only keys that are in ``entries``.
        self.expires: dict[bytes, int] = {}
        # WATCHed keys only: [number of watchers, version, version at which SWAPDB brought an expired key here, or
        # -1]. Each modification raises the version.
        self.watched: dict[bytes, list[int]] = {}
        # For each watched key, the watches whose owners have not been told of a modification (``watches``).
        self.untouched: dict[bytes, set[WatchedKey]] = {}
        # Each key that blocked clients wait for, with the number of waiters.
        self.awaited: dict[bytes, int] = {}
        # Key to the time of its last access in milliseconds (OBJECT IDLETIME).
        self.accessed: dict[bytes, int] = {}
        # A heap of (when, key) that may hold outdated pairs: ``expires`` decides.
        self.due: list[tuple[int, bytes]] = []
        # For the key of a hash, the time when its next field expires, or an earlier time; may be outdated.
        self.field_due = Deadlines()
        # The encoding of strings that do not have the usual one: a string changed in place is ``raw``.
        self.encodings: dict[bytes, bytes] = {}
        self.scan_order: ScanOrder | None = None  # the order of keys for SCAN; None until the first use
        # Key to its access frequency (``frequency.stored``), while the policy is LFU.
        self.frequencies: dict[bytes, int] = {}
        # The sizes and frequencies of the keys; None unless a memory limit or an eviction policy needs them.
        self.meter: Meter | None = None

    def __len__(self) -> int:
        return len(self.entries)

    # Lookups

    def read(self, key: bytes) -> Value | None:
        """Return the value for a command that only reads; count a hit or a miss."""
        keyspace = self.keyspace
        if self.expires and key in self.expires and self.expire_if_due(key):
            value = None
        else:
            value = self.entries.get(key)
        if value is None:
            keyspace.misses += 1
            if keyspace.notify_mask & events.MISS:
                keyspace.notify(events.MISS, b"keymiss", key, self)
            return None
        keyspace.hits += 1
        if keyspace.touching:
            self.accessed[key] = keyspace.now
        if self.meter is not None:
            self.meter.note_read(self, key, value)
        return value

    def look(self, key: bytes, *, notify: bool = True, times: int = 1) -> Value | None:
        """Return the value for a command that only inspects the key (TYPE, TTL, EXISTS …), without recording an access.

        Count a hit or a miss.

        Args:
            notify: send the event `keymiss` on a miss.
            times: the number of lookups to count; a shortcut replaces several.
        """
        keyspace = self.keyspace
        value = self.peek(key)
        if value is None:
            keyspace.misses += times
            if notify:
                keyspace.notify(events.MISS, b"keymiss", key, self)
            return None
        keyspace.hits += times
        return value

    def write(self, key: bytes) -> Value | None:
        """Return the value for a command that may change it.

        An expired key is deleted, even on a replica or during a pause, where ``read`` only hides it.
        """
        keyspace = self.keyspace
        if self.expires and key in self.expires and self.is_due(key):
            self.expire(key)
        value = self.entries.get(key)
        if value is not None:
            if keyspace.touching:
                self.accessed[key] = keyspace.now
            if self.meter is not None:
                self.meter.note_write(self, key, value)
        return value

    def peek(self, key: bytes) -> Value | None:
        """Return the value without counting a hit or an access (SCAN, blocked clients …); None if the key has expired."""
        if self.expires and key in self.expires and self.expire_if_due(key):
            return None
        return self.entries.get(key)

    def read_again(self, key: bytes, value: Value) -> None:
        """Count a second lookup as a hit, for a command that looks its key up twice in Redis."""
        self.keyspace.hits += 1
        if self.meter is not None:
            self.meter.note_read(self, key, value)

    def touch(self, key: bytes) -> None:
        """Record an access to an existing key: its time, unless the policy is LRM, and its frequency.

        TOUCH does so even for a client under CLIENT NO-TOUCH.
        """
        if not self.keyspace.by_modification:
            self.accessed[key] = self.keyspace.now
        if self.meter is not None:
            self.meter.count(self, key)

    def frequency(self, key: bytes) -> int:
        """Return the LFU counter of a key, from 0 to 255; a key that was never counted has the counter of a new one."""
        keyspace = self.keyspace
        assert keyspace.usage is not None
        known = self.frequencies.get(key)
        if known is None:
            known = frequency.stored(frequency.NEW, self.accessed.get(key, keyspace.now))
        return frequency.decayed(known, keyspace.now, keyspace.usage.decay_minutes)

    def is_due(self, key: bytes) -> bool:
        """Return True if the key has expired, so that clients do not see it."""
        due = self.expires.get(key)
        keyspace = self.keyspace
        return due is not None and due < keyspace.now and keyspace.expiring and not keyspace.shows_expired

    def expire_if_due(self, key: bytes) -> bool:
        """Delete the key if it has expired (a replica only hides it); return True if it had expired."""
        if not self.is_due(key):
            return False
        if not self.keyspace.hides_expired:
            self.expire(key)
        return True

    def expire(self, key: bytes) -> None:
        """Delete an expired key: propagate, notify and signal it."""
        keyspace = self.keyspace
        if keyspace.on_expired is not None:
            # Propagate first: if this fails, the key stays hidden, and the next lookup tries again.
            keyspace.on_expired(self, key)
        self.remove(key)
        keyspace.expired += 1
        keyspace.notify(events.EXPIRED, b"expired", key, self)
        self.modified(key, by_time=True)

    def tidy(self, key: bytes) -> None:
        """Make the tables of this database agree about a key after an error interrupted a change of it."""
        if key not in self.entries:
            self.expires.pop(key, None)
            self.accessed.pop(key, None)
        else:
            self.accessed.setdefault(key, self.keyspace.now)
            if key in self.expires:
                self.set_expiry(key, self.expires[key])
        if type(self.entries.get(key)) is not bytes:
            self.encodings.pop(key, None)
        if self.scan_order is not None and len(self.scan_order) != len(self.entries):
            self.scan_order = None  # SCAN creates a new one

    def visible_keys(self) -> Iterator[bytes]:
        """Iterate over the keys that a client can see. Expired keys are skipped and stay in place."""
        if not self.expires:
            return iter(list(self.entries))
        return iter([key for key in self.entries if not self.is_due(key)])

    def order(self) -> ScanOrder:
        """Return the order for SCAN; the first call creates it."""
        if self.scan_order is None:
            self.scan_order = ScanOrder(self.entries)
        return self.scan_order

    # Changes. None of these notifies watchers or subscribers of a modification (only `new` is sent): a command calls
    # modified() and notify(), or announce(), in the order of Redis.

    def add(self, key: bytes, value: Value, *, is_loaded: bool = False) -> None:
        """Add a key that does not exist; wake clients that wait for it. Send the event `new` unless it is loaded."""
        self.entries[key] = value
        keyspace = self.keyspace
        self.accessed[key] = keyspace.now
        if self.scan_order is not None:
            self.scan_order.add(key)
        added = TYPES[type(value)].added
        if added is not None:
            added(value, key, self)
        if self.awaited:
            self.signal_ready(key)
        if keyspace.notify_mask & events.NEW and not is_loaded:
            keyspace.notify(events.NEW, b"new", key, self)
        if self.meter is not None:
            self.meter.note_new(self, key, value)

    def put(self, key: bytes, value: Value, *, keep_ttl: bool = False) -> None:
        """Set a key to a value, whether or not it exists; remove the expiry unless ``keep_ttl``.

        An expired key is deleted first, as by a lookup.
        """
        expires = self.expires
        if expires and key in expires:
            if self.is_due(key):
                self.expire(key)
            elif not keep_ttl:
                del expires[key]
        if key not in self.entries:
            self.add(key, value)
            return
        if self.awaited and type(value) is not type(self.entries[key]):
            self.signal_ready(key, overwritten=True)
        if self.encodings:
            self.encodings.pop(key, None)
        before = self.entries[key]
        meter = self.meter
        if type(before) is not bytes and before is not value:
            self.keyspace.lazyfree.free_later(before)
            if meter is not None:
                self.keyspace.lazyfree.add_memory(meter.memory.get(key, 0))
        self.entries[key] = value
        if self.keyspace.touching:
            self.accessed[key] = self.keyspace.now
        if meter is not None:
            meter.note_value(self, key, value)

    def replace(self, key: bytes, value: Value) -> None:
        """Replace the value and the expiry of a key, as RENAME and COPY do."""
        if key not in self.entries:
            self.add(key, value)
            return
        # The key never disappears for a client, so SCAN must not lose its place.
        order, self.scan_order = self.scan_order, None
        self.remove(key)
        self.add(key, value)
        self.scan_order = order

    def notify_overwritten(self, key: bytes, before: Value | None) -> None:
        """Notify that a value was overwritten and, if so, that its type changed; None: there was no value."""
        if before is None:
            return
        keyspace = self.keyspace
        keyspace.notify(events.OVERWRITTEN, b"overwritten", key, self)
        if type(before) is not type(self.entries[key]):
            keyspace.notify(events.TYPE_CHANGED, b"type_changed", key, self)

    def overwrite(
        self,
        key: bytes,
        value: Value,
        before: Value | None,
        event_class: int,
        event: bytes,
        fields: Sequence[bytes] = (),
    ) -> None:
        """Set a key to the result of a command; tell WATCH and tracking, and send the events.

        Args:
            before: the value that is replaced; None if there is none.
            event: the command's own event, of class ``event_class``; it follows ``overwritten`` and ``type_changed``.
            fields: those of a hash that the event names.
        """
        self.put(key, value)
        self.modified(key)
        self.notify_overwritten(key, before)
        self.keyspace.notify(event_class, event, key, self, fields)

    def remove(self, key: bytes) -> Value | None:
        """Remove a key and return its value, or None if there was none. Signals clients that wait for the key.

        The value is freed unless the caller keeps it.
        """
        entries, accessed = self.entries, self.accessed
        value = entries.get(key)
        if value is None:
            return None
        if type(value) is not bytes:
            self.keyspace.lazyfree.free_later(value)
        if self.encodings:
            self.encodings.pop(key, None)
        if self.awaited:
            self.signal_ready(key)
        # No calls from here on, so no exception can leave the tables inconsistent.
        del entries[key]
        if self.expires and key in self.expires:
            del self.expires[key]
        if key in accessed:
            del accessed[key]
        if self.scan_order is not None:
            order, self.scan_order = self.scan_order, None  # if this fails, SCAN creates a new one
            order.remove(key)
            self.scan_order = order
        if self.meter is not None:
            self.meter.note_gone(self, key, value)
        return value

    def clear(self, *, counted: bool | None = None) -> int:
        """Remove all keys; return their number. Signals the watchers of and the waiters for keys that existed.

        ``counted``: whether INFO lazyfreed_objects counts them; None: only if lazyfree frees them in steps.
        """
        gone, field_due = self.entries, self.field_due
        is_used = (
            gone
            or self.expires
            or self.due
            or self.accessed
            or self.encodings
            or field_due.when
            or field_due.heap
            or self.scan_order is not None
        )
        if not is_used:  # most of the sixteen databases never had a key
            if self.meter is not None:
                self.meter.clear()
                self.frequencies = {}
            return 0
        for key in self.watched:
            if key in gone:
                self._touch_watched(key)
        for key in self.awaited:
            if key in gone:
                self.signal_ready(key)
        free_later = self.keyspace.lazyfree.free_later
        number = len(gone)
        free_later(gone, 0 if counted is False else number, counted=bool(counted))
        if self.meter is not None:
            self.keyspace.lazyfree.add_memory(self.meter.total)
            self.meter.clear()
            self.frequencies = {}
        for other in (self.expires, self.due, field_due, self.accessed, self.encodings, self.scan_order):
            if other:
                free_later(other, 0)
        fresh_field_due = Deadlines()
        encodings: dict[bytes, bytes] = {}
        # No calls from here on, so no exception can leave the tables inconsistent.
        self.entries, self.expires, self.accessed, self.due = {}, {}, {}, []
        self.field_due, self.encodings, self.scan_order = fresh_field_due, encodings, None
        return number

    def note_exchange(self, other: Database) -> None:
        """Signal clients that watch or wait for a key of this database.

        SWAPDB will exchange its keys with ``other``.
        """
        for key, watchers in self.watched.items():
            if key in other.entries and not other.is_due(key):
                # This counts twice, so that it is a change even for a watch on an expired key, which ignores one.
                self._touch_watched(key, changes=2)
            elif key in self.entries:
                self._touch_watched(key)
            elif key in other.entries:
                watchers[2] = watchers[1]
        for key in self.awaited:
            if key in self.entries or key in other.entries:
                self.signal_ready(key)

    # Expiry

    def set_expiry(self, key: bytes, when: int) -> None:
        """Let an existing key expire at ``when`` (milliseconds since the epoch)."""
        self.expires[key] = when
        heapq.heappush(self.due, (when, key))
        if len(self.due) > 64 + 4 * len(self.expires):
            self.due = [(when, key) for key, when in self.expires.items()]
            heapq.heapify(self.due)

    def give_expiry(self, key: bytes, when: int) -> None:
        """Set an expiry for a command such as EXPIRE; RENAME, COPY, MOVE and RESTORE use ``set_expiry``.

        A replica deletes the keys that got their expiry here; only its master deletes the others.
        """
        self.set_expiry(key, when)
        keyspace = self.keyspace
        if keyspace.own_expiries is not None and keyspace.expiring:
            keyspace.own_expiries.setdefault(key, set()).add(self.index)

    def clear_expiry(self, key: bytes) -> bool:
        """Remove the expiry of a key; return False if it had none."""
        return self.expires.pop(key, None) is not None

    def expire_all_due(self, limit: int) -> int:
        """Delete expired keys (the active expire cycle): examine at most ``limit``, and return how many were examined.

        A key whose deletion fails is tried again after ``RETRY``; the others are deleted, then the error is raised.
        """
        keyspace = self.keyspace
        if not keyspace.expiring or keyspace.hides_expired:
            return 0
        looked_at, error = 0, None
        while self.due and self.due[0][0] < keyspace.now and looked_at < limit:
            key = self.due[0][1]
            looked_at += 1
            when = self.expires.get(key)
            if when is not None and when < keyspace.now:
                try:
                    self.expire(key)
                except Exception as failure:  # noqa: BLE001 - raised below, after the keys behind this one
                    error = failure
                    heapq.heapreplace(self.due, (keyspace.now + RETRY, key))
                    continue
            heapq.heappop(self.due)
        if error is not None:
            raise error
        return looked_at

    # Signals

    def modified(self, key: bytes, *, by_time: bool = False) -> None:
        """Tell WATCH and client tracking that a key has changed.

        ``by_time``: it expired, no client changed it.
        """
        if self.meter is not None and key in self.entries:
            self.meter.note_modified(self, key)
        if self.watched and key in self.watched:
            self._touch_watched(key)
        if self.keyspace.on_modified is not None:
            self.keyspace.on_modified(self, key, by_time)

    def announce(
        self,
        key: bytes,
        event_class: int,
        *names: bytes,
        fields: Sequence[bytes] = (),
        event_first: bool = True,
    ) -> None:
        """Send a key's events, and tell WATCH and client tracking of the change, in this order or the other.

        A key that the change has removed has the event ``del`` as well. ``fields`` are a hash's.
        """
        if not event_first:
            self.modified(key)
        keyspace = self.keyspace
        if keyspace.notify_mask:
            for name in names:
                keyspace.notify(event_class, name, key, self, fields)
            if key not in self.entries:
                keyspace.notify(events.GENERIC, b"del", key, self)
        if event_first:
            self.modified(key)

    def changed(self, key: bytes, number: int = 1) -> None:
        """Count ``number`` changes of a stream's group as changes since the last save (INFO rdb_changes_since_last_save).

        WATCH and tracking do not see them, because the stream's entries are the same.
        """
        self.keyspace.dirty += number
        if self.meter is not None and key in self.entries:
            self.meter.note_modified(self, key)

    def _touch_watched(self, key: bytes, changes: int = 1) -> None:
        """Count changes of a watched key, and pass its watches to their owners."""
        self.watched[key][1] += changes
        for watched in self.untouched.pop(key, ()):
            watched.touched.append(watched)

    def signal_ready(self, key: bytes, *, overwritten: bool = False) -> None:
        """Wake the clients that wait for this key after the current command.

        A value of another type that only overwrote the old one wakes no client, except one that also waits for the
        key to disappear.
        """
        if self.awaited and key in self.awaited:
            ready = self.keyspace.ready
            ready[self, key] = overwritten and ready.get((self, key), True)
