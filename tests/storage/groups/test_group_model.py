"""The PEL against a slow model: a dict from ID to consumer, time and count, in the order of the changes."""

from collections import deque
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.invariants import check_invariants
from support.streams.pending import acknowledge, idle_ids, move, pending_ids
from support.thorough import examples

from rillet.storage.groups import pending
from rillet.storage.groups.consumer import Consumer
from rillet.storage.groups.group import Group
from rillet.storage.groups.pending import UNOWNED_MS
from rillet.storage.streams.chunk import ids_in, texts_in
from rillet.storage.streams.cold_chunks import ChunkCache
from rillet.storage.streams.ids import MAX_ID, encode
from rillet.storage.streams.iteration import ids_from
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim

NAMES = st.sampled_from([b"a", b"b", b"c"])
# Packed columns have one byte for a sequence of up to 255.
FIRST = 236
SMALL = st.integers(FIRST, FIRST + 40)
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


class PelMachine(RuleBasedStateMachine):
    """All ways in which entries come, move and go; thresholds are made tiny so that they all matter."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, tuple[bytes, int, int]] = {}  # what changed last stands last
        self.names: set[bytes] = set()
        self.later: list[Callable[[], bool]] = []  # jobs that were begun, however far they came
        self.now = 1000
        self.patch = pytest.MonkeyPatch()

    @initialize(slack=st.sampled_from([0, 10]), step=st.integers(1, 4), runs=st.sampled_from([1, 2, 8]))
    def begin(self, slack: int, step: int, runs: int) -> None:
        tiny = {"_SLACK": slack, "_STEP": step, "_PIECE": 2, "_MANY": 3, "_RUNS": runs}
        for name, number in tiny.items():
            self.patch.setattr(pending, name, number)
        self.patch.setattr(Stream, "chunk_entries", 5)
        self.stream = Stream()
        self.cold = ChunkCache()
        self.cold.depth = 1
        self.cold.adopt(self.stream)
        self.group = self.stream.groups[b"g"] = Group()

    def teardown(self) -> None:
        self.patch.undo()

    def change(self, ids: list[int], name: bytes, ms: int, count: int) -> None:
        for number in ids:
            self.model.pop(number, None)
            self.model[number] = (name, ms, count)

    def consumer(self, name: bytes):
        self.names.add(name)
        return self.group.consumers.get(name) or self.group.create_consumer(name, self.now)

    def some_pending(self, data: st.DataObject) -> list[int]:
        if not self.model:
            return []
        return data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True, max_size=8))

    @rule(step=st.integers(-3, 10))
    def time_passes(self, step: int) -> None:
        self.now = max(0, self.now + step)

    @rule(gap=st.integers(0, 3), count=st.integers(1, 9))
    def add(self, gap: int, count: int) -> None:
        after = max([FIRST, self.stream.last_id, self.group.last_id, *self.model]) + gap
        for number in range(after + 1, after + 1 + count):
            self.stream.append(number, FIELDS)

    @rule(name=NAMES, count=st.integers(1, 9))
    def deliver(self, name: bytes, count: int) -> None:
        after = self.group.last_id
        pieces, parts, last = self.stream.entries_after(after, count)
        if pieces:
            self.group.pel.deliver(
                self.consumer(name), pieces, texts_in(pieces, parts), after, last, self.now
            )
            self.group.last_id = last
            self.change(list(ids_in(pieces)), name, self.now, 1)

    @rule(count=st.integers(1, 9))
    def read_without_delivering(self, count: int) -> None:
        self.group.last_id = self.stream.entries_after(self.group.last_id, count)[2]

    @rule(back=st.integers(0, 40))
    def set_back(self, back: int) -> None:
        self.group.last_id = max(0, self.group.last_id - back)

    @rule(data=st.data())
    def delete_from_the_stream(self, data: st.DataObject) -> None:
        there = list(ids_from(self.stream, 0))
        if there:
            self.stream.delete(data.draw(st.sampled_from(there)))

    @rule(left=st.integers(0, 30))
    def trim_the_stream(self, left: int) -> None:
        trim(self.stream, left)

    @rule()
    def pack_the_stream(self) -> None:
        while self.cold.pack_next(self.stream, MAX_ID):
            pass

    @rule(
        name=NAMES,
        ids=st.lists(SMALL, min_size=1, max_size=4, unique=True),
        age=st.sampled_from([0, 0, 1, 7]),
        count=st.integers(0, 2),
    )
    def force(self, name: bytes, ids: list[int], age: int, count: int) -> None:
        ms = max(0, self.now - age)
        for number in ids:
            self.group.add_pending(number, self.consumer(name), ms, count)
        self.change(ids, name, ms, count)

    @rule(data=st.data(), more=st.lists(SMALL, max_size=1), count=st.integers(0, 2))
    def give_back(self, data: st.DataObject, more: list[int], count: int) -> None:
        ids = list(dict.fromkeys([*self.some_pending(data), *more]))
        self.group.give_back(ids, [count] * len(ids))
        self.change(ids, b"", UNOWNED_MS, count)

    @rule(data=st.data(), name=NAMES, age=st.sampled_from([0, 0, 1, 7]), count=st.integers(0, 2))
    def claim(self, data: st.DataObject, name: bytes, age: int, count: int) -> None:
        ids = self.some_pending(data)
        if ids:
            ms = max(0, self.now - age)
            move(self.group, self.consumer(name), ids, ms, count)
            self.change(ids, name, ms, count)

    @rule(start=SMALL, name=NAMES, size=st.integers(1, 9), count=st.integers(0, 2))
    def claim_on_a_walk(self, start: int, name: bytes, size: int, count: int) -> None:
        expected = [n for n in sorted(self.model) if n >= start][:size]
        consumer = self.consumer(name)
        met, losers = [], []
        for entry in islice(self.group.pel.order.walk(start), size):
            met.append(entry.number)
            if count:
                self.group.pel.move(entry, consumer, self.now, count)
            else:
                losers.append(entry.consumer)
                self.group.pel.drop(entry)
        self.group.pel.sweep(losers)
        assert met == expected
        if count:
            self.change(met, name, self.now, count)
        else:
            for number in met:
                del self.model[number]

    @rule(data=st.data(), strangers=st.lists(SMALL, max_size=2))
    def acknowledge(self, data: st.DataObject, strangers: list[int]) -> None:
        ids = [*self.some_pending(data), *strangers]
        expected = len(set(ids) & self.model.keys())
        assert acknowledge(self.group, ids) == expected
        for n in ids:
            self.model.pop(n, None)

    @rule(count=st.integers(1, 12))
    def acknowledge_the_oldest(self, count: int) -> None:
        ids = sorted(self.model)[:count]
        assert acknowledge(self.group, ids) == len(ids)
        for n in ids:
            del self.model[n]

    @rule(name=NAMES)
    def delete_consumer(self, name: bytes) -> None:
        consumer = self.group.consumers.get(name)
        if consumer is not None:
            gone = [n for n, facts in self.model.items() if facts[0] == name]
            assert self.group.delete_consumer(consumer) == len(gone)
            for n in gone:
                del self.model[n]
            self.names.discard(name)

    def go_on(self, go_on: Callable[[], bool], steps: int) -> None:
        """Let a group do so many steps of its work before it is asked for anything."""
        assert self.group.work is not None
        for _ in range(steps):
            if not go_on():
                break
        self.later.append(go_on)

    @rule(name=NAMES, steps=st.integers(0, 6))
    def delete_consumer_bit_by_bit(self, name: bytes, steps: int) -> None:
        consumer = self.group.consumers.get(name)
        if consumer is not None:
            job = self.group.delete_consumer_later(consumer)
            for n in [n for n, facts in self.model.items() if facts[0] == name]:
                del self.model[n]
            self.names.discard(name)
            self.go_on(job, steps)

    @rule(data=st.data(), strangers=st.lists(SMALL, max_size=2), steps=st.integers(0, 6))
    def acknowledge_bit_by_bit(self, data: st.DataObject, strangers: list[int], steps: int) -> None:
        ids = sorted({*self.some_pending(data), *strangers})
        job = self.group.acknowledge_later(
            list(map(encode, ids[at : at + 3])) for at in range(0, len(ids), 3)
        )
        for n in ids:
            self.model.pop(n, None)
        self.go_on(job, steps)

    @rule()
    def a_step_after_the_work_does_nothing(self) -> None:
        if self.group.work is None:
            assert not any(go_on() for go_on in self.later)

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.group = self.group.copy()

    def do_what_comes_before_a_look(self, consumer: Consumer | None, *, by_time: bool) -> None:
        work = self.group.pel.long_work(consumer, by_time=by_time)
        if work is not None:
            deque(work, 0)
            assert self.group.pel.long_work(consumer, by_time=by_time) is None

    def matching(self, start: int, end: int, latest: int | None, name: bytes | None) -> list[bytes]:
        return [
            encode(n)
            for n, (owner, ms, _) in sorted(self.model.items())
            if start <= n <= end and (latest is None or ms <= latest) and (name is None or name == owner)
        ]

    @rule(
        start=SMALL,
        size=st.none() | st.integers(0, 40),
        count=st.none() | st.integers(0, 12),
        age=st.none() | st.integers(-5, 30),
        name=st.none() | NAMES,
        by_steps=st.booleans(),
    )
    def look(
        self,
        start: int,
        size: int | None,
        count: int | None,
        age: int | None,
        name: bytes | None,
        by_steps: bool,
    ) -> None:
        consumer = None
        if name is not None:
            consumer = self.group.consumers.get(name)
            if consumer is None:
                return
        if by_steps:
            self.do_what_comes_before_a_look(consumer, by_time=age is not None)
        end = MAX_ID if size is None else start + size
        latest = None if age is None else self.now - age
        expected = self.matching(start, end, latest, name)[:count]
        if latest is None:
            assert pending_ids(self.group, start, end, count, consumer=consumer) == expected
        else:
            assert idle_ids(self.group, latest, start, end, count, consumer=consumer) == expected

    @rule(age=st.integers(-5, 30), count=st.integers(1, 12))
    def look_at_the_oldest(self, age: int, count: int) -> None:
        latest = self.now - age
        in_turn = sorted(self.model.items(), key=lambda item: item[1][1])
        expected = [number for number, (_, ms, _) in in_turn if ms <= latest][:count]
        assert [entry.number for entry in islice(self.group.pel.oldest(latest), count)] == expected

    @invariant()
    def facts_are_those_of_the_model(self) -> None:
        if self.group.work is not None:
            return  # the rules that follow see it, too
        found = [(each.number, (each.consumer.name, each.ms, each.count)) for each in self.group]
        assert found == sorted(self.model.items())
        first, last = self.group.pel.first(), self.group.pel.order.last()
        assert (first and first.number) == (min(self.model) if self.model else None)
        assert (last and last.number) == (max(self.model) if self.model else None)

    @invariant()
    def the_representation_is_sound(self) -> None:
        if self.group.work is None:
            check_invariants(self.group)
        check_invariants(self.stream)
        check_invariants(self.cold)

    @invariant()
    def consumers_count_what_they_own(self) -> None:
        if self.group.work is not None:
            return
        assert set(self.group.consumers) == self.names
        for name, consumer in self.group.consumers.items():
            assert consumer.pending == len(self.matching(0, MAX_ID, None, name))
        given_back = [number for number, facts in self.model.items() if facts[1] == UNOWNED_MS]
        assert [entry.number for entry in self.group.pel.given_back(self.group.unowned)] == given_back


PelMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=50, deadline=None)
TestPel = PelMachine.TestCase
