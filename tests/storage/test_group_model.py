"""The PEL against a slow model: a dict from ID to consumer, time and count."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rillet.storage.group import BusyGroup, Group
from rillet.storage.stream_id import MAX_ID, encode, parse

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from([b"a", b"b", b"c"])
SMALL = st.integers(0, 40)


class PelMachine(RuleBasedStateMachine):
    """All ways in which entries come, move and go; bookkeeping thresholds are made tiny so that they all matter."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch("rillet.storage.id_order.CHUNK", 4),
            mock.patch("rillet.storage.blocks.SLACK", 2),
            mock.patch("rillet.storage.group.SLACK", 2),
            mock.patch("rillet.storage.pending_search.SLACK", 2),
            mock.patch("rillet.storage.group.CHUNK", 2),
        ]
        for patch in self.patches:
            patch.start()
        self.group = Group()
        self.model: dict[int, tuple[bytes, int, int]] = {}
        self.names: set[bytes] = set()
        self.later: list[Callable[[], bool]] = []  # jobs that were begun, however far they came
        self.now = 1000
        self.top = 0

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()

    @initialize(anew=st.sampled_from([0, 4]), large=st.sampled_from([0, 1, 8]))
    def begin(self, anew: int, large: int) -> None:
        self.group.last_id = 0
        for patch in (
            mock.patch("rillet.storage.group._ANEW", anew),
            mock.patch("rillet.storage.pending_search._LARGE", large),
            mock.patch("rillet.storage.pending_search._PATIENCE", 3),
        ):
            patch.start()
            self.patches.append(patch)

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

    @rule(name=NAMES, gap=st.integers(0, 3), count=st.integers(1, 9))
    def deliver(self, name: bytes, gap: int, count: int) -> None:
        after = max(self.top, self.group.last_id) + gap
        ids = list(range(after + 1, after + 1 + count))
        self.group.deliver(self.consumer(name), [encode(n) for n in ids], after, ids[-1], self.now)
        self.group.last_id = self.top = ids[-1]
        self.model.update(dict.fromkeys(ids, (name, self.now, 1)))

    @rule(name=NAMES, back=SMALL, count=st.integers(1, 9))
    def deliver_after_being_set_back(self, name: bytes, back: int, count: int) -> None:
        after = max(0, self.top - back)
        ids = list(range(after + 1, after + 1 + count))
        self.group.deliver(self.consumer(name), [encode(n) for n in ids], after, ids[-1], self.now)
        self.group.last_id = ids[-1]
        self.top = max(self.top, ids[-1])
        self.model.update(dict.fromkeys(ids, (name, self.now, 1)))

    @rule(
        name=NAMES,
        ids=st.lists(SMALL, min_size=1, max_size=4),
        age=st.sampled_from([0, 0, 1, 7]),
        count=st.integers(0, 2),
    )
    def force(self, name: bytes, ids: list[int], age: int, count: int) -> None:
        ms = max(0, self.now - age)
        self.group.assign(self.consumer(name), [encode(n) for n in ids], ms, count)
        self.model.update(dict.fromkeys(ids, (name, ms, count)))
        self.top = max(self.top, *ids)

    @rule(data=st.data(), name=NAMES, age=st.sampled_from([0, 0, 1, 7]), count=st.integers(0, 2))
    def claim(self, data: st.DataObject, name: bytes, age: int, count: int) -> None:
        ids = self.some_pending(data)
        if ids:
            ms = max(0, self.now - age)
            self.group.reassign(self.consumer(name), [encode(n) for n in ids], ms, count)
            self.model.update(dict.fromkeys(ids, (name, ms, count)))

    @rule(data=st.data(), strangers=st.lists(SMALL, max_size=2))
    def acknowledge(self, data: st.DataObject, strangers: list[int]) -> None:
        ids = [*self.some_pending(data), *strangers]
        expected = len(set(ids) & self.model.keys())
        assert self.group.acknowledge([encode(n) for n in ids]) == expected
        for n in ids:
            self.model.pop(n, None)

    @rule(count=st.integers(1, 12))
    def acknowledge_the_oldest(self, count: int) -> None:
        ids = sorted(self.model)[:count]
        assert self.group.acknowledge([encode(n) for n in ids]) == len(ids)
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
        """Let a busy group do so much before it is asked for anything."""
        assert type(self.group) is BusyGroup
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
            [encode(n) for n in ids[at : at + 3]] for at in range(0, len(ids), 3)
        )
        for n in ids:
            self.model.pop(n, None)
        self.go_on(job, steps)

    @rule()
    def whoever_went_on_later_finds_it_done(self) -> None:
        if type(self.group) is not BusyGroup:
            assert not any(go_on() for go_on in self.later)

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.group = self.group.copy()

    def matching(self, start: int, end: int, latest: int | None, name: bytes | None) -> list[bytes]:
        return [
            encode(n)
            for n, (owner, ms, _) in sorted(self.model.items())
            if start <= n <= end and (latest is None or ms <= latest) and (name is None or name == owner)
        ]

    @rule(
        start=SMALL,
        size=st.none() | SMALL,
        count=st.none() | st.integers(0, 12),
        age=st.none() | st.integers(-5, 30),
        name=st.none() | NAMES,
    )
    def look(
        self, start: int, size: int | None, count: int | None, age: int | None, name: bytes | None
    ) -> None:
        consumer = None
        if name is not None:
            consumer = self.group.consumers.get(name)
            if consumer is None:
                return
        end = MAX_ID if size is None else start + size
        latest = None if age is None else self.now - age
        expected = self.matching(start, end, latest, name)[:count]
        if latest is None:
            assert self.group.pending_ids(start, end, count, consumer) == expected
        else:
            assert self.group.idle_ids(latest, start, end, count, consumer) == expected
            assert self.group.any_idle(latest) == bool(self.matching(0, MAX_ID, latest, None))

    @invariant()
    def facts_are_those_of_the_model(self) -> None:
        found = [(n, (c.name, ms, count)) for n, c, ms, count in self.group]
        assert found == sorted(self.model.items())
        assert self.group.first_pending() == (encode(min(self.model)) if self.model else None)
        assert self.group.last_pending() == (encode(max(self.model)) if self.model else None)

    @invariant()
    def consumers_count_what_they_own(self) -> None:
        assert set(self.group.consumers) == self.names
        for name, consumer in self.group.consumers.items():
            expected = self.matching(0, MAX_ID, None, name)
            assert consumer.pending == len(expected)
            assert self.group.pending_ids(consumer=consumer) == expected

    @invariant()
    def blocks_list_each_id_once_and_time_is_in_order(self) -> None:
        blocks = self.group._times.until(1 << 62)
        assert blocks is not None
        assert [block.ms for block in blocks] == sorted(block.ms for block in blocks)
        listed = [text for block in blocks for text in block.ids if self.group.pel.get(text) is block]
        assert sorted(map(parse, listed)) == sorted(self.model)
        assert all(
            block.live == sum(self.group.pel.get(text) is block for text in block.ids) > 0 for block in blocks
        )
        owned = [
            block for consumer in self.group.consumers.values() for block in consumer.blocks if block.live
        ]
        assert sorted(map(id, owned)) == sorted(map(id, blocks))


PelMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPel = PelMachine.TestCase
