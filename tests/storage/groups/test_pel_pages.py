"""PelRuns in pages: what they say of the entries there, against plain lists."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.groups.pel_pages import Page, batches_of, first_of, numbers_of, one_by_one, texts_of
from rillet.storage.streams.ids import MAX_U64, encode, is_ascending

# Of one and several digits on either side.
IDS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 9, 10, 99, 100, MAX_U64]), st.sampled_from([0, 1, 8, 9, 10, 99, 123, MAX_U64])
    ),
    min_size=1,
    max_size=30,
    unique=True,
).map(sorted)


def page_of(ids) -> Page:
    ms, seq = zip(*ids, strict=True)
    return Page(array("Q", ms), array("Q", seq), [object()] * len(ids), len(ids), private=True)


@given(IDS)
def test_a_position_is_that_of_the_first_id_that_is_not_smaller(ids):
    page = page_of(ids)
    numbers = [ms << 64 | seq for ms, seq in ids]
    for number in numbers:
        for near in (max(number - 1, 0), number, number + 1):
            assert page.position(near) == sum(each < near for each in numbers)


PLACES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), min_size=1, max_size=5)


@given(PLACES, st.lists(st.booleans(), min_size=5, max_size=5), st.data())
def test_places_show_what_stands_there_and_can_be_parted(positions, are_runs, data):
    pages = [page_of([(10 * number + at, number) for at in range(10)]) for number in range(len(positions))]
    places = [
        (page, range(min(some), max(some) + 1) if is_run else sorted(some))
        for page, some, is_run in zip(pages, positions, are_runs, strict=False)
    ]
    numbers = [page.number(at) for page, some in places for at in some]
    assert numbers_of(places) == numbers_of(one_by_one(places)) == numbers
    assert is_ascending(numbers)
    assert not is_ascending([*numbers, numbers[-1]])
    assert texts_of(places) == list(map(encode, numbers))
    assert batches_of(places) == [page.batches[at] for page, some in places for at in some]
    count = data.draw(st.integers(0, len(numbers) + 2))
    assert numbers_of(first_of(places, count)) == numbers[:count]
