"""Cast texts to numbers, booleans and decimals exactly as Spark's ``try_cast`` of a string; null where that gives null.

Arrow casts texts in the usual form, a whole column in one call. In a mixed column, masks select the texts of each
form. A mask trims the characters that such a text may contain, which takes 5 to 10 ns a text; a regular expression
takes 50 to 80, a Python function 500 to 3000. So a column of which half does not fit costs at most twice as much as a
good one, and only hexadecimal numbers and decimals with an exponent or with digits outside ASCII are read one by one.

Spark trims bytes up to the space (for integers and booleans also the byte 127) and accepts a sign, and for
floating-point numbers everything that Java accepts: ``inf``, ``1d``, ``0x1p3``. Decimals are rounded half up. ``1.5``
is not an integer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

CONTROL: Final = "".join(map(chr, range(33)))
BLANKS: Final = CONTROL + "\x7f"
DIGITS: Final = "0123456789"
_SAFE_DIGITS: Final = {pa.int8(): 2, pa.int16(): 4, pa.int32(): 9, pa.int64(): 18}
_MOST_DIGITS: Final = 19  # of a number of 64 bits
_FLOAT: Final = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?\z"
_HEXADECIMAL: Final = r"\A[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+[fFdD]?\z"
_INFINITE: Final = ("inf", "+inf", "infinity", "+infinity")
_LEAST: Final = ("-inf", "-infinity")
_SIGNED_NAN: Final = ("+NaN", "-NaN")
_LIKE_DECIMAL: Final = r"\A[+-]?[\p{Nd}.]+([eE][+-]?\p{Nd}+)?\z"
_ENORMOUS: Final = r"\A[+-]?[1-9][0-9.]*[eE]\+?[1-9][0-9]{2,}\z"  # no type has room for a hundred digits
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ARROWS_CHARACTERS: Final = 38
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_TRIED: Final = 6
_FEW: Final = 48
_LONGEST_EXPONENT: Final = 1000


@cache
def array_of(values: tuple[Any, ...]) -> pa.Array:
    """Return constants as an array.

    It is made at its first use: the first array that PyArrow makes of Python objects imports pandas, which takes a quarter of a
    second. Processes of Spark that only plan a query make none.
    """
    return pa.array(values)


def kept(mask: Any, cells: Any) -> Any:
    """Return ``cells`` where the mask is true, and null elsewhere."""
    return pc.if_else(pc.fill_null(mask, False), cells, pa.scalar(None, cells.type))


def at_once(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast a whole column with Arrow; return None if Arrow cannot read one of the texts.

    A failing cast takes half a microsecond for each bad text, so a sample is cast first.
    """
    try:
        if len(texts) > _FEW:
            texts.take(_samples(len(texts))).cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


@lru_cache  # batches are of few lengths
def _samples(length: int) -> pa.Array:
    """Return indices of pairs of neighbours, spread over a column."""
    return pa.array([at + more for at in range(0, length - 1, length // _TRIED) for more in (0, 1)])


def apart(
    texts: pa.Array,
    is_usual: pa.Array,
    quick: Callable[[pa.Array], pa.Array | None],
    slow: Callable[[pa.Array], pa.Array],
) -> pa.Array:
    """Cast the texts in the usual form with ``quick``, and the others with ``slow``, which reads every form."""
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


def has_only(texts: pa.Array, characters: str) -> pa.Array:
    """Return a mask of the texts that consist only of these characters."""
    rest = pc.binary_length(pc.ascii_trim(texts, characters))
    return pc.and_(pc.equal(rest, 0), pc.not_equal(texts, ""))


def each_of(mask: Any, texts: pa.Array, convert: Callable[[str], Any], cells: pa.Array) -> pa.Array:
    """Return ``cells`` with the result of ``convert`` for each text where the mask is true."""
    mask = pc.fill_null(mask, False)
    chosen = texts.filter(mask)
    if not len(chosen):
        return cells
    return pc.replace_with_mask(cells, mask, pa.array(list(map(convert, chosen.to_pylist())), cells.type))


def integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts to integers; null outside the range of the type."""
    # Arrow would read 0x10 as 16; Spark does not.
    if (quick := at_once(texts, kind)) is not None and not _has_x(texts):
        return quick
    is_short = pc.less_equal(pc.binary_length(texts), _SAFE_DIGITS[kind])
    return apart(
        texts,
        pc.and_(pc.ascii_is_decimal(texts), is_short),
        lambda some: at_once(some, kind),
        lambda some: _integers(some, kind),
    )


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, BLANKS)
    digits = pc.ascii_ltrim(texts, "+-")
    has_a_sign_at_most = pc.less_equal(pc.subtract(pc.binary_length(texts), pc.binary_length(digits)), 1)
    has_few_digits = pc.less_equal(pc.binary_length(pc.ascii_ltrim(digits, "0")), _MOST_DIGITS)
    is_number = pc.and_(pc.ascii_is_decimal(digits), pc.and_(has_a_sign_at_most, has_few_digits))
    if not pc.any(is_number).as_py():
        return pa.nulls(len(texts), kind)
    sizes = kept(is_number, digits).cast(pa.uint64())
    beyond = 1 << (kind.bit_width - 1)
    least, most = (pa.scalar(each, pa.uint64()) for each in (beyond, beyond - 1))
    fits = pc.less_equal(sizes, pc.if_else(pc.starts_with(texts, "-"), least, most))
    return kept(fits, pc.ascii_ltrim(texts, "+")).cast(kind)


def floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts to floating-point numbers; too large numbers become infinite."""
    quick = at_once(texts, kind)
    # Spark has its own rules for NaN and infinities.
    if quick is not None and pc.all(pc.is_finite(quick)).as_py() is not False:
        return quick
    is_usual = has_only(pc.ascii_ltrim(texts, "-"), DIGITS + ".eE")
    return apart(texts, is_usual, lambda some: at_once(some, kind), lambda some: _floats(some, kind))


def _floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, CONTROL)
    numbers = kept(has_only(texts, DIGITS + ".+-eEfFdD"), texts)
    if numbers.null_count < len(texts):
        numbers = kept(pc.match_substring_regex(numbers, _FLOAT), numbers)
    cells = pc.ascii_rtrim(pc.ascii_ltrim(numbers, "+"), "fFdD").cast(kind)
    if cells.null_count == texts.null_count:
        return cells
    words = pc.ascii_lower(texts)
    for mask, value in (
        (pc.is_in(words, array_of(_INFINITE)), "inf"),
        (pc.is_in(words, array_of(_LEAST)), "-inf"),
        (pc.or_(pc.equal(words, "nan"), pc.is_in(texts, array_of(_SIGNED_NAN))), "nan"),
    ):
        cells = pc.if_else(pc.fill_null(mask, False), pa.scalar(float(value), kind), cells)
    if _has_x(texts):
        return each_of(pc.match_substring_regex(texts, _HEXADECIMAL), texts, _hexadecimal, cells)
    return cells


def _hexadecimal(text: str) -> float | None:
    try:
        return float.fromhex(text.rstrip("fFdD"))
    except ValueError:
        return None
    except OverflowError:
        return float("-inf") if text.startswith("-") else float("inf")


def decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts to decimals, rounded half up; null if the integer part has too many digits for the type."""
    # If a text has too many digits, Arrow makes a wrong number without an error.
    is_short = (pc.max(pc.binary_length(texts)).as_py() or 0) <= _ARROWS_CHARACTERS
    if is_short and (quick := at_once(texts, kind)) is not None:
        return quick
    length, whole = pc.binary_length(texts), _digits_before_the_point(texts)
    fits = pc.and_(
        pc.less_equal(whole, max(kind.precision - kind.scale, 1)),
        pc.less_equal(pc.subtract(length, whole), kind.scale + 1),
    )
    is_usual = pc.and_(has_only(texts, DIGITS + ".-"), fits)
    return apart(texts, is_usual, lambda some: at_once(some, kind), lambda some: _decimals(some, kind))


def _digits_before_the_point(texts: pa.Array) -> pa.Array:
    point = pc.find_substring(texts, ".")
    return pc.if_else(pc.less(point, 0), pc.binary_length(texts), point)


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, CONTROL)
    digits = pc.ascii_ltrim(texts, "+-")
    has_a_sign_at_most = pc.less_equal(pc.subtract(pc.binary_length(texts), pc.binary_length(digits)), 1)
    has_a_point_at_most = pc.and_(
        pc.less_equal(pc.count_substring(digits, "."), 1), pc.not_equal(digits, ".")
    )
    is_plain = pc.and_(has_only(digits, DIGITS + "."), pc.and_(has_a_sign_at_most, has_a_point_at_most))
    return apart(texts, is_plain, lambda some: _rounded(some, kind), lambda some: _odd_decimals(some, kind))


def _rounded(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Round numbers (a sign, digits, a point) by the first digit that is cut off; null if the type has no room.

    The texts are cut, because Arrow divides decimals wrongly near multiples of powers of two: its ``round`` makes
    17179869183 of 17179869183.97799 (pyarrow 26.0.1).
    """
    is_negative = pc.starts_with(texts, "-")
    # Append a point to each text, so that all split into two parts.
    parts = pc.split_pattern(
        pc.binary_join_element_wise(pc.ascii_ltrim(texts, "+-"), "", "."), ".", max_splits=1
    )
    whole = pc.ascii_ltrim(pc.list_element(parts, 0), "0")
    fraction = pc.ascii_rtrim(pc.list_element(parts, 1), ".")
    fits = pc.less_equal(pc.binary_length(whole), kind.precision - kind.scale)
    scale = kind.scale
    digits = pc.binary_join_element_wise(
        "0", kept(fits, whole), ".", pc.utf8_slice_codeunits(fraction, 0, scale), ""
    )
    is_up = pc.greater_equal(pc.utf8_slice_codeunits(fraction, scale, scale + 1), "5")
    unit = pc.if_else(is_up, pa.scalar(Decimal(1).scaleb(-scale), kind), pa.scalar(Decimal(0), kind))
    wide = pa.decimal256(kind.precision + 1, scale)
    found = pc.add(digits.cast(kind).cast(wide), unit.cast(wide))
    fits = pc.less(found, pa.scalar(Decimal(10) ** (kind.precision - scale), wide))
    found = kept(fits, found).cast(kind)
    return pc.if_else(is_negative, pc.negate(found), found)


def _odd_decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read numbers that have an exponent or digits outside ASCII, one by one."""
    is_like = pc.or_(has_only(texts, DIGITS + ".+-eE"), pc.invert(pc.string_is_ascii(texts)))
    if not pc.any(is_like).as_py():
        return pa.nulls(len(texts), kind)
    texts = kept(is_like, texts)
    texts = kept(pc.match_substring_regex(texts, _LIKE_DECIMAL), texts)
    texts = kept(pc.invert(pc.match_substring_regex(texts, _ENORMOUS)), texts)

    def convert(text: str) -> Decimal | None:
        return _decimal(text, kind.precision, kind.scale)

    return each_of(texts.is_valid(), texts, convert, pa.nulls(len(texts), kind))


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
    """Cast texts to booleans: t, true, y, yes, 1 and f, false, n, no, 0, in any case."""
    if (quick := at_once(texts, kind)) is not None:
        return quick
    texts = pc.ascii_lower(pc.ascii_trim(texts, BLANKS))
    is_true = pc.is_in(texts, array_of(_TRUE))
    return kept(pc.or_(is_true, pc.is_in(texts, array_of(_FALSE))), is_true)


def _has_x(texts: pa.Array) -> bool:
    """Return True if a text may contain an x. Searching the bytes of the whole column is 20 times as fast as each text."""
    data = texts.buffers()[2]
    raw = b"" if data is None else data.to_pybytes()
    return b"x" in raw or b"X" in raw
