"""What is measured: for each workload how to prepare the data and what is sent.

Most rows are a developer's day: single messages, small groups, the newest entries. The groups have 10, 100, 10,000 or
100,000 pending entries. Bulk and large values come last. A server that is a little slower finds more requests waiting
each time and pays less for waking the load generator, which flatters it in requests per second: look at processor time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from loads import FEW, MANY, MODES, ONE, PIPED_100, benchmark, beside, own, while_others_connect
from servers import Connection, Server, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from loads import Mode, Run

# 42 bytes of names and values in an entry.
FIELDS: Final = ("sensor", "kitchen-east-07", "reading", "21.500000 C   ")
ENTRIES: Final = 100_000
LIBRARY: Final = "#!lua name=l\nredis.register_function('f', function(keys) return 1 end)"
_FIRST_MS: Final = 1_700_000_000_000
_REQUESTS: Final = 20_000


@dataclass(frozen=True)
class Workload:
    """One line of the table for each mode.

    Attributes:
        prepare: fills an empty server with what the workload needs; it finds what others before it left.
        run: sends load for about so many seconds.
        flags: of the servers.
        secure: by TLS, on the servers that speak it.
        everyday: one of the rows that README.md sums up.
    """

    name: str
    prepare: Callable[[Server], None]
    run: Run
    modes: tuple[Mode, ...] = MODES
    flags: tuple[str, ...] = ()
    secure: bool = False
    everyday: bool = False


def entry_id(number: int) -> bytes:
    """The ID of the n-th entry of the prepared stream; all are of the same length."""
    return b"%d-0" % (_FIRST_MS + number)


def entries(count: int) -> Iterator[bytes]:
    """The XADDs that make the prepared stream."""
    return (encode("XADD", "s", entry_id(number), *FIELDS) for number in range(count))


def nothing(server: Server) -> None:
    """An empty server."""
    server.control.call("FLUSHALL")


def filled(server: Server, count: int = ENTRIES) -> None:
    """One stream `s` of many entries; it may be there already."""
    if server.control.call("XLEN", "s") == count:
        return
    nothing(server)
    server.control.feed(entries(count))


def deliver_all(server: Server, count: int = ENTRIES, group: str = "g") -> None:
    """Make the group again with everything pending with consumer `c`."""
    server.control.call("XGROUP", "DESTROY", "s", group)
    server.control.call("XGROUP", "CREATE", "s", group, "0")
    read = encode("XREADGROUP", "GROUP", group, "c", "COUNT", "100", "STREAMS", "s", ">")
    server.control.feed((read for _ in range(count // 100 + bool(count % 100))), at_once=20)


def pending(server: Server, count: int = ENTRIES) -> None:
    """The stream `s` of so many entries, all of them pending."""
    filled(server, count)
    deliver_all(server, count)


def _key(server: Server) -> None:
    """A key to GET."""
    server.control.call("SET", "key", "value:0123456789")


def _string(server: Server, size: int) -> None:
    """A long string to append to."""
    server.control.call("SET", "key", b"x" * size)


def _values(server: Server, size: int) -> None:
    """A stream of ten entries of such a size."""
    nothing(server)
    value = b"v" * size
    server.control.feed((encode("XADD", "s", entry_id(number), "f", value) for number in range(10)), 1)


def _workers_streams(server: Server) -> None:
    """A stream with a group for each worker."""
    nothing(server)
    for client in range(50):
        server.control.call("XGROUP", "CREATE", f"x{client:02d}", "g", "0", "MKSTREAM")


def _function(server: Server) -> None:
    server.control.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)


def _subscriptions(server: Server, patterns: int) -> None:
    """One connection, which stays, listens to so many patterns that never match."""
    nothing(server)
    server.control.call("CLIENT", "KILL", "TYPE", "pubsub")
    listener = Connection(server.port)
    listener.feed(encode("PSUBSCRIBE", f"*a{number}*b") for number in range(patterns))
    server.kept = listener


# Load from here


def _acknowledge(count: int, *, neighbours: bool = False) -> Run:
    """XACK of `count` pending entries at a time, until nothing is pending."""
    number = min(_REQUESTS, ENTRIES // count)

    def requests(_: Mode) -> list[bytes]:
        numbers = list(range(number * count))
        if not neighbours:
            Random(count).shuffle(numbers)
        groups = [numbers[start : start + count] for start in range(0, len(numbers), count)]
        return [encode("XACK", "s", "g", *map(entry_id, group)) for group in groups]

    return own(requests, deliver_all)


def _claim(
    of: int, count: int, *, neighbours: bool = False, to: tuple[str, ...] = ("d", "e"), more: str = ""
) -> Run:
    """XCLAIM of `count` entries, neighbours or scattered; the consumers `to` take turns."""

    def requests(_: Mode) -> list[bytes]:
        random = Random(count)
        found = []
        for turn in range(_REQUESTS if count < 100 else _REQUESTS // 5):
            first = random.randrange(of - count + 1)
            chosen = range(first, first + count) if neighbours else random.sample(range(of), count)
            name = to[turn % len(to)]
            found.append(encode("XCLAIM", "s", "g", name, "0", *map(entry_id, chosen), *more.split()))
        return found

    return own(requests, lambda _: None)


def _workers() -> Run:
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

    return own(requests, _workers_streams, steps=3)


def _each_its_stream(make: Callable[[bytes, int], Iterable[bytes]], commands: int) -> Run:
    """What `make` gives for a client's stream and a turn, so that IDs only grow."""

    def requests(mode: Mode) -> list[bytes]:
        return [
            b"".join(make(b"x%02d" % (at // mode.pipeline % mode.clients), at))
            for at in range(_REQUESTS // commands)
        ]

    return own(requests, nothing)


def _add(key: bytes, turn: int) -> Iterator[bytes]:
    yield encode("XADD", key, entry_id(turn), *FIELDS)


def _transaction(key: bytes, turn: int) -> Iterator[bytes]:
    yield encode("MULTI")
    for number in range(10):
        yield from _add(key, turn * 10 + number)
    yield encode("EXEC")


def _mixture(key: bytes, turn: int) -> Iterator[bytes]:
    """Sixteen commands as an application mixes them; the replies are always of the same length."""
    for number in range(4):
        yield from _add(key, turn * 4 + number)
        yield encode("SET", b"key:" + key, "value:0123456789")
        yield encode("GET", b"key:" + key)
        yield encode("XACK", key, "g", entry_id(turn * 4 + number))


# Load from redis-benchmark


def _new(count: int) -> Run:
    """XREADGROUP of new entries, from the beginning again when all have been read."""
    words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", str(count), "STREAMS", "s", ">")
    again = (("XGROUP", "DESTROY", "s", "g"), ("XGROUP", "CREATE", "s", "g", "0"))
    return benchmark(*words, before=again, at_most=ENTRIES // count)


_EVERYSEC: Final = ("--appendonly", "yes", "--appendfsync", "everysec")
_ALWAYS: Final = ("--appendonly", "yes", "--appendfsync", "always")
_UNPIPED: Final = (ONE, MANY)
_RANGE: Final = ("XRANGE", "s", "-", "+", "COUNT", "10")
_HISTORY: Final = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", "0")
_PENDING: Final = ("XPENDING", "s", "g", "-", "+", "10")
_ADD: Final = benchmark("XADD", "x", "*", *FIELDS, before=(("DEL", "x"),))
_CAPPED: Final = ("XADD", "s", "MAXLEN", "~", "1000", "*", *FIELDS)
_WORKERS: Final = _workers()
_ten, _hundred, _thousands = (partial(pending, count=count) for count in (10, 100, 10_000))


def _every(name: str, prepare: Callable[[Server], None], run: Run, **more: object) -> Workload:
    return Workload(name, prepare, run, everyday=True, **more)  # type: ignore[arg-type]


def _claims() -> Iterator[Workload]:
    for prepare, of in ((_ten, 10), (_hundred, 100), (_thousands, 10_000), (pending, ENTRIES)):
        for count in (1, 5, 10):
            row = _every if of == 100 else Workload
            yield row(f"XCLAIM of {count}, {of:,} pending", prepare, _claim(of, count))
    yield Workload("XCLAIM of 5, JUSTID, 100 pending", _hundred, _claim(100, 5, more="JUSTID"))
    yield Workload("XCLAIM of 5, own, 100 pending", _hundred, _claim(100, 5, to=("c",)))


def _big(name: str, size: int) -> Iterator[Workload]:
    add = benchmark("XADD", "x", "MAXLEN", "100", "*", "f", before=(("DEL", "x"),), value=b"v" * size)
    yield Workload(f"XADD, value of {name}", nothing, add, _UNPIPED)
    read = benchmark("XRANGE", "s", "-", "+", "COUNT", "1")
    yield Workload(f"XRANGE, value of {name}", partial(_values, size=size), read, _UNPIPED)


def _secure() -> Iterator[Workload]:
    for words in (("PING",), _CAPPED, _RANGE, _HISTORY, _PENDING):
        yield Workload(f"{words[0]}, TLS", _hundred, benchmark(*words), secure=True)


WORKLOADS: Final = (
    _every("PING", nothing, benchmark("PING")),
    _every("SET", nothing, benchmark("SET", "key", "value:0123456789")),
    _every("GET", _key, benchmark("GET", "key")),
    _every("XADD", nothing, _ADD, modes=(*MODES, PIPED_100)),
    Workload("XADD, explicit IDs", nothing, _each_its_stream(_add, 1)),
    Workload(
        "XADD over 1,000 streams",
        nothing,
        benchmark("XADD", "x:__rand_int__", "*", *FIELDS, before=(("FLUSHALL",),), keys=1000),
    ),
    _every("XADD MAXLEN ~ 1000", partial(filled, count=1000), benchmark(*_CAPPED), modes=(*MODES, FEW)),
    *[
        _every(f"{words[0]} COUNT 10", _thousands, benchmark(*words))
        for words in (
            _RANGE,
            ("XREVRANGE", "s", "+", "-", "COUNT", "10"),
            ("XREAD", "COUNT", "10", "STREAMS", "s", "0"),
        )
    ],
    _every("XREADGROUP COUNT 1", filled, _new(1), modes=_UNPIPED),
    _every("XREADGROUP COUNT 10", filled, _new(10), modes=_UNPIPED),
    _every("XREADGROUP COUNT 10 of its history", _hundred, benchmark(*_HISTORY)),
    _every("XACK of 1", pending, _acknowledge(1)),
    _every("XACK of 10", pending, _acknowledge(10), modes=_UNPIPED),
    Workload("XACK of 1 that is not pending", _hundred, benchmark("XACK", "s", "g", "1-1")),
    *_claims(),
    *[
        Workload(
            f"XAUTOCLAIM COUNT {count}",
            _hundred,
            benchmark("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", str(count)),
            everyday=count == 10,
        )
        for count in (1, 10, 100)
    ],
    Workload("XPENDING, summary", _hundred, benchmark("XPENDING", "s", "g")),
    _every("XPENDING of 10", _hundred, benchmark(*_PENDING), modes=(*MODES, FEW)),
    _every("workers: XADD, XREADGROUP, XACK", _workers_streams, _WORKERS, modes=_UNPIPED),
    _every("workers, AOF everysec", _workers_streams, _WORKERS, modes=_UNPIPED, flags=_EVERYSEC),
    Workload("workers, AOF always", _workers_streams, _WORKERS, modes=(MANY,), flags=_ALWAYS),
    _every("XADD, AOF everysec", nothing, _ADD, flags=_EVERYSEC),
    Workload("XADD, AOF always", nothing, _ADD, flags=_ALWAYS),
    _every("XCLAIM of 1, AOF everysec", _hundred, _claim(100, 1), flags=_EVERYSEC),
    _every("EVAL", nothing, benchmark("EVAL", "return 1", "0")),
    _every("FCALL", _function, benchmark("FCALL", "f", "0")),
    Workload(
        "EVAL of an XADD",
        nothing,
        benchmark(
            "EVAL", "return redis.call('XADD', KEYS[1], 'MAXLEN', '~', '1000', '*', 'f', 'v')", "1", "x"
        ),
    ),
    _every("PUBLISH", nothing, benchmark("PUBLISH", "news", "hello")),
    Workload(
        "PUBLISH beside 3,000 patterns",
        partial(_subscriptions, patterns=3000),
        benchmark("PUBLISH", "news", "hello"),
    ),
    Workload(
        "APPEND to a string of 1 MB", partial(_string, size=1_000_000), benchmark("APPEND", "key", "hello")
    ),
    _every("mixed pipeline of 16", nothing, _each_its_stream(_mixture, 16), modes=_UNPIPED),
    _every("MULTI, 10 XADDs, EXEC", nothing, _each_its_stream(_transaction, 12), modes=_UNPIPED),
    *[
        Workload(f"{words[0]} beside 20 idle clients", _hundred, beside(20, benchmark(*words)), (FEW,))
        for words in (("PING",), _RANGE)
    ],
    Workload("XRANGE while others connect", _hundred, while_others_connect(benchmark(*_RANGE)), (MANY,)),
    # Bulk
    Workload("XLEN", filled, benchmark("XLEN", "s")),
    Workload("XRANGE COUNT 100", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "100")),
    Workload("XRANGE COUNT 1000", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "1000")),
    Workload("XREAD COUNT 100", filled, benchmark("XREAD", "COUNT", "100", "STREAMS", "s", "0")),
    Workload("XREADGROUP COUNT 100", filled, _new(100), _UNPIPED),
    # All that is pending is acknowledged before 50 clients have sent a pipeline of these.
    Workload("XACK of 100", pending, _acknowledge(100, neighbours=True), _UNPIPED),
    Workload("XCLAIM of 100", pending, _claim(ENTRIES, 100, neighbours=True), _UNPIPED),
    Workload("XPENDING of 100", pending, benchmark("XPENDING", "s", "g", "-", "+", "100")),
    *_big("10 KB", 10_000),
    *_big("1 MB", 1_000_000),
    *_secure(),
)
