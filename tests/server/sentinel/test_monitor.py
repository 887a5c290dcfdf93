"""Which replica is promoted, and what INFO of strange servers does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.server.config.sentinel_settings import MasterSettings, SentinelSettings
from rillet.server.sentinel.monitor import Monitor
from rillet.server.sentinel.state import Master, Replica


def monitored(*replicas: dict[str, object]) -> tuple[Monitor, Master]:
    monitor = Monitor(None, SentinelSettings())
    master = Master(MasterSettings(b"m", "127.0.0.1", 1, 1, down_after=1000), 0.0)
    for number, state in enumerate(replicas, 2):
        replica = Replica(master, "127.0.0.1", number, 0.0)
        replica.connected, replica.info_at = True, 0.0
        for name, value in state.items():
            setattr(replica, name, value)
        master.replicas[replica.address] = replica
    return monitor, master


def chosen(*replicas: dict[str, object]) -> list[int]:
    monitor, master = monitored(*replicas)
    return [replica.port for replica in monitor.candidates(master)]


def test_most_of_the_stream_wins_then_the_smaller_run_id():
    assert chosen({"offset": 5}, {"offset": 9}, {"offset": 7}) == [3, 4, 2]
    assert chosen({"offset": 5, "run_id": "b"}, {"offset": 5, "run_id": "a"}) == [3, 2]


def test_a_lower_priority_wins_over_the_stream():
    assert chosen({"offset": 9}, {"offset": 5, "priority": 10}) == [3, 2]


@pytest.mark.parametrize(
    "unfit",
    [
        {"priority": 0},
        {"is_down": True},
        {"connected": False},
        {"info_at": None},
        {"role": "master"},
        {"link_down_milliseconds": 10_001},
    ],
)
def test_a_replica_that_is_not_well_is_not_promoted(unfit):
    assert chosen(unfit, {}) == [3]
    assert chosen({"link_down_milliseconds": 10_000}) == [2]


@given(
    st.lists(st.fixed_dictionaries({"priority": st.integers(0, 3), "offset": st.integers(0, 3)}), max_size=6)
)
def test_none_is_better_than_the_one_that_is_promoted(replicas):
    order = chosen(*replicas)
    assert len(order) == sum(each["priority"] > 0 for each in replicas)
    ranks = [(replicas[port - 2]["priority"], -replicas[port - 2]["offset"]) for port in order]
    assert ranks == sorted(ranks)
