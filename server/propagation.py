"""The one ordered stream of effects: what the AOF keeps and replicas will be sent.

Handlers say what must be replayed while they run; when the execution unit (one client command, one EXEC, one
re-executed blocked command) is over, ``flush`` hands its effects to the sinks: bare if there is one, inside
MULTI/EXEC if there are more, with a SELECT before the first effect of another database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol import replies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MULTI: Final = replies.command([b"MULTI"])
EXEC: Final = replies.command([b"EXEC"])


class Propagation:
    """Gathers effects and hands them on.

    Attributes:
        active: False while nobody listens (no AOF, no replicas, or loading); then ``add`` need not be called.
        effects: of the current execution unit: (database index, encoded command).
        sinks: each is called with the bytes of a whole unit.
    """

    __slots__ = ("_selected", "active", "effects", "sinks")

    def __init__(self) -> None:
        self.active = False
        self.effects: list[tuple[int, bytes]] = []
        self.sinks: list[Callable[[bytes], None]] = []
        self._selected = -1

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Record one effect, as words."""
        if self.active:
            self.effects.append((db, replies.command(argv)))

    def add_encoded(self, db: int, record: bytes) -> None:
        """Record one effect that is already in request form."""
        if self.active:
            self.effects.append((db, record))

    def connect(self, sink: Callable[[bytes], None]) -> None:
        """Begin to feed a sink; its stream starts with a SELECT."""
        self.sinks.append(sink)
        self.active = True
        self._selected = -1

    def disconnect(self, sink: Callable[[bytes], None]) -> None:
        """Stop feeding a sink."""
        self.sinks.remove(sink)
        self.active = bool(self.sinks)

    def flush(self) -> None:
        """End the execution unit: hand its effects on."""
        effects = self.effects
        if len(effects) == 1:
            db, record = effects[0]
            data = record if db == self._selected else self._select(db) + record
        else:
            parts = [MULTI]
            for db, record in effects:
                if db != self._selected:
                    parts.append(self._select(db))
                parts.append(record)
            parts.append(EXEC)
            data = b"".join(parts)
        effects.clear()
        for sink in self.sinks:
            sink(data)

    def _select(self, db: int) -> bytes:
        self._selected = db
        return replies.command([b"SELECT", b"%d" % db])
