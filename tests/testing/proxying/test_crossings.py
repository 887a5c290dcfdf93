"""Everything that can happen to the clients of one proxy, across each other: in random order, with a ledger of each client.

Pipelines, MULTI, HELLO and CLIENT REPLY in the middle, large values that nobody reads yet, faults that begin and end,
partitions, pushes, clients that leave and a server that is killed. Each connection gets its replies in order, up to the
place where a fault or a kill has ended it; nothing runs twice, and what was acknowledged has run.
"""

from __future__ import annotations

import contextlib
import os
from random import Random

import pytest
from support.servers import start_server
from support.wire import ConnectionClosedError, Wire, encode_command

import rillet.testing

CROSSINGS = int(os.environ.get("RILLET_PROXY_CROSSINGS", "4"))
CLIENTS, STEPS, LARGE = 4, 40, 3 << 20
FAULTS = (
    *({"close": "before"}, {"close": "after"}, {"close": "midway"}, {"reply_bytes": 1}, {"error": "OOM"}),
    *({"slow": (1, 0.001)}, {"delay": 0.01}, {"silence": True}),
)


class Client:
    """One client and its ledger.

    Attributes:
        expected: what the replies to come are, in order: a number echoed, an INCR, a transaction …
        sent: how many INCRs it has sent since the beginning, on any connection.
        acked: the last number that an INCR has returned.
    """

    def __init__(self, port, number):
        self.port, self.key = port, f"n{number}"
        self.wire = None
        self.sent = self.acked = self.echoed = 0
        self.connect()

    def connect(self):
        if self.wire is not None:
            self.wire.close()
        self.wire = Wire(self.port)
        self.expected = []

    def burst(self, chance):
        """Send some requests at once, cut anywhere."""
        data = b"".join(self._request(chance) for _ in range(chance.randint(1, 5)))
        cut = chance.randrange(len(data) + 1)
        for part in filter(None, (data[:cut], data[cut:])):
            self.wire.send_raw(part)

    def _request(self, chance):
        incr = encode_command("INCR", self.key)
        match chance.choice(("incr", "incr", "multi", "echo", "hello", "skip", "large")):
            case "incr":
                self.sent += 1
                self.expected.append("incr")
                return incr
            case "multi":
                self.sent += 2
                self.expected += ["ok", "queued", "queued", "exec"]
                return encode_command("MULTI") + incr * 2 + encode_command("EXEC")
            case "echo":
                self.echoed += 1
                self.expected.append(b"%d" % self.echoed)
                return encode_command("ECHO", self.echoed)
            case "hello":
                self.expected.append("hello")
                return encode_command("HELLO", chance.choice((2, 3)))
            case "skip":
                self.sent += 1
                return encode_command("CLIENT", "REPLY", "SKIP") + incr
            case _:
                self.expected.append("large")
                return encode_command("GET", "large")

    def read(self):
        """Read what is expected, up to the end of the connection."""
        while self.expected:
            node = self.wire.read()
            if node.kind == ">":
                assert node.children[0].value == b"MOVING"
            else:
                self._check(self.expected.pop(0), node)

    def _check(self, expected, node):
        match expected:
            case "incr" if node.kind == ":":
                self._count(node)
            case "exec" if node.kind == "*":
                for child in node.children:
                    self._count(child)
            case "incr" | "queued" | "exec" if node.kind == "-":
                assert node.value.startswith((b"OOM", b"EXECABORT")), node
            case "ok":
                assert node.value == b"OK"
            case "queued":
                assert node.value == b"QUEUED"
            case "hello":
                assert node.kind in "*%", node
            case "large":
                assert len(node.value) == LARGE
            case _:
                assert node.value == expected, (expected, node)

    def _count(self, node):
        count = int(node.value)
        assert count > self.acked
        self.acked = count


class Scene:
    """A proxy, its clients and what happens to them."""

    def __init__(self, proxy, real, chance):
        self.proxy, self.real, self.chance = proxy, real, chance
        self.faults = []
        self.clients = [Client(proxy.port, number) for number in range(CLIENTS)]

    def step(self):
        chance, client = self.chance, self.chance.choice(self.clients)
        match chance.choice(
            ("burst",) * 6 + ("fault", "fault", "end", "partition", "heal", "push", "leave", "read")
        ):
            case "burst":
                with contextlib.suppress(ConnectionError):
                    client.burst(chance)
            case "fault":
                limits = chance.choice(({"first": 1}, {"nth": 2}, {"command": "EXEC"}, {"command": "INCR"}))
                self.faults.append(
                    self.proxy.fault(key=client.key, **limits, **chance.choice(FAULTS)).start()
                )
            case "end" if self.faults:
                self.faults.pop(chance.randrange(len(self.faults))).stop()
            case "partition":
                self.proxy.partition()
            case "heal":
                self.proxy.heal()
            case "push":
                self.proxy.push("MOVING", 1, 15, "")
            case "leave":
                client.connect()
            case "read" if not self.proxy._listener.is_parted and not self.faults:
                self.read(client)

    def read(self, client):
        """Read all that a client is owed; one whose connection has ended connects again."""
        try:
            client.read()
        except (ConnectionClosedError, ConnectionError):
            client.connect()

    def settle(self):
        """End all that goes on, and compare with what the server holds."""
        self.proxy.heal()
        for fault in self.faults:
            fault.stop()
        for client in self.clients:
            self.read(client)
            client.connect()  # nothing of it is under way any more
            held = int(self.proxy._command(b"GET", client.key.encode()) or 0)
            assert client.acked <= held <= client.sent, client.key

    def close(self):
        for client in self.clients:
            client.wire.close()


@pytest.mark.parametrize("kills", [False, True])
def test_whatever_crosses_each_client_gets_its_own_replies_in_order(kills):
    with start_server("redis810", "--appendonly", "yes", "--appendfsync", "always") as real:
        for seed in range(CROSSINGS // 4 if kills else CROSSINGS):
            with real.wire() as wire:
                wire.call("FLUSHALL")
                wire.call("SETRANGE", "large", LARGE - 1, "x")
            chance = Random(seed)
            with (
                rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}") as proxy,
                contextlib.closing(Scene(proxy, real, chance)) as scene,
            ):
                killed = chance.randrange(STEPS) if kills else -1
                for number in range(STEPS):
                    scene.step()
                    if number == killed:
                        real._process.kill()
                        real._process.wait()
                        real.start(real.port)
                try:
                    scene.settle()
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}") from error
