"""A stage on an existing server, behind a proxy: its clock cannot be moved, and its data may belong to others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import hiredis

from ...console.recorded import RecordedCommand
from ..control import Control
from ..process import StartError
from ..proxy import Proxy
from .analysis import SCRIPTS
from .bench import Plan
from .results import CannotRunError, NotTried
from .stage import REMEMBERED, Stage

_WRITES: Final = ("XREADGROUP", "XACK", "XACKDEL", "XCLAIM", "XAUTOCLAIM", "XADD", "EVAL", "EVALSHA")


class _AuditProxy(Proxy):
    """A proxy whose clients keep the IDs that it gives them."""

    _keeps_ids = True

    @property
    def database(self) -> int:
        """The database in the URL; 0 without one."""
        return self._upstream.database

    def control(self) -> Control:
        """Return a connection to the server that bypasses the proxy."""
        return self._connect()

    def clients(self) -> set[int]:
        """Return the IDs of the connected clients."""
        return self._run(lambda listener: listener.clients())

    def close_clients(self, ids: set[int]) -> None:
        """Close the connections of some clients."""
        self._run(lambda listener: listener.close_clients(ids))


class RealStage(Stage):
    """Uses an existing server for one experiment, and removes the experiment's data at the end.

    Time passes only for pending entries, by ``Proxy.age``, and the commands of scripts are not recorded.

    ``plan``: the plan, with the URL. If the URL names a database, that one belongs to the audit. Otherwise all data
    of the server is removed; there must be none, or the plan must allow it.
    Raises CannotRunError: the server holds data, or cannot be reached.
    """

    has_clock = False

    def __init__(self, plan: Plan) -> None:
        try:
            self._server = self._proxy = _AuditProxy(plan.real)
        except ValueError as error:
            raise CannotRunError(f"--rillet-url {plan.real}: {error}") from None
        self._recording = self._proxy.recording(last=REMEMBERED)
        self._before = []
        self._clients_before = 0
        self._is_down = False
        self._pace = None
        self._control = None
        self._plan = plan
        self._aged = 0.0
        self._is_ours = False
        self.database = self._proxy.database
        self.host = self._proxy.host

    def __exit__(self, *_: object) -> None:
        if self._control is not None:
            if self._is_ours:
                with contextlib.suppress(RuntimeError):  # the server has ended
                    self.empty()
            self._control.close()
        self._proxy.stop()

    def _take(self) -> None:
        if not (self.database or self._plan.may_flush or b"keys=" not in self.run("INFO", "keyspace")):
            raise CannotRunError(
                f"{self._proxy.server_name} holds data, and an audit removes it: say --rillet-flush if it may, or name a "
                "database of its own: /5 after the port"
            )
        self._is_ours = True
        self.empty()

    def _open(self) -> None:
        try:
            self._proxy.start()
            self._recording.start()
            self._control = self._proxy.control()
        except StartError as error:
            raise CannotRunError(str(error)) from None
        self._take()

    def use(self, database: int) -> None:
        """Check that the worker uses the database of the URL: on a real server the audit may touch no other.

        Raises CannotRunError: the worker uses another one.
        """
        if database != self.database:
            raise CannotRunError(
                f"it reads in database {database} and not in {self.database}, and may have written there: it has to take the "
                "database from REDIS_URL or {url}; or name none in --rillet-url"
            )

    def commands(self) -> list[RecordedCommand]:
        """Return the workers' commands since the start, in order. The commands that their scripts ran are unknown."""
        return [
            replace(each, scripted=None) if each.words[0].upper() in SCRIPTS else each
            for each in super().commands()
        ]

    def fault(self, **options: Any) -> Any:
        """Return a fault, for ``with``; see ``rillet.testing.Proxy.fault``."""
        return self._proxy.fault(**options)

    def later(self, **units: float) -> None:
        """Add a time to the idle times of the group's pending entries; nothing else ages. ``units`` is one: ``days=1``."""
        [(unit, value)] = units.items()
        seconds = value * {"days": 86_400, "hours": 3_600, "seconds": 1, "milliseconds": 0.001}[unit]
        self._aged += 1000 * seconds
        with contextlib.suppress(hiredis.ReplyError):  # there is no group, and so no pending entry
            self._proxy.age(self._plan.stream, self._plan.group, seconds=seconds)

    @property
    def is_up(self) -> bool:
        """Whether workers can connect to the server."""
        return not self._is_down

    def skip(self) -> None:
        """Do nothing: on a real server, waits take real time."""

    def freeze(self) -> None:
        """Do nothing: the clock of a real server cannot be stopped."""

    def resume(self) -> None:
        """Do nothing, as ``freeze``."""

    def now(self) -> int:
        """Return the server's time in milliseconds."""
        seconds, microseconds = map(int, self.run("TIME"))
        return 1000 * seconds + microseconds // 1000

    def passed(self) -> float:
        """Return the server's time plus the sum of ``later``, in milliseconds; it grows with the idle times."""
        return self.now() + self._aged

    def empty(self) -> None:
        """Remove all data: of the database if the URL names one other than 0, else of the whole server."""
        self.run("FLUSHDB" if self.database else "FLUSHALL")

    def forget_scripts(self) -> None:
        """Remove all scripts from the server (SCRIPT FLUSH). Raises NotTried: they may belong to others."""
        if not self._plan.may_flush:
            raise NotTried(
                "SCRIPT FLUSH would remove the scripts of all who use the server: --rillet-flush allows it"
            )
        self.run("SCRIPT", "FLUSH")

    def cut(self) -> None:
        """Reset the connections of all workers."""
        self._proxy.close_clients(self._proxy.clients())

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """Refuse write commands, as a replica does, during a ``with`` block."""
        with contextlib.ExitStack() as stack:
            for each in _WRITES:
                stack.enter_context(self.fault(command=each, error="READONLY"))
            yield

    def clients(self) -> set[int]:
        """Return the client IDs of the workers' open connections; none while the server is down."""
        return set() if self._is_down else {self._clients_before + each for each in self._proxy.clients()}

    def has_client(self, client: int) -> bool:
        """Return True if the connection with this client ID is open."""
        return client in self._proxy.clients()

    def kill_client(self, client: int) -> None:
        """Close the connection with this client ID if it is still open."""
        self._proxy.close_clients({client - self._clients_before})

    def wake_client(self, client: int) -> None:
        """Do nothing: on a real server, only the command's own timeout ends the wait."""
