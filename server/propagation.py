"""The one ordered stream of effects: what the AOF keeps and replicas are sent.

Handlers say what must be replayed while they run; when the execution unit (one client command, one EXEC, one
re-executed blocked command) is over, ``flush`` hands its effects to the sinks: bare if there is one, inside
MULTI/EXEC if there are more, with a SELECT before the first effect of another database. Each sink is a stream of
its own with its own selected database, for they do not begin at the same time; the records in them are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol import replies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MULTI: Final = replies.command([b"MULTI"])
EXEC: Final = replies.command([b"EXEC"])
ALL_VERSIONS: Final = (999, 0)
_NONE: Final = -1  # no database is selected in a stream yet


class Propagation:
    """Gathers effects and hands them on.

    Attributes:
        active: False while nobody listens (no AOF, no replicas, or loading); then ``add`` need not be called.
        effects: of the current execution unit: (database index, encoded command).
        sinks: each is called with the bytes of a whole unit; the value is the database its stream has selected.
        replicas: the sink that leads to the replicas, None while there is none.
        understood: the version of Redis whose commands all replicas know; what is newer is told them in older forms.
    """

    __slots__ = ("_fleeting", "_older", "active", "effects", "replicas", "sinks", "understood")

    def __init__(self) -> None:
        self.active = False
        self.effects: list[tuple[int, bytes]] = []
        self.sinks: dict[Callable[[bytes], None], int] = {}
        self.replicas: Callable[[bytes], None] | None = None
        self.understood = ALL_VERSIONS
        self._fleeting: set[int] = set()  # places in `effects` of what no file keeps
        self._older: dict[int, list[bytes]] = {}  # by places in `effects`: what replicas are told instead

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Record one effect, as words."""
        if self.active:
            self.effects.append((db, replies.command(argv)))

    def add_encoded(self, db: int, record: bytes) -> None:
        """Record one effect that is already in request form."""
        if self.active:
            self.effects.append((db, record))

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """Record an effect that is not on the data (PUBLISH): the replicas are told, the AOF is not."""
        if self.active and self.replicas is not None:
            self._fleeting.add(len(self.effects))
            self.effects.append((db, replies.command(argv)))

    def needs_older(self, since: tuple[int, int]) -> bool:
        """Whether some replica may not know what came with a version."""
        return since > self.understood and self.replicas is not None

    def add_with_older(self, db: int, argv: Sequence[bytes], older: Iterable[Sequence[bytes]]) -> None:
        """Record one effect that the replicas are told in other words, which may be none."""
        if self.active:
            self._older[len(self.effects)] = [replies.command(words) for words in older]
            self.effects.append((db, replies.command(argv)))

    def limit(self, since: int, *, aof: bool, replicas: bool) -> None:
        """Tell only some of the effects that were recorded from a place in ``effects`` on (redis.set_repl)."""
        if not (aof or replicas):
            del self.effects[since:]
            self._fleeting = {place for place in self._fleeting if place < since}
            self._older = {place: words for place, words in self._older.items() if place < since}
            return
        for place in range(since, len(self.effects)):
            if not aof:
                self._fleeting.add(place)
            if not replicas:
                self._older[place] = []

    def connect(self, sink: Callable[[bytes], None], *, to_replicas: bool = False) -> None:
        """Begin to feed a sink; its stream starts with a SELECT."""
        self.sinks[sink] = _NONE
        if to_replicas:
            self.replicas = sink
        self.active = True

    def disconnect(self, sink: Callable[[bytes], None]) -> None:
        """Stop feeding a sink."""
        del self.sinks[sink]
        if sink == self.replicas:
            self.replicas = None
        self.active = bool(self.sinks)

    def select_again(self, sink: Callable[[bytes], None]) -> None:
        """A new reader begins in a sink's stream: the next unit is preceded by a SELECT."""
        if sink in self.sinks:
            self.sinks[sink] = _NONE

    def forget(self) -> None:
        """Drop the effects of a unit that nobody shall hear of."""
        self.effects.clear()
        self._fleeting.clear()
        self._older.clear()

    def set_aside(self) -> tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]:
        """Begin another unit in the middle of one, which ``take_back`` goes on with."""
        aside = self.effects, self._fleeting, self._older
        self.effects, self._fleeting, self._older = [], set(), {}
        return aside

    def take_back(self, aside: tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]) -> None:
        """The inverse of ``set_aside``; the other unit was flushed."""
        self.effects, self._fleeting, self._older = aside

    def flush(self) -> None:
        """End the execution unit: hand its effects on."""
        effects = self.effects
        sinks = self.sinks
        if self._fleeting or self._older:
            self._flush_apart()
        elif len(effects) == 1:
            # As below, of which this is the usual case.
            db, record = effects[0]
            for sink, selected in sinks.items():
                if selected == db:
                    sink(record)
                else:
                    sinks[sink] = db
                    sink(_select(db) + record)
        else:
            made: tuple[int, bytes, int] | None = None
            for sink, selected in sinks.items():
                if made is None or made[0] != selected:
                    made = (selected, *_unit(effects, selected))
                sinks[sink] = made[2]
                sink(made[1])
        effects.clear()

    def flush_units(self, db: int, records: list[bytes]) -> None:
        """Hand on several execution units of one effect each, already in request form."""
        data = b"".join(records)
        for sink, selected in self.sinks.items():
            self.sinks[sink] = db
            sink(data if selected == db else _select(db) + data)

    def _flush_apart(self) -> None:
        """A unit that is not the same for the replicas and for everybody else."""
        lasting = [effect for place, effect in enumerate(self.effects) if place not in self._fleeting]
        told = [
            (db, words)
            for place, (db, record) in enumerate(self.effects)
            for words in self._older.get(place, (record,))
        ]
        self._fleeting.clear()
        self._older.clear()
        for sink, selected in self.sinks.items():
            effects = told if sink == self.replicas else lasting
            if effects:
                data, self.sinks[sink] = _unit(effects, selected)
                sink(data)


def _unit(effects: list[tuple[int, bytes]], selected: int) -> tuple[bytes, int]:
    """The bytes of a unit in a stream that stands at a database, and the one it stands at afterwards."""
    if len(effects) == 1:
        db, record = effects[0]
        return (record if db == selected else _select(db) + record), db
    parts = [MULTI]
    for db, record in effects:
        if db != selected:
            parts.append(_select(db))
            selected = db
        parts.append(record)
    parts.append(EXEC)
    return b"".join(parts), selected


def _select(db: int) -> bytes:
    return replies.command([b"SELECT", b"%d" % db])
