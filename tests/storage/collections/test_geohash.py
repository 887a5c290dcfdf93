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


def test_the_numbers_are_those_of_redis():
    assert geohash.encode(PALERMO) == 3479099956230698
    assert geohash.encode(CATANIA) == 3479447370796909
    assert geohash.decode(3479099956230698) == (13.361389338970184, 38.1155563954963)


def test_the_texts_are_those_of_redis():
    assert geohash.text(geohash.decode(geohash.encode(PALERMO))) == b"sqc8b49rny0"
    assert geohash.text(geohash.decode(geohash.encode(CATANIA))) == b"sqdtr74hyu0"


def test_the_distance_is_that_of_redis():
    far = geohash.distance(*(geohash.decode(geohash.encode(place)) for place in (PALERMO, CATANIA)))
    assert f"{far:.4f}" == "166274.1516"


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


def test_the_map_has_no_end():
    corner = Cell(7, 0, 3)
    assert corner.beside(-1, 1) == Cell(0, 7, 3)
    assert corner.beside(-1, 1).beside(1, -1) == corner


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


def test_a_corner_of_a_box_is_farther_than_its_side():
    area = Area((0.0, 0.0), 200_000.0, 200_000.0)
    assert area.distance_to((0.8, 0.8)) is not None
    assert area.distance_to((0.95, 0.0)) is None
    assert Area((0.0, 0.0), 100_000.0).distance_to((0.8, 0.8)) is None


def test_the_edges_of_the_map_are_places_of_their_own():
    assert geohash.encode((180.0, 0.0)) == (1 << 53) + (1 << 50)
    assert geohash.decode(geohash.encode((180.0, 85.05112878))) == (180.0, 85.05112878)
    assert geohash.encode((0.0, 85.05112878)) != geohash.encode((0.0, -85.05112878))


def test_scores_that_are_no_positions_are_decoded_as_64_bits():
    corners = [geohash.decode(score) for score in (-5.0, 1e30, float("inf"), -1e30)]
    low = geohash.decode(0)
    assert corners == [(180.0, 85.05112878), low, low, (180.0, low[1])]


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
