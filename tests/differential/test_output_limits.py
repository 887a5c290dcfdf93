"""client-output-buffer-limit, decided as Redis decides: who is closed, before which command, and what had its effect."""

import re
from dataclasses import dataclass, field

import pytest
from support.live import eventually, wait_for_input
from support.servers import start_servers
from support.wire import ConnectionClosedError, encode_command

KINDS = ("rillet", "redis810")
LONG = "x" * 300_000
UNLIMITED = "normal 0 0 0 pubsub 32mb 8mb 60"
HASH = ("HSET", "h", *(word for number in range(1000) for word in (f"{number:0200}", "v")))
KEYS = [f"{number:0100}" for number in range(2000)]
PAIRS = [word for key in KEYS for word in (key, "v")]
SET_AFTER = ("SET", "after", "1")


@pytest.fixture(scope="module")
def pair():
    with start_servers("rillet", "redis810") as both:
        yield both


@dataclass
class Story:
    """What a client sends at once under a limit, after something was prepared, and what another one sends then."""

    sent: list[tuple[str, ...]]
    limit: str = "normal 100000 0 0"
    prepared: list[tuple[str, ...]] = field(default_factory=list)
    then: list[tuple[str, ...]] = field(default_factory=list)
    protocol: int = 2


LARGE = Story([], prepared=[("SET", "k", LONG), ("SET", "ten", "x" * 10_000)])
STORIES = {
    "GET": Story([("GET", "k")]),
    "GET of less": Story([("GET", "ten")]),
    "GETDEL": Story([("GETDEL", "k")]),
    "MGET": Story([("MGET", *["ten"] * 15)]),
    "ECHO": Story([("ECHO", LONG)]),
    "11 replies": Story([("GET", "ten")] * 11),
    "12 replies": Story([("GET", "ten")] * 12),
    "15 replies": Story([("SET", "first", "1"), *[("GET", "ten")] * 15]),
    "replies within the first block": Story([("ECHO", "x" * 15_000)], "normal 1 0 0"),
    "replies beyond the first block": Story([("ECHO", "x" * 17_000)], "normal 1 0 0"),
    "many replies that fit together": Story([("PING",)] * 3000, "normal 20000 0 0"),
    "many replies of one read": Story([("GET", "ten")] * 600, "normal 4mb 0 0"),
    "LRANGE": Story([("LRANGE", "l", "0", "-1")], prepared=[("RPUSH", "l", *["x" * 130] * 1000)]),
    "LPOP": Story([("LPOP", "l", "1000"), ("LLEN", "l")], prepared=[("RPUSH", "l", *["x" * 130] * 1000)]),
    "SORT": Story([("SORT", "l", "ALPHA")], prepared=[("RPUSH", "l", *["x" * 130] * 1000)]),
    "KEYS": Story([("KEYS", "*")], prepared=[("MSET", *PAIRS)]),
    "SCAN": Story([("SCAN", "0", "COUNT", "5000")], prepared=[("MSET", *PAIRS)]),
    "HGETALL": Story([("HGETALL", "h")], prepared=[HASH]),
    "HRANDFIELD": Story([("HRANDFIELD", "h", "-999999999")], prepared=[HASH]),
    "SRANDMEMBER": Story([("SRANDMEMBER", "s", "-999999999")], prepared=[("SADD", "s", "x" * 100)]),
    "ZRANDMEMBER": Story([("ZRANDMEMBER", "z", "-999999999")], prepared=[("ZADD", "z", "1", "x" * 100)]),
    "XRANGE": Story([("XRANGE", "x", "-", "+")], prepared=[("XADD", "x", "1-1", "f", LONG)]),
    "XREADGROUP": Story(
        [("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")],
        prepared=[("XADD", "x", "1-1", "f", LONG), ("XGROUP", "CREATE", "x", "g", "0")],
        then=[("XPENDING", "x", "g")],
    ),
    "EVAL": Story([("EVAL", "redis.call('SET', 'a', 1) return string.rep('x', 300000)", "0")]),
    "EVAL that reads": Story([("EVAL", "return #redis.call('GET', KEYS[1])", "1", "k")]),
    "COMMAND": Story([("COMMAND",)], "normal 20000 0 0"),
    "EXEC": Story([("MULTI",), ("SET", "a", "1"), *[("GET", "ten")] * 15, ("SET", "b", "2"), ("EXEC",)]),
    "DISCARD": Story([("MULTI",), *[("GET", "ten")] * 15, ("DISCARD",)]),
    "CLIENT REPLY OFF": Story([("CLIENT", "REPLY", "OFF"), ("GET", "k"), ("CLIENT", "REPLY", "ON")]),
    "soft": Story([("GET", "k")], "normal 0 100000 0"),
    "BLPOP": Story([("BLPOP", "l", "0"), SET_AFTER], then=[("RPUSH", "l", LONG), ("LLEN", "l")]),
    "XREAD BLOCK": Story(
        [("XREAD", "BLOCK", "0", "STREAMS", "x", "$"), SET_AFTER], then=[("XADD", "x", "1-1", "f", LONG)]
    ),
    "MONITOR": Story([("MONITOR",)], then=[("SET", "k", LONG), ("SET", "k", LONG)]),
    "MONITOR is not pub/sub": Story([("MONITOR",)], "pubsub 100000 0 0", then=[("SET", "k", LONG)]),
    "a message": Story([("SUBSCRIBE", "c")], "pubsub 100000 0 0", then=[("PUBLISH", "c", LONG)] * 2),
    "a message by pattern": Story([("PSUBSCRIBE", "c*")], "pubsub 100000 0 0", then=[("PUBLISH", "c", LONG)] * 2),
    "a message of a shard": Story([("SSUBSCRIBE", "c")], "pubsub 100000 0 0", then=[("SPUBLISH", "c", LONG)] * 2),
    "a message is not normal": Story([("SUBSCRIBE", "c")], then=[("PUBLISH", "c", LONG)] * 2),
    "messages of a script": Story(
        [("SUBSCRIBE", "c")],
        "pubsub 100000 0 0",
        then=[("EVAL", "for i = 1, 20 do redis.call('PUBLISH', 'c', string.rep('x', 10000)) end", "0")],
    ),
    "its own message": Story([("SUBSCRIBE", "c"), ("PUBLISH", "c", LONG)], "pubsub 100000 0 0", protocol=3),
    "a subscriber reads": Story([("SUBSCRIBE", "c"), ("GET", "k")], "pubsub 100000 0 0", protocol=3),
    "a subscriber no more": Story([("SUBSCRIBE", "c"), ("UNSUBSCRIBE", "c"), ("GET", "k")], "pubsub 100000 0 0"),
    "invalidations": Story(
        [("CLIENT", "TRACKING", "ON"), ("MGET", *KEYS)], prepared=[("MSET", *PAIRS)], then=[("MSET", *PAIRS)],
        protocol=3,
    ),
    "broadcasts": Story([("CLIENT", "TRACKING", "ON", "BCAST")], then=[("MSET", *PAIRS)], protocol=3),
}  # fmt: skip


def is_closed(wire):
    """Read until the server closes, or answers a last PING."""
    try:
        while b"the last" not in wire.read().encode()[-20:]:
            pass
    except (ConnectionClosedError, ConnectionError):
        return True
    return False


def told(process, story):
    """Whether the client is closed, what others see of its commands, and the count in INFO."""
    with process.wire() as other:
        other.call("FLUSHALL")
        for words in LARGE.prepared + story.prepared:
            other.call(*words)
        other.call("CONFIG", "RESETSTAT")
        other.call("CONFIG", "SET", "client-output-buffer-limit", story.limit)
        with process.wire(story.protocol) as wire:
            number = wire.call("CLIENT", "ID").value
            following = [] if story.then else [SET_AFTER]
            wire.send_raw(b"".join(encode_command(*words) for words in story.sent + following))
            if story.then:
                wait_for_input(other, number, sum(len(encode_command(*words)) for words in story.sent))
            answers = [other.call(*words).encode() for words in story.then]
            try:
                wire.send("PING", "the last")
                closed = is_closed(wire)
            except ConnectionError:
                closed = True
        other.call("CONFIG", "SET", "client-output-buffer-limit", UNLIMITED)
        kept = [other.call("EXISTS", key).value for key in ("first", "after", "a", "b", "k")]
        found = re.search(
            rb"client_output_buffer_limit_disconnections:(\d+)", other.call("INFO", "stats").value
        )
        return closed, answers, kept, found[1]


@pytest.mark.parametrize("name", STORIES)
def test_a_client_that_is_owed_too_much_is_closed_when_redis_closes_it(name, pair):
    assert told(pair["rillet"], STORIES[name]) == told(pair["redis810"], STORIES[name])


UNAUTHENTICATED = {
    "a few errors": encode_command("SET", "x", "5") * 400,
    "many errors": encode_command("SET", "x", "5") * 2000,
    "many inline errors": b"a\r\n" * 3000,
    "few inline errors": b"a\r\n" * 600,
    "a login before a long reply": encode_command("AUTH", "pw") + encode_command("COMMAND"),
    "a late login": encode_command("SET", "x", "5") * 300 + encode_command("AUTH", "pw") + encode_command("COMMAND"),
    "HELLO": encode_command("HELLO", "2", "AUTH", "default", "pw") + encode_command("COMMAND"),
    "11 arguments": b"*11\r\n",
    "10 arguments": encode_command(*["x"] * 10),
    "a long argument": b"*2\r\n$16385\r\n",
    "an argument of 16 kB": encode_command("AUTH", "x" * 16384),
}  # fmt: skip


@pytest.mark.parametrize("name", UNAUTHENTICATED)
def test_a_client_without_password_is_owed_a_kilobyte(name, pair):
    found = []
    for process in pair.values():
        with process.wire() as other:
            other.call("CONFIG", "RESETSTAT")
            other.call("CONFIG", "SET", "requirepass", "pw")
            with process.wire() as wire:
                try:
                    wire.send_raw(UNAUTHENTICATED[name])
                    wire.send("PING", "the last")
                    wire.send("AUTH", "pw")
                    wire.send("PING", "the last")
                    closed = is_closed(wire)
                except ConnectionError:
                    closed = True
            other.call("CONFIG", "SET", "requirepass", "")
            count = re.search(
                rb"client_output_buffer_limit_disconnections:(\d+)", other.call("INFO", "stats").value
            )
            found.append((closed, count[1]))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_without_password_that_does_not_read_is_closed(kind, pair):
    process = pair[kind]
    flood = encode_command("SET", "x", "5") * 500_000
    with process.wire() as other:
        other.call("CONFIG", "SET", "requirepass", "pw")
        with process.wire() as wire, pytest.raises(ConnectionError):
            wire.send_raw(flood)  # a server that waits instead lets the sender wait for a minute
        other.call("CONFIG", "SET", "requirepass", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_soft_limit_holds_without_traffic(kind, pair):
    process = pair[kind]
    with process.wire() as other, process.wire() as wire:
        other.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 20000 1")
        number = wire.call("CLIENT", "ID").value
        wire.call("SUBSCRIBE", "c")

        def line():
            return other.call("CLIENT", "LIST", "ID", number).value

        while int(re.search(rb"omem=(\d+)", line())[1]) < 20_000:
            other.call("PUBLISH", "c", "x" * 10_000)
        eventually(lambda: not line())
        other.call("CONFIG", "SET", "client-output-buffer-limit", UNLIMITED)
