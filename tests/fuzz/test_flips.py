"""One bit of a server's files is flipped: a start refuses with a clear text, or serves what can be used.

The files are those of a server that has seen everything: each data type, groups, functions, transactions, other databases,
expiries, commands that came after a rewrite. `RILLET_FLIPS=1000` makes so many flips of each file.
"""

import os
import shutil
from pathlib import Path
from random import Random

import pytest
from fuzz.starts import start
from support.live import LiveServer, eventually
from support.streams.random_data import play, random_data

from rillet.storage.aof.check import check_aof
from rillet.storage.rdb.check import check_rdb

FLIPS = int(os.environ.get("RILLET_FLIPS", "25"))
# What a start logs of a file that it refuses: its place or what is wrong.
REFUSALS = (
    "Fatal error loading the DB", "AOF", "append only file", "append-only", "manifest", "Bad file format",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of a server with an append-only file of a base and increments, and a dump file."""
    root = tmp_path_factory.mktemp("flips")
    with LiveServer(dir=root, appendonly=True, rdbchecksum=True) as server, server.wire() as wire:
        play(wire, random_data(Random(134), 10))  # of every type, with transactions, in scripts, too
        assert wire.call("BGREWRITEAOF").kind == "+"
        eventually(lambda: b"aof_rewrite_in_progress:0" in wire.call("INFO", "persistence").value)
        play(wire, random_data(Random(1134), 10))
        assert wire.call("SAVE").value == b"OK"
    return root


def unsigned(data: bytes) -> bytes:
    """A dump file that says that it has no checksum, so that the flip has to be found by what it does."""
    return data[:-8] + bytes(8)


def flip(data: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]


def file_of(folder: Path, what: str) -> Path:
    if what.startswith("dump"):
        return folder / "dump.rdb"
    return next(
        (folder / "appendonlydir").glob(f"*{'.manifest' if what == 'manifest' else f'.{what[:4]}.*'}")
    )


@pytest.mark.parametrize(
    "what", ["base", "base without a checksum", "incr", "manifest", "dump", "dump without a checksum"]
)
def test_a_flipped_bit_is_refused_or_what_is_loaded_can_be_used(what, made, tmp_path):
    original = file_of(made, what).read_bytes()
    if what.endswith("without a checksum"):
        original = unsigned(original)
    for number in range(FLIPS):
        folder = tmp_path / str(number)
        shutil.copytree(made, folder)
        file = file_of(folder, what)
        damaged = flip(original, Random(f"{what}/{number}"))
        file.write_bytes(damaged)
        try:
            check(folder, file, damaged, is_dump=what.startswith("dump"))
        except Exception as error:
            kept = Path("build/fuzz/flips") / f"{what.replace(' ', '-')}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(folder, kept)
            file_of(kept, what).write_bytes(damaged)
            raise AssertionError(f"flip {number} of the {what}, kept in {kept}: {error}") from error
        shutil.rmtree(folder)


def check(folder: Path, file: Path, damaged: bytes, *, is_dump: bool) -> None:
    said: list[str] = []
    if is_dump:
        check_rdb(file, said.append, now=0)
    else:
        check_aof(next((folder / "appendonlydir").glob("*.manifest")), said.append)
    assert said
    assert not [line for line in said if "Traceback" in line or "nternal" in line]
    digest, log = start(folder, appendonly=not is_dump)
    if digest is None:
        assert any(word in log for word in REFUSALS), log
        assert file.read_bytes() == damaged, "a file that is refused is left as it is"
        return
    # It can be used, written again and loaded again, and is the same then.
    with LiveServer(dir=folder, appendonly=not is_dump) as server, server.wire() as wire:
        for database in range(16):
            assert wire.call("SELECT", database).kind in "+-"
            for key in wire.call("KEYS", "*").plain():
                assert wire.call("DUMP", key).kind in "$-", key
                wire.call("XINFO", "STREAM", key, "FULL")
        wire.call("SAVE")
        assert "Traceback" not in server.log.text()
