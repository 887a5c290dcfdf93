"""Faults of commands that wait: the look counts that is taken when the reply is due, whenever the fault began."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from support.live import LiveServer, eventually
from support.wire import Wire, commands, encode_command

SECOND = 1000


@dataclass
class Poll:
    """A command that waits for a second.

    Attributes:
        words: the command.
        feed: gives it something.
        left: says whether something of that is left.
        is_poll: its wait can end without anything.
    """

    words: tuple[object, ...]
    feed: tuple[object, ...] = ()
    left: tuple[object, ...] = ()
    is_poll: bool = True


LIST = ("LPUSH", "k", "x"), ("LLEN", "k")
ZSET = ("ZADD", "k", 1, "x"), ("ZCARD", "k")
STREAM = ("XADD", "k", "*", "f", "v"), ()
UNREAD = """
local group = redis.call("XINFO", "GROUPS", "k")[1]
local last = redis.call("XREVRANGE", "k", "+", "-", "COUNT", 1)[1]
return (not last or group[8] == last[1]) and 0 or 1
"""
GROUP = STREAM[0], ("EVAL", UNREAD, 0)
POLLS = {
    "BLPOP": Poll(("BLPOP", "other", "k", 1), *LIST),
    "BRPOP": Poll(("BRPOP", "k", 1), *LIST),
    "BLMOVE": Poll(("BLMOVE", "k", "to", "LEFT", "LEFT", 1), *LIST),
    "BRPOPLPUSH": Poll(("BRPOPLPUSH", "k", "to", 1), *LIST),
    "BLMPOP": Poll(("BLMPOP", 1, 2, "other", "k", "LEFT"), *LIST),
    "BZPOPMIN": Poll(("BZPOPMIN", "k", 1), *ZSET),
    "BZPOPMAX": Poll(("BZPOPMAX", "k", 1), *ZSET),
    "BZMPOP": Poll(("BZMPOP", 1, 1, "k", "MIN"), *ZSET),
    "XREAD": Poll(("XREAD", "BLOCK", SECOND, "STREAMS", "k", "other", "$", 0), *STREAM),
    "XREADGROUP": Poll(("XREADGROUP", "GROUP", "g", "a", "BLOCK", SECOND, "STREAMS", "k", ">"), *GROUP),
    "XREADGROUP CLAIM": Poll(
        ("XREADGROUP", "GROUP", "g", "a", "BLOCK", SECOND, "CLAIM", 3_600_000, "STREAMS", "k", ">"), *GROUP
    ),
    "WAIT": Poll(("WAIT", 1, SECOND), is_poll=False),
    "WAITAOF": Poll(("WAITAOF", 0, 1, SECOND), is_poll=False),
}
EFFECTS: list[dict[str, Any]] = [
    *({"error": "LOADING"}, {"close": "before"}, {"close": "after"}, {"close": "midway"}, {"reply_bytes": 3}),
    *({"slow": (3, 0.001)}, {"error": "OOM", "slow": (9, 0.001)}),
    *({"clock_delay": 10}, {"clock_delay": 10, "close": "after"}, {"clock_delay": 10, "error": "OOM"}),
]
COUNTERS: list[dict[str, Any]] = [
    *({}, {"first": 1}, {"nth": 1}, {"nth": 2}, {"every": 2}, {"probability": 1}),
    *({"first": 1, "empty": True}, {"nth": 2, "empty": True}),
]
# Each effect, and each counter with one effect that ends the command before it runs, one that delays it, one that does neither.
FAULTS = [*((effect, {}) for effect in EFFECTS), *product((EFFECTS[0], EFFECTS[2], EFFECTS[7]), COUNTERS[1:])]


@dataclass
class Rules:
    """What docs/testing/faults.md says, for one fault and one command at a time."""

    effect: dict[str, Any]
    counter: dict[str, Any]
    fitted: int = 0
    hit: int = 0

    def counts(self) -> bool:
        self.fitted += 1
        is_hit = self._hits(self.fitted)
        self.hit += is_hit
        return is_hit

    def _hits(self, number: int) -> bool:
        if "first" in self.counter:
            return number <= self.counter["first"]
        if "nth" in self.counter:
            return number == self.counter["nth"]
        return "every" not in self.counter or number % self.counter["every"] == 0

    @property
    def delays(self) -> bool:
        return "clock_delay" in self.effect

    @property
    def ends_before(self) -> bool:
        return "error" in self.effect or self.effect.get("close") == "before"

    def hits_sent(self) -> bool:
        """Whether it hits a command that is sent while it is on, and would have to wait."""
        acts = self.delays or self.ends_before
        return acts and self._hits(self.fitted + 1) and self.counts()

    def hits_reply(self, *, is_empty: bool) -> bool:
        """Whether it hits the end of a wait."""
        passes = is_empty and not self.counter.keys().isdisjoint({"first", "nth", "every"})
        if passes and not self.counter.get("empty"):
            return False
        return self.counts()


@dataclass
class Stage:
    """A server with a standing clock, a worker that polls, and somebody who feeds it."""

    server: LiveServer
    poll: Poll
    other: Wire
    worker: Wire | None = None
    fed: int = 0
    problems: list[str] = field(default_factory=list)

    def connect(self) -> Wire:
        if self.worker is None:
            self.worker = self.server.wire()
        return self.worker

    def disconnect(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def feed(self) -> None:
        if self.poll.feed:
            self.other.call(*self.poll.feed)

    def is_taken(self) -> bool:
        """Whether nothing is left for the next poll; what is left is removed."""
        if not self.poll.left:
            return True
        left = self.other.call(*self.poll.left)
        if self.poll.feed[0] == "XADD":
            self.other.call("XGROUP", "SETID", "k", "g", "$")
        else:
            self.other.call("DEL", "k")
        return not left.plain()


@pytest.fixture(scope="module")
def live():
    with LiveServer() as server:
        yield server


@pytest.fixture
def stage(live):
    live.reset()
    live.clock.freeze()
    with live.wire() as other:
        other.call("XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")

        def make(name: str) -> Stage:
            if POLLS[name].feed[:1] != ("XADD",):
                other.call("DEL", "k")
            return Stage(live, POLLS[name], other)

        yield make


@pytest.mark.parametrize("name", POLLS)
@pytest.mark.parametrize("ends", [("data", "data"), ("empty", "data")], ids="-".join)
@pytest.mark.parametrize("begins", ["before the wait", "in the wait"])
def test_the_rules_of_the_page_hold_for_each_wait(stage, name, ends, begins):
    for effect, counter in FAULTS:
        scene = stage(name)
        rules = Rules(effect, counter)
        fault = scene.server.fault(command=name.split()[0], **effect, **counter)
        where = f"{name} {effect} {counter}"
        if begins == "before the wait":
            fault.start()
        for number, end in enumerate(ends):
            wire = scene.connect()
            wire.send(*scene.poll.words)
            is_on = begins == "before the wait" or number > 0
            owned = is_on and rules.hits_sent()
            if owned and rules.delays:
                eventually(lambda fault=fault, rules=rules: fault.count == rules.hit)
                assert wire.pending() == b"", where
                scene.server.clock.advance(seconds=10)
            if owned and rules.ends_before:
                check_end(scene, wire, effect, b"", where, ran=False)
                continue
            scene.server.wait_for_blocked(1)
            if not is_on:
                fault.start()
            is_empty = end == "empty" and scene.poll.is_poll
            hit = owned or rules.hits_reply(is_empty=is_empty)
            if end == "data" and scene.poll.feed:
                scene.feed()
            else:
                scene.server.clock.advance(seconds=1.5)
            if hit and rules.delays and not owned:
                assert wire.pending() == b"", where
                scene.server.clock.advance(seconds=10)
            reply = b"*-1\r\n" if is_empty else None
            if hit:
                check_end(scene, wire, effect, reply, where, ran=not rules.ends_before)
            else:
                arrived = wire.read()
                assert arrived.is_null == is_empty, where
                assert is_empty or arrived.kind != "-", where
                assert scene.is_taken(), where
        assert (fault.fitted, fault.count) == (rules.fitted, rules.hit), where
        fault.stop()
        scene.disconnect()


def check_end(
    scene: Stage, wire: Wire, effect: dict[str, Any], reply: bytes | None, where: str, *, ran: bool
) -> None:
    """Check what a client sees of a command that is hit, and whether it has taken what was for it."""
    if "error" in effect:
        assert wire.read().value.startswith(effect["error"].encode()), where
    elif "close" in effect or "reply_bytes" in effect:
        rest = wire.rest()
        if effect.get("close") in {"before", "after"}:
            assert rest == b"", where
        elif reply is not None:
            assert rest == reply[: effect.get("reply_bytes", len(reply) // 2)], where
        else:
            assert rest, where
        scene.disconnect()
    else:
        assert wire.read().kind != "-", where
    if reply is None:
        assert scene.is_taken() == ran or not scene.poll.left, where


# Whom it names


@pytest.mark.parametrize("effect", [{"close": "after"}, {"close": "before"}, {"error": "LOADING"}])
def test_a_delivery_to_another_client_or_of_another_key_is_not_hit(server, wire, other, effect):
    wire.call("CLIENT", "SETNAME", "worker")
    for key in ("jobs", "mails"):
        wire.call("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
    for which, key in (({"client": "nobody"}, "jobs"), ({"key": "jobs"}, "mails")):
        server.block(wire, "XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", key, ">")
        with server.fault(command="XREADGROUP", **which, **effect) as fault:
            other.call("XADD", key, "1-1", "f", "v")
            assert wire.read().plain() == [[key.encode(), [[b"1-1", [b"f", b"v"]]]]]
        assert fault.count == 0
    server.block(wire, "XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "jobs", ">")
    with server.fault(command="XREADGROUP", client="worker", key="jobs", **effect) as fault:
        other.call("XADD", "jobs", "2-1", "f", "v")
        eventually(lambda: fault.count == 1)
    assert [(hit.client, hit.key) for hit in fault.hits] == [("worker", "jobs")]


@pytest.mark.parametrize(
    ("effect", "delivered"), [({"close": "before"}, 1), ({"error": "OOM"}, 1), ({"close": "after"}, 0)]
)
def test_the_next_in_the_queue_gets_what_was_not_taken(server, wire, other, effect, delivered):
    with server.wire() as second:
        for each in (wire, second):
            server.block(each, "BLPOP", "k", 0)
        with server.fault(command="BLPOP", first=1, **effect):
            other.call("LPUSH", "k", "x")
            if delivered:
                assert second.read().plain() == [b"k", b"x"]
            else:
                assert wire.rest() == b""
                assert second.pending() == b""


@pytest.mark.parametrize("claim", [(), ("CLAIM", 3_600_000)])
@pytest.mark.parametrize("compat", ["7.0", "8.10"])
def test_a_client_that_is_woken_for_nothing_is_not_hit(claim, compat):
    if claim and compat == "7.0":
        return  # it has no CLAIM
    with LiveServer(compat_version=compat) as server, server.wire() as first, server.wire() as second:
        first.call("XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
        with server.wire() as other:
            for each in (first, second):
                server.block(each, "XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, *claim, "STREAMS", "k", ">")
            with server.fault(command="XREADGROUP", nth=2, error="OOM") as fault:
                other.call("XADD", "k", "1-1", "f", "v")
                assert first.read().kind == "*"
                assert second.pending() == b""
                assert fault.fitted == 1
                other.call("XADD", "k", "1-2", "f", "v")
                assert second.read().value.startswith(b"OOM")


def test_the_end_of_a_group_is_hit_as_well(server, wire, other):
    wire.call("XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
    server.block(wire, "XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "k", ">")
    with server.fault(command="XREADGROUP", nth=1, close="after"):
        other.call("DEL", "k")
        assert wire.rest() == b""


@pytest.mark.parametrize("how", ["exec", "script", "pipeline"])
def test_a_transaction_a_script_and_a_pipeline_wake_as_a_command_does(server, wire, other, how):
    wire.send_raw(b"".join(encode_command(*each) for each in commands("BLPOP k 0; MULTI; GET n; EXEC")))
    server.wait_for_blocked(1)
    with server.fault(command="BLPOP", error="OOM", first=1) as fault:
        if how == "script":
            other.call("EVAL", "return redis.call('LPUSH', 'k', 'x')", 0)
        else:
            around = ("MULTI", "EXEC") if how == "exec" else ("PING", "PING")
            words = [around[:1], ("LPUSH", "k", "x"), ("INCR", "n"), around[1:]]
            other.send_raw(b"".join(encode_command(*each) for each in words))
        assert wire.read().value.startswith(b"OOM")
        # What stood behind it runs as usual.
        assert [wire.read().plain() for _ in range(2)] == [b"OK", b"QUEUED"]
        assert wire.read().kind == "*"
        assert fault.count == 1
    assert other.call("LLEN", "k").kind in {"+", "$", ":", "*"}


@pytest.mark.parametrize(("reason", "hit"), [("TIMEOUT", False), ("ERROR", True)])
def test_client_unblock_counts_only_with_an_error(server, wire, other, reason, hit):
    number = wire.call("CLIENT", "ID").plain()
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", first=1, error="OOM") as fault:
        other.call("CLIENT", "UNBLOCK", number, reason)
        assert wire.read().is_null != hit
        assert fault.count == hit


def test_wait_is_hit_when_a_replica_answers(server, wire):
    with LiveServer() as replica, replica.wire() as there:
        there.call("REPLICAOF", "127.0.0.1", server.port)
        eventually(lambda: server.inside.replication.replicas.online)
        for name, words in (("WAIT", ("WAIT", 2, 0)), ("WAITAOF", ("WAITAOF", 0, 2, 0))):
            wire.call("SET", "a", name)
            number = wire.call("CLIENT", "ID").plain()
            server.block(wire, *words)
            with server.fault(command=name, first=1, error="OOM") as fault, server.wire() as other:
                other.call("CLIENT", "UNBLOCK", number)
                assert wire.read().value.startswith(b"OOM")
                assert fault.count == 1


# Delays


def test_what_a_delay_holds_back_others_may_take(server, wire, other):
    server.clock.freeze()
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", first=1, clock_delay=10) as fault:
        other.call("LPUSH", "k", "x")
        eventually(lambda: fault.count == 1)
        assert other.call("LPOP", "k").plain() == b"x"
        server.clock.advance(seconds=10)
        assert wire.pending() == b""  # it goes on to wait
        other.call("LPUSH", "k", "y")
        assert wire.read().plain() == [b"k", b"y"]
        assert (fault.count, fault.fitted) == (1, 1)


def test_the_end_of_a_fault_lets_a_delayed_delivery_go(server, wire, other):
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", clock_delay=3600, close="after") as fault:
        other.call("LPUSH", "k", "x")
        eventually(lambda: fault.count == 1)
        assert wire.pending() == b""
    assert wire.read().plain() == [b"k", b"x"]


def test_a_client_that_leaves_while_its_delivery_is_delayed_takes_nothing(server, wire, other):
    server.clock.freeze()
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", clock_delay=10) as fault:
        other.call("LPUSH", "k", "x")
        eventually(lambda: fault.count == 1)
        wire.close()
        eventually(lambda: not server.inside.debugging.faults._delays._waits)
        server.clock.advance(seconds=20)
    assert other.call("LLEN", "k").plain() == 1


def test_client_unblock_ends_a_delayed_wait_at_once(server, wire, other):
    server.clock.freeze()
    number = wire.call("CLIENT", "ID").plain()
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", clock_delay=10) as fault:
        other.call("LPUSH", "k", "x")
        eventually(lambda: fault.count == 1)
        assert other.call("CLIENT", "UNBLOCK", number).plain() == 1
        assert wire.read().is_null
        server.clock.advance(seconds=20)
        assert wire.call("PING").plain() == b"PONG"


def test_the_clock_skips_to_the_end_of_a_delayed_delivery(server, wire, other):
    server.clock.freeze()
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", clock_delay=10) as fault:
        other.call("LPUSH", "k", "x")
        eventually(lambda: fault.count == 1)
        before = server.clock.now
        assert server.clock.skip() - before == 10_000
        assert wire.read().plain() == [b"k", b"x"]


def test_a_delay_in_real_time_ends_by_itself(server, wire, other):
    server.block(wire, "BLPOP", "k", 0)
    with server.fault(command="BLPOP", delay=0.01) as fault:
        other.call("LPUSH", "k", "x")
        assert wire.read().plain() == [b"k", b"x"]
        assert fault.count == 1


# What else waits


def test_a_fault_that_begins_while_a_pause_holds_a_command_hits_it(server, wire, other):
    with server.fault(command="GET", error="ONE a") as first:
        other.call("CLIENT", "PAUSE", 100_000, "WRITE")
        wire.send("SET", "a", 1)
        eventually(lambda: server.inside.pause.postponed)
        with server.fault(command="SET", error="TWO b"):
            other.call("CLIENT", "UNPAUSE")
            assert wire.read().value == b"TWO b"
        assert first.count == 0


@pytest.mark.parametrize("effect", [{"close": "before"}, {"close": "after"}, {"error": "OOM"}])
def test_a_recording_names_the_fault_that_hit_a_wait(server, wire, other, effect):
    with server.recording() as seen:
        server.block(wire, "BLPOP", "k", 0)
        with server.fault(command="BLPOP", **effect) as fault:
            other.call("LPUSH", "k", "x")
            eventually(lambda: fault.count == 1)
        [command] = [each for each in seen if each.is_a("BLPOP")]
    assert command.fault == fault.id
    assert command.reply == (["k", "x"] if effect == {"close": "after"} else None) or command.error


def test_a_wait_does_not_use_up_the_draws_of_a_probability(server, wire, other):
    """As many deliveries are hit, and the same ones, whether the worker waits for each or not."""
    wire.call("CLIENT", "SETNAME", "worker")

    def hits(*, waits: bool) -> list[bool]:
        found = []
        for number in range(20):
            if waits:
                server.block(wire, "BLPOP", "k", 0)
            other.call("LPUSH", "k", number)
            if not waits:
                wire.send("BLPOP", "k", 0)
            found.append(wire.read().plain() == [b"k", b"%d" % number])
            other.call("DEL", "k")
        return found

    options = {"command": "BLPOP", "client": "worker", "probability": 0.5, "seed": 3, "slow": (1, 0.001)}
    with server.fault(**options) as fault:
        hits(waits=False)
        without = [hit.time for hit in fault.hits], fault.count
    with server.fault(**options) as fault:
        hits(waits=True)
        assert fault.count == without[1]
