"""The server of one experiment, and the actions of an audit on it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Self

import hiredis

from ...console.recorded import RecordedCommand
from ..clock import Clock
from ..control import Control
from ..faults import Fault
from ..proxy import Proxy
from ..server import Server

_PACE_SECONDS: Final = 0.02
REMEMBERED: Final = 50_000  # commands; a worker that polls without BLOCK sends many


class Stage:
    """The server of one experiment. It has a clock, faults and a recording; the audit's own commands are in neither.

    Args:
        durable: keep the data over ``down`` and ``up``.
        paced: slow reads down.
        database: the database that the worker uses.
    """

    has_clock = True  # whether the clock can be moved; otherwise only pending entries can be aged
    options = ""  # a query string to add to the URL

    def __init__(self, *, durable: bool = False, paced: bool = False, database: int = 0) -> None:
        self.database = database  # the database of the audit's own commands
        self._folder = tempfile.mkdtemp(prefix="rillet-audit-")
        self._server: Server | Proxy = Server(transport="tcp", dir=self._folder, appendonly=durable)
        self._recording = self._server.recording(last=REMEMBERED)
        self._before: list[RecordedCommand] = []  # of the server's earlier lives
        self._clients_before = 0
        self._is_down = False
        self._pace = self._server.fault(command="XREADGROUP", delay=_PACE_SECONDS) if paced else None
        self._control: Control | None = None
        self.host = self._server.host  # the address that the worker connects to

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._control is not None:
            self._control.close()
        self._server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def port(self) -> int:
        """The port that the worker connects to."""
        return self._server.port

    @property
    def is_up(self) -> bool:
        """Whether the experiment's server runs."""
        assert isinstance(self._server, Server)
        return self._server.running

    @property
    def url(self) -> str:
        """The URL that the worker connects to."""
        return self._server.url + self.options

    def _open(self) -> None:
        self._server.start()
        self._recording.start()
        self.pace()
        self._control = Control(self._server.host, self._server.port, None)
        self.use(self.database)

    def use(self, database: int) -> None:
        """Select the worker's database for the audit's own commands."""
        self.database = database
        self.run("SELECT", str(database))

    def pace(self) -> None:
        """Slow the worker's reads down, if the stage is paced."""
        if self._pace is not None:
            self._pace.start()

    def unpace(self) -> None:
        """Stop slowing reads down, so that another fault can hit them: only the first matching fault hits a command."""
        if self._pace is not None:
            self._pace.stop()

    @property
    def _clock(self) -> Clock:
        assert isinstance(self._server, Server)
        return self._server.clock

    @property
    def _admin(self) -> Control:
        assert self._control is not None
        return self._control

    def run(self, *words: str | bytes) -> Any:
        """Run a command, and return its reply as hiredis parses it.

        Raises hiredis.ReplyError: the reply is an error.
        """
        return self._admin.run(*map(_bytes, words))

    def run_together(self, *commands: tuple[str | bytes, ...]) -> list[Any]:
        """Run commands in one transaction, and return their replies.

        Raises hiredis.ReplyError: one of them failed, or EXEC did.
        """
        replies = self._admin.run_all(
            [(b"MULTI",), *(tuple(map(_bytes, each)) for each in commands), (b"EXEC",)]
        )
        answers = replies[-1]
        for each in [answers] if isinstance(answers, Exception) else answers:
            if isinstance(each, Exception):
                raise each
        return list(answers)

    def run_all(self, commands: list[tuple[str | bytes, ...]]) -> list[Any]:
        """Run commands in one pipeline; return their replies, with errors as exceptions."""
        return self._admin.run_all([tuple(map(_bytes, each)) for each in commands])

    def commands(self) -> list[RecordedCommand]:
        """Return the workers' commands so far, in order. Numbers and client IDs keep rising over ``down`` and ``up``."""
        if self._is_down:
            return self._before
        if not self._before:
            return list(self._recording)
        last, clients = self._before[-1].number, self._clients_before
        return self._before + [
            replace(each, number=last + each.number, client_id=clients + each.client_id)
            for each in self._recording
        ]

    def fault(self, **options: Any) -> Fault:
        """Return a fault, for ``with``; see ``rillet.testing.Server.fault``."""
        return self._server.fault(**options)

    def later(self, **units: float) -> None:
        """Advance the server's clock by one unit of ``rillet.testing.Clock.advance``: ``later(days=1)``."""
        self._clock.advance(**units)

    def skip(self) -> None:
        """Move the clock to the next time at which something is due."""
        self._clock.skip()

    def freeze(self) -> None:
        """Stop the clock; only ``later`` and ``skip`` move it."""
        self._clock.freeze()

    def resume(self) -> None:
        """Let the server's clock continue after ``freeze``."""
        self._clock.resume()

    def now(self) -> int:
        """Return the time of the server's clock in milliseconds."""
        return self._clock.now

    def passed(self) -> float:
        """Return milliseconds that grow with the idle times of pending entries: here the server's time."""
        return self.now()

    def empty(self) -> None:
        """Remove all data from the experiment's server (FLUSHALL)."""
        self.run("FLUSHALL")

    def forget_scripts(self) -> None:
        """Remove all scripts (SCRIPT FLUSH)."""
        self.run("SCRIPT", "FLUSH")

    def cut(self) -> None:
        """Reset the connections of all workers."""
        self.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Make the server a replica, which refuses writes, during a ``with`` block."""
        self.run("REPLICAOF", "127.0.0.1", "1")
        yield
        self.run("REPLICAOF", "NO", "ONE")

    def streams(self) -> list[str]:
        """Return the names of all streams on the server."""
        return self._server.streams()

    def clients(self) -> set[int]:
        """Return the client IDs of the open connections; none while the server is down."""
        if self._is_down:
            return set()
        lines = self.run("CLIENT", "LIST").decode().splitlines()
        return {self._clients_before + int(line.split()[0].removeprefix("id=")) for line in lines}

    def has_client(self, client: int) -> bool:
        """Return True if the connection with this ID is open; the ID is that of the server's present run."""
        return bool(self.run("CLIENT", "LIST", "ID", str(client)))

    def kill_client(self, client: int) -> None:
        """Close the connection with this client ID if it is still open."""
        with contextlib.suppress(hiredis.ReplyError):
            self.run("CLIENT", "KILL", "ID", str(client - self._clients_before))

    def wake_client(self, client: int) -> None:
        """End the blocked command of the connection with this client ID, as its timeout would."""
        self.run("CLIENT", "UNBLOCK", str(client - self._clients_before))

    def down(self) -> None:
        """Shut the server down cleanly; ``commands`` still returns what was recorded."""
        self._before = self.commands()
        self._clients_before = max((each.client_id for each in self._before), default=0)
        self._is_down = True
        self._admin.close()
        self._server.stop()

    def up(self) -> None:
        """Restart the server on the same port, with its data if the stage is durable."""
        self._open()
        self._is_down = False


def _bytes(word: str | bytes) -> bytes:
    return word if isinstance(word, bytes) else word.encode(errors="surrogateescape")
