"""Read how far a query is behind from Spark's progress reports, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..redis import ids
from ..redis.key_names import printable_name
from ..source.offsets import VERSION, load
from ..source.positions import Position


@dataclass(frozen=True)
class Lag:
    """How far a query is behind after a batch; a value is None if the mode or the server does not report it."""

    stream: str | None = None  # its name; None: the values are of all that the query reads
    entries_behind: int | None = None  # the number of entries not read yet
    # The difference in time between the last entry read and the newest one.
    seconds_behind: float | None = None
    # The number of entries that were trimmed or deleted before they were read, since the query began.
    gone: int | None = None
    pending: int | None = None  # the number of entries in the group's PEL
    bytes_behind: int | None = None  # the bytes of an append-only file that are not read yet
    # The number of entries that group mode moved to the dead-letter stream, since the query began.
    dead: int | None = None

    def __str__(self) -> str:
        behind, notes = [], []
        if self.stream is not None:
            behind.append(f"{'?' if self.entries_behind is None else self.entries_behind} entries")
        if self.bytes_behind is not None:
            behind.append(f"{self.bytes_behind:,} bytes")
        if self.seconds_behind is not None:
            behind.append(f"{self.seconds_behind:.1f} s")
        if behind:
            notes.append(f"{self.stream or ''} {' / '.join(behind)} behind".lstrip())
        if self.pending is not None:
            notes.append(f"{self.pending} pending")
        if self.gone:
            notes.append(f"{self.gone} gone")
        if self.dead:
            notes.append(f"{self.dead} dead letters")
        return ", ".join(notes)


@dataclass(frozen=True)
class QueryState:
    """The last progress report of a streaming query, and how far the query is behind."""

    name: str
    batch_id: int = -1  # the number of the last batch; -1 before the first
    rows: int = 0  # the rows of that batch; ``rows_total``: of all reports so far
    rows_total: int = 0
    batch_seconds: float = 0.0  # how long that batch took
    lags: tuple[Lag, ...] = ()  # how far the query is behind
    running: bool = True
    failed: bool = False

    def __str__(self) -> str:
        text = f"{self.name}: batch {self.batch_id}, {self.rows} rows in {self.batch_seconds:.3f} s"
        return "; ".join(filter(None, [text, *map(str, self.lags)]))


def read_sources(sources: Iterable[Mapping[str, Any]]) -> tuple[Lag, ...]:
    """Return the lag of every stream in a progress report; skip sources that are not Rillet's."""
    found: list[Lag] = []
    for source in sources:
        end, latest = _tree(source.get("endOffset")), _tree(source.get("latestOffset"))
        if latest.get("mode") == "group":
            found += [
                Lag(
                    printable_name(name),
                    facts.get("lag"),
                    _seconds(ids.parse(facts["last_delivered"]), ids.parse(facts["newest"])),
                    pending=facts.get("pending"),
                )
                for name, facts in sorted(latest.get("streams", {}).items())
            ]
        elif all(tree.get("v") == VERSION and "streams" in tree for tree in (end, latest)):
            newest = load(latest)
            found += [
                _range_lag(printable_name(name), at, newest.get(name))
                for name, at in sorted(load(end).items())
            ]
    return tuple(found)


def read_whole(sources: Iterable[Mapping[str, Any]]) -> tuple[Lag, ...]:
    """Return the lags of a whole query: at most one of its ledgers, and one of its sources in group mode.

    The first adds up the bytes of the append-only files still to be read; the second counts the entries that were not
    processed, because they were gone or dead-lettered.
    """
    trees = [(_tree(source.get("endOffset")), _tree(source.get("latestOffset"))) for source in sources]
    ledgers = [latest for _, latest in trees if latest.get("mode") == "ledger"]
    groups = [end for end, _ in trees if end.get("mode") == "group"]
    found = []
    if ledgers:
        seconds = [each["seconds_behind"] for each in ledgers if each["seconds_behind"] is not None]
        bytes_behind = sum(each["bytes_behind"] for each in ledgers)
        found.append(Lag(bytes_behind=bytes_behind, seconds_behind=max(seconds, default=None)))
    if groups:
        found.append(
            Lag(gone=sum(each["gone"] for each in groups), dead=sum(each["dead"] for each in groups))
        )
    return tuple(found)


def _range_lag(name: str, at: Position, latest: Position | None) -> Lag:
    if latest is None or at.id >= latest.id:  # the key is gone, or all was read
        return Lag(name, 0, 0.0, at.gone)
    behind = None if at.added is None or latest.added is None else max(latest.added - at.added, 0)
    return Lag(name, behind, _seconds(at.id, latest.id), at.gone)


def _seconds(here: int, there: int) -> float | None:
    """Return the seconds between two ids; None before the first entry, when there is no time to count from."""
    if here >= there:
        return 0.0
    return ((there >> 64) - (here >> 64)) / 1000 if here else None


def _tree(offset: Any) -> dict[str, Any]:
    """Parse an offset of a report: JSON text in Spark classic."""
    found = json.loads(offset) if isinstance(offset, str) and offset.startswith("{") else offset
    return found if isinstance(found, dict) else {}
