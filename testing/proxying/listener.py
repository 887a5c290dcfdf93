"""The listening socket of a proxy, its faults and its recordings."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from ...commands.spec.command import keys_of
from ...commands.spec.versions import NEWEST, compat_with
from ...protocol import replies
from ...protocol.errors import ReplyError
from ...server.clock import Clock
from ...server.debugging.commands import faults as fault_words
from ...server.debugging.commands import recording as recording_words
from ...server.debugging.delays import Delays
from ...server.debugging.fault_set import FaultSet
from ...server.debugging.recorder import Recorded, Recordings, first_id
from .known import command_of
from .link import Link
from .upstream import Upstream

if TYPE_CHECKING:
    from ...server.debugging.fault_spec import FaultSpec

_ITS_OWN_IDS: Final = 1_000_000_000_000  # the first ID of clients that do not know the server's
_COMPAT: Final = compat_with(NEWEST)


class ProxyFaults(FaultSet):
    """The faults of one proxy."""

    def __init__(self, listener: Listener, first: int) -> None:
        super().__init__(first)
        self._listener = listener

    def knows(self, command: str) -> bool:
        """Return True if a command exists, or if its name has a dot: the server may have its module."""
        return "." in command or super().knows(command)

    def add(self, spec: FaultSpec) -> int:
        """Start a fault, and return its ID. Raises ReplyError: the fault concerns the server's clock or disk."""
        if spec.clock_delay or spec.disk is not None:
            word = b"CLOCK-DELAY" if spec.clock_delay else b"DISK"
            raise ReplyError(b"ERR A proxy has no %b: that is the server's own" % word)
        number = super().add(spec)
        self._listener.update()
        return number

    def remove(self, number: int) -> None:
        """End a fault, by ID: delayed commands continue, slow replies are sent, and silenced connections are closed."""
        fault = self.end(number)
        self._listener.update()
        self._listener.delays.release(fault.spec)
        for slow in list(fault.slowed):
            slow.hurry()
        for link in fault.silenced:
            link.close()


class ProxyRecordings(Recordings):
    """The recordings of one proxy."""

    def __init__(self, listener: Listener, first: int) -> None:
        super().__init__(first)
        self._listener = listener
        # Called with each command when its reply has arrived.
        self.finished: Callable[[Recorded], object] = id

    def start(self, last: int) -> int:
        """Start a recording of at most the ``last`` commands, and return its ID."""
        number = super().start(last)
        self._listener.update()
        return number

    def stop(self, number: int) -> Any:
        """End the recording with this ID, and return it."""
        recording = super().stop(number)
        self._listener.update()
        return recording

    def keys(self, words: list[bytes]) -> list[bytes]:
        """Return the keys among a command's words; none if it has too few or too many."""
        command = command_of(words)
        if not command.accepts(len(words)):
            return []
        return [words[reference.index] for reference in keys_of(command, words)]


class Listener:
    """A proxy in a running event loop.

    Args:
        answers_debug: whether the proxy answers ``DEBUG FAULT``, ``DEBUG RECORD`` and ``DEBUG CONTROL`` itself.
        keeps_ids: clients keep the proxy's ascending IDs, even when the server tells them its own.
    """

    def __init__(self, upstream: Upstream, *, answers_debug: bool = True, keeps_ids: bool = False) -> None:
        first = first_id(secrets.token_hex(3))
        self.upstream = upstream
        self.answers_debug = answers_debug
        self.host, self.port = "", 0
        self.faults = ProxyFaults(self, first)
        self.recorder = ProxyRecordings(self, first)
        self.delays = Delays(self)
        self.examines = False  # whether commands must be examined, because a fault or a recording is on
        self.is_parted = False  # whether the network is partitioned: bytes wait in both directions
        self.keeps_ids: bool = keeps_ids  # see the argument
        self.clock = Clock()
        # The open transports of all clients, to the client and to the server.
        self.open_sides: dict[asyncio.Protocol, asyncio.Transport] = {}
        self._all_closed: asyncio.Event | None = None  # while it stops
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count(_ITS_OWN_IDS)
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the proxy runs."""
        assert self._loop is not None
        return self._loop

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 picks a free one. Raise OSError if the address cannot be used."""
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(
            lambda: Link(self, next(self._numbers)), host, port, backlog=1024
        )
        self.host, self.port = host, self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and close all connections of the proxy."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in list(self._links):
            link.close(at_once=True)
        if self.open_sides:
            self._all_closed = asyncio.Event()
            # Also transports that are closing but wait for their client to read.
            for transport in list(self.open_sides.values()):
                transport.abort()
            await self._all_closed.wait()

    def side_is_closed(self, side: asyncio.Protocol) -> None:
        """Forget one of a client's two connections after it was closed."""
        self.open_sides.pop(side, None)
        if self._all_closed is not None and not self.open_sides:
            self._all_closed.set()

    def now(self) -> int:
        """Return the present time in Unix milliseconds."""
        return self.clock.tick()

    def update(self) -> None:
        """Set ``examines`` (whether requests must be examined) after a fault or a recording began or ended."""
        self.examines = bool(self.faults.active or self.recorder.recordings)
        for link in self._links:
            link.count()

    def accepts(self, link: Link) -> bool:
        """Register a client; return False if a fault refuses it."""
        self._links.add(link)
        return not self.faults.refuses_connection(self.now(), link.session.id)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background, and keep it referenced; ``stop`` cancels it if it still runs."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, link: Link) -> None:
        """Forget a client that has disconnected from the proxy."""
        self._links.discard(link)
        self.delays.forget(link)

    # Requests of tests

    def debug(self, argv: list[bytes], link: Link | None = None) -> bytes:
        """Run DEBUG FAULT, RECORD or CONTROL, and return the encoded reply, which may be an error.

        ``link``: the client that sent it; None: the test itself, which gets RESP2.
        """
        resp = 2 if link is None else link.session.resp
        action = argv[1].upper()
        try:
            if action == b"CONTROL":
                if link is not None:
                    link.is_control = True
                return replies.OK
            if len(argv) < 3:
                return ReplyError(fault_words.USAGE if action == b"FAULT" else recording_words.USAGE).encoded
            if action == b"FAULT":
                return fault_words.answer(self.faults, argv, resp, _COMPAT)
            return recording_words.answer(self.recorder, argv, resp)
        except ReplyError as error:
            return error.encoded

    def clients(self) -> set[int]:
        """Return the IDs of the clients that are connected to the proxy."""
        return {link.session.id for link in self._links}

    def close_clients(self, ids: set[int]) -> None:
        """Close the connections with these client IDs at once."""
        for link in list(self._links):
            if link.session.id in ids:
                link.close(at_once=True)

    def push(self, words: Iterable[bytes], client: bytes | None) -> int:
        """Send a push to RESP3 clients, and return their number.

        ``client``: a glob for the client's name, user, library or ID; None: all RESP3 clients.
        """
        found = [
            link
            for link in self._links
            if link.session.resp == 3 and (client is None or link.session.sender.matches(client))
        ]
        every = list(words)
        data = b">%d\r\n" % len(every) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in every)
        for link in found:
            link.push(data)
        return len(found)

    def part(self) -> None:
        """Let nothing pass until ``heal``; connections stay open."""
        self.is_parted = True
        for link in self._links:
            link.part()

    def heal(self) -> None:
        """End the partition: let bytes pass, including those sent meanwhile."""
        self.is_parted = False
        for link in list(self._links):  # a fault may close a link at its first request, which removes it
            link.heal()
