"""Numbers at the boundaries of what machines hold, alone and beside texts that take the slower ways: each is itself, or null.

Arrow's rounding of decimal256 made 18446744066402043429 of 18446744073709551615 where a text beside it was unusual.
"""

import json
import random
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pytest

from rillet.pipeline.source.values import parse_texts

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
UNUSUAL = [
    "-", "2020-01-01", " ", " 7 ", "+7", "1e3", "1e400", "7.", "no", "+1.2.3", "1-2", "\uff17", "0x10", "1." + "3" * 30, "9" * 45,
]  # fmt: skip
# Arrow makes another number of more than 38 digits, and does not say so.
ODD = [
    "9" * 39, "3402823669209384634633746074317682114565", "1." + "0" * 41, "-0." + "0" * 41 + "9", "12e-41", "1" + "0" * 60,
    "0" * 50 + "12.345", "1.5e2", "99999.995", "-0.005", "1e18", "123456789012345678e19", ".5", "7.",
]  # fmt: skip


def boundaries(seed):
    """2**k and 10**k with their neighbours, their halves, and multiples of powers that fill whole words."""
    draw = random.Random(seed)
    whole = {2**k + d for k in range(127) for d in (-1, 0, 1)} | {
        10**k + d for k in range(39) for d in (-1, 0, 1)
    }
    whole |= {
        draw.randrange(1, 2**10) * 2**k + draw.randrange(-(10**6), 10**6)
        for k in (62, 63, 64, 96)
        for _ in range(40)
    }
    texts = []
    for number in sorted(whole):
        digits = str(abs(number))
        point, zeros = draw.randrange(len(digits) + 1), "0" * draw.randrange(1, 25)
        texts += [str(number), f"{number}.5", f"{number}.{draw.randrange(10**6)}", f"{number}.{zeros}"]
        texts += [digits[:point] + "." + digits[point:], digits[:point] + "." + digits[point:] + zeros]
        texts += [
            f"{number}{zeros}e-{len(zeros)}",
            f"{digits}e-{draw.randrange(40)}",
            f"{number % 1000}E{draw.randrange(36)}",
        ]
    return [text for text in texts if text != "."] + ODD


def expected(text, kind):
    """The number of a text that Python's decimal reads, as a type holds it."""
    number = Decimal(text)
    if pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return int(number) if text.lstrip("-").isdigit() and -(2**bits) <= number < 2**bits else None
    if pa.types.is_floating(kind):
        return float(text)
    number = number.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    return number if number.copy_abs() < Decimal(10) ** (kind.precision - kind.scale) else None


DECIMALS = [
    (20, 0), (38, 0), (38, 2), (38, 18), (38, 19), (38, 37), (38, 38), (19, 0), (18, 9), (18, 18), (10, 2), (1, 0),
]  # fmt: skip
KINDS = [*[pa.decimal128(*each) for each in DECIMALS], pa.int64(), pa.int32(), pa.int8(), pa.float64()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_number_at_a_boundary_is_itself_or_nothing_whatever_is_beside_it(kind):
    texts = boundaries(7)
    wanted = [expected(text, kind) for text in texts]
    for beside in [None, *UNUSUAL]:
        cells, _ = parse_texts([text.encode() for text in [*texts, *([beside] if beside else [])]], kind)
        found = cells.to_pylist()[: len(texts)]
        assert [
            (text, one, other) for text, one, other in zip(texts, found, wanted, strict=True) if one != other
        ] == []


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_within_json_too_as_a_number_and_as_a_string(kind):
    texts = [text for text in boundaries(8) if not text.startswith((".", "-.")) and not text.endswith(".")]
    texts = [text for text in texts if not (len(text) > 1 and text[0] == "0" and text[1] != ".")]
    wanted = [expected(text, kind) for text in texts]
    member = pa.struct([("x", kind)])
    for form in ('{"x":%s}', '{"x":"%s"}'):
        is_number = form.endswith("%s}")
        if is_number and pa.types.is_integer(kind):
            continue_with = [at for at, text in enumerate(texts) if text.lstrip("-").isdigit()]
        else:
            continue_with = list(range(len(texts)))
        raw = [(form % texts[at]).encode() for at in continue_with]
        cells, _ = parse_texts([*raw, b'{"x":"-"}'], member)
        for at, cell in zip(continue_with, cells.to_pylist(), strict=False):
            assert (None if cell is None else cell["x"]) == wanted[at], texts[at]
            assert json.loads(form % texts[at]) is not None


@pytest.mark.parametrize(
    ("form", "per_second"), [("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6)]
)
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_since_1970_with_a_fraction_are_exact_to_the_microsecond(form, per_second, zone):
    draw = random.Random(9)
    texts = ["253402300799.999999", "-62135596800.000001", "9007199254740993", "9007199254.740993"]
    texts += [f"{draw.randrange(-6 * 10**10, 25 * 10**10)}.{draw.randrange(10**9):09}" for _ in range(300)]
    texts += [str(draw.randrange(2**62)) for _ in range(50)]
    cells, _ = parse_texts([text.encode() for text in texts], pa.timestamp("us", zone), times=form)
    for text, micros in zip(texts, cells.cast(pa.int64()).to_pylist(), strict=True):
        exact = int((Decimal(text) * 10**6 / per_second).quantize(Decimal(1), context=EXACT))
        wanted = exact if -62_135_596_800_000_000 <= exact <= 253_402_300_799_999_999 else None
        assert micros == wanted, text


@pytest.mark.parametrize("form", ["%s", '{"x":%s}', '{"x":"%s"}'])
def test_a_32_bit_float_is_rounded_once(form):
    """By way of a 64-bit one, 16777217.0000000001 is 16777217, and then 16777216."""
    texts = ["16777217.0000000001", "1.00000005960464477540", "1e400", "0.1"]
    kind = pa.struct([("x", pa.float32())]) if "x" in form else pa.float32()
    cells, wrong = parse_texts([(form % text).encode() for text in texts], kind)
    found = [cell["x"] if "x" in form else cell for cell in cells.to_pylist()]
    assert found == [16777218.0, 1 + 2**-23, float("inf"), 0.10000000149011612]
    assert wrong == []
