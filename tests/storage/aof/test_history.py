"""Files that rewrites have replaced: which belong together, how long they are kept, and what real servers make of them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.servers import start_server

from rillet.storage.aof.check import check_aof
from rillet.storage.aof.history import generations, outdated
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import FileInfo, Manifest
from rillet.storage.aof.writer import AppendOnlyFile

NAME = "appendonly.aof"
HOUR = 3600
NOW = 1_800_000_000_000


def base(seq: int) -> FileInfo:
    return FileInfo(f"{NAME}.{seq}.base.rdb", seq, "h")


def incr(seq: int) -> FileInfo:
    return FileInfo(f"{NAME}.{seq}.incr.aof", seq, "h")


def names(history: list[FileInfo]) -> list[list[str]]:
    return [[info.name.removeprefix(f"{NAME}.")[:3] for info in each.files] for each in generations(history)]


def test_a_base_and_the_incr_files_behind_it_belong_together():
    history = [base(1), incr(1), incr(2), base(2), incr(3)]
    assert names(history) == [["1.b", "1.i", "2.i"], ["2.b", "3.i"]]


def test_redis_lists_the_newest_first_and_bases_last():
    history = [incr(3), base(2), incr(1), incr(2), base(1)]
    assert names(history) == [["1.b", "1.i", "2.i"], ["2.b", "3.i"]]


def test_what_redis_puts_before_our_own_list_is_understood():
    history = [incr(4), base(3), base(1), incr(1), incr(2), base(2), incr(3)]
    assert names(history) == [["1.b", "1.i", "2.i"], ["2.b", "3.i"], ["3.b", "4.i"]]


def write(folder: Path, info: FileInfo, size: int, age: int) -> None:
    path = folder / info.name
    path.write_bytes(b"x" * size)
    os.utime(path, ns=((NOW - age * 1000) * 1_000_000,) * 2)


def kept(folder: Path, history: list[FileInfo], seconds: int, limit: int) -> list[str]:
    gone = {info.name for info in outdated(folder, history, seconds, limit, NOW)}
    return [info.name for info in history if info.name not in gone]


def test_generations_go_whole_and_oldest_first(tmp_path):
    history = [base(1), incr(1), base(2), incr(2), base(3), incr(3)]
    for number, age in ((1, 3 * HOUR), (2, 2 * HOUR), (3, HOUR)):
        write(tmp_path, base(number), 10, age + HOUR)
        write(tmp_path, incr(number), 100, age)
    by_name = [info.name for info in history]
    assert kept(tmp_path, history, 0, 0) == []
    assert kept(tmp_path, history, 4 * HOUR, 0) == by_name
    assert kept(tmp_path, history, 2 * HOUR + 1, 0) == by_name[2:]
    assert kept(tmp_path, history, 2 * HOUR, 0) == by_name[4:]
    assert kept(tmp_path, history, 4 * HOUR, 330) == by_name
    assert kept(tmp_path, history, 4 * HOUR, 329) == by_name[2:]
    assert kept(tmp_path, history, 4 * HOUR, 109) == []


def test_missing_files_go_with_their_generation(tmp_path):
    history = [base(1), incr(1), base(2), incr(2)]
    write(tmp_path, base(2), 1, 1)
    write(tmp_path, incr(2), 1, 1)
    assert kept(tmp_path, history, HOUR, 0) == [base(2).name, incr(2).name]


def rewritten(root: Path, times: int, keep: bool = True) -> AppendOnlyFile:
    """A folder whose files were rewritten so often."""
    aof = AppendOnlyFile.open(
        root,
        "appendonlydir",
        NAME,
        timestamps="ms",
        outdated=lambda _folder, history: [] if keep else history,
    )
    for number in range(times):
        aof.annotate(NOW + number)
        aof.append(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n")
        aof.append(b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n%d-1\r\n$1\r\na\r\n$1\r\nb\r\n" % (number + 1))
        aof.start_new_incr()
        temporary = root / "appendonlydir" / f"temp-{number}"
        entries = b"".join(
            b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n%d-1\r\n$1\r\na\r\n$1\r\nb\r\n" % (each + 1)
            for each in range(number + 1)
        )
        temporary.write_bytes(entries)
        aof.install_base(temporary, rdb=False)
        aof.remove_history()
    return aof


def test_kept_files_stay_in_the_manifest_and_are_not_loaded(tmp_path):
    rewritten(tmp_path, 3).close()
    manifest = Manifest.load(tmp_path / "appendonlydir", NAME)
    assert [info.name.removeprefix(f"{NAME}.") for info in manifest.history] == [
        "1.base.aof", "1.incr.aof", "2.base.aof", "2.incr.aof", "3.base.aof", "3.incr.aof",
    ]  # fmt: skip
    assert all((tmp_path / "appendonlydir" / info.name).exists() for info in manifest.history)
    commands = [
        command for batch in AofLoader(tmp_path, "appendonlydir", NAME).batches() for command in batch
    ]
    assert len(commands) == 3
    assert check_aof(tmp_path / "appendonlydir" / f"{NAME}.manifest", lambda _line: None)


def test_by_default_nothing_is_kept(tmp_path):
    rewritten(tmp_path, 2, keep=False).close()
    manifest = Manifest.load(tmp_path / "appendonlydir", NAME)
    assert manifest.history == []
    assert len(list((tmp_path / "appendonlydir").iterdir())) == 3


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_real_servers_load_a_folder_with_history_and_remove_it(kind, tmp_path):
    rewritten(tmp_path, 3).close()
    folder = tmp_path / "appendonlydir"
    found = subprocess.run(
        ["redis-check-aof", folder / f"{NAME}.manifest"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    with start_server(kind, "--appendonly", "yes", "--aof-use-rdb-preamble", "no", folder=tmp_path) as server:
        with server.wire() as wire:
            assert wire.call("XLEN", "s").value == b"3"
        assert b"type h" not in (folder / f"{NAME}.manifest").read_bytes()


ANNOTATED = (
    b"#TS:1700000000\r\n#MS:1700000000123\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
    b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n1-1\r\n$1\r\na\r\n$1\r\nb\r\n"
    b"#MS:1700000000124\r\n*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n2-1\r\n$1\r\na\r\n$1\r\nb\r\n"
)


def annotated(root: Path) -> Path:
    aof = AppendOnlyFile.open(root, "appendonlydir", NAME, timestamps="ms")
    pieces = ANNOTATED.split(b"*2", 1)[1]
    aof.annotate(1_700_000_000_123)
    aof.append(b"*2" + pieces.split(b"#MS", 1)[0])
    aof.annotate(1_700_000_000_123)
    aof.annotate(1_700_000_000_124)
    aof.append(pieces.split(b"\r\n", 14)[-1].split(b"124\r\n", 1)[1])
    aof.close()
    return root / "appendonlydir"


def test_milliseconds_stand_where_they_change(tmp_path):
    assert (annotated(tmp_path) / f"{NAME}.1.incr.aof").read_bytes() == ANNOTATED


def test_each_file_begins_with_its_time(tmp_path):
    aof = AppendOnlyFile.open(tmp_path, "appendonlydir", NAME, timestamps="ms")
    aof.annotate(5_001)
    aof.append(b"a")
    aof.start_new_incr()
    aof.annotate(5_001)
    aof.append(b"b")
    aof.close()
    assert (tmp_path / "appendonlydir" / f"{NAME}.2.incr.aof").read_bytes() == b"#MS:5001\r\nb"


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_real_servers_and_checkers_load_files_with_milliseconds(kind, tmp_path):
    folder = annotated(tmp_path)
    shutil.copy(folder / f"{NAME}.1.incr.aof", tmp_path / "single.aof")
    for path in (folder / f"{NAME}.manifest", tmp_path / "single.aof"):
        found = subprocess.run(
            ["redis-check-aof", path], capture_output=True, text=True, timeout=60, check=False
        )
        assert found.returncode == 0, found.stdout
        assert check_aof(path, lambda _line: None)
    commands = [
        command for batch in AofLoader(tmp_path, "appendonlydir", NAME).batches() for command in batch
    ]
    assert len(commands) == 3
    with start_server(kind, "--appendonly", "yes", folder=tmp_path) as server, server.wire() as wire:
        assert wire.call("XLEN", "s").value == b"2"
        wire.call("XADD", "s", "3-1", "a", "b")


def test_redis_still_cuts_such_a_file_at_a_second(tmp_path):
    path = tmp_path / "single.aof"
    path.write_bytes(ANNOTATED + b"#TS:1700000009\r\n#MS:1700000009000\r\n" + ANNOTATED[-50:])
    found = subprocess.run(
        ["redis-check-aof", "--truncate-to-timestamp", "1700000005", path],
        capture_output=True, text=True, timeout=60, check=False, input="y\n",
    )  # fmt: skip
    assert found.returncode == 0, found.stdout
    assert path.read_bytes() == ANNOTATED
