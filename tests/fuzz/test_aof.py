"""Append-only files that are damaged: a start refuses them with a clear error, or loads what is whole."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from fuzz.engine import Fuzzer, cuts, mutate
from fuzz.starts import start
from support.wire import encode_command

from rillet.storage.aof.check import check_aof, examine
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import leading_number
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.loading import AofError

fuzzer = Fuzzer("aof")

NAME = "appendonly.aof"
FILE = f"{NAME}.1.incr.aof"
# One input in so many is also what a real server starts on.
_STARTS = 60
WORDS = (
    *b"SET DEL XADD XGROUP XCLAIM MULTI EXEC SELECT PEXPIREAT EVAL FUNCTION RESTORE PSYNC SYNC SHUTDOWN".split(),
    *b"MONITOR SUBSCRIBE BLPOP AUTH QUIT RESET WAIT DEBUG CONFIG REPLICAOF CLIENT HELLO WATCH DISCARD".split(),
    *b"FAILOVER SAVE BGREWRITEAOF XREADGROUP FCALL".split(),
    *b"k s g 0 1 -1 1-1 * nosuch 9223372036854775807 ADVANCE CREATE LOAD".split(),
    b"",
)


@contextmanager
def folder_with(data: bytes) -> Iterator[Path]:
    """A server's folder whose append-only file is one incr file."""
    root = Path(tempfile.mkdtemp(prefix="rillet-aof-"))
    try:
        directory = root / "appendonlydir"
        directory.mkdir()
        (directory / f"{NAME}.manifest").write_text(f"file {FILE} seq 1 type i\n")
        (directory / FILE).write_bytes(data)
        yield root
    finally:
        shutil.rmtree(root)


def load(root: Path, *, chunk_size: int = 1 << 18) -> list[list[bytes]]:
    loader = AofLoader(root, "appendonlydir", NAME, chunk_size=chunk_size)
    return [command for batch in loader.batches() for command in batch]


def check(data: bytes) -> None:
    with folder_with(data) as root:
        file = root / "appendonlydir" / FILE
        starts = crc64(data) % _STARTS == 0
        verdict = examine(file) if data else None
        if starts:
            first, log = start(root, appendonly=True)
            assert (first is None) == ("Ready to accept connections" not in log), log
            file.write_bytes(data)
        try:
            commands = load(root)
        except AofError as error:
            assert str(error)  # noqa: PT017 - one of two good outcomes
            assert file.read_bytes() == data, "a file that is refused is left as it is"
        else:
            # What was torn is cut off by now: the file loads again, in pieces as well as at once, and is the same.
            assert load(root, chunk_size=7) == commands
            assert b"".join(encode_command(*command) for command in commands).count(b"\r\n") >= len(commands)
        if verdict is not None and verdict.fixable:
            file.write_bytes(data)
            said: list[str] = []
            check_aof(file, said.append, confirm=lambda _text: True)
            assert file.stat().st_size == verdict.good
            if verdict.good:
                assert not examine(file).problem, said


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Damage a file, put commands that have no place in it among the others, or cut it."""
    data = chance.choice(corpus)
    if chance.random() < 0.5:
        strange = encode_command(*(chance.choice(WORDS) for _ in range(chance.randint(1, 6))))
        places = [at for at in range(len(data)) if data.startswith(b"*", at)] or [0]
        at = chance.choice(places)
        data = data[:at] + strange + data[at:]
    if chance.random() < 0.1:
        return data[: chance.randrange(len(data) + 1)]
    return mutate(chance, data, corpus) if chance.random() < 0.7 else data


@fuzzer.seeds
def test_a_known_file_is_refused_or_loaded(seed):
    fuzzer.check_once(check, seed)
    with folder_with(seed) as root:
        start(root, appendonly=True)


@fuzzer.seeds
def test_a_file_cut_anywhere_loads_to_its_last_whole_command(seed):
    with folder_with(seed) as root:
        try:
            whole = load(root)
        except AofError:
            return  # it is broken before its end
    for at in cuts(seed):
        with folder_with(seed[:at]) as root:
            try:
                commands = load(root)
            except AofError:
                # A preamble must be whole, and Redis refuses a count that reads as none.
                line = seed[:at].rpartition(b"\n")[2]
                assert seed.startswith(b"REDIS") or (
                    line.startswith(b"*") and leading_number(line[1:]) < 1
                ), at
                continue
            assert commands == whole[: len(commands)]
            assert (root / "appendonlydir" / FILE).stat().st_size <= at


def test_a_mutated_file_is_refused_or_loaded():
    fuzzer.run(check, generate)
