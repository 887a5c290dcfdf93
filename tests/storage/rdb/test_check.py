"""rillet check-rdb: the verdicts of redis-check-rdb, by exit status."""

import random
import shutil
import subprocess
import sys

import pytest
from support.servers import start_server
from support.streams.random_streams import make_stream
from support.tool import run_tool

REDIS = shutil.which("redis-check-rdb")


@pytest.fixture(scope="module")
def file():
    """A dump file of redis-server, with streams and other types."""
    with start_server("redis7") as server, server.wire() as wire:
        for seed in range(3):
            make_stream(wire, random.Random(seed), f"s{seed}")
        wire.call("RPUSH", "l", "a", "b")
        wire.call("SET", "k", "v", "EX", 1000)
        wire.call("SAVE")
        return (server.dir / "dump.rdb").read_bytes()


def check(command, *paths):
    return subprocess.run(
        [*command, *paths], capture_output=True, text=True, check=False, timeout=60, errors="replace"
    )


def ours(*paths):
    return run_tool("check-rdb", *paths)


def theirs(path):
    if REDIS is None:
        pytest.fail("redis-check-rdb is not installed: apt install redis-tools", pytrace=False)
    return check([REDIS], path)


def damaged(file, how):
    middle = len(file) // 2
    return {
        "whole": file,
        "empty": b"",
        "cut": file[:middle],
        "without checksum": file[:-8] + bytes(8),
        "wrong checksum": file[:-1] + bytes((file[-1] ^ 1,)),
        "one bit": file[:middle] + bytes((file[middle] ^ 4,)) + file[middle + 1 :],
        "no rdb": b"hello world, hello world",
        "too new": b"REDIS9999" + file[9:],
        "garbage behind": file + b"garbage",
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        "whole", "empty", "cut", "without checksum", "wrong checksum", "one bit", "no rdb", "too new",
        "garbage behind",
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_redis(file, tmp_path, how):
    path = tmp_path / "dump.rdb"
    path.write_bytes(damaged(file, how))
    verdict = ours(path)
    assert verdict.returncode == theirs(path).returncode
    assert ("RDB looks OK!" in verdict.stdout) is (verdict.returncode == 0)
    assert ("RDB ERROR DETECTED" in verdict.stdout) is (verdict.returncode != 0)


def test_it_reports_the_content_of_the_file(file, tmp_path):
    path = tmp_path / "dump.rdb"
    path.write_bytes(file)
    lines = ours(path).stdout.splitlines()
    assert "[info] 5 keys read" in lines
    assert "[info] 1 expires" in lines
    assert "[info] 0 already expired" in lines
    assert not any("does not have" in line for line in lines)
    assert "[info] redis-ver = '7.0.15'" in lines
    assert f"[offset {len(file)}] Checksum OK" in lines


def test_it_reports_the_position_of_the_damage(file, tmp_path):
    path = tmp_path / "dump.rdb"
    path.write_bytes(file[:100])
    assert "[offset 100] Short read" in ours(path).stdout or "Short read" in ours(path).stdout


def test_a_file_that_is_not_there_and_no_file_at_all_are_errors(tmp_path):
    missing = check([sys.executable, "-m", "rillet", "check-rdb"], tmp_path / "x")  # from the command line
    assert (missing.returncode, "Cannot open file" in missing.stdout) == (1, True)
    usage = ours()
    assert (usage.returncode, usage.stdout) == (1, "Usage: rillet check-rdb <dump.rdb>\n")
