"""Micro-batches into the sink without a JVM: each is there once, whatever crashes and whatever else writes."""

import itertools
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.pipeline.micro_batches import Crash, Faults, fail_connections
from support.pipeline.sink_scene import Query, Scene, numbers_of, rows
from support.servers import KINDS
from support.thorough import examples

from rillet.pipeline.redis.connection import Connection, ConnectionLost
from rillet.pipeline.sink import spark_writers
from rillet.pipeline.sink.exactly_once import Publisher
from rillet.pipeline.sink.xadd_sending import SinkError


def test_queries_do_not_know_each_other(server, monkeypatch):
    with Scene(server) as scene:
        query = Query(scene, monkeypatch)
        query.run(0, [rows(1)])
        query.properties = {"sql.streaming.queryId": "another"}
        query.run(0, [rows(1, 5)])
        assert numbers_of(scene) == [0, 5]


def test_output_mode_complete_replaces_the_stream(server, monkeypatch):
    with Scene(server) as scene:
        query = Query(scene, monkeypatch, overwrite=True)
        query.run(0, [rows(3)])
        query.run(1, [rows(2, 10)])
        assert numbers_of(scene) == [10, 11]


def test_a_task_without_a_batch_is_refused(rillet_process, monkeypatch):
    with Scene(rillet_process) as scene:
        query = Query(scene, monkeypatch)
        query.properties = {}
        with pytest.raises(SinkError, match="is it a streaming query"):
            query.run(0, [rows(1)])


def test_a_large_batch_is_finished_from_its_first_rows(server, monkeypatch):
    """A task may make its rows in another order when it runs again: half of each order would be wrong."""
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        query = Query(scene, monkeypatch)
        messages = query.tasks(0, [rows(12)])
        scene.crash(lambda: query.writer.commit(messages, 0), monkeypatch)
        # For as long as it takes: staged rows that a marker counts on do not expire.
        left = [scene.call("PTTL", key) for key in scene.left() if ":staged:" in key]
        assert left
        assert min(left) > 300_000_000_000  # years, without the right to PERSIST
        query.run(0, [{"n": list(reversed(range(12)))}])
        assert numbers_of(scene) == list(range(12))
        assert len(scene.left()) == 1


@pytest.mark.parametrize("options", [{}, {"chunkRows": 3}, {"inlineBytes": 0}])
@pytest.mark.parametrize("after", [False, True])
def test_a_connection_that_breaks_once_costs_nothing(rillet_process, monkeypatch, options, after):
    faults = Faults()
    fail_connections(monkeypatch, faults, spark_writers)
    for number in range(12):
        with Scene(rillet_process, **options) as scene:
            query = Query(scene, monkeypatch)
            messages = query.tasks(0, [rows(9)])
            faults.arm(number, after=after, crash=False)
            query.writer.commit(messages, 0)
            faults.disarm()
            assert numbers_of(scene) == list(range(9))


actions = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 1000)),
    st.tuples(st.just("fault"), st.tuples(st.integers(0, 40), st.booleans(), st.booleans())),
    st.tuples(st.just("zombie"), st.integers(0, 1000)),
)


@pytest.mark.parametrize("kind", KINDS)
def test_after_crashes_anywhere_each_batch_is_there_once(running, monkeypatch, kind):
    faults = Faults()
    fail_connections(monkeypatch, faults, spark_writers)

    @settings(
        max_examples=examples(60 if kind == "rillet" else 25),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        st.lists(actions, max_size=15),
        st.lists(st.integers(1, 12), min_size=1, max_size=4),
        st.sampled_from([0, 3, 5]),
    )
    # A crash between the last transaction of a batch and what tidies up behind it.
    @example([("run", 0), ("fault", (29, False, True)), ("run", 0), ("run", 1)], [1, 4, 6], 5)
    def run(todo, sizes, chunk):
        faults.disarm()
        with Scene(running(kind), chunkRows=chunk, inlineBytes=40) as scene:
            query = Query(scene, monkeypatch)
            starts = list(itertools.accumulate(sizes, initial=0))
            batch = 0

            def tables(of: int, seed: int) -> list[dict[str, Any]]:
                """The rows of a batch as a shuffle may deal them out."""
                members = list(range(starts[of], starts[of + 1]))
                random.Random(seed).shuffle(members)
                return [{"n": members[: seed % 5]}, {"n": members[seed % 5 :]}]

            for what, how in [*todo, *[("end", 0)] * len(sizes)]:
                if batch == len(sizes):
                    break
                if what == "fault":
                    faults.arm(how[0], after=how[1], crash=how[2])
                    continue
                if what == "end":
                    faults.disarm()
                try:
                    if what == "zombie":
                        # A driver that was thought dead has made its rows, and publishes when the other one has.
                        old = query.tasks(batch, tables(batch, how))
                        query.run(batch, tables(batch, how + 1))
                        query.writer.commit(old, batch)
                    else:
                        query.run(batch, tables(batch, how))
                    batch += 1
                except (Crash, ConnectionLost):
                    faults.disarm()
            assert sorted(numbers_of(scene)) == list(range(starts[-1]))
            found = numbers_of(scene)
            for at in range(len(sizes)):  # and batch by batch
                assert sorted(found[starts[at] : starts[at + 1]]) == list(range(starts[at], starts[at + 1]))
            lasting = [key for key in scene.left() if scene.call("PTTL", key) < 0]
            assert len(lasting) == 1

    run()


def test_two_drivers_at_once_publish_once(server, monkeypatch):
    """Between a driver's look at the marker and its transaction another one publishes."""
    with Scene(server) as scene:
        query = Query(scene, monkeypatch)
        mine, theirs = query.tasks(0, [rows(3)]), query.tasks(0, [rows(3)])
        look = Publisher.progress
        looks = itertools.count()

        def progress(self):
            seen = look(self)
            if next(looks) == 0:
                query.writer.commit(theirs, 0)
            return seen

        monkeypatch.setattr(Publisher, "progress", progress)
        query.writer.commit(mine, 0)
        assert numbers_of(scene) == [0, 1, 2]


def test_what_failed_in_part_is_left_alone_once_another_driver_went_on(rillet_process, monkeypatch):
    with Scene(rillet_process, stream=None) as scene:
        query = Query(scene, monkeypatch, stream=pa.string())
        good, bad = scene.stream, f"{scene.stream}-b"
        scene.call("SET", bad, "x")
        mine = query.tasks(0, [{"stream": [good, bad], "n": [1, 2]}])
        theirs = query.tasks(1, [{"stream": [good], "n": [3]}])
        undo = Publisher._undo

        def undo_late(self, *given):
            query.writer.commit(theirs, 1)
            undo(self, *given)

        monkeypatch.setattr(Publisher, "_undo", undo_late)
        with pytest.raises(SinkError, match="1 of 2 XADD failed"):
            query.writer.commit(mine, 0)
        query.writer.commit(theirs, 1)
        assert numbers_of(scene) == [1, 3]


@pytest.mark.parametrize("after", [False, True], ids=["before a request", "before its reply"])
@pytest.mark.parametrize("bad_id", [False, True], ids=["a key is no stream", "an id is out of order"])
def test_what_failed_in_part_is_taken_back_over_a_connection_that_breaks(
    rillet_process, monkeypatch, bad_id, after
):
    faults = Faults()
    fail_connections(monkeypatch, faults, spark_writers)
    honest = Connection.exchange

    def exchange(self, request, names, **how):
        replies = honest(self, request, names, **how)
        if {"XADD", "EXEC"} <= set(names):
            faults.arm(number, after=after, crash=False)
        return replies

    monkeypatch.setattr(Connection, "exchange", exchange)
    for number in itertools.count():
        faults.disarm()
        with Scene(rillet_process, stream=None, idColumn="id") as scene:
            query = Query(scene, monkeypatch, stream=pa.string(), id=pa.string())
            good, bad = scene.stream, f"{scene.stream}-b"
            ids = ["1-0", "1-0", "2-0"]
            if bad_id:
                scene.call("XADD", bad, "1-1", "n", "0")
                scene.call("XADD", bad, "3-0", "n", "0")
                ids[1] = "2-0"
            else:
                scene.call("SET", bad, "x")
            batch = [{"stream": [good, bad, good], "id": ids, "n": [1, 2, 3]}]
            with pytest.raises(SinkError, match="1 of 3 XADD failed"):
                query.writer.commit(query.tasks(0, batch), 0)
            is_over = faults.left is not None
            faults.disarm()
            assert scene.entries() == []
            scene.call("DEL", bad)
            # The stream keeps its last id.
            later = [{"stream": [good, bad, good], "id": ["5-0", "5-0", "6-0"], "n": [1, 2, 3]}]
            query.run(0, later)
            assert numbers_of(scene) == [1, 3]
        if is_over:
            assert number > 2
            return


def test_what_failed_in_part_and_cannot_be_taken_back_is_an_error_that_says_what_to_do(
    rillet_process, monkeypatch
):
    with Scene(rillet_process, stream=None, retries=1) as scene:
        query = Query(scene, monkeypatch, stream=pa.string())
        scene.call("SET", f"{scene.stream}-b", "x")

        def undo(*_):
            raise ConnectionLost("nobody answers")

        monkeypatch.setattr(Publisher, "_undo", undo)
        with pytest.raises(
            SinkError,
            match=r"WRONGTYPE.*\(nobody answers\).* if it does, remove it before the query starts again",
        ):
            query.writer.commit(
                query.tasks(0, [{"stream": [scene.stream, f"{scene.stream}-b"], "n": [1, 2]}]), 0
            )


@pytest.mark.parametrize("then", ["batch 8 is done", "batch 9 has begun", "batch 9 is done"])
def test_a_driver_that_pauses_anywhere_harms_no_later_batch(rillet_process, monkeypatch, then):
    """A driver is held before each of its requests in turn, while another one goes on."""
    pause = 0
    while publish_with_a_pause(rillet_process, monkeypatch, pause, then):
        pause += 1
    assert pause > 5


def publish_with_a_pause(server, monkeypatch, pause, then):
    """Whether the slow driver had so many requests that it was held before that one."""
    requests = itertools.count()
    with Scene(server, chunkRows=1, inlineBytes=0) as scene:
        query = Query(scene, monkeypatch)
        mine, theirs, following = (
            [part for message in query.tasks(batch, [{"n": [n]}, {"n": [n + 1]}]) for part in message.parts]
            for batch, n in ((8, 80), (8, 80), (9, 90))
        )
        options = query.writer._options
        with Connection(options.endpoint) as first, Connection(options.endpoint) as second:
            slow, quick = (Publisher(connection, options, scene.query) for connection in (first, second))
            scene.call("SET", quick.marker, '{"v": 2, "batch": 7}')
            send = first.exchange

            def exchange(*given, **named):
                if next(requests) == pause:
                    quick.publish(8, theirs)
                    if then == "batch 9 has begun":
                        assert quick._try_to_publish(9, following) is None
                    if then == "batch 9 is done":
                        quick.publish(9, following)
                return send(*given, **named)

            first.exchange = exchange
            slow.publish(8, mine)
            quick.publish(9, following)
        assert numbers_of(scene) == [80, 81, 90, 91]
        [marker] = [key for key in scene.left() if scene.call("PTTL", key) < 0]
        assert json.loads(scene.call("GET", marker)) == {"v": 2, "batch": 9}
    return next(requests) > pause
