r"""The fast way through a file: most records that a busy group leaves are much like others, and need not be parsed.

The slow way (``scan.Walk``, hiredis and a ``Sorter``) is the specification: what is read here gives the same rows.

The bytes are cut wherever a record may begin. If each of the pieces is by itself exactly one record then these are the
records: the first begins where one does, so it is one, so the second begins where one does, and so on. A value that looks
like records only makes pieces that are none. Each piece is proved, in one of two ways:

- records of which there are many alike, by their shape (``shapes``);
- all others by hiredis, many at a time: no record begins elsewhere than a piece does, so as many records as pieces means
  one in each.

From the first one on that is not proved, the rest is for the slow way.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hiredis
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_batches import alike_batches
from .column_builders import spread
from .scan import MARK, MARK_RECORD, are_commands, parse, read_annotation
from .shapes import find_alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ordinals import Numbering
    from .sorter import Commands, Sorter

    Runs = list[tuple[int, int | None]]  # up to how many which clock holds

_CLAIM_WORD: Final = b"\r\n$6\r\nXCLAIM\r\n"
_WORTH: Final = 600  # bytes for each XCLAIM; with more the slow way is the faster one
_SAMPLE: Final = 1 << 16  # bytes looked at to know that
_SOME: Final = 512  # records that hiredis parses and a sorter takes at once
_MOST_SKIPPED: Final = 63
_ANNOTATION: Final = re.compile(rb"#[MT]S:[0-9]{1,15}\r\n")
_LINE_END: Final = 0x0A
# Behind the "*"; hiredis takes no more words than there are numbers of 32 bits.
_HEAD: Final = re.compile(rb"[1-9][0-9]{0,9}\r\n\$")
_HEAD_LENGTH: Final = 13
_SET: Final = re.compile(rb"\r\n~[0-9]+\r\n")


class Taken(NamedTuple):
    """What could be read.

    Attributes:
        size: how many bytes, from the first one on; they end where a record does.
        clock: of the last annotation in them.
        batches: the rows of records that are like many others; all other records are with the sorter.
    """

    size: int
    clock: int | None
    batches: list[pa.RecordBatch]


class FastPath:
    """Reads what it can prove.

    Args:
        sorter: gets all records of which there are few alike.
        numbering: gives the ordinals.
        file_seq: as in the rows.
    """

    def __init__(self, sorter: Sorter, numbering: Numbering, file_seq: int) -> None:
        self._sorter = sorter
        self._numbering = numbering
        self._file_seq = file_seq
        self._to_skip = self._skipped = 0

    def is_worth(self, data: bytes) -> bool:
        """Whether it is likely that much of some bytes can be read faster here.

        Where little could be lately, it is tried seldom.
        """
        if self._to_skip:
            self._to_skip -= 1
            return False
        return data.count(_CLAIM_WORD, 0, _SAMPLE) * _WORTH > min(len(data), _SAMPLE)

    def take(self, data: bytes, at: int, position: int, clock: int | None) -> Taken:
        """Read records, but for the last one, of which nobody knows here whether it is whole.

        Args:
            data: bytes.
            at: where in them a record begins.
            position: where in the file that is.
            clock: of the last annotation before.

        Raises:
            LedgerError: a record can not be understood; what the ledger said would be wrong.
        """
        found = _cut(data, at, clock)
        if found is None:
            return Taken(0, clock, [])
        pieces, ends, clocks = found
        ordinals = self._numbering.of_ends(pc.add(ends, position))
        found_alike, is_other = find_alike(pieces)
        sorter = self._sorter
        known, taken = len(sorter.states), sorter.number
        proved = self._take_others(pieces.filter(is_other), is_other, ordinals, clocks)
        self._skipped = 0 if proved * 2 > len(pieces) else min(2 * self._skipped + 1, _MOST_SKIPPED)
        self._to_skip = self._skipped
        if not proved:
            return Taken(0, clock, [])
        changes = [(end - taken, db) for end, _, db in sorter.states[known:]]
        number = len(pieces)
        db_of = _column(self._dbs(changes, is_other), number, pa.int32())
        clock_of = _column(clocks, number, pa.int64())
        batches: list[pa.RecordBatch] = []
        for alike in found_alike:
            before = pc.sum(pc.less(alike.places, proved)).as_py()
            if before:
                places = alike.places[:before]
                batches += alike_batches(
                    alike.first(before),
                    self._file_seq,
                    ordinal=ordinals.take(places),
                    clock_ms=clock_of.take(places),
                    db=db_of.take(places),
                )
        self._numbering.pass_by(ordinals[proved - 1].as_py())
        return Taken(
            ends[proved - 1].as_py(), clocks[bisect_left(clocks, proved, key=itemgetter(0))][1], batches
        )

    def _take_others(self, others: Any, is_other: Any, ordinals: Any, clocks: Any) -> int:
        """Give the sorter what is not like many others; up to which piece all are records."""
        edges = memoryview(others.buffers()[1]).cast("i")
        words = others.buffers()[2]
        numbers = array("q")
        numbers.frombytes(ordinals.filter(is_other).buffers()[1].slice(0, 8 * len(others)))
        runs = _runs_among(clocks, is_other)
        for begin in range(0, len(others), _SOME):
            end = min(begin + _SOME, len(others))
            chunk = words.slice(edges[begin], edges[end] - edges[begin])
            commands = _parsed(chunk.to_pybytes(), edges[begin : end + 1])
            if commands is None:
                place: int = pc.indices_nonzero(is_other)[begin].as_py()
                return place
            self._sorter.take(commands, numbers[begin:end], _runs_between(runs, begin, end))
        return len(is_other)

    def _dbs(self, changes: list[tuple[int, int]], is_other: Any) -> Runs:
        """Up to how many pieces which database held.

        Args:
            changes: up to how many of the others which one held.
            is_other: which pieces are others.
        """
        last = self._sorter.recorder.db
        if all(db == last for _, db in changes):
            return [(len(is_other), last)]
        places = [*pc.indices_nonzero(is_other).to_pylist(), len(is_other)]
        return [*((places[end], db) for end, db in changes), (len(is_other), last)]


def _column(runs: Runs, number: int, kind: Any) -> Any:
    """What holds for each of so many, as an Arrow type."""
    return pa.repeat(pa.scalar(runs[0][1], kind), number) if len(runs) == 1 else spread(runs, kind)


def _runs_among(runs: Runs, chosen: Any) -> Runs:
    """The runs of those that are chosen."""
    if len(runs) == 1:
        return [(pc.sum(chosen).as_py() or 0, runs[0][1])]
    numbers = pc.cumulative_sum(chosen.cast(pa.int32()))
    ends = numbers.take(pa.array([max(end - 1, 0) for end, _ in runs], pa.int32())).to_pylist()
    found: Runs = []
    for number, (end, clock) in zip(ends, runs, strict=True):
        # Of two that end at one place the second holds nowhere.
        if end and number > (found[-1][0] if found else 0):
            found.append((number, clock))
    return found


def _runs_between(runs: Runs, begin: int, end: int) -> Runs:
    """The runs of those from one place to another, of which there is at least one."""
    first = bisect_right(runs, begin, key=itemgetter(0))
    last = bisect_left(runs, end, key=itemgetter(0))
    return [*((to - begin, clock) for to, clock in runs[first:last]), (end - begin, runs[last][1])]


def _cut(data: bytes, at: int, clock: int | None) -> tuple[Any, Any, Runs] | None:
    """Bytes from a place on in pieces before which and behind which records may begin, but for the last one.

    Returns:
        The pieces, as a binary array, without the annotations between them; where in the bytes each ends; and up to
        how many of them which clock holds. None: there is only one piece.
    """
    text, notes = _without_annotations(data, at, clock)
    ends = _ends(_binary(1, pa.py_buffer(struct.pack("=ii", 0, text.size)), text))
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    number = len(ends)
    removed, clocks = [0], [clock]
    until: list[int] = []
    places = (
        pc.index_in(pa.array([note.at for note in notes], pa.int32()), starts).to_pylist() if notes else ()
    )
    for note, place in zip(notes, places, strict=True):
        if place is None:
            # It is in a piece, so it may be in a value.
            number = pc.sum(pc.less_equal(starts, note.at)).as_py() - 1
            break
        until.append(place)
        removed.append(note.removed)
        clocks.append(note.clock)
    if number < 1:
        return None
    until.append(number)
    ends = pc.add(ends[:number], spread(list(zip(until, removed, strict=True)), pa.int64()))
    pieces = _binary(number, starts.buffers()[1], text)
    return pieces, ends, list(zip(until, clocks, strict=True))


def _ends(text: Any) -> Any:
    r"""Behind which bytes of a text (an array of one) a record may begin: where ``*3\r\n$`` or the like stands."""
    # One byte is found much faster than several.
    cut = pc.split_pattern(text, "*").values
    ends = pc.cumulative_sum(pc.add(pc.binary_length(cut[1:-1]), pa.scalar(1, pa.int32())))
    heads = pc.binary_slice(cut[2:], 0, _HEAD_LENGTH).dictionary_encode()
    are_heads = [_HEAD.match(head) is not None for head in heads.dictionary.to_pylist()]
    return ends if all(are_heads) else ends.filter(pa.array(are_heads, pa.bool_()).take(heads.indices))


class _Note(NamedTuple):
    """An annotation: before which byte of what is left, how many bytes were left out up to it, the time it states."""

    at: int
    removed: int
    clock: int | None


def _without_annotations(data: bytes, begin: int, clock: int | None) -> tuple[pa.Buffer, list[_Note]]:
    """Leave out the lines that look like annotations, and what stands before a place."""
    notes: list[_Note] = []
    parts: list[bytes] = []
    at, removed = begin, 0
    start = data.find(b"#", begin)
    while start >= 0:
        match = _ANNOTATION.match(data, start) if data[start - 1] == _LINE_END else None
        if match:
            parts.append(data[at:start])
            at = match.end()
            removed += at - start
            clock = read_annotation(match[0], clock)
            notes.append(_Note(at - begin - removed, removed, clock))
        start = data.find(b"#", start + 1)
    if not notes:
        return pa.py_buffer(data).slice(begin), notes
    return pa.py_buffer(b"".join((*parts, data[at:]))), notes


def _parsed(data: bytes, edges: Sequence[int]) -> Commands | None:
    """The commands in the pieces between some edges, if each is exactly one."""
    reader = hiredis.Reader()
    try:
        commands = parse(reader, data, 0, len(data))
        reader.feed(MARK_RECORD)
        is_whole = reader.gets() == [MARK] and not reader.has_data()
    except (hiredis.HiredisError, MemoryError):
        return None
    if not is_whole or len(commands) != len(edges) - 1 or not are_commands(commands):
        return None
    if set(map(type, map(itemgetter(0), commands))) != {bytes}:
        return None  # something began where no piece does
    # For hiredis a set is a list, too, so one may have stood behind a record; or in a value.
    if b"\r\n~" in data and _SET.search(data):
        if any(set(map(type, command)) != {bytes} for command in commands):
            return None
        if list(map(_written_length, commands)) != [end - start for start, end in pairwise(edges)]:
            return None
    return commands


def _written_length(command: list[bytes]) -> int:
    """How many bytes a command takes in a file."""
    return len(b"*%d\r\n" % len(command)) + sum(
        len(b"$%d\r\n\r\n" % len(word)) + len(word) for word in command
    )


def _binary(number: int, offsets: pa.Buffer, data: pa.Buffer) -> Any:
    return pa.BinaryArray.from_buffers(pa.binary(), number, [None, offsets, data])
