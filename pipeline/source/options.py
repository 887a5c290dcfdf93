"""The options of the source ``redis-streams``: common ones, and those of range mode for batches and for streams."""

# ruff: noqa: RUF009 - option() and part() return fields

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from .. import times
from ..redis import ids
from ..redis.connection import Connection
from ..redis.options import (
    FLAG,
    Endpoint,
    Kind,
    Option,
    OptionError,
    Options,
    number,
    option,
    part,
    records,
    words,
)
from ..redis.shards import scan
from .entry_batches import ColumnOptions

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@dataclass(frozen=True)
class Bounds:
    """The option for the start or the end of reading: one bound for all streams, or one for each stream."""

    everywhere: int | str | None
    each: tuple[tuple[str, int | str], ...] = ()

    def of(self, name: str) -> int | str:
        """Return the bound of a stream.

        Raises OptionError: the bounds are given by stream, and this stream has none.
        """
        for stream, bound in self.each:
            if stream == name:
                return bound
        if self.everywhere is None:
            raise OptionError(f"stream {name!r} is missing in the offsets given by stream")
        return self.everywhere

    def later(self, name: str) -> int | str:
        """Return the bound of a stream that appears during the query: its beginning, unless an id or a time is given."""
        bound = dict(self.each).get(name, self.everywhere)
        return bound if isinstance(bound, int) else EARLIEST


# The kinds of options that only the source has


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None


def _streams(text: str) -> tuple[str, ...]:
    names = _json(text) if text.startswith("[") else [each.strip() for each in text.split(",")]
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names) or not names:
        raise ValueError(f"takes names with commas between them or a JSON list, not {text!r}")
    return tuple(dict.fromkeys(names))


def expression(text: str) -> str:
    """Return a regular expression as it was given; raise ValueError if it is none."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


def _before(text: str) -> int:
    """Return the last id before a moment: reading starts after it, or ends with it."""
    try:
        return max(ids.from_ms(times.parse_time(text)) - 1, 0)
    except ValueError:
        raise ValueError(f"takes milliseconds since 1970 or an ISO time, not {text!r}") from None


def _before_by_stream(text: str) -> Bounds:
    tree = _json(text)
    if isinstance(tree, dict):
        return Bounds(None, tuple((stream, _before(str(word))) for stream, word in tree.items()))
    raise ValueError(f"takes JSON of times by stream, not {text!r}")


def _offsets(default_seq: int) -> Kind:
    """Return the option kind for IDs; ``default_seq`` completes an ID without a sequence number."""

    def bound(text: str) -> int | str:
        if text.lower() in {EARLIEST, LATEST}:
            return text.lower()
        try:
            return ids.parse(text, default_seq)
        except ValueError:
            raise ValueError(f"takes earliest, latest, an id or JSON by stream, not {text!r}") from None

    def parse(text: str) -> Bounds:
        if text.lstrip().startswith("{"):
            return Bounds(None, tuple((stream, bound(str(word))) for stream, word in _json(text).items()))
        return Bounds(bound(text))

    return Kind("id", parse)


def _duration(text: str) -> float:
    """Return seconds of ``"500ms"``, ``"10s"``, ``"15m"``, ``"1h"``, ``"1d"``; a bare number is milliseconds."""
    try:
        return times.parse_duration(text, as_option=True) / 1000
    except ValueError:
        raise ValueError(f"takes a duration such as 500ms, 10s or 15m, not {text!r}") from None


STARTS: Final = _offsets(0)
_START_MEANING: Final = "`earliest`, `latest`, an id, or JSON by stream: reading begins after it"
_MOMENT: Final = Kind("ms or ISO 8601", lambda text: Bounds(_before(text)))
_MOMENTS: Final = Kind("JSON", _before_by_stream)
MODE: Final = Option("mode", words("range", "group"), "range", "read by ids, or as a consumer of a group")


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options that every way of reading has; pickled into every task."""

    MORE: ClassVar = (MODE,)

    endpoint: Endpoint = part(Endpoint)
    columns: ColumnOptions = part(ColumnOptions)
    streams: tuple[str, ...] = option(
        "streams", Kind("names", _streams), None,
        "with commas between them, or a JSON list; `load(name)` says the same", kafka="subscribe",
    )  # fmt: skip
    streams_pattern: str | None = option("streamsPattern", Kind("glob"), None, "all streams that match")
    subscribe_pattern: str | None = option(
        "subscribePattern",
        Kind("regular expression", expression),
        None,
        "all streams whose whole name matches",
    )
    starting_offsets: Bounds | None = option("startingOffsets", STARTS, LATEST, _START_MEANING)
    starting_timestamp: Bounds | None = option(
        "startingTimestamp", _MOMENT, None, "reading begins with this moment", excludes=("startingOffsets",)
    )
    starting_by_timestamp: Bounds | None = option(
        "startingOffsetsByTimestamp", _MOMENTS, None, "moments by stream",
        excludes=("startingOffsets", "startingTimestamp"),
    )  # fmt: skip
    fetch_size: int = option("fetchSize", number("entries", 1), 1000, "in one reply")
    min_partitions: int = option(
        "minPartitions", number("tasks", 1), 1, "the least, if there is enough to read"
    )
    max_rows_per_partition: int = option(
        "maxRowsPerPartition", number("rows", 1), 100_000, "the most that a task reads"
    )
    max_bytes_per_partition: int | None = option(
        "maxBytesPerPartition", number("bytes", 1), None,
        "about the most that a task reads, by the length of eight entries of each stream; in group mode whole replies",
    )  # fmt: skip
    fail_on_data_loss: bool = option(
        "failOnDataLoss", FLAG, True,
        "stop when entries are gone unread, or a stream is another one; else report it and go on",
    )  # fmt: skip

    @classmethod
    def of(cls, options: Options | Mapping[str, str]) -> Self:
        """Read the options of the source.

        Raises OptionError: one is missing, malformed or unknown, or contradicts another.
        """
        given = Options(options)
        if not list(given):
            raise OptionError(
                "no option has arrived. Spark drops the OPTIONS of CREATE TABLE for sources in Python: use CREATE TEMPORARY VIEW … USING "
                "`redis-streams` OPTIONS (…), or SELECT … FROM t WITH (…); elsewhere, give 'streams', 'streamsPattern' or 'subscribePattern'"
            )
        given.refuse_unknown(cls)
        values = given.read(cls)
        path = given.text("path")
        if values["streams"] is None and path:
            values["streams"] = records(cls)["streams"].parse(path)
        if sum(values[name] is not None for name in ("streams", "streams_pattern", "subscribe_pattern")) != 1:
            raise OptionError(
                "give one of the options 'streams', 'streamsPattern' (a glob) and 'subscribePattern'"
            )
        found = cls(**values | {"streams": values["streams"] or ()})
        found._refuse_contradictions()
        return found

    def _refuse_contradictions(self) -> None:
        """Refuse values that go together in no way."""

    @property
    def pattern(self) -> str | None:
        """A glob or a regular expression; None if ``streams`` names the streams."""
        return self.subscribe_pattern or self.streams_pattern

    @property
    def start(self) -> Bounds:
        """The id *after* which reading of each stream begins."""
        found = self.starting_timestamp or self.starting_by_timestamp or self.starting_offsets
        assert found is not None
        return found

    def names(self, connection: Connection) -> list[str]:
        """Return the streams to read, sorted: the named ones, or the existing ones that match the pattern."""
        if self.streams_pattern is not None:
            return scan(connection, self.streams_pattern)
        if self.subscribe_pattern is None:
            return list(self.streams)
        pattern = re.compile(self.subscribe_pattern)
        return [name for name in scan(connection, "*") if pattern.fullmatch(name)]


@dataclass(frozen=True, kw_only=True)
class BatchOptions(SourceOptions):
    """The options of ``spark.read``."""

    starting_offsets: Bounds = option("startingOffsets", STARTS, EARLIEST, _START_MEANING)
    ending_offsets: Bounds = option(
        "endingOffsets",
        _offsets(ids.MAX_U64),
        LATEST,
        "`latest`, an id, or JSON by stream: reading ends with it",
    )
    ending_timestamp: Bounds | None = option(
        "endingTimestamp", _MOMENT, None, "reading ends before this moment", excludes=("endingOffsets",)
    )
    ending_by_timestamp: Bounds | None = option(
        "endingOffsetsByTimestamp", _MOMENTS, None, "moments by stream",
        excludes=("endingOffsets", "endingTimestamp"),
    )  # fmt: skip
    push_filters: bool = option(
        "pushFilters", FLAG, False, "read no more than `where` asks for: of a frame that one query uses, once"
    )

    @property
    def end(self) -> Bounds:
        """The last id to read of each stream."""
        return self.ending_timestamp or self.ending_by_timestamp or self.ending_offsets


@dataclass(frozen=True, kw_only=True)
class TriggerOptions(SourceOptions):
    """The options of ``spark.readStream`` in both modes."""

    max_rows: int | None = option(
        "maxRowsPerTrigger",
        number("rows", 1),
        None,
        "the most in a micro-batch",
        kafka="maxOffsetsPerTrigger",
    )
    max_bytes: int | None = option(
        "maxBytesPerTrigger", number("bytes", 1), None, "the most in a micro-batch"
    )
    discovery_ms: int = option(
        "discoveryIntervalMs", number("ms"), 10_000, "between two look-ups of a pattern"
    )


@dataclass(frozen=True, kw_only=True)
class RangeStreamOptions(TriggerOptions):
    """The options of ``spark.readStream`` in range mode."""

    min_rows: int | None = option(
        "minRowsPerTrigger",
        number("rows", 1),
        None,
        "a micro-batch waits for so many",
        kafka="minOffsetsPerTrigger",
    )
    max_delay_seconds: float = option(
        "maxTriggerDelay", Kind("duration", _duration), "15m",
        "the longest wait for `minRowsPerTrigger`: `500ms`, `10s`, `15m`, `1h`, `1d`", needs=("minRowsPerTrigger",),
    )  # fmt: skip

    def _refuse_contradictions(self) -> None:
        if self.max_rows is not None and self.min_rows is not None and self.min_rows > self.max_rows:
            raise OptionError("option 'minRowsPerTrigger' is more than 'maxRowsPerTrigger'")
