"""What grows in the scaling benchmark, and the commands that are measured beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from servers import Connection, encode
from workloads import ENTRY, FIELDS, deliver_all, entry_id, fill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from servers import Server

THOUSANDS: Final = (1_000, 10_000, 100_000)
MILLION: Final = (1_000, 100_000, 1_000_000)
TEN_MILLION: Final = (1_000, 100_000, 10_000_000)
MANY: Final = (100, 1_000, 10_000)
_AT_ONCE: Final = 1_000
_NEW: Final = 5_000  # entries that reads find


@dataclass(frozen=True)
class Case:
    """One command, or several with ` ; ` between them that are measured as one.

    Attributes:
        line: words with `{i}` (a number below N, another one each time), `{id}` (the ID of that entry), `{k}` (counts
            up), `{next}` (the ID of that entry), `{n}` (N) and `{fields}` (of an entry).
        growth: what its documented complexity says: `1`, `log` or `n`.
        uses_up: each takes something away that is not there again; `{i}` is never the same one then.
        alone: not sent together with others, because what they send to other clients would be gathered; what the server
            does after its reply counts.
        once: it can be measured only once in prepared data.
        note: why the growth is not what the documentation says.
    """

    line: str
    growth: str = "1"
    uses_up: bool = False
    once: bool = False
    alone: bool = False
    note: str = ""

    def request(self, turn: int, n: int) -> list[bytes]:
        """The encoded commands of a turn; 7919 is prime: neighbours in time are far from each other in the data."""
        spot = turn * 7919 % n
        ids = {"id": entry_id(spot).decode(), "next": entry_id(turn).decode()}
        lines = self.line.format(i=spot, k=turn, n=n, fields=ENTRY, **ids)
        return [encode(*line.split()) for line in lines.split(" ; ")]


@dataclass(frozen=True)
class Growing:
    """Something there are N of, and the commands that are measured while N grows.

    Attributes:
        what: there are N of.
        prepare: makes them; it may answer connections that are to stay open for the case.
    """

    what: str
    prepare: Callable[[Server, int], list[Connection] | None]
    cases: tuple[Case, ...]
    sizes: tuple[int, ...]


def once(line: str, growth: str = "n", note: str = "") -> Case:
    """A command that can be measured only once in prepared data."""
    return Case(line, growth, once=True, note=note)


def cases(lines: str, growth: str = "1", *, uses_up: bool = False, note: str = "") -> tuple[Case, ...]:
    """One case a line."""
    return tuple(Case(line.strip(), growth, uses_up, note=note) for line in lines.strip().split("\n"))


def variadic(head: str, n: int, each: str) -> Iterable[bytes]:
    """Requests that begin with `head` and bring a thousand of `each` (the number is its `{}`)."""
    words = head.split()
    for start in range(0, n, _AT_ONCE):
        more = [word for at in range(start, min(start + _AT_ONCE, n)) for word in each.format(at, at).split()]
        yield encode(*words, *more)


# What is there


def _keys(server: Server, n: int) -> None:
    server.control.feed(variadic("MSET", n, "key:{} value"), 10)


def _expiring(server: Server, n: int) -> None:
    server.control.feed(encode("SET", f"key:{at}", "value", "EX", 36_000 + at % 36_000) for at in range(n))


def _collections(server: Server, n: int) -> None:
    for head, each in (
        ("HSET h", "field:{} value:{}"),
        ("RPUSH l", "element:{}"),
        ("SADD m", "member:{}"),
        ("ZADD z", "{} member:{}"),
    ):
        server.control.feed(variadic(head, n, each), 10)


def _clients(*words: str) -> Callable[[Server, int], list[Connection]]:
    """So many clients, each of which has sent this."""

    def prepare(server: Server, n: int) -> list[Connection]:
        connections = [Connection(server.port) for _ in range(n)]
        for number, connection in enumerate(connections):
            connection.socket.sendall(encode(*(word.format(number) for word in words)))
        server.settled_bytes(5)
        return connections

    return prepare


def _small_entries(count: int) -> Iterator[bytes]:
    """As `workloads.entries` with one short field: what grows is their number."""
    return (encode("XADD", "s", entry_id(number), "f", "21.5") for number in range(count))


def _entries(server: Server, n: int) -> None:
    server.control.feed(_small_entries(n), 1_000)
    server.control.call("XGROUP", "CREATE", "s", "g", "0")


def _pending(server: Server, n: int) -> None:
    _entries(server, n)
    deliver_all(server, n, "h")
    # One consumer of several, who has nearly all.
    server.control.call("XCLAIM", "s", "h", "d", 0, *map(entry_id, range(100)))
    deliver_all(server, n)
    server.control.feed(encode("XADD", "s", "*", *FIELDS) for _ in range(_NEW))


def _consumers(server: Server, n: int) -> None:
    fill(server, n + _NEW)
    server.control.call("XGROUP", "CREATE", "s", "g", "0")
    server.control.feed(
        encode("XREADGROUP", "GROUP", "g", f"c{at}", "COUNT", "1", "STREAMS", "s", ">") for at in range(n)
    )


def _groups(server: Server, n: int) -> None:
    fill(server, 2 * _NEW)
    server.control.feed(encode("XGROUP", "CREATE", "s", f"g{at}", "0") for at in range(n))
    server.control.feed([encode("XREADGROUP", "GROUP", "g0", "c", "COUNT", str(_NEW), "STREAMS", "s", ">")])


_ALL: Final = "answers all of them, whatever Redis documents"
_EACH: Final = "asks every group, in Redis too"
_PACKED: Final = "what is old in a big stream is packed, and unpacked to change it"
_SIMPLE: Final = "PING\nXADD x * {fields}\nPUBLISH silence hello\nCLIENT INFO"

GROWING: Final = (
    Growing(
        "entries",
        _entries,
        cases(
            """XADD s * {fields}
            XADD s IDMP p {k} * {fields}
            XADD s MAXLEN ~ 99999999 * {fields}
            XREVRANGE s {id} - COUNT 10
            XRANGE s {id} + COUNT 10
            XREAD COUNT 10 STREAMS s {id}
            XREADGROUP GROUP g c COUNT 1 STREAMS s >
            XINFO STREAM s
            XINFO STREAM s FULL
            XGROUP CREATE s h{k} {id}
            MEMORY USAGE s"""
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
                XCLAIM s g c 0 {id} ; XPENDING s g {id} + 10 c
                XINFO GROUPS s
                XINFO STREAM s FULL"""
            ),
            *cases("XACK s g {id}\nXNACK s g FAIL IDS 1 {id}", uses_up=True),
            *cases("XACKDEL s g IDS 1 {id}", uses_up=True, note=_PACKED),
            once("XGROUP DELCONSUMER s h c"),
            once("XGROUP DESTROY s g"),
        ),
        MILLION,
    ),
    Growing(
        "entries, to be taken away",
        _entries,
        (
            *cases("XDEL s {id}\nXDELEX s IDS 1 {id}", uses_up=True, note=_PACKED),
            *cases("XADD s MAXLEN ~ {n} * {fields}\nXADD s MAXLEN = {n} * {fields}"),
            once("COPY s t"),
            once("XTRIM t MAXLEN 100"),
            once("UNLINK s", "1"),
        ),
        TEN_MILLION,
    ),
    Growing(
        "consumers",
        _consumers,
        (
            *cases(
                """XREADGROUP GROUP g c{i} COUNT 1 STREAMS s >
                XPENDING s g - + 10 c{i}
                XCLAIM s g c{i} 0 {id}
                XACK s g {id}
                XGROUP CREATECONSUMER s g new{k}
                XAUTOCLAIM s g d 0 0 COUNT 10"""
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
                XREADGROUP GROUP g{i} c COUNT 10 STREAMS s >
                XACK s g0 {next}
                XGROUP CREATE s new{k} 0"""
            ),
            *cases("XDEL s {next}", uses_up=True),
            *cases(
                "XDELEX s ACKED IDS 1 {next}\nXDELEX s DELREF IDS 1 {next}", "n", uses_up=True, note=_EACH
            ),
            *cases("XINFO GROUPS s", "n", note=_ALL),
        ),
        MANY,
    ),
    Growing(
        "keys",
        _keys,
        (
            *cases(
                """GET key:{i}
                SET key:{i} value
                SET new:{k} value
                XADD stream:{k} * {fields}
                EXPIRE key:{i} 10000
                RENAME key:{i} key:{i}
                RANDOMKEY
                SCAN 0 COUNT 10"""
            ),
            *cases("DEL key:{i}", uses_up=True),
            once("KEYS nothing*"),
            once("FLUSHALL"),
        ),
        TEN_MILLION,
    ),
    Growing(
        "keys that expire", _expiring, cases("GET key:{i}\nSET key:{i} value EX 20000\nRANDOMKEY"), MILLION
    ),
    Growing(
        "elements of each collection",
        _collections,
        (
            *cases(
                """HGET h field:{i}
                HSET h more:{k} new
                HRANDFIELD h
                RPUSH l x
                LPOP l
                LINDEX l 0
                SADD m more:{k}
                SRANDMEMBER m
                ZSCORE z member:{i}"""
            ),
            *cases("ZADD z {i} more:{k}\nZRANK z member:{i}\nZRANGEBYSCORE z {i} +inf LIMIT 0 10", "log"),
            once("HGETALL h"),
            once("DEL z"),
        ),
        MILLION,
    ),
    Growing("idle clients", _clients("PING"), (*cases(_SIMPLE), *cases("CLIENT LIST", "n")), MANY),
    Growing(
        "clients blocked on other streams",
        _clients("XREAD", "BLOCK", "0", "STREAMS", "b{0}", "$"),
        cases(_SIMPLE),
        MANY,
    ),
    Growing(
        "subscribers", _clients("SUBSCRIBE", "news"), (Case("PUBLISH news hello", "n", alone=True),), MANY
    ),
    Growing("patterns", _clients("PSUBSCRIBE", "*a{0}*b"), (Case("PUBLISH news hello", "n"),), MANY),
)
