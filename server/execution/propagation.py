"""The one ordered stream of effects, which goes to the AOF and the replicas.

Handlers record their effects while they run. At the end of the execution unit (one client command, one EXEC, one
re-run of a blocked command) ``flush`` passes its effects to the sinks. A single effect goes bare, several go inside
MULTI/EXEC, and a SELECT precedes the first effect of another database. The sinks receive the same records, but each
tracks its own selected database, because sinks start at different times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from ...protocol import replies

MULTI: Final = replies.command([b"MULTI"])
EXEC: Final = replies.command([b"EXEC"])
ALL_VERSIONS: Final = (999, 0)
_NONE: Final = -1  # the stream has not selected a database yet


class Propagation:
    """Gathers effects and passes them to the sinks."""

    __slots__ = (
        "_downgraded", "_exempt", "_joined", "_replicas_only", "active", "commands", "effects",
        "on_divergence", "replicas", "selects_first", "sinks", "understood",
    )  # fmt: skip

    def __init__(self) -> None:
        # False without sinks (no AOF, no replicas) and while loading; then ``add`` need not be called.
        self.active = False
        # (database index, encoded command) of each effect of the current execution unit.
        self.effects: list[tuple[int, bytes]] = []
        self.commands = 0  # the number of propagated commands, including MULTI and EXEC but not SELECT
        self._joined = 0  # commands in `effects` beyond one for each index
        # Each is called with the bytes of a whole unit; the value is the database that its stream has selected.
        self.sinks: dict[Callable[[bytes], None], int] = {}
        self.replicas: Callable[[bytes], None] | None = None  # the sink that feeds the replicas, or None
        # The newest version that every replica understands; newer commands are rewritten for them.
        self.understood = ALL_VERSIONS
        self.selects_first = False  # the SELECT of a unit's first effect precedes MULTI (7.0)
        # Called when only some of the sinks have taken a unit.
        self.on_divergence: Callable[[], None] | None = None
        self._replicas_only: set[int] = set()  # indexes in `effects` that the AOF does not keep
        self._exempt: set[int] | None = None  # indexes in `effects`, while a command is limited
        self._downgraded: dict[int, list[bytes]] = {}  # by index in `effects`: what replicas get instead

    def add(self, db: int, argv: Sequence[bytes]) -> None:
        """Record one effect, given as the words of a command."""
        if self.active:
            self.effects.append((db, replies.command(argv)))

    def add_encoded(self, db: int, record: bytes) -> None:
        """Record one effect, given as an encoded request."""
        if self.active:
            self.effects.append((db, record))

    def add_joined(self, db: int, records: bytes, number: int) -> None:
        """Record ``number`` effects, given as one string of encoded requests."""
        if self.active:
            self.effects.append((db, records))
            if number > 1:
                self.effects.append((db, b""))  # two effects, so that MULTI and EXEC surround them
                self._joined += number - 2

    def add_for_replicas(self, db: int, argv: Sequence[bytes]) -> None:
        """Record an effect that does not change data (PUBLISH) for the replicas only, not for the AOF."""
        if self.active and self.replicas is not None:
            record = replies.command(argv)
            self._replicas_only.add(len(self.effects))
            self.effects.append((db, record))

    def needs_downgrade(self, since: tuple[int, int]) -> bool:
        """Return True if some replica may not understand a command that version ``since`` introduced."""
        return since > self.understood and self.replicas is not None

    def add_with_downgrade(self, db: int, argv: Sequence[bytes], older: Iterable[Sequence[bytes]]) -> None:
        """Record one effect that the AOF receives as ``argv``, and the replicas as the ``older`` commands, possibly none."""
        if self.active:
            record = replies.command(argv)
            self._downgraded[len(self.effects)] = [replies.command(words) for words in older]
            self.effects.append((db, record))

    def limit(self, since: int, *, aof: bool, replicas: bool) -> None:
        """Restrict the effects from index ``since`` on to the AOF, the replicas or neither (redis.set_repl).

        Effects that ``exempt`` has reported go to both.
        """
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
        """Let ``limit`` ignore the effects from index ``since`` on: side effects and expiry, as in Redis."""
        if self._exempt is not None:
            self._exempt.update(range(since, len(self.effects)))

    def begin_limited(self) -> None:
        """Let ``exempt`` collect effects for a script with redis.set_repl, until the next ``limit``."""
        self._exempt = set()

    def connect(self, sink: Callable[[bytes], None], *, to_replicas: bool = False) -> None:
        """Pass the bytes of each unit to ``sink`` from now on, beginning with a SELECT."""
        self.sinks[sink] = _NONE
        if to_replicas:
            self.replicas = sink
        self.active = True

    def disconnect(self, sink: Callable[[bytes], None]) -> None:
        """Pass no more units to ``sink``."""
        del self.sinks[sink]
        if sink == self.replicas:
            self.replicas = None
        self.active = bool(self.sinks)

    def select_again(self, sink: Callable[[bytes], None]) -> None:
        """Write a SELECT before the next unit of a sink, whose new reader does not know the database."""
        if sink in self.sinks:
            self.sinks[sink] = _NONE

    def forget(self) -> None:
        """Drop all effects of the current unit; it is not propagated."""
        self.effects.clear()
        self._joined = 0
        self._replicas_only.clear()
        self._downgraded.clear()
        self._exempt = None

    def drop_from(self, since: int) -> None:
        """Drop the effects of the current unit from index ``since`` on."""
        del self.effects[since:]
        self._replicas_only = {place for place in self._replicas_only if place < since}
        self._downgraded = {place: words for place, words in self._downgraded.items() if place < since}

    def set_aside(self) -> tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]:
        """Begin another unit; return the effects of the suspended one, for ``take_back``."""
        aside = self.effects, self._replicas_only, self._downgraded
        self.effects, self._replicas_only, self._downgraded = [], set(), {}
        return aside

    def take_back(self, aside: tuple[list[tuple[int, bytes]], set[int], dict[int, list[bytes]]]) -> None:
        """Resume the unit that ``set_aside`` suspended; the current one must be flushed."""
        self.effects, self._replicas_only, self._downgraded = aside

    def flush(self) -> None:
        """End the execution unit: pass its effects to the sinks.

        It raises only if no sink has taken the unit; it then keeps the effects, and the next call passes them on.
        """
        effects = self.effects
        sinks = self.sinks
        if self._replicas_only or self._downgraded:
            self._flush_apart()
        elif len(effects) == 1:
            # The usual case of the code below, inlined: with an AOF a SET takes 2.8 instead of 3.2 us.
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
            del effects[0]  # not a call, which might fail; quicker than a slice
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
        """Count the commands of a unit with this many effects."""
        self.commands += effects + self._joined + 2 * (effects > 1)
        self._joined = 0

    def _hand_on_from(self, failed: Callable[[bytes], None]) -> None:
        """Retry the sink that failed once, then feed the sinks after it; the sinks before it have taken the unit."""
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
        """Pass each sink its bytes and note its new database; ``taken``: another sink already has the unit."""
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
        """Handle a sink that failed twice: if another sink has taken the unit, the sinks differ for good."""
        if taken and self.on_divergence is not None:
            self.on_divergence()

    def flush_units(self, db: int, records: list[bytes]) -> None:
        """Pass on several units of one effect each, given as encoded requests for database ``db``."""
        data = b"".join(records)
        self._hand_on(
            [
                (sink, data if selected == db else _select(db) + data, db)
                for sink, selected in self.sinks.items()
            ]
        )
        self.commands += len(records)

    def flush_each(self, *, keep: int = 0) -> None:
        """Pass on each effect of the current unit as a unit of its own, except for the last ``keep`` effects.

        Like ``flush``, it raises only if no sink has taken them; the unit then stays unchanged.
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
        """Flush a unit whose effects differ between the replicas and the other sinks."""
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
        """Return the effects ``start`` to ``stop`` as a sink receives them; there may be none."""
        effects = enumerate(islice(self.effects, start, stop), start)
        if sink != self.replicas:
            return [effect for place, effect in effects if place not in self._replicas_only]
        return [
            (db, words) for place, (db, record) in effects for words in self._downgraded.get(place, (record,))
        ]

    def _unit(self, effects: list[tuple[int, bytes]], selected: int) -> tuple[bytes, int]:
        """Return the bytes of a unit for a stream with this selected database, and the database selected after it."""
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
        """Like ``_unit``, for several units in a row; a unit without effects adds no bytes."""
        parts: list[bytes] = []
        for effects in of_each:
            part, selected = self._unit(effects, selected) if effects else (b"", selected)
            parts.append(part)
        return b"".join(parts), selected


def _select(db: int) -> bytes:
    return replies.command([b"SELECT", b"%d" % db])
