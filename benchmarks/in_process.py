"""What a request costs within the server's process, without sockets: from its bytes to those of its reply.

    .venv/bin/python benchmarks/in_process.py                    microseconds a request: `make bench-inside`
    .venv/bin/python benchmarks/in_process.py xclaim --profile   and where they go, by cProfile

The figure is the least processor time of many chunks of fifty requests, so that other work on the machine hardly shows: a
change of 0.1 µs is seen where requests a second vary by a fifth. *With an AOF* is with `appendfsync everysec`, its writes
to the file included: fifty clients send a request each, and one write follows. Beside it stand sixteen requests at a time.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import shutil
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from time import thread_time_ns
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from results import put_into
from servers import encode, matches
from workloads import FIELDS, LIBRARY, entries, entry_id

from rillet.server.config.config import Config
from rillet.server.net.connection import Connection
from rillet.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_CLIENTS: Final = 50
_PIPELINE: Final = 16
_REQUESTS: Final = 400


class _Nowhere:
    """A transport that drops what is written."""

    def get_extra_info(self, *_: object) -> None:
        """Nothing is known of it."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        """Drop it."""


class Inside:
    """A server whose clients are called instead of sent to."""

    def __init__(self, *, aof: bool) -> None:
        self._later: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._folder = tempfile.mkdtemp(prefix="bench-inside-")
        config = Config()
        config.dir = self._folder
        server = Server(config, quiet=True)
        timer = SimpleNamespace(cancel=lambda: None)
        loop: Any = SimpleNamespace(
            call_soon=lambda what, *words: self._later.append((what, words)),
            call_later=lambda *_: timer,
            call_at=lambda *_: timer,
            time=lambda: 0.0,
        )
        server.loop = loop
        if aof:
            server.persistence.open()
        self.receivers: list[Callable[[bytes], None]] = []
        for _ in range(_CLIENTS):
            connection = Connection(server, unix_socket=True)
            transport: Any = _Nowhere()
            connection.connection_made(transport)
            self.receivers.append(connection.data_received)

    def send(self, requests: Iterable[bytes]) -> None:
        """Let one client send requests, each alone."""
        for request in requests:
            self.receivers[0](request)
            self.turn()

    def turn(self) -> None:
        """Do what was to be done in the next turn of the loop."""
        while self._later:
            what, words = self._later.popleft()
            what(*words)

    def close(self) -> None:
        """Remove its files."""
        shutil.rmtree(self._folder)


@dataclass(frozen=True)
class Case:
    """What is measured: the requests, what is sent once before, and what before every round of them."""

    requests: list[bytes]
    prepare: Sequence[bytes] = ()
    again: Sequence[bytes] = ()


def _again(*words: object) -> Case:
    return Case([encode(*words)] * _REQUESTS)


def _delivered(count: int, group: str = "g") -> list[bytes]:
    read = encode("XREADGROUP", "GROUP", group, "c", "COUNT", "100", "STREAMS", "s", ">")
    return [
        encode("XGROUP", "DESTROY", "s", group),
        encode("XGROUP", "CREATE", "s", group, "0"),
        *[read] * (count // 100),
    ]


def _pending(count: int, *words: object) -> Case:
    return Case([encode(*words)] * _REQUESTS, [*entries(count), *_delivered(count)])


def _claims(pending: int, count: int, *more: str) -> Case:
    chance = random.Random(count)
    requests = []
    for turn in range(_REQUESTS):
        ids = map(entry_id, chance.sample(range(pending), count))
        requests.append(encode("XCLAIM", "s", "g", "de"[turn % 2], "0", *ids, *more))
    return Case(requests, [*entries(pending), *_delivered(pending)])


def _acknowledgements(count: int) -> Case:
    numbers = list(range(count * _REQUESTS))
    random.Random(count).shuffle(numbers)
    requests = [encode("XACK", "s", "g", *map(entry_id, numbers[at::_REQUESTS])) for at in range(_REQUESTS)]
    return Case(requests, list(entries(len(numbers))), _delivered(len(numbers)))


def _reads(count: int) -> Case:
    read = encode("XREADGROUP", "GROUP", "g", "c", "COUNT", count, "STREAMS", "s", ">")
    return Case([read] * _REQUESTS, list(entries(count * _REQUESTS)), _delivered(0))


def _work() -> Case:
    requests: list[bytes] = []
    for turn in range(_REQUESTS // 3):
        requests.append(encode("XADD", "s", entry_id(turn), *FIELDS))
        requests.append(encode("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">"))
        requests.append(encode("XACK", "s", "g", entry_id(turn)))
    return Case(requests, [], [encode("FLUSHALL"), encode("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")])


_VARARGS: Final = """
-- As a script of some length: with functions, varargs and comments
local function all(prefix, ...)
  local found = {}
  for i = 1, select('#', ...) do found[i] = prefix .. tostring((select(i, ...))) end -- in their order
  return found
end
return all(ARGV[1], unpack(KEYS))
"""


def _new_scripts() -> Case:
    scripts = [f"{_VARARGS}-- {turn}" for turn in range(_REQUESTS)]
    return Case(
        [encode("EVAL", script, "1", "key", "p") for script in scripts], [], [encode("SCRIPT", "FLUSH")]
    )


CASES: Final = {
    "PING": lambda: _again("PING"),
    "SET": lambda: _again("SET", "key", "value:0123456789"),
    "GET": lambda: Case([encode("GET", "key")] * _REQUESTS, [encode("SET", "key", "value:0123456789")], []),
    "XADD": lambda: Case([encode("XADD", "x", "*", *FIELDS)] * _REQUESTS, [], [encode("DEL", "x")]),
    "XADD MAXLEN ~ 1000": lambda: Case(
        [encode("XADD", "s", "MAXLEN", "~", "1000", "*", *FIELDS)] * _REQUESTS, list(entries(1000)), []
    ),
    "XRANGE COUNT 10": lambda: _pending(10_000, "XRANGE", "s", "-", "+", "COUNT", "10"),
    "XREAD COUNT 10": lambda: _pending(10_000, "XREAD", "COUNT", "10", "STREAMS", "s", "0"),
    "XREADGROUP COUNT 1": lambda: _reads(1),
    "XREADGROUP COUNT 10": lambda: _reads(10),
    "XREADGROUP COUNT 10 of its history": lambda: _pending(
        100, "XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", "0"
    ),
    "XACK of 1": lambda: _acknowledgements(1),
    "XACK of 10": lambda: _acknowledgements(10),
    "XACK of 1 that is not pending": lambda: _pending(100, "XACK", "s", "g", "1-1"),
    **{
        f"XCLAIM of {count}, {pending:,} pending": lambda pending=pending, count=count: _claims(
            pending, count
        )
        for pending in (100, 10_000)
        for count in (1, 2, 5, 10, 20)
    },
    "XCLAIM of 5, JUSTID, 100 pending": lambda: _claims(100, 5, "JUSTID"),
    "XAUTOCLAIM COUNT 1": lambda: _pending(100, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "1"),
    "XAUTOCLAIM COUNT 10": lambda: _pending(100, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "10"),
    "XPENDING of 10": lambda: _pending(100, "XPENDING", "s", "g", "-", "+", "10"),
    "workers: XADD, XREADGROUP, XACK": _work,
    "EVAL": lambda: _again("EVAL", "return 1", "0"),
    "EVAL of a GET": lambda: _again("EVAL", "return redis.call('GET', KEYS[1])", "1", "key"),
    "EVAL of ten GETs, pcall each": lambda: _again(
        "EVAL", "for i = 1, 10 do pcall(redis.call, 'GET', KEYS[1]) end return 1", "1", "key"
    ),
    "EVAL of a new script": _new_scripts,
    "FCALL": lambda: Case([encode("FCALL", "f", "0")] * _REQUESTS, [encode("FUNCTION", "LOAD", LIBRARY)], []),
}


def measure(
    case: Case, rounds: int, *, aof: bool = False, together: int = 1, profile: cProfile.Profile | None = None
) -> float:
    """Microseconds a request: the least of all chunks, less the luckiest two in a hundred."""
    inside = Inside(aof=aof)
    inside.send(case.prepare)
    batches = [b"".join(case.requests[at : at + together]) for at in range(0, len(case.requests), together)]
    chunk = max(_CLIENTS // together, 1)
    found: list[float] = []
    for turn in range(rounds + 1):
        inside.send(case.again)
        gc.collect()
        for start in range(0, len(batches) - chunk + 1, chunk):
            work = list(zip(inside.receivers, batches[start : start + chunk], strict=False))
            if profile is not None and turn:
                profile.enable()
            begun = thread_time_ns()
            for receive, data in work:
                receive(data)
            inside.turn()
            if turn:  # the first round looks commands up and imports
                found.append((thread_time_ns() - begun) / len(work) / together)
            if profile is not None:
                profile.disable()
    inside.close()
    return sorted(found)[len(found) // 50] / 1000


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--profile", action="store_true", help="print where the time goes as well")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the table between its markers")
    asked = parser.parse_args()
    lines = ["| µs a request | alone | with an AOF | 16 at a time |", "| --- | ---: | ---: | ---: |"]
    print("\n".join(lines))
    for name, make in CASES.items():
        if not matches(name, asked.names):
            continue
        case = make()
        found = [
            measure(case, asked.rounds),
            measure(case, asked.rounds, aof=True),
            measure(case, asked.rounds, together=_PIPELINE),
        ]
        lines.append(f"| {name} | {' | '.join(f'{each:.2f}' for each in found)} |")
        print(lines[-1], flush=True)
        if asked.profile:
            profile = cProfile.Profile()
            measure(case, asked.rounds, profile=profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    if asked.markdown:
        page = asked.markdown.read_text(encoding="utf-8")
        asked.markdown.write_text(put_into(page, "inside", "\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
