"""One fault: its conditions, its choice among the commands that fit, and its hits.

This module, ``fault_spec.py`` and ``fault_set.py`` do not know the server that applies the faults (``faults.py``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from ...commands.spec.command import Command, keys_of
from ...protocol.globs import matches

if TYPE_CHECKING:
    from .fault_spec import FaultSpec

_HITS: Final = 1000


@dataclass(frozen=True, slots=True)
class Hit:
    """One command, connection or disk call that a fault hit."""

    time: int  # in milliseconds of the server's clock
    client_id: int
    client_name: bytes
    # The full name of a command in upper case; else ``CONNECT``, ``AOF-WRITE``, ``AOF-FSYNC``, ``AOF-REWRITE``.
    command: bytes
    key: bytes  # the matching key, by default the first one; empty without keys


@dataclass(frozen=True, slots=True)
class Sender:
    """The client that sent a command, with what a fault can match: ID, name, user and library."""

    id: int
    name: bytes
    user: bytes
    library: bytes

    def matches(self, glob: bytes) -> bool:
        """Return True if a glob matches this client's ID, name, user or library.

        A leading ``!`` inverts the match.
        """
        if glob.startswith(b"!"):
            return not self.matches(glob[1:])
        names = (self.name, self.user, self.library)
        return glob == b"%d" % self.id or any(name and matches(glob, name) for name in names)


class Sent:
    """A command as a client sent it; its keys are computed once for all faults."""

    def __init__(self, command: Command, argv: list[bytes]) -> None:
        self.command = command
        self._argv = argv

    @property
    def names(self) -> tuple[str, str | None]:
        """The full name of the command, and the name of its container if it is a subcommand."""
        return self.command.name, self.command.container

    def forget_words(self) -> None:
        """Drop the words of the command and keep its keys."""
        self.keys  # noqa: B018 - computes and caches them
        self._argv = []

    @cached_property
    def keys(self) -> list[bytes]:
        """The keys of the command; empty if it has too few or too many words."""
        command, argv = self.command, self._argv
        if not command.accepts(len(argv)):
            return []
        return [argv[reference.index] for reference in keys_of(command, argv)]


class Fault:
    """A fault of DEBUG FAULT while it is active."""

    def __init__(self, number: int, spec: FaultSpec) -> None:
        self.id = number
        self.spec = spec
        self.fitted = 0  # the number of commands that met its conditions
        self.hit = 0  # the number of commands that it hit; ``hits`` has the last of them
        self.hits: deque[Hit] = deque(maxlen=_HITS)
        # Slow transports; when the fault ends, they send the rest at once.
        self.slowed: WeakSet[Any] = WeakSet()
        self.silenced: list[Any] = []  # silenced connections; when the fault ends, they are closed
        self._random = Random(spec.seed)  # noqa: S311 - must repeat for the same seed
        self._drawn = 0.0
        self._redraws: list[float] = []  # drawn for looks that were taken back

    def takes(self, now: int, sender: Sender, sent: Sent) -> bool:
        """Count a command in ``fitted`` if it meets the conditions of the fault; return True if the fault hits it."""
        spec = self.spec
        if spec.command is not None and spec.command not in sent.names:
            return False
        if spec.client is not None and not sender.matches(spec.client):
            return False
        key = self.key_of(sent)
        if key is None and spec.key is not None:
            return False
        name = sent.command.name.upper().replace("|", " ").encode()
        return self.counts(Hit(now, sender.id, sender.name, name, key or b""))

    def key_of(self, sent: Sent) -> bytes | None:
        """Return the first key of a command that matches KEY, or its first key without KEY; None if there is none."""
        glob = self.spec.key
        return next((key for key in sent.keys if glob is None or matches(glob, key)), None)

    def counts(self, hit: Hit) -> bool:
        """Count a matching command, connection or disk call.

        Record a hit if NTH, EVERY, FIRST or PROBABILITY selects it.

        Return True if the fault hits it.
        """
        spec = self.spec
        self.fitted += 1
        if spec.nth:
            wanted = self.fitted == spec.nth
        elif spec.every:
            wanted = self.fitted % spec.every == 0
        elif spec.first:
            wanted = self.fitted <= spec.first
        else:
            wanted = spec.probability is None or self._draw() < spec.probability
        if wanted:
            self.hit += 1
            self.hits.append(hit)
        return wanted

    def _draw(self) -> float:
        self._drawn = self._redraws.pop() if self._redraws else self._random.random()
        return self._drawn

    def take_back(self, hit: Hit | None) -> None:
        """Uncount the last matching command and its hit, because the command blocks; the fault decides when its reply is due."""
        self.fitted -= 1
        if self.spec.probability is not None:
            self._redraws.append(self._drawn)
        if hit is not None:
            self.hit -= 1
            self.hits.remove(hit)
