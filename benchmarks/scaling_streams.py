"""Streams and groups that grow, and every stream command beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scaling_cases import MANY, TEN_MILLION, THOUSANDS, Growing, cases, once, variadic
from servers import encode
from workloads import FIELDS, deliver_all, entries, entry_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import Server

_NEW: Final = 5_000  # entries that reads find


def _small_entries(count: int) -> Iterator[bytes]:
    """As `workloads.entries` with one short field: what grows is their number."""
    head, tail = encode("XADD", "s", entry_id(0), "f", "21.5").split(entry_id(0))
    return (head + entry_id(number) + tail for number in range(count))


def _entries(server: Server, n: int) -> None:
    server.control.feed(_small_entries(n), 1_000)
    server.control.call("XGROUP", "CREATE", "s", "g", "0")


def _pending(server: Server, n: int) -> None:
    deliver_all(server, n)
    server.control.feed(encode("XADD", "s", "*", *FIELDS) for _ in range(_NEW))


def _pending_twice(server: Server, n: int) -> None:
    deliver_all(server, n, "h")
    # One consumer of several, who has nearly all.
    server.control.call("XCLAIM", "s", "h", "d", 0, *map(entry_id, range(100)))


def _nothing(_server: Server, _n: int) -> None:
    pass


def _answered(server: Server, n: int) -> None:
    server.control.feed(entries(max(n, 1000)))
    deliver_all(server, max(n, 1000))
    server.control.feed(encode("SET", f"k{at}", "value") for at in range(n))
    server.control.feed(variadic("RPUSH l", n, "element:{}"))
    server.control.feed(variadic("ZADD z", n, "{} member:{}"))


def _consumers(server: Server, n: int) -> None:
    server.control.feed(entries(n + _NEW))
    server.control.call("XGROUP", "CREATE", "s", "g", "0")
    server.control.feed(
        encode("XREADGROUP", "GROUP", "g", f"c{at}", "COUNT", "1", "STREAMS", "s", ">") for at in range(n)
    )


def _groups(server: Server, n: int) -> None:
    server.control.feed(entries(2 * _NEW))
    server.control.feed(encode("XGROUP", "CREATE", "s", f"g{at}", "0") for at in range(n))
    server.control.feed([encode("XREADGROUP", "GROUP", "g0", "c", "COUNT", str(_NEW), "STREAMS", "s", ">")])


_ALL: Final = "answers all of them, whatever Redis documents"
_EACH: Final = "asks every group, in Redis too"
_PACKED: Final = "what is old in a big stream is packed, and unpacked to change it"
_FREED: Final = "memory is freed in the background"

STREAMS: Final = (
    Growing(
        "entries",
        _entries,
        (
            *cases(
                """XLEN s
                XADD s * {fields}
                XADD s NOMKSTREAM * {fields}
                XADD s IDMP p {k} * {fields}
                XADD s MAXLEN ~ 99999999 * {fields}
                XADD s MINID ~ 1 * {fields}
                XTRIM s MAXLEN 99999999
                XREVRANGE s {id} - COUNT 10
                XRANGE s {id} + COUNT 10
                XRANGE s {id} {id}
                XREAD COUNT 10 STREAMS s {id}
                XREAD STREAMS s $
                XREAD STREAMS s +
                XREADGROUP GROUP g c COUNT 1 STREAMS s >
                XGROUP SETID s g {id} ; XREADGROUP GROUP g c COUNT 10 NOACK STREAMS s >
                XINFO STREAM s
                XINFO STREAM s FULL
                XINFO GROUPS s
                XCFGSET s IDMP-MAXSIZE 1000
                XGROUP CREATE s h{k} {id}
                XGROUP SETID s g {id}
                XGROUP DESTROY s h{k}
                TYPE s
                EXISTS s
                TOUCH s
                EXPIRE s 10000
                TTL s
                PERSIST s
                OBJECT ENCODING s
                MEMORY USAGE s
                RENAME s s
                WATCH s ; UNWATCH
                MULTI ; XADD s * {fields} ; EXEC"""
            ),
        ),
        TEN_MILLION,
    ),
    Growing(
        "pending entries",
        _pending,
        (
            *cases("XCLAIM s g d 0 {id}\nXCLAIM s g d 0 {id} JUSTID", "log"),
            *cases(
                """XREADGROUP GROUP g c COUNT 1 STREAMS s >
                XREADGROUP GROUP g c COUNT 10 STREAMS s {id}
                XREADGROUP GROUP g e COUNT 10 CLAIM 3600000 STREAMS s >
                XAUTOCLAIM s g d 0 {id} COUNT 10
                XAUTOCLAIM s g d 3600000 0 COUNT 10
                XPENDING s g
                XPENDING s g {id} + 10
                XPENDING s g {id} + 10 c
                XPENDING s g IDLE 3600000 - + 10
                XPENDING s g IDLE 3600000 - + 10 c
                XCLAIM s g c 0 {id} ; XPENDING s g {id} + 10 c
                XCLAIM s g c 0 {id} ; XREADGROUP GROUP g c COUNT 10 STREAMS s {id}
                XINFO STREAM s
                XINFO GROUPS s
                XINFO CONSUMERS s g
                XINFO STREAM s FULL"""
            ),
            *cases("XACK s g {id}\nXNACK s g FAIL IDS 1 {id}", uses_up=True),
            *cases("XACKDEL s g IDS 1 {id}", uses_up=True, note=_PACKED),
        ),
        TEN_MILLION,
        goes_on=True,
    ),
    Growing(
        "pending entries in each of two groups",
        _pending_twice,
        (once("XGROUP DELCONSUMER s h c"), once("XGROUP DESTROY s g")),
        TEN_MILLION,
        goes_on=True,
    ),
    Growing(
        "entries, to be taken away",
        _nothing,
        (
            *cases("XDEL s {id}\nXDELEX s IDS 1 {id}", uses_up=True, note=_PACKED),
            *cases("XADD s MAXLEN ~ {n} * {fields}\nXADD s MAXLEN = {n} * {fields}"),
            once("COPY s t"),
            once("XTRIM t MAXLEN 100"),
            once("COPY s u"),
            once("UNLINK u", "1"),
            *cases("XSETID s 9999999999999-0"),
            once("XTRIM s MAXLEN 0"),
            once("DEL t", note=_FREED),
        ),
        TEN_MILLION,
        goes_on=True,
    ),
    Growing(
        "answered or named",
        _answered,
        (
            *cases(
                """XRANGE s - + COUNT {n}
                XREVRANGE s + - COUNT {n}
                XREAD COUNT {n} STREAMS s 0
                XREADGROUP GROUP g c COUNT {n} STREAMS s 0
                XPENDING s g - + {n}
                XPENDING s g - + {n} c
                XINFO STREAM s FULL COUNT {n}
                XAUTOCLAIM s g d 0 0 COUNT {n}
                XCLAIM s g e 0 {ids} JUSTID
                XCLAIM s g f 0 {ids}
                MGET {keys}
                EXISTS {keys}
                LRANGE l 0 {n}
                ZRANGE z 0 {n}
                DUMP s""",
                "n",
            ),
            once("XACKDEL s g IDS {n} {ids}"),
            once("XDEL s {ids}"),
        ),
        (1_000, 10_000, 100_000),
    ),
    Growing(
        "consumers",
        _consumers,
        (
            *cases(
                """XREADGROUP GROUP g c{i} COUNT 1 STREAMS s >
                XREADGROUP GROUP g c{i} COUNT 10 STREAMS s 0
                XPENDING s g - + 10 c{i}
                XCLAIM s g c{i} 0 {id}
                XACK s g {id}
                XGROUP CREATECONSUMER s g new{k}
                XGROUP DELCONSUMER s g new{k}
                XAUTOCLAIM s g d 0 0 COUNT 10
                XINFO GROUPS s
                XINFO STREAM s"""
            ),
            *cases("XPENDING s g", "n"),
            *cases("XINFO CONSUMERS s g", "n", note=_ALL),
        ),
        THOUSANDS,
    ),
    Growing(
        "groups of one stream",
        _groups,
        (
            *cases(
                """XADD s * {fields}
                XADD s MAXLEN ~ 1000000 * {fields}
                XREADGROUP GROUP g0 c COUNT 1 STREAMS s >
                XREADGROUP GROUP g{i} c COUNT 10 STREAMS s >
                XPENDING s g{i}
                XACK s g0 {next}
                XGROUP SETID s g{i} 0
                XRANGE s - + COUNT 10
                XGROUP CREATE s new{k} 0
                XGROUP DESTROY s new{k}
                XINFO STREAM s"""
            ),
            *cases("XDEL s {next}\nXDELEX s IDS 1 {next}", uses_up=True),
            *cases("XDELEX s ACKED IDS 1 {next}", "n", uses_up=True, note=_EACH),
            *cases("XDELEX s DELREF IDS 1 {next}", "n", uses_up=True, note=_EACH),
            *cases("XINFO GROUPS s", "n", note=_ALL),
        ),
        MANY,
    ),
)
