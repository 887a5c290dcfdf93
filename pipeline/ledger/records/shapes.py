"""Equal records as columns, without a Python object for any of them.

Records whose words are as long as those of another one have the same *shape*: all lengths stand at the same places and
are the same. So one record is looked at closely, and of all others of its length only whether they have the same bytes
between the values; then their values are as long as they say, whatever bytes these have.

Which words are what is told by a *form*, with a letter for each word::

    =  what the form says, the same in all
    k  key      g  group      c  consumer
    i  entry id                l  another id
    t  time     n  a number    .  anything
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..spelling import name_text
from .column_builders import DIGITS, LONG, even_ids, even_texts, upto
from .record_forms import form_of

_COUNT: Final = re.compile(rb"\*([1-9][0-9]{0,8})\r\n")
_LENGTH: Final = re.compile(rb"\$(0|[1-9][0-9]{0,8})\r\n")
_NAMES: Final = "kgc"
_MOST_WORDS: Final = 40  # of a record that has a form
_FEW: Final = 1024  # records that are not worth it
_SHAPES: Final = 4  # looked for among records of one length


@dataclass(frozen=True, slots=True)
class Alike:
    """Records of one shape, as Arrow columns.

    Attributes:
        form: of all.
        places: which ones of those that were looked through, in order.
        heads: for each record a number.
        names: for each such number the key, the group and the consumer, as far as the form has them.
        ids: the entry ids; more than one column where the form has more.
        lasts, times, numbers: where the form has one.
        has_digits: whether each number is one digit.
    """

    form: str
    places: Any
    heads: Any
    names: list[dict[str, bytes]]
    ids: list[Any]
    lasts: Any = None
    times: Any = None
    numbers: Any = None
    has_digits: bool = False

    def first(self, number: int) -> Alike:
        """So many of them."""
        cut = {
            name: getattr(self, name)[:number]
            for name in ("places", "heads", "lasts", "times", "numbers")
            if getattr(self, name) is not None
        }
        return replace(self, ids=[column[:number] for column in self.ids], **cut)

    def named(self, letter: str) -> Any:
        """A column of their keys, groups or consumers."""
        texts = [name_text(each[letter]) for each in self.names]
        if len(set(texts)) == 1:
            return pa.repeat(texts[0], len(self.heads))
        return pa.array(texts, pa.string()).take(self.heads)


def find_alike(pieces: Any) -> tuple[list[Alike], Any]:
    """Those among some pieces of a file that are records of a form for sure, as far as it is worth it to look.

    Args:
        pieces: a binary array.

    Returns:
        Them, and which pieces are others, as a boolean array.
    """
    lengths = pc.binary_length(pieces)
    found: list[Alike] = []
    for each in pc.value_counts(lengths).to_pylist():
        if each["counts"] >= _FEW:
            found += _of_one_length(pieces, pc.equal(lengths, pa.scalar(each["values"], pa.int32())))
    if not found:
        return found, pa.repeat(True, len(pieces))
    places = pa.concat_arrays([alike.places for alike in found])
    return found, pc.invert(pc.is_in(upto(len(pieces)).cast(places.type), places))


def _of_one_length(pieces: Any, chosen: Any) -> list[Alike]:
    found: list[Alike] = []
    places, left = pc.indices_nonzero(chosen), pieces.filter(chosen)
    for _ in range(_SHAPES):
        shape = _shape_of(left[len(left) // 2].as_py()) if len(left) >= _FEW else None
        if shape is None:
            break
        fits = shape.fits(left)
        if pc.all(fits).as_py():
            alike = shape.read(left, places)
            return found if alike is None else [*found, alike]
        these = places.filter(fits)
        alike = shape.read(left.filter(fits), these) if len(these) >= _FEW else None
        if alike is not None:
            found.append(alike)
        rest = pc.invert(fits)
        places, left = places.filter(rest), left.filter(rest)
    return found


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where in a record which value stands.

    Attributes:
        form: of its words.
        head: how many bytes there are up to and with the last name.
        head_words: how many words these are.
        example: a record.
        spans: of the words behind the head.
        between: what is the same in all records, with the place where it begins; behind the head.
    """

    form: str
    head: int
    head_words: list[bytes]
    example: bytes
    spans: list[tuple[int, int]]
    between: list[tuple[int, bytes]]

    def fits(self, records: Any) -> Any:
        """Which records of its length have this shape, as far as it can be seen without looking into their heads."""
        return reduce(
            pc.and_,
            [
                pc.equal(pc.binary_slice(records, start, start + len(text)), pa.scalar(text))
                for start, text in self.between
            ],
        )

    def read(self, records: Any, places: Any) -> Alike | None:
        """The columns of records that fit; None if the head or a value of one is not as servers write them."""
        heads = pc.binary_slice(records, 0, self.head).dictionary_encode()
        names = [self._names_in(head) for head in heads.dictionary.to_pylist()]
        known = [each for each in names if each is not None]
        if len(known) < len(names):
            return None
        values: dict[str, list[Any]] = {"i": [], "l": [], "t": [], "n": []}
        has_digits = False
        for letter, (start, end) in zip(self.form[len(self.head_words) :], self.spans, strict=True):
            if letter in values:
                data = pc.binary_slice(records, start, end).buffers()[2]
                text = data.to_pybytes()[: len(records) * (end - start)]
                column = (even_ids if letter in "il" else _numbers)(text, len(records))
                if column is None:
                    return None
                values[letter].append(column)
                has_digits = has_digits or (letter == "n" and end - start == 1)
        lasts, times, numbers = ((values[letter] or [None])[0] for letter in "ltn")
        return Alike(
            self.form, places, heads.indices, known, values["i"], lasts, times, numbers, has_digits
        )  # fmt: skip

    def _names_in(self, head: bytes) -> dict[str, bytes] | None:
        """The names in a head; None if it has another form."""
        match = _COUNT.match(head)
        spans = _spans(head) if match and match[0] == self.example[: match.end()] else None
        if spans is None or len(spans) != len(self.head_words):
            return None
        words = [head[start:end] for start, end in spans]
        named = list(zip(self.form, words, self.head_words, strict=False))
        if any(letter == "=" and word != same for letter, word, same in named):
            return None
        return {letter: word for letter, word, _ in named if letter in _NAMES}


def _shape_of(record: bytes) -> _Shape | None:
    """The shape of a record; None if it has no form."""
    match = _COUNT.match(record)
    spans = _spans(record)
    if match is None or spans is None or len(spans) != int(match[1]):
        return None
    words = [record[start:end] for start, end in spans]
    form = form_of(words)
    if form is None:
        return None
    number = 1 + max(form.rfind(letter) for letter in _NAMES)
    head = spans[number - 1][1] + 2
    between: list[tuple[int, bytes]] = []
    at = head
    for letter, (start, end) in zip(form[number:], spans[number:], strict=True):
        if letter != "=":
            between.append((at, record[at:start]))
            at = end
    between.append((at, record[at:]))
    return _Shape(form, head, words[:number], record, spans[number:], between)


def _spans(record: bytes) -> list[tuple[int, int]] | None:
    """Where the words of a record stand; None if they do not end where it does, or are many."""
    match = _COUNT.match(record)
    at = match.end() if match else 0
    spans: list[tuple[int, int]] = []
    while at < len(record) and len(spans) < _MOST_WORDS:
        match = _LENGTH.match(record, at)
        if match is None:
            return None
        start = match.end()
        end = start + int(match[1])
        if record[end : end + 2] != b"\r\n":
            return None
        spans.append((start, end))
        at = end + 2
    return spans if at == len(record) else None


def _numbers(data: bytes, number: int) -> Any | None:
    """Numbers of as many digits each; None if one is none, or perhaps beyond 63 bits."""
    length = len(data) // number
    if not 0 < length < LONG or data.translate(None, DIGITS):
        return None
    return even_texts(data, number, length).cast(pa.int64())
