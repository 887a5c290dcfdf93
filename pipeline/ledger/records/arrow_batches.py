"""Convert the rows that a sorter has gathered to Arrow batches, column by column."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .. import schema as on
from ..spelling import canonical_id, spell_name
from .sorter import ACK, ADD, ADD_MAXLEN, CLAIM, MOVE, Sorter

Words = Sequence[bytes | None]

_SCHEMA: Final = on.arrow()
_USUAL: Final = {ADD: on.ADDED, ADD_MAXLEN: on.ADDED, CLAIM: on.CLAIMED, MOVE: on.GROUP_SET, ACK: on.ACKED}
_INT64: Final = range(-(1 << 63), 1 << 63)


@cache
def _events() -> pa.Array:
    """Return the names of all events. The first array that PyArrow makes imports pandas, so it is not made by an import."""
    return pa.array(on.EVENTS)


def batches(sorter: Sorter, file_seq: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a sorter has gathered, one batch per kind of command, and empty the sorter."""
    states = sorter.states
    commands = {
        "kind": _bytes(b"".join(sorter.kinds)),
        "ordinal": _integers(sorter.ordinals),
        "clock_ms": _spread([(end, clock) for end, clock, _ in states], pa.int64()),
        "db": _spread([(end, db) for end, _, db in states], pa.int32()),
    }
    for kind, columns in sorter.columns.items():
        if not columns["stream"]:
            continue
        rows = _of_kind(commands, kind)
        rows |= {name: _COLUMNS[name](words) for name, words in columns.items()}
        if kind == ACK:
            rows = _each_ack(rows, sorter.ack_ends)
        rows["event"] = _event(_USUAL[kind], rows)
        if kind == CLAIM:
            rows["event"] = _events().take(_bytes(sorter.claims))
            rows["at_ms"] = _or(rows["at_ms"], rows["clock_ms"])
        elif kind in {ADD, ADD_MAXLEN}:
            limit = rows.pop("retry_count", None)
            halves = pc.list_element(pc.split_pattern(rows["entry_id"], "-"), 0)
            yield _batch(rows | {"at_ms": halves.cast(pa.int64())}, file_seq)
            if limit is None:
                continue
            del rows["entry_id"]
            rows["ordinal"] = pc.add(rows["ordinal"], 1)
            rows["event"] = _event(on.TRIMMED, rows)
            rows["retry_count"] = limit
        yield _batch({"at_ms": rows["clock_ms"]} | rows, file_seq)
    if sorter.recorder.rows:
        yield _recorded(sorter, file_seq)
    sorter.empty()


def _each_ack(rows: dict[str, Any], ends: list[int]) -> dict[str, Any]:
    """Return the columns of XACK commands, with one row per acknowledged id."""
    ids, begins = rows.pop("entry_id"), pa.array(ends, pa.int32())
    command = pc.list_parent_indices(pa.ListArray.from_arrays(begins, ids))
    rows = {name: column.take(command) for name, column in rows.items()}
    place = pc.subtract(_integers(array("q", range(len(ids)))), begins.take(command))
    return rows | {"entry_id": ids, "ordinal": pc.add(rows["ordinal"], place)}


def _recorded(sorter: Sorter, file_seq: int) -> pa.RecordBatch:
    """Return the rows of the recorder."""
    recorder = sorter.recorder
    dbs, keys, groups, ids, consumers, events, times, counts, lasts, clocks, details = zip(
        *recorder.rows, strict=True
    )
    clock = pa.array(clocks, pa.int64())
    rows = {
        "ordinal": pa.array(array("q", recorder.rows_at), pa.int64()),
        "db": pa.array(dbs, pa.int32()),
        "stream": names_column(keys),
        "group": names_column(groups),
        "entry_id": ids_column(ids),
        "consumer": names_column(consumers),
        "event": _events().take(pa.array(events, pa.int8())),
        "at_ms": _or(numbers_column(times), clock),
        "retry_count": numbers_column(counts),
        "last_id": ids_column(lasts),
        "clock_ms": clock,
        "detail": pa.array(details, pa.binary()).cast(pa.string()),
    }
    return _batch(rows, file_seq)


def _batch(columns: dict[str, Any], file_seq: int) -> pa.RecordBatch:
    """Return a batch of ledger rows; columns that are not given are null."""
    number = len(columns["ordinal"])
    columns["file_seq"] = pa.repeat(pa.scalar(file_seq, pa.int64()), number)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(number, field.type) for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _of_kind(commands: dict[str, Any], kind: int) -> dict[str, Any]:
    """Return the ordinals, clocks and databases of the commands of a kind."""
    these = pc.equal(commands["kind"], kind)
    return {name: column.filter(these) for name, column in commands.items() if name != "kind"}


def _event(event: int, rows: dict[str, Any]) -> Any:
    return pa.repeat(_events()[event], len(rows["ordinal"]))


def _bytes(values: bytes | bytearray) -> Any:
    return pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(values)])


def _integers(values: array[int]) -> Any:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _spread(runs: list[tuple[int, Any]], kind: Any) -> Any:
    """Expand run-length values to one per index, as an Arrow type; each run gives its end and its value."""
    ends: list[int] = []
    values: list[Any] = []
    for end, value in runs:
        # If two runs end at the same index, the second one is empty.
        if end and (not ends or end > ends[-1]):
            ends.append(end)
            values.append(value)
    if not ends:
        return pa.nulls(0, kind)
    found = pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))
    return pc.run_end_decode(found)


def _or(values: Any, others: Any) -> Any:
    return pc.coalesce(values, others) if values.null_count else values


def names_column(words: Words) -> Any:
    """Return a column of names in the ledger's spelling."""
    if (first := words[0]) is not None and words.count(first) == len(words):
        return pa.repeat(spell_name(first), len(words))
    found = pa.array(words, pa.binary())
    try:
        text = found.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(words, spell_name)
    data = found.buffers()[2]
    return _each(words, spell_name) if data is not None and b"\\" in data.to_pybytes() else text


def _each(words: Words, spell: Callable[[bytes], str]) -> Any:
    return pa.array([None if word is None else spell(word) for word in words], pa.string())


def ids_column(words: Words) -> Any:
    """Return a column of ids in canonical form; a word that is not an id (``$``) stays as it is."""
    return _each(words, lambda word: canonical_id(word).decode(errors="backslashreplace"))


def numbers_column(words: Words) -> Any:
    """Return a column of 64-bit integers; null for a word that is not one."""
    try:
        return pa.array(words, pa.binary()).cast(pa.string()).cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array([None if word is None else number_of(word) for word in words], pa.int64())


def number_of(word: bytes | str) -> int | None:
    """Return a word as an integer; None if it is not one of 64 bits."""
    try:
        value = int(word)
    except ValueError:
        return None
    return value if value in _INT64 else None


def _split(pieces: list[bytes]) -> Any:
    """Split a comma-separated text into a column of texts."""
    joined = pa.array([b",".join(pieces)], pa.binary()).cast(pa.string())
    return pc.split_pattern(joined, ",").flatten()


def _split_numbers(pieces: list[bytes]) -> Any:
    """Split a comma-separated text into a column of numbers; null for texts that are no numbers."""
    texts = _split(pieces)
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.array(map(number_of, texts.to_pylist()), pa.int64())


# The columns of common commands.
_COLUMNS: Final[dict[str, Callable[[list[bytes]], Any]]] = {
    "stream": names_column, "group": names_column, "consumer": names_column, "entry_id": _split, "last_id": _split,
    "at_ms": _split_numbers, "retry_count": _split_numbers,
}  # fmt: skip
