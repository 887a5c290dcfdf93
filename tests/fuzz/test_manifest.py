"""Manifests that are damaged: a clear error, or the files that they name and no others."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzz.engine import Fuzzer, mutate
from fuzz.starts import start
from support.wire import encode_command

from rillet.storage.aof.check import check_aof
from rillet.storage.aof.loader import AofLoader
from rillet.storage.aof.manifest import Manifest
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.loading import AofError

fuzzer = Fuzzer("manifest")

NAME = "appendonly.aof"
_STARTS = 60
FILES = {
    f"{NAME}.1.base.aof": encode_command("SET", "base", 1),
    f"{NAME}.1.incr.aof": encode_command("SET", "first", 1),
    f"{NAME}.2.incr.aof": encode_command("SET", "second", 1),
    "a name.aof": encode_command("SET", "named", 1),
    "empty.aof": b"",
}
SECRET = "outside.aof"
PIECES = (
    *b"file seq type startoffset endoffset b i h 1 2 0 -1 9223372036854775808".split(),
    *(name.encode() for name in FILES),
    *rb"""  "\x00" " ' .. . "" ../outside.aof /etc/passwd \ # nosuch.aof appendonly.aof.manifest """.split(),
    *(b'"a name.aof"', b"\n", b"\xff", b"x" * 300, b"file " * 250),
)


def check(data: bytes, *, always: bool = False) -> None:
    root = Path(tempfile.mkdtemp(prefix="rillet-manifest-"))
    try:
        directory = root / "appendonlydir"
        directory.mkdir()
        (root / SECRET).write_bytes(encode_command("SET", "outside", 1))
        for name, text in FILES.items():
            (directory / name).write_bytes(text)
        (directory / f"{NAME}.manifest").write_bytes(data)
        said: list[str] = []
        check_aof(directory / f"{NAME}.manifest", said.append)
        assert said
        try:
            manifest = Manifest.parse(data)
            again = Manifest.parse(manifest.encode())
            assert again == manifest, "a manifest that is written again means something else"
            loader = AofLoader(root, "appendonlydir", NAME)
            keys = [command[1] for batch in loader.batches() for command in batch if command[0] == b"SET"]
            assert b"outside" not in keys
        except AofError as error:
            assert str(error)  # noqa: PT017 - one of two good outcomes
        if always or crc64(data) % _STARTS == 0:
            start(root, appendonly=True)
    finally:
        shutil.rmtree(root)


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write lines that are nearly right, or damage a whole manifest."""
    if chance.random() < 0.4:
        return mutate(chance, chance.choice(corpus), corpus)
    lines = []
    for number in range(chance.randint(1, 4)):
        name, kind = chance.choice(list(FILES)), chance.choice(("b", "h", "i"))
        words = [b"file", show(name), b"seq", b"%d" % (number + 1), b"type", kind.encode()]
        for _ in range(chance.choice((0, 0, 1, 2))):
            words[chance.randrange(len(words))] = chance.choice(PIECES)
        if chance.random() < 0.2:
            words += [chance.choice(PIECES) for _ in range(chance.randint(1, 3))]
        lines.append(
            chance.choice((b" ", b" ", b"\t", b"  ")).join(words)
            + chance.choice((b"\n", b"\n", b"\r\n", b""))
        )
    return b"".join(lines)


def show(name: str) -> bytes:
    return f'"{name}"'.encode() if " " in name else name.encode()


@fuzzer.seeds
def test_a_known_manifest_is_refused_or_names_its_files(seed):
    fuzzer.check_once(lambda data: check(data, always=True), seed)


@fuzzer.seeds
def test_a_manifest_cut_anywhere_is_refused_or_names_its_files(seed):
    for at in range(len(seed)):
        check(seed[:at])


def test_a_mutated_manifest_is_refused_or_names_its_files():
    fuzzer.run(check, generate)
