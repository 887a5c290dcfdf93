"""Ids in order: those of all lengths, wherever they are put."""

from __future__ import annotations

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.id_order import IdOrder
from rillet.storage.stream_id import MAX_ID, encode

# Of one and several digits on either side, so that texts and numbers differ in their order.
NUMBERS = st.builds(
    lambda ms, seq: ms << 64 | seq,
    st.sampled_from([0, 1, 9, 10, 99, 100, 101]),
    st.sampled_from([0, 1, 9, 10, 99, 123]),
)


@given(st.lists(NUMBERS, max_size=60), NUMBERS | st.just(MAX_ID), st.sets(NUMBERS, max_size=8))
def test_ids_come_in_the_order_of_their_numbers_from_wherever_one_begins(numbers, start, gone):
    members = {}
    with mock.patch("rillet.storage.id_order.CHUNK", 8):
        order = IdOrder(members)
        for number in numbers:
            members[encode(number)] = None
            order.insert(encode(number), number)
        for number in gone:
            order.removed(members.pop(encode(number), 1) is None)
        there = sorted(set(numbers) - gone)
        assert order.take(start) == [encode(number) for number in there if number >= start]
        assert order.take(0, start) == [encode(number) for number in there if number <= start]
        assert order.first() == (encode(there[0]) if there else None)
        assert order.last() == (encode(there[-1]) if there else None)
