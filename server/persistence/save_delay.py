"""rdb-key-save-delay: an artificial delay for each key of a background save, so that tests can meet a running save."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.keyspace.keyspace import Keyspace
    from ..server import Server

_STEP: Final = 0.01  # seconds after which the end of the server is noticed


def delayed(server: Server, keyspace: Keyspace, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Wait, then yield the pieces of a file: the time is what rdb-key-save-delay sets for all keys. Runs in the writer.

    The directive is in microseconds a key; if negative, in keys a microsecond.
    """
    delay = server.config.rdb_key_save_delay
    keys = sum(len(database.entries) for database in keyspace.databases) if delay else 0
    seconds = (keys * delay if delay >= 0 else keys / -delay) / 1_000_000
    for _ in range(int(seconds / _STEP)):
        time.sleep(_STEP)
        yield b""
    yield from pieces
