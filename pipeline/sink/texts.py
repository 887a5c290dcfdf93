"""Convert values to the texts of an entry, which the source reads back as the same values.

Numbers and booleans have Spark's format (``1.5``, ``1.0E16``, ``true``), times and dates ISO 8601. Arrays, structs and
maps have the JSON of Spark's ``to_json``, but with nulls as ``null`` and times to the microsecond. A column is
converted in one call.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..source.casts import each_of

# Monrovia, 1972-01-07, in microseconds.
_OFFSETS_HAVE_SECONDS_UNTIL: Final = pa.scalar(63_593_070_000_000, pa.int64())
_LEAST_PLAIN, _LEAST_OF_EXPONENT = 1e-3, 1e7  # Java writes numbers between these without an exponent


def texts(column: pa.Array) -> list[bytes | None]:
    """Return the values of a column as bytes for entries: strings in UTF-8, binary values unchanged; None for null."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        plain = column
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        plain = column.cast(pa.large_binary())
    elif pa.types.is_nested(kind):
        return [
            None if is_null else text.encode()
            for text, is_null in zip(_json(column), column.is_null().to_pylist(), strict=True)
        ]
    else:
        plain = _shown(column).cast(pa.binary())
    result: list[bytes | None] = plain.to_pylist()
    return result


def _shown(column: pa.Array) -> pa.Array:
    """Format numbers, booleans, dates and times as strings."""
    kind = column.type
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(_times(column), " ", "T")
    shown = column.cast(pa.string())
    if pa.types.is_decimal(kind):
        return each_of(pc.match_substring(shown, "E"), shown, lambda text: f"{Decimal(text):f}", shown)
    return shown


def _floats(column: pa.Array) -> pa.Array:
    shown = column.cast(pa.string())
    size = pc.abs(column)
    is_plain = pc.or_(
        pc.and_(pc.greater_equal(size, _LEAST_PLAIN), pc.less(size, _LEAST_OF_EXPONENT)), pc.equal(size, 0)
    )
    has_point = pc.match_substring(shown, ".")
    shown = pc.if_else(
        pc.and_(is_plain, pc.invert(has_point)), pc.binary_join_element_wise(shown, ".0", ""), shown
    )
    return each_of(pc.invert(is_plain), shown, _like_java, shown)


def _like_java(text: str) -> str:
    """Convert a floating-point number from Arrow's format to Java's."""
    if text.endswith(("nan", "inf")):
        return "NaN" if text.endswith("nan") else text.replace("inf", "Infinity")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    number, _, exponent = digits.partition("e")
    whole, _, fraction = number.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    if whole.strip("0"):
        figures = whole + fraction
    else:
        figures = fraction.lstrip("0")
        power -= len(fraction) - len(figures) + 1
    figures = figures.rstrip("0")
    return f"{sign}{figures[0]}.{figures[1:] or 0}E{power}"


def _times(column: pa.Array) -> pa.Array:
    """Format times with the offset of the column's zone; in UTC if the offset has seconds, which ISO 8601 does not allow."""
    shown = column.cast(pa.string())
    if column.type.tz in {None, "UTC"}:
        return shown
    is_old = pc.less(column.cast(pa.int64()), _OFFSETS_HAVE_SECONDS_UNTIL)
    if not pc.any(is_old).as_py():
        return shown
    return pc.if_else(is_old, column.cast(pa.timestamp(column.type.unit, "UTC")).cast(pa.string()), shown)


def _json(column: pa.Array) -> list[str]:
    """Format values as JSON; a null is ``null``."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [json.dumps(field.name, ensure_ascii=False) + ":" for field in kind]
        members = [_json(member) for member in column.flatten()]
        rows = zip(*members, strict=True) if members else [()] * len(column)
        found = ["{" + ",".join(map("".join, zip(names, row, strict=True))) + "}" for row in rows]
    elif pa.types.is_map(kind):
        pairs = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        keys, values = pairs.flatten().flatten()
        names = [key if key.startswith('"') else json.dumps(key, ensure_ascii=False) for key in _json(keys)]
        found = _grouped("{%s}", pairs, list(map("%s:%s".__mod__, zip(names, _json(values), strict=True))))
    elif pa.types.is_nested(kind):
        found = _grouped("[%s]", column, _json(column.flatten()))
    else:
        return _scalars(column)
    return [
        "null" if is_null else text for text, is_null in zip(found, column.is_null().to_pylist(), strict=True)
    ]


def _grouped(form: str, lists: pa.Array, members: list[str]) -> list[str]:
    """Join the members of each list, in brackets."""
    ends = [0]
    for length in pc.list_value_length(lists).to_pylist():
        ends.append(ends[-1] + (length or 0))
    return [form % ",".join(members[start:end]) for start, end in pairwise(ends)]


def _scalars(column: pa.Array) -> list[str]:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [
            "null" if text is None else json.dumps(text, ensure_ascii=False) for text in column.to_pylist()
        ]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [
            "null" if raw is None else f'"{base64.b64encode(raw).decode()}"' for raw in column.to_pylist()
        ]
    shown: list[Any] = _shown(column).to_pylist()
    if pa.types.is_floating(kind):
        return ["null" if one is None else f'"{one}"' if one[-1] in "Ny" else one for one in shown]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return ["null" if one is None else f'"{one}"' for one in shown]
    return ["null" if one is None else one for one in shown]
