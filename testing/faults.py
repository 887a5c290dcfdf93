"""Fault injection: commands, connections and the disk of a test server fail as a test asks."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from math import inf
from typing import Any, Final, NamedTuple, Self

from ..protocol.errors import ReplyError
from .control import TakesCommands

Seconds = timedelta | float


_GONE: Final = "no fault with this ID"


class Hit(NamedTuple):
    """One hit of a fault.

    Attributes:
        time: the server's time, in milliseconds.
        client: the name of the client; "" if it has none.
        client_id: the ID of its connection; 0 for the disk.
        command: in upper case, e.g. ``XGROUP CREATE``; or ``CONNECT``, ``AOF-WRITE``, ``AOF-FSYNC`` or ``AOF-REWRITE``.
        key: the key that matched, or the first key; "" without keys.
    """

    time: int
    client: str
    client_id: int
    command: str
    key: str


class Fault:
    """A fault; it is on during a ``with`` block. ``rillet.testing.Server.fault`` returns it.

    Attributes:
        id: the fault's ID on the server; None before the first start.
        options: the options, as the words of ``DEBUG FAULT ADD``.
    """

    def __init__(
        self,
        command: Callable[..., Any],
        options: list[bytes],
        *,
        expect_hits: bool = False,
        id_: int | None = None,
    ) -> None:
        self._command = command
        self._words = options
        self._expects_hits = expect_hits
        self._is_on = id_ is not None
        self._fitted = self._count = 0
        self._hits: list[Hit] = []
        self.id = id_

    @property
    def options(self) -> str:
        """The options, as the words of ``DEBUG FAULT ADD``."""
        return " ".join(map(_text, self._words))

    def start(self) -> Self:
        """Turn the fault on, and discard the hits of an earlier use.

        Raises:
            ValueError: the server does not know the command.
        """
        import hiredis

        self._fitted, self._count, self._hits = 0, 0, []
        try:
            self.id = self._command(b"DEBUG", b"FAULT", b"ADD", *self._words)
        except hiredis.ReplyError as error:
            raise ValueError(str(error).removeprefix("ERR ")) from None
        self._is_on = True
        return self

    def stop(self) -> None:
        """Turn the fault off: delayed commands continue, and silenced connections are closed.

        Raises:
            AssertionError: it has ``expect_hits`` and hit nothing.
        """
        self._end()
        self._check()

    def _end(self) -> None:
        self._ask(b"CLEAR")
        self._is_on = False

    def _check(self) -> None:
        if self._expects_hits and not self._count:
            raise AssertionError(f"the fault hit nothing: {self.options} ({self._fitted} commands fitted)")

    def check_if_on(self) -> None:
        """Raise AssertionError if the fault is on, has ``expect_hits`` and hit nothing; pass if the server has ended."""
        if self._is_on and self._expects_hits:
            with contextlib.suppress(RuntimeError, OSError):
                self._ask(b"LIST")
                self._check()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._end()
        except (RuntimeError, OSError):  # the fault was cleared, or the server has ended
            if kind is None:  # an error of the block matters more
                raise
        if kind is None:
            self._check()

    @property
    def hits(self) -> list[Hit]:
        """The last 1,000 hits of this fault."""
        self._ask(b"LIST")
        return self._hits

    @property
    def count(self) -> int:
        """The number of this fault's hits so far."""
        self._ask(b"LIST")
        return self._count

    @property
    def fitted(self) -> int:
        """The number of commands so far that the fault's filters match, whether or not it hit them.

        ``nth``, ``every``, ``first`` and ``probability`` then choose among these.
        """
        self._ask(b"LIST")
        return self._fitted

    def _ask(self, action: bytes) -> None:
        if not self._is_on:
            return
        try:
            [found] = self._command(b"DEBUG", b"FAULT", action, str(self.id).encode())
        except Exception as error:
            if _GONE not in str(error):
                raise
            self._is_on = False
            raise RuntimeError(
                f"the fault is no longer there, cleared by a reset or a restart: {self.options}"
            ) from None
        _, _, self._fitted, self._count, hits = found
        self._hits = [
            Hit(time, _text(client), client_id, _text(command), _text(key))
            for time, client_id, client, command, key in hits
        ]

    def __repr__(self) -> str:
        state = f"id={self.id}" if self._is_on else "off"
        return f"<Fault {self.options} ({state})>"


class HasFaults(TakesCommands):
    """Fault injection for a test server."""

    def __init__(self) -> None:
        super().__init__()
        # The last 100 faults from ``fault``; the report of a failed test names the ones with hits.
        self.made_faults: deque[Fault] = deque(maxlen=100)
        self._expected: list[Fault] = []  # faults with `expect_hits`

    def fault(
        self,
        *,
        command: str | None = None,
        key: str | bytes | None = None,
        client: str | int | None = None,
        nth: int | None = None,
        every: int | None = None,
        first: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        empty: bool = False,
        error: str | None = None,
        close: str | None = None,
        reply_bytes: int | None = None,
        silence: bool = False,
        slow: tuple[int, Seconds] | None = None,
        delay: Seconds | None = None,
        clock_delay: Seconds | None = None,
        connections: str | None = None,
        disk: str | None = None,
        expect_hits: bool = False,
    ) -> Fault:
        """Return a fault for a ``with`` block; without filters it hits every command.

        Args:
            command: a command or subcommand: ``XACK``, ``XGROUP CREATE``.
            key: a glob that must match one of the command's keys.
            client: a glob for the client's name, user or library; or the ID of its connection. A leading ! inverts it: all
                other clients.
            nth: hit only the nth matching command.
            every: hit only every nth matching command.
            first: hit only the first n matching commands.
            probability: hit each matching command with this probability, from 0 to 1.
            seed: of the probability; the same seed and the same commands give the same hits.
            empty: ``nth``, ``every`` and ``first`` also count waits that end without a result (BLOCK that times out).
            error: the text of an error reply (``CODE text``), or the name of one: LOADING READONLY MISCONF OOM BUSY NOAUTH
                CLUSTERDOWN MOVED ASK TRYAGAIN. The command does not run.
            close: close the connection ``before`` the command runs, ``after`` it ran but before its reply, or ``midway``
                through the reply.
            reply_bytes: send only this many bytes of the reply; then close the connection, or with ``silence`` keep it open.
            silence: run the command, and send nothing more on this connection; it is closed when the fault ends.
            slow: send the reply in pieces: the bytes of each piece, and the time before each.
            delay: let the command wait before anything else; seconds or a timedelta of real time.
            clock_delay: let the command wait until the server's clock has moved by this time.
            connections: ``refuse`` closes new connections.
            disk: ``append``: no space for the append-only file; ``fsync``: syncing it fails, or with ``delay`` takes that
                long; ``rewrite``: rewriting it fails.
            expect_hits: raise AssertionError if the fault ends, or the server stops, before it hit anything.

        Raises:
            ValueError: an option is missing, unknown or contradictory.
        """
        from ..server.debugging.fault_spec import parse_fault

        given: dict[str, object] = {
            "COMMAND": command,
            "KEY": key,
            "CLIENT": client,
            "NTH": nth,
            "EVERY": every,
            "FIRST": first,
            "PROBABILITY": probability,
            "SEED": seed,
            "ERROR": error,
            "CLOSE": close,
            "REPLY-BYTES": reply_bytes,
            "DELAY": None if delay is None else _milliseconds(delay),
            "CLOCK-DELAY": None if clock_delay is None else _milliseconds(clock_delay),
            "CONNECTIONS": connections,
            "DISK": disk,
        }
        words: list[bytes] = []
        for name, value in given.items():
            if value is not None:
                words += [name.encode(), _bytes(value)]
        if empty:
            words.append(b"EMPTY")
        if silence:
            words.append(b"SILENCE")
        if slow is not None:
            size, seconds = slow
            words += [b"SLOW", b"%d" % size, b"%d" % _milliseconds(seconds)]
        try:
            parse_fault(words)
        except ReplyError as problem:
            raise ValueError(problem.text.decode().removeprefix("ERR ")) from None
        made = Fault(self._command, words, expect_hits=expect_hits)
        self.made_faults.append(made)
        if expect_hits:
            self._expected.append(made)
        return made

    def check_faults(self) -> None:
        """Check the faults with ``expect_hits`` that are still on.

        It is called when the server or the proxy stops, and at the end of each test that uses the fixtures.

        Raises:
            AssertionError: one of them hit nothing.
        """
        expected, self._expected = self._expected, []
        for fault in expected:
            fault.check_if_on()

    def _forget_faults(self) -> None:
        self._expected.clear()

    def fault_in_words(self, *words: bytes) -> Fault:
        """Return a fault from the words of ``DEBUG FAULT ADD``; invalid words raise ValueError when it starts."""
        made = Fault(self._command, list(words))
        self.made_faults.append(made)
        return made

    @property
    def faults(self) -> list[Fault]:
        """All active faults, including those of other clients, in the order in which they were added."""
        found = self._command(b"DEBUG", b"FAULT", b"LIST")
        return [Fault(self._command, words, id_=number) for number, words, *_ in found]


def _milliseconds(time: Seconds) -> int:
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if not 0 <= seconds < inf:
        raise ValueError("a time must be a number of seconds, not negative")
    return round(seconds * 1000)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")


def _text(word: bytes) -> str:
    return word.decode(errors="surrogateescape")
