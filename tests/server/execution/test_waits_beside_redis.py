"""Clients that wait, beside Redis: what counts, and what becomes of a key past its time that SWAPDB brings."""

import re
import time

import pytest
from support.servers import require_binary, start_server
from support.until import until
from support.wire import split_replies

PAIRS = pytest.mark.parametrize(("ours", "theirs"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
WAITS = {
    "list": ("BLPOP", "k", "0"),
    "zset": ("BZPOPMIN", "k", "0"),
    "stream": ("XREAD", "BLOCK", "0", "STREAMS", "k", "$"),
    "group": ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "k", ">"),
}
MAKES = {
    "list": [("RPUSH", "k", "v")],
    "zset": [("ZADD", "k", "1", "v")],
    "stream": [("XADD", "k", "1-1", "f", "v")],
    "group": [("XADD", "k", "1-1", "f", "v"), ("XGROUP", "CREATE", "k", "g", "0")],
}


STEPS = ["SWAPDB 0 1", "SET x v", "SELECT 0", "DBSIZE", "SET y v", "EXISTS k"]
TIME = re.compile(rb"#TS:\d+\r\n")


def blocked(wire) -> str:
    return re.search(r"blocked_clients:(\d+)", wire.call("INFO", "clients").value.decode())[1]


def counts(wire, name: str) -> tuple[int, str]:
    """Calls in the histogram, and calls and failures in INFO."""
    histogram = wire.call("LATENCY", "HISTOGRAM", name).plain()
    found = re.search(
        rf"cmdstat_{name}:calls=(\d+),.*(failed_calls=\d+)", wire.call("INFO", "commandstats").value.decode()
    )
    return histogram[1][1] if histogram else 0, " ".join(found.groups()) if found else ""


def waited(kind: str) -> list[object]:
    """How each end of a wait is counted."""
    seen: list[object] = []
    with start_server(kind) as server, server.wire() as wire:
        for words in (("BLPOP", "k", "0"), ("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), ("WAIT", "1", "0")):
            name = words[0].lower()
            for end in ("its time", "UNBLOCK", "ERROR", "a push", "leaves"):
                wire.call("CONFIG", "RESETSTAT")
                with server.wire() as other:
                    number = other.call("CLIENT", "ID").plain()
                    if end == "its time":
                        other.call(*words[:2], "1" if name != "blpop" else "0.001", *words[3:])
                    else:
                        other.send(*words)
                        until(lambda: blocked(wire) == "1")
                        seen.append((name, "waits", counts(wire, name)))
                    if end in {"UNBLOCK", "ERROR"}:
                        wire.call("CLIENT", "UNBLOCK", number, "TIMEOUT" if end == "UNBLOCK" else "ERROR")
                        other.read()
                    elif end == "a push" and name != "wait":
                        wire.call(*(("RPUSH", "k", "v") if name == "blpop" else ("XADD", "s", "*", "f", "v")))
                        other.read()
                until(lambda: blocked(wire) == "0")
                seen.append((name, end, counts(wire, name)))
    return seen


@PAIRS
def test_a_wait_is_counted_by_its_end(ours, theirs):
    require_binary(theirs)
    assert waited(ours) == waited(theirs)


def swapped(kind: str) -> list[object]:
    """What SWAPDB does that brings a key past its time to a client that waits for it: replies, and the file."""
    flags = ("--appendonly", "yes", "--enable-debug-command", "yes")
    seen: list[object] = []
    with start_server(kind, *flags) as server, server.wire() as wire:
        wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        [file] = (server.dir / "appendonlydir").glob("*.incr.aof")
        for wait, words in WAITS.items():
            for make, commands in MAKES.items():
                wire.do("FLUSHALL; SELECT 0")
                if wait == "group":
                    for each in MAKES["group"]:
                        wire.call(*each)
                    wire.call("XGROUP", "SETID", "k", "g", "$")
                start = file.stat().st_size
                with server.wire() as other:
                    other.send(*words)
                    until(lambda: blocked(wire) == "1")
                    wire.call("SELECT", "1")
                    for each in commands:
                        wire.call(*each)
                    wire.call("PEXPIRE", "k", "5")
                    due = time.monotonic() + 0.01
                    until(lambda due=due: time.monotonic() > due)
                    replies = [wire.call(*step.split()) for step in STEPS]
                    wire.call("PING")  # what the other client was sent before has come
                    seen.append((wait, make, [str(reply) for reply in replies], other.pending()))
                records = [node.plain() for node in split_replies(TIME.sub(b"", file.read_bytes()[start:]))]
                seen.append([[word for word in words if not word.isdigit()] for words in records])
                until(lambda: blocked(wire) == "0")
    return seen


@PAIRS
def test_a_key_past_its_time_that_swapdb_brings_serves_nobody(ours, theirs):
    require_binary(theirs)
    assert swapped(ours) == swapped(theirs)
