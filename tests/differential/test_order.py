"""Who reads first: the client whose command caused a message, an invalidation or a wake-up, or the client that gets it."""

import select

import pytest
from support.servers import ServerProcess, start_server

Words = tuple[str, ...]

TRIES = 40
READ_GROUP = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
# What the one that gets it sends once, and before each time; what causes it. `ID` is the first one's id.
CAUSES: dict[str, tuple[int, list[Words], Words | None, Words]] = {
    "a message": (2, [("SUBSCRIBE", "c")], None, ("PUBLISH", "c", "m")),
    "a message of a shard": (2, [("SSUBSCRIBE", "c")], None, ("SPUBLISH", "c", "m")),
    "a message of a script": (
        2, [("SUBSCRIBE", "c")], None, ("EVAL", "return redis.call('publish','c','m')", "0"),
    ),
    "an event": (
        2, [("CONFIG", "SET", "notify-keyspace-events", "KEA"), ("PSUBSCRIBE", "__keyevent@0__:set")], None,
        ("SET", "k", "v"),
    ),
    "an invalidation": (3, [("CLIENT", "TRACKING", "ON")], ("GET", "k"), ("SET", "k", "v")),
    "a wake-up of XREAD": (2, [], ("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), ("XADD", "s", "*", "f", "v")),
    "a wake-up of XREADGROUP": (
        2, [("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")], READ_GROUP, ("XADD", "s", "*", "f", "v"),
    ),
    "a wake-up of BLPOP": (2, [], ("BLPOP", "l", "0"), ("RPUSH", "l", "v")),
    "UNBLOCK": (2, [], ("BLPOP", "l", "0"), ("CLIENT", "UNBLOCK", "ID")),
}  # fmt: skip


def read_before_the_cause(server: ServerProcess, name: str) -> int:
    """How many times of `TRIES` the caused is readable where the reply to its cause is not, by one epoll over both."""
    protocol, once, each_time, cause = CAUSES[name]
    with server.wire() as causing, server.wire(protocol) as getting, server.wire() as control:
        number = getting.call("CLIENT", "ID").value
        for words in once:
            getting.call(*words)
        poll, before = select.epoll(), 0
        for wire in (causing, getting):
            poll.register(wire._socket, select.EPOLLIN)
        for _ in range(TRIES):
            if each_time is not None and each_time[0] == "GET":
                getting.call(*each_time)
            elif each_time is not None:
                getting.send(*each_time)
                while b" flags=b" not in control.call("CLIENT", "LIST", "ID", number).value:
                    pass
            causing.send(*(number if word == "ID" else word for word in cause))
            first = {descriptor for descriptor, _ in poll.poll()}
            before += causing._socket.fileno() not in first
            causing.read()
            getting.read()
        poll.close()
    return before


@pytest.mark.parametrize(
    "flags", [(), ("--appendonly", "yes"), ("--appendonly", "yes", "--appendfsync", "always")], ids=" ".join
)
@pytest.mark.parametrize("idle", [0, 10])
def test_nobody_reads_what_a_command_caused_before_its_client_has_the_reply(flags, idle):
    with start_server("rillet", *flags) as server:
        others = [server.wire() for _ in range(idle)]
        before = {name: read_before_the_cause(server, name) for name in CAUSES}
        for wire in others:
            wire.close()
    assert not any(before.values()), before


@pytest.mark.parametrize(
    "name", ["a message", "a message of a shard", "an event", "an invalidation", "UNBLOCK"]
)
def test_real_servers_keep_that_order(name):
    with start_server("redis810") as server:
        assert not read_before_the_cause(server, name)
