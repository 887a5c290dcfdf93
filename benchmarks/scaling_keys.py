"""Keys, collections and clients that grow, and the commands beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scaling_cases import MANY, MILLION, TEN_MILLION, Case, Growing, cases, once, variadic
from servers import Connection, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import Server


def _keys(server: Server, n: int) -> None:
    server.control.feed(variadic("MSET", n, "key:{} value"), 10)


def _expiring(server: Server, n: int) -> None:
    server.control.feed(encode("SET", f"key:{at}", "value", "EX", 36_000 + at % 36_000) for at in range(n))


def _collection(head: str, each: str) -> Callable[[Server, int], None]:
    return lambda server, n: server.control.feed(variadic(head, n, each), 10)


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


_SIMPLE: Final = """PING
GET k
XADD x * {fields}
XLEN x
PUBLISH silence hello
CLIENT ID
CLIENT INFO"""

KEYS: Final = (
    Growing(
        "keys",
        _keys,
        (
            *cases(
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
                XADD stream:{k} * {fields}
                COPY key:{i} copy:{k}
                DUMP key:{i}"""
            ),
            *cases("DEL key:{i}\nUNLINK key:{i}", uses_up=True),
            once("KEYS nothing*"),
            once("FLUSHALL"),
        ),
        TEN_MILLION,
    ),
    Growing(
        "keys that expire",
        _expiring,
        (
            *cases(
                """GET key:{i}
                SET key:{i} value EX 20000
                TTL key:{i}
                EXPIRE key:{i} 10000
                PERSIST key:{i}
                RANDOMKEY
                SCAN 0 COUNT 10"""
            ),
            *cases("DEL key:{i}", uses_up=True),
            once("FLUSHALL"),
        ),
        MILLION,
    ),
    Growing(
        "fields of a hash",
        _collection("HSET h", "field:{} value:{}"),
        (
            *cases(
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
            *cases("HDEL h field:{i}", uses_up=True),
            once("HGETALL h"),
            once("DEL h"),
        ),
        MILLION,
    ),
    Growing(
        "elements of a list",
        _collection("RPUSH l", "element:{}"),
        (
            *cases(
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
            *cases("LINDEX l {i}\nLPOS l nothing", "n"),
            once("DEL l"),
        ),
        MILLION,
    ),
    Growing(
        "members of a set",
        _collection("SADD m", "member:{}"),
        (
            *cases(
                """SADD m more:{k}
                SISMEMBER m member:{i}
                SCARD m
                SRANDMEMBER m
                SSCAN m 0 COUNT 10
                SMOVE m m member:{i}"""
            ),
            *cases("SREM m member:{i}\nSPOP m", uses_up=True),
            once("SMEMBERS m"),
            once("DEL m"),
        ),
        MILLION,
    ),
    Growing(
        "members of a sorted set",
        _collection("ZADD z", "{} member:{}"),
        (
            *cases("ZSCORE z member:{i}\nZCARD z\nZRANDMEMBER z\nZSCAN z 0 COUNT 10"),
            *cases(
                """ZADD z {i} member:{i}
                ZADD z {i} more:{k}
                ZINCRBY z 1 member:{i}
                ZRANK z member:{i}
                ZRANGE z {i} {i}
                ZRANGEBYSCORE z {i} +inf LIMIT 0 10
                ZCOUNT z {i} +inf""",
                "log",
            ),
            *cases("ZREM z member:{i}\nZPOPMIN z", "log", uses_up=True),
            once("ZRANGE z 0 -1"),
            once("DEL z"),
        ),
        MILLION,
    ),
    Growing("idle clients", _idle_clients, (*cases(_SIMPLE), *cases("CLIENT LIST", "n")), MANY),
    Growing("clients blocked on other streams", _blocked_clients, cases(_SIMPLE), MANY),
    Growing("subscribers", _subscribers, (Case("PUBLISH news hello", "n", alone=True),), MANY),
)
