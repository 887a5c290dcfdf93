"""Read how far a query is behind from Spark's progress reports, without a JVM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..redis import ids
from ..redis.key_names import printable_name
from ..source.offsets import VERSION, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..source.positions import Position


@dataclass(frozen=True)
class StreamLag:
    """One stream of one query after a batch; a value is None if the mode or the server does not report it."""

    stream: str
    entries_behind: int | None
    seconds_behind: float | None
    gone: int | None = None
    pending: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.entries_behind if self.entries_behind is not None else '?'} entries"]
        if self.seconds_behind is not None:
            parts.append(f"{self.seconds_behind:.1f} s")
        text = f"{self.stream} {' / '.join(parts)} behind"
        if self.pending is not None:
            text += f", {self.pending} pending"
        if self.gone:
            text += f", {self.gone} gone"
        return text


@dataclass(frozen=True)
class LedgerLag:
    """How far a query is behind the append-only file of a server; ``seconds`` is None before the first annotation."""

    bytes_behind: int
    seconds_behind: float | None

    def __str__(self) -> str:
        seconds = "" if self.seconds_behind is None else f" / {self.seconds_behind:.1f} s"
        return f"{self.bytes_behind:,} bytes{seconds} behind"


@dataclass(frozen=True)
class GroupLosses:
    """The entries that group mode could not read, over all streams since the query began."""

    gone: int
    dead: int

    def __bool__(self) -> bool:
        return bool(self.gone or self.dead)

    def __str__(self) -> str:
        return f"{self.gone} gone, {self.dead} dead letters"


@dataclass(frozen=True)
class QueryState:
    """The last report of a query, and the number of rows in all reports so far."""

    name: str
    batch_id: int = -1
    rows: int = 0
    rows_total: int = 0
    batch_seconds: float = 0.0
    streams: tuple[StreamLag, ...] = ()
    group: GroupLosses | None = None
    ledger: LedgerLag | None = None
    running: bool = True
    failed: bool = False

    def __str__(self) -> str:
        parts = [f"{self.name}: batch {self.batch_id}, {self.rows} rows in {self.batch_seconds:.3f} s"]
        parts += map(str, self.streams)
        parts += [str(lag) for lag in (self.ledger, self.group) if lag]
        return "; ".join(parts)


def read_sources(sources: Iterable[Mapping[str, Any]]) -> tuple[StreamLag, ...]:
    """Return the lag of every stream in a progress report; skip sources that are not Rillet's."""
    found: list[StreamLag] = []
    for source in sources:
        end, latest = _tree(source.get("endOffset")), _tree(source.get("latestOffset"))
        if latest.get("mode") == "group":
            found += [
                StreamLag(
                    printable_name(name),
                    facts.get("lag"),
                    _seconds_behind(facts),
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


def read_losses(sources: Iterable[Mapping[str, Any]]) -> GroupLosses | None:
    """Return the losses of the group-mode sources in a progress report; None if it has no such source."""
    ends = [_tree(source.get("endOffset")) for source in sources]
    counts = [(end["gone"], end["dead"]) for end in ends if end.get("mode") == "group"]
    if not counts:
        return None
    gone, dead = map(sum, zip(*counts, strict=True))
    return GroupLosses(gone, dead)


def read_ledger(sources: Iterable[Mapping[str, Any]]) -> LedgerLag | None:
    """Return the total lag of the ledgers in a progress report; None if it has none."""
    latest = [_tree(source.get("latestOffset")) for source in sources]
    found = [each for each in latest if each.get("mode") == "ledger"]
    if not found:
        return None
    seconds = [each["seconds_behind"] for each in found if each["seconds_behind"] is not None]
    return LedgerLag(sum(each["bytes_behind"] for each in found), max(seconds, default=None))


def _range_lag(name: str, at: Position, latest: Position | None) -> StreamLag:
    if latest is None or at.id >= latest.id:  # the key is gone, or all was read
        return StreamLag(name, 0, 0.0, at.gone)
    behind = None if at.added is None or latest.added is None else max(latest.added - at.added, 0)
    # Before the first entry was read there is no start time to count from.
    seconds = ((latest.id >> 64) - (at.id >> 64)) / 1000 if at.id else None
    return StreamLag(name, behind, seconds, at.gone)


def _seconds_behind(facts: Mapping[str, Any]) -> float | None:
    """Return the seconds between the last entry delivered and the last one added; None before the first delivery."""
    here, there = ids.parse(facts["last_delivered"]), ids.parse(facts["newest"])
    if here >= there:
        return 0.0
    return ((there >> 64) - (here >> 64)) / 1000 if here else None


def _tree(offset: Any) -> dict[str, Any]:
    """Parse an offset of a report: JSON text in Spark classic."""
    found = json.loads(offset) if isinstance(offset, str) and offset.startswith("{") else offset
    return found if isinstance(found, dict) else {}
