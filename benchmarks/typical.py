"""A developer's day: small groups, single messages, the newest entries (`bench.py --set typical`, `make bench-typical`).

`GOALS` are what rows shall reach; `docs/performance.md` shows them beside what they do. The groups have 10, 100, 10,000
or a million pending entries. A server that is a little slower finds more requests waiting each time and pays less for
waking the load generator, which flatters it in requests per second: look at both columns.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from loads import FEW, MANY, ONE, PIPED, benchmark, beside, own, while_others_connect
from results import Goal
from servers import encode
from workloads import FIELDS, WORKLOADS, Workload, deliver_all, entry_id, filled

if TYPE_CHECKING:
    from loads import Mode, Run
    from servers import Server

_REQUESTS: Final = 20_000
_MODES: Final = (ONE, MANY, PIPED)
_AND_FEW: Final = (*_MODES, FEW)
_SIZES: Final = (10, 100, 10_000, 1_000_000)
_EVERYSEC: Final = ("--appendonly", "yes", "--appendfsync", "everysec")
_RANGE: Final = ("XRANGE", "s", "-", "+", "COUNT", "10")
_HISTORY: Final = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", "0")
_ALWAYS: Final = ("--appendonly", "yes", "--appendfsync", "always")


def _pending(server: Server, count: int) -> None:
    """The stream `s` of so many entries, all of them pending with consumer `c` of group `g`."""
    filled(server, count)
    deliver_all(server, count)


def _claim(
    pending: int, count: int, *, near: bool = False, to: tuple[str, ...] = ("d", "e"), more: str = ""
) -> Run:
    """XCLAIM of `count` entries, neighbours or scattered; the consumers `to` take turns."""

    def requests(_: Mode) -> list[bytes]:
        random = Random(count)
        found = []
        for turn in range(_REQUESTS):
            first = random.randrange(pending - count + 1)
            chosen = range(first, first + count) if near else random.sample(range(pending), count)
            found.append(
                encode("XCLAIM", "s", "g", to[turn % len(to)], "0", *map(entry_id, chosen), *more.split())
            )
        return found

    return own(requests, lambda _: None)


def _claims(pending: int) -> list[Workload]:
    group = f"{pending:,} pending"
    prepare = partial(_pending, count=pending)
    found = [
        Workload(f"XCLAIM of {count}, {group}", prepare, _claim(pending, count), modes=_MODES)
        for count in (1, 2, 5, 10, 20)
        if count <= pending
    ]
    if pending == 100:
        found += [
            Workload(
                f"XCLAIM of {count} neighbours, {group}",
                prepare,
                _claim(pending, count, near=True),
                modes=_MODES,
            )
            for count in (2, 5, 10, 20)
        ]
        found += [
            Workload(
                f"XCLAIM of 5, JUSTID, {group}", prepare, _claim(pending, 5, more="JUSTID"), modes=_MODES
            ),
            Workload(f"XCLAIM of 5, own, {group}", prepare, _claim(pending, 5, to=("c",)), modes=_MODES),
        ]
    return found


def _acknowledge(count: int) -> Run:
    """XACK of `count` scattered pending entries, until nothing is pending."""

    def requests(_: Mode) -> list[bytes]:
        numbers = list(range(10_000 * count))
        Random(count).shuffle(numbers)
        groups = [numbers[start : start + count] for start in range(0, len(numbers), count)]
        return [encode("XACK", "s", "g", *map(entry_id, group)) for group in groups]

    return own(requests, partial(deliver_all, count=10_000 * count))


def _backlog(count: int) -> Run:
    words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", str(count), "STREAMS", "s", ">")
    again = (("XGROUP", "DESTROY", "s", "g"), ("XGROUP", "CREATE", "s", "g", "0"))
    return benchmark(*words, before=again, at_most=100_000 // count)


def _workers() -> Run:
    """XADD, XREADGROUP and XACK, each after the reply to the one before; every worker has a stream of its own."""

    def requests(mode: Mode) -> list[bytes]:
        found = []
        for turn in range(_REQUESTS // mode.clients):
            for step in range(3):
                for client in range(mode.clients):
                    key = b"x%02d" % client
                    words: tuple[object, ...] = ("XADD", key, entry_id(turn), *FIELDS)
                    if step == 1:
                        words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", key, ">")
                    elif step == 2:
                        words = ("XACK", key, "g", entry_id(turn))
                    found.append(encode(*words))
        return found

    return own(requests, _workers_streams, steps=3)


def _workers_streams(server: Server) -> None:
    server.control.call("FLUSHALL")
    for client in range(50):
        server.control.call("XGROUP", "CREATE", f"x{client:02d}", "g", "0", "MKSTREAM")


_hundred: Final = partial(_pending, count=100)
_ten_thousand: Final = partial(_pending, count=10_000)
_UNPIPED: Final = (ONE, MANY)
_WORKERS: Final = _workers()

_SINGLE: Final = ("PING", "SET", "GET", "XADD", "XCLAIM of 100", "XADD, AOF everysec")

TYPICAL: Final = (
    *[workload for workload in WORKLOADS if workload.name in _SINGLE],
    *[workload for pending in _SIZES for workload in _claims(pending)],
    Workload("XACK of 1", partial(_pending, count=10_000), _acknowledge(1), modes=_MODES),
    Workload("XACK of 10", partial(_pending, count=100_000), _acknowledge(10), modes=_UNPIPED),
    Workload("XACK of 1 that is not pending", _hundred, benchmark("XACK", "s", "g", "1-1"), modes=_MODES),
    *[
        Workload(
            f"XAUTOCLAIM COUNT {count}",
            _hundred,
            benchmark("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", str(count)),
            modes=_MODES,
        )
        for count in (1, 10)
    ],
    Workload("XPENDING of 10", _hundred, benchmark("XPENDING", "s", "g", "-", "+", "10"), modes=_AND_FEW),
    *[
        Workload(f"{name} beside 20 idle clients", _hundred, beside(20, benchmark(*words)), modes=(FEW,))
        for name, words in (("PING", ("PING",)), ("XRANGE COUNT 10", _RANGE))
    ],
    Workload(
        "XRANGE COUNT 10 while others connect",
        _hundred,
        while_others_connect(benchmark(*_RANGE)),
        modes=(MANY,),
    ),
    Workload(
        "XREADGROUP COUNT 10 of its history",
        _hundred,
        benchmark(*_HISTORY),
        modes=_MODES,
    ),
    *[
        Workload(f"XREADGROUP COUNT {count} of a backlog", filled, _backlog(count), modes=_UNPIPED)
        for count in (1, 10)
    ],
    *[
        Workload(f"{name} COUNT {count}", _ten_thousand, benchmark(*words), modes=_MODES)
        for count in (1, 10)
        for name, words in (
            ("XRANGE", ("XRANGE", "s", "-", "+", "COUNT", str(count))),
            ("XREVRANGE", ("XREVRANGE", "s", "+", "-", "COUNT", str(count))),
            ("XREAD", ("XREAD", "COUNT", str(count), "STREAMS", "s", "0")),
        )
    ],
    Workload(
        "XADD MAXLEN ~ 1000",
        lambda server: filled(server, 1000),
        benchmark("XADD", "s", "MAXLEN", "~", "1000", "*", *FIELDS),
        modes=_AND_FEW,
    ),
    Workload("workers: XADD, XREADGROUP, XACK", _workers_streams, _WORKERS, modes=_UNPIPED),
    Workload("workers, AOF everysec", _workers_streams, _WORKERS, modes=_UNPIPED, flags=_EVERYSEC),
    Workload("workers, AOF always", _workers_streams, _WORKERS, modes=(MANY,), flags=_ALWAYS),
    Workload("XCLAIM of 1, AOF everysec", _hundred, _claim(100, 1), modes=_MODES, flags=_EVERYSEC),
    *[
        Workload(f"{name}, TLS", _hundred, benchmark(*words), modes=_MODES, secure=True)
        for name, words in (
            ("PING", ("PING",)),
            ("XADD MAXLEN ~ 1000", ("XADD", "x", "MAXLEN", "~", "1000", "*", *FIELDS)),
            ("XRANGE COUNT 10", _RANGE),
            ("XREADGROUP COUNT 10 of its history", _HISTORY),
            ("XPENDING of 10", ("XPENDING", "s", "g", "-", "+", "10")),
        )
    ],
)

_LOSS: Final = 0.9  # with an AOF at least this part of the goal without one
_EACH: Final = {
    **dict.fromkeys(("PING", "SET", "GET", "XADD"), Goal(0.95, 0.9)),
    "XADD, AOF everysec": Goal(0.95 * _LOSS, 0.9 * _LOSS),
    "XACK of 1": Goal(0.9, 0.85),
    "XACK of 10": Goal(0.8),
    "XCLAIM of 1, 100 pending": Goal(0.85, 0.8),
    "XCLAIM of 1, AOF everysec": Goal(0.85 * _LOSS, 0.8 * _LOSS),
    "XCLAIM of 5, 100 pending": Goal(0.8, 0.7),
    "XCLAIM of 10, 100 pending": Goal(0.8, 0.7),
    "XCLAIM of 20, 100 pending": Goal(1.0),
    "XCLAIM of 100": Goal(4.0),
    **dict.fromkeys(("XRANGE COUNT 10", "XREAD COUNT 10", "XREADGROUP COUNT 10 of a backlog"), Goal(0.95)),
    "XREADGROUP COUNT 10 of its history": Goal(0.95),
    "XPENDING of 10": Goal(0.85),
    "XAUTOCLAIM COUNT 10": Goal(0.85),
    "workers: XADD, XREADGROUP, XACK": Goal(0.9),
    "workers, AOF everysec": Goal(0.9 * _LOSS),
}
# By workload and load. In pipelines the processor time counts.
GOALS: Final = {
    **{(name, MANY.name): goal for name, goal in _EACH.items()},
    ("XADD", PIPED.name): Goal(work=0.55),
    ("XACK of 1", PIPED.name): Goal(work=0.5),
    ("XCLAIM of 1, 100 pending", PIPED.name): Goal(work=0.5),
}
