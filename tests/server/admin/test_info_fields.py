"""The sections and fields of INFO, and the fields of CLIENT LIST, beside the real servers."""

import re

import pytest
from support.live import LiveServer
from support.until import until

from rillet.server.admin.keysizes import MOST_KEYS

PAIRS = [("rillet", "redis810"), ("rillet-7.0", "redis7")]
each_pair = pytest.mark.parametrize(("mine", "real"), PAIRS)
# Of commands that are not there, and of a module.
LEFT_OUT = {"Hotkeys"}


def sections(server, *names):
    """INFO as title to lines."""
    found = {}
    with server.wire() as wire:
        for line in wire.call("INFO", *names).value.decode().splitlines():
            if line.startswith("# "):
                lines = found.setdefault(line[2:], [])
            elif line:
                lines.append(line)
    return found


@each_pair
@pytest.mark.parametrize("names", [(), ("default",), ("all",), ("everything",), ("server", "keysizes")])
def test_info_has_the_sections_of_redis_in_their_order(running, mine, real, names):
    theirs = [title for title in sections(running(real), *names) if title not in LEFT_OUT]
    assert list(sections(running(mine), *names)) == theirs


def test_only_the_requested_sections_are_returned(rillet_process):
    assert list(sections(rillet_process, "SERVER", "nothing", "cpu")) == ["Server", "CPU"]
    assert sections(rillet_process, "nothing") == {}
    assert next(iter(sections(rillet_process, "clients", "default"))) == "Server"


def test_the_keyspace_is_reported_per_database(rillet_process):
    with rillet_process.wire() as wire:
        wire.call("FLUSHALL")
        assert sections(rillet_process, "keyspace") == {"Keyspace": []}
        wire.do("SET a 1; SET b 1 EX 1000; SELECT 5; SET c 1")
    first, second = sections(rillet_process, "keyspace")["Keyspace"]
    assert second == "db5:keys=1,expires=0,avg_ttl=0,subexpiry=0"
    assert (
        900_000 < int(re.fullmatch(r"db0:keys=2,expires=1,avg_ttl=(\d+),subexpiry=0", first)[1]) <= 1_000_000
    )


def test_the_listener_is_reported_with_its_addresses(rillet_process):
    facts, port = sections(rillet_process, "server")["Server"], rillet_process.port
    wanted = (
        f"listener0:name=tcp,bind=127.0.0.1,port={port}",
        f"tcp_port:{port}",
        f"process_id:{rillet_process.pid}",
    )
    assert {*wanted} <= {*facts}


def test_key_sizes_are_counted_as_redis_does(running):
    for kind in ("rillet", "redis810"):
        with running(kind).wire() as wire:
            wire.call("FLUSHALL")
            for key, size in (("a", 0), ("b", 1), ("c", 5), ("d", 1023), ("e", 1024), ("f", 1 << 20)):
                wire.call("SET", key, "x" * size)
            for size in (1, 2, 3, 100):
                members = [f"m{number}" for number in range(size)]
                wire.call("RPUSH", f"l{size}", *members)
                wire.call("SADD", f"s{size}", *members)
                wire.call("HSET", f"h{size}", *(word for member in members for word in (member, "v")))
                wire.call("ZADD", f"z{size}", *(word for member in members for word in ("1", member)))
            wire.do("XADD x * f v; DEL b; SELECT 3; RPUSH l a")
    assert sections(running("rillet"), "keysizes") == sections(running("redis810"), "keysizes")


def test_many_keys_are_counted_only_on_demand():
    with LiveServer(enable_debug_command="yes") as server, server.wire() as wire:
        wire.call("DEBUG", "POPULATE", MOST_KEYS)
        assert b"Keysizes" in wire.call("INFO").value
        wire.call("SET", "one more", "value")
        assert b"Keysizes" not in wire.call("INFO").value
        assert b"strings_sizes:4=11,8=99990" in wire.call("INFO", "keysizes").value


@each_pair
@pytest.mark.parametrize("words", ["CLIENT LIST", "CLIENT INFO"])
def test_the_line_of_a_client_has_the_fields_of_redis(running, mine, real, words):
    fields = []
    for kind in (mine, real):
        with running(kind).wire() as wire:
            line = wire.call(*words.split()).value.decode().splitlines()[0]
            fields.append([pair.partition("=")[0] for pair in line.split()])
    assert fields[0] == fields[1]


@each_pair
def test_a_client_that_a_pause_holds_counts_as_blocked(running, mine, real):
    replies = []
    for kind in (mine, real):
        with running(kind).wire() as wire, running(kind).wire() as other:
            wire.call("CLIENT", "PAUSE", "20000", "WRITE")
            number = other.call("CLIENT", "ID").plain()
            other.send("SET", "a", "1")

            def line():
                return wire.call("CLIENT", "LIST", "ID", str(number)).value.decode()  # noqa: B023

            until(lambda: "flags=b" in line())
            replies.append(
                [text for text in wire.call("INFO", "clients").value.split() if b"blocked" in text]
            )
            wire.call("CLIENT", "UNPAUSE")
            assert other.read().value == b"OK"
            assert "flags=N" in line()
    assert replies[0] == replies[1] == [b"blocked_clients:1"]
