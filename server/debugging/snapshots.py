"""DEBUG SNAPSHOT: copies of all data that tests can restore within milliseconds.

A snapshot is a keyspace of its own. It shares with the server the objects that neither changes in place, such as strings and
stream entries. Taking a snapshot copies the data, and restoring copies the snapshot, so that later changes never reach it.
A snapshot holds keys with their expiries and groups, and function libraries; times are not adjusted.
"""

from __future__ import annotations

from heapq import heapify

from ...commands.spec.versions import FIRST_WITH_RDB
from ...protocol.errors import ReplyError
from ...storage.keyspace.database import Database
from ...storage.keyspace.keyspace import Keyspace
from ...storage.loading import AofError, RdbError
from ...storage.value_types import TYPES
from ..execution.checks import LOADING
from ..persistence.rdb import rdb_pieces
from ..server import Server


class DataSnapshots:
    """The snapshots of DEBUG SNAPSHOT in one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # The snapshots, as keyspaces that never change; DEBUG RESET keeps them.
        self.by_name: dict[bytes, Keyspace] = {}

    def take(self, name: bytes) -> None:
        """Copy all data and keep the copy under a name, in place of an earlier snapshot of that name."""
        self.by_name[name] = _copy(self._server.keyspace)

    def restore(self, name: bytes) -> None:
        """Replace all data with a snapshot.

        Clients that watch, track or wait for a key see a change. The append-only file restarts with this data, and replicas
        resynchronize.

        Raises ReplyError: there is no such snapshot, the server is a replica or loads its files, or the append-only
        file cannot be written. Nothing has changed then.
        """
        server, keyspace = self._server, self._server.keyspace
        snapshot = self.find(name)
        if server.loading:
            raise ReplyError(LOADING)
        if server.replication.link is not None:
            raise ReplyError(b"READONLY The data of a replica is that of its master")
        fresh = _copy(snapshot)
        fresh.set_idempotency_defaults(*keyspace.idempotency_defaults)
        fresh.lazyfree, fresh.cold = keyspace.lazyfree, keyspace.cold
        for db in fresh.databases:
            _schedule(db)
        if server.persistence.aof is not None:
            try:
                server.persistence.begin_again_with(rdb_pieces(server, snapshot, aof_base=True))
            except (OSError, AofError) as error:
                server.log.warning(
                    f"Can't restore a snapshot: the append-only file can't be written: {error}"
                )
                raise ReplyError(
                    b"ERR The append-only file can't be written, the data is unchanged: "
                    + str(error).encode()
                ) from error
        server.propagation.forget()
        keyspace.take_over(fresh)
        keyspace.dirty += sum(map(len, keyspace.databases))
        if server.replication.backlog is not None:
            server.replication.begin_again()

    def drop(self, name: bytes) -> None:
        """Forget the snapshot with this name.

        Raises ReplyError: there is none.
        """
        databases = self.find(name).databases
        del self.by_name[name]
        for db in databases:
            self._server.keyspace.lazyfree.free_later(db.entries, 0)
            db.entries = {}

    def dump(self, name: bytes) -> bytes:
        """Return a snapshot as a complete RDB file; raise ReplyError if there is none."""
        from ...storage.rdb import rdb_chunks

        return b"".join(rdb_chunks(self.find(name), version=max(FIRST_WITH_RDB)))

    def load(self, name: bytes, data: bytes) -> None:
        """Keep the data of an RDB file as a snapshot with this name.

        Raises ReplyError: the data is not an RDB file, or this server cannot read it.
        """
        from ...storage.rdb import ByteSource, is_rdb, load_rdb

        snapshot = self._server.keyspace.empty_twin()
        snapshot.expiring = False
        source = ByteSource.of(data)
        try:
            if not is_rdb(source):
                raise RdbError("it does not begin as one")  # noqa: TRY301 - handled like an error further on
            for _ in load_rdb(
                source, snapshot, skip_unknown=self._server.config.rdb_skip_unknown_types, sanitize=True
            ):
                pass
        except RdbError as error:
            raise ReplyError(f"ERR Not an RDB file that can be read: {error}".encode()) from error
        for code in snapshot.libraries.codes.values():
            # Raises FUNCTION LOAD's error now, not at a later FCALL.
            self._server.scripting.functions.compile(code)
        self.by_name[name] = snapshot

    def find(self, name: bytes) -> Keyspace:
        """Return the snapshot with this name; raise ReplyError if there is none."""
        found = self.by_name.get(name)
        if found is None:
            raise ReplyError(b"ERR There is no snapshot with this name")
        return found


def _copy(keyspace: Keyspace) -> Keyspace:
    from ..persistence.background_writer import copy_of

    twin = copy_of(keyspace)
    for mine, theirs in zip(twin.databases, keyspace.databases, strict=True):
        mine.encodings = theirs.encodings.copy()
    return twin


def _schedule(db: Database) -> None:
    """Register the values of a copied database for expiry and background work."""
    db.due = [(when, key) for key, when in db.expires.items()]
    heapify(db.due)
    for key, value in db.entries.items():
        if type(value) is not bytes and (added := TYPES[type(value)].added) is not None:
            added(value, key, db)
