"""Run the web server of the console, from its options to its end by a signal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from .app import Console
from .command import token_of
from .connection import GoneError, Link
from .connection_advice import cannot_read
from .poller import Poller
from .security import Guard


class _Server(uvicorn.Server):
    """Shuts down in order at a signal, and ends live pages. uvicorn's own server would then let the signal kill the process."""

    def __init__(self, config: uvicorn.Config, end_live: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_live = end_live

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def stop(number: int, frame: Any) -> None:
            self.handle_exit(number, frame)
            loop.call_soon_threadsafe(self._end_live)

        loop = asyncio.get_running_loop()
        kept = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


def serve(
    url: str,
    options: argparse.Namespace,
    *,
    read_only: bool | None,
    say: Callable[[str], None],
    record: bool = False,
) -> int:
    """Serve the console of a server until a signal; return the exit status: 1 if the server cannot be read at the start.

    Raises ValueError: an option is wrong.

    Args:
        read_only: as for ``Console``.
        record: keep a recording on the server all the time.
    """
    token = token_of(options)
    loopback = options.console_bind in {"127.0.0.1", "::1", "localhost"}
    if not loopback and not token:
        raise ValueError("--console-bind beyond loopback needs a token: --token-file FILE")
    hosts = {*options.allow_host} | (set() if loopback else {options.console_bind})
    listener = _listen(options.console_bind, options.console_port)

    async def run() -> int:
        poller = Poller(Link(url), record=record)
        console = Console(poller, Guard(frozenset(hosts), token), read_only=read_only)
        if not options.wait:
            try:
                await poller.check()
            except GoneError as error:
                await poller.link.close()
                print(cannot_read(poller.link.shown, error), "--wait waits for it.", file=sys.stderr)  # noqa: T201 - a command-line tool
                return 1
        config = uvicorn.Config(
            console.application(),
            log_level="warning",
            access_log=False,  # addresses hold names of keys
            server_header=False,
            timeout_graceful_shutdown=5,
            # The address holds the IDs of chosen entries: 64 KB hold 2,900 of them, this limit more than 20,000. Every
            # connection may fill it before it has shown a token, so it is not the 2 MB that browsers send.
            http="h11",
            h11_max_incomplete_event_size=512 << 10,
        )
        name = f"[{options.console_bind}]" if ":" in options.console_bind else options.console_bind
        say(f"Console of {console.link.shown}: http://{name}:{listener.getsockname()[1]}/")
        await _Server(config, console.end_live).serve(sockets=[listener])
        return 0

    with listener:
        return asyncio.run(run())


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        raise ValueError(f"{address}:{port}: {error.strerror}; --console-port 0 takes a free one") from error
    listener.listen(128)
    return listener
