"""What clients make the server hold counts as used memory, on Redis and here, until they let it go."""

import re

import pytest
from support.live import eventually
from support.servers import start_server

COUNT = 1000
NAMES = [b"%06d" % number + b"n" * 1000 for number in range(COUNT)]
ALL = sum(map(len, NAMES))


def used(wire):
    return int(re.search(rb"used_memory:(\d+)", wire.call("INFO", "memory").value)[1])


def listen(command):
    def hold(client):
        client.send(command, *NAMES)
        for _ in NAMES:
            client.read()

    return hold


def watch(client):
    client.call("WATCH", *NAMES)


def queue(client):
    client.call("MULTI")
    for name in NAMES:
        client.call("GET", name)


def queue_small_commands(client):
    client.call("MULTI")
    for _ in range(COUNT * 6):
        client.send("PING")
    for _ in range(COUNT * 6):
        client.read()


def read_while_tracking(client):
    client.call("CLIENT", "TRACKING", "ON")
    for name in NAMES:
        client.call("GET", name)


def register_prefixes(client):
    client.call("CLIENT", "TRACKING", "ON", "BCAST", *(word for name in NAMES for word in ("PREFIX", name)))


def block(client):
    client.send("BLPOP", *NAMES, "0")


def block_on_streams(client):
    client.send("XREAD", "BLOCK", "0", "STREAMS", *NAMES, *(["$"] * COUNT))


def begin_a_request(client):
    client.send_raw(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (2 * ALL) + b"".join(NAMES))


def take_a_long_name(client):
    client.call("CLIENT", "SETNAME", "n" * ALL)


HOLD = {
    "channels": listen("SUBSCRIBE"),
    "patterns": listen("PSUBSCRIBE"),
    "shard channels": listen("SSUBSCRIBE"),
    "watched keys": watch,
    "queued commands": queue,
    "small queued commands": queue_small_commands,
    "tracked keys": read_while_tracking,
    "prefixes": register_prefixes,
    "keys of a blocked client": block,
    "streams of a blocked client": block_on_streams,
    "an incomplete request": begin_a_request,
    "the name of a client": take_a_long_name,
}


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
@pytest.mark.parametrize("what", HOLD)
def test_what_a_client_makes_the_server_hold_is_used_memory(what, kind, running):
    process = running(kind)
    with process.wire() as wire:
        before = used(wire)
        with process.wire(3) as client:
            HOLD[what](client)
            least = ALL * 2 // 3
            eventually(lambda: used(wire) > before + least)
            eventually(
                lambda: used(wire) < before + ALL * 3
            )  # what a request was read into may stay for a second
        if what != "tracked keys":  # they may stay until they change
            eventually(lambda: used(wire) < before + ALL // 3)


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_names_of_keys_that_were_denied_are_used_memory(kind, running):
    with running(kind).wire() as wire, running(kind).wire() as client:
        wire.call("ACL", "SETUSER", "limited", "on", "nopass", "+@all")
        client.call("AUTH", "limited", "x")
        before = used(wire)
        for number in range(100):
            client.call("GET", f"{number:06}" + "n" * 20_000)
        eventually(lambda: used(wire) > before + 1_500_000)
        wire.call("ACL", "LOG", "RESET")
        eventually(lambda: used(wire) < before + 500_000)


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"])
def test_subscriptions_are_refused_at_the_limit(command, kind):
    with (
        start_server(kind, "--maxmemory", 4_000_000) as process,
        process.wire() as wire,
        process.wire(3) as client,
    ):
        for number in range(20_000):
            client.send(command, b"%06d" % number + b"n" * 1000)
            answer = client.read()
            if answer.kind == "-":
                break
            if number % 100 == 0:
                used(wire)
        assert answer.value == b"OOM command not allowed when used memory > 'maxmemory'."
        client.send("UN" + command if command == "SUBSCRIBE" else command[0] + "UN" + command[1:])
        for _ in range(number):
            assert client.read().kind == ">"
        eventually(lambda: (client.send(command, "x"), client.read())[1].kind == ">")


def test_names_end_with_the_subscriptions(rillet_process):
    """A count that only grows would refuse everything in the end."""
    with rillet_process.wire(3) as client, rillet_process.wire() as wire:
        before = used(wire)
        for _ in range(3):
            for command in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"):
                listen(command)(client)
            client.call("WATCH", *NAMES)
            assert client.call("RESET").value == b"RESET"
            client.call("HELLO", "3")
        eventually(lambda: abs(used(wire) - before) < 10_000)
