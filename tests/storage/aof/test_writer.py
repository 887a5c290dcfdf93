import errno
import os
import threading
from pathlib import Path

import pytest

from rillet.storage.aof.manifest import Manifest
from rillet.storage.aof.writer import AppendOnlyFile
from rillet.storage.files import FileOperations
from rillet.storage.loading import AofError


def open_aof(root, files=None, **options):
    return AppendOnlyFile.open(root, "appendonlydir", "appendonly.aof", files=files, **options)


def incr(root: Path, seq: int = 1) -> Path:
    return root / "appendonlydir" / f"appendonly.aof.{seq}.incr.aof"


class Disk:
    """A disk that takes `room` bytes and then is full; `torn` makes truncating impossible as well."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.torn = False
        self.writes = 0
        self.files = FileOperations(write=self.write, truncate=self.truncate)

    def write(self, fd, data):
        self.writes += 1
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = os.write(fd, data[: self.room])
        self.room -= taken
        return taken

    def truncate(self, fd, size):
        if self.torn:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.truncate(fd, size)


def test_a_first_start_creates_an_empty_base_and_an_incr_file(tmp_path: Path):
    log = []
    open_aof(tmp_path, log=log.append).close()
    folder = tmp_path / "appendonlydir"
    assert sorted(path.name for path in folder.iterdir()) == [
        "appendonly.aof.1.base.aof",
        "appendonly.aof.1.incr.aof",
        "appendonly.aof.manifest",
    ]
    assert (folder / "appendonly.aof.manifest").read_bytes() == (
        b"file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    assert log == [
        "Creating AOF base file appendonly.aof.1.base.aof on server start",
        "Creating AOF incr file appendonly.aof.1.incr.aof on server start",
    ]


def test_a_later_start_appends_to_the_last_incr_file(tmp_path: Path):
    for record in (b"one", b"two"):
        aof = open_aof(tmp_path)
        aof.append(record)
        aof.close()
    assert incr(tmp_path).read_bytes() == b"onetwo"


def test_a_base_without_an_incr_file_gets_one(tmp_path: Path):
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "old").write_bytes(b"12345")
    Manifest.parse(b"file old seq 4 type b\n").persist(tmp_path / "appendonlydir", "appendonly.aof")
    aof = open_aof(tmp_path)
    assert (aof.base_size, aof.size) == (5, 5)
    assert Manifest.load(tmp_path / "appendonlydir", "appendonly.aof").encode() == (
        b"file old seq 4 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    aof.close()


def test_records_of_a_tick_reach_the_file_with_one_write(tmp_path: Path):
    disk = Disk(1000)
    aof = open_aof(tmp_path, disk.files)
    disk.writes = 0
    for record in (b"a", b"bc", b"d"):
        aof.append(record)
    assert (aof.unwritten, aof.size, incr(tmp_path).read_bytes()) == (4, 0, b"")
    assert aof.write() is True
    assert disk.writes == 1
    assert (aof.unwritten, aof.size, aof.unsynced, incr(tmp_path).read_bytes()) == (0, 4, 4, b"abcd")
    aof.write()
    assert disk.writes == 1
    aof.close()


def test_a_short_write_continues_with_the_rest(tmp_path: Path):
    aof = open_aof(tmp_path, FileOperations(write=lambda fd, data: os.write(fd, data[:3])))
    aof.append(b"0123456789")
    assert aof.write() is True
    assert incr(tmp_path).read_bytes() == b"0123456789"
    aof.close()


def test_a_full_disk_leaves_no_torn_record_and_loses_none(tmp_path: Path):
    disk = Disk(1000)
    aof = open_aof(tmp_path, disk.files)
    aof.append(b"first")
    aof.write()
    disk.room = 4
    aof.append(b"second")
    aof.append(b"third")
    assert aof.write() is False
    assert aof.last_error is not None
    assert aof.last_error.errno == errno.ENOSPC
    assert (incr(tmp_path).read_bytes(), aof.size, aof.unwritten) == (b"first", 5, 11)
    aof.append(b"fourth")
    assert aof.write() is False
    disk.room = 1000
    assert aof.write() is True
    assert aof.last_error is None
    assert incr(tmp_path).read_bytes() == b"firstsecondthirdfourth"
    aof.close()


def test_a_torn_record_that_can_not_be_cut_off_is_completed_later(tmp_path: Path):
    disk = Disk(1000)
    log = []
    aof = open_aof(tmp_path, disk.files, log=log.append)
    disk.room, disk.torn = 4, True
    aof.append(b"second")
    assert aof.write() is False
    assert (incr(tmp_path).read_bytes(), aof.size, aof.unwritten) == (b"seco", 4, 2)
    assert "Could not remove short write" in log[-1]
    disk.room = 1000
    aof.append(b"third")
    assert aof.write() is True
    assert incr(tmp_path).read_bytes() == b"secondthird"
    aof.close()


def test_closing_on_a_full_disk_reports_lost_records(tmp_path: Path):
    disk = Disk(1000)
    aof = open_aof(tmp_path, disk.files)
    disk.room = 0
    aof.append(b"x")
    with pytest.raises(OSError, match="No space left"):
        aof.close()
    aof.close()


def test_a_sync_counts_only_what_was_written_before_it_began(tmp_path: Path):
    entered, leave = threading.Event(), threading.Event()

    def slow(fd):
        entered.set()
        assert leave.wait(60)
        os.fsync(fd)

    aof = open_aof(tmp_path, FileOperations(fdatasync=slow))
    aof.append(b"12345")
    aof.write()
    thread = threading.Thread(target=aof.sync)
    thread.start()
    assert entered.wait(60)
    aof.append(b"678")
    aof.write()
    leave.set()
    thread.join(60)
    assert aof.unsynced == 3
    aof.close()


def test_a_failed_sync_is_remembered_until_one_succeeds(tmp_path: Path):
    errors = [OSError(errno.EIO, "Input/output error")]

    def sync(fd):
        if errors:
            raise errors.pop()

    aof = open_aof(tmp_path, FileOperations(fdatasync=sync))
    aof.append(b"x")
    aof.write()
    with pytest.raises(OSError, match="Input/output error"):
        aof.sync()
    assert (aof.last_error is None, aof.unsynced) == (False, 1)
    assert aof.write() is True
    aof.sync()
    assert (aof.last_error, aof.unsynced) == (None, 0)
    aof.close()


def test_a_sync_after_closing_touches_no_file(tmp_path: Path):
    calls = []
    aof = open_aof(tmp_path, FileOperations(fdatasync=calls.append))
    aof.close()
    calls.clear()
    aof.sync()
    assert calls == []


def test_a_timestamp_stands_before_the_first_record_of_each_new_second(tmp_path: Path):
    aof = open_aof(tmp_path, timestamps=True)
    for now, record in ((5_000, b"a"), (5_999, b"b"), (6_000, b"c"), (5_500, b"d")):
        aof.annotate(now)
        aof.append(record)
    aof.close()
    assert incr(tmp_path).read_bytes() == b"#TS:5\r\nab#TS:6\r\ncd"


def test_without_timestamps_nothing_is_annotated(tmp_path: Path):
    aof = open_aof(tmp_path)
    aof.annotate(5_000)
    assert aof.unwritten == 0
    aof.close()


def test_a_new_incr_file_takes_over_when_the_manifest_names_it(tmp_path: Path):
    aof = open_aof(tmp_path)
    aof.append(b"old")
    aof.start_new_incr()
    aof.append(b"newer")
    aof.close()
    assert (incr(tmp_path, 1).read_bytes(), incr(tmp_path, 2).read_bytes()) == (b"old", b"newer")
    assert aof.size == 8
    aof = open_aof(tmp_path)
    assert (aof.size, len(aof.manifest.incr)) == (8, 2)
    aof.close()


def test_a_manifest_that_can_not_be_written_keeps_the_old_incr_file_in_use(tmp_path: Path):
    files = FileOperations()
    aof = open_aof(tmp_path, files)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    files.rename = fail
    with pytest.raises(AofError, match="Error trying to rename"):
        aof.start_new_incr()
    aof.append(b"still here")
    aof.close()
    assert incr(tmp_path, 1).read_bytes() == b"still here"
    assert not incr(tmp_path, 2).exists()


def test_history_files_are_removed_at_start_but_never_a_live_one(tmp_path: Path):
    open_aof(tmp_path).close()
    folder = tmp_path / "appendonlydir"
    (folder / "gone").write_bytes(b"x")
    manifest = folder / "appendonly.aof.manifest"
    clean = manifest.read_bytes()
    history = (
        b"file gone seq 1 type h\nfile missing seq 1 type h\nfile appendonly.aof.1.incr.aof seq 1 type h\n"
    )
    manifest.write_bytes(history + clean)
    open_aof(tmp_path).close()
    assert not (folder / "gone").exists()
    assert incr(tmp_path).exists()
    assert manifest.read_bytes() == clean


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path):
    (tmp_path / "appendonlydir").write_bytes(b"a file is in the way")
    with pytest.raises(AofError, match="Can't open or create append-only dir appendonlydir"):
        open_aof(tmp_path)
