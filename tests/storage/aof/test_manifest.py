import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.inline import split_inline, word_of
from rillet.storage.aof.manifest import AofError, FileInfo, Manifest, adopt_single_file, leading_number
from rillet.storage.files import FileOperations

BASE = b"file appendonly.aof.1.base.aof seq 1 type b\n"
INCR = b"file appendonly.aof.1.incr.aof seq 1 type i\n"

name_bytes = st.binary(min_size=1, max_size=20).filter(lambda name: not set(b"/\\\0") & set(name))
offsets = st.none() | st.integers(0, 2**62)


@st.composite
def manifests(draw):
    def info(seq, kind):
        return FileInfo(os.fsdecode(draw(name_bytes)), seq, kind, draw(offsets), draw(offsets))

    seqs = sorted(draw(st.sets(st.integers(1, 2**40), max_size=4)))
    return Manifest(
        info(draw(st.integers(1, 99)), "b") if draw(st.booleans()) else None,
        [info(draw(st.integers(1, 99)), "h") for _ in range(draw(st.integers(0, 3)))],
        [info(seq, "i") for seq in seqs],
    )


@given(manifests())
def test_a_manifest_survives_being_written_and_read(manifest):
    if manifest.encode():
        assert Manifest.parse(manifest.encode()) == manifest


@given(st.binary(max_size=30))
def test_any_quoted_name_is_read_back_as_one_word(name):
    assert split_inline(word_of(name)) == [name]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_an_aof_error(data):
    with suppress(AofError):
        manifest = Manifest.parse(data)
        assert not manifest.live or Manifest.parse(manifest.encode()) == manifest


def test_a_name_with_a_single_quote_is_quoted_because_a_bare_one_can_not_be_read_back():
    assert word_of(b"a'b") == b'"a\'b"'


def test_numbers_are_read_as_far_as_they_are_digits():
    assert leading_number(b" -12x") == -12
    assert leading_number(b"x") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"# a comment\n" + BASE + INCR,
        BASE[:-1] + b"\r\n" + INCR,
        b"   " + BASE + INCR,
        b"FILE appendonly.aof.1.base.aof SEQ 1x TYPE base future thing\n" + INCR,
        INCR + BASE,
        b"file other file appendonly.aof.1.base.aof seq 7 seq 1 type h type b\n" + INCR,
        BASE + INCR[:-1] + b" k " + b"x" * (1024 - len(INCR) - 3) + b"\n",
    ],
    ids=["comment", "crlf", "indented", "lenient-words", "any-order", "last-pair-wins", "longest-line"],
)
def test_what_redis_tolerates_is_tolerated(data):
    assert Manifest.parse(data).encode() == BASE + INCR


def test_offsets_of_newer_servers_are_kept():
    line = b"file appendonly.aof.1.incr.aof seq 1 type i startoffset 0 endoffset 99\n"
    (info,) = Manifest.parse(line).incr
    assert (info.start_offset, info.end_offset) == (0, 99)
    assert Manifest.parse(line).encode() == line


def test_a_missing_manifest_is_an_empty_one(tmp_path: Path):
    assert Manifest.load(tmp_path / "nowhere", "a") == Manifest()


def test_a_persisted_manifest_is_loaded_and_leaves_no_temporary_file(tmp_path: Path):
    manifest = Manifest.parse(BASE + INCR)
    manifest.persist(tmp_path, "a.aof")
    assert Manifest.load(tmp_path, "a.aof") == manifest
    assert [path.name for path in tmp_path.iterdir()] == ["a.aof.manifest"]


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "open"])
def test_a_persist_that_fails_leaves_the_old_manifest(tmp_path: Path, call):
    Manifest.parse(BASE).persist(tmp_path, "a")

    def fail(*_):
        raise OSError(28, "No space left on device")

    files = FileOperations()
    setattr(files, call, fail)
    with pytest.raises(AofError, match="No space left on device"):
        Manifest.parse(BASE + INCR).persist(tmp_path, "a", files)
    assert Manifest.load(tmp_path, "a") == Manifest.parse(BASE)
    assert [path.name for path in tmp_path.iterdir()] == ["a.manifest"]


def test_the_manifest_is_on_the_disk_before_its_name_is_and_the_folder_after(tmp_path: Path):
    calls = []
    files = FileOperations()

    def recorded(name):
        real = getattr(files, name)

        def call(*args):
            calls.append(name)
            return real(*args)

        return call

    for name in ("write", "fsync", "rename"):
        setattr(files, name, recorded(name))
    Manifest.parse(BASE).persist(tmp_path, "a", files)
    assert calls == ["write", "fsync", "rename", "fsync"]


def test_an_unreadable_manifest_differs_from_a_missing_one(tmp_path: Path):
    (tmp_path / "a.manifest").mkdir()
    with pytest.raises(AofError, match="Read AOF manifest failed"):
        Manifest.load(tmp_path, "a")


def test_a_new_base_turns_what_it_covers_into_history():
    manifest = Manifest.parse(BASE + INCR).with_new_incr("appendonly.aof")
    assert [info.name for info in manifest.incr][-1] == "appendonly.aof.2.incr.aof"
    assert manifest.with_new_base("appendonly.aof", covered=1).encode() == (
        b"file appendonly.aof.2.base.aof seq 2 type b\n"
        b"file appendonly.aof.1.base.aof seq 1 type h\n"
        b"file appendonly.aof.1.incr.aof seq 1 type h\n"
        b"file appendonly.aof.2.incr.aof seq 2 type i\n"
    )


def test_a_single_file_of_redis_6_becomes_the_base(tmp_path: Path):
    (tmp_path / "a.aof").write_bytes(b"data")
    log = []
    manifest = adopt_single_file(tmp_path, "folder", "a.aof", Manifest(), log=log.append)
    assert manifest.encode() == b"file a.aof seq 1 type b\n"
    assert Manifest.load(tmp_path / "folder", "a.aof") == manifest
    assert (tmp_path / "folder" / "a.aof").read_bytes() == b"data"
    assert not (tmp_path / "a.aof").exists()
    assert log == ["Successfully migrated an old-style AOF file (a.aof) into the AOF directory (folder)."]


def test_a_move_cut_short_by_a_crash_is_completed(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.aof").write_bytes(b"data")

    def crash(source, target):
        if source.name == "a.aof":
            raise OSError(5, "Input/output error")
        source.replace(target)

    with pytest.raises(AofError, match=r"Error trying to move the old AOF file a\.aof into dir folder"):
        adopt_single_file(tmp_path, "folder", "a.aof", Manifest(), files=FileOperations(rename=crash))
    manifest = Manifest.load(tmp_path / "folder", "a.aof")
    assert manifest.base is not None
    adopt_single_file(tmp_path, "folder", "a.aof", manifest)
    assert (tmp_path / "folder" / "a.aof").read_bytes() == b"data"


def test_a_folder_of_that_name_is_no_single_file(tmp_path: Path):
    (tmp_path / "a.aof").mkdir()
    assert adopt_single_file(tmp_path, "folder", "a.aof", Manifest()) == Manifest()


def test_a_single_file_never_replaces_a_base_that_incr_files_build_on(tmp_path: Path):
    (tmp_path / "a.aof").write_bytes(b"data")
    manifest = Manifest.parse(b"file a.aof seq 1 type b\n" + INCR)
    assert adopt_single_file(tmp_path, "folder", "a.aof", manifest) is manifest
    assert (tmp_path / "a.aof").exists()
