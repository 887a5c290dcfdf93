"""Artificial delays for each key, so that tests can meet a server that loads (key-load-delay) or saves (rdb-key-save-delay).

Both directives are in microseconds a key; if negative, in keys a microsecond.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...storage.keyspace.keyspace import Keyspace
    from ..server import Server

_SLICE: Final = 0.05  # seconds after which a changed directive, or the end of the server, is noticed
_STEP: Final = 0.01  # seconds after which a writer notices the end of the server


def _seconds(delay: int, keys: int) -> float:
    return (keys * delay if delay >= 0 else keys / -delay) / 1_000_000


async def delay_for(server: Server, loaded: int) -> None:
    """Sleep for the time that key-load-delay sets for ``loaded`` keys; clients are served meanwhile."""
    waited = 0.0
    while not server.stopping:
        seconds = _seconds(server.config.key_load_delay, loaded)
        if waited >= seconds:
            return
        pause = min(seconds - waited, _SLICE)
        await asyncio.sleep(pause)
        waited += pause


def delayed(server: Server, keyspace: Keyspace, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Wait as rdb-key-save-delay sets for all keys, then yield the pieces of a file.

    Runs in the writer's process or thread.
    """
    delay = server.config.rdb_key_save_delay
    keys = sum(len(database.entries) for database in keyspace.databases) if delay else 0
    for _ in range(int(_seconds(delay, keys) / _STEP)):
        time.sleep(_STEP)
        yield b""
    yield from pieces
