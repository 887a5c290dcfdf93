"""The active expire cycle: delete expired keys and hash fields that no command looks up."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ...storage.keyspace.database import Database
from ...storage.keyspace.field_expiry import expire_fields

if TYPE_CHECKING:
    from ..server import Server

_AT_ONCE: Final = 32
_OWN_AT_ONCE: Final = 400  # a replica's keys are checked round robin: 0.2 ms every tenth of a second
_SECONDS: Final = 0.025  # a quarter of each tenth of a second, Redis' default share


class ActiveExpiry:
    """The active expire cycle of one server; it also propagates keys and fields that expire at a lookup."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.enabled = True  # set by DEBUG SET-ACTIVE-EXPIRE
        self._running = False
        server.keyspace.on_expired = self.propagate_key
        server.keyspace.on_field_expired = self._propagate_field

    def run(self) -> None:
        """Run the active expire cycle: delete expired keys and fields until none is left, for at most 25 ms."""
        until = time.perf_counter() + _SECONDS
        while self.step() and time.perf_counter() < until:
            pass

    def step(self) -> bool:
        """Do a step of the active expire cycle, with propagation.

        Return True if expired keys are probably left.
        """
        server = self.server
        if not self.enabled or server.loading:
            return False
        self._running = True
        keyspace = server.keyspace
        keys, fields = keyspace.expired, keyspace.expired_fields
        try:
            has_more = self._try(keyspace.expire_own, _OWN_AT_ONCE) > _OWN_AT_ONCE // 4
            for db in server.keyspace.databases:
                if db.expires or db.field_due.when:
                    done = {self._try(partial(expire_fields, db)), self._try(db.expire_all_due)}
                    has_more |= _AT_ONCE in done  # else less than a slice was due
        finally:
            self._running = False
            keyspace.expired_in_cycle += keyspace.expired - keys
            keyspace.expired_fields_in_cycle += keyspace.expired_fields - fields
        server.finish_unit()
        return has_more

    def _try(self, delete: Callable[[int], int], limit: int = _AT_ONCE) -> int:
        """Delete what is due, and return how much; if that fails, log the error and return 0, so that the rest goes on."""
        try:
            return delete(limit)
        except Exception:  # noqa: BLE001 - a bug of ours or out of memory: tried again later
            self.server.log.warning("Internal error in the expiry cycle:", details=traceback.format_exc())
            return 0

    def next_due(self) -> int | None:
        """Return a time in Unix milliseconds before which no key or field expires; None if none ever does. Fast."""
        times = [db.due[0][0] for db in self.server.keyspace.databases if db.expires]
        fields = (db.field_due.first() for db in self.server.keyspace.databases if db.field_due.when)
        return min([*times, *(first[0] for first in fields if first is not None)], default=None)

    def next_expiry(self) -> int | None:
        """Return the time in Unix milliseconds at which the next key or field counts as expired; None if none ever does."""
        databases = self.server.keyspace.databases
        keys = [min(db.expires.values()) for db in databases if db.expires]
        fields = [first[0] for db in databases if (first := db.field_due.first()) is not None]
        return min(keys + fields) + 1 if keys or fields else None

    def propagate_key(self, db: Database, key: bytes) -> None:
        """Propagate the deletion of an expired key, as UNLINK or DEL (lazyfree-lazy-expire)."""
        name = b"UNLINK" if self.server.config.lazyfree_lazy_expire else b"DEL"
        self._propagate(db, [name, key])

    def _propagate_field(self, db: Database, key: bytes, field: bytes) -> None:
        self._propagate(db, [b"HDEL", key, field])

    def _propagate(self, db: Database, argv: list[bytes]) -> None:
        propagation = self.server.propagation
        since = len(propagation.effects)
        propagation.add(db.index, argv)
        propagation.exempt(since)
        if self._running and propagation.effects:
            propagation.flush()
