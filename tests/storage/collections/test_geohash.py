"""storage/collections/geohash.py: numbers and places, distances, and the cells that cover an area."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.collections import geohash
from rillet.storage.collections.geohash import Area, Cell

PALERMO, CATANIA = (13.361389, 38.115556), (15.087269, 37.502669)
PLACES = st.tuples(
    st.floats(-179.9, 179.9).map(lambda value: round(value, 6)),
    st.floats(-85, 85).map(lambda value: round(value, 6)),
)


@given(PLACES)
def test_a_place_is_found_again_within_a_metre(place):
    assert geohash.distance(place, geohash.decode(geohash.encode(place))) < 1


@given(PLACES, st.integers(1, 26))
def test_a_place_is_in_its_cell(place, step):
    cell = Cell.of(place, step)
    west, south, east, north = cell.bounds()
    assert west <= place[0] <= east
    assert south <= place[1] <= north
    first, stop = cell.hashes()
    assert first <= geohash.encode(place) < stop


@pytest.mark.parametrize("height", [None, 150_000.0])
@given(
    center=st.tuples(st.floats(-170, 170), st.floats(-75, 75)),
    place=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
)
def test_what_is_inside_is_in_one_of_the_cells(height, center, place):
    area = Area(center, 100_000.0, height)
    near = geohash.decode(geohash.encode((center[0] + place[0], center[1] + place[1])))
    if area.distance_to(near) is not None:
        number = geohash.encode(near)
        assert any(first <= number < stop for first, stop in (cell.hashes() for cell in area.cells()))


SCORES = st.one_of(
    PLACES.map(lambda place: float(geohash.encode(place))),
    st.floats(-10.0, 2.0**66),
    st.sampled_from([0.0, 2.0**52 - 1, 2.0**54, -1.0, float("inf"), float("-inf")]),
)


@given(st.lists(SCORES, max_size=20))
def test_places_are_decoded_together_as_one_by_one(scores):
    assert geohash.decode_all(scores) == [geohash.decode(score) for score in scores]


@given(
    st.lists(SCORES.filter(lambda score: score >= 0), max_size=20),
    PLACES,
    st.floats(0, 3e7),
    st.one_of(st.none(), st.floats(0, 3e7)),
)
def test_members_are_inside_by_their_distance(scores, center, width, height):
    area = Area(center, width, height)
    items = [(score, b"%d" % at) for at, score in enumerate(scores)]
    expected = [(area.distance_to(geohash.decode(score)), member, score) for score, member in items]
    assert area.matches(items) == [each for each in expected if each[0] is not None]


@given(PLACES, st.integers(0, 26), PLACES)
def test_no_place_of_a_cell_is_nearer_than_the_cell(place, step, center):
    cell = Cell.of(place, step)
    decoded = geohash.decode(geohash.encode(place))
    assert cell.distance_from(center) <= geohash.distance(center, decoded)


@given(PLACES, st.integers(0, 25))
def test_the_quarters_of_a_cell_are_the_cell(place, step):
    cell = Cell.of(place, step)
    ranges = [quarter.hashes() for quarter in cell.quarters()]
    first, stop = cell.hashes()
    assert [ranges[0][0], ranges[-1][1]] == [first, stop]
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))
