"""Following a folder that is written to, rewritten and restarted: each row once, whatever happens between two looks."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wire import encode_command

from rillet.pipeline.ledger.errors import LedgerError, RowsLostError
from rillet.pipeline.ledger.files.follower import Follower, Place
from rillet.pipeline.ledger.files.piece import read_piece
from rillet.pipeline.ledger.files.plan import read_ledger
from rillet.storage.aof.writer import AppendOnlyFile

Row = tuple[object, ...]


class Writer:
    """A server, as far as its append-only file goes."""

    def __init__(self, root: Path, *, keep: bool = True) -> None:
        self.root = root
        self.number = 0
        self.selected_in = None  # the file that the last SELECT is in
        self.aof = AppendOnlyFile.open(
            root, "appendonlydir", "appendonly.aof", timestamps="ms",
            outdated=lambda _folder, history: [] if keep else history,
        )  # fmt: skip

    @property
    def path(self) -> str:
        return str(self.root / "appendonlydir")

    def file(self, number: int) -> Path:
        return self.root / "appendonlydir" / f"appendonly.aof.{number}.incr.aof"

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self.number += 1
            self.aof.annotate(1000 + self.number // 3)
            if self.aof.manifest.incr[-1] != self.selected_in:
                self.selected_in = self.aof.manifest.incr[-1]
                self.aof.append(encode_command("SELECT", "0"))
            self.aof.append(
                encode_command("XADD", "s", f"{self.number}-1", "f", "#MS:5\r\n" * (self.number % 4))
            )
        self.aof.write()

    def write_part(self) -> None:
        """What a look may see while a write is under way."""
        self.aof.append(b"*2\r\n$3\r\nDEL\r\n")
        self.aof.write()
        self.aof.append(b"$1\r\nx\r\n")

    def begin_rewrite(self) -> None:
        self.aof.start_new_incr()

    def end_rewrite(self) -> None:
        temporary = self.root / "appendonlydir" / f"temp-{self.number}"
        temporary.write_bytes(encode_command("XADD", "s", "0-9", "f", "v"))
        self.aof.install_base(temporary, rdb=False)
        self.aof.remove_history()


def rows_of(batches) -> list[Row]:
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row[10], row[11]))


class Query:
    """What Spark does with a source: offsets go through JSON, and batches may be read twice."""

    def __init__(self, path: str, piece_size: int = 1 << 20) -> None:
        self.path = path
        self.piece_size = piece_size
        self.rows: list[Row] = []
        self.follower = Follower(path, piece_size=piece_size)
        self.offset = self.follower.first().encode()

    def restart(self) -> None:
        self.follower.close()
        self.follower = Follower(self.path, piece_size=self.piece_size)

    def close(self) -> None:
        self.follower.close()

    def take(self, most: int = 1 << 40, *, crash: bool = False) -> bool:
        """One batch; whether there was anything new. After a crash only its offsets are known."""
        start = Place.decode(self.offset)
        end = json.loads(json.dumps(self.follower.ahead(start, most).encode()))
        if end == self.offset:
            return False
        if crash:
            self.restart()
        for piece in self.follower.pieces(start, Place.decode(end)):
            self.rows += rows_of(read_piece(piece))
        self.offset = end
        self.follower.forget(Place.decode(end))
        return True

    def finish(self, most: int = 1 << 40) -> None:
        while self.take(most):
            pass


things = st.sampled_from(
    ["add", "add", "part", "rewrite", "begin", "end", "take", "take a little", "restart", "crash"]
)


@settings(max_examples=examples(60))
@given(st.lists(things, max_size=30), st.integers(1, 500))
def test_every_row_comes_once(tmp_path_factory, steps, size):
    writer = Writer(tmp_path_factory.mktemp("follow"))
    query = Query(writer.path, size)
    under_way = False
    for step in steps:
        match step:
            case "add":
                writer.add(5)
            case "part":
                writer.write_part()
            case "rewrite" | "begin" if not under_way:
                writer.begin_rewrite()
                under_way = step == "begin"
                if not under_way:
                    writer.end_rewrite()
            case "end" if under_way:
                under_way = False
                writer.end_rewrite()
            case "take":
                query.take()
            case "take a little":
                query.take(size)
            case "restart":
                query.restart()
            case "crash":
                query.take(size, crash=True)
    writer.add()
    query.finish(size)
    writer.aof.close()
    query.close()
    assert sorted(query.rows, key=lambda row: (row[10], row[11])) == rows_of(read_ledger(writer.path))
    assert len({(row[10], row[11]) for row in query.rows}) == len(query.rows)


@pytest.fixture
def writer(tmp_path):
    writer = Writer(tmp_path, keep=False)
    yield writer
    writer.aof.close()


@pytest.fixture
def started(writer):
    """A query that reads what was there at first: three entries, or some of them."""
    writer.add(3)
    query = Query(writer.path)
    yield query
    query.close()


def added(query: Query) -> list[str]:
    return [row[3] for row in query.rows if row[5] == "added" and row[11] >= 0]


def test_a_file_that_goes_while_it_is_read_is_read_to_its_end(writer, started):
    started.take(60)
    writer.add(3)
    writer.begin_rewrite()
    writer.add(2)
    writer.end_rewrite()
    started.finish(60)
    assert added(started) == [f"{number}-1" for number in range(1, 9)]


def test_a_file_may_end_with_an_annotation(writer, started):
    """As after a crash between an annotation and its record."""
    with writer.file(1).open("ab") as file:
        file.write(b"#MS:1234\r\n")
    writer.begin_rewrite()
    writer.add(1)
    started.finish()
    assert added(started) == [f"{number}-1" for number in range(1, 5)]


def test_a_file_that_went_before_it_was_seen_is_missed(writer, started):
    started.take()
    for _ in range(2):
        writer.begin_rewrite()
        writer.add(2)
        writer.end_rewrite()
    with pytest.raises(RowsLostError, match="file 2 came and went unread"):
        started.take()


def test_a_restart_after_a_rewrite_that_kept_nothing_is_an_error(writer, started):
    started.take(60)
    writer.begin_rewrite()
    writer.end_rewrite()
    started.restart()
    with pytest.raises(
        RowsLostError, match=r"file 1 is gone and was not read to its end.*aof-history-retention"
    ):
        started.take()


def test_a_follower_that_tolerates_loss_continues_with_the_base(writer, started):
    started.take(60)
    writer.begin_rewrite()
    writer.add(1)
    writer.end_rewrite()
    started.follower.close()
    started.follower = Follower(writer.path, piece_size=1000, tolerate_loss=True)
    started.finish()
    assert [(row[3], row[11] < 0) for row in started.rows[-2:]] == [("0-9", True), ("4-1", False)]


def test_a_shorter_file_is_an_error(writer, started):
    started.take()
    writer.file(1).write_bytes(writer.file(1).read_bytes()[:50])
    with pytest.raises(RowsLostError, match="is shorter than what was read"):
        started.take()


def test_a_query_that_stops_here_sees_nothing_newer(writer, started):
    started.follower.stop_here()
    writer.add(3)
    writer.begin_rewrite()
    writer.end_rewrite()
    started.finish(60)
    assert added(started) == ["1-1", "2-1", "3-1"]


def size(writer, number):
    return writer.file(number).stat().st_size


def behind(query, place):
    return tuple(query.follower.backlog(place).values())


def test_the_backlog_is_what_lies_behind_a_place(writer, started):
    written = size(writer, 1)
    start = Place.decode(started.offset)
    assert behind(started, start) == (1, written, written, None)  # no annotation was read yet
    started.take(60)
    here = Place.decode(started.offset)
    _, position, left, _ = behind(started, here)
    assert (position, left) == (written, written - here.cursor.position)
    assert 0 < left < written
    started.finish()
    assert behind(started, Place.decode(started.offset)) == (1, written, 0, 0.0)


def test_the_backlog_is_counted_in_seconds_from_the_last_annotation_to_the_last_write(writer, started):
    started.take(60)
    here = Place.decode(started.offset)
    os.utime(writer.file(1), ns=(0, (here.cursor.clock + 2500) * 1_000_000))
    assert started.follower.backlog(here)["seconds_behind"] == 2.5


def test_the_backlog_reaches_over_rewrites_and_files_that_are_gone(writer, started):
    started.take(60)
    here = Place.decode(started.offset)
    left = size(writer, 1) - here.cursor.position
    started.follower.backlog(here)  # it sees the file before it goes
    writer.begin_rewrite()
    writer.add(2)
    writer.end_rewrite()
    assert not writer.file(1).exists()
    assert behind(started, here)[:3] == (2, size(writer, 2), left + size(writer, 2))
    started.finish(60)
    assert started.follower.backlog(Place.decode(started.offset))["bytes_behind"] == 0


def test_a_base_counts_until_it_was_read(writer, started):
    writer.begin_rewrite()
    writer.add(2)
    writer.end_rewrite()
    query = Query(writer.path)
    base = next((writer.root / "appendonlydir").glob("*.base.*")).stat().st_size
    assert Place.decode(query.offset).is_base
    assert query.follower.backlog(Place.decode(query.offset))["bytes_behind"] == base + size(writer, 2)
    query.finish()
    assert query.follower.backlog(Place.decode(query.offset))["bytes_behind"] == 0
    query.close()


def test_an_offset_of_another_version_is_refused():
    with pytest.raises(LedgerError, match="an offset that this version does not know"):
        Place.decode({"v": 2})
