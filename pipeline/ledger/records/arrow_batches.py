"""What a sorter gathered as Arrow batches, a column at a time."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .. import schema as on
from ..spelling import id_number, spell_name
from .column_builders import first_halves, ids_column, integers, number_of, numbers_column, spread, upto
from .sorter import ACK, ADD, ADD_MAXLEN, ADD_MINID, CLAIM, MOVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .sorter import Columns, Sorter

    Words = Sequence[bytes | None]

_EVENTS: Final = pa.array(on.EVENTS)
_SCHEMA: Final = on.arrow()


def batches(sorter: Sorter, file_seq: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows that were gathered, a batch for each kind of command; the sorter is empty then."""
    making = _Making(sorter, file_seq)
    kinds = set().union(*sorter.kinds)
    for kind, make in (
        (CLAIM, making.claims),
        (MOVE, making.moves),
        (ADD, making.adds),
        (ACK, making.acks),
    ):
        if kind in kinds:
            yield make()
    for kind, found in ((ADD_MAXLEN, sorter.maxlens), (ADD_MINID, sorter.minids)):
        if kind in kinds:
            yield from making.limited_adds(kind, found)
    if sorter.recorder.rows:
        yield making.others()
    sorter.empty()


class _Making:
    def __init__(self, sorter: Sorter, file_seq: int) -> None:
        self._sorter = sorter
        self._file_seq = file_seq
        number = sorter.number
        self._kinds = pa.Array.from_buffers(pa.uint8(), number, [None, pa.py_buffer(b"".join(sorter.kinds))])
        states = sorter.states
        self._has_one_state = len({state[1:] for state in states}) == 1
        self._ordinals = pa.Array.from_buffers(pa.int64(), number, [None, pa.py_buffer(sorter.ordinals)])

    def claims(self) -> pa.RecordBatch:
        """Return the rows of XCLAIM."""
        found = self._sorter.claims
        where = self._where(CLAIM)
        entry_ids, _ = found.ids.ids()
        last_ids, _ = found.lasts.ids()
        is_once = found.counts.column(b"1".__eq__, pa.bool_())
        return self._batch(
            **where,
            stream=found.streams.column(spell_name, pa.string()),
            group=found.groups.column(spell_name, pa.string()),
            entry_id=entry_ids,
            consumer=found.consumers.column(spell_name, pa.string()),
            event=_first_or_not(is_once, entry_ids, last_ids),
            at_ms=_or(found.times.numbers(), where["clock_ms"]),
            retry_count=found.counts.column(number_of, pa.int64()),
            last_id=last_ids,
        )

    def moves(self) -> pa.RecordBatch:
        """Return the rows of XGROUP SETID."""
        found = self._sorter.moves
        where = self._where(MOVE)
        return self._batch(
            **where,
            stream=found.streams.column(spell_name, pa.string()),
            group=found.groups.column(spell_name, pa.string()),
            event=_event(on.GROUP_SET, len(where["ordinal"])),
            at_ms=where["clock_ms"],
            retry_count=found.numbers.numbers(),
            last_id=found.lasts.ids()[0],
        )

    def adds(self) -> pa.RecordBatch:
        """Return the rows of XADD."""
        found = self._sorter.adds
        return self._added(found, self._where(ADD), found.streams.column(spell_name, pa.string()))

    def limited_adds(self, kind: int, found: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the rows of XADD with MAXLEN or MINID: the additions, and what they trim."""
        where = self._where(kind)
        stream = found.streams.column(spell_name, pa.string())
        yield self._added(found, where, stream)
        limit = (
            {"retry_count": found.numbers.numbers()}
            if kind == ADD_MAXLEN
            else {"last_id": found.lasts.ids()[0]}
        )
        yield self._batch(
            **{**where, "ordinal": pc.add(where["ordinal"], 1)},
            stream=stream,
            event=_event(on.TRIMMED, len(stream)),
            at_ms=where["clock_ms"],
            **limit,
        )

    def _added(self, found: Columns, where: dict[str, Any], stream: Any) -> pa.RecordBatch:
        entry_ids, half = found.ids.ids()
        return self._batch(
            **where,
            stream=stream,
            entry_id=entry_ids,
            event=_event(on.ADDED, len(entry_ids)),
            at_ms=_or(first_halves(entry_ids, half), where["clock_ms"]),
        )

    def acks(self) -> pa.RecordBatch:
        """Return the rows of XACK: a row for each of its ids."""
        found = self._sorter.acks
        entry_ids, _ = found.ids.ids()
        ends = pa.array(self._sorter.ack_ends, pa.int32())
        command = pc.list_parent_indices(pa.ListArray.from_arrays(ends, entry_ids))
        where = self._where(ACK, command)
        place = pc.subtract(upto(len(entry_ids)), ends.take(command))
        where["ordinal"] = pc.add(where["ordinal"], place)
        return self._batch(
            **where,
            stream=found.streams.column(spell_name, pa.string(), command),
            group=found.groups.column(spell_name, pa.string(), command),
            entry_id=entry_ids,
            event=_event(on.ACKED, len(entry_ids)),
            at_ms=where["clock_ms"],
        )

    def others(self) -> pa.RecordBatch:
        """Return all other rows."""
        recorder = self._sorter.recorder
        dbs, keys, groups, ids, consumers, events, times, counts, lasts, clocks, details = zip(
            *recorder.rows, strict=True
        )
        clock = integers(clocks, pa.int64())
        return self._batch(
            ordinal=pa.array(array("q", recorder.rows_at), pa.int64()),
            db=integers(dbs, pa.int32()),
            stream=_names(keys),
            group=_names(groups),
            entry_id=ids_column(ids),
            consumer=_names(consumers),
            event=_EVENTS.take(pa.array(events, pa.int8())),
            at_ms=_or(numbers_column(times), clock),
            retry_count=numbers_column(counts),
            last_id=ids_column(lasts),
            clock_ms=clock,
            detail=pa.array(details, pa.binary()).cast(pa.string()),
        )

    def _where(self, kind: int, places: Any = None) -> dict[str, Any]:
        """Return ordinal, clock and database of the commands of a kind; or of those at some places among them."""
        these = pc.equal(self._kinds, kind)

        def those(column: Any) -> Any:
            found = column.filter(these)
            return found if places is None else found.take(places)

        columns = {"ordinal": those(self._ordinals)}
        number = len(columns["ordinal"])
        states = self._sorter.states
        for place, (name, type_) in enumerate({"clock_ms": pa.int64(), "db": pa.int32()}.items(), 1):
            if self._has_one_state:
                columns[name] = pa.repeat(pa.scalar(states[0][place], type_), number)
            else:
                columns[name] = those(spread([(state[0], state[place]) for state in states], type_))
        return columns

    def _batch(self, **columns: Any) -> pa.RecordBatch:
        """Return rows of the ledger; columns that are not given are null."""
        number = len(columns["ordinal"])
        columns["file_seq"] = pa.repeat(pa.scalar(self._file_seq, pa.int64()), number)
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(number, field.type)
            for field in _SCHEMA
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _event(event: int, number: int) -> Any:
    return pa.repeat(_EVENTS[event], number)


def _first_or_not(is_once: Any, entry_ids: Any, last_ids: Any) -> Any:
    """Return delivered or claimed, by whether the count is 1 and the entry at least the group's last one."""
    is_last = pc.equal(entry_ids, last_ids)
    if not pc.all(pc.or_(is_last, pc.invert(is_once))).as_py():
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
        is_once = pc.and_(is_once, reaches)
    return pc.if_else(is_once, _EVENTS[on.DELIVERED], _EVENTS[on.CLAIMED])


def _or(values: Any, others: Any) -> Any:
    return pc.coalesce(values, others) if values.null_count else values


def _names(words: Words) -> Any:
    first = words[0]
    # One look at three before all are compared.
    if first == words[-1] == words[len(words) // 2] and words.count(first) == len(words):
        if first is None:
            return pa.nulls(len(words), pa.string())
        return pa.repeat(spell_name(first), len(words))
    found = pa.array(words, pa.binary())
    try:
        text = found.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(words, spell_name)
    return _each(words, spell_name) if b"\\" in found.buffers()[2].to_pybytes() else text


def _each(words: Words, spell: Callable[[bytes], str]) -> Any:
    return pa.array([None if word is None else spell(word) for word in words], pa.string())
