"""The shortest commands that recreate the current data: the base of a rewritten append-only file.

The spelling equals that of Redis, so that the files can be compared. State that commands cannot express is lost, as in
Redis: pending entries whose message is gone, when consumers were last seen, which IDs were deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...protocol.replies import command
from ..value_types import TYPES

if TYPE_CHECKING:
    from ..keyspace.keyspace import Keyspace

_PIECE: Final = 1 << 16  # approximate bytes of a piece


def rewrite_commands(keyspace: Keyspace) -> Iterator[bytes]:
    """Yield the commands that recreate this keyspace, in pieces of about 64 KiB of whole commands.

    The keyspace must not change during the iteration. Expired keys are written with their expiry, as Redis
    does.
    """
    piece = [command((b"FUNCTION", b"LOAD", code)) for code in keyspace.libraries.codes.values()]
    size = 0
    defaults = keyspace.idempotency_defaults
    for database in keyspace.databases:
        if not database.entries:
            continue
        piece.append(command((b"SELECT", b"%d" % database.index)))
        for key, value in database.entries.items():
            for encoded in TYPES[type(value)].rewrite(value, key, defaults):
                piece.append(encoded)
                size += len(encoded)
                if size >= _PIECE:
                    yield b"".join(piece)
                    piece.clear()
                    size = 0
            due = database.expires.get(key)
            if due is not None:
                piece.append(command((b"PEXPIREAT", key, b"%d" % due)))
    if piece:
        yield b"".join(piece)
