"""Make memory, the append-only file and the replicas agree after an unexpected failure.

An exception other than ``ReplyError`` (out of memory, a bug of ours) may stop a handler anywhere: between the change of
a key and its propagation, or in the middle of a change. No state is saved in advance to undo the change, because that
would slow every command. Instead, every key that the command may write is repaired as it is now, and propagated.

If that fails twice, the server ends, as Redis does without memory. The append-only file holds all confirmed writes, so
the next start continues from there.
"""

from __future__ import annotations

import traceback
from itertools import pairwise
from typing import Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import BLOCKED
from ...commands.spec.command import keys_of
from ...commands.transactions.handlers import discard_transaction
from ...protocol import replies
from ...storage.collections.hash import Hash
from ...storage.keyspace.database import Database
from ..server import Server
from .command_entry import CommandEntry

_ATTEMPTS: Final = 2


class Mending:
    """Repairs the data of one server after a handler failed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def mend(self, client: Client, entry: CommandEntry, argv: list[bytes], error: Exception) -> None:
        """Repair and propagate every key that a failed command may have changed, and log its error.

        ``error``: raised by its handler. Its frames, and what they refer to, are released.
        """
        server = self._server
        try:
            trace = "".join(traceback.format_exception(error))
        except Exception:  # noqa: BLE001 - there may be no memory to format it
            trace = repr(type(error))
        traceback.clear_frames(error.__traceback__)
        effects = server.propagation.effects
        before = len(effects)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if attempt == 1:
                    server.log.warning(f"Internal error in '{entry.name}':", details=trace)
                server.propagation.drop_from(before)
                self._mend(client, entry, argv)
            except Exception as another:  # noqa: BLE001 - the next attempt follows, or the end
                trace = repr(another)
                traceback.clear_frames(another.__traceback__)
            else:
                return
        server.log.warning(
            f"'{entry.name}' failed and its keys can not be mended ({trace}): memory and the append-only file might "
            "differ. Exiting..."
        )
        server.propagation.drop_from(0)
        server.die()

    def _mend(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> None:
        server = self._server
        if client.state is BLOCKED:
            server.blocking.forget(client)
        if entry.name == "exec":
            discard_transaction(client)
        client.update_state()
        if not entry.write:
            for reference in keys_of(entry.command, argv):
                key = argv[reference.index]
                client.db.tidy(key)
                value = client.db.entries.get(key)
                # A lookup has deleted the last field, which had expired.
                if type(value) is Hash and not value.fields:
                    client.db.remove(key)
        elif entry.name in {"flushdb", "flushall"}:
            self._mend_flush(client, argv, everything=entry.name == "flushall")
        elif entry.name.startswith("function|"):
            self._mend_libraries()
        else:
            for db in _databases(client, entry.name, argv):
                for key in dict.fromkeys(argv[reference.index] for reference in keys_of(entry.command, argv)):
                    self._mend_key(db, key)

    def _mend_key(self, db: Database, key: bytes) -> None:
        """Repair the value of a key, and propagate it."""
        server = self._server
        keyspace = db.keyspace
        db.tidy(key)
        value = db.entries.get(key)
        expiry = db.expires.get(key)
        records: list[list[bytes]] = [[b"DEL", key]]
        fresh = value
        if isinstance(value, bytes):
            records.append([b"SET", key, value])
            if expiry is not None:
                records.append([b"PEXPIREAT", key, b"%d" % expiry])
        elif value is not None:
            from ...storage.rdb.half_changed_values import mended

            fresh, payload = mended(
                value,
                self._rdb_version(),
                keyspace.idempotency_defaults,
                keyspace.limits,
            )
            if fresh is not None:
                records.append([b"RESTORE", key, b"%d" % (expiry or 0), payload, b"ABSTTL"])
        encoded = [(db.index, replies.command(words)) for words in records]
        if fresh is None:
            db.remove(key)
        elif fresh is not value:
            accessed = db.accessed.get(key, keyspace.now)
            db.replace(key, fresh)
            db.accessed[key] = accessed
            if expiry is not None:
                db.set_expiry(key, expiry)
        db.modified(key)
        db.signal_ready(key)
        keyspace.dirty += 1
        if server.propagation.active:
            server.propagation.effects += encoded

    def _rdb_version(self) -> int:
        """The RDB version that this server and all its replicas can read."""
        replicas = self._server.replication.replicas.connected.values()
        return min([self._server.rdb_version, *(each.rdb_version for each in replicas)])

    def _mend_flush(self, client: Client, argv: list[bytes], *, everything: bool) -> None:
        """Propagate FLUSHDB for each database that was cleared."""
        del argv
        for db in client.db.keyspace.databases if everything else [client.db]:
            if not db.entries:
                self._server.propagation.add(db.index, [b"FLUSHDB"])

    def _mend_libraries(self) -> None:
        """Propagate all libraries; their next use recompiles them."""
        server = self._server
        libraries = server.keyspace.libraries
        libraries.version += 1
        server.propagation.add(0, [b"FUNCTION", b"FLUSH"])
        for code in libraries.codes.values():
            server.propagation.add(0, [b"FUNCTION", b"LOAD", b"REPLACE", code])


def _databases(client: Client, name: str, argv: list[bytes]) -> list[Database]:
    """Return the databases whose keys a command may have changed: the selected one, and any that it names."""
    words: list[bytes] = []
    if name == "move":
        words = argv[2:3]
    elif name == "copy":
        words = [after for word, after in pairwise(argv[3:]) if word.upper() == b"DB"]
    databases = client.db.keyspace.databases
    named = [databases[int(word)] for word in words if word.isdigit() and int(word) < len(databases)]
    return list(dict.fromkeys([client.db, *named]))
