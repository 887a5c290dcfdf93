"""Any file, read in any pieces: the rows of a serial reader, or a refusal; never other rows."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wire import encode_command as record

from rillet.pipeline.ledger import schema
from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.ledger.files.piece import FilePiece, read_piece
from rillet.pipeline.ledger.files.plan import plan, read_ledger
from rillet.pipeline.ledger.records import scan
from rillet.pipeline.ledger.records.arrow_batches import batches
from rillet.pipeline.ledger.records.recorder import Recorder
from rillet.pipeline.ledger.records.scan import START, Cursor, Frontier, Segment, Walk
from rillet.pipeline.ledger.records.sorter import Sorter
from rillet.pipeline.ledger.schema import NAMES
from rillet.storage.aof.scanner import scan_by_hand

BLOCK = 64  # bytes, so that small files have many


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (schema, scan):
        monkeypatch.setattr(module, "BLOCK", BLOCK)


PLAIN = [
    record("XADD", "s", "1-1", "f", "v"),
    record("XCLAIM", "s", "g", "c", "0", "1-1", "TIME", "5", "RETRYCOUNT", "1", "FORCE", "JUSTID", "LASTID", "1-1"),
    record("XACK", "s", "g", "1-1", "2-2", "003-03"),
    record("SELECT", "3"),
    record("SELECT", "0"),
    record("MULTI") + record("XADD", "t", "MAXLEN", "=", "5", "9-9", "f", "v") + record("EXEC"),
    record("DEL", "s", "t"),
    b"#TS:1700000000\r\n",
    b"#MS:1700000000123\r\n",
    b"# a remark\r\n",
]  # fmt: skip
# Values that look like all this, or like the end of what they stand in.
hostile = st.lists(
    st.sampled_from([*PLAIN, b"\r\n", b"#", b"*", b"$", b"*3\r\n$4\r\nXADD\r\n", b"$999\r\n", b"x" * 40]),
    max_size=6,
).map(b"".join)


@st.composite
def cut_values(draw) -> bytes:
    value = draw(hostile)
    return value[: draw(st.integers(0, len(value)))]


records = st.one_of(
    st.sampled_from(PLAIN),
    cut_values().map(lambda value: record("XADD", "s", "7-7", "f", value, "end", "here")),
)
files = st.lists(records, min_size=1, max_size=25).map(b"".join)


def rows_of(pieces: list[FilePiece]) -> list[tuple[object, ...]]:
    """The rows of all pieces, sorted."""
    found = [
        tuple(row.values()) for piece in pieces for batch in read_piece(piece) for row in batch.to_pylist()
    ]
    at = NAMES.index("ordinal")
    return sorted(found, key=lambda row: row[at])


def slowly(data: bytes) -> list[tuple[object, ...]]:
    """The rows by a reader that does one record at a time, by hand."""
    found = scan_by_hand(data)
    sorter, clock, rows = Sorter(Recorder()), None, []
    numbers: dict[int, int] = {}
    for command, begin, end in zip(
        found.commands, found.begins, [*found.begins, found.consumed][1:], strict=True
    ):
        clock = scan.read_annotations(data[begin:end], clock)
        block = (end - 1) // BLOCK
        number = numbers[block] = numbers.get(block, -1) + 1
        ordinal = block * schema.BLOCK_ORDINAL + number * schema.RECORD
        sorter.take([command], [ordinal], [(1, clock)])
        rows += [tuple(row.values()) for batch in batches(sorter, 1) for row in batch.to_pylist()]
    at = NAMES.index("ordinal")
    return sorted(rows, key=lambda row: row[at])


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("split") / "appendonly.aof.1.incr.aof"


@settings(max_examples=examples(60))
@given(data=files, sizes=st.lists(st.integers(1, 90), min_size=1))
def test_how_the_bytes_come_does_not_matter(data, sizes):
    walk, file = Walk(START), io.BytesIO(data)
    taken, turn = [], 0
    while walk.position < len(data):
        limit = min(sizes[turn % len(sizes)], BLOCK - walk.position % BLOCK)
        turn += 1
        taken += each_of(walk.feed(file.read(limit)))
    expected = [
        found for segment in Walk(START).segments(io.BytesIO(data).read) for found in each_of(segment)
    ]
    assert taken == expected
    assert [command for _, _, command in taken] == scan_by_hand(data).commands


def each_of(segment: Segment) -> list[tuple[int, int | None, list[bytes]]]:
    """Its commands, with block and clock."""
    begins = [0, *(end for end, _ in segment.clocks)]
    return [
        (segment.block, clock, command)
        for begin, (end, clock) in zip(begins, segment.clocks, strict=False)
        for command in segment.commands[begin:end]
    ]


@settings(max_examples=examples(250))
@given(data=files, piece_size=st.integers(1, 600))
def test_planned_pieces_give_the_rows_of_one(path, data, piece_size):
    path.write_bytes(data)
    pieces = plan(str(path), piece_size=piece_size)
    assert rows_of(pieces) == slowly(data)
    assert rows_of([FilePiece(str(path), 1)]) == slowly(data)


@settings(max_examples=examples(120))
@given(data=files, cuts=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3)), max_size=4))
def test_pieces_cut_anywhere_give_the_rows_of_one_or_are_refused(path, data, cuts):
    path.write_bytes(data)
    ends = scan_by_hand(data)
    places = sorted(
        {at for at, _ in cuts if at < len(data)} | {end for end in (ends.begins or [])[::3] if end}
    )
    guesses = dict(cuts)
    cursors = [START, *(Cursor(at, guesses.get(at, 0)) for at in places)]
    # What is guessed of clock and number is right if the place is.
    cursors = [with_truth(data, cursor) for cursor in cursors]
    pieces = [
        FilePiece(str(path), 1, start=start, end=end)
        for start, end in zip(cursors, [*cursors[1:], None], strict=True)
    ]
    expected = slowly(data)
    try:
        found = rows_of(pieces)
    except LedgerError:
        return
    assert found == expected


def with_truth(data: bytes, cursor: Cursor) -> Cursor:
    walk = Walk(START)
    index, block = 0, -1
    for segment in walk.segments(io.BytesIO(data[: cursor.position]).read):
        index = (index if segment.block == block else 0) + len(segment.commands)
        block = segment.block
    index = index if block == cursor.position // BLOCK else 0
    return Cursor(cursor.position, cursor.db, walk.clock, index)


@settings(max_examples=examples(60))
@given(data=files, upto=st.integers(0, 2000), piece_size=st.integers(1, 600))
def test_a_file_being_written_is_read_up_to_its_last_whole_record(path, data, upto, piece_size):
    torn = data[:upto]
    path.write_bytes(torn)
    pieces = plan(str(path), piece_size=piece_size)
    assert rows_of(pieces) == slowly(torn[: whole_end(torn)])


def whole_end(data: bytes) -> int:
    """Behind the last whole record that is in no open transaction."""
    found = scan_by_hand(data)
    good, is_open = 0, False
    for command, end in zip(found.commands, [*found.begins, found.consumed][1:], strict=True):
        is_open = command[0] == b"MULTI" or (is_open and command[0] != b"EXEC")
        if not is_open:
            good = end
    return good


@settings(max_examples=examples(60))
@given(data=files, most=st.integers(1, 300), upto=st.integers(0, 2000))
def test_a_frontier_finds_the_places_of_a_serial_reader(path, data, most, upto):
    torn = data[:upto]
    path.write_bytes(torn)
    cursor, pieces = START, []
    while True:
        file = io.BytesIO(torn)
        file.seek(cursor.position)
        after = Frontier(cursor).advance(file.read, most)
        if after.position == cursor.position:
            break
        pieces.append(FilePiece(str(path), 1, start=cursor, end=after))
        cursor = after
    assert cursor.position >= whole_end(torn)
    # What it may have gone over beyond that are annotations.
    assert cursor.position == whole_end(torn) or torn[whole_end(torn) :].startswith(b"#")
    assert rows_of(pieces) == slowly(torn[: whole_end(torn)])


def test_a_packed_file_is_read_like_the_plain_one(tmp_path):
    data = b"".join(PLAIN) * 5
    packed = tmp_path / "appendonly.aof.1.incr.aof.gz"
    packed.write_bytes(gzip.compress(data))
    assert rows_of([FilePiece(str(packed), 1)]) == slowly(data)
    assert next(iter(read_ledger(str(packed)))).num_rows == len(slowly(data))


def test_a_finished_file_that_ends_within_a_record_is_refused(path):
    path.write_bytes(PLAIN[0] + PLAIN[1][:-4])
    with pytest.raises(LedgerError, match="ends within a record"):
        rows_of([FilePiece(str(path), 1)])
    assert len(PLAIN[0]) == FilePiece(str(path), 1, end=Cursor(len(PLAIN[0]))).end.position


def test_values_full_of_records_are_not_taken_for_records(path):
    fake = (record("SELECT", "7") + b"#MS:5\r\n" + record("MULTI") + record("DEL", "s")) * 2
    data = record("SELECT", "1") + b"".join(
        record("XADD", "s", f"{n}-1", "f", fake, "g", "x" * 50) for n in range(1, 30)
    )
    path.write_bytes(data)
    pieces = plan(str(path), piece_size=6 * BLOCK)
    assert len(pieces) > 10
    assert rows_of(pieces) == slowly(data)
