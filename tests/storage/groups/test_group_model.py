"""The PEL against a slow model: a dict from ID to consumer, time and count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.streams.pending import idle_ids, pending_ids, pieces_of, places_of

from rillet.storage.groups.dense import Dense
from rillet.storage.groups.group import Group
from rillet.storage.groups.pel_pages import numbers_of, texts_of
from rillet.storage.groups.pel_search import any_idle, find_pending, oldest
from rillet.storage.groups.plain import Plain
from rillet.storage.streams.chunk import ids_in
from rillet.storage.streams.cold_chunks import ChunkCache
from rillet.storage.streams.ids import MAX_ID, encode
from rillet.storage.streams.iteration import ids_from
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim_to_length
from rillet.storage.streams.tuning import Tuning

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from([b"a", b"b", b"c"])
# Packed columns have one byte for a sequence of up to 255.
FIRST = 236
SMALL = st.integers(FIRST, FIRST + 40)
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


class PelMachine(RuleBasedStateMachine):
    """All ways in which entries come, move and go; bookkeeping thresholds are made tiny so that they all matter."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[int, tuple[bytes, int, int]] = {}
        self.names: set[bytes] = set()
        self.later: list[Callable[[], bool]] = []  # jobs that were begun, however far they came
        self.now = 1000

    @initialize(
        reorder=st.sampled_from([0, 4]),
        large=st.sampled_from([0, 1, 8]),
        dense=st.sampled_from([1, 100]),
        plain=st.sampled_from([0, 4, 1000]),
        rewriting=st.sampled_from([1, 1000]),
    )
    def begin(self, reorder: int, large: int, dense: int, plain: int, rewriting: int) -> None:
        tuning = Tuning(
            chunk_entries=5,
            page=6,
            short_page=3,
            tiny_page=2,
            dense=dense,
            wide=2 * dense,
            slack=2,
            piece=2,
            reorder_part=reorder,
            large_part=large,
            patience=3,
            index_chunk=4,
            plain=plain,
            together=4,
            rewriting=rewriting,
        )
        self.stream = Stream(tuning)
        self.cold = ChunkCache()
        self.cold.depth = 1
        self.cold.adopt(self.stream)
        self.group = self.stream.groups[b"g"] = Group(tuning=tuning)

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
        pieces, _, last = self.stream.entries_after(after, count)
        if pieces:
            ids = list(ids_in(pieces))
            self.group.deliver(self.consumer(name), pieces, len(ids), after, last, self.now)
            self.group.last_id = last
            self.model.update(dict.fromkeys(ids, (name, self.now, 1)))

    @rule(count=st.integers(1, 9))
    def read_without_delivering(self, count: int) -> None:
        self.group.last_id = self.stream.entries_after(self.group.last_id, count)[2]

    @rule()
    def rewrite_the_books(self) -> None:
        if type(self.group.books) is Plain:
            self.group.become_dense()
        else:
            self.group.become_plain()

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
        trim_to_length(self.stream, left)

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
        self.group.assign(self.consumer(name), ids, ms, count)
        self.model.update(dict.fromkeys(ids, (name, ms, count)))

    @rule(data=st.data(), name=NAMES, age=st.sampled_from([0, 0, 1, 7]), count=st.integers(0, 2))
    def claim(self, data: st.DataObject, name: bytes, age: int, count: int) -> None:
        ids = self.some_pending(data)
        if ids:
            ms = max(0, self.now - age)
            self.group.reassign(self.consumer(name), places_of(self.group, ids), ms, count)
            self.model.update(dict.fromkeys(ids, (name, ms, count)))

    @rule(name=NAMES, start=SMALL, size=st.integers(1, 9), step=st.integers(0, 2))
    def claim_neighbours(self, name: bytes, start: int, size: int, step: int) -> None:
        pieces, _, _ = self.stream.entries_after(start, size)
        ids = list(ids_in(pieces))
        places = self.group.pel.locate_run(pieces)
        if places:
            assert texts_of(places) == list(map(encode, ids))
            ms = self.now - step
            self.group.reassign(self.consumer(name), places, ms, 3)
            self.model.update(dict.fromkeys(ids, (name, ms, 3)))
        for piece in pieces:
            batches = self.group.pel.batches_at(piece)
            facts = [
                None if batch is None else (batch.consumer.name, batch.ms, batch.count) for batch in batches
            ]
            assert facts == [self.model.get(number) for number in ids_in([piece])]

    @rule(start=SMALL, size=st.integers(1, 9), name=st.none() | NAMES, count=st.integers(0, 2))
    def claim_what_a_walk_meets(self, start: int, size: int, name: bytes | None, count: int) -> None:
        consumer = None if name is None else self.group.consumers.get(name)
        places = find_pending(self.group, start, count=size, consumer=consumer)
        if places:
            self.group.reassign(self.consumer(b"c"), places, self.now, count)
            self.model.update(dict.fromkeys(numbers_of(places), (b"c", self.now, count)))

    @rule(data=st.data(), strangers=st.lists(SMALL, max_size=2))
    def acknowledge(self, data: st.DataObject, strangers: list[int]) -> None:
        ids = [*self.some_pending(data), *strangers]
        expected = len(set(ids) & self.model.keys())
        assert self.group.acknowledge(ids) == expected
        for n in ids:
            self.model.pop(n, None)

    @rule(start=SMALL, size=st.integers(1, 9), more=st.lists(SMALL, max_size=1), skip=st.integers(1, 2))
    def acknowledge_all_or_nothing(self, start: int, size: int, more: list[int], skip: int) -> None:
        ids = [*[n for n in sorted(self.model) if n >= start][:size:skip], *more]
        if ids:
            are_pending = len(set(ids)) == len(ids) and self.model.keys() >= set(ids)
            found = self.group.acknowledge_all(list(map(encode, ids)))
            assert found == len(ids) if are_pending else not found
            for n in ids if are_pending else ():
                del self.model[n]

    @rule(count=st.integers(1, 12))
    def acknowledge_the_oldest(self, count: int) -> None:
        ids = sorted(self.model)[:count]
        assert self.group.acknowledge(ids) == len(ids)
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
        """Let a group do so many steps of its cleanup before it is asked for anything."""
        assert self.group.pending_cleanup is not None
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
        job = self.group.acknowledge_later(pieces_of(ids[at : at + 3]) for at in range(0, len(ids), 3))
        for n in ids:
            self.model.pop(n, None)
        self.go_on(job, steps)

    @rule()
    def a_step_after_the_cleanup_does_nothing(self) -> None:
        if self.group.pending_cleanup is None:
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
        size=st.none() | st.integers(0, 40),
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
            assert pending_ids(self.group, start, end, count, consumer) == expected
        else:
            assert idle_ids(self.group, latest, start, end, count, consumer) == expected
            assert any_idle(self.group, latest) == bool(self.matching(0, MAX_ID, latest, None))

    @invariant()
    def facts_are_those_of_the_model(self) -> None:
        found = [(n, (c.name, ms, count)) for n, c, ms, count in self.group]
        assert found == sorted(self.model.items())
        first, last = self.group.pel.first(), self.group.pel.last()
        assert (first and first[0].number(first[1])) == (min(self.model) if self.model else None)
        assert (last and last[0].number(last[1])) == (max(self.model) if self.model else None)

    @invariant()
    def the_representation_is_sound(self) -> None:
        self.group.check_invariants()
        self.stream.check_invariants()
        self.cold.check_invariants()
        assert len(self.group.pel) == len(self.model)

    @invariant()
    def consumers_count_what_they_own(self) -> None:
        assert set(self.group.consumers) == self.names
        for name, consumer in self.group.consumers.items():
            expected = self.matching(0, MAX_ID, None, name)
            assert consumer.pending == len(expected)
            assert pending_ids(self.group, consumer=consumer) == expected

    @invariant()
    def all_have_their_turn_by_time(self) -> None:
        turns = [page.number(at) for page, at in oldest(self.group)]
        assert sorted(turns) == sorted(self.model)
        times = [self.model[number][1] for number in turns]
        assert times == sorted(times)

    @invariant()
    def batches_list_each_id_once_and_time_is_in_order(self) -> None:
        books = self.group.books
        if type(books) is not Dense:
            return
        batches = books.times.until(1 << 62)
        assert batches is not None
        assert [batch.ms for batch in batches] == sorted(batch.ms for batch in batches)
        entries = {batch: list(self.group.pel.of_batch(batch)) for batch in batches}
        assert sorted(page.number(at) for places in entries.values() for page, at in places) == sorted(
            self.model
        )
        assert all(batch.live == len(places) > 0 for batch, places in entries.items())
        owned = [
            batch for consumer in self.group.consumers.values() for batch in consumer.batches if batch.live
        ]
        assert sorted(map(id, owned)) == sorted(map(id, batches))


PelMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestPel = PelMachine.TestCase
