"""What is measured: for each workload how to prepare the data, what is sent, and the floors it has to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from loads import MANY, MODES, ONE, PIPED, PIPED_100, benchmark, own
from servers import Server, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from loads import Mode, Run

# 42 bytes of names and values in an entry.
FIELDS: Final = ("sensor", "kitchen-east-07", "reading", "21.500000 C   ")
ENTRIES: Final = 100_000
_FIRST_MS: Final = 1_700_000_000_000
_OWN_REQUESTS: Final = 20_000


@dataclass(frozen=True)
class Workload:
    """One line of the table for each mode.

    Attributes:
        prepare: fills an empty server with what the workload needs; it finds what others before it left.
        run: sends load for about so many seconds.
        floors: the least ratio of Redis' processor time to ours, by mode.
        flags: of the servers.
        secure: by TLS, on the servers that speak it.
    """

    name: str
    prepare: Callable[[Server], None]
    run: Run
    floors: dict[Mode, float] = field(default_factory=dict)
    modes: tuple[Mode, ...] = MODES
    flags: tuple[str, ...] = ()
    secure: bool = False


def entry_id(number: int) -> bytes:
    """The ID of the n-th entry of the prepared stream; all are of the same length."""
    return b"%d-0" % (_FIRST_MS + number)


def entries(count: int, key: str = "s") -> Iterator[bytes]:
    """The XADDs that make the prepared stream."""
    tail = encode("XADD", key, "{}", *FIELDS).split(b"$2\r\n{}")
    return (b"$15\r\n".join((tail[0], entry_id(number) + tail[1])) for number in range(count))


def nothing(server: Server) -> None:
    """An empty server."""
    server.control.call("FLUSHALL")


def filled(server: Server, count: int = ENTRIES) -> None:
    """One stream `s` of many entries; it may be there already."""
    if server.control.call("XLEN", "s") == count:
        return
    nothing(server)
    server.control.feed(entries(count))


def delivered(server: Server) -> None:
    """The stream, and a group `g` whose consumer `c` has all of it pending."""
    filled(server)
    deliver_all(server)


def deliver_all(server: Server, count: int = ENTRIES, group: str = "g") -> None:
    """Make the group again with everything pending."""
    server.control.call("XGROUP", "DESTROY", "s", group)
    server.control.call("XGROUP", "CREATE", "s", group, "0")
    read = encode("XREADGROUP", "GROUP", group, "c", "COUNT", "100", "STREAMS", "s", ">")
    server.control.feed((read for _ in range(count // 100)), at_once=20)


_GROUP_AGAIN: Final = (("XGROUP", "DESTROY", "s", "g"), ("XGROUP", "CREATE", "s", "g", "0"))


def _strings(server: Server) -> None:
    """A key to GET."""
    server.control.call("SET", "key", "value:0123456789")


def _values(size: int) -> Callable[[Server], None]:
    """A stream of ten entries of such a size."""

    def prepare(server: Server) -> None:
        nothing(server)
        value = b"v" * size
        server.control.feed((encode("XADD", "s", entry_id(number), "f", value) for number in range(10)), 1)

    return prepare


# Load from here


def _acknowledge(count: int) -> Run:
    """XACK of `count` neighbours at a time, until nothing is pending."""

    def requests(_: Mode) -> list[bytes]:
        starts = range(0, min(ENTRIES, count * _OWN_REQUESTS), count)
        return [encode("XACK", "s", "g", *map(entry_id, range(start, start + count))) for start in starts]

    return own(requests, deliver_all)


def _claim(count: int, stride: int = 1) -> Run:
    """XCLAIM of `count` entries at a time; the consumers take turns."""

    def requests(_: Mode) -> list[bytes]:
        return [encode("XCLAIM", "s", "g", name, "0", *ids) for name, ids in _claims(count, stride)]

    return own(requests, lambda _: None)


def _claims(count: int, stride: int) -> Iterator[tuple[str, list[bytes]]]:
    span = count * stride
    for turn in range(min(_OWN_REQUESTS, max(ENTRIES // count, 4000))):
        start = (turn * count) % (ENTRIES - span)
        yield f"d{turn % 2}", [entry_id(start + at * stride) for at in range(count)]


def _each_its_stream(make: Callable[[int, int], Iterable[bytes]], commands: int) -> Run:
    """What `make` gives for a client and a turn: each client adds to a stream of its own, so that IDs only grow."""

    def requests(mode: Mode) -> list[bytes]:
        return [
            b"".join(make(at // mode.pipeline % mode.clients, at)) for at in range(_OWN_REQUESTS // commands)
        ]

    return own(requests, nothing)


def _add(client: int, turn: int) -> bytes:
    return encode("XADD", b"x%02d" % client, entry_id(turn), *FIELDS)


def _transaction(client: int, turn: int) -> Iterator[bytes]:
    yield encode("MULTI")
    for number in range(10):
        yield encode("XADD", b"x%02d" % client, entry_id(turn * 10 + number), *FIELDS)
    yield encode("EXEC")


def _mixture(client: int, turn: int) -> Iterator[bytes]:
    """Sixteen commands as an application mixes them; the replies are always of the same length."""
    key = b"x%02d" % client
    for number in range(4):
        yield encode("XADD", key, entry_id(turn * 4 + number), *FIELDS)
        yield encode("SET", b"key:%02d" % client, "value:0123456789")
        yield encode("GET", b"key:%02d" % client)
        yield encode("XACK", key, "g", entry_id(turn * 4 + number))


# Load from redis-benchmark


def _read_group(count: int) -> Run:
    words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", str(count), "STREAMS", "s", ">")
    return benchmark(*words, before=_GROUP_AGAIN, at_most=ENTRIES // count)


def _floors(one: float, many: float, piped: float | None = None) -> dict[Mode, float]:
    return dict(zip(MODES, (one, many, many if piped is None else piped), strict=True))


_EVERYSEC: Final = ("--appendonly", "yes", "--appendfsync", "everysec")
_ALWAYS: Final = ("--appendonly", "yes", "--appendfsync", "always")
_SINGLE: Final = _floors(0.9, 0.8, 0)
_UNPIPED: Final = (ONE, MANY)
_ADD: Final = benchmark("XADD", "x", "*", *FIELDS, before=(("DEL", "x"),))
_ADD_CAPPED: Final = benchmark("XADD", "x", "MAXLEN", "~", "10000", "*", *FIELDS, before=(("DEL", "x"),))
_ADD_SPREAD: Final = benchmark("XADD", "x:__rand_int__", "*", *FIELDS, before=(("FLUSHALL",),), keys=1000)


def _big(name: str, size: int) -> list[Workload]:
    add = benchmark("XADD", "x", "MAXLEN", "100", "*", "f", before=(("DEL", "x"),), value=b"v" * size)
    read = benchmark("XRANGE", "s", "-", "+", "COUNT", "1")
    return [
        Workload(f"XADD, value of {name}", nothing, add, _SINGLE, _UNPIPED),
        Workload(f"XRANGE, value of {name}", _values(size), read, _SINGLE, _UNPIPED),
    ]


WORKLOADS: Final = (
    Workload("PING", nothing, benchmark("PING"), _SINGLE),
    Workload("SET", nothing, benchmark("SET", "key", "value:0123456789"), _SINGLE),
    Workload("GET", _strings, benchmark("GET", "key"), _SINGLE),
    Workload("XADD", nothing, _ADD, {**_floors(0.9, 0.8, 0.45), PIPED_100: 0.4}, modes=(*MODES, PIPED_100)),
    Workload("XADD, explicit IDs", nothing, _each_its_stream(lambda *at: [_add(*at)], 1), _SINGLE),
    Workload("XADD over 1,000 streams", nothing, _ADD_SPREAD, _SINGLE),
    Workload("XADD MAXLEN ~ 10000", nothing, _ADD_CAPPED, _SINGLE),
    Workload("XLEN", filled, benchmark("XLEN", "s"), _SINGLE),
    Workload("XRANGE COUNT 100", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "100"), _floors(0.9, 2)),
    Workload(
        "XRANGE COUNT 1000", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "1000"), _floors(0.9, 4)
    ),
    Workload(
        "XREAD COUNT 100", filled, benchmark("XREAD", "COUNT", "100", "STREAMS", "s", "0"), _floors(0.9, 2)
    ),
    Workload("XREADGROUP COUNT 1", filled, _read_group(1), _SINGLE),
    Workload("XREADGROUP COUNT 10", filled, _read_group(10), _floors(0.9, 1.1)),
    Workload("XREADGROUP COUNT 100", filled, _read_group(100), _floors(0.9, 1.5)),
    Workload("XACK of 1", delivered, _acknowledge(1), _SINGLE),
    Workload("XACK of 10", delivered, _acknowledge(10), _SINGLE),
    # All that is pending is acknowledged before 50 clients have sent a pipeline of these.
    Workload("XACK of 100", delivered, _acknowledge(100), _SINGLE, _UNPIPED),
    Workload("XCLAIM of 10", delivered, _claim(10), _floors(0.9, 2.5)),
    Workload("XCLAIM of 10, scattered", delivered, _claim(10, 97), _SINGLE),
    Workload("XCLAIM of 100", delivered, _claim(100), _floors(0.9, 4)),
    Workload("XPENDING, summary", delivered, benchmark("XPENDING", "s", "g"), _SINGLE),
    Workload(
        "XPENDING, range of 100",
        delivered,
        benchmark("XPENDING", "s", "g", "-", "+", "100"),
        _floors(0.9, 0.8),
    ),
    Workload(
        "XAUTOCLAIM COUNT 100",
        delivered,
        benchmark("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "100"),
        _floors(0.9, 0.8),
    ),
    Workload("mixed pipeline of 16", nothing, _each_its_stream(_mixture, 16), modes=_UNPIPED),
    Workload("MULTI, 10 XADDs, EXEC", nothing, _each_its_stream(_transaction, 12), modes=_UNPIPED),
    *_big("10 KB", 10_000),
    *_big("1 MB", 1_000_000),
    Workload("XADD, AOF everysec", nothing, _ADD, _floors(0.85, 0.85, 0), flags=_EVERYSEC),
    Workload("XADD, AOF always", nothing, _ADD, flags=_ALWAYS),
)

# The modes of a quick run: the one that says most about a server, and pipelines where they matter most.
QUICK_MODES: Final = {"XADD": (MANY, PIPED), "XRANGE COUNT 100": (MANY, PIPED)}
