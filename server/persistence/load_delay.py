"""key-load-delay: an artificial delay for each loaded key or command, so that tests can meet a loading server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..server import Server

_SLICE: Final = 0.05  # seconds after which a changed directive, or the end of the server, is noticed


async def delay_for(server: Server, loaded: int) -> None:
    """Sleep for the time that key-load-delay sets for ``loaded`` keys; clients are served meanwhile.

    The directive is in microseconds a key; if negative, in keys a microsecond.
    """
    waited = 0.0
    while not server.stopping:
        delay = server.config.key_load_delay
        seconds = (loaded * delay if delay >= 0 else loaded / -delay) / 1_000_000
        if waited >= seconds:
            return
        pause = min(seconds - waited, _SLICE)
        await asyncio.sleep(pause)
        waited += pause
