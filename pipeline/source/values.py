"""Texts and JSON values of entries as typed Arrow arrays; what does not fit becomes null, and its index is returned."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal, Inexact, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..error_tokens import Tokened
from ..times import parse_iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Cells = Any  # an Arrow array, or a list of Python's values
ISO: Final = "iso"
TIME_FORMATS: Final = {
    ISO: 0,
    "seconds": 1,
    "milliseconds": 1000,
    "microseconds": 1_000_000,
}  # and how many a second has
# Of the years 1 and 9999, with which Python's datetime begins and ends.
_FIRST_MICROSECOND: Final = -62_135_596_800_000_000
_LAST_MICROSECOND: Final = 253_402_300_799_999_999
_INTEGER_BITS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


class UnsupportedTypeError(Tokened, TypeError):
    """A column has a type that no entry's value can become."""

    label = "UNSUPPORTED_TYPE"


def text_array(raw: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    r"""Return names and free texts as strings or binary; bytes that are no UTF-8 show as ``\xNN`` in a string."""
    try:
        return pa.array(raw, kind)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return pa.array(
            [None if word is None else word.decode("utf-8", "backslashreplace") for word in raw], kind
        )


def parse_texts(
    raw: Sequence[bytes | None], kind: pa.DataType, times: str = ISO
) -> tuple[pa.Array, list[int]]:
    """Read texts as one type: the array, and the indices that could not be read.

    Numbers are plain decimals, booleans true/false/1/0, dates and times ISO 8601 (no zone means UTC); arrays, maps and
    structs are JSON.

    Args:
        raw: the texts.
        kind: the type.
        times: what a column of timestamps holds: one of ``TIME_FORMATS``; within JSON they are always ISO 8601.

    Raises:
        UnsupportedTypeError: nothing is read as that type.
    """
    if pa.types.is_binary(kind):
        return pa.array(raw, kind), []
    if pa.types.is_nested(kind):
        return _parse_nested(raw, kind)
    texts, bad = _cast(pa.array(raw, pa.binary()), _to(pa.string()))
    if pa.types.is_string(kind):
        return texts, bad
    cells, worse = _cast(texts, _caster(kind, times))
    return cells, [*bad, *worse]


def parse_json(values: Sequence[Any], kind: pa.DataType, times: str = ISO) -> tuple[pa.Array, list[int]]:
    """Take decoded JSON values as one type: the array, and the indices that do not fit; ``times`` as in ``parse_texts``.

    Raises:
        UnsupportedTypeError: nothing is read as that type.
    """
    if times != ISO and pa.types.is_timestamp(kind):
        texts = [None if value is None else _number_text(value) for value in values]
        return _cast(pa.array(texts, pa.string()), _caster(kind, times))
    convert = _json_converter(kind)
    cells: list[Any] = []
    bad: list[int] = []
    for index, value in enumerate(values):
        try:
            cells.append(None if value is None else convert(value))
        except (ValueError, OverflowError, RecursionError):
            cells.append(None)
            bad.append(index)
    # What is a string to JSON may be none to Arrow: half of a surrogate pair.
    found, worse = _cast(cells, lambda some: pa.array(some, kind))
    return found, [*bad, *worse]


def decode_json(text: bytes, *, exact: bool = False) -> Any:
    """Return one JSON document; ``exact`` keeps fractions as decimals.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(text, parse_float=Decimal) if exact else json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except InvalidOperation:
        raise ValueError("a number with an exponent beyond all decimals") from None


def needs_exact(kind: pa.DataType) -> bool:
    """Return whether a type has decimals in it."""
    if pa.types.is_decimal(kind):
        return True
    return any(needs_exact(kind.field(index).type) for index in range(kind.num_fields))


# Texts


def _cast(cells: _Cells, cast: Callable[[_Cells], pa.Array]) -> tuple[pa.Array, list[int]]:
    """Cast all cells at once; where that fails, halve them until the bad ones stand alone."""
    try:
        return cast(cells), []
    except (pa.ArrowInvalid, UnicodeEncodeError):
        if len(cells) == 1:
            empty = cast(cells[:0])
            return pa.nulls(1, empty.type), [0]
    middle = len(cells) // 2
    left, bad = _cast(cells[:middle], cast)
    right, worse = _cast(cells[middle:], cast)
    return pa.concat_arrays([left, right]), [*bad, *(middle + index for index in worse)]


def _to(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda cells: cells.cast(kind)


def _caster(kind: pa.DataType, times: str) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_timestamp(kind) and times != ISO:
        return lambda cells: _cast_epochs(cells, kind, TIME_FORMATS[times])
    if pa.types.is_timestamp(kind) and kind.tz:
        return lambda cells: _cast_instants(cells, kind)
    if pa.types.is_integer(kind):
        return lambda cells: _cast_integers(cells, kind)
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    ):
        return _to(kind)
    raise UnsupportedTypeError(f"entries cannot be read as {kind}")


def _cast_integers(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow would read 0x10 as 16.
    if pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("hexadecimal")
    return cells.cast(kind)


def _cast_instants(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        return cells.cast(pa.timestamp(kind.unit)).cast(kind)  # no zone: UTC


def _cast_epochs(cells: pa.Array, kind: pa.DataType, per_second: int) -> pa.Array:
    factor = 1_000_000 // per_second
    try:
        micros = pc.multiply_checked(_cast_integers(cells, pa.int64()), factor)
    except pa.ArrowInvalid:
        # Arrow's NaN and infinities are no integers, which this cast notices.
        micros = pc.round(pc.multiply(cells.cast(pa.float64()), float(factor))).cast(pa.int64())
    ends = pc.min_max(micros).as_py()
    if ends["min"] is not None and not _FIRST_MICROSECOND <= ends["min"] <= ends["max"] <= _LAST_MICROSECOND:
        raise pa.ArrowInvalid("not between the years 1 and 9999")
    return micros.cast(kind)


def _number_text(value: Any) -> str:
    """Return the digits of a JSON number, or of a string with them; else a text that no time has."""
    is_number = isinstance(value, (int, float, Decimal, str)) and not isinstance(value, bool)
    return str(value) if is_number else "no number"


def _parse_nested(raw: Sequence[bytes | None], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    exact = needs_exact(kind)
    values: list[Any] = []
    bad: list[int] = []
    for index, text in enumerate(raw):
        try:
            values.append(None if text is None else decode_json(text, exact=exact))
        except ValueError:
            values.append(None)
            bad.append(index)
    cells, worse = parse_json(values, kind)
    return cells, [*bad, *worse]


# JSON values


def _json_converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_string(kind):
        return lambda value: (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        )
    if pa.types.is_binary(kind):
        return lambda value: base64.b64decode(_expect(value, str), validate=True)
    if pa.types.is_boolean(kind):
        return lambda value: _expect(value, bool)
    if kind in _INTEGER_BITS:
        limit = 1 << (_INTEGER_BITS[kind] - 1)
        return lambda value: _integer(value, limit)
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if pa.types.is_date32(kind):
        return lambda value: date.fromisoformat(_expect(value, str))
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz else _local_time
    if pa.types.is_map(kind):
        item = _json_converter(kind.item_type)
        if not pa.types.is_string(kind.key_type):
            raise UnsupportedTypeError("maps of JSON have string keys")
        return lambda value: [(name, _or_null(item, each)) for name, each in _expect(value, dict).items()]
    if pa.types.is_list(kind):
        element = _json_converter(kind.value_type)
        return lambda value: [_or_null(element, each) for each in _expect(value, list)]
    if pa.types.is_struct(kind):
        members = {field.name: _json_converter(field.type) for field in kind}
        return lambda value: _struct(_expect(value, dict), members)
    raise UnsupportedTypeError(f"entries cannot be read as {kind}")


def _or_null(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _struct(value: dict[str, Any], members: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    return {name: _or_null(convert, value.get(name)) for name, convert in members.items()}


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not {kind.__name__}: {value!r}")  # noqa: TRY004 - it is the text's value that is wrong
    return value


def _integer(value: Any, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        raise ValueError(f"no integer of that size: {value!r}")
    return value


def _float(value: Any) -> float:
    if isinstance(value, str) and value in {"NaN", "Infinity", "-Infinity"}:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"no number: {value!r}")  # noqa: TRY004 - as above
    return float(value)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ValueError(f"no decimal: {value!r}")  # noqa: TRY004 - as above
    with localcontext(prec=precision) as context:
        context.traps[Inexact] = True
        try:
            return Decimal(value).quantize(Decimal(1).scaleb(-scale))
        except (Inexact, InvalidOperation):
            raise ValueError(f"does not fit decimal({precision},{scale}): {value!r}") from None


def _instant(value: Any) -> datetime:
    return parse_iso_time(_expect(value, str))


def _local_time(value: Any) -> datetime:
    moment = datetime.fromisoformat(_expect(value, str))
    if moment.tzinfo:
        raise ValueError(f"a time without a zone is needed: {value!r}")
    return moment
