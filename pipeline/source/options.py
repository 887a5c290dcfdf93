"""The options of the source ``redis-streams`` in range mode: which streams, from where to where, how much at a time."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .. import times
from ..redis import ids
from ..redis.options import ENDPOINT_NAMES, Endpoint, OptionError, Options
from ..redis.shards import scan
from .entry_batches import COLUMN_OPTIONS, ColumnOptions

if TYPE_CHECKING:
    from ..redis.connection import Connection

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

# Kafka's names, where the meaning is the same. A pattern of Kafka's is a regular expression, ours is a glob.
ALIASES: Final = {
    "subscribe": "streams",
    "maxOffsetsPerTrigger": "maxRowsPerTrigger",
    "minOffsetsPerTrigger": "minRowsPerTrigger",
}
BOTH_NAMES: Final = (
    *ENDPOINT_NAMES, *COLUMN_OPTIONS, "mode", "streams", "streamsPattern", "subscribePattern",
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "fetchSize", "minPartitions", "maxRowsPerPartition", "failOnDataLoss",
)  # fmt: skip
BATCH_NAMES: Final = (*BOTH_NAMES, "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_NAMES: Final = (
    *BOTH_NAMES, "maxRowsPerTrigger", "maxBytesPerTrigger", "minRowsPerTrigger", "maxTriggerDelay",
    "discoveryIntervalMs",
)  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """Where to begin or end: one word or id for all streams, or one for each."""

    everywhere: int | str | None
    each: tuple[tuple[str, int | str], ...] = ()

    def of(self, name: str) -> int | str:
        """Return the bound of a stream.

        Raises:
            OptionError: bounds are given stream by stream, and none for this one.
        """
        for stream, bound in self.each:
            if stream == name:
                return bound
        if self.everywhere is None:
            raise OptionError(f"stream {name!r} is missing in the offsets given by stream")
        return self.everywhere

    def later(self, name: str) -> int | str:
        """Return the bound of a stream found later: all of it is new, unless an id or a time is given."""
        bound = dict(self.each).get(name, self.everywhere)
        return bound if isinstance(bound, int) else EARLIEST


@dataclass(frozen=True)
class SourceOptions:
    """Everything a reader needs to know; pickles into every task."""

    endpoint: Endpoint
    columns: ColumnOptions
    streams: tuple[str, ...]
    pattern: str | None
    start: Bounds
    end: Bounds
    fetch_size: int
    min_partitions: int
    max_rows_per_partition: int
    fail_on_data_loss: bool
    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_delay_seconds: float = 900.0
    discovery_seconds: float = 10.0

    @classmethod
    def of(cls, given: Options, *, streaming: bool) -> SourceOptions:
        """Read them.

        Raises:
            OptionError: one is missing, malformed, unknown, or contradicts another.
        """
        given = given.renamed(ALIASES)
        given.refuse_unknown(STREAM_NAMES if streaming else BATCH_NAMES)
        streams, pattern = read_streams(given)
        found = cls(
            endpoint=Endpoint.of(given),
            columns=ColumnOptions.of(given),
            streams=streams,
            pattern=pattern,
            start=read_bounds(given, "starting", LATEST if streaming else EARLIEST),
            end=read_bounds(given, "ending", LATEST),
            fetch_size=given.number("fetchSize", 1000, least=1),
            min_partitions=given.number("minPartitions", 1, least=1),
            max_rows_per_partition=given.number("maxRowsPerPartition", 100_000, least=1),
            fail_on_data_loss=given.flag("failOnDataLoss", default=True),
            max_rows=given.number("maxRowsPerTrigger", least=1),
            max_bytes=given.number("maxBytesPerTrigger", least=1),
            min_rows=given.number("minRowsPerTrigger", least=1),
            max_delay_seconds=parse_duration(given, "maxTriggerDelay", "15m"),
            discovery_seconds=read_discovery(given),
        )
        if found.max_rows is not None and found.min_rows is not None and found.min_rows > found.max_rows:
            raise OptionError("option 'minRowsPerTrigger' is more than 'maxRowsPerTrigger'")
        if "maxTriggerDelay" in given and found.min_rows is None:
            raise OptionError("option 'maxTriggerDelay' needs 'minRowsPerTrigger'")
        return found

    def names(self, connection: Connection) -> list[str]:
        """Return the streams to read: those named, or those there are now that match the pattern."""
        return list(self.streams) if self.pattern is None else find_streams(connection, self.pattern)


def read_streams(given: Options) -> tuple[tuple[str, ...], str | None]:
    """Return the names of ``streams`` (comma-separated, or a JSON list) or of ``load(name)``; else a pattern.

    Raises:
        OptionError: neither or both are given.
    """
    word = given.text("streams") or given.text("path")
    pattern, expression = given.text("streamsPattern"), given.text("subscribePattern")
    if not list(given):
        raise OptionError(
            "no option has arrived. Spark drops the OPTIONS of CREATE TABLE for sources in Python: use CREATE TEMPORARY VIEW … USING "
            "`redis-streams` OPTIONS (…), or SELECT … FROM t WITH (…); elsewhere, give 'streams', 'streamsPattern' or 'subscribePattern'"
        )
    if sum(each is not None for each in (word, pattern, expression)) != 1:
        raise OptionError(
            "give one of the options 'streams', 'streamsPattern' (a glob) and 'subscribePattern'"
        )
    if expression is not None:
        return (), _expression(expression)
    if word is None:
        return (), pattern
    names = _json(word, "streams") if word.startswith("[") else [each.strip() for each in word.split(",")]
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names) or not names:
        raise OptionError(
            f"option 'streams' takes names with commas between them or a JSON list, not {word!r}"
        )
    return tuple(dict.fromkeys(names)), None


def read_discovery(given: Options) -> float:
    """Return after how many seconds a pattern is looked up again.

    Raises:
        OptionError: ``discoveryIntervalMs`` is no number.
    """
    return given.number("discoveryIntervalMs", 10_000) / 1000


class NameExpression(str):
    """A regular expression over whole names of streams, where a plain string is a glob."""

    __slots__ = ()


def find_streams(connection: Connection, pattern: str) -> list[str]:
    """Return the streams that match a pattern, in order of their names."""
    if not isinstance(pattern, NameExpression):
        return scan(connection, pattern)
    expression = re.compile(pattern)
    return [name for name in scan(connection, "*") if expression.fullmatch(name)]


def parse_duration(given: Options, name: str, default: str) -> float:
    """Return seconds of ``"500ms"``, ``"10s"``, ``"15m"``, ``"1h"``, ``"1d"``; a bare number is milliseconds.

    Raises:
        OptionError: it is none of these.
    """
    value = given.text(name, default) or ""
    try:
        return times.parse_duration(value, as_option=True) / 1000
    except ValueError:
        raise OptionError(
            f"option {name!r} takes a duration such as 500ms, 10s or 15m, not {value!r}"
        ) from None


def read_bounds(given: Options, which: str, default: str) -> Bounds:
    """Read ``<which>Offsets`` or ``<which>Timestamp``: a start is the id *after* which reading begins, an end the last one."""
    offsets, timestamp = given.text(f"{which}Offsets"), given.text(f"{which}Timestamp")
    by_name = f"{which}OffsetsByTimestamp"
    by_timestamp = given.text(by_name)
    if sum(bool(each) for each in (offsets, timestamp, by_timestamp)) > 1:
        raise OptionError(f"give one of the options '{which}Offsets', '{which}Timestamp' and {by_name!r}")
    if timestamp:
        return Bounds(_before(timestamp, f"{which}Timestamp"))
    if by_timestamp:
        tree = _json(by_timestamp, by_name)
        if not isinstance(tree, dict):
            raise OptionError(f"option {by_name!r} takes JSON of times by stream, not {by_timestamp!r}")
        return Bounds(None, tuple((stream, _before(str(word), by_name)) for stream, word in tree.items()))
    name = f"{which}Offsets"
    if offsets and offsets.lstrip().startswith("{"):
        tree = _json(offsets, name)
        return Bounds(None, tuple((stream, _bound(str(word), name)) for stream, word in tree.items()))
    return Bounds(_bound(offsets or default, name))


def _expression(word: str) -> NameExpression:
    try:
        re.compile(word)
    except re.error as error:
        raise OptionError(f"option 'subscribePattern' is no regular expression: {error}") from None
    return NameExpression(word)


def _before(word: str, name: str) -> int:
    """Return the last id before a moment: from the first entry of it on, or up to the last one before it."""
    return max(ids.from_ms(_moment(word, name)) - 1, 0)


def _bound(word: str, name: str) -> int | str:
    if word.lower() in {EARLIEST, LATEST}:
        return word.lower()
    try:
        return ids.parse(word, ids.MAX_U64 if name == "endingOffsets" else 0)
    except ValueError:
        raise OptionError(
            f"option {name!r} takes earliest, latest, an id or JSON by stream, not {word!r}"
        ) from None


def _moment(word: str, name: str) -> int:
    try:
        return times.parse_time(word)
    except ValueError:
        raise OptionError(
            f"option {name!r} takes milliseconds since 1970 or an ISO time, not {word!r}"
        ) from None


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"option {name!r} is not valid JSON: {error}") from None
