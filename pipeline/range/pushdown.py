"""Push-down: translate the filters of a query into bounds of ids and a choice of stream names.

Spark does not evaluate a filter again unless it is returned, so a filter is returned unless its bounds are exact.
``id`` is text, and as text 10-0 comes before 9-0. So Spark evaluates comparisons of ``id``; ``id_key`` and ``ts`` are
translated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource as spark  # whose filters came with 4.1

from ..redis import ids
from ..redis.key_names import printable_name
from ..source.entry_batches import LAST_MS

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

COLUMNS: Final = ("stream", "id", "id_key", "ts")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_WITH_A_TIME: Final = ids.from_ms(LAST_MS + 1) - 1


@dataclass(frozen=True)
class Narrowed:
    """The rows that a query can still want: ids from ``low`` to ``high``, both inclusive, of some streams."""

    low: int = 0
    high: int = ids.MAX_ID
    names: frozenset[str] | None = None  # the names of the streams; None: any
    prefixes: tuple[str, ...] = ()  # each of them must be a prefix of the name

    def wants(self, name: str) -> bool:
        """Return True if the query wants rows of this stream."""
        shown = printable_name(name)
        return (self.names is None or shown in self.names) and all(map(shown.startswith, self.prefixes))

    def within(self, low: int, high: int) -> Narrowed:
        """Return a copy with tighter bounds of ids."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))

    def among(self, names: Iterable[str]) -> Narrowed:
        """Return a copy restricted to streams with these names."""
        given = frozenset(names)
        return replace(self, names=given if self.names is None else self.names & given)


NOTHING: Final = (1, 0)  # bounds that no id is in


def narrow(filters: Iterable[Filter], columns: Mapping[str, str]) -> tuple[Narrowed, list[Filter]]:
    """Apply the filters of a query.

    Return the ids and streams that it can still want, and the filters left for Spark.
    ``columns``: the names of the rows' columns, mapped to the default names.
    """
    narrowed, left = Narrowed(), []
    for each in filters:
        path: Any = getattr(each, "attribute", ())
        column = columns.get(path[0]) if len(path) == 1 else None
        narrowed, is_exact = _narrow_by(narrowed, each, column) if column else (narrowed, False)
        if not is_exact:
            left.append(each)
    return narrowed, left


def _narrow_by(narrowed: Narrowed, each: Filter, column: str) -> tuple[Narrowed, bool]:
    """Apply one filter; return the narrowed ids and streams, and whether they are exact."""
    if isinstance(each, spark.IsNotNull):
        return (narrowed.within(0, _LAST_WITH_A_TIME) if column == "ts" else narrowed), True
    if column == "stream":
        return _by_stream(narrowed, each)
    if isinstance(each, spark.In):
        bounds = [_bounds(spark.EqualTo(each.attribute, value), column) for value in each.value]
        known = [found for found in bounds if found is not None]
        if len(known) < len(bounds) or not known:
            return narrowed, False
        return narrowed.within(min(low for low, _ in known), max(high for _, high in known)), False
    found = _bounds(each, column)
    return (narrowed, False) if found is None else (narrowed.within(*found), True)


def _by_stream(narrowed: Narrowed, each: Filter) -> tuple[Narrowed, bool]:
    if isinstance(each, spark.EqualTo) and isinstance(each.value, str):
        return narrowed.among([each.value]), True
    if isinstance(each, spark.In) and all(isinstance(value, str) for value in each.value):
        return narrowed.among(each.value), True
    if isinstance(each, spark.StringStartsWith):
        return replace(narrowed, prefixes=(*narrowed.prefixes, each.value)), True
    return narrowed, False


def _bounds(each: Filter, column: str) -> tuple[int, int] | None:
    """Return the smallest and the greatest id that satisfy a comparison; None if they cannot be derived."""
    value: Any = getattr(each, "value", None)
    if column == "id" and isinstance(each, spark.EqualTo) and isinstance(value, str):
        try:
            stream_id = ids.parse(value)
        except ValueError:
            return NOTHING
        return (stream_id, stream_id) if ids.text(stream_id) == value else NOTHING
    if column == "id_key" and isinstance(value, (bytes, bytearray)) and len(value) == ids.KEY_BYTES:
        first = ids.from_key(bytes(value))
        return _compared(each, first, first + 1)
    if column == "ts" and isinstance(value, datetime) and value.tzinfo is not None:
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        # The first id of the moment's millisecond, and of the next millisecond; equal if the moment begins a
        # millisecond.
        ms, is_whole = micros // 1000, micros % 1000 == 0
        if not is_whole and isinstance(each, spark.EqualTo):
            return NOTHING
        found = _compared(each, ids.from_ms(ms if is_whole else ms + 1), ids.from_ms(ms + 1))
        return None if found is None else (found[0], min(found[1], _LAST_WITH_A_TIME))
    return None


def _compared(each: Filter, first: int, after: int) -> tuple[int, int] | None:
    """Return the first and the last id that pass a filter; its value stands for the ids from ``first`` to ``after - 1``."""
    if isinstance(each, spark.EqualTo):
        return first, after - 1
    if isinstance(each, spark.GreaterThan):
        return after, ids.MAX_ID
    if isinstance(each, spark.GreaterThanOrEqual):
        return first, ids.MAX_ID
    if isinstance(each, spark.LessThan):
        return 0, first - 1
    if isinstance(each, spark.LessThanOrEqual):
        return 0, after - 1
    return None
