"""What grows, and which commands are measured beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from servers import Connection, encode
from workloads import FIELDS, deliver_all, entries, entry_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from servers import Server

BIG: Final = (1_000, 100_000, 10_000_000)
QUICK_BIG: Final = (1_000, 100_000, 1_000_000)
MANY: Final = (100, 1_000, 10_000)
_AT_ONCE: Final = 1_000


@dataclass(frozen=True)
class Case:
    """One command.

    Attributes:
        line: words with `{i}` (a number below N, another one each time), `{id}` (the ID of that entry), `{k}` (counts
            up), `{n}` (N) and `{ids}` (N IDs).
        growth: what its documented complexity says: `1`, `log` or `n`.
        uses_up: each takes something away that is not there again; `{i}` is never the same one then.
        note: why the growth is not what the documentation says.
    """

    line: str
    growth: str = "1"
    uses_up: bool = False
    once: bool = False
    note: str = ""

    def request(self, turn: int, n: int) -> bytes:
        """The encoded request of a turn; 7919 is prime: neighbours in time are far from each other in the data."""
        spot = turn * 7919 % n
        words: list[object] = []
        for word in self.line.split():
            if word == "{ids}":
                words += map(entry_id, range(n))
            elif word == "{keys}":
                words += [f"k{number}" for number in range(n)]
            elif word == "{fields}":
                words += FIELDS
            else:
                words.append(word.format(i=spot, id=entry_id(spot).decode(), k=turn, n=n))
        return encode(*words)

    @property
    def command(self) -> str:
        """As COMMAND DOCS calls it."""
        first, second, *_ = [*self.line.lower().split(), ""]
        containers = {"xgroup", "xinfo", "client", "object", "memory"}
        return f"{first}|{second}" if first in containers else first


@dataclass(frozen=True)
class Growing:
    """Something there are N of, and the commands that are measured while N grows."""

    what: str
    prepare: Callable[[Server, int], list[Connection] | None]
    cases: tuple[Case, ...]
    sizes: tuple[int, ...] | None = None  # None: thousands to millions


def once(line: str, growth: str = "n", note: str = "") -> Case:
    """A command that can be measured only once in prepared data."""
    return Case(line, growth, once=True, note=note)


def _cases(lines: str, growth: str = "1", *, uses_up: bool = False, note: str = "") -> tuple[Case, ...]:
    return tuple(Case(line.strip(), growth, uses_up, note=note) for line in lines.strip().split("\n"))


# What there are many of


def _entries(server: Server, n: int) -> None:
    server.control.feed(entries(n))
    server.control.call("XGROUP", "CREATE", "s", "g", "0")


def _pending(server: Server, n: int) -> None:
    server.control.feed(entries(n))
    deliver_all(server, n)
    later = (encode("XADD", "s", entry_id(n + at), *FIELDS) for at in range(2_000))
    server.control.feed(later)


def _pending_twice(server: Server, n: int) -> None:
    server.control.feed(entries(n))
    deliver_all(server, n)
    deliver_all(server, n, "h")


def _answered(server: Server, n: int) -> None:
    server.control.feed(entries(max(n, 1000)))
    deliver_all(server, max(n, 1000))
    server.control.feed(encode("SET", f"k{at}", "value") for at in range(n))
    server.control.feed(_variadic("RPUSH l", n, "element:{}"))
    server.control.feed(_variadic("ZADD z", n, "{} member:{}"))


def _consumers(server: Server, n: int) -> None:
    server.control.feed(entries(n + 2_000))
    server.control.call("XGROUP", "CREATE", "s", "g", "0")
    server.control.feed(
        encode("XREADGROUP", "GROUP", "g", f"c{at}", "COUNT", "1", "STREAMS", "s", ">") for at in range(n)
    )


def _groups(server: Server, n: int) -> None:
    server.control.feed(entries(5_000))
    server.control.feed(encode("XGROUP", "CREATE", "s", f"g{at}", "0") for at in range(n))
    server.control.feed([encode("XREADGROUP", "GROUP", "g0", "c", "COUNT", "2000", "STREAMS", "s", ">")])


def _keys(server: Server, n: int) -> None:
    server.control.feed(_variadic("MSET", n, "key:{} value"))


def _expiring(server: Server, n: int) -> None:
    server.control.feed(encode("SET", f"key:{at}", "value", "EX", 36_000 + at % 36_000) for at in range(n))


def _variadic(head: str, n: int, each: str) -> Iterable[bytes]:
    words = head.split()
    for start in range(0, n, _AT_ONCE):
        more = [word for at in range(start, min(start + _AT_ONCE, n)) for word in each.format(at, at).split()]
        yield encode(*words, *more)


def _collection(head: str, each: str) -> Callable[[Server, int], None]:
    return lambda server, n: server.control.feed(_variadic(head, n, each), 10)


def _idle_clients(server: Server, n: int) -> list[Connection]:
    connections = [Connection(server.port) for _ in range(n)]
    for connection in connections:
        connection.call("PING")
    return connections


def _blocked_clients(server: Server, n: int) -> list[Connection]:
    connections = [Connection(server.port) for _ in range(n)]
    for number, connection in enumerate(connections):
        connection.socket.sendall(encode("XREAD", "BLOCK", "0", "STREAMS", f"b{number}", "$"))
    return connections


def _subscribers(server: Server, n: int) -> list[Connection]:
    connections = [Connection(server.port) for _ in range(n)]
    for connection in connections:
        connection.call("SUBSCRIBE", "news")
    return connections


_ALL: Final = "answers all of them, whatever Redis documents"
_SIMPLE: Final = """PING
GET k
XADD x * {fields}
XLEN x
PUBLISH nobody hello
CLIENT ID
CLIENT INFO"""

GROWING: Final = (
    Growing(
        "entries",
        _entries,
        (
            *_cases(
                """XLEN s
                XADD s * {fields}
                XRANGE s {id} + COUNT 10
                XREVRANGE s {id} - COUNT 10
                XRANGE s {id} {id}
                XREAD COUNT 10 STREAMS s {id}
                XREAD STREAMS s $
                XREADGROUP GROUP g c COUNT 1 STREAMS s >
                XINFO STREAM s
                XINFO STREAM s FULL
                XINFO GROUPS s
                XGROUP CREATE s h{k} {id}
                XGROUP SETID s g {id}
                XGROUP DESTROY s h{k}
                TYPE s
                EXISTS s
                EXPIRE s 10000
                PERSIST s
                OBJECT ENCODING s
                MEMORY USAGE s
                RENAME s s"""
            ),
            *_cases("XDEL s {id}\nXDELEX s IDS 1 {id}", uses_up=True),
            *_cases("XADD s MAXLEN ~ {n} * {fields}\nXADD s MAXLEN = {n} * {fields}"),
            once("XRANGE s - +"),
            once("DUMP s"),
            once("COPY s t"),
            once("XTRIM t MAXLEN 0"),
            once("COPY s u"),
            once("UNLINK u", "1"),
            once("DEL s"),
        ),
    ),
    Growing(
        "pending entries",
        _pending,
        (
            *_cases("XCLAIM s g d 0 {id}\nXCLAIM s g d 0 {id} JUSTID", "log"),
            *_cases(
                """XREADGROUP GROUP g c COUNT 1 STREAMS s >
                XREADGROUP GROUP g c COUNT 10 STREAMS s {id}
                XREADGROUP GROUP g e COUNT 10 CLAIM 3600000 STREAMS s >
                XAUTOCLAIM s g d 0 {id} COUNT 10
                XAUTOCLAIM s g d 3600000 0 COUNT 10
                XPENDING s g
                XPENDING s g {id} + 10
                XPENDING s g {id} + 10 c
                XPENDING s g IDLE 3600000 - + 10
                XINFO STREAM s
                XINFO GROUPS s
                XINFO CONSUMERS s g
                XINFO STREAM s FULL"""
            ),
            *_cases("XACK s g {id}\nXNACK s g FAIL IDS 1 {id}\nXACKDEL s g IDS 1 {id}", uses_up=True),
        ),
    ),
    Growing(
        "pending entries in each of two groups",
        _pending_twice,
        (once("XGROUP DELCONSUMER s g c"), once("XGROUP DESTROY s h"), once("DEL s")),
    ),
    Growing(
        "answered or named",
        _answered,
        (
            *_cases(
                """XRANGE s - + COUNT {n}
                XREVRANGE s + - COUNT {n}
                XREAD COUNT {n} STREAMS s 0
                XREADGROUP GROUP g c COUNT {n} STREAMS s 0
                XPENDING s g - + {n}
                XAUTOCLAIM s g d 0 0 COUNT {n}
                XCLAIM s g e 0 {ids} JUSTID
                XCLAIM s g f 0 {ids}
                MGET {keys}
                EXISTS {keys}
                LRANGE l 0 {n}
                ZRANGE z 0 {n}""",
                "n",
            ),
            once("XACK s g {ids}"),
            once("XDEL s {ids}"),
        ),
        (10, 1_000, 100_000),
    ),
    Growing(
        "consumers",
        _consumers,
        (
            *_cases(
                """XREADGROUP GROUP g c{i} COUNT 1 STREAMS s >
                XCLAIM s g c{i} 0 {id}
                XACK s g {id}
                XGROUP CREATECONSUMER s g new{k}
                XGROUP DELCONSUMER s g new{k}
                XAUTOCLAIM s g d 0 0 COUNT 10
                XINFO GROUPS s"""
            ),
            *_cases("XPENDING s g", "n"),
            *_cases("XINFO CONSUMERS s g", "n", note=_ALL),
        ),
        (1_000, 10_000, 100_000),
    ),
    Growing(
        "groups of one stream",
        _groups,
        (
            *_cases(
                """XADD s * {fields}
                XREADGROUP GROUP g0 c COUNT 1 STREAMS s >
                XACK s g0 {id}
                XRANGE s - + COUNT 10
                XGROUP CREATE s new{k} 0
                XGROUP DESTROY s new{k}
                XINFO STREAM s"""
            ),
            *_cases("XDEL s {id}", uses_up=True),
            *_cases("XDELEX s ACKED IDS 1 {id}", "n", note="asks every group, in Redis too"),
            *_cases("XINFO GROUPS s", "n", note=_ALL),
        ),
        MANY,
    ),
    Growing(
        "keys",
        _keys,
        (
            *_cases(
                """GET key:{i}
                SET key:{i} value
                MGET key:{i} key:{k}
                INCR counter:{i}
                EXISTS key:{i}
                TYPE key:{i}
                TTL key:{i}
                EXPIRE key:{i} 10000
                PERSIST key:{i}
                TOUCH key:{i}
                RENAME key:{i} key:{i}
                OBJECT ENCODING key:{i}
                MEMORY USAGE key:{i}
                RANDOMKEY
                DBSIZE
                SCAN 0 COUNT 10
                SET new:{k} value
                XADD stream:{k} * {fields}"""
            ),
            *_cases("DEL key:{i}\nUNLINK key:{i}", uses_up=True),
            once("KEYS nothing*"),
            once("FLUSHALL"),
        ),
    ),
    Growing(
        "keys that expire",
        _expiring,
        (
            *_cases(
                """GET key:{i}
                SET key:{i} value EX 20000
                TTL key:{i}
                EXPIRE key:{i} 10000
                PERSIST key:{i}
                RANDOMKEY
                SCAN 0 COUNT 10"""
            ),
            *_cases("DEL key:{i}", uses_up=True),
            once("FLUSHALL"),
        ),
    ),
    Growing(
        "fields of a hash",
        _collection("HSET h", "field:{} value:{}"),
        (
            *_cases(
                """HGET h field:{i}
                HSET h field:{i} new
                HSET h more:{k} new
                HEXISTS h field:{i}
                HLEN h
                HINCRBY h counter 1
                HRANDFIELD h
                HSCAN h 0 COUNT 10
                HEXPIRE h 10000 FIELDS 1 field:{i}
                HTTL h FIELDS 1 field:{i}"""
            ),
            *_cases("HDEL h field:{i}", uses_up=True),
            once("HGETALL h"),
            once("DEL h"),
        ),
    ),
    Growing(
        "elements of a list",
        _collection("RPUSH l", "element:{}"),
        (
            *_cases(
                """LPOS l element:5
                RPUSH l x
                LPUSH l x
                RPOP l
                LPOP l
                LLEN l
                LRANGE l 0 9
                LRANGE l -10 -1
                LINDEX l 0
                LSET l -1 x
                LMOVE l l LEFT RIGHT
                LTRIM l 1 -1"""
            ),
            *_cases("LINDEX l {i}\nLPOS l nothing", "n"),
            once("DEL l"),
        ),
    ),
    Growing(
        "members of a set",
        _collection("SADD m", "member:{}"),
        (
            *_cases(
                """SADD m more:{k}
                SISMEMBER m member:{i}
                SCARD m
                SRANDMEMBER m
                SSCAN m 0 COUNT 10
                SMOVE m m member:{i}"""
            ),
            *_cases("SREM m member:{i}\nSPOP m", uses_up=True),
            once("SMEMBERS m"),
            once("DEL m"),
        ),
    ),
    Growing(
        "members of a sorted set",
        _collection("ZADD z", "{} member:{}"),
        (
            *_cases("ZSCORE z member:{i}\nZCARD z\nZRANDMEMBER z\nZSCAN z 0 COUNT 10"),
            *_cases(
                """ZADD z {i} member:{i}
                ZADD z {i} more:{k}
                ZINCRBY z 1 member:{i}
                ZRANK z member:{i}
                ZRANGE z {i} {i}
                ZRANGEBYSCORE z {i} +inf LIMIT 0 10
                ZCOUNT z {i} +inf""",
                "log",
            ),
            *_cases("ZREM z member:{i}\nZPOPMIN z", "log", uses_up=True),
            once("ZRANGE z 0 -1"),
            once("DEL z"),
        ),
    ),
    Growing("idle clients", _idle_clients, (*_cases(_SIMPLE), *_cases("CLIENT LIST", "n")), MANY),
    Growing("clients blocked on other streams", _blocked_clients, _cases(_SIMPLE), MANY),
    Growing("subscribers", _subscribers, _cases("PUBLISH news hello", "n"), MANY),
)
