"""IDs in order, wherever they are put and whatever was removed between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.groups.consumer_index import IdOrder

NUMBERS = st.integers(0, 100)


@given(st.lists(NUMBERS, max_size=60), NUMBERS, st.sets(NUMBERS, max_size=60), st.integers(1, 20))
def test_ids_come_in_order_from_wherever_one_begins(numbers, start, gone, piece):
    order = IdOrder(chunk=8)
    for number in numbers:
        order.insert(number)
        order.check_invariants({number})
    there = sorted(set(numbers) - gone)
    for begin in (start, 0):
        runs = list(order.runs(lambda number: number not in gone, begin, piece))
        assert [number for run in runs for number in run] == [each for each in there if each >= begin]
        assert all(runs)
    assert order.listed >= len(there)
