"""The commands of an append-only file, a piece at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.replies import command
from rillet.storage.aof import piece
from rillet.storage.aof.manifest import FileInfo, Manifest
from rillet.storage.aof.piece import PIECE, Position, begins_with_data, read_piece
from rillet.storage.loading import AofError


def encode(*words: bytes) -> bytes:
    return command(list(words))


def files(folder, *contents: bytes, first: int = 1) -> Manifest:
    infos = [FileInfo(f"a.{seq}.incr.aof", seq, "i") for seq in range(first, first + len(contents))]
    for info, content in zip(infos, contents, strict=True):
        (folder / info.name).write_bytes(content)
    return Manifest(None, [], infos)


def read(folder, manifest, at=Position(), **options):  # noqa: B008 - it is frozen
    """All records from a position on, and the last position."""
    found = []
    left = 1
    while left:
        records, at, left = read_piece(folder, manifest, at, **options)
        found += records
    return found, at


def words_of(records):
    return [record.words for record in records]


def test_a_file_is_read_to_its_end_and_later_what_was_added(tmp_path):
    manifest = files(tmp_path, encode(b"SET", b"a", b"1") * 2)
    found, at = read(tmp_path, manifest)
    assert words_of(found) == [[b"SET", b"a", b"1"]] * 2
    assert read(tmp_path, manifest, at) == ([], at)
    with (tmp_path / "a.1.incr.aof").open("ab") as file:
        file.write(encode(b"SET", b"b", b"2"))
    assert words_of(read(tmp_path, manifest, at)[0]) == [[b"SET", b"b", b"2"]]


def test_each_command_has_the_database_and_the_time_before_it(tmp_path):
    data = b"".join(
        [
            encode(b"SET", b"a", b"1"), encode(b"SELECT", b"3"), b"#TS:1700000000\r\n", encode(b"SET", b"b", b"1"),
            b"#TS:1700000001\r\n#MS:1700000001250\r\n", encode(b"SET", b"c", b"1"),
        ]
    )  # fmt: skip
    found, at = read(tmp_path, files(tmp_path, data, encode(b"SET", b"d", b"1")))
    assert [(one.database, one.time) for one in found if one.words[0] == b"SET"] == [
        (0, 0), (3, 1_700_000_000_000), (3, 1_700_000_001_250), (3, 1_700_000_001_250),
    ]  # fmt: skip
    assert at.seq == 2


@pytest.mark.parametrize("cut", range(1, 40))
def test_an_end_that_is_being_written_is_no_error_and_comes_when_it_is_whole(tmp_path, cut):
    last = b"#TS:1700000000\r\n" + encode(b"SET", b"bb", b"22")
    manifest = files(tmp_path, encode(b"SET", b"a", b"1") + last[:cut])
    found, at = read(tmp_path, manifest)
    assert words_of(found) == [[b"SET", b"a", b"1"]]
    (tmp_path / "a.1.incr.aof").write_bytes(encode(b"SET", b"a", b"1") + last)
    [record], _ = read(tmp_path, manifest, at)
    assert (record.time, record.words) == (1_700_000_000_000, [b"SET", b"bb", b"22"])


def test_a_file_that_ends_within_a_command_leads_to_the_next(tmp_path):
    manifest = files(tmp_path, encode(b"SET", b"a", b"1")[:-4], encode(b"SET", b"b", b"2"))
    assert words_of(read(tmp_path, manifest)[0]) == [[b"SET", b"b", b"2"]]


def test_bytes_that_are_no_command_are_named(tmp_path):
    manifest = files(tmp_path, encode(b"SET", b"a", b"1") + b"nonsense\r\n")
    records, at, left = read_piece(tmp_path, manifest, Position())
    assert (words_of(records), left) == ([[b"SET", b"a", b"1"]], 10)
    with pytest.raises(AofError, match=r"damaged: incr file 1, after byte 27"):
        read_piece(tmp_path, manifest, at)


@pytest.mark.parametrize("at", [Position(1, 1000), Position(2), Position(9, 9)])
def test_a_position_that_is_not_there_is_refused(tmp_path, at):
    with pytest.raises(AofError, match="position"):
        read_piece(tmp_path, files(tmp_path, encode(b"PING")), at)


def test_a_rewrite_that_removed_the_file_lets_the_reader_go_on_with_the_next(tmp_path):
    _, at = read(tmp_path, files(tmp_path, encode(b"SET", b"a", b"1")))
    manifest = files(tmp_path, encode(b"SET", b"b", b"2"), first=2)
    assert words_of(read(tmp_path, manifest, at)[0]) == [[b"SET", b"b", b"2"]]


def test_a_command_that_is_longer_than_a_piece_is_read_without_its_long_words(tmp_path):
    long = encode(b"XADD", b"s", b"1-0", b"f", b"v" * (3 * PIECE), b"g", b"w")
    manifest = files(tmp_path, b"#MS:5\r\n" + long + encode(b"XACK", b"s", b"g", b"1-0"))
    found, _ = read(tmp_path, manifest, longest=10)
    assert words_of(found) == [
        [b"XADD", b"s", b"1-0", b"f", b"v" * 11, b"g", b"w"],
        [b"XACK", b"s", b"g", b"1-0"],
    ]
    assert found[0].time == 5
    (tmp_path / "a.1.incr.aof").write_bytes(long[:-9])
    found, at = read(tmp_path, manifest)
    assert (found, at.offset) == ([], 0)


def test_no_piece_is_larger_than_its_limit_and_every_command_comes_once(tmp_path):
    expected = [[b"SET", b"k%d" % number, b"v" * (number % 300)] for number in range(5_000)]
    manifest = files(tmp_path, b"".join(encode(*words) for words in expected))
    at, left, found = Position(), 1, []
    while left:
        before = at.offset
        records, at, left = read_piece(tmp_path, manifest, at)
        assert 0 < at.offset - before <= PIECE
        found += records
    assert words_of(found) == expected


@given(
    st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=4), max_size=20),
    st.integers(16, 200),
    st.sets(st.integers(0, 20)),
)
def test_pieces_of_any_size_give_the_same_commands(tmp_path_factory, commands, size, annotated):
    folder = tmp_path_factory.mktemp("pieces")
    manifest = files(
        folder,
        b"".join(
            (b"#TS:%d\r\n" % (number + 1) if number in annotated else b"") + encode(*words)
            for number, words in enumerate(commands)
        ),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece, "PIECE", size)
        found, _ = read(folder, manifest, longest=30)
    assert words_of(found) == commands
    times, time = [], 0
    for number in range(len(commands)):
        time = (number + 1) * 1000 if number in annotated else time
        times.append(time)
    assert [record.time for record in found] == times


@pytest.mark.parametrize(
    ("content", "expected"), [(b"", False), (encode(b"SET", b"a", b"1"), True), (b"REDIS", True)]
)
def test_a_base_with_commands_or_one_that_cannot_be_read_holds_data(tmp_path, content, expected):
    (tmp_path / "a.1.base.aof").write_bytes(content)
    assert begins_with_data(tmp_path, Manifest(FileInfo("a.1.base.aof", 1, "b"))) is expected
