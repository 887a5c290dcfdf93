"""A search for the nearest members looks at few of them, and finds what a look at all of them finds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, reply, run

from rillet.storage.collections.geohash import Area

CENTERS = st.tuples(st.floats(-180, 180), st.floats(-85, 85))
SPREADS = st.sampled_from([0.0001, 0.1, 5.0, 90.0, 360.0])


def filled(seed, spread, around=(0.0, 0.0), members=400):
    """A client of a server with members around a place, some of them at the same one."""
    client = make_client(server=FakeServer())
    chance = random.Random(seed)
    for number in range(members):
        longitude = (around[0] + spread * (chance.random() - 0.5) + 180) % 360 - 180
        latitude = min(max(around[1] + spread / 2 * (chance.random() - 0.5), -85), 85)
        if number % 5 == 0:
            longitude, latitude = round(longitude, 1), round(latitude)
        run(client, "GEOADD", "g", longitude, latitude, f"m{number}")
    return client


@given(
    CENTERS,
    CENTERS,
    SPREADS,
    st.integers(0, 5),
    st.integers(1, 30),
    st.sampled_from([1, 1000, 300_000, 3e6, 3e7]),
    st.booleans(),
)
def test_the_nearest_are_the_first_of_all(center, around, spread, seed, count, reach, is_box):
    client = filled(seed, spread, around)
    shape = ("BYBOX", reach, reach / 2) if is_box else ("BYRADIUS", reach)
    words = ("GEOSEARCH", "g", "FROMLONLAT", *center, *shape, "m", "ASC", "WITHDIST")
    assert reply(client, *words, "COUNT", count) == reply(client, *words)[:count]


@pytest.mark.parametrize("words", [("BYRADIUS", 30000, "km"), ("BYBOX", 30000, 20000, "km")])
def test_the_nearest_of_many_are_found_without_looking_at_all(words, monkeypatch):
    client = filled(1, 90.0, members=3000)
    seen = []
    matches = Area.matches
    monkeypatch.setattr(Area, "matches", lambda area, items: seen.extend(items) or matches(area, items))
    assert len(reply(client, "GEOSEARCH", "g", "FROMLONLAT", 1, 1, *words, "COUNT", 5)) == 5
    assert len(seen) < 300


def test_any_stops_at_the_first_few():
    client = filled(1, 90.0, members=3000)
    found = reply(client, "GEOSEARCH", "g", "FROMLONLAT", 1, 1, "BYRADIUS", 30000, "km", "COUNT", 5, "ANY")
    everything = reply(client, "GEOSEARCH", "g", "FROMLONLAT", 1, 1, "BYRADIUS", 30000, "km")
    assert found == everything[:5]
