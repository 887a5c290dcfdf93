"""The driver's connection breaks at each request of a query in group mode, one after the other: the query goes on by itself."""

import itertools

import pytest
from support.pipeline.group_scene import Scene
from support.pipeline.micro_batches import Crash, Faults, fail_connections

from rillet.pipeline.group import stream_reader

after = pytest.mark.parametrize("after", [False, True], ids=["before a request", "before its reply"])


@pytest.fixture
def faults(monkeypatch):
    faults = Faults()
    fail_connections(monkeypatch, faults, stream_reader)
    return faults


def each_break(faults, *, after):
    """Yield while a query is to run, until it has fewer requests than the one at which its connection would break."""
    for number in itertools.count():
        faults.disarm()
        yield lambda number=number: faults.arm(number, after=after, crash=False)
        if faults.left is not None:
            assert number > 5
            return


@after
def test_a_query_that_takes_over_reads_each_entry_once(rillet_process, faults, after):
    for arm in each_break(faults, after=after):
        with Scene(rillet_process, maxRowsPerTrigger=3, claimMinIdleMs=0) as scene:
            added = scene.add(7, held=2)
            arm()
            scene.engine.finish()
            assert sorted(scene.read) == sorted(added)
            assert scene.pending() == 0


@after
def test_a_batch_that_runs_again_divides_and_gives_up_its_poison(rillet_process, faults, after):
    for arm in each_break(faults, after=after):
        with Scene(rillet_process, maxDeliveries=2) as scene:
            added = scene.add(3)
            for stop_before in ("write", "write"):
                with pytest.raises(Crash):
                    scene.engine.trigger(stop_before)
                scene.engine.restart()
            arm()
            scene.engine.finish()
            assert sorted(scene.read + [words[3] for words in scene.dead_letters()]) == sorted(added)
            assert scene.pending() == 0
