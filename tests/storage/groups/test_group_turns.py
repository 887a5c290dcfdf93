"""Whose turn it is: the order in which a group's pending entries would be claimed, beside a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.streams.pending import looks, pieces_of, places_of

from rillet.storage.groups.deliveries import UNOWNED_MS
from rillet.storage.groups.group import Group
from rillet.storage.groups.pel_search import given_back, oldest, oldest_ms
from rillet.storage.groups.plain import Plain
from rillet.storage.streams.tuning import Tuning

SOME = st.lists(st.integers(0, 30), min_size=1, max_size=3, unique=True)
COUNTS = st.lists(st.integers(1, 2), min_size=3, max_size=3)
WHO = st.integers(0, 1)
STEP = st.one_of(
    st.tuples(st.just("deliver"), WHO, st.integers(1, 3)),
    st.tuples(st.just("deliver"), WHO, st.integers(1, 3)),
    st.tuples(st.just("move"), WHO, SOME, COUNTS, st.sampled_from([0, 0, 5]), st.booleans()),
    st.tuples(st.just("give back"), SOME, COUNTS),
    st.tuples(st.just("acknowledge"), SOME),
    st.tuples(st.just("clock"), st.integers(-2, 3)),
    st.tuples(st.just("copy")),
    st.tuples(st.just("rewrite")),
)


class Turns:
    """A group, and its entries as pairs of time and id in the order of their turns."""

    def __init__(self, tuning: Tuning) -> None:
        self.group = Group(tuning=tuning)
        for name in (b"a", b"b"):
            self.group.create_consumer(name, 0)
        self.turns: list[tuple[int, int]] = []
        self.now = 1000
        self.last = 0

    def who(self, number: int):
        return list(self.group.consumers.values())[number]

    def pick(self, numbers: list[int]) -> list[int]:
        """Distinct pending ids."""
        pending = [number for _, number in self.turns]
        return list(dict.fromkeys(pending[number % len(pending)] for number in numbers)) if pending else []

    def drop(self, ids: list[int]) -> None:
        self.turns = [turn for turn in self.turns if turn[1] not in ids]

    def put(self, ids: list[int], ms: int) -> None:
        for number in ids:
            self.drop([number])
            at = len(self.turns)
            while at and self.turns[at - 1][0] > ms:
                at -= 1
            self.turns.insert(at, (ms, number))

    def do(self, name: str, *rest) -> None:
        group = self.group
        if name == "deliver":
            who, number = rest
            ids = [(self.last + at) << 64 for at in range(1, number + 1)]
            group.deliver(self.who(who), pieces_of(ids), number, self.last << 64, ids[-1], self.now)
            self.last += number
            self.put(ids, self.now)
        elif name == "move":
            who, numbers, counts, idle, any_pending = rest
            ids = self.pick(numbers)
            move = group.assign_each if any_pending else group.reassign_each
            what = ids if any_pending else places_of(group, ids)
            move(self.who(who), what, self.now - idle, counts[: len(ids)])
            self.put(ids, self.now - idle)
        elif name == "give back":
            ids = self.pick(rest[0])
            group.give_back(ids, rest[1][: len(ids)])
            self.put(ids, UNOWNED_MS)
        elif name == "acknowledge":
            ids = self.pick(rest[0])
            group.acknowledge(ids)
            self.drop(ids)
        elif name == "clock":
            self.now += rest[0]
        elif name == "copy":
            self.group = group.copy()
        elif type(group.books) is Plain:
            group.become_dense()
        else:
            group.become_plain()


@given(
    st.lists(STEP, max_size=50),
    st.sampled_from([1, 16]),
    st.sampled_from([3, 2048]),
    st.sampled_from([0, 5, 100]),
)
def test_the_longest_idle_has_its_turn_first(steps, few, wide, plain):
    turns = Turns(Tuning(merged=few, wide=wide, plain=plain, together=2))
    for step in steps:
        turns.do(*step)
        turns.group.check_invariants()
        for latest in (turns.now, turns.now - 3, UNOWNED_MS):
            assert [page.number(at) for page, at in oldest(turns.group, latest)] == [
                number for ms, number in turns.turns if ms <= latest
            ]
        assert turns.group.unowned.pending == sum(ms == UNOWNED_MS for ms, _ in turns.turns)
        assert oldest_ms(turns.group) == (turns.turns[0][0] if turns.turns else None)


def test_claiming_few_of_many_looks_at_few():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    number = 20_000
    ids = [at << 64 for at in range(1, number + 1)]
    for at in range(0, number, 100):
        group.deliver(consumer, pieces_of(ids[at : at + 100]), 100, at << 64, ids[at + 99], 1)
    rounds = 200

    def claim() -> None:
        for at in range(rounds):
            turn = zip_first(oldest(group, 1), 10)
            assert turn == ids[10 * at : 10 * at + 10]
            group.acknowledge(turn)

    assert 0 < looks(group, claim) < rounds * 300


def test_what_was_given_back_in_any_order_is_claimed_in_that_order_however_few_at_a_time():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    ids = list(range(1, 301))
    group.deliver(consumer, pieces_of(ids), 300, 0, 300, 1)
    waiting = [(at * 8) % 301 for at in range(1, 301)]
    group.give_back(waiting, [1] * 300)
    while waiting:
        turn = zip_first(given_back(group), 4)
        assert turn == waiting[:4] == zip_first(given_back(group), 4)
        group.acknowledge(turn)
        del waiting[:4]


def test_dead_batches_in_front_are_passed_once():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    number = 20_000
    stuck, *ids = [at << 64 for at in range(1, number + 1)]
    for at in (stuck, *ids):
        group.deliver(consumer, pieces_of([at]), 1, at - (1 << 64), at, at >> 64)

    def claim() -> None:
        for at in range(500):
            turn = zip_first(oldest(group, number), 11)
            assert turn == [stuck, *ids[10 * at : 10 * at + 10]]
            group.acknowledge(turn[1:])

    assert 0 < looks(group, claim) < 500 * 200
    assert len(group.books.times) < number


def zip_first(places, number):
    return [page.number(at) for (page, at), _ in zip(places, range(number), strict=False)]
