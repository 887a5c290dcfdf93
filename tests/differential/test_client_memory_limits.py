"""The memory of clients and maxmemory-clients: what counts, and who is closed before which command, as on Redis."""

import contextlib
import re

import pytest
from support.live import eventually, wait_for_input
from support.servers import start_servers
from support.wire import encode_command

KINDS = ("rillet", "redis810")
KEYS = [f"{number:0100}" for number in range(2000)]


@pytest.fixture(scope="module")
def pair():
    with start_servers("rillet", "redis810") as both:
        yield both


def held(process, *requests, protocol=2):
    """What CLIENT LIST counts for a client that sent this: the memory beyond that of an idle one, and some fields."""
    with process.wire() as other, process.wire(protocol) as wire:
        number = wire.call("CLIENT", "ID").value

        def fields():
            text = other.call("CLIENT", "LIST", "ID", number).value.decode()
            return dict(pair.partition("=")[::2] for pair in text.split())

        for request in requests:
            wire.send_raw(request)
        wait_for_input(other, number, sum(map(len, requests)))
        return {name: int(fields()[name]) for name in ("qbuf", "argv-mem", "multi-mem", "tot-mem")}


MILLION = b"v" * 1_000_000
HELD = {
    "an idle client": [],
    "the beginning of a request": [b"*3\r\n$3\r\nSET\r\n$1"],
    "the beginning of a line": [b"SET abc"],
    "half an argument": [b"*2\r\n$4\r\nECHO\r\n$2000000\r\n", MILLION],
    "an argument and more to come": [b"*3\r\n$4\r\nMSET\r\n$1000000\r\n", MILLION, b"\r\n$10\r\n"],
    "a blocked command": [encode_command("BLPOP", "k" * 30_000, "0")],
    "a request behind a blocked one": [encode_command("BLPOP", "no", "0"), encode_command("ECHO", "x" * 15_000)],
    "a queue": [encode_command("MULTI"), encode_command("SET", "k" * 1000, "v" * 30_000)],
    "watched keys": [encode_command("WATCH", *KEYS)],
    "channels": [encode_command("SUBSCRIBE", *KEYS)],
    "patterns": [encode_command("PSUBSCRIBE", *KEYS)],
    "shard channels": [encode_command("SSUBSCRIBE", *KEYS)],
    "prefixes": [encode_command("CLIENT", "TRACKING", "ON", "BCAST", *(w for k in KEYS[:300] for w in ("PREFIX", k)))],
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_client_list_counts_what_a_client_makes_the_server_hold(name, pair):
    """Redis keeps up to 64 kB of free room in the buffers of a client, and after a long argument room for another."""
    requests, protocol = HELD[name], 3 if name == "prefixes" else 2
    mine, real = (held(process, *requests, protocol=protocol) for process in pair.values())
    if name == "a request behind a blocked one":  # parsed or not: on Redis that depends on when it came
        for fields in (mine, real):
            fields["both"] = (fields.pop("qbuf") + fields.pop("argv-mem")) // 1000
    totals = mine.pop("tot-mem"), real.pop("tot-mem")
    assert mine == real
    assert totals[0] <= totals[1] + 10_000
    assert totals[1] <= totals[0] + 90_000 + mine["argv-mem" if "argv-mem" in mine else "both"]


EVICTED = {
    "a short command": [("SET", "k", "x" * 300_000)],
    "a long argument": [("SET", "k", "x" * 2_000_000)],
    "many arguments": [("MSET", *(f"{number:06}" for number in range(200_000)))],
    "a script": [("EVAL", "return 1", "0", "x" * 2_000_000)],
    "an unknown command": [("NOSUCH", "x" * 2_000_000)],
    "a password": [("AUTH", "x" * 2_000_000)],
    "several commands": [("SET", "k", "x" * 300_000)] * 5,
    "a queue": [("MULTI",), *[("SET", "k", "x" * 300_000)] * 5, ("EXEC",)],
    "few watched keys": [("WATCH", *KEYS)],
    # Redis compares each key with all before it: 20,000 took a minute on a busy machine.
    "many watched keys": [("WATCH", *(f"{number:06}" for number in range(16_000)))],
    "watched keys with long names": [("WATCH", *(f"{number:02000}" for number in range(at, at + 300))) for at in (0, 400, 800)],
    "many channels": [("SUBSCRIBE", *(f"{number:06}" for number in range(at, at + 10_000))) for at in range(0, 50_000, 10_000)],
    "many patterns": [("PSUBSCRIBE", *(f"{number:06}" for number in range(at, at + 10_000))) for at in range(0, 50_000, 10_000)],
    "many shard channels": [("SSUBSCRIBE", *(f"{number:06}" for number in range(at, at + 10_000))) for at in range(0, 50_000, 10_000)],
    "few channels": [("SUBSCRIBE", *KEYS)],
    "a long name": [("CLIENT", "SETNAME", "x" * 400_000)] * 4,
    "NO-EVICT before": [("CLIENT", "NO-EVICT", "ON"), ("SET", "k", "x" * 2_000_000)],
    "NO-EVICT no more": [
        ("CLIENT", "NO-EVICT", "ON"), ("CLIENT", "NO-EVICT", "OFF"), ("SET", "k", "x" * 2_000_000)
    ],
    "a blocked command": [("BLPOP", "x" * 2_000_000, "0")],
    "requests behind a blocked one": [("BLPOP", "no", "0"), *[("SET", "k", "x" * 300_000)] * 6],
}  # fmt: skip
ANNOUNCED = {
    "an argument of 2 MB": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n",
    "an argument of 0.9 MB": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n",
    "most of an argument": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n" + 2 * MILLION,
    "arguments and more to come": b"*4\r\n$4\r\nMSET\r\n$1\r\nk\r\n$2000000\r\n"
    + 2 * MILLION
    + b"\r\n$1\r\n",
}


def evicted(process, sent, limit="1mb", expected=None):
    """How many clients were evicted once a client has sent this (or until it is as expected), and whether ``k`` is there."""
    with process.wire() as other:
        other.call("FLUSHALL")
        other.call("CONFIG", "RESETSTAT")
        other.call("CLIENT", "NO-EVICT", "ON")
        with process.wire() as wire:
            number = wire.call("CLIENT", "ID").value
            other.call("CONFIG", "SET", "maxmemory", "100mb")
            other.call("CONFIG", "SET", "maxmemory-clients", limit)
            with contextlib.suppress(ConnectionError):
                wire.send_raw(sent)
            wait_for_input(other, number, len(sent))

            def found():
                count = re.search(rb"evicted_clients:(\d+)", other.call("INFO", "stats").value)[1]
                return count, other.call("EXISTS", "k").value

            if expected is not None:
                eventually(lambda: found() == expected)
            result = found()
        other.call("CONFIG", "SET", "maxmemory-clients", "0")
        other.call("CONFIG", "SET", "maxmemory", "0")
        return result


@pytest.mark.parametrize("limit", ["1mb", "1%"])
@pytest.mark.parametrize("name", EVICTED)
def test_a_client_is_evicted_before_it_runs_what_exceeds_the_limit(name, limit, pair):
    sent = b"".join(encode_command(*words) for words in EVICTED[name])
    real = evicted(pair["redis810"], sent, limit)
    assert evicted(pair["rillet"], sent, limit, expected=real) == real


@pytest.mark.parametrize("name", ANNOUNCED)
def test_an_argument_counts_as_soon_as_it_is_announced(name, pair):
    real = evicted(pair["redis810"], ANNOUNCED[name])
    assert evicted(pair["rillet"], ANNOUNCED[name], expected=real) == real


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_is_never_evicted_counts_for_the_others(kind, pair):
    process = pair[kind]
    with process.wire() as large, process.wire() as small:
        large.call("CLIENT", "NO-EVICT", "ON")
        large.call("MULTI")
        for _ in range(4):
            large.call("SET", "k", "x" * 400_000)
        assert small.call("PING").value == b"PONG"
        large.call("DISCARD")
        large.call("MULTI")
        for _ in range(4):
            large.call("SET", "k", "x" * 400_000)
        with process.wire() as other:
            other.call("CLIENT", "NO-EVICT", "ON")
            other.call("CONFIG", "SET", "maxmemory-clients", "1mb")
            eventually(small.is_over)
            other.call("CONFIG", "SET", "maxmemory-clients", "0")
        assert large.call("DISCARD").value == b"OK"


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_of_clients_is_at_least_128_kilobytes(kind, pair):
    with pair[kind].wire() as wire:
        wire.call("CONFIG", "SET", "maxmemory-clients", "1")
        assert wire.call("SET", "k", "x" * 20_000).value == b"OK"
        wire.call("CONFIG", "SET", "maxmemory-clients", "0")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lower_limit_evicts_before_the_next_command(kind, pair):
    process = pair[kind]
    with process.wire() as other:
        other.call("CLIENT", "NO-EVICT", "ON")
        clients = [process.wire() for _ in range(8)]
        for number, client in enumerate(clients):
            client.call("CLIENT", "SETNAME", f"client{number}")
            client.call("MULTI")
            client.call("SET", "k", "x" * (400_000 >> (number // 2)))
        other.call("CONFIG", "SET", "maxmemory-clients", "700kb")
        left = re.findall(rb"name=client(\d)", other.call("CLIENT", "LIST").value)
        assert left
        assert left == [b"%d" % number for number in range(int(left[0]), 8)]  # the largest went
        assert 1 <= int(left[0]) <= 4
        other.call("CONFIG", "SET", "maxmemory-clients", "0")
        for client in clients:
            client.close()
