"""`rillet.testing.simulation`: many seeds, a network that fails, a server inside; from Python 3.12 on."""

import asyncio
import gc
import os
import random
import subprocess
import sys
import time
import uuid
import weakref
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.jobs import ten_jobs

if sys.version_info < (3, 12):
    pytest.skip("the simulator needs Python 3.12: make test-simulation", allow_module_level=True)

import redis
import simloop

from rillet.testing import simulation
from rillet.testing.simulating.decorator import begin_test, trace
from rillet.testing.simulating.simulated_loop import SimulatedLoop
from rillet.testing.simulating.story import of_network

MORE = int(os.environ.get("RILLET_SEEDS", "1"))  # a factor


@pytest.fixture(autouse=True)
def outside_of_any_test():
    """Let the simulations in a test be those of nobody."""
    begin_test("", None)


async def right(sim):
    await ten_jobs(sim, acknowledges_first=False)


async def wrong(sim):
    await ten_jobs(sim, acknowledges_first=True)


def test_a_right_worker_passes():
    simulation(seeds=20 * MORE)(right)()


def test_a_worker_that_acknowledges_first_is_found_and_its_seed_fails_again():
    with pytest.raises(AssertionError) as found:
        simulation(seeds=60)(wrong)()
    [note] = found.value.__notes__
    seed = int(note.partition("rillet: seed ")[2].partition(" ")[0])
    assert f"--rillet-seed={seed}" in note
    assert " a " in note
    assert "crashes" in note
    assert "XACK jobs w" in note
    assert trace(wrong, seed) == trace(wrong, seed)
    begin_test("test_it.py::test_it", seed)
    with pytest.raises(AssertionError) as again:
        simulation(seeds=60)(wrong)()
    assert str(again.value) == str(found.value)
    assert f"replay: pytest test_it.py::test_it --rillet-seed={seed}" in again.value.__notes__[0]


def test_a_story_is_shrunk_to_the_one_crash_that_it_needs():
    async def wait():
        await asyncio.sleep(3600)

    @simulation(seeds=[3], chaos=0.5)
    async def test(sim):
        sim.start("a", wait)
        await asyncio.sleep(30)
        crashes = sum(event.host == "a" and event.text.startswith("crashes") for event in sim.events)
        counts.append(crashes)
        assert not crashes

    counts = []
    with pytest.raises(AssertionError) as found:
        test()
    [note] = found.value.__notes__
    assert counts[0] > 2
    assert sum(" a " in line and line.endswith(" crashes") for line in note.splitlines()) == 1, note
    assert note.count("\n  - ") == note.count("\n  - a crashes at ") == 1


def test_a_failure_says_what_mattered_and_shows_no_frame_of_ours():
    @simulation(seeds=1, chaos=0)
    async def test(sim):
        await sim.client.set("other", 1)
        await sim.client.set("named", 1)

        async def wait():
            await asyncio.sleep(3600)

        sim.start("a", wait)
        sim.start("b", wait)
        sim.crash("b")
        sim.crash("a")
        await asyncio.sleep(1)
        assert "a" not in sim._down, "named is wrong"

    with pytest.raises(AssertionError) as found:
        test()
    [note] = found.value.__notes__
    assert "It passes without any one of these:\n  - a crashes at" in note
    assert "It fails without the rest, too: 1 crash or partition by the test itself." in note
    assert "The order of the tasks does not matter: it failed in 5 of 5 others, too." in note
    assert "What happened to key named:" in note
    assert "SET other" not in note
    assert [entry.name for entry in found.traceback[-2:]] == ["run_all", "test"]


def test_a_lost_reply_that_mattered_is_named():
    async def count(url):
        client = redis.asyncio.Redis.from_url(url)
        while True:
            await client.incr("a")
            await client.incr("b")
            await asyncio.sleep(0.2)

    @simulation(seeds=30, chaos=0.3)
    async def test(sim):
        sim.start("counter", count, sim.url)
        await asyncio.sleep(20)
        sim.crash("counter")
        await asyncio.sleep(1)
        first, second = await sim.client.mget("a", "b")
        assert abs(int(first or 0) - int(second or 0)) < 2

    with pytest.raises(AssertionError) as found:
        test()
    [note] = found.value.__notes__
    needed = note.partition("any one of these:\n")[2].partition("\nIt fails")[0].splitlines()
    assert needed, note
    assert all("counter" in line or "messages between hosts" in line for line in needed), note


def test_pytest_fail_is_a_failure_with_a_story_and_bytes_do_not_break_the_report():
    @simulation(seeds=1, chaos=0)
    async def test(sim):
        await sim.client.set(b"\xff", b"\xfe")
        pytest.fail("no")

    with pytest.raises(pytest.fail.Exception) as found:
        test()
    [note] = found.value.__notes__
    note.encode()
    assert "SET '\\xff' '\\xfe' -> 'OK'" in note


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_show_progress(monkeypatch, jobs):
    said = []
    monkeypatch.setattr("rillet.testing.simulating.decorator._PROGRESS_SECONDS", 0)
    begin_test("test_it", None, say=said.append)

    @simulation(seeds=3, chaos=0, jobs=jobs)
    async def test(sim):
        assert sim.seed < 2

    with pytest.raises(AssertionError):
        test()
    assert "test_it: 2 of 3 seeds passed" in said
    assert "test_it: seed 2 fails; run 1 to find what matters" in said


def test_under_hypothesis_a_failure_is_told_and_not_tried_again():
    runs = []

    @settings(max_examples=3, database=None, deadline=None, phases=[Phase.generate])
    @given(st.just(1))
    @simulation(seeds=1, chaos=0.5)
    async def test(sim, n):
        runs.append(n)
        await asyncio.sleep(1)
        assert n == 2

    with pytest.raises(AssertionError) as found:
        test()
    assert "rillet: seed 0 fails" in found.value.__notes__[0]
    assert len(runs) < 5


PROGRAM = """
import sys
from support.jobs import ten_jobs
from rillet.testing.simulating.decorator import trace

async def wrong(sim):
    await ten_jobs(sim, acknowledges_first=True)

for seed in range(int(sys.argv[1])):
    print(trace(wrong, seed))
"""


def test_a_seed_gives_the_same_story_in_every_process():
    stories = set()
    for hashes in ("0", "1", "4294967295"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(3 * MORE)],
            env=os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            check=True,
        )
        stories.add(done.stdout)
    assert len(stories) == 1
    assert stories.pop().count(b"crashes") >= 3


def test_the_collections_of_a_run_visit_only_what_it_has_made(unfrozen):
    seen = []

    @simulation(seeds=1)
    async def story(sim):
        seen.append(gc.get_freeze_count())

    story()
    assert seen[0] > 10_000  # also on Python 3.12, which has frozen 375 objects itself


def test_what_a_test_drops_of_an_earlier_seed_is_collected(unfrozen):
    kept, alive = [], weakref.WeakSet()

    @simulation(seeds=6)
    async def story(sim):
        sim.itself = sim  # only the collector can free it
        kept[:] = [sim]
        alive.add(sim)

    story()
    assert len(alive) <= 2  # the first, which is hidden from the collector until the end, and the last


def order_in(loop, seed):
    """Run tasks, timers and messages of three hosts in a loop; return what ran, when, and the messages that did not pass."""
    draws, ran = random.Random(seed), []

    async def serve(reader, writer):
        while data := await reader.read(10):
            ran.append((loop.time(), data))
            writer.write(data)

    async def work(name):
        reader, writer = await asyncio.open_connection("server", 1)
        for number in range(draws.randint(1, 9)):
            timers = [loop.call_later(draws.choice([0, 0.1]), ran.append, (name, each)) for each in range(3)]
            loop.call_soon(ran.append, (name, number)).cancel() if draws.random() < 0.5 else timers[
                1
            ].cancel()
            loop.call_at(loop.time() + draws.choice([-1, 0, 0.1]), ran.append, (name, "at"))
            writer.write(b"%d" % number)
            try:
                await asyncio.wait_for(reader.read(10), draws.choice([0.001, 1]))
            except TimeoutError:
                ran.append((loop.time(), name, "late"))
            await asyncio.sleep(draws.choice([0, 0, 0.1]))
        writer.close()

    async def main():
        loop.net.set_defaults(latency=(0, draws.choice([0, 0.002])))
        await loop.net.host("server").create_task(asyncio.start_server(serve, "", 1))
        for name in "abc":
            loop.net.host(name)
        if draws.random() < 0.5:
            loop.net.set_clock("b", offset=5)
        if draws.random() < 0.5:
            loop.call_later(0.01, loop.net.partition, ["a"], ["server"])
            loop.call_later(0.5, loop.net.heal)
        await asyncio.gather(*(loop.net.host(name).create_task(work(name)) for name in "abc"))

    loop.run_until_complete(main())
    loop.close()
    return ran, list(of_network(loop.trace)), loop.time()


@given(st.integers())
def test_callbacks_run_in_the_order_of_the_simulators_own_loop(seed):
    found, expected = order_in(SimulatedLoop(seed), seed), order_in(simloop.SimLoop(seed), seed)
    assert found == expected
    assert len(found[0]) > 10


def test_the_loop_ends_where_nothing_is_left_to_run_as_the_simulators_own():
    for kind in (SimulatedLoop, simloop.SimLoop):
        loop = kind(0)
        with pytest.raises(simloop.SimulationDeadlockError, match=r"nothing left|all tasks are blocked"):
            loop.run_until_complete(loop.create_future())
        loop.close()
        with pytest.raises(RuntimeError, match="closed"):
            loop.call_soon(print)


def test_seeds_differ():
    assert len({trace(right, seed) for seed in range(4)}) == 4


def test_time_and_random_numbers_are_the_seeds(tmp_path):
    seen = []

    @simulation(seeds=[7, 7], chaos=0)
    async def test(sim):
        begun = time.time()
        await asyncio.sleep(3600)
        assert time.time() - begun == pytest.approx(3600)
        assert sim.server.clock.now == int(time.time() * 1000)
        seen.append((uuid.uuid4(), sim.random.random(), os.urandom(4)))

    before = time.time()
    test()
    assert seen[0] == seen[1]
    assert abs(time.time() - before) < 60, "the time of the process is back"


@simulation(seeds=3, chaos=0)
async def test_a_crash_loses_what_the_policy_of_the_file_loses(sim):
    await sim.client.set("kept", 1)
    await asyncio.sleep(2)
    await sim.client.set("lost", 1)
    await sim.server.restart(crash=True)
    assert await sim.client.mget("kept", "lost") == [b"1", None]


@simulation(seeds=3, chaos=0)
async def test_hosts_are_cut_off_and_healed_crashed_and_restarted(sim):
    async def count(key):
        client = redis.asyncio.Redis.from_url(sim.url, socket_timeout=None)
        while True:
            await client.incr(key)
            await asyncio.sleep(0.1)

    sim.start("one", count, "n")
    await asyncio.sleep(1)
    sim.partition("one")
    await asyncio.sleep(1)
    cut = int(await sim.client.get("n"))
    await asyncio.sleep(10)
    assert int(await sim.client.get("n")) == cut > 3
    sim.heal()
    await asyncio.sleep(1)
    assert int(await sim.client.get("n")) > cut
    for silent in (False, True):
        sim.crash("one", silent=silent)
        await asyncio.sleep(1)
        down = int(await sim.client.get("n"))
        await asyncio.sleep(10)
        assert int(await sim.client.get("n")) == down
        sim.restart("one")
        await asyncio.sleep(2)
        assert int(await sim.client.get("n")) > down


def test_an_error_of_a_program_fails_the_test_but_a_lost_connection_does_not():
    async def fails():
        raise ZeroDivisionError

    tries = []

    async def loses():
        tries.append(1)
        raise redis.ConnectionError

    @simulation(seeds=1, chaos=0)
    async def test(sim):
        sim.start("one", loses)
        await asyncio.sleep(10)
        assert len(tries) > 5
        sim.start("two", fails)
        await asyncio.sleep(10)
        raise AssertionError("not reached")

    with pytest.raises(ZeroDivisionError) as raised:
        test()
    assert "two" in raised.value.__notes__[0]


def test_fixtures_are_passed_on(tmp_path):
    seen = []

    @simulation(seeds=2, chaos=0)
    async def test(sim, folder):
        seen.append((sim.seed, folder))

    test(folder=tmp_path)
    assert seen == [(0, tmp_path), (1, tmp_path)]


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="chaos"):
        simulation(chaos=2)
    with pytest.raises(ValueError, match="empty"):
        simulation(seeds=0)
    with pytest.raises(TypeError, match="coroutine"):
        simulation(print)


def test_processes_report_the_seed_that_one_process_reports():
    notes = []
    for jobs in (1, 2, 3):
        with pytest.raises(AssertionError) as found:
            simulation(seeds=40, jobs=jobs, chaos=0)(wrong)()
        notes.append((str(found.value), found.value.__notes__))
    assert notes[0] == notes[1] == notes[2]


def test_processes_share_the_seeds_and_all_are_run(tmp_path):
    @simulation(seeds=range(10, 20), jobs=0 if os.cpu_count() > 1 else 2, chaos=0)
    async def test(sim):
        (tmp_path / str(sim.seed)).write_text(str(os.getpid()))

    test()
    ran = {int(path.name): int(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(ran) == list(range(10, 20))
    assert len(set(ran.values())) > 1
    assert os.getpid() not in ran.values()


def test_a_seed_that_fails_in_a_child_alone_and_a_child_that_dies_are_errors():
    parent = os.getpid()

    @simulation(seeds=4, jobs=2, chaos=0)
    async def elsewhere(sim):
        assert os.getpid() == parent

    with pytest.raises(RuntimeError, match="seed 0 failed in another process, and passes in this one"):
        elsewhere()

    @simulation(seeds=4, jobs=2, chaos=0)
    async def dies(sim):
        os._exit(7)

    with pytest.raises(RuntimeError, match="status 7"):
        dies()
    with pytest.raises(ValueError, match="jobs"):
        simulation(jobs=-1)


def test_a_skip_of_a_test_is_one_with_processes_too():
    @simulation(seeds=4, jobs=2, chaos=0)
    async def test(sim):
        pytest.skip("not today")

    with pytest.raises(pytest.skip.Exception, match="not today"):
        test()
