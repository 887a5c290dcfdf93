"""The options for writing to streams, checked against the columns of the rows."""

# ruff: noqa: RUF009 - option() and part() return fields

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Literal

from ...protocol.key_slots import key_slot
from ..redis import ids
from ..redis.key_names import key_of
from ..redis.options import FLAG, Endpoint, Kind, OptionError, Options, number, option, part, words
from ..source.values import unsupported

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Delivery = Literal["exactly-once", "at-least-once", "idmp"]
NullPolicy = Literal["skip", "empty", "fail"]
OldIds = Literal["check", "skip"]


def _parse_min_id(text: str) -> int:
    try:
        return ids.parse(text)
    except ValueError as error:
        raise ValueError(f"takes an ID: {error}") from None


def _parse_wait(text: str) -> tuple[int, bool]:
    replicas, aof = 0, False
    for each in text.lower().replace(" ", "").split(","):
        found = re.fullmatch(r"replicas:([1-9]\d{0,8})", each)
        if found is None and each != "aof":
            raise ValueError(f"takes replicas:<number>, aof, or both with a comma between them; not {text!r}")
        replicas, aof = (int(found[1]), aof) if found else (replicas, True)
    return replicas, aof


@dataclass(frozen=True, kw_only=True)
class SinkOptions:
    """How rows become entries and are delivered; pickled into every task."""

    endpoint: Endpoint = part(Endpoint)
    stream: str | None = option("stream", Kind("name"), None, "the stream of all rows")
    stream_column: str | None = option(
        "streamColumn", Kind("column"), "stream", "names the stream of each row, where `stream` does not",
        excludes=("stream",),
    )  # fmt: skip
    id_column: str | None = option(
        "idColumn", Kind("column"), None, "has the IDs of the entries; else the server gives them"
    )
    fields_column: str | None = option(
        "fieldsColumn", Kind("column"), None,
        "an array of name and value, or a map, that is the entry; else each column is a field",
    )  # fmt: skip
    delivery: Delivery = option(
        "delivery", words("exactly-once", "at-least-once", "idmp"), "exactly-once",
        "a transaction and a marker per batch, plain XADD, or XADD IDMP",
    )  # fmt: skip
    max_len: int | None = option("maxLen", number("entries"), None, "trim the stream while adding")
    min_id: int | None = option(
        "minId", Kind("id", _parse_min_id), None, "trim the stream while adding", excludes=("maxLen",)
    )
    approximate: bool = option(
        "approximate", FLAG, True, "trim whole macro nodes only (`~`)", needs=("maxLen", "minId")
    )
    null_policy: NullPolicy = option(
        "nullPolicy",
        words("skip", "empty", "fail"),
        "skip",
        "leave a null out, write an empty string, or refuse it",
    )
    chunk_rows: int = option(
        "chunkRows", number("rows"), 10_000, "the most in one transaction or request; 0: the whole batch"
    )
    inline_bytes: int = option(
        "inlineBytes", number("bytes"), 1 << 20,
        "of a task that go through the driver; beyond, rows are staged in the server",
    )  # fmt: skip
    staging_ttl_ms: int = option(
        "stagingTtlMs", number("ms", 1), 3_600_000, "how long staged rows live unpublished"
    )
    old_ids: OldIds = option(
        "oldIds", words("check", "skip"), "check",
        "an ID that is not above the last one counts as written if it is there, or always",
    )  # fmt: skip
    marker: str | None = option(
        "marker", Kind("key"), None, "of the exactly-once marker, instead of one made of stream and query"
    )
    write_id: str | None = option(
        "writeId", Kind("text"), None, "a batch write repeated with the same one happens once"
    )
    write_number: int | None = option(
        "writeNumber", number(), None,
        "with `writeId`: the number of the write, which rises; all writes share one marker", needs=("writeId",),
    )  # fmt: skip
    marker_ttl_ms: int | None = option(
        "markerTtlMs",
        number("ms", 1),
        None,
        "with `writeId`: how long the marker lives; without it, for ever",
        needs=("writeId",),
    )
    producer: str | None = option(
        "producer", Kind("name"), None, "IDMP's producer, instead of one made of the query",
        needs=("delivery=idmp",),
    )  # fmt: skip
    fail_on_data_loss: bool = option(
        "failOnDataLoss", FLAG, True,
        "stop when the target has lost published batches; else report it and go on",
    )  # fmt: skip
    wait: tuple[int, bool] | None = option(
        "wait", Kind("words", _parse_wait), None,
        "`replicas:<number>`, `aof`, or both with a comma: a batch is done when they have it",
    )  # fmt: skip
    wait_timeout_ms: int = option(
        "waitTimeoutMs", number("ms", 1), 10_000, "the longest `wait`; then the query fails", needs=("wait",)
    )
    overwrite: bool = False

    @classmethod
    def of(cls, given: Options | Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
        """Read the options for rows of a schema.

        Raises OptionError: an option is unknown or malformed, names a missing column, or contradicts another.
        """
        options = Options(given)
        options.refuse_unknown(cls)
        values = options.read(cls)
        if values["stream"] is not None:
            values["stream_column"] = None
        if values["fields_column"] is None and _holds_fields(schema, "fields"):
            values["fields_column"] = "fields"
        result = cls(**values, overwrite=overwrite)
        result._refuse_contradictions(schema)
        return result

    @property
    def trim(self) -> tuple[str, ...]:
        """The trim words that follow XADD's key, such as ``("MAXLEN", "~", "1000")``."""
        sign = "~" if self.approximate else "="
        if self.min_id is not None:
            return ("MINID", sign, ids.text(self.min_id))
        return () if self.max_len is None else ("MAXLEN", sign, str(self.max_len))

    @property
    def wait_commands(self) -> list[tuple[str | int, ...]]:
        """WAIT and WAITAOF, as the option asks; send them after the writes, on the same connection."""
        replicas, aof = self.wait or (0, False)
        wait = ("WAIT", replicas, self.wait_timeout_ms), ("WAITAOF", 1, 0, self.wait_timeout_ms)
        return list(compress(wait, (replicas, aof)))

    def _refuse_contradictions(self, schema: StructType) -> None:
        if self.wait and self.wait_timeout_ms >= self.endpoint.timeout_ms:
            raise OptionError(
                f"option 'waitTimeoutMs' ({self.wait_timeout_ms}) is to be less than 'timeoutMs' "
                f"({self.endpoint.timeout_ms}), the time for a reply"
            )
        columns = set(schema.fieldNames())
        for field in schema.fields:
            if (found := unsupported(field.dataType)) is not None:
                raise OptionError(
                    f"column {field.name!r} has {found.simpleString()!r} values, which no entry can hold: cast them to STRING, or "
                    "see to_json"
                )
        if self.stream_column and self.stream_column not in columns:
            raise OptionError(
                f"where do rows go? Give option 'stream', or a column {self.stream_column!r} (columns: "
                f"{', '.join(schema.fieldNames()) or 'none'})"
            )
        for name, column in (("idColumn", self.id_column), ("fieldsColumn", self.fields_column)):
            if column and column not in columns:
                raise OptionError(f"option {name!r} names {column!r}, which is no column of the rows")
        if self.fields_column and not _holds_fields(schema, self.fields_column):
            raise OptionError(
                f"column {self.fields_column!r} is no array of structs of a name and a value, nor a map"
            )
        if not self.fields_column and not columns - {self.stream_column, self.id_column}:
            raise OptionError("no column is left to be a field of the entries")
        self._refuse_other_slots()
        if self.overwrite:
            if not self.stream or self.delivery != "exactly-once":
                raise OptionError(
                    "overwriting needs option 'stream' and delivery=exactly-once: the old entries go when the new come"
                )
            if self.id_column:
                raise OptionError(
                    "overwriting keeps the stream's last id, so that explicit ids could not be written: delete the "
                    "stream and append"
                )

    def _refuse_other_slots(self) -> None:
        """Refuse streams in another slot than the marker: a transaction of a cluster has one slot, and includes the marker."""
        if self.endpoint.kind != "cluster" or self.delivery != "exactly-once":
            return
        if self.stream is None and self.marker is None:
            raise OptionError(
                "exactly once into several streams of a cluster, these are to be in one hash slot: give all of them one hash "
                "tag, and option 'marker', too (streams {shop}:orders, {shop}:bills; marker {shop}:marker); or use "
                "delivery=at-least-once"
            )
        if self.stream is not None and self.marker is not None and not self.is_in_marker_slot(self.stream):
            raise OptionError(
                f"option 'marker' ({self.marker}) is to be in the hash slot of stream {self.stream!r}, by the same hash tag"
            )

    def is_in_marker_slot(self, stream: str) -> bool:
        """Return True if one transaction of a cluster can write a stream and the given marker."""
        return self.marker is None or key_slot(key_of(stream)) == key_slot(key_of(self.marker))


def _holds_fields(schema: StructType, name: str) -> bool:
    """Return True if a column is a map, or an array of structs with two members."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if name not in schema.fieldNames():
        return False
    kind = schema[name].dataType
    if isinstance(kind, MapType):
        parts = [kind.keyType, kind.valueType]
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        parts = [field.dataType for field in kind.elementType.fields]
    else:
        return False
    return len(parts) == 2 and all(isinstance(part, (StringType, BinaryType)) for part in parts)
