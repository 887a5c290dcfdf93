"""What is measured: for each workload how to prepare the data and what is sent.

Most rows are a developer's day: single messages, small groups, the newest entries. The groups have 10, 100, 10,000 or
100,000 pending entries. Bulk and large values come last. A server that is a little slower finds more requests waiting
each time and pays less for waking the load generator, which flatters it in requests per second: look at processor time.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from loads import FEW, MANY, MODES, ONE, PIPED_100, Benchmark, Own, WhileOthersConnect
from servers import WITHOUT_TLS, Connection, Server, alternate, encode, matches

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from loads import Load, Mode, Sample

# The words of an entry: 42 bytes of names and values.
FIELDS: Final = ("sensor", "kitchen-east-07", "reading", "21.500000-C---")
ENTRY: Final = " ".join(FIELDS)
ADD: Final = f"XADD x * {ENTRY}"
NEW: Final = "XREADGROUP GROUP g c COUNT {} STREAMS s >"
ENTRIES: Final = 100_000
LIBRARY: Final = "#!lua name=l\nredis.register_function('f', function(keys) return 1 end)"
_FIRST_MS: Final = 1_700_000_000_000
_REQUESTS: Final = 20_000


def entry_id(number: int) -> bytes:
    """The ID of the n-th entry of the prepared stream; all are of the same length."""
    return b"%d-0" % (_FIRST_MS + number)


def entries(count: int) -> Iterator[bytes]:
    """The XADDs that make the prepared stream."""
    return (encode("XADD", "s", entry_id(number), *FIELDS) for number in range(count))


def flush(server: Server) -> None:
    """Empty the server."""
    server.control.call("FLUSHALL")


def fill(server: Server, count: int = ENTRIES) -> None:
    """One stream `s` of many entries."""
    server.control.feed(entries(count))


def deliver_all(server: Server, count: int = ENTRIES, group: str = "g") -> None:
    """Make the group again with everything pending with consumer `c`."""
    server.control.call("XGROUP", "DESTROY", "s", group)
    server.control.call("XGROUP", "CREATE", "s", group, "0")
    read = encode("XREADGROUP", "GROUP", group, "c", "COUNT", "100", "STREAMS", "s", ">")
    server.control.feed((read for _ in range(count // 100 + bool(count % 100))), 20)


def pending(server: Server, count: int = ENTRIES) -> None:
    """The stream `s` of so many entries, all of them pending."""
    fill(server, count)
    deliver_all(server, count)


def fill_with_group(server: Server, count: int) -> None:
    """As `fill`, with a group that has read nothing."""
    fill(server, count)
    server.control.call("XGROUP", "CREATE", "s", "g", "0")


def elements(head: str, each: str) -> Callable[[Server, int], None]:
    """Return what sends commands that begin with `head` and bring a thousand of `each` (the number is its `{}`)."""

    def requests(count: int) -> Iterator[bytes]:
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            yield encode(*head.split(), *[word for at in numbers for word in each.format(at, at).split()])

    return lambda server, count: server.control.feed(requests(count), 10)


keys: Final = elements("MSET", "key:{} value")


@dataclass(frozen=True)
class Workload:
    """One line of the table for each mode.

    Attributes:
        load: what is sent.
        prepare: fills an empty server with what the workload needs.
        modes: how it may arrive.
        flags: of the servers.
        secure: by TLS, on the servers that speak it.
        everyday: one of the rows that README.md sums up.
    """

    name: str
    load: Load
    prepare: Callable[[Server], object] = flush
    modes: tuple[Mode, ...] = MODES
    flags: tuple[str, ...] = ()
    secure: bool = False
    everyday: bool = False


def play(
    asked: argparse.Namespace, programs: Iterable[str], workloads: Iterable[Workload] | None = None
) -> Iterator[tuple[Workload, Mode, dict[str, list[Sample]]]]:
    """Run all workloads, or some, as far as they were asked for; yield the samples of each, by workload and mode."""
    for workload in WORKLOADS if workloads is None else workloads:
        modes = [mode for mode in workload.modes if mode.name.endswith(asked.mode)]
        if not modes or not matches(workload.name, asked.names):
            continue
        with ExitStack() as stack:
            servers = [
                stack.enter_context(Server(name, *workload.flags, secure=workload.secure))
                for name in programs
                if not workload.secure or name not in WITHOUT_TLS
            ]
            for server in servers:
                workload.prepare(server)
            for mode in modes:
                ways = {
                    server.program: partial(workload.load.run, server, mode, asked.seconds)
                    for server in servers
                }
                yield workload, mode, alternate(asked.rounds, ways)


# What is there


def _string(server: Server, value: bytes = b"value:0123456789") -> None:
    server.control.call("SET", "key", value)


def _values(server: Server, size: int) -> None:
    """A stream of ten entries of such a size."""
    value = b"v" * size
    server.control.feed((encode("XADD", "s", entry_id(number), "f", value) for number in range(10)), 1)


def _workers_streams(server: Server) -> None:
    """A stream with a group for each worker."""
    flush(server)
    for client in range(50):
        server.control.call("XGROUP", "CREATE", f"x{client:02d}", "g", "0", "MKSTREAM")


def _function(server: Server) -> None:
    server.control.call("FUNCTION", "LOAD", LIBRARY)


def _subscriptions(server: Server, patterns: int) -> None:
    """One connection, which stays, listens to so many patterns that never match."""
    server.kept = listener = Connection(server.port)
    listener.feed(encode("PSUBSCRIBE", f"*a{number}*b") for number in range(patterns))


def _idle_clients(server: Server) -> None:
    pending(server, 100)
    server.kept = [Connection(server.port) for _ in range(20)]


# Load from here


def _acknowledge(count: int, *, neighbours: bool = False) -> Load:
    """XACK of `count` pending entries at a time, until nothing is pending."""
    number = min(_REQUESTS, ENTRIES // count)

    def requests(_: Mode) -> list[bytes]:
        numbers = list(range(number * count))
        if not neighbours:
            Random(count).shuffle(numbers)
        groups = [numbers[start : start + count] for start in range(0, len(numbers), count)]
        return [encode("XACK", "s", "g", *map(entry_id, group)) for group in groups]

    return Own(requests, deliver_all)


def _claim(of: int, count: int, *, neighbours: bool = False, to: str = "de", more: str = "") -> Load:
    """XCLAIM of `count` entries, neighbours or scattered; the consumers `to` take turns."""

    def requests(_: Mode) -> list[bytes]:
        random = Random(count)
        found = []
        for turn in range(_REQUESTS if count < 100 else _REQUESTS // 5):
            first = random.randrange(of - count + 1)
            chosen = range(first, first + count) if neighbours else random.sample(range(of), count)
            found.append(
                encode("XCLAIM", "s", "g", to[turn % len(to)], "0", *map(entry_id, chosen), *more.split())
            )
        return found

    return Own(requests, lambda _: None)


def _workers() -> Load:
    """XADD, XREADGROUP and XACK, each after the reply to the one before; every worker has a stream of its own."""

    def steps(key: bytes, turn: int) -> tuple[tuple[object, ...], ...]:
        return (
            ("XADD", key, entry_id(turn), *FIELDS),
            ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", key, ">"),
            ("XACK", key, "g", entry_id(turn)),
        )

    def requests(mode: Mode) -> list[bytes]:
        return [
            encode(*steps(b"x%02d" % client, turn)[step])
            for turn in range(_REQUESTS // mode.clients)
            for step in range(3)
            for client in range(mode.clients)
        ]

    return Own(requests, _workers_streams)


def _each_its_stream(make: Callable[[bytes, int], Iterable[bytes]], commands: int) -> Load:
    """What `make` gives for a client's stream and a turn, so that IDs only grow."""

    def requests(mode: Mode) -> list[bytes]:
        return [
            b"".join(make(b"x%02d" % (at // mode.pipeline % mode.clients), at))
            for at in range(_REQUESTS // commands)
        ]

    return Own(requests, flush, commands)


def _add(key: bytes, turn: int) -> Iterator[bytes]:
    yield encode("XADD", key, entry_id(turn), *FIELDS)


def _transaction(key: bytes, turn: int) -> Iterator[bytes]:
    yield encode("MULTI")
    for number in range(10):
        yield from _add(key, turn * 10 + number)
    yield encode("EXEC")


def _mixture(key: bytes, turn: int) -> Iterator[bytes]:
    """Sixteen commands as an application mixes them."""
    for number in range(4):
        yield from _add(key, turn * 4 + number)
        yield encode("SET", b"key:" + key, "value:0123456789")
        yield encode("GET", b"key:" + key)
        yield encode("XACK", key, "g", entry_id(turn * 4 + number))


# The rows


def _new(count: int) -> Load:
    """XREADGROUP of new entries, from the beginning again when all have been read."""
    again = ("XGROUP DESTROY s g", "XGROUP CREATE s g 0")
    return Benchmark(NEW.format(count), before=again, at_most=ENTRIES // count)


_EVERYSEC: Final = ("--appendonly", "yes", "--appendfsync", "everysec")
_ALWAYS: Final = ("--appendonly", "yes", "--appendfsync", "always")
_UNPIPED: Final = (ONE, MANY)
_SET: Final = "SET key value:0123456789"
_RANGE: Final = "XRANGE s - + COUNT 10"
_HISTORY: Final = "XREADGROUP GROUP g c COUNT 10 STREAMS s 0"
_PENDING: Final = "XPENDING s g - + 10"
_CAPPED: Final = f"XADD s MAXLEN ~ 1000 * {ENTRY}"
_SPREAD: Final = f"XADD x:__rand_int__ * {ENTRY}"
_SCRIPT: Final = "return redis.call('XADD', KEYS[1], 'MAXLEN', '~', '1000', '*', 'f', 'v')"
_PUBLISH: Final = Benchmark("PUBLISH news hello")
_ADD: Final = Benchmark(ADD, before=("DEL x",))
_WORKERS: Final = _workers()
_WORK: Final = "workers: XADD, XREADGROUP, XACK"
_ten, _hundred, _thousands = (partial(pending, count=count) for count in (10, 100, 10_000))
_every: Final = partial(Workload, everyday=True)


def _claims() -> Iterator[Workload]:
    for prepare, of in ((_ten, 10), (_hundred, 100), (_thousands, 10_000), (pending, ENTRIES)):
        for count in (1, 5, 10):
            load = _claim(of, count)
            yield Workload(f"XCLAIM of {count}, {of:,} pending", load, prepare, everyday=of == 100)
    yield Workload("XCLAIM of 5, JUSTID, 100 pending", _claim(100, 5, more="JUSTID"), _hundred)
    yield Workload("XCLAIM of 5, own, 100 pending", _claim(100, 5, to="c"), _hundred)


def _big(name: str, size: int) -> Iterator[Workload]:
    add = Benchmark("XADD x MAXLEN 100 * f", before=("DEL x",), value=b"v" * size)
    yield Workload(f"XADD, value of {name}", add, modes=_UNPIPED)
    read = Benchmark("XRANGE s - + COUNT 1")
    yield Workload(f"XRANGE, value of {name}", read, partial(_values, size=size), _UNPIPED)


WORKLOADS: Final = (
    _every("PING", Benchmark("PING")),
    _every("SET", Benchmark(_SET)),
    _every("GET", Benchmark("GET key"), _string),
    _every("XADD", _ADD, modes=(*MODES, PIPED_100)),
    Workload("XADD, explicit IDs", _each_its_stream(_add, 1)),
    Workload("XADD over 1,000 streams", Benchmark(_SPREAD, before=("FLUSHALL",), keys=1000)),
    _every("XADD MAXLEN ~ 1000", Benchmark(_CAPPED), partial(fill, count=1000), (*MODES, FEW)),
    _every("XRANGE COUNT 10", Benchmark(_RANGE), _thousands),
    _every("XREVRANGE COUNT 10", Benchmark("XREVRANGE s + - COUNT 10"), _thousands),
    _every("XREAD COUNT 10", Benchmark("XREAD COUNT 10 STREAMS s 0"), _thousands),
    _every("XREADGROUP COUNT 1", _new(1), fill, _UNPIPED),
    _every("XREADGROUP COUNT 10", _new(10), fill, _UNPIPED),
    _every("XREADGROUP COUNT 10 of its history", Benchmark(_HISTORY), _hundred),
    _every("XACK of 1", _acknowledge(1), pending),
    _every("XACK of 10", _acknowledge(10), pending, _UNPIPED),
    Workload("XACK of 1 that is not pending", Benchmark("XACK s g 1-1"), _hundred),
    *_claims(),
    Workload("XAUTOCLAIM COUNT 1", Benchmark("XAUTOCLAIM s g d 0 0 COUNT 1"), _hundred),
    _every("XAUTOCLAIM COUNT 10", Benchmark("XAUTOCLAIM s g d 0 0 COUNT 10"), _hundred),
    Workload("XAUTOCLAIM COUNT 100", Benchmark("XAUTOCLAIM s g d 0 0 COUNT 100"), _hundred),
    Workload("XPENDING, summary", Benchmark("XPENDING s g"), _hundred),
    _every("XPENDING of 10", Benchmark(_PENDING), _hundred, (*MODES, FEW)),
    _every(_WORK, _WORKERS, _workers_streams, _UNPIPED),
    _every("workers, AOF everysec", _WORKERS, _workers_streams, _UNPIPED, _EVERYSEC),
    Workload("workers, AOF always", _WORKERS, _workers_streams, (MANY,), _ALWAYS),
    _every("XADD, AOF everysec", _ADD, flags=_EVERYSEC),
    Workload("XADD, AOF always", _ADD, flags=_ALWAYS),
    _every("XCLAIM of 1, AOF everysec", _claim(100, 1), _hundred, flags=_EVERYSEC),
    _every("EVAL", Benchmark("EVAL", "return 1", "0")),
    _every("FCALL", Benchmark("FCALL f 0"), _function),
    Workload("EVAL of an XADD", Benchmark("EVAL", _SCRIPT, "1", "x")),
    _every("PUBLISH", _PUBLISH),
    Workload("PUBLISH beside 3,000 patterns", _PUBLISH, partial(_subscriptions, patterns=3000)),
    Workload(
        "APPEND to a string of 1 MB", Benchmark("APPEND key hello"), partial(_string, value=b"x" * 1_000_000)
    ),
    _every("mixed pipeline of 16", _each_its_stream(_mixture, 16), modes=_UNPIPED),
    _every("MULTI, 10 XADDs, EXEC", _each_its_stream(_transaction, 12), modes=_UNPIPED),
    Workload("PING beside 20 idle clients", Benchmark("PING"), _idle_clients, (FEW,)),
    Workload("XRANGE beside 20 idle clients", Benchmark(_RANGE), _idle_clients, (FEW,)),
    Workload("XRANGE while others connect", WhileOthersConnect(_RANGE), _hundred, (MANY,)),
    # Bulk
    Workload("XLEN", Benchmark("XLEN s"), fill),
    Workload("XRANGE COUNT 100", Benchmark("XRANGE s - + COUNT 100"), fill),
    Workload("XRANGE COUNT 1000", Benchmark("XRANGE s - + COUNT 1000"), fill),
    Workload("XREAD COUNT 100", Benchmark("XREAD COUNT 100 STREAMS s 0"), fill),
    Workload("XREADGROUP COUNT 100", _new(100), fill, _UNPIPED),
    # All that is pending is acknowledged before 50 clients have sent a pipeline of these.
    Workload("XACK of 100", _acknowledge(100, neighbours=True), pending, _UNPIPED),
    Workload("XCLAIM of 100", _claim(ENTRIES, 100, neighbours=True), pending, _UNPIPED),
    Workload("XPENDING of 100", Benchmark("XPENDING s g - + 100"), pending),
    *_big("10 KB", 10_000),
    *_big("1 MB", 1_000_000),
    *[
        Workload(f"{line.split()[0]}, TLS", Benchmark(line), _hundred, secure=True)
        for line in ("PING", _CAPPED, _RANGE, _HISTORY, _PENDING)
    ],
)
