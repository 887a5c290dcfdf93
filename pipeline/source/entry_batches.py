"""Convert entries to Arrow batches with the default columns, or with a user's schema whose columns are entry fields.

A schema may always use the metadata columns ``stream``, ``id``, ``id_key`` (16 bytes that sort like ids), ``ts`` (null
after the year 9999), ``seq``, and ``fields`` (all fields in order, with duplicates). Any other column is the field of
that name; if an entry repeats it, the last value counts. ``metadataPrefix`` renames the metadata columns if fields
have the same names. ``parseMode`` decides what happens to a value that does not fit its column.
"""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..error_tokens import LabelledError
from ..redis.key_names import printable_name
from ..redis.options import Kind, OptionError, Options, option, words
from .values import (
    ISO,
    TIME_FORMATS,
    UnsupportedTypeError,
    decode_json,
    needs_exact,
    parse_json,
    parse_texts,
    text_array,
    unsupported,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_FIELDS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
METADATA: Final[dict[str, pa.DataType]] = {
    "stream": pa.string(),
    "id": pa.string(),
    "id_key": pa.binary(),
    "ts": pa.timestamp("us", "UTC"),
    "seq": pa.decimal128(20, 0),
    "fields": _FIELDS,
}
LAST_MS: Final = 253_402_300_799_999  # of the year 9999, which Python's datetime ends with


class MalformedEntryError(LabelledError, ValueError):
    """A value does not fit its column, and parseMode is FAILFAST."""

    label = "MALFORMED_ENTRY"


@dataclass(frozen=True)
class ColumnOptions:
    """How entries become rows; pickled into every task."""

    parse_mode: str = option(
        "parseMode", words("PERMISSIVE", "FAILFAST", "DROPMALFORMED"), "PERMISSIVE",
        "what happens to a value that does not fit its column: null, stop, or leave the row out",
    )  # fmt: skip
    corrupt_column: str = option(
        "columnNameOfCorruptRecord",
        Kind("name"),
        "_corrupt_record",
        "the column that gets the entry if a value does not fit",
    )
    value_format: str = option(
        "valueFormat", words("fields", "json"), "fields",
        "where the columns are: in fields of the entry, or in JSON within one field",
    )  # fmt: skip
    value_field: str = option(
        "valueField", Kind("name"), "value", "the field with the JSON", needs=("valueFormat=json",)
    )
    prefix: str = option("metadataPrefix", Kind("text"), "", "before the names of Rillet's own columns")
    times: str = option(
        "timestampFormat",
        words(*TIME_FORMATS),
        ISO,
        "of fields in timestamp columns; numbers count from 1970",
    )

    @classmethod
    def of(cls, options: Options | Mapping[str, str]) -> ColumnOptions:
        """Read the column options from the options of a source."""
        return cls(**Options(options).read(cls))


def default_schema(prefix: str = "", extra: Mapping[str, DataType] | None = None) -> StructType:
    """Return the schema of a source without a user's schema; ``extra`` columns come last."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for name, kind in (spark_types(METADATA) | dict(extra or {})).items():
        schema.add(prefix + name, kind)
    return schema


def spark_types(columns: Mapping[str, pa.DataType]) -> dict[str, DataType]:
    """Return the Spark type of each of these columns."""
    from pyspark.sql.pandas.types import from_arrow_type

    return {name: from_arrow_type(kind) for name, kind in columns.items()}


def session_zone() -> str:
    """Return the time zone of this task's session; sessions of Rillet always pass it (see `sessions.register`)."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.getLocalProperty("spark.sql.session.timeZone") if context else None) or "UTC"


class Columns:
    """Turns entries of one schema into batches; made once per task, as Arrow types do not belong in a pickle.

    Args:
        options: see there.
        extra: names and types of columns that the caller hands to ``batch``.
        zone: of the session, for times that name none.

    Raises:
        OptionError: a column cannot be had in the type asked for, or is there twice.
        UnsupportedTypeError: nothing is read as a column's type.
    """

    def __init__(
        self,
        schema: StructType,
        options: ColumnOptions,
        extra: Mapping[str, pa.DataType] | None = None,
        zone: str = "UTC",
    ) -> None:
        from ..spark_versions import arrow_schema

        for field in schema.fields:
            if schema.names.count(field.name) > 1:
                raise OptionError(
                    f"the schema has several columns {field.name!r}: an entry's field is one column"
                )
            if (found := unsupported(field.dataType)) is not None:
                raise UnsupportedTypeError(
                    f"column {field.name!r}: entries cannot be read as {found.simpleString()}; read it as STRING, and convert that"
                )
        self._options = options
        self._zone = zone
        self._schema: pa.Schema = arrow_schema(schema)
        known = METADATA | dict(extra or {})
        self._metadata: dict[str, str] = {}
        self._values: list[str] = []
        for column in self._schema:
            name = column.name.removeprefix(options.prefix)
            if column.name.startswith(options.prefix) and name in known:
                _check_type(column, known[name], is_fields=name == "fields")
                self._metadata[column.name] = name
            elif column.name == options.corrupt_column:
                _check_type(column, pa.string())
            else:
                if not column.nullable:
                    raise OptionError(
                        f"column {column.name!r} must be nullable: not every entry has every field"
                    )
                self._values.append(column.name)
        self._exact = any(needs_exact(self._schema.field(name).type) for name in self._values)
        self.batch([], [], {name: [] for name in extra or {}})  # an unsupported type fails here

    def batch(
        self,
        streams: Sequence[tuple[str, int]],
        entries: Sequence[Any],
        extra: Mapping[str, Sequence[Any]] | None = None,
    ) -> pa.RecordBatch:
        """Convert entries to one batch of rows.

        Raises MalformedEntryError: a value does not fit, and parseMode is FAILFAST.

        Args:
            streams: names of streams with their numbers of entries, in order.
            entries: ``[id, [field, value, …]]`` as XRANGE returns them.
            extra: values of the extra columns, one for each entry.
        """
        words = [entry[0] for entry in entries]
        rows = [entry[1] for entry in entries]
        columns: dict[str, pa.Array] = {}
        if any(name in self._metadata.values() for name in ("id_key", "ts", "seq")):
            numbers = _numbers(words)
        for column, name in self._metadata.items():
            kind = self._schema.field(column).type
            if name == "stream":
                columns[column] = _names(streams, kind)
            elif name == "id":
                columns[column] = pa.array(words, kind)
            elif name == "id_key":
                columns[column] = _keys(numbers)
            elif name == "ts":
                columns[column] = _times(numbers)
            elif name == "seq":
                columns[column] = pc.list_element(numbers, 1).cast(kind)
            elif name == "fields":
                columns[column] = _fields(rows, kind)
            else:
                columns[column] = pa.array((extra or {})[name], kind)
        bad = self._add_values(columns, words, rows) if self._values else set()
        if self._options.corrupt_column in self._schema.names:
            columns[self._options.corrupt_column] = pa.array(
                [self._raw(row) if index in bad else None for index, row in enumerate(rows)], pa.string()
            )
        found = pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )
        if bad and self._options.parse_mode == "DROPMALFORMED":
            return found.filter(pa.array(index not in bad for index in range(len(rows))))
        return found

    def _add_values(
        self, columns: dict[str, pa.Array], words: list[bytes], rows: list[list[bytes]]
    ) -> set[int]:
        """Add the columns that are fields; return the indices of rows with a value that does not fit."""
        bad: set[int] = set()
        if self._options.value_format == "json":
            documents, malformed = self._documents(rows)
            bad.update(malformed)
            self._fail(words, malformed, self._options.value_field)
        else:
            find = _field_finder(rows)
        for name in self._values:
            kind = self._schema.field(name).type
            if self._options.value_format == "json":
                values = [document.get(name) for document in documents]
                columns[name], wrong = parse_json(values, kind, self._options.times, self._zone)
            else:
                columns[name], wrong = parse_texts(find(name.encode()), kind, self._options.times, self._zone)
            self._fail(words, wrong, name)
            bad.update(wrong)
        return bad

    def _documents(self, rows: list[list[bytes]]) -> tuple[list[dict[str, Any]], list[int]]:
        documents: list[dict[str, Any]] = []
        bad: list[int] = []
        for index, text in enumerate(_field_finder(rows)(self._options.value_field.encode())):
            try:
                document = None if text is None else decode_json(text, exact=self._exact)
            except ValueError:
                document = None
            if not isinstance(document, dict):
                bad.append(index)
                document = {}
            documents.append(document)
        return documents, bad

    def _fail(self, words: list[bytes], bad: list[int], name: str) -> None:
        if bad and self._options.parse_mode == "FAILFAST":
            raise MalformedEntryError(
                f"entry {words[bad[0]].decode()}: column or field {name!r} does not fit the schema"
            )

    def _raw(self, row: list[bytes]) -> str:
        """Return the original text of a malformed entry: its JSON text, or its fields as one JSON object."""
        if self._options.value_format == "json":
            for name, value in zip(row[-2::-2], row[::-2], strict=True):
                if name == self._options.value_field.encode():
                    return value.decode("utf-8", "backslashreplace")
        texts = [json.dumps(word.decode("utf-8", "backslashreplace"), ensure_ascii=False) for word in row]
        return (
            "{"
            + ", ".join(f"{name}: {value}" for name, value in zip(texts[::2], texts[1::2], strict=True))
            + "}"
        )


def _check_type(column: pa.Field, kind: pa.DataType, *, is_fields: bool = False) -> None:
    if is_fields:
        fits = pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)
        members = list(column.type.value_type) if fits else []
        fits = [member.name for member in members] == ["name", "value"]
        fits = fits and all(
            pa.types.is_string(member.type) or pa.types.is_binary(member.type) for member in members
        )
    else:
        fits = column.type == kind
    if not fits:
        wanted = "array<struct<name, value>> of strings or binary" if is_fields else str(kind)
        raise OptionError(
            f"column {column.name!r} is {wanted}, not {column.type}; if a field of your entries has that name, "
            "set 'metadataPrefix' to distinguish them"
        )


def _names(streams: Sequence[tuple[str, int]], kind: pa.DataType) -> pa.Array:
    """Repeat the name of each stream once per entry."""
    names = pa.array([printable_name(name) for name, _ in streams], kind)
    order = array.array("i", chain.from_iterable(repeat(at, rows) for at, (_, rows) in enumerate(streams)))
    return names.take(pa.Array.from_buffers(pa.int32(), len(order), [None, pa.py_buffer(order)]))


def _numbers(words: list[bytes]) -> pa.Array:
    """Return the milliseconds and sequence numbers of ids as pairs of 64-bit numbers."""
    parts = pc.split_pattern(pa.array(words, pa.string()), "-").flatten().cast(pa.uint64())
    return pa.FixedSizeListArray.from_arrays(parts, 2)


def _keys(numbers: pa.Array) -> pa.Array:
    swapped = array.array("Q", numbers.values.to_pylist())
    if sys.byteorder == "little":
        swapped.byteswap()
    buffers = [None, pa.py_buffer(swapped)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(numbers), buffers).cast(pa.binary())


def _times(numbers: pa.Array) -> pa.Array:
    ms = pc.list_element(numbers, 0)
    within = pc.if_else(pc.less_equal(ms, pa.scalar(LAST_MS, pa.uint64())), ms, pa.scalar(None, pa.uint64()))
    return pc.multiply(within.cast(pa.int64()), 1000).cast(METADATA["ts"])


def _fields(rows: list[list[bytes]], kind: pa.DataType) -> pa.Array:
    inner = kind.value_type
    flat = list(chain.from_iterable(rows))
    same = _same_names(rows, flat)
    if same is None:
        starts = array.array("i", accumulate((len(row) // 2 for row in rows), initial=0))
        names = text_array(flat[::2], inner.field(0).type)
    else:
        count = len(same)
        starts = array.array("i", range(0, count * len(rows) + 1, count))
        order = pa.py_buffer(array.array("i", range(count)) * len(rows))
        names = text_array(same, inner.field(0).type)
        names = names.take(pa.Array.from_buffers(pa.int32(), count * len(rows), [None, order]))
    pairs = pa.StructArray.from_arrays(
        [names, text_array(flat[1::2], inner.field(1).type)], fields=list(inner)
    )
    offsets = pa.Array.from_buffers(pa.int32(), len(rows) + 1, [None, pa.py_buffer(starts)])
    return pa.ListArray.from_arrays(offsets, pairs, type=kind)


def _same_names(rows: list[list[bytes]], flat: list[bytes]) -> list[bytes] | None:
    """Return the field names if all entries have the same ones in the same order, else None."""
    if not rows:
        return None
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        return None
    names = rows[0][::2]
    if all(flat[2 * at :: width].count(name) == len(rows) for at, name in enumerate(names)):
        return names
    return None


def _field_finder(rows: list[list[bytes]]) -> Callable[[bytes], Sequence[bytes | None]]:
    """Return a function from a field's name to its values; fast if all entries have the same fields in the same order."""
    flat = list(chain.from_iterable(rows))
    names = _same_names(rows, flat)
    if names is not None and len(set(names)) == len(names):
        at = {name: 2 * index + 1 for index, name in enumerate(names)}
        width = 2 * len(names)

        def find(name: bytes) -> Sequence[bytes | None]:
            return flat[at[name] :: width] if name in at else [None] * len(rows)

        return find
    looked = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    return lambda name: [row.get(name) for row in looked]
