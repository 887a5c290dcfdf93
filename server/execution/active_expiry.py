"""The active expire cycle: keys and hash fields past their time go, whether or not anybody looks at them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ...storage.keyspace.field_expiry import expire_fields

if TYPE_CHECKING:
    from ...storage.keyspace.keyspace import Database
    from ..server import Server

_AT_ONCE: Final = 32


class ActiveExpiry:
    """The cycle of one server, and how it tells the AOF and the replicas of what expired, then or at a lookup.

    Attributes:
        enabled: DEBUG SET-ACTIVE-EXPIRE.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.enabled = True
        self._running = False
        server.keyspace.on_expired = self._propagate_key
        server.keyspace.on_field_expired = self._propagate_field

    def run(self, seconds: float) -> None:
        """Drop what is past its time, for so many seconds at most."""
        until = time.perf_counter() + seconds
        while self.step() and time.perf_counter() < until:
            pass

    def step(self) -> bool:
        """Drop a few keys and fields that are past their time; False when there are no more."""
        server = self.server
        if not self.enabled or server.loading:
            return False
        self._running = True
        try:
            goes_on = False
            for db in server.keyspace.databases:
                if db.expires or db.field_due:
                    goes_on |= _expire_some(db)
        finally:
            self._running = False
        server.finish_unit()
        return goes_on

    def _propagate_key(self, db: Database, key: bytes) -> None:
        name = b"UNLINK" if self.server.config.lazyfree_lazy_expire else b"DEL"
        self._propagate(db, [name, key])

    def _propagate_field(self, db: Database, key: bytes, field: bytes) -> None:
        self._propagate(db, [b"HDEL", key, field])

    def _propagate(self, db: Database, argv: list[bytes]) -> None:
        propagation = self.server.propagation
        propagation.add(db.index, argv)
        if self._running and propagation.effects:
            propagation.flush()


def _expire_some(db: Database) -> bool:
    """A slice of the cycle; False when there was less to do."""
    return _AT_ONCE in {expire_fields(db, _AT_ONCE), db.expire_all_due(_AT_ONCE)}
