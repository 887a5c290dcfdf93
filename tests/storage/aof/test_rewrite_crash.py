"""A crash, or a refusal of the disk, at any file operation of a rewrite: what was written is there, and once."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import Manifest
from rillet.storage.aof.writer import TEMPORARY_BASE, AppendOnlyFile, install_base_alone
from rillet.storage.files import FileOperations
from rillet.storage.loading import AofError

NAMES = ("appendonlydir", "appendonly.aof")


def record(number: int) -> bytes:
    return b"*2\r\n$1\r\nN\r\n$%d\r\n%d\r\n" % (len(str(number)), number)


def loaded(root: Path) -> list[int]:
    numbers = []
    for batch in AofLoader(root, *NAMES).batches():
        numbers += [int(words[1]) for words in batch]
    return numbers


class Disk:
    """Counts the file operations; `before(n)` is called ahead of the n-th and may raise."""

    def __init__(self, before) -> None:
        self.count = 0
        self.before = before
        self.files = FileOperations(
            **{name: self.watched(real) for name, real in vars(FileOperations()).items()}
        )

    def watched(self, real):
        def call(*arguments):
            self.count += 1
            self.before(self.count)
            return real(*arguments)

        return call


class Run:
    """The AOF's side of a server: appends, rewrites, reports what it has confirmed."""

    def __init__(self, root: Path, files: FileOperations, *, detached: bool) -> None:
        self.root, self.files = root, files
        self.data: list[int] = []  # in memory
        self.confirmed: list[int] = []
        self.aof: AppendOnlyFile | None = None
        if detached:
            AppendOnlyFile.open(root, *NAMES).close()  # what an earlier server has left
            self.data = [1, 2]
            self.aof = AppendOnlyFile.open_detached(root, *NAMES, files=files)
        else:
            self.aof = AppendOnlyFile.open(root, *NAMES, files=files)

    def append(self) -> None:
        number = len(self.data) + 1
        self.data.append(number)
        self.aof.append(record(number))
        # Where the base is still to come nothing is promised.
        if self.aof.write() and not self.aof.is_detached:
            self.confirmed = list(self.data)

    def rewrite(self) -> bool:
        """False where the disk refused."""
        try:
            self.aof.start_new_incr()
            temporary = self.root / NAMES[0] / f"{TEMPORARY_BASE}1.aof"
            snapshot = b"".join(map(record, self.data))
            self.append()
            fd = self.files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                self.files.write_all(fd, snapshot)
                self.files.fsync(fd)
            finally:
                self.files.close(fd)
            self.append()
            self.aof.install_base(temporary, rdb=False)
            self.confirmed = list(self.data)
            self.append()
            self.aof.remove_history()
        except (OSError, AofError):
            return False
        return True

    def story(self) -> None:
        self.append()
        self.append()
        self.rewrite()
        self.append()
        self.rewrite()
        self.append()


def operations(tmp_path: Path, *, detached: bool) -> int:
    """How many there are in the story when nothing goes wrong."""
    disk = Disk(lambda _: None)
    run = Run(tmp_path / "whole", disk.files, detached=detached)
    run.story()
    run.aof.close()
    assert loaded(tmp_path / "whole") == run.data == run.confirmed
    return disk.count


@pytest.fixture(params=["attached", "detached"])
def detached(request, tmp_path) -> bool:
    (tmp_path / "whole").mkdir()
    return request.param == "detached"


def test_a_crash_before_any_operation_leaves_what_was_confirmed_and_each_record_once(tmp_path, detached):
    (root := tmp_path / "root").mkdir()
    copies = []

    def photograph(number: int) -> None:
        if run is not None:
            shutil.copytree(root, tmp_path / f"copy{number}")
            copies.append((number, list(run.confirmed), list(run.data)))

    run = None
    disk = Disk(photograph)
    run = Run(root, disk.files, detached=detached)
    run.story()
    run.aof.close()
    assert len(copies) > 40
    for number, confirmed, data in copies:
        found = loaded(tmp_path / f"copy{number}")
        assert found == data[: len(found)], f"before operation {number}"
        assert len(found) >= len(confirmed), f"before operation {number}"
        # And a server goes on from there.
        aof = AppendOnlyFile.open(tmp_path / f"copy{number}", *NAMES)
        aof.append(record(99))
        aof.close()
        assert loaded(tmp_path / f"copy{number}") == [*found, 99]
        assert not list((tmp_path / f"copy{number}").glob(f"*/{TEMPORARY_BASE}*"))


@pytest.mark.parametrize("lasting", [False, True])
def test_a_disk_that_refuses_any_operation_loses_nothing(tmp_path, detached, lasting):
    for at in range(1, operations(tmp_path, detached=detached) + 1):
        (root := tmp_path / f"root{at}").mkdir()
        limit = at + (4 if lasting else 0)

        def refuse(number: int, at: int = at, limit: int = limit) -> None:
            if at <= number <= limit:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk = Disk(refuse)
        try:
            run = Run(root, disk.files, detached=detached)
        except (OSError, AofError):
            continue  # it did not start
        run.story()
        found = loaded(root)
        assert found == run.data[: len(found)], f"operation {at}"
        assert len(found) >= len(run.confirmed), f"operation {at}"
        disk.before = lambda _: None
        if run.aof.is_detached:
            assert run.rewrite(), f"operation {at}"
        run.append()
        assert loaded(root) == run.data == run.confirmed, f"operation {at}"


def test_a_rewrite_without_an_open_file_leaves_a_base_alone(tmp_path):
    run = Run(tmp_path, FileOperations(), detached=False)
    run.append()
    run.aof.close()
    temporary = tmp_path / NAMES[0] / f"{TEMPORARY_BASE}1.aof"
    temporary.write_bytes(record(5))
    install_base_alone(tmp_path, *NAMES, temporary, rdb=False, files=FileOperations(), log=lambda _: None)
    assert loaded(tmp_path) == [5]
    assert (tmp_path / NAMES[0] / "appendonly.aof.manifest").read_bytes() == (
        b"file appendonly.aof.2.base.aof seq 2 type b\n"
    )
    assert not list((tmp_path / NAMES[0]).glob("*.incr.aof"))


def test_names_of_history_are_not_used_again():
    manifest = Manifest.parse(
        b"file appendonly.aof.4.base.aof seq 4 type h\nfile appendonly.aof.7.incr.aof seq 7 type h\n"
    )
    manifest = manifest.with_new_base("appendonly.aof", rdb=True).with_new_incr("appendonly.aof")
    assert [info.name for info in manifest.live] == ["appendonly.aof.5.base.rdb", "appendonly.aof.8.incr.aof"]
