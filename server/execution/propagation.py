"""The one ordered stream of effects, which goes to the AOF and the replicas.

Handlers record their effects while they run. At the end of the execution unit (one client command, one EXEC,
one blocked command that ran again) ``flush`` passes its effects to the sinks: bare if there is one, inside MULTI/EXEC
if there are more, with a SELECT before the first effect of another database. Each sink is a stream with its own
selected database, because sinks start at different times; their records are the same.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ...protocol import replies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MULTI: Final = replies.command([b"MULTI"])
EXEC: Final = replies.command([b"EXEC"])
ALL_VERSIONS: Final = (999, 0)
_NONE: Final = -1  # no database is selected in a stream yet


class Propagation:
    """Gathers effects and passes them to the sinks.

    Attributes:
        active: False without sinks (no AOF, no replicas) and while loading; then ``add`` need not be called.
        effects: of the current execution unit: (database index, encoded command).
        sinks: each is called with the bytes of a whole unit; the value is the database its stream has selected.
        replicas: the sink of the replicas, None without one.
        on_divergence: called when only some of the sinks have taken a unit.
        understood: the newest version that every replica understands; newer commands are rewritten for them.
        commands: how many were passed on, MULTI and EXEC with them, SELECT not.
        selects_first: the SELECT of a unit's first effect precedes MULTI (7.0).
    """

    __slots__ = (
        "_downgraded",
        "_exempt",
        "_joined",
        "_replicas_only",
        "active",
        "commands",
        "effects",
        "on_divergence",
        "replicas",
        "selects_first",
        "sinks",
        "understood",
    )

    def __init__(self) -> None:
        self.active = False
        self.effects: list[tuple[int, bytes]] = []
        self.commands = 0
        self._joined = 0  # commands in `effects` beyond one for each place
        self.sinks: dict[Callable[[bytes], None], int] = {}
        self.replicas: Callable[[bytes], None] | None = None
        self.understood = ALL_VERSIONS
        self.selects_first = False
        self.on_divergence: Callable[[], None] | None = None
        self._replicas_only: set[int] = set()  # places in `effects` of what no file keeps
        self._exempt: set[int] | None = None  # places in `effects`, while a command is limited
        self._downgraded: dict[int, list[bytes]] = {}  # by places in `effects`: what replicas get instead

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Record one effect, as arguments."""
        if self.active:
            self.effects.append((db, replies.command(argv)))

    def add_encoded(self, db: int, record: bytes) -> None:
        """Record one effect that is already in request form."""
        if self.active:
            self.effects.append((db, record))

    def add_joined(self, db: int, records: bytes, number: int) -> None:
        """Record one or more effects that are already in request form, one after the other."""
        if self.active:
            self.effects.append((db, records))
            if number > 1:
                self.effects.append((db, b""))  # two effects, so that MULTI and EXEC surround them
                self._joined += number - 2

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """Record an effect that does not change data (PUBLISH): for the replicas, not the AOF."""
        if self.active and self.replicas is not None:
            record = replies.command(argv)
            self._replicas_only.add(len(self.effects))
            self.effects.append((db, record))

    def needs_downgrade(self, since: tuple[int, int]) -> bool:
        """Whether some replica may not know what came with a version."""
        return since > self.understood and self.replicas is not None

    def add_with_downgrade(self, db: int, argv: Sequence[bytes], older: Iterable[Sequence[bytes]]) -> None:
        """Record one effect that replicas receive in other words, which may be none."""
        if self.active:
            record = replies.command(argv)
            self._downgraded[len(self.effects)] = [replies.command(words) for words in older]
            self.effects.append((db, record))

    def limit(self, since: int, *, aof: bool, replicas: bool) -> None:
        """Restrict the effects from a place in ``effects`` on to some sinks (redis.set_repl), but for exempt ones."""
        exempt, self._exempt = self._exempt or set(), None
        if not (aof or replicas or exempt):
            self.drop_from(since)
            return
        for place in range(since, len(self.effects)):
            if place in exempt:
                continue
            if not aof:
                self._replicas_only.add(place)
            if not replicas:
                self._downgraded[place] = []

    def exempt(self, since: int) -> None:
        """Keep ``limit`` from the effects from a place on: Redis limits commands, not their effects, nor expiry."""
        if self._exempt is not None:
            self._exempt.update(range(since, len(self.effects)))

    def begin_limited(self) -> None:
        """Note from now on what ``exempt`` says, until ``limit``."""
        self._exempt = set()

    def connect(self, sink: Callable[[bytes], None], *, to_replicas: bool = False) -> None:
        """Start feeding a sink; its stream begins with a SELECT."""
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
        """Write a SELECT before the next unit of a sink, for a new reader of its stream."""
        if sink in self.sinks:
            self.sinks[sink] = _NONE

    def forget(self) -> None:
        """Drop the effects of a unit that is not propagated."""
        self.effects.clear()
        self._joined = 0
        self._replicas_only.clear()
        self._downgraded.clear()
        self._exempt = None

    def drop_from(self, since: int) -> None:
        """Drop the effects from a place in ``effects`` on, and the records about these places."""
        del self.effects[since:]
        self._replicas_only = {place for place in self._replicas_only if place < since}
        self._downgraded = {place: words for place, words in self._downgraded.items() if place < since}

    def set_aside(self) -> tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]:
        """Begin another unit in the middle of one, which ``take_back`` goes on with."""
        aside = self.effects, self._replicas_only, self._downgraded
        self.effects, self._replicas_only, self._downgraded = [], set(), {}
        return aside

    def take_back(self, aside: tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]) -> None:
        """The inverse of ``set_aside``; the other unit was flushed."""
        self.effects, self._replicas_only, self._downgraded = aside

    def flush(self) -> None:
        """End the execution unit: pass its effects to the sinks.

        It raises only before any sink has taken the unit: the effects are kept, and the next call passes them on.
        """
        effects = self.effects
        sinks = self.sinks
        if self._replicas_only or self._downgraded:
            self._flush_apart()
        elif len(effects) == 1:
            # The usual case of the code below, inlined: a SET takes 2.8 instead of 3.2 us with an AOF.
            db, record = effects[0]
            try:
                for sink, selected in sinks.items():
                    if selected == db:
                        sink(record)
                    else:
                        sink(_select(db) + record)
                        sinks[sink] = db
            except Exception:  # noqa: BLE001 - once more
                self._hand_on_from(sink)
            self.commands += 1
            del effects[0]  # no call, which might fail; quicker than a slice
            return
        else:
            number = len(effects)
            units: dict[int, tuple[bytes, int]] = {}
            for selected in sinks.values():
                if selected not in units:
                    units[selected] = self._unit(effects, selected)
            try:
                for sink, selected in sinks.items():
                    data, left = units[selected]
                    sink(data)
                    sinks[sink] = left
            except Exception:  # noqa: BLE001 - once more
                self._hand_on_from(sink)
            del effects[:]  # before any call, which might fail: the sinks have taken them
            self._count(number)
            return
        del effects[:]

    def _count(self, effects: int) -> None:
        """Count the commands of a unit with so many effects."""
        self.commands += effects + self._joined + 2 * (effects > 1)
        self._joined = 0

    def _hand_on_from(self, failed: Callable[[bytes], None]) -> None:
        """Give the unit to the sink that failed once, and to those after it; the ones before it have taken it."""
        sinks = list(self.sinks)
        at = sinks.index(failed)
        try:
            units = [(sink, *self._unit(self.effects, self.sinks[sink])) for sink in sinks[at:]]
        except Exception:
            self._failed(at > 0)
            raise
        self._hand_on(units, taken=at > 0)

    def _hand_on(
        self, units: list[tuple[Callable[[bytes], None], bytes, int]], *, taken: bool = False
    ) -> None:
        """Give each sink its bytes, after which it stands at a database; some may have taken the unit before."""
        try:
            for sink, data, selected in units:
                try:
                    sink(data)
                except Exception:  # noqa: BLE001 - try once more
                    sink(data)
                taken = True
                self.sinks[sink] = selected
        except Exception:
            self._failed(taken)
            raise

    def _failed(self, taken: bool) -> None:
        """Handle a sink that failed twice: if others have taken the unit, they can never agree again."""
        if taken and self.on_divergence is not None:
            self.on_divergence()

    def flush_units(self, db: int, records: list[bytes]) -> None:
        """Pass on several execution units of one effect each, already in request form."""
        data = b"".join(records)
        self._hand_on(
            [
                (sink, data if selected == db else _select(db) + data, db)
                for sink, selected in self.sinks.items()
            ]
        )
        self.commands += len(records)

    def flush_each(self, *, keep: int = 0) -> None:
        """Pass on each effect as a unit of its own; the last ``keep`` effects stay in the unit.

        As ``flush``, it raises only before any sink has taken them: then the unit stays as it is.
        """
        last = len(self.effects) - keep
        if last < 1:
            return
        units = [
            (
                sink,
                *self._units([self._effects_for(sink, place, place + 1) for place in range(last)], selected),
            )
            for sink, selected in self.sinks.items()
        ]
        replicas_only = {place - last for place in self._replicas_only if place >= last}
        downgraded = {place - last: words for place, words in self._downgraded.items() if place >= last}
        self._hand_on([unit for unit in units if unit[1]])
        self.commands += last
        del self.effects[:last]
        self._replicas_only, self._downgraded = replicas_only, downgraded

    def _flush_apart(self) -> None:
        """A unit that is not the same for the replicas and for everybody else."""
        units = [
            (sink, *self._unit(effects, selected))
            for sink, selected in self.sinks.items()
            if (effects := self._effects_for(sink, 0, len(self.effects)))
        ]
        number = len(self.effects) - len(self._replicas_only)
        replicas_only: set[int] = set()
        downgraded: dict[int, list[bytes]] = {}
        self._hand_on(units)
        del self.effects[:]  # before any call, which might fail: the sinks have taken them
        self._replicas_only, self._downgraded = replicas_only, downgraded
        if self.replicas is None:
            self._count(number)

    def _effects_for(self, sink: Callable[[bytes], None], start: int, stop: int) -> list[tuple[int, bytes]]:
        """Return the effects from one place to another as a sink receives them; there may be none."""
        effects = enumerate(islice(self.effects, start, stop), start)
        if sink != self.replicas:
            return [effect for place, effect in effects if place not in self._replicas_only]
        return [
            (db, words) for place, (db, record) in effects for words in self._downgraded.get(place, (record,))
        ]

    def _unit(self, effects: list[tuple[int, bytes]], selected: int) -> tuple[bytes, int]:
        """Return the bytes of a unit for a stream with a selected database, and its database afterwards."""
        if len(effects) == 1:
            db, record = effects[0]
            return (record if db == selected else _select(db) + record), db
        parts = [MULTI]
        if self.selects_first and effects[0][0] != selected:
            selected = effects[0][0]
            parts.insert(0, _select(selected))
        for db, record in effects:
            if db != selected:
                parts.append(_select(db))
                selected = db
            parts.append(record)
        parts.append(EXEC)
        return b"".join(parts), selected

    def _units(self, of_each: list[list[tuple[int, bytes]]], selected: int) -> tuple[bytes, int]:
        """As ``_unit``, for several units one after the other; one without effects leaves no bytes."""
        parts: list[bytes] = []
        for effects in of_each:
            part, selected = self._unit(effects, selected) if effects else (b"", selected)
            parts.append(part)
        return b"".join(parts), selected


def _select(db: int) -> bytes:
    return replies.command([b"SELECT", b"%d" % db])
