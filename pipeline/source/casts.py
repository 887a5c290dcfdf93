"""Texts as numbers, booleans and decimals, as Spark's ``try_cast`` of a string has them: null where it has null.

What is written as programs write it is cast by Arrow, a column at once. Where a column has anything else, masks say which
of its texts are what, and only what is rare is looked at one by one: empty strings in half of a column of
numbers cost a tenth more, where halving the column down to each of them cost 700 times as much.

Spark trims what is at or below a space (of integers and booleans the byte 127, too), reads a sign, and of floating-point numbers what
Java reads: ``inf``, ``1d``, ``0x1p3``. Decimals are rounded half up. ``1.5`` is no integer.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL: Final = "".join(map(chr, range(33)))
BLANKS: Final = CONTROL + "\x7f"
_INTEGER: Final = r"\A[+-]?[0-9]+\z"
_SAFE_CHARACTERS: Final = {pa.int8(): 2, pa.int16(): 4, pa.int32(): 9, pa.int64(): 18}
_WIDE: Final = pa.decimal128(38, 0)
_MOST_DIGITS: Final = 37
_FLOAT: Final = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_JAVAS: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+)[fFdD]?"
)
_JAVAS_RARE: Final = r"(?i)\A[+-]?(nan|inf(inity)?|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?[fd]|0x[0-9a-f]*\.?[0-9a-f]*p[+-]?[0-9]+[fd]?)\z"
_INFINITE: Final = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)
_NAN: Final = re.compile(r"[nN][aA][nN]|[+-]NaN")
_PLAIN_DECIMAL: Final = r"\A[+-]?([0-9]{1,37}(\.[0-9]{0,38})?|\.[0-9]{1,38})\z"
_LIKE_DECIMAL: Final = r"\A[+-]?[\p{Nd}.]+([eE][+-]?\p{Nd}+)?\z"
_USUAL_NUMBER: Final = r"\A-?[0-9]+(\.[0-9]*)?\z"
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_EXACT: Final = pa.decimal256(76, 38)
_TRUE: Final = pa.array(["t", "true", "y", "yes", "1"])
_FALSE: Final = pa.array(["f", "false", "n", "no", "0"])
_TRIED: Final = 6
_FEW: Final = 48
_LONGEST_EXPONENT: Final = 1000


def kept(mask: Any, cells: Any) -> Any:
    """Return the cells for which a mask holds, null in the place of the others."""
    return pc.if_else(pc.fill_null(mask, False), cells, pa.scalar(None, cells.type))


def at_once(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return what Arrow casts a whole column to; None: it cannot read some of it.

    A cast that fails takes half a microsecond for each text that is bad. So a few are tried before.
    """
    try:
        if len(texts) > _FEW:
            texts.take(_samples(len(texts))).cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


@lru_cache  # batches are of few lengths
def _samples(length: int) -> pa.Array:
    """Return the places of pairs all over a column."""
    return pa.array([at + more for at in range(0, length - 1, length // _TRIED) for more in (0, 1)])


def apart(
    texts: pa.Array,
    is_usual: pa.Array,
    quick: Callable[[pa.Array], pa.Array | None],
    slow: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """Cast the texts that look usual at once, and the others in the way that reads all there is."""
    if pc.all(is_usual).as_py():
        cells = quick(texts)
        return slow(texts) if cells is None else cells
    is_usual = pc.fill_null(is_usual, False)
    usual = texts.filter(is_usual)
    if not len(usual) or (cells := quick(usual)) is None:
        return slow(texts)
    others = pc.invert(is_usual)
    found = pc.replace_with_mask(pa.nulls(len(texts), cells.type), is_usual, cells)
    return pc.replace_with_mask(found, others, slow(texts.filter(others)))


def each_of(mask: Any, texts: pa.Array, convert: Callable[[str], Any], cells: pa.Array) -> pa.Array:
    """Return the cells, and in the place of those of a mask what a function makes of their texts."""
    mask = pc.fill_null(mask, False)
    chosen = texts.filter(mask)
    if not len(chosen):
        return cells
    return pc.replace_with_mask(
        cells,
        mask,
        pa.array(
            [convert(raw.decode("utf-8", "replace")) for raw in chosen.cast(pa.binary()).to_pylist()],
            cells.type,
        ),
    )


def integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return integers; null beyond those of a type."""
    # Arrow would read 0x10 as 16.
    if (quick := at_once(texts, kind)) is not None and not _has_x(texts):
        return quick
    return apart(
        texts,
        pc.ascii_is_decimal(texts),
        lambda some: at_once(some, kind),
        lambda some: _integers(some, kind),
    )


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, BLANKS)
    texts = pc.ascii_ltrim(kept(pc.match_substring_regex(texts, _INTEGER), texts), "+")
    is_wide = pc.greater(pc.binary_length(texts), _SAFE_CHARACTERS[kind])
    cells = kept(pc.invert(is_wide), texts).cast(kind)
    if not pc.any(is_wide).as_py():
        return cells
    is_longer = pc.greater(pc.binary_length(texts), _MOST_DIGITS)
    limit = 1 << (kind.bit_width - 1)
    wide = kept(pc.and_(is_wide, pc.invert(is_longer)), texts).cast(_WIDE)
    fits = pc.and_(
        pc.greater_equal(wide, pa.scalar(Decimal(-limit), _WIDE)),
        pc.less(wide, pa.scalar(Decimal(limit), _WIDE)),
    )
    cells = pc.coalesce(cells, kept(fits, wide).cast(kind))

    def longer(text: str) -> int | None:
        sign, digits = (text[0] == "-"), text.lstrip("-").lstrip("0")
        number = int(digits or 0) if len(digits) < _MOST_DIGITS else limit + 1
        number = -number if sign else number
        return number if -limit <= number < limit else None

    return each_of(is_longer, texts, longer, cells)


def floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return floating-point numbers; what is too large is infinite."""
    quick = at_once(texts, kind)
    # Spark reads NaN and infinities by rules of its own.
    if quick is not None and pc.all(pc.is_finite(quick)).as_py() is not False:
        return quick
    is_usual = pc.match_substring_regex(texts, _USUAL_NUMBER)
    return apart(texts, is_usual, lambda some: at_once(some, kind), lambda some: _floats(some, kind))


def _floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, CONTROL)
    is_plain = pc.match_substring_regex(texts, _FLOAT)
    if not pc.any(is_plain).as_py() and not pc.any(pc.match_substring_regex(texts, _JAVAS_RARE)).as_py():
        return pa.nulls(len(texts), kind)
    plain = pc.ascii_ltrim(kept(is_plain, texts), "+")
    try:
        cells = plain.cast(kind)
        rare = pc.match_substring_regex(texts, _JAVAS_RARE)
    except pa.ArrowInvalid:  # beyond all numbers
        cells = pa.nulls(len(texts), kind)
        rare = pc.true_unless_null(texts)
    return each_of(pc.and_not(rare, pc.is_valid(cells)), texts, _java_float, cells)


def _java_float(text: str) -> float | None:
    if found := _INFINITE.fullmatch(text):
        return float(f"{found[1]}inf")
    if _NAN.fullmatch(text):
        return float("nan")
    found = _JAVAS.fullmatch(text)
    if found is None:
        return None
    if found[1]:
        return float(found[1])
    try:
        return float.fromhex(found[2])
    except ValueError:
        return None
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return decimals, rounded half up; null where there are more digits before the point than a type has."""
    if (quick := at_once(texts, kind)) is not None:
        return quick
    fits = rf"\A-?[0-9]{{1,{max(kind.precision - kind.scale, 1)}}}(\.[0-9]{{0,{kind.scale}}})?\z"
    is_usual = pc.match_substring_regex(texts, fits)
    return apart(texts, is_usual, lambda some: at_once(some, kind), lambda some: _decimals(some, kind))


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, CONTROL)
    rare = pc.match_substring_regex(texts, _LIKE_DECIMAL)
    if not pc.any(rare).as_py():
        return pa.nulls(len(texts), kind)
    is_plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
    exact = pc.round(
        kept(is_plain, texts).cast(_EXACT), ndigits=kind.scale, round_mode="half_towards_infinity"
    )
    whole_digits = kind.precision - kind.scale
    if whole_digits <= _MOST_DIGITS:
        exact = kept(pc.less(pc.abs(exact), pa.scalar(Decimal(10) ** whole_digits, _EXACT)), exact)
    cells = exact.cast(kind)

    def convert(text: str) -> Decimal | None:
        return _decimal(text, kind.precision, kind.scale)

    return each_of(pc.and_not(rare, is_plain), texts, convert, cells)


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None  # an exponent beyond all
    if number.adjusted() < -_LONGEST_EXPONENT:
        number = Decimal(0)
    if number and number.adjusted() >= precision:
        return None
    context = Context(prec=_LONGEST_EXPONENT + len(text), rounding=ROUND_HALF_UP)
    number = number.quantize(Decimal(1).scaleb(-scale), context=context)
    return number if len(number.as_tuple().digits) <= precision else None


def booleans(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return booleans: t, true, y, yes, 1 and f, false, n, no, 0, in any case."""
    if (quick := at_once(texts, kind)) is not None:
        return quick
    texts = pc.ascii_lower(pc.ascii_trim(texts, BLANKS))
    is_true = pc.is_in(texts, _TRUE)
    return kept(pc.or_(is_true, pc.is_in(texts, _FALSE)), is_true)


def _has_x(texts: pa.Array) -> bool:
    """Return whether there may be an x in a text; a look at all bytes at once is twenty times as quick as one at each text."""
    data = texts.buffers()[2]
    raw = b"" if data is None else data.to_pybytes()
    return b"x" in raw or b"X" in raw
