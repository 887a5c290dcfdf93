"""Builders of Arrow columns from words: many words at once, with few Python objects."""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import LedgerError
from ..spelling import canonical_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Words = Sequence[bytes | None]

_DIGITS: Final = b"0123456789"

_PADDED: Final = re.compile(rb"-0[0-9]")
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")  # perhaps beyond 64 bits
_LONG_DIGITS: Final = 19  # digits, of which there can be such a number
_INT64: Final = range(-(1 << 63), 1 << 63)


class _Codes(dict[bytes, int]):
    def __missing__(self, word: bytes) -> int:
        self[word] = code = len(self)
        return code


class DictionaryColumn:
    """A column of few different words: each is kept once, with a number for each place where it stands."""

    __slots__ = ("_codes", "_numbers")

    def __init__(self) -> None:
        self._codes = _Codes()
        self._numbers: bytearray | list[int] = bytearray()

    def add(self, words: Sequence[bytes]) -> None:
        """Add words, of which there is at least one."""
        first = words[0]
        if words[-1] == first and words.count(first) == len(words):
            numbers: Any = [self._codes[first]] * len(words)
        else:
            numbers = list(map(self._codes.__getitem__, words))
        try:
            self._numbers.extend(numbers)
        except ValueError:  # more than 256 different ones
            self._numbers = list(self._numbers)
            self._numbers.extend(numbers)

    def column(self, spell: Callable[[bytes], Any], kind: Any, places: Any = None) -> Any:
        """Return what a function makes of each word, as an Arrow type; or of those at some places."""
        found = pa.array(map(spell, self._codes), kind)
        if len(found) == 1:
            return pa.repeat(found[0], len(self._numbers if places is None else places))
        numbers = self._places()
        return found.take(numbers if places is None else numbers.take(places))

    def _places(self) -> Any:
        numbers = self._numbers
        if isinstance(numbers, list):
            return pa.array(numbers, pa.int32())
        return pa.Array.from_buffers(pa.uint8(), len(numbers), [None, pa.py_buffer(numbers)])


class JoinedColumn:
    """A column of numbers or of ids, as texts that only have digits and, each id, one dash."""

    __slots__ = ("_number", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._number = 0

    def add(self, joined: bytes, number: int) -> None:
        """Add words with commas between them, of which there is at least one."""
        self._pieces.append(joined)
        self._number += number

    def numbers(self) -> Any:
        """Return the words as numbers, null where one has more than 63 bits."""
        joined = b",".join(self._pieces)
        length = _even_length(joined, self._number)
        if 0 < length < _LONG_DIGITS:
            return _even_column(joined, self._number, length).cast(pa.int64())
        return numbers_column(joined.split(b","))

    def ids(self) -> tuple[Any, int]:
        """Return the words as ids in their canonical form, and how long their first halves are; 0 if not all alike.

        Raises:
            LedgerError: one lacks a half.
        """
        return _joined_ids(b",".join(self._pieces), self._number)


def are_ids(joined: bytes, number: int) -> bool:
    """Return whether words with commas between them have digits and one dash each; ids of servers do."""
    return joined.translate(None, _DIGITS) == b"-," * (number - 1) + b"-"


def are_numbers(joined: bytes, number: int) -> bool:
    """Return whether words with commas between them have only digits."""
    return joined.translate(None, _DIGITS) == b"," * (number - 1)


def first_halves(ids: Any, length: int) -> Any:
    """Return the milliseconds of ids, null beyond 2^63-1; their length as of ``JoinedColumn.ids``."""
    if 0 < length < _LONG_DIGITS:
        return pc.binary_slice(ids.cast(pa.binary()), 0, length).cast(pa.string()).cast(pa.int64())
    return pa.array(
        [None if entry_id is None else number_of(entry_id.partition("-")[0]) for entry_id in ids.to_pylist()],
        pa.int64(),
    )


def integers(values: Sequence[int | None], kind: Any) -> Any:
    """Return a column of integers of an Arrow type."""
    first = values[0]
    if values.count(first) == len(values):
        return (
            pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
        )
    return pa.array(values, kind)


def ids_column(words: Words) -> Any:
    """Return a column of ids in their canonical form; of any words."""
    if words.count(None) == len(words):
        return pa.nulls(len(words), pa.string())
    return pa.array(
        [None if word is None else canonical_id(word).decode(errors="backslashreplace") for word in words],
        pa.string(),
    )


def _joined_ids(joined: bytes, number: int) -> tuple[Any, int]:
    length = _even_length(joined, number)
    dash = _dash_of_even(joined, number, length, length + 1) if length else 0
    if dash:
        return _even_column(joined, number, length), dash
    if not _are_canonical(joined):
        words = joined.split(b",")
        if any(word[:1] == b"-" or word[-1:] == b"-" for word in words):
            raise LedgerError("an id of which there is only one half")
        return ids_column(words), 0
    text = pa.StringArray.from_buffers(1, _offsets(1, len(joined)), pa.py_buffer(joined))
    found = pc.split_pattern(text, ",").flatten()
    dashes = pc.min_max(pc.find_substring(found, "-")).as_py()
    return found, dashes["min"] if dashes["min"] == dashes["max"] else 0


def _are_canonical(joined: bytes) -> bool:
    """Return whether words with commas between them that have the look of ids are canonical; a doubt costs only time."""
    return (
        b",-" not in joined
        and b"-," not in joined
        and joined[:1] not in {b"-", b"0"}
        and joined[-1:] != b"-"
        and b",0" not in joined
        and not _PADDED.search(joined)
        and not _LONG_NUMBER.search(joined)
    )


def _even_length(joined: bytes, number: int) -> int:
    """Return the length of words that stand with commas between them if they all have the same, else 0."""
    length = (len(joined) + 1) // number - 1
    if (length + 1) * number != len(joined) + 1 or joined[length :: length + 1] != b"," * (number - 1):
        return 0
    return length


def _even_column(joined: bytes, number: int, length: int) -> Any:
    """Return a column of ASCII texts of one length, from these texts with commas between them."""
    data = pa.py_buffer(joined.replace(b",", b""))
    return pa.StringArray.from_buffers(number, _offsets(number, length), data)


def _dash_of_even(data: bytes, number: int, length: int, step: int) -> int:
    """Return where the dash is in ids of one length that begin at every step; 0 if not in all there, or one is not canonical."""
    dash = data.find(b"-")
    if not 0 < dash < length - 1 or data[dash::step] != b"-" * number:
        return 0
    # All halves begin and end at the same places: a look at each of these is enough.
    is_padded = (dash > 1 and b"0" in data[::step]) or (length - dash > 2 and b"0" in data[dash + 1 :: step])
    return 0 if is_padded or dash >= _LONG_DIGITS or length - dash > _LONG_DIGITS else dash


def _offsets(number: int, length: int) -> Any:
    return pc.multiply(upto(number + 1), length).cast(pa.int32()).buffers()[1]


@lru_cache  # of powers of two
def _first_numbers(number: int) -> Any:
    return pa.array(array("q", range(number)), pa.int64())


def upto(number: int) -> Any:
    """Return the integers from 0 on, so many."""
    return _first_numbers(1 << max(number - 1, 1).bit_length())[:number]


def spread(runs: list[tuple[int, Any]], kind: Any) -> Any:
    """Return one value for each place, as an Arrow type; the runs say up to which place which one holds."""
    ends: list[int] = []
    values: list[Any] = []
    for end, value in runs:
        # Of two that end at one place the second holds nowhere.
        if end and (not ends or end > ends[-1]):
            ends.append(end)
            values.append(value)
    if not ends:
        return pa.nulls(0, kind)
    found = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))
    return pc.run_end_decode(found)


def numbers_column(words: Words) -> Any:
    """Return a column of 64-bit numbers; null for what is none."""
    first = words[0]
    if first == words[-1] and words.count(first) == len(words):
        value = None if first is None else number_of(first)
        return pa.nulls(len(words), pa.int64()) if value is None else pa.repeat(value, len(words))
    try:
        return pa.array(words, pa.binary()).cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([None if word is None else number_of(word) for word in words], pa.int64())


def number_of(word: bytes | str) -> int | None:
    """Return a 64-bit number, or None."""
    try:
        value = int(word)
    except ValueError:
        return None
    return value if value in _INT64 else None
