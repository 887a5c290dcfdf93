"""A consumer that delivers at least once, under random faults: nothing is lost, every second delivery is explained."""

import itertools

import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.live import LiveServer
from support.thorough import examples

IDLE = 60_000
COMMANDS = ("XREADGROUP", "XACK", "XAUTOCLAIM")
effects = st.sampled_from(
    [
        *({"close": "before"}, {"close": "after"}, {"close": "midway"}, {"reply_bytes": 3}),
        *({"error": "LOADING"}, {"error": "READONLY"}),
    ]
)
limits = st.one_of(
    st.integers(1, 4).map(lambda number: {"nth": number}),
    st.integers(1, 3).map(lambda number: {"every": number}),
    st.tuples(st.sampled_from([0.3, 0.7]), st.integers(0, 9)).map(
        lambda pair: {"probability": pair[0], "seed": pair[1]}
    ),
)


class Consumer:
    """Reads, does the work, acknowledges; after an error it begins again, and first claims what others left."""

    def __init__(self, server: LiveServer, name: str) -> None:
        self.name = name
        self.client = server.client(client_name=name, decode_responses=True, protocol=2, retry=None)

    def take(self, key: str) -> list[str]:
        _, claimed, *_ = self.client.xautoclaim(key, "g", self.name, IDLE)
        if claimed:
            return [entry for entry, _ in claimed]
        read = self.client.xreadgroup("g", self.name, {key: ">"}, count=2)
        return [entry for _, entries in read for entry, _ in entries]


class AtLeastOnce(RuleBasedStateMachine):
    server: LiveServer
    keys = itertools.count()

    @initialize(number=st.integers(1, 4), effect=effects, limit=limits)
    def begin(self, number, effect, limit) -> None:
        self.key = f"orders-{next(self.keys)}"
        self.added: list[str] = []
        self.worked: list[tuple[str, int]] = []  # the entry, and how many commands were recorded before
        self.faults = []
        self.server.clock.freeze()
        self.producer = self.server.client(decode_responses=True)
        self.producer.xgroup_create(self.key, "g", "0", mkstream=True)
        self.consumers = [Consumer(self.server, name) for name in ("Bob", "Alice")]
        self.seen = self.server.recording().start()
        self.add(number)
        self.fail("XACK", effect, limit)

    @rule(number=st.integers(1, 4))
    def add(self, number) -> None:
        self.added += [self.producer.xadd(self.key, {"f": "v"}) for _ in range(number)]

    @rule(turns=st.lists(st.integers(0, 1), min_size=1, max_size=6), wait=st.booleans())
    def go_on(self, turns, wait) -> None:
        for who in turns:
            self.work(who)
        if wait:
            self.wait()

    def work(self, who: int) -> None:
        consumer = self.consumers[who]
        try:
            for entry in consumer.take(self.key):
                self.worked.append((entry, self.seen[-1].number))
                consumer.client.xack(self.key, "g", entry)
        except redis.RedisError:
            pass  # it starts again at the next call

    def wait(self) -> None:
        self.server.clock.advance(milliseconds=IDLE)

    @precondition(lambda self: len(self.faults) < 3)
    @rule(command=st.sampled_from(COMMANDS), effect=effects, limit=limits)
    def fail(self, command, effect, limit) -> None:
        self.faults.append(self.server.fault(command=command, key=self.key, **effect, **limit).start())

    @precondition(lambda self: self.faults)
    @rule()
    def heal(self) -> None:
        self.faults.pop(0).stop()

    def teardown(self) -> None:
        if not hasattr(self, "seen"):
            return
        for fault in self.faults:
            fault.stop()
        self.wait()
        before = -1
        while before != len(self.worked):
            before = len(self.worked)
            self.work(0)
        self.seen.stop()
        left = self.producer.xpending(self.key, "g")["pending"]
        self.producer.close()
        for consumer in self.consumers:
            consumer.client.close()
        self.server.clock.resume()
        assert left == 0
        assert {entry for entry, _ in self.worked} == set(self.added), "an entry is lost"
        self.explain()

    def explain(self) -> None:
        """Between two deliveries of an entry its XACK was sent, and a fault kept it from running."""
        for entry in self.added:
            times = [number for worked, number in self.worked if worked == entry]
            for first, second in itertools.pairwise(times):
                [ack] = [
                    each
                    for each in self.seen.of(command="XACK", key=self.key)
                    if first < each.number <= second and entry in each.words
                ]
                assert ack.fault is not None, str(self.seen)
                assert ack.reply is None, f"it was acknowledged, and delivered again:\n{self.seen}"


def test_nothing_is_lost_and_every_second_delivery_is_explained():
    with LiveServer() as server:
        AtLeastOnce.server = server
        run_state_machine_as_test(
            AtLeastOnce, settings=settings(max_examples=examples(25), stateful_step_count=25)
        )
