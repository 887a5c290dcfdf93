"""The clock that everything asks."""

import time

import pytest

from rillet.server import clock as clock_module
from rillet.server.clock import Clock


@pytest.fixture
def system(monkeypatch):
    """The system's time in milliseconds, to be set."""

    class System:
        now = 1_700_000_000_000

    # By name and through the module: however the clock asks.
    monkeypatch.setattr(clock_module, "time_ns", lambda: System.now * 1_000_000, raising=False)
    monkeypatch.setattr(time, "time_ns", lambda: System.now * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: System.now / 1000)
    return System


def test_now_stands_until_the_next_tick(system):
    clock = Clock()
    system.now += 5
    assert clock.now == 1_700_000_000_000
    assert clock.tick() == clock.now == 1_700_000_000_005


def test_advance_moves_it_for_good_and_both_ways(system):
    clock = Clock()
    assert clock.advance(1000) == 1_700_000_001_000
    system.now += 1
    assert clock.tick() == 1_700_000_001_001
    assert clock.advance(-2000) == 1_699_999_999_001
    assert clock.unix_seconds() == pytest.approx(1_699_999_999.001)


def test_a_frozen_clock_moves_only_on_request(system):
    clock = Clock()
    clock.freeze()
    system.now += 500
    assert clock.tick() == 1_700_000_000_000
    assert clock.advance(7) == 1_700_000_000_007
    assert clock.unix_seconds() == pytest.approx(1_700_000_000.007)
    assert clock.freeze(42) == clock.now == 42


def test_resume_continues_from_the_frozen_time(system):
    clock = Clock()
    clock.freeze(1000)
    system.now += 10
    assert clock.resume() == 1000
    system.now += 10
    assert clock.tick() == 1010
    assert clock.resume() == 1010, "to resume a clock that runs changes nothing"


def test_reset_is_the_systems_time_again(system):
    clock = Clock()
    clock.advance(5000)
    clock.freeze(1)
    assert clock.reset() == system.now


def test_the_clock_follows_a_system_clock_that_is_set_back(system):
    clock = Clock()
    system.now -= 3000
    assert clock.tick() == 1_699_999_997_000
