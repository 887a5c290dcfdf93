"""`rillet check-aof` beside redis-check-aof, on the same bytes."""

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import require_binary
from support.wire import encode_command

from rillet.storage.aof.check import check_aof
from rillet.storage.aof.manifest import Manifest

ONE = encode_command("SELECT", "0") + encode_command("XADD", "s", "1-1", "a", "b")
TRANSACTION = encode_command("MULTI") + ONE + encode_command("EXEC")

FILES = {
    "sound": ONE + TRANSACTION,
    "annotated": b"#TS:1\r\n" + ONE + b"#TS:2\r\n",
    "empty": b"",
    "torn": ONE + b"*5\r\n$4\r\nXAD",
    "torn in a transaction": ONE + TRANSACTION[:-20],
    "garbage": ONE + b"PING\r\n" + ONE,
    "zeros": ONE + bytes(50),
    "two MULTI": ONE + encode_command("MULTI") * 2 + ONE,
    "EXEC alone": ONE + encode_command("EXEC") + ONE,
    "no CRLF behind a word": ONE + b"*1\r\n$4\r\nPINGxx" + ONE,
    "no CRLF behind a number": ONE + b"*1x\r\n$4\r\nPING\r\n",
    "only LF": ONE + b"*1\n$4\nPING\n",
    "no arguments": ONE + b"*0\r\n" + ONE,
    "negative length": ONE + b"*1\r\n$-1\r\n",
    "length beyond the end": ONE + b"*1\r\n$999999999\r\nPING\r\n",
    "wrong prefix": ONE + b"*2\r\n:1\r\n",
    "unfinished annotation": ONE + b"#TS:1",
    "long annotation": ONE + b"#" + b"x" * 2000 + b"\r\n" + ONE,
}


@pytest.fixture(scope="module")
def real() -> str:
    require_binary("redis7")  # the tool comes with the server
    tool = shutil.which("redis-check-aof")
    assert tool is not None
    return tool


def theirs(tool: str, path: Path, *flags: str) -> tuple[bool, list[str]]:
    done = subprocess.run([tool, *flags, path], input=b"y\n", capture_output=True, check=False, timeout=60)
    return done.returncode == 0, re.findall(r"ok_up_to=(\d+)", done.stdout.decode("latin-1"))


def ours(path: Path, *, fix: bool = False) -> tuple[bool, list[str]]:
    lines: list[str] = []
    sound = check_aof(path, lines.append, confirm=(lambda _: True) if fix else None)
    return sound, re.findall(r"ok_up_to=(\d+)", "\n".join(lines))


@pytest.mark.parametrize("name", FILES)
def test_the_verdict_is_that_of_redis_and_so_is_the_repair(name, real, tmp_path):
    path, copy = tmp_path / "a.aof", tmp_path / "b.aof"
    for file in (path, copy):
        file.write_bytes(FILES[name])
    assert ours(path) == theirs(real, path)
    assert ours(path, fix=True) == theirs(real, copy, "--fix")
    assert path.read_bytes() == copy.read_bytes()


def test_cut_and_flipped_files_get_the_verdict_of_redis(real, tmp_path):
    chance = random.Random(1)
    whole = (ONE + TRANSACTION) * 20
    path = tmp_path / "a.aof"
    for number in range(60):
        data = bytearray(whole[: chance.randrange(len(whole))] if number % 2 else whole)
        for _ in range(0 if number % 3 == 0 else 1):
            data[chance.randrange(len(data))] = chance.choice(b"*$#\r\n0159xM\0\xff")
        path.write_bytes(data)
        assert ours(path) == theirs(real, path), bytes(data)


@pytest.mark.parametrize("torn", ["base", "incr", "none"])
def test_all_files_of_a_manifest_are_checked_and_only_the_last_is_cut(torn, real, tmp_path):
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
        Manifest().with_new_base("a").with_new_incr("a").persist(folder, "a")
        (folder / "a.1.base.aof").write_bytes(ONE[: -3 if torn == "base" else None])
        (folder / "a.1.incr.aof").write_bytes(TRANSACTION[: -3 if torn == "incr" else None])
    mine, real_one = (folder / "a.manifest" for folder in folders)
    assert ours(mine) == theirs(real, real_one)
    assert ours(mine, fix=True) == theirs(real, real_one, "--fix")
    assert ours(mine) == theirs(real, real_one)
    for name in ("a.1.base.aof", "a.1.incr.aof"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_the_command_line_says_it_by_its_status(tmp_path):
    path = tmp_path / "a.aof"
    path.write_bytes(FILES["torn"])

    def run(*words: str, answer: str = "") -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "rillet", "check-aof", *words],
            input=answer, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout

    status, text = run(str(path))
    assert status == 1
    assert "AOF a.aof is not valid. Use the --fix option to try fixing it." in text
    assert run("--fix", str(path), answer="n\n")[0] == 1
    assert path.read_bytes() == FILES["torn"]
    assert run("--fix", str(path), answer="y\n")[0] == 0
    assert path.read_bytes() == ONE
    assert run(str(path))[0] == 0
    assert run()[0] == 1
    assert run(str(tmp_path / "missing"))[0] == 1
