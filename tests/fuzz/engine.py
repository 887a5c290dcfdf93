"""One engine for all fuzzers: a corpus that is replayed first, a number of inputs, seeds, shrinking, reports.

An input is bytes: a payload, a file, or a text of one command a line. A fuzzer checks inputs, and makes new ones.

    fuzzer = Fuzzer("restore")

    @fuzzer.seeds
    def test_a_known_payload_is_refused_or_can_be_used(seed): check(seed)

    def test_a_mutated_payload_is_refused_or_can_be_used(): fuzzer.run(check, generate)

Environment:
    RILLET_FUZZ_SECONDS: seconds of all fuzzers together; each has its share of it. Without it each makes a fixed number
        of inputs.
    RILLET_FUZZ_SEED: the number that all chance comes from; 1 by default. So `make test` repeats itself, on any machine.
    RILLET_FUZZ_INPUT: a file; the tests of seeds check it instead of their corpus, and nothing else runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import sys
import time
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Self

import pytest

from rillet.protocol.inline import quote, split_inline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Check = Callable[[bytes], object]
    Generate = Callable[[Random, "Sequence[bytes]"], bytes]

ROOT: Final = Path(__file__).resolve().parents[2]
CORPUS: Final = Path(__file__).parent / "corpus"
# Of each fuzzer: its part of the seconds of a long run, and its number of inputs in `make test`, which take about as long.
SHARES: Final = {
    "requests": 2.0, "restore": 3.5, "rdb": 2.0, "aof": 2.0, "manifest": 1.0, "lua_arguments": 2.5,
    "lua_kills": 2.0, "acl": 3.0, "commands": 4.0, "replicas": 2.0, "masters": 2.0,
}  # fmt: skip
INPUTS: Final = {
    "requests": 700, "restore": 1200, "rdb": 700, "aof": 900, "manifest": 700, "lua_arguments": 100,
    "lua_kills": 60, "acl": 150, "commands": 90, "replicas": 60, "masters": 60,
}  # fmt: skip
# Generous: these end what would never end, they measure nothing.
HANG_SECONDS: Final = 120
_SHRINKING_SECONDS: Final = 20.0
_MOST_MEMORY: Final = 256 << 20  # bytes by which one input may raise the highest memory of this process

_INTERESTING: Final = bytes.fromhex("00 01 02 07 0B 1F 20 3F 40 7F 80 81 C0 C3 E0 F0 F4 FE FF")
_NUMBERS: Final = (
    *(0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1),
)


_BARE: Final = re.compile(rb"[!$-&(-\[\]-~]+").fullmatch


def cuts(seed: bytes) -> range:
    """Choose the places to cut an input at: all of them in a long run, about 250 in that of `make test`."""
    return range(0, len(seed), 1 if "RILLET_FUZZ_SECONDS" in os.environ else len(seed) // 250 + 1)


class HangError(AssertionError):
    """An input took longer than anything may take."""


class Fuzzer:
    """A fuzzer by its name, which is also that of the folder of its corpus.

    Args:
        name: one of SHARES.
        by_line: inputs are texts; shrinking takes lines away, not bytes.
    """

    def __init__(self, name: str, *, by_line: bool = False) -> None:
        self.name = name
        self.by_line = by_line

    # The corpus

    def corpus(self) -> list[Path]:
        """The files of the corpus, or the one input that RILLET_FUZZ_INPUT names."""
        chosen = os.environ.get("RILLET_FUZZ_INPUT")
        if chosen:
            return [Path(chosen)]
        return sorted(path for path in (CORPUS / self.name).iterdir() if path.is_file())

    def texts(self) -> list[bytes]:
        """The inputs of the corpus."""
        return [path.read_bytes() for path in self.corpus()]

    def seeds(self, test: Callable[..., None]) -> object:
        """Mark a test that takes `seed`: it runs once for each file of the corpus."""
        files = self.corpus()
        return pytest.mark.parametrize(
            "seed", [_Seed(path) for path in files], ids=[path.name for path in files]
        )(test)

    # A run

    def run(self, check: Check, generate: Generate) -> int:
        """Make inputs and check them until there were enough, or the time is up; gives how many there were."""
        if os.environ.get("RILLET_FUZZ_INPUT"):
            return 0
        number = os.environ.get("RILLET_FUZZ_SEED", "1")
        seconds = self.seconds
        until = None if seconds is None else time.monotonic() + seconds
        corpus = self.texts()
        for each in count():
            if each >= INPUTS[self.name] if until is None else time.monotonic() >= until:
                print(f"{self.name}: {each} inputs of seed {number}")  # noqa: T201
                return each
            data = generate(Random(f"{number}/{self.name}/{each}"), corpus)
            try:
                self.check_once(check, data)
            except Exception as error:  # noqa: BLE001 - it is raised again with its input
                self._report(check, data, error, number, each)
        raise AssertionError

    @property
    def seconds(self) -> float | None:
        """The share of this fuzzer; None where the number of inputs is fixed."""
        everything = os.environ.get("RILLET_FUZZ_SECONDS")
        return None if everything is None else float(everything) * SHARES[self.name] / sum(SHARES.values())

    def check_once(self, check: Check, data: bytes) -> None:
        """Check one input, which may neither hang nor take much memory."""
        before = _highest_memory()
        with _no_hang():
            check(data)
        assert _highest_memory() - before <= _MOST_MEMORY, "this input takes too much memory"

    # What was found

    def _report(self, check: Check, data: bytes, error: Exception, number: str, each: int) -> None:
        small = self._shrink(check, data, type(error))
        folder = ROOT / "build" / "fuzz" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / hashlib.sha1(small).hexdigest()[:12]
        path.write_bytes(small)
        shown = path.relative_to(ROOT)
        raise AssertionError(
            f"{type(error).__name__}: {error}\n"
            f"Input {each} of seed {number}, shrunk from {len(data)} to {len(small)} bytes: {small[:500]!r}\n"
            f"Run it alone: RILLET_FUZZ_INPUT={shown} .venv/bin/pytest tests/fuzz/test_{self.name}.py\n"
            f"Keep it:      mv {shown} tests/fuzz/corpus/{self.name}/<a-sentence-that-names-the-defect>"
        ) from error

    def _shrink(self, check: Check, data: bytes, kind: type[Exception]) -> bytes:
        """Take away what the failure does not need, half by half, for a while."""
        until = time.monotonic() + _SHRINKING_SECONDS

        def fails(pieces: list[bytes]) -> bool:
            try:
                self.check_once(check, b"".join(pieces))
            except Exception as error:  # noqa: BLE001 - which one it is decides
                return isinstance(error, kind)
            return False

        pieces = data.splitlines(keepends=True) if self.by_line else [bytes((byte,)) for byte in data]
        size = len(pieces) // 2
        while size and kind is not HangError:
            at = 0
            while at < len(pieces):
                if time.monotonic() > until:
                    return b"".join(pieces)
                fewer = pieces[:at] + pieces[at + size :]
                if fewer and fails(fewer):
                    pieces = fewer
                else:
                    at += size
            size //= 2
        return b"".join(pieces)


class _Seed(bytes):
    """The bytes of a file of the corpus, read when the test runs."""

    __slots__ = ()

    def __new__(cls, path: Path) -> Self:
        return super().__new__(cls, path.read_bytes())

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@contextlib.contextmanager
def _no_hang() -> Iterator[None]:
    """Raise HangError where something takes far too long; only where the system has SIGALRM."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: object) -> None:
        raise HangError(f"this input is not done after {HANG_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _highest_memory() -> int:
    """The most bytes this process ever held; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Making inputs


def mutate(chance: Random, data: bytes, others: Sequence[bytes] = (), *, most: int = 4) -> bytes:
    """Change a few places of an input: bits, bytes, numbers, pieces left out, doubled, moved, taken from another."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, chance.randint(1, most)))):
        if not out:
            break
        # Lengths and kinds stand near the start: half of all changes are there.
        at = chance.randrange(min(len(out), 40) if chance.random() < 0.4 else len(out))
        what = chance.randrange(10)
        if what <= 1:
            out[at] ^= 1 << chance.randrange(8)
        elif what == 2:
            out[at] = chance.choice(_INTERESTING)
        elif what == 3:
            out[at] = (out[at] + chance.choice((-1, 1))) & 0xFF
        elif what == 4:
            size = chance.choice((1, 2, 4, 8))
            number = chance.choice(_NUMBERS) & ((1 << 8 * size) - 1)
            out[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))
        elif what == 5:
            del out[at : at + _few(chance)]
        elif what == 6:
            out[at:at] = bytes((chance.choice(_INTERESTING),)) * _few(chance)
        elif what == 7:
            piece = out[at : at + _few(chance)]
            to = chance.randrange(len(out) + 1)
            out[to:to] = piece
        elif what == 8 and others:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            piece = other[start : start + _few(chance) * 4]
            out[at : at + len(piece) * chance.randrange(2)] = piece
        elif chance.random() < 0.3:
            del out[at:]
        else:
            out[at] = chance.randrange(256)
    return bytes(out)


def _few(chance: Random) -> int:
    return chance.choice((1, 1, 1, 2, 3, 4, 8, 9, 17))


# Inputs that are commands


def parse_lines(text: bytes) -> list[list[bytes]]:
    """Parse the commands of a text: one a line, quoted as in redis-cli; empty lines and `# …` are passed over."""
    found = []
    for line in text.splitlines():
        words = split_inline(line)
        if words and not words[0].startswith(b"#"):
            found.append(words)
    return found


def show_line(words: Sequence[bytes]) -> bytes:
    """Write a command as a line that `parse_lines` reads."""
    return b" ".join(word if _BARE(word) else quote(word) for word in words)
