"""Convert texts and JSON values of entries to typed Arrow arrays; a value that does not fit becomes null.

A text fits a column if Spark's own cast of that string gives a value (see `casts` and `time_casts`). A JSON number or
boolean fits if its text does. Only ``BINARY`` has its own rule: base64. The indices of values that do not fit are
returned.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..error_tokens import LabelledError
from . import casts, time_casts

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Parsed = tuple[pa.Array, list[int]]
ISO: Final = "iso"
# The formats of times, and how many units a second has.
TIME_FORMATS: Final = {ISO: 0, "seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}
# The years 1 and 9999 are the limits of Python's datetime.
_FIRST_MICROSECOND: Final = -62_135_596_800_000_000
_LAST_MICROSECOND: Final = 253_402_300_799_999_999

# The Spark types that the sink writes and the source reads.
_SUPPORTED: Final = frozenset(
    "ArrayType BinaryType BooleanType ByteType CharType DateType DecimalType DoubleType FloatType IntegerType LongType MapType "
    "NullType ShortType StringType StructType TimestampNTZType TimestampType VarcharType".split()
)


class UnsupportedTypeError(LabelledError, TypeError):
    """No value of an entry can be converted to a column's type."""

    label = "UNSUPPORTED_TYPE"


def unsupported(kind: DataType) -> DataType | None:
    """Return the part of a Spark type (or the type itself) that has no readable text form; None if there is none."""
    if type(kind).__name__ not in _SUPPORTED:
        return kind
    parts = [getattr(kind, name) for name in ("elementType", "keyType", "valueType") if hasattr(kind, name)]
    parts += [field.dataType for field in getattr(kind, "fields", ())]
    return next((found for part in parts if (found := unsupported(part)) is not None), None)


def text_array(raw: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    r"""Return names or free texts as strings or binary; in strings, bytes that are not UTF-8 become ``\xNN``."""
    try:
        return pa.array(raw, kind)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return pa.array(
            [None if word is None else word.decode("utf-8", "backslashreplace") for word in raw], kind
        )


def parse_texts(
    raw: Sequence[bytes | None], kind: pa.DataType, times: str = ISO, zone: str = "UTC"
) -> Parsed:
    """Convert texts to one type; return the array, and the indices of texts that do not fit.

    Arrays, maps and structs are read as JSON.

    Raises UnsupportedTypeError: the type cannot be read.

    Args:
        times: the format of timestamps, one of ``TIME_FORMATS``; within JSON it is always ISO 8601.
        zone: the session's zone, for times without one.
    """
    if pa.types.is_binary(kind):
        return pa.array(raw, kind), []
    if pa.types.is_nested(kind):
        return _parse_nested(raw, kind, zone)
    given = pa.array(raw, pa.binary())
    if pa.types.is_string(kind):
        try:
            return given.cast(kind), []
        except pa.ArrowInvalid:
            words = [_decoded(word) for word in raw]
            return pa.array(words, kind), [at for at, word in enumerate(words) if word is None is not raw[at]]
    # Bytes that are not UTF-8 are not digits either.
    return _noted(given, _cast(pc.cast(given, pa.string(), safe=False), kind, times, zone))


def parse_json(values: Sequence[Any], kind: pa.DataType, times: str = ISO, zone: str = "UTC") -> Parsed:
    """Convert decoded JSON values to one type; return the array, and the indices that do not fit (see ``parse_texts``).

    Raises UnsupportedTypeError: the type cannot be read.
    """
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _lists(values, kind, zone)
    if pa.types.is_struct(kind):
        return _structs(values, kind, zone)
    if pa.types.is_binary(kind):
        raw = [_base64(value) for value in values]
        return pa.array(raw, kind), [at for at, one in enumerate(raw) if one is None is not values[at]]
    words = [_text(value, any_kind=pa.types.is_string(kind)) for value in values]
    try:
        given = pa.array(words, pa.string())
    except UnicodeEncodeError:  # half of a surrogate pair is a string to JSON, and none to Arrow
        given = pa.array(
            [None if word is None or not _is_encodable(word) else word for word in words], pa.string()
        )
    cells = given if pa.types.is_string(kind) else _cast(given, kind, times, zone)
    if not cells.null_count:
        return cells, []
    filled = cells.is_valid().to_pylist()
    return cells, [at for at, value in enumerate(values) if value is not None and not filled[at]]


def decode_json(text: bytes, *, exact: bool = False) -> Any:
    """Decode one JSON document; ``exact`` keeps fractions as decimals. Raises ValueError: it is not valid JSON."""
    try:
        return json.loads(text, parse_float=Decimal) if exact else json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except InvalidOperation:
        raise ValueError("a number with an exponent beyond all decimals") from None


def needs_exact(kind: pa.DataType) -> bool:
    """Return True if the type contains numbers that a Python float may round: decimals, and 32-bit floats."""
    if pa.types.is_decimal(kind) or pa.types.is_float32(kind):
        return True
    return any(needs_exact(kind.field(index).type) for index in range(kind.num_fields))


# Texts


def _noted(given: pa.Array, cells: pa.Array) -> Parsed:
    """Return the cells, and the indices of values that became null."""
    if cells.null_count == given.null_count:
        return cells, []
    return cells, pc.indices_nonzero(pc.and_(given.is_valid(), cells.is_null())).to_pylist()


def _cast(texts: pa.Array, kind: pa.DataType, times: str, zone: str) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return (
            time_casts.times(texts, kind, zone) if times == ISO else _epochs(texts, kind, TIME_FORMATS[times])
        )
    if pa.types.is_integer(kind):
        return casts.integers(texts, kind)
    if pa.types.is_floating(kind):
        return casts.floats(texts, kind)
    if pa.types.is_decimal(kind):
        return casts.decimals(texts, kind)
    if pa.types.is_boolean(kind):
        return casts.booleans(texts, kind)
    if pa.types.is_date32(kind):
        return time_casts.dates(texts, kind)
    raise UnsupportedTypeError(f"entries cannot be read as {kind}")


def _epochs(texts: pa.Array, kind: pa.DataType, per_second: int) -> pa.Array:
    """Convert numbers since 1970 to times; the numbers may have a fraction."""
    factor = 1_000_000 // per_second
    whole = casts.integers(texts, pa.int64())
    limit = _LAST_MICROSECOND // factor
    micros = pc.multiply(
        casts.kept(pc.and_(pc.greater_equal(whole, -limit), pc.less_equal(whole, limit)), whole), factor
    )
    if micros.null_count > texts.null_count:
        # A float of seconds is not exact to the microsecond after the year 2255.
        exact = casts.decimals(texts, pa.decimal128(18, len(str(factor)) - 1))
        parts = pc.multiply(casts.kept(whole.is_null(), exact), pa.scalar(Decimal(factor)))
        parts = parts.cast(pa.int64())
        micros = pc.coalesce(micros, parts)
    is_between = pc.and_(
        pc.greater_equal(micros, _FIRST_MICROSECOND), pc.less_equal(micros, _LAST_MICROSECOND)
    )
    return casts.kept(is_between, micros).cast(kind)


def _decoded(word: bytes | None) -> str | None:
    try:
        return None if word is None else word.decode()
    except UnicodeDecodeError:
        return None


def _parse_nested(raw: Sequence[bytes | None], kind: pa.DataType, zone: str) -> Parsed:
    exact = needs_exact(kind)
    values: list[Any] = []
    bad: list[int] = []
    for index, text in enumerate(raw):
        try:
            values.append(None if text is None else decode_json(text, exact=exact))
        except ValueError:
            values.append(None)
            bad.append(index)
    cells, worse = parse_json(values, kind, zone=zone)
    return cells, [*bad, *worse]


# JSON values


def _text(value: Any, *, any_kind: bool) -> str | None:
    """Return the text of a JSON value to cast. None for null, and for an array or object unless a string is wanted."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=float) if any_kind else None


def _base64(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None


def _is_encodable(word: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def _lists(values: Sequence[Any], kind: pa.DataType, zone: str) -> Parsed:
    """Convert arrays or maps; their members are parsed as one column."""
    is_map = pa.types.is_map(kind)
    if is_map and not pa.types.is_string(kind.key_type):
        raise UnsupportedTypeError("maps of JSON have string keys")
    wanted = dict if is_map else list
    rows: list[Any] = [value if isinstance(value, wanted) else None for value in values]
    bad = {at for at, value in enumerate(values) if value is not None and rows[at] is None}
    while True:
        names: list[str] = []
        members: list[Any] = []
        starts: list[int] = []
        for row in rows:
            starts.append(len(members))
            if is_map and row:
                names += row
                members += row.values()
            elif row:
                members += row
        items, wrong = parse_json(members, kind.item_type if is_map else kind.value_type, zone=zone)
        keys, wrong_keys = parse_json(names, pa.string())
        if not wrong and not wrong_keys:
            break
        spoilt = {bisect_right(starts, at) - 1 for at in (*wrong, *wrong_keys)}
        bad |= spoilt
        rows = [None if at in spoilt else row for at, row in enumerate(rows)]
    # A null offset marks a null row.
    offsets = pa.array(
        [None if row is None else start for row, start in zip(rows, starts, strict=True)] + [len(members)],
        pa.int32(),
    )
    if is_map:
        found = pa.MapArray.from_arrays(offsets, keys, items)
    else:
        found = pa.ListArray.from_arrays(offsets, items)
    return found.cast(kind), sorted(bad)


def _structs(values: Sequence[Any], kind: pa.DataType, zone: str) -> Parsed:
    rows = [value if isinstance(value, dict) else None for value in values]
    bad = {at for at, value in enumerate(values) if value is not None and rows[at] is None}
    members = []
    for field in kind:
        cells, wrong = parse_json(
            [None if row is None else row.get(field.name) for row in rows], field.type, zone=zone
        )
        members.append(cells)
        bad.update(wrong)
    is_null = pa.array([row is None or at in bad for at, row in enumerate(rows)], pa.bool_())
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=is_null), sorted(bad)
