"""What a recorder gathered as Arrow batches: a column at a time, for that is what makes it fast."""

from __future__ import annotations

import re
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from . import schema as on
from .events import CLAIM, MOVE
from .text import id_number, id_text, name_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .events import Recorder, Row

    Words = Sequence[bytes | None]

_EVENTS: Final = pa.array(on.EVENTS)
_SCHEMA: Final = on.arrow()
# Places of key, group, consumer, id, time, count and last id; of key, group, last id and count.
_CLAIM_WORDS: Final = (1, 2, 3, 5, 7, 9, 13)
_MOVE_WORDS: Final = (2, 3, 4, 6)
_DASH: Final = ord("-")
_PADDED: Final = re.compile(rb"-0[0-9]")
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")  # perhaps beyond 64 bits
_LONG_ID: Final = 20  # the shortest in which there can be such a number
_INT64: Final = range(-(1 << 63), 1 << 63)
_BATCH: Final = 1 << 12  # rows; what is gathered should fit in the processor's cache


class Columns:
    """Gathers columns until they are worth a batch.

    Args:
        file_seq: of all rows.
    """

    def __init__(self, file_seq: int) -> None:
        self._file_seq = file_seq
        self._claims = _Lists(len(_CLAIM_WORDS))
        self._moves = _Lists(len(_MOVE_WORDS))
        self._adds = _Lists(2)
        self._acks = _Lists(3)
        self._rows: list[Row] = []
        self._rows_at: list[int] = []

    def take(self, recorder: Recorder) -> Iterator[pa.RecordBatch]:
        """Take what was gathered out of a recorder; the batches that are full."""
        recorder.end_run()
        runs = recorder.runs
        if recorder.claims:
            words = [recorder.claims[place::CLAIM] for place in _CLAIM_WORDS]
            self._claims.add(words, recorder.claims_at, [(run.claims, run.clock, run.db) for run in runs])
        if recorder.moves:
            words = [recorder.moves[place::MOVE] for place in _MOVE_WORDS]
            self._moves.add(words, recorder.moves_at, [(run.moves, run.clock, run.db) for run in runs])
        if recorder.adds:
            words = [recorder.adds[::2], recorder.adds[1::2]]
            self._adds.add(words, recorder.adds_at, [(run.adds, run.clock, run.db) for run in runs])
        if recorder.acks:
            self._take_acks(recorder)
        self._rows += recorder.rows
        self._rows_at += recorder.rows_at
        recorder.empty()
        yield from self._batches(_BATCH)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The batches of all that is left."""
        yield from self._batches(1)

    def _take_acks(self, recorder: Recorder) -> None:
        keys: list[bytes] = []
        groups: list[bytes] = []
        ids: list[bytes] = []
        ordinals: list[int] = []
        numbers = [0]
        for command, ordinal in zip(recorder.acks, recorder.acks_at, strict=True):
            number = len(command) - 3
            keys += command[1:2] * number
            groups += command[2:3] * number
            ids += command[3:]
            ordinals += range(ordinal, ordinal + number)
            numbers.append(len(ordinals))
        runs = [(numbers[run.acks], run.clock, run.db) for run in recorder.runs]
        self._acks.add([keys, groups, ids], ordinals, runs)

    def _batches(self, least: int) -> Iterator[pa.RecordBatch]:
        for lists, make in (
            (self._claims, self._claim_batch),
            (self._moves, self._move_batch),
            (self._adds, self._add_batch),
            (self._acks, self._ack_batch),
        ):
            if len(lists.ordinals) >= least:
                yield make()
                lists.empty()
        if len(self._rows) >= least:
            yield self._row_batch()
            self._rows, self._rows_at = [], []

    def _claim_batch(self) -> pa.RecordBatch:
        keys, groups, consumers, ids, times, counts, lasts = self._claims.words
        clock = _integers(self._claims.clocks, pa.int64())
        entry_ids, last_ids = _ids(ids), _ids(lasts)
        return self._batch(
            self._claims.ordinals,
            db=_integers(self._claims.dbs, pa.int32()),
            stream=_names(keys),
            group=_names(groups),
            entry_id=entry_ids,
            consumer=_names(consumers),
            event=_first_or_not(counts, entry_ids, last_ids),
            at_ms=_or(_numbers(times), clock),
            retry_count=_numbers(counts),
            last_id=last_ids,
            clock_ms=clock,
        )

    def _move_batch(self) -> pa.RecordBatch:
        keys, groups, lasts, counts = self._moves.words
        clock = _integers(self._moves.clocks, pa.int64())
        return self._batch(
            self._moves.ordinals,
            db=_integers(self._moves.dbs, pa.int32()),
            stream=_names(keys),
            group=_names(groups),
            event=_event(on.GROUP_SET, len(keys)),
            at_ms=clock,
            retry_count=_numbers(counts),
            last_id=_ids(lasts),
            clock_ms=clock,
        )

    def _add_batch(self) -> pa.RecordBatch:
        keys, ids = self._adds.words
        clock = _integers(self._adds.clocks, pa.int64())
        entry_ids = _ids(ids)
        return self._batch(
            self._adds.ordinals,
            db=_integers(self._adds.dbs, pa.int32()),
            stream=_names(keys),
            entry_id=entry_ids,
            event=_event(on.ADDED, len(ids)),
            at_ms=_or(_milliseconds(entry_ids), clock),
            clock_ms=clock,
        )

    def _ack_batch(self) -> pa.RecordBatch:
        keys, groups, ids = self._acks.words
        clock = _integers(self._acks.clocks, pa.int64())
        return self._batch(
            self._acks.ordinals,
            db=_integers(self._acks.dbs, pa.int32()),
            stream=_names(keys),
            group=_names(groups),
            entry_id=_ids(ids),
            event=_event(on.ACKED, len(ids)),
            at_ms=clock,
            clock_ms=clock,
        )

    def _row_batch(self) -> pa.RecordBatch:
        dbs, keys, groups, ids, consumers, events, times, counts, lasts, clocks, details = zip(
            *self._rows, strict=True
        )
        clock = _integers(clocks, pa.int64())
        return self._batch(
            self._rows_at,
            db=_integers(dbs, pa.int32()),
            stream=_names(keys),
            group=_names(groups),
            entry_id=_ids(ids),
            consumer=_names(consumers),
            event=_EVENTS.take(pa.array(events, pa.int8())),
            at_ms=_or(_numbers(times), clock),
            retry_count=_numbers(counts),
            last_id=_ids(lasts),
            clock_ms=clock,
            detail=pa.array(details, pa.binary()).cast(pa.string()),
        )

    def _batch(self, ordinals: Sequence[int], **columns: Any) -> pa.RecordBatch:
        number = len(ordinals)
        columns["ordinal"] = pa.array(ordinals, pa.int64())
        columns["file_seq"] = pa.repeat(pa.scalar(self._file_seq, pa.int64()), number)
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(number, field.type)
            for field in _SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


class _Lists:
    """Words of one kind of row, by column, and what goes with them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.empty()

    def empty(self) -> None:
        self.words: list[list[bytes]] = [[] for _ in range(self._number)]
        self.ordinals: list[int] = []
        self.clocks: list[int | None] = []
        self.dbs: list[int] = []

    def add(
        self, words: list[list[bytes]], ordinals: list[int], runs: list[tuple[int, int | None, int]]
    ) -> None:
        """Add rows; the runs say up to how many of them which clock and which database held."""
        for present, more in zip(self.words, words, strict=True):
            present.extend(more)
        self.ordinals += ordinals
        done = 0
        for upto, clock, db in runs:
            if upto > done:
                self.clocks += [clock] * (upto - done)
                self.dbs += [db] * (upto - done)
                done = upto


def _event(event: int, number: int) -> Any:
    return pa.repeat(_EVENTS[event], number)


def _first_or_not(counts: Words, entry_ids: Any, last_ids: Any) -> Any:
    """Delivered or claimed: whether the count is 1 and the entry at least the group's last one."""
    first = pc.equal(pa.array(counts, pa.binary()), b"1")
    is_last = pc.equal(entry_ids, last_ids)
    if not pc.all(pc.or_(is_last, pc.invert(first))).as_py():
        # Numbers of equal length compare as their texts do.
        is_plain = pc.and_(
            pc.equal(pc.binary_length(entry_ids), pc.binary_length(last_ids)),
            pc.equal(pc.find_substring(entry_ids, "-"), pc.find_substring(last_ids, "-")),
        )
        reaches = pc.greater_equal(entry_ids, last_ids)
        if not pc.all(is_plain).as_py():
            reaches = pa.array(
                [
                    plain_answer if plain else id_number(entry_id) >= id_number(last)
                    for plain_answer, plain, entry_id, last in zip(
                        reaches.to_pylist(),
                        is_plain.to_pylist(),
                        entry_ids.to_pylist(),
                        last_ids.to_pylist(),
                        strict=True,
                    )
                ]
            )
        first = pc.and_(first, reaches)
    return pc.if_else(first, _EVENTS[on.DELIVERED], _EVENTS[on.CLAIMED])


def _or(values: Any, others: Any) -> Any:
    return pc.coalesce(values, others) if values.null_count else values


def _integers(values: Sequence[int | None], kind: Any) -> Any:
    first = values[0]
    if values.count(first) == len(values):
        return (
            pa.nulls(len(values), kind) if first is None else pa.repeat(pa.scalar(first, kind), len(values))
        )
    return pa.array(values, kind)


def _names(words: Words) -> Any:
    first = words[0]
    # One look at three before all are compared.
    if first == words[-1] == words[len(words) // 2] and words.count(first) == len(words):
        if first is None:
            return pa.nulls(len(words), pa.string())
        return pa.repeat(name_text(first), len(words))
    found = pa.array(words, pa.binary())
    try:
        text = found.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(words, name_text)
    return _each(words, name_text) if b"\\" in found.buffers()[2].to_pybytes() else text


def _ids(words: Words) -> Any:
    if words.count(None):
        if words.count(None) == len(words):
            return pa.nulls(len(words), pa.string())
        return _each(words, lambda word: id_text(word).decode(errors="backslashreplace"))
    joined = b",".join(words)  # type: ignore[arg-type]
    length = _even_length(joined, len(words))
    if not _are_canonical(joined, len(words), length):
        return _each(words, lambda word: id_text(word).decode(errors="backslashreplace"))
    if not length:
        return pa.array(words, pa.binary()).cast(pa.string())
    data = pa.py_buffer(joined.replace(b",", b""))
    return pa.StringArray.from_buffers(len(words), _offsets(len(words), length), data)


def _are_canonical(joined: bytes, number: int, length: int) -> bool:
    """Whether words with commas between them are certainly ids as servers write them; a doubt costs only time."""
    # What is left without digits says that each word has one dash and nothing else.
    return (
        joined.translate(None, b"0123456789") == b"-," * (number - 1) + b"-"
        and b",-" not in joined
        and b"-," not in joined
        and joined[0] not in b"-0"
        and joined[-1] != _DASH
        and b",0" not in joined
        and not _PADDED.search(joined)
        and (0 < length < _LONG_ID or not _LONG_NUMBER.search(joined))
    )


def _even_length(joined: bytes, number: int) -> int:
    """The length of words that stand with commas between them if they all have the same, else 0."""
    length = (len(joined) + 1) // number - 1
    if (length + 1) * number != len(joined) + 1 or joined[length :: length + 1] != b"," * (number - 1):
        return 0
    return length


@lru_cache(maxsize=64)
def _offsets(number: int, length: int) -> Any:
    return pa.py_buffer(array("i", range(0, number * length + 1, length)).tobytes())


def _milliseconds(ids: Any) -> Any:
    """The first halves of ids, null beyond 2^63-1."""
    lengths = pc.unique(pc.find_substring(ids, "-")).to_pylist()
    if len(lengths) == 1 and lengths[0] is not None and 0 < lengths[0] < 19:
        return pc.binary_slice(ids.cast(pa.binary()), 0, lengths[0]).cast(pa.string()).cast(pa.int64())
    return pa.array(
        [None if entry_id is None else _number(entry_id.partition("-")[0]) for entry_id in ids.to_pylist()],
        pa.int64(),
    )


def _numbers(words: Words) -> Any:
    first = words[0]
    if first == words[-1] and words.count(first) == len(words):
        value = None if first is None else _number(first)
        return pa.nulls(len(words), pa.int64()) if value is None else pa.repeat(value, len(words))
    try:
        return pa.array(words, pa.binary()).cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([None if word is None else _number(word) for word in words], pa.int64())


def _number(word: bytes | str) -> int | None:
    try:
        value = int(word)
    except ValueError:
        return None
    return value if value in _INT64 else None


def _each(words: Words, spell: Callable[[bytes], str]) -> Any:
    return pa.array([None if word is None else spell(word) for word in words], pa.string())
