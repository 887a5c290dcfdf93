"""Replies as bytes, for RESP2 and RESP3.

Every encoder returns finished bytes; aggregates take parts that are already encoded. Where the two protocols
differ the function takes ``resp`` (2 or 3). Handlers join these; nothing else in Rillet writes RESP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from hiredis import pack_command

from . import grisu

Plain: TypeAlias = int | bytes | Sequence["Plain"] | None

OK: Final = b"+OK\r\n"
QUEUED: Final = b"+QUEUED\r\n"
PONG: Final = b"+PONG\r\n"
ZERO: Final = b":0\r\n"
ONE: Final = b":1\r\n"
EMPTY_ARRAY: Final = b"*0\r\n"
EMPTY_BULK: Final = b"$0\r\n\r\n"
NULL_RESP2: Final = b"$-1\r\n"
NULL_ARRAY_RESP2: Final = b"*-1\r\n"
NULL_RESP3: Final = b"_\r\n"

# A double has no exponent if it is whole and at most the first number, lies between the next two, or has this few decimals.
_LARGEST_IN_FULL: Final = float(1 << 62)
_SMALLEST_IN_FULL: Final = 0.001
_LARGEST_BROKEN_IN_FULL: Final = 10_000
_DECIMALS_IN_FULL: Final = 6
_EXPONENTS_IN_FULL: Final = 4


def null(resp: int) -> bytes:
    """Encode the null of single values: ``$-1`` or ``_``."""
    return NULL_RESP3 if resp == 3 else NULL_RESP2


def null_array(resp: int) -> bytes:
    """Encode the null of aggregates: ``*-1`` or ``_``."""
    return NULL_RESP3 if resp == 3 else NULL_ARRAY_RESP2


def integer(n: int) -> bytes:
    """Encode an integer: ``:n``."""
    return b":%d\r\n" % n


def simple(text: bytes) -> bytes:
    """Encode a simple string: ``+text``; the text must hold no CR or LF."""
    return b"+%b\r\n" % text


def bulk(data: bytes) -> bytes:
    """Encode a bulk string: ``$len`` and the bytes."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def array_header(n: int) -> bytes:
    """Encode the header of an array, ``*n``; the caller appends n encoded items."""
    return b"*%d\r\n" % n


def array(items: Sequence[bytes]) -> bytes:
    """Encode an array of items that are already encoded."""
    return array_header(len(items)) + b"".join(items)


def bulk_array(items: Iterable[bytes]) -> bytes:
    """Encode an array of bulk strings."""
    return array([b"$%d\r\n%b\r\n" % (len(item), item) for item in items])  # `bulk` without the call


def plain(value: Plain, resp: int) -> bytes:
    """Encode a Python value: an integer, bytes as a bulk string, None as a null, a list or tuple of these as an array."""
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, bytes):
        return bulk(value)
    return null(resp) if value is None else array([plain(item, resp) for item in value])


def simple_array(lines: Iterable[bytes]) -> bytes:
    """Encode an array of simple strings, the form of HELP replies."""
    return array([simple(line) for line in lines])


def set_header(n: int, resp: int) -> bytes:
    """Encode the header of a set, ``~n``; in RESP2 ``*n``. The caller appends n encoded items."""
    return b"~%d\r\n" % n if resp == 3 else array_header(n)


def set_of(items: Sequence[bytes], resp: int) -> bytes:
    """Encode a set of items that are already encoded; an array in RESP2."""
    return set_header(len(items), resp) + b"".join(items)


def map_header(n: int, resp: int) -> bytes:
    """Encode the header of a map of n pairs, ``%n``; in RESP2 ``*2n``. The caller appends the encoded keys and values."""
    return b"%%%d\r\n" % n if resp == 3 else array_header(2 * n)


def map_of(pairs: Sequence[tuple[bytes, bytes]], resp: int) -> bytes:
    """Encode a map of (key, value); keys are encoded here as bulk strings, values are encoded already."""
    return map_header(len(pairs), resp) + b"".join([bulk(key) + value for key, value in pairs])


def push_header(n: int, resp: int) -> bytes:
    """Encode the header of a push message, ``>n``; in RESP2 ``*n``. The caller appends n encoded items."""
    return b">%d\r\n" % n if resp == 3 else array_header(n)


def double(value: float, resp: int) -> bytes:
    """Encode a double: ``,1.5``; in RESP2 a bulk string of the shortest text that reads back as the same number."""
    text = format_double(value)
    return b",%b\r\n" % text if resp == 3 else bulk(text)


def format_double(value: float) -> bytes:
    """Format a double as Redis has done since 7.2: the digits of Grisu2, mostly the fewest that read back as the number.

    Special values are ``inf``, ``-inf`` and ``nan``. Whole numbers up to 2^62 have no exponent; others have one where Redis does.
    """
    if -_LARGEST_IN_FULL <= value <= _LARGEST_IN_FULL:
        whole = int(value)
        if whole == value:
            return b"%d" % whole if whole or math.copysign(1, value) > 0 else b"-0"
        text = repr(value)
        if "e" not in text and (
            _SMALLEST_IN_FULL <= abs(value) < _LARGEST_BROKEN_IN_FULL
            or len(text) - text.index(".") <= _DECIMALS_IN_FULL + 1
        ):
            return text.encode() if _is_well_inside(value, text) else _with_exponent(value)
    elif math.isinf(value):
        return b"inf" if value > 0 else b"-inf"
    elif math.isnan(value):
        return b"nan"
    return _with_exponent(value)


def _is_well_inside(value: float, text: str) -> bool:
    """Return True if Grisu2 finds the same digits as ``repr``.

    It misses digits near the border to the next double, and breaks a tie between two candidates differently from Python.
    """
    numerator, denominator = value.as_integer_ratio()
    scale: int = 10 ** (len(text) - 1 - text.index("."))
    distance = abs(int(text.replace(".", "")) * denominator - numerator * scale)
    # Half of the distance to the next double, less the margin that Grisu2 gives away; a quarter for a power of two.
    part = 0.49 if numerator & (numerator - 1) else 0.24
    limit: float = part * math.ulp(value) * denominator * scale
    return bool(distance <= limit) and 2 * distance != denominator


def _with_exponent(value: float) -> bytes:
    """Format very large and very small numbers, and those for which Redis and Python find different digits."""
    digits, power = grisu.digits_of(abs(value))
    exponent = power + len(digits) - 1
    minus = "-" if value < 0 else ""
    if power >= 0 and exponent < len(digits) + 7:
        return f"{minus}{digits}{'0' * power}".encode()
    if power < 0 and (power >= -_DECIMALS_IN_FULL or abs(exponent) < _EXPONENTS_IN_FULL):
        whole, fraction = digits[: exponent + 1] if exponent >= 0 else "", digits[max(exponent + 1, 0) :]
        return f"{minus}{whole or '0'}.{'0' * (-exponent - 1)}{fraction}".encode()
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{exponent:+d}".encode()


def boolean(value: bool, resp: int) -> bytes:
    """Encode a boolean: ``#t`` or ``#f``; in RESP2 ``:1`` or ``:0``."""
    if resp == 3:
        return b"#t\r\n" if value else b"#f\r\n"
    return ONE if value else ZERO


def verbatim(text: bytes, resp: int) -> bytes:
    """Encode text meant for people (INFO, CLIENT LIST …): ``=len`` with the marker ``txt:``; in RESP2 a bulk string."""
    return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text) if resp == 3 else bulk(text)


def command(argv: Sequence[bytes]) -> bytes:
    """Encode a command as a request, its form in the AOF and in the replication stream."""
    packed: bytes = pack_command(tuple(argv))  # type: ignore[arg-type]  # its stub takes one word
    return packed
