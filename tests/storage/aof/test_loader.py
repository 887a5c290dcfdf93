import os
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.replies import command as encode
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.writer import AppendOnlyFile
from rillet.storage.files import FileOperations
from rillet.storage.loading import AofError
from rillet.storage.rdb import ByteSource

RDB = b"REDIS0010\xfa\x08aof-base\xc0\x01\xff" + bytes(8)
ONE, TWO = [b"XADD", b"s", b"1-1", b"a", b"b"], [b"XADD", b"s", b"2-1", b"a", b"b"]
MULTI, EXEC = [b"MULTI"], [b"EXEC"]

commands = st.lists(st.binary(max_size=30), min_size=1, max_size=5).filter(
    lambda command: command[0].upper() not in {b"MULTI", b"EXEC"}
)
groups = st.lists(
    commands.map(lambda command: [command])
    | st.lists(commands, min_size=1, max_size=3).map(lambda inner: [MULTI, *inner, EXEC]),
    max_size=12,
)


def folder(root: Path, *parts: bytes) -> Path:
    """An AOF folder whose first part is the base, the others incr files."""
    directory = root / "appendonlydir"
    directory.mkdir(parents=True, exist_ok=True)
    manifest = b""
    for number, data in enumerate(parts):
        name = f"appendonly.aof.{number}.part"
        (directory / name).write_bytes(data)
        manifest += b"file %s seq %d type %s\n" % (name.encode(), number or 1, b"i" if number else b"b")
    (directory / "appendonly.aof.manifest").write_bytes(manifest)
    return directory


def loader(root: Path, **options) -> AofLoader:
    return AofLoader(root, "appendonlydir", "appendonly.aof", **options)


def load(root: Path, **options) -> list[list[bytes]]:
    return [command for batch in loader(root, **options).batches() for command in batch]


def encoded(*records: list[bytes]) -> bytes:
    return b"".join(map(encode, records))


@given(groups, groups, st.integers(1, 200))
def test_what_is_written_is_loaded(tmp_path_factory, first, second, chunk_size):
    root = tmp_path_factory.mktemp("aof")
    written = []
    aof = AppendOnlyFile.open(root, "appendonlydir", "appendonly.aof", timestamps=True)
    for number, group in enumerate((first, second)):
        for tick, records in enumerate(group):
            aof.annotate((tick + number * 100) * 400)
            for record in records:
                aof.append(encode(record))
            aof.write()
            written += records
        aof.start_new_incr()
    aof.close()
    reading = loader(root, chunk_size=chunk_size)
    assert [command for batch in reading.batches() for command in batch] == written
    assert reading.loaded_bytes == reading.total_bytes == aof.size


@given(groups, st.data(), st.integers(1, 200))
def test_a_cut_file_gives_its_longest_whole_beginning(tmp_path_factory, written, data, chunk_size):
    root = tmp_path_factory.mktemp("aof")
    sizes = list(accumulate((len(encoded(*group)) for group in written), initial=0))
    cut = data.draw(st.integers(0, sizes[-1]))
    whole = max(number for number, size in enumerate(sizes) if size <= cut)
    directory = folder(root, b"", b"".join(encoded(*group) for group in written)[:cut])
    expected = [command for group in written[:whole] for command in group]
    assert load(root, chunk_size=chunk_size) == expected
    assert (directory / "appendonly.aof.1.part").stat().st_size == sizes[whole]
    assert load(root, chunk_size=chunk_size) == expected


def test_a_large_file_comes_in_batches_that_say_how_far_they_are(tmp_path: Path):
    records = [[b"XADD", b"s", b"%d-1" % number, b"f", b"v" * 50] for number in range(1000)]
    folder(tmp_path, b"", encoded(*records))
    reading = loader(tmp_path, chunk_size=10_000)
    progress = [(reading.loaded_bytes, len(batch)) for batch in reading.batches()]
    assert len(progress) > 8
    assert sum(count for _, count in progress) == 1000
    assert [done for done, _ in progress] == sorted({done for done, _ in progress})
    assert progress[-1][0] == reading.total_bytes


def test_a_value_larger_than_many_chunks_is_read_in_a_few_reads(tmp_path: Path):
    reads = []

    def read(fd, count):
        reads.append(count)
        return os.read(fd, count)

    folder(tmp_path, b"", encoded([b"SET", b"k", b"v" * 100_000], ONE))
    assert len(load(tmp_path, chunk_size=100, files=FileOperations(read=read))) == 2
    assert len(reads) < 30


def test_a_transaction_larger_than_a_chunk_comes_whole(tmp_path: Path):
    folder(tmp_path, b"", encoded(ONE, MULTI, *[TWO] * 50, EXEC, ONE))
    batches = list(loader(tmp_path, chunk_size=64).batches())
    assert [MULTI, *[TWO] * 50, EXEC] == next(batch for batch in batches if MULTI in batch)[-52:]


def test_a_length_beyond_the_end_of_the_file_is_not_waited_for(tmp_path: Path):
    bogus = b"*2\r\n$3\r\nDEL\r\n$99999999\r\n"
    directory = folder(tmp_path, b"", encoded(ONE) + bogus + b"x" * 100_000)
    reads = []

    def read(fd, count):
        reads.append(count)
        return os.read(fd, count)

    reading = loader(tmp_path, chunk_size=1000, files=FileOperations(read=read))
    reads.clear()
    assert list(reading.batches()) == [[ONE]]
    assert sum(reads) < 5000
    assert (directory / "appendonly.aof.1.part").stat().st_size == len(encoded(ONE))


@pytest.mark.parametrize(
    "tail",
    [
        encode(TWO)[:-1],
        b"*",
        encode(MULTI) + encode(TWO),
        encode(MULTI) + encode(TWO) + encode(ONE)[:-4],
        b"#TS:1",
        b"#TS:1\r\n*3",
    ],
    ids=["command", "star", "transaction", "command-in-transaction", "annotation", "behind-annotation"],
)
def test_a_torn_end_is_cut_off_before_appending(tmp_path: Path, tail):
    log = []
    directory = folder(tmp_path, b"", encoded(ONE) + tail)
    assert load(tmp_path, log=log.append) == [ONE]
    last = directory / "appendonly.aof.1.part"
    assert last.read_bytes() == encoded(ONE)
    assert ("Revert incomplete MULTI/EXEC transaction in AOF file appendonly.aof.1.part" in log) == (
        b"MULTI" in tail
    )
    assert log[-4:-1] == [
        "!!! Warning: short read while loading the AOF file appendonly.aof.1.part!!!",
        f"!!! Truncating the AOF appendonly.aof.1.part at offset {len(encoded(ONE))} !!!",
        "AOF appendonly.aof.1.part loaded anyway because aof-load-truncated is enabled",
    ]
    with last.open("ab") as file:
        file.write(encode(TWO))
    assert load(tmp_path) == [ONE, TWO]


def test_a_torn_end_is_fatal_where_truncating_is_not_wanted(tmp_path: Path):
    data = encoded(ONE, TWO)[:-1]
    directory = folder(tmp_path, data)
    with pytest.raises(AofError) as caught:
        load(tmp_path, truncate=False)
    assert str(caught.value) == (
        "Unexpected end of file reading the append only file appendonly.aof.0.part. You can: 1) Make a backup of your "
        "AOF file, then use ./redis-check-aof --fix <filename.manifest>. 2) Alternatively you can set the "
        f"'aof-load-truncated' configuration option to yes and restart the server. (byte offset {len(encoded(ONE))})"
    )
    assert (directory / "appendonly.aof.0.part").read_bytes() == data


def test_a_torn_end_that_can_not_be_cut_off_is_fatal(tmp_path: Path):
    def fail(*_):
        raise OSError(30, "Read-only file system")

    folder(tmp_path, encoded(ONE, TWO)[:-1])
    log = []
    with pytest.raises(AofError, match="Unexpected end of file"):
        load(tmp_path, files=FileOperations(truncate=fail), log=log.append)
    assert log[-1] == "Error truncating the AOF file appendonly.aof.0.part: Read-only file system"


def test_a_file_the_manifest_names_must_be_there(tmp_path: Path):
    (folder(tmp_path, b"", b"") / "appendonly.aof.1.part").unlink()
    with pytest.raises(
        AofError, match=r"Unable to obtain the AOF file appendonly\.aof\.1\.part length\. stat: No such file"
    ):
        loader(tmp_path)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("open", "Fatal error: can't open the append log file appendonly.aof.0.part for reading: broken"),
        ("read", "Unrecoverable error reading the append only file appendonly.aof.0.part: broken"),
    ],
)
def test_an_unreadable_file_is_fatal(tmp_path: Path, call, text):
    folder(tmp_path, encoded(ONE))
    files = FileOperations()
    reading = loader(tmp_path, files=files)

    def fail(*_):
        raise OSError(5, "broken")

    setattr(files, call, fail)
    with pytest.raises(AofError) as caught:
        list(reading.batches())
    assert str(caught.value) == text


def test_the_rdb_base_of_a_first_start_is_passed_over(tmp_path: Path):
    folder(tmp_path, RDB, encoded(ONE))
    log = []
    assert load(tmp_path, log=log.append) == [ONE]
    assert log[0] == "Reading RDB base file on AOF loading..."


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_end_behind_an_rdb_never_takes_the_rdb_with_it(tmp_path: Path, cut):
    data = RDB + encode(ONE)[:cut]
    directory = folder(tmp_path, data)
    assert load(tmp_path) == []
    assert (directory / "appendonly.aof.0.part").read_bytes() == RDB


def test_a_broken_rdb_is_refused_with_the_reason(tmp_path: Path):
    folder(tmp_path, RDB[:-9] + b"\xfe\x00\x00\x01k\x3fv\xff" + bytes(8))
    with pytest.raises(AofError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        "Error reading the RDB base file appendonly.aof.0.part, AOF loading aborted: "
        "Short read or OOM loading DB. Unrecoverable error, aborting now. (key 'k')"
    )


def test_another_reader_of_rdb_files_can_be_given(tmp_path: Path):
    def read_it(source: ByteSource):
        yield
        assert source.read(len(RDB)) == RDB

    folder(tmp_path, RDB + encoded(ONE))
    assert list(loader(tmp_path, load_rdb=read_it).batches()) == [[], [ONE]]


def test_a_single_file_of_redis_6_is_adopted_and_loaded(tmp_path: Path):
    (tmp_path / "appendonly.aof").write_bytes(RDB + encoded(ONE))
    log = []
    reading = loader(tmp_path, log=log.append)
    assert reading.exists
    assert list(reading.batches()) == [[ONE]]
    assert "Reading RDB preamble from AOF file..." in log
    AppendOnlyFile.open(tmp_path, "appendonlydir", "appendonly.aof").close()
    assert (tmp_path / "appendonlydir" / "appendonly.aof.manifest").read_bytes() == (
        b"file appendonly.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
