"""What grows in the scaling benchmark, and the commands that are measured beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from servers import Connection, encode
from workloads import ENTRY, FIELDS, deliver_all, elements, entry_id, fill, fill_with_group, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import Server

_THOUSANDS: Final = (1_000, 10_000, 100_000)
_MILLION: Final = (1_000, 100_000, 1_000_000)
_TEN_MILLION: Final = (1_000, 100_000, 10_000_000)
_MANY: Final = (100, 1_000, 10_000)
_NEW: Final = 5_000  # entries that reads find


@dataclass(frozen=True)
class Case:
    """One command, or several with ` ; ` between them that are measured as one.

    Attributes:
        growth: what its documented complexity says: `1`, `log` or `n`.
        marks: how it is measured and why it grows, see `_ROWS`.
        line: words with `{i}` (a number below N, another one each time), `{id}` (the ID of that entry), `{k}` (counts
            up), `{next}` (the ID of that entry), `{n}` (N) and `{fields}` (of an entry).
    """

    growth: str
    marks: tuple[str, ...]
    line: str

    @property
    def note(self) -> str:
        """Why the growth is not what the documentation says."""
        return "".join(_NOTES.get(mark, "") for mark in self.marks)

    def request(self, turn: int, n: int) -> list[bytes]:
        """The encoded commands of a turn; 7919 is prime: neighbours in time are far from each other in the data."""
        spot = turn * 7919 % n
        ids = {"id": entry_id(spot).decode(), "next": entry_id(turn).decode()}
        lines = self.line.format(i=spot, k=turn, n=n, fields=ENTRY, **ids)
        return [encode(*line.split()) for line in lines.split(" ; ")]


@dataclass(frozen=True)
class Growing:
    """Something there are N of, which `prepare` makes, and the commands that are measured while N grows."""

    what: str
    prepare: Callable[[Server, int], None]
    sizes: tuple[int, ...]
    cases: list[Case]


# What is there


def _expiring(server: Server, n: int) -> None:
    server.control.feed(encode("SET", f"key:{at}", "value", "EX", 36_000 + at % 36_000) for at in range(n))


def _collections(server: Server, n: int) -> None:
    for head, each in (
        ("HSET h", "field:{} value:{}"),
        ("RPUSH l", "element:{}"),
        ("SADD m", "member:{}"),
        ("ZADD z", "{} member:{}"),
    ):
        elements(head, each)(server, n)


def _clients(*words: str) -> Callable[[Server, int], None]:
    """So many clients, each of which has sent this."""

    def prepare(server: Server, n: int) -> None:
        server.kept = connections = [Connection(server.port) for _ in range(n)]
        for number, connection in enumerate(connections):
            connection.socket.sendall(encode(*(word.format(number) for word in words)))

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
    fill_with_group(server, n + _NEW)
    server.control.feed(
        encode("XREADGROUP", "GROUP", "g", f"c{at}", "COUNT", "1", "STREAMS", "s", ">") for at in range(n)
    )


def _groups(server: Server, n: int) -> None:
    fill(server, 2 * _NEW)
    server.control.feed(encode("XGROUP", "CREATE", "s", f"g{at}", "0") for at in range(n))
    server.control.feed([encode("XREADGROUP", "GROUP", "g0", "c", "COUNT", str(_NEW), "STREAMS", "s", ">")])


# The rows

# After the growth of a case:
#   gone    each takes something away that is not there again; `{i}` is never the same one then
#   once    it can be measured only once in prepared data
#   alone   not sent together with others, because what they send to other clients would be gathered; what the server
#           does after its reply counts
_NOTES: Final = {
    "all": "answers all of them, whatever Redis documents",
    "each": "asks every group, in Redis too",
    "packed": "what is old in a big stream is packed, and unpacked to change it",
}
_PREPARED: Final = {
    "entries": (_entries, _TEN_MILLION),
    "pending entries": (_pending, _MILLION),
    "entries, to be taken away": (_entries, _TEN_MILLION),
    "consumers": (_consumers, _THOUSANDS),
    "groups of one stream": (_groups, _MANY),
    "keys": (keys, _TEN_MILLION),
    "keys that expire": (_expiring, _MILLION),
    "elements of each collection": (_collections, _MILLION),
    "idle clients": (_clients("PING"), _MANY),
    "clients blocked on other streams": (_clients("XREAD", "BLOCK", "0", "STREAMS", "b{0}", "$"), _MANY),
    "subscribers": (_clients("SUBSCRIBE", "news"), _MANY),
    "patterns": (_clients("PSUBSCRIBE", "*a{0}*b"), _MANY),
}
_ROWS: Final = """
entries
  1               XADD s * {fields}
  1               XADD s IDMP p {k} * {fields}
  1               XADD s MAXLEN ~ 99999999 * {fields}
  1               XREVRANGE s {id} - COUNT 10
  1               XRANGE s {id} + COUNT 10
  1               XREAD COUNT 10 STREAMS s {id}
  1               XREADGROUP GROUP g c COUNT 1 STREAMS s >
  1               XINFO STREAM s
  1               XINFO STREAM s FULL
  1               XGROUP CREATE s h{k} {id}
  1               MEMORY USAGE s
pending entries
  log             XCLAIM s g d 0 {id}
  log             XCLAIM s g d 0 {id} JUSTID
  1               XREADGROUP GROUP g c COUNT 1 STREAMS s >
  1               XREADGROUP GROUP g c COUNT 10 STREAMS s {id}
  1               XREADGROUP GROUP g e COUNT 10 CLAIM 3600000 STREAMS s >
  1               XAUTOCLAIM s g d 0 {id} COUNT 10
  1               XAUTOCLAIM s g d 3600000 0 COUNT 10
  1               XPENDING s g
  1               XPENDING s g {id} + 10
  1               XPENDING s g {id} + 10 c
  1               XPENDING s g IDLE 3600000 - + 10
  1               XCLAIM s g c 0 {id} ; XPENDING s g {id} + 10 c
  1               XINFO GROUPS s
  1               XINFO STREAM s FULL
  1 gone          XACK s g {id}
  1 gone          XNACK s g FAIL IDS 1 {id}
  1 gone packed   XACKDEL s g IDS 1 {id}
  n once          XGROUP DELCONSUMER s h c
  n once          XGROUP DESTROY s g
entries, to be taken away
  1 gone packed   XDEL s {id}
  1 gone packed   XDELEX s IDS 1 {id}
  1               XADD s MAXLEN ~ {n} * {fields}
  1               XADD s MAXLEN = {n} * {fields}
  n once          COPY s t
  n once          XTRIM t MAXLEN 100
  1 once          UNLINK s
consumers
  1               XREADGROUP GROUP g c{i} COUNT 1 STREAMS s >
  1               XPENDING s g - + 10 c{i}
  1               XCLAIM s g c{i} 0 {id}
  1               XACK s g {id}
  1               XGROUP CREATECONSUMER s g new{k}
  1               XAUTOCLAIM s g d 0 0 COUNT 10
  n               XPENDING s g
  n all           XINFO CONSUMERS s g
groups of one stream
  1               XADD s * {fields}
  1               XADD s MAXLEN ~ 1000000 * {fields}
  1               XREADGROUP GROUP g{i} c COUNT 10 STREAMS s >
  1               XACK s g0 {next}
  1               XGROUP CREATE s new{k} 0
  1 gone          XDEL s {next}
  n gone each     XDELEX s ACKED IDS 1 {next}
  n gone each     XDELEX s DELREF IDS 1 {next}
  n all           XINFO GROUPS s
keys
  1               GET key:{i}
  1               SET key:{i} value
  1               SET new:{k} value
  1               XADD stream:{k} * {fields}
  1               EXPIRE key:{i} 10000
  1               RENAME key:{i} key:{i}
  1               RANDOMKEY
  1               SCAN 0 COUNT 10
  1 gone          DEL key:{i}
  n once          KEYS nothing*
  n once          FLUSHALL
keys that expire
  1               GET key:{i}
  1               SET key:{i} value EX 20000
  1               RANDOMKEY
elements of each collection
  1               HGET h field:{i}
  1               HSET h more:{k} new
  1               HRANDFIELD h
  1               RPUSH l x
  1               LPOP l
  1               LINDEX l 0
  1               SADD m more:{k}
  1               SRANDMEMBER m
  1               ZSCORE z member:{i}
  log             ZADD z {i} more:{k}
  log             ZRANK z member:{i}
  log             ZRANGEBYSCORE z {i} +inf LIMIT 0 10
  n once          HGETALL h
  n once          DEL z
idle clients
  1               PING
  1               XADD x * {fields}
  1               PUBLISH silence hello
  1               CLIENT INFO
  n               CLIENT LIST
clients blocked on other streams
  1               PING
  1               XADD x * {fields}
  1               PUBLISH silence hello
  1               CLIENT INFO
subscribers
  n alone         PUBLISH news hello
patterns
  n               PUBLISH news hello
"""


def _growing() -> Iterator[Growing]:
    for line in _ROWS.strip().splitlines():
        if line in _PREPARED:
            growing = Growing(line, *_PREPARED[line], [])
            yield growing
        else:
            words, _, command = line.strip().partition("  ")
            growth, *marks = words.split()
            growing.cases.append(Case(growth, tuple(marks), command.strip()))


GROWING: Final = tuple(_growing())
