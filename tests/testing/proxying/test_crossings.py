"""Everything that can happen to the clients of one proxy, across each other: in random order, with a ledger of each client.

Pipelines, MULTI, HELLO, RESET, AUTH and CLIENT REPLY in the middle, commands that wait, subscriptions, MONITOR and
invalidations, large values that nobody reads yet, faults that begin and end, partitions, pushes, clients that leave and a
server that is killed. Each connection gets its replies in order, up to the place where a fault or a kill has ended it;
nothing runs twice, what was acknowledged has run, and the proxy knows what the client has subscribed to.
"""

import contextlib
import os
import re
from collections import deque
from dataclasses import dataclass
from random import Random

import pytest
from support.servers import start_server
from support.wire import ConnectionClosedError, Wire, encode_command

import rillet.testing

CROSSINGS = int(os.environ.get("RILLET_PROXY_CROSSINGS", "4"))
STEPS, LARGE = 40, 3 << 20
PLAIN = "incr incr multi echo skip off large block rpush publish publish auth".split()
SUBSCRIBING = (
    "subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe unsubscribe-all ping".split()
)
# 8.10.2 does not answer a wrong password behind replies and messages: only PING behind it tells whose an OK is.
ROLES = {  # what clients of each kind begin with, and what they send then
    "plain": ((), [*PLAIN, "hello", "reset"]),
    "monitor": ((("MONITOR",),), "incr echo skip off publish hello reset".split()),  # not near keys
    "RESP2 subscriber": ((), [*SUBSCRIBING, "reset"]),
    "RESP3 subscriber": ((("HELLO", 3),), [*PLAIN[:-1], *SUBSCRIBING, "subscribe-off", "reset"]),
    "cache": ((("HELLO", 3), ("CLIENT", "TRACKING", "ON")), [*PLAIN, "get", "get", "reset"]),
}
# What a fault may hit. The ledgers would have to guess what follows an error that CLIENT REPLY, MONITOR or RESET gets.
HIT = "INCR EXEC MULTI ECHO PING GET HELLO SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE BLPOP PUBLISH".split()
FAULTS = (
    *({"close": "before"}, {"close": "after"}, {"close": "midway"}, {"reply_bytes": 1}, {"error": "OOM"}),
    *({"slow": (1, 0.001)}, {"delay": 0.01}, {"silence": True}),
)
REFUSED = (b"OOM", b"EXECABORT", b"ERR EXEC without MULTI", b"ERR Replica can't interact")
LINE_OF_MONITOR = re.compile(rb"(\d+\.\d{6}) \[").match


@dataclass
class Expected:
    """A reply to come.

    Attributes:
        what: the kind of request.
        value: what it answers, if that is certain.
        count: how many confirmations are missing; None: as many as there are subscriptions.
        is_unsure: it may be missing.
    """

    what: str
    value: bytes = b""
    count: int | None = 1
    is_unsure: bool = False


class Client:
    """One client and its ledger.

    Attributes:
        expected: the replies to come, in order.
        channels: its subscriptions, of each kind, as the server has confirmed them.
        sent: how many INCRs it has sent since the beginning, on any connection.
        acked: the last number that an INCR has returned.
    """

    def __init__(self, scene, number, role):
        self.scene, self.key, self.name = scene, f"n{number}", f"c{number}"
        self.first, self.asks = ROLES[role]
        self.wire = None
        self.sent = self.acked = self.echoed = self.connections = 0
        self.published = {}  # the last number of each publisher that came by each subscription
        self.connect()

    def connect(self):
        if self.wire is not None:
            self.wire.close()
        self.wire = Wire(self.scene.proxy.port)
        self.connections += 1  # what an earlier one has sent may run later
        self.expected = deque()
        self.channels = {"": set(), "p": set(), "s": set()}
        self.read_at = 0.0
        with contextlib.suppress(ConnectionError):  # a server that was killed
            self.wire.send_raw(self._greeting())

    def _greeting(self):
        words = [("CLIENT", "SETNAME", self.name), *self.first]
        self.expected += [Expected("hello" if each[0] == "HELLO" else "ok") for each in words]
        return b"".join(encode_command(*each) for each in words)

    def burst(self, chance):
        """Send some requests at once, cut anywhere."""
        data = b"".join(self._request(chance.choice(self.asks), chance) for _ in range(chance.randint(1, 5)))
        cut = chance.randrange(len(data) + 1)
        for part in filter(None, (data[:cut], data[cut:])):
            self.wire.send_raw(part)

    def _ask(self, *words, what, **expected):
        self.expected.append(Expected(what, **expected))
        return encode_command(*words)

    def _request(self, what, chance):
        if what == "ping":
            self.echoed += 1
            return self._ask("PING", self.echoed, what="ping", value=b"%d" % self.echoed)
        others = [f"n{number}" for number in range(len(ROLES))]
        match what:
            case "incr":
                self.sent += 1
                return self._ask("INCR", self.key, what="incr")
            case "multi":
                self.sent += 2
                begin = self._ask("MULTI", what="ok")
                queued = b"".join(self._ask("INCR", self.key, what="queued") for _ in range(2))
                return begin + queued + self._ask("EXEC", what="exec")
            case "echo":
                self.echoed += 1
                return self._ask("ECHO", self.echoed, what="echo", value=b"%d" % self.echoed)
            case "hello":
                return self._ask("HELLO", chance.choice((2, 3)), what="hello")
            case "reset":
                return self._ask("RESET", what="reset") + self._greeting()
            case "auth":
                login = self._ask("AUTH", "bob", "wrong", what="auth", is_unsure=True)
                return login + self._request("ping", chance)
            case "skip":
                self.sent += 1
                return encode_command("CLIENT", "REPLY", "SKIP") + encode_command("INCR", self.key)
            case "off":
                self.sent += 1
                silent = encode_command("CLIENT", "REPLY", "OFF") + encode_command("INCR", self.key)
                return silent + self._ask("CLIENT", "REPLY", "ON", what="ok")
            case "subscribe-off":
                silent = encode_command("CLIENT", "REPLY", "OFF")
                silent += self._ask(
                    "SUBSCRIBE", self.key, what="subscribe", value=self.key.encode(), is_unsure=True
                )
                return silent + self._ask("CLIENT", "REPLY", "ON", what="ok")
            case "block":
                return self._ask("BLPOP", "jobs", 0.01, what="block")
            case "rpush":
                return self._ask("RPUSH", "jobs", self.scene.next(), what="number")
            case "publish":
                return self._ask(
                    "PUBLISH", self.key, f"{self.name}.{self.connections} {self.scene.next()}", what="number"
                )
            case "get":
                return self._ask("GET", chance.choice(others), what="get")
            case "large":
                return self._ask("GET", "large", what="large")
            case "unsubscribe-all":
                kind = chance.choice(("", "p", "s"))
                return self._ask(f"{kind}unsubscribe", what=f"{kind}unsubscribe", count=None)
            case _:
                channels = chance.sample(others, chance.randint(1, 3))
                return self._ask(what, *channels, what=what, count=len(channels))

    def read(self):
        """Read what is expected, up to the end of the connection."""
        self.wire.send_raw(self._request("ping", None))  # behind replies that may be missing
        while self.expected:
            node = self.wire.read()
            if not self._is_message(node):
                self._take(node)

    def _is_message(self, node):
        """Return True for what belongs to no request."""
        if (line := LINE_OF_MONITOR(node.value)) and node.kind == "+":
            assert float(line[1]) >= self.read_at
            self.read_at = float(line[1])
            return True
        if not node.children or node.kind not in "*>":
            return False
        first, *rest = [each.value for each in node.children]
        if first in {b"message", b"pmessage"}:
            publisher, number = rest[-1].split()
            heard = first, rest[0], rest[-2], publisher
            assert int(number) > self.published.get(heard, 0), heard
            self.published[heard] = int(number)
            return True
        return node.kind == ">" and first in {b"MOVING", b"invalidate"}

    def _take(self, node):
        expected = self.expected[0]
        if expected.is_unsure and not self._fits(expected, node):
            self.expected.popleft()
            return self._take(node)
        if not (expected.what.endswith("subscribe") and node.kind in "*>"):
            self.expected.popleft()
            self._check(expected, node)
            return None
        self._confirm(expected, node)
        if not expected.count:
            self.expected.popleft()
        return None

    @staticmethod
    def _fits(expected, node):
        if expected.what == "auth":
            return node.value.startswith(b"WRONGPASS")
        return node.kind == ">" and [each.value for each in node.children[:2]] == [
            b"subscribe",
            expected.value,
        ]

    def _confirm(self, expected, node):
        what, channel, _ = node.children
        assert what.value.decode() == expected.what
        kind = expected.what.removesuffix("subscribe").removesuffix("un")
        if expected.count is None:
            expected.count = max(1, len(self.channels[kind]))
        expected.count -= 1
        if "un" in expected.what:
            self.channels[kind].discard(channel.value)
        else:
            self.channels[kind].add(channel.value)

    def _check(self, expected, node):
        if node.kind == "-":
            assert node.value.startswith(b"WRONGPASS" if expected.what == "auth" else REFUSED), (
                expected,
                node,
            )
            return
        match expected.what:
            case "incr" | "queued" if node.kind == ":":  # of a MULTI that was refused
                self._count(node)
            case "exec":
                assert node.kind == "*"
                for child in node.children:
                    self._count(child)
            case "ok" | "queued" | "reset":
                assert node.value == {"ok": b"OK", "queued": b"QUEUED", "reset": b"RESET"}[expected.what]
                if expected.what == "reset":
                    self.channels = {"": set(), "p": set(), "s": set()}
            case "hello":
                assert node.kind in "*%", node
            case "large":
                assert len(node.value) == LARGE
            case "number":
                assert node.kind == ":"
            case "get":
                assert node.is_null or int(node.value) >= 0
            case "block":
                if not node.is_null:
                    jobs, job = (each.value for each in node.children)
                    assert jobs == b"jobs"
                    assert job not in self.scene.popped
                    self.scene.popped.add(job)
            case "ping" if node.children:
                assert node.children[-1].value == expected.value
            case _:
                assert node.value == expected.value, (expected, node)

    def _count(self, node):
        count = int(node.value)
        assert count > self.acked
        self.acked = count


class Scene:
    """A proxy, its clients and what happens to them."""

    def __init__(self, proxy, real, chance):
        self.proxy, self.real, self.chance = proxy, real, chance
        self.faults = []
        self.numbers = 0
        self.popped = set()
        self.clients = [Client(self, number, role) for number, role in enumerate(ROLES)]

    def next(self):
        self.numbers += 1
        return self.numbers

    def step(self):
        chance, client = self.chance, self.chance.choice(self.clients)
        match chance.choice(
            ("burst",) * 6 + ("fault", "fault", "end", "partition", "heal", "push", "leave", "read", "read")
        ):
            case "burst":
                with contextlib.suppress(ConnectionError):
                    client.burst(chance)
            case "fault":
                which = chance.choice(
                    ({"key": client.key}, {"client": client.name, "command": chance.choice(HIT)})
                )
                limits = chance.choice(({"first": 1}, {"nth": 2}, {}))
                self.faults.append(self.proxy.fault(**which, **limits, **chance.choice(FAULTS)).start())
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
        else:
            self.proxy._run(lambda listener: self._compare(listener, client))

    def _compare(self, listener, client):
        """What the proxy knows of a client that has read all is what the client knows."""
        for link in listener._links:
            link.count()
            if link.transport.get_extra_info("peername") == client.wire._socket.getsockname():
                assert link._matches
                assert not [each for each in link._unanswered if each is None or not each.is_unsure]
                assert link.session._channels == client.channels
                assert link.session.monitors == (("MONITOR",) in client.first)

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
            with contextlib.ExitStack() as stack:
                proxy = stack.enter_context(rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}"))
                if seed % 4 == 3:  # a chain
                    proxy = stack.enter_context(rillet.testing.Proxy(proxy.url))
                killed = chance.randrange(STEPS) if kills else -1
                try:
                    scene = stack.enter_context(contextlib.closing(Scene(proxy, real, chance)))
                    for number in range(STEPS):
                        scene.step()
                        if number == killed:
                            real._process.kill()
                            real._process.wait()
                            real.start(real.port)
                    scene.settle()
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"seed {seed}") from error
