"""The sink without a JVM: tasks and driver called as Spark calls them, on Rillet, redis-server and Valkey."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from support.micro_batches import Crash, Faults, fail_wires
from support.servers import KINDS

from rillet.pipeline import sink
from rillet.pipeline.options import OptionError
from rillet.pipeline.sink import BatchWriter, StreamWriter
from rillet.pipeline.sink_delivery import SinkError
from rillet.pipeline.sink_publish import Publisher
from rillet.pipeline.sink_rows import RowError
from rillet.pipeline.wire import ConnectionLost, Wire

numbers = itertools.count()


class Scene:
    """One stream of one server, and a query that writes to it."""

    def __init__(self, server: Any, **options: object) -> None:
        self.wire = server.wire()
        self.stream = f"{{out{next(numbers)}}}"
        self.given = {"port": server.port, "stream": self.stream, "retryIntervalMs": 1} | options
        self.query = f"query-{self.stream}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()

    @property
    def options(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.given.items() if value is not None}

    def call(self, *words: object) -> Any:
        reply = self.wire.call(*(word if isinstance(word, bytes) else str(word) for word in words))
        assert reply.kind != "-", f"{words}: {reply.value!r}"
        return reply.plain()

    def save(self, *tables: dict[str, Any], overwrite: bool = False, **more: object) -> None:
        """A batch write, one task a table; each part and message goes through a pickle as in Spark."""
        tasks = [pa.table(each).to_batches(max_chunksize=7) for each in tables]
        self.given |= more
        writer = BatchWriter(from_arrow_schema(tasks[0][0].schema), self.options, overwrite)
        messages = [pickle.loads(pickle.dumps(writer)).write(iter(task)) for task in tasks]
        pickle.loads(pickle.dumps(writer)).commit(pickle.loads(pickle.dumps(messages)))

    def entries(self) -> list[tuple[bytes, ...]]:
        return [tuple(fields) for _, fields in self.call("XRANGE", self.stream, "-", "+")]

    def left(self) -> list[str]:
        """What the sink left, but for the stream."""
        return sorted(
            key.decode() for key in self.call("KEYS", f"*{self.stream}*") if key != self.stream.encode()
        )


@pytest.fixture(params=KINDS)
def server(request, running):
    return running(request.param)


def rows(count: int, start: int = 0) -> dict[str, list[Any]]:
    return {"n": list(range(start, start + count))}


def numbers_of(scene: Scene) -> list[int]:
    return [int(fields[1]) for fields in scene.entries()]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_write_appends_all_rows(server, delivery):
    with Scene(server, delivery=delivery) as scene:
        scene.save(rows(20), rows(5, 20))
        scene.save(rows(5, 25))
        assert numbers_of(scene) == list(range(30))
        assert scene.left() == []


def test_nothing_is_published_before_all_tasks_are_done(server):
    with Scene(server) as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        message = writer.write(iter(pa.table(rows(20)).to_batches()))
        assert scene.entries() == []
        with pytest.raises(SinkError, match="1 of 2 tasks"):
            writer.commit([message, None])
        writer.abort([message, None])
        assert scene.entries() == []


def test_rows_that_are_too_many_for_spark_are_staged_in_the_server(server):
    with Scene(server, inlineBytes=100) as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        message = writer.write(iter(pa.table(rows(50)).to_batches(max_chunksize=10)))
        assert len(scene.left()) == 5
        assert all(scene.call("PTTL", key) > 0 for key in scene.left())
        writer.commit([message])
        assert numbers_of(scene) == list(range(50))
        assert scene.left() == []


def test_a_failed_job_leaves_no_staged_rows(server):
    with Scene(server, inlineBytes=0) as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        message = writer.write(iter(pa.table(rows(50)).to_batches()))
        assert scene.left()
        writer.abort([message, None])
        assert scene.left() == []


def test_staged_rows_that_expired_fail_the_batch(server):
    with Scene(server, inlineBytes=0) as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        message = writer.write(iter(pa.table(rows(5)).to_batches()))
        for key in scene.left():
            scene.call("DEL", key)
        with pytest.raises(SinkError, match="staged rows are gone"):
            writer.commit([message])
        assert scene.entries() == []


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_a_large_batch_goes_out_in_chunks(server, inline):
    with Scene(server, chunkRows=10, inlineBytes=inline) as scene:
        scene.save(rows(35), rows(8, 35))
        assert numbers_of(scene) == list(range(43))
        assert scene.left() == []


def test_a_write_that_cannot_be_repeated_leaves_nothing_for_good(server, monkeypatch):
    faults = Faults()
    fail_wires(monkeypatch, faults, sink)
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        message = writer.write(iter(pa.table(rows(12)).to_batches()))
        faults.arm(28, after=True)
        with pytest.raises(Crash):
            writer.commit([message])
        assert 0 < len(scene.entries()) < 12
        assert scene.left()
        assert all(scene.call("PTTL", key) > 0 for key in scene.left())


def test_a_write_with_an_id_happens_once(server):
    with Scene(server, writeId="load-1") as scene:
        scene.save(rows(5))
        scene.save(rows(5))
        assert numbers_of(scene) == list(range(5))
        (marker,) = scene.left()
        assert marker.startswith("rillet:sink:{out")
        assert marker.endswith(":load-1")
        assert json.loads(scene.call("GET", marker)) == {"batch": 0}


def test_overwriting_replaces_the_entries_and_keeps_groups_and_the_last_id(server):
    with Scene(server) as scene:
        scene.save(rows(5))
        scene.call("XGROUP", "CREATE", scene.stream, "g", "0")
        last = scene.call("XRANGE", scene.stream, "-", "+")[-1][0]
        scene.save(rows(3, 100), overwrite=True)
        assert numbers_of(scene) == [100, 101, 102]
        assert scene.call("XRANGE", scene.stream, "-", "+")[0][0] > last
        assert len(scene.call("XINFO", "GROUPS", scene.stream)) == 1


def test_overwriting_in_chunks_trims_once(server):
    with Scene(server, chunkRows=4) as scene:
        scene.save(rows(5))
        scene.save(rows(10, 100), overwrite=True)
        assert numbers_of(scene) == list(range(100, 110))


def test_overwriting_with_nothing_empties_the_stream(server):
    with Scene(server) as scene:
        scene.save(rows(5))
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, True)
        writer.commit([writer.write(iter([]))])
        assert scene.entries() == []


def test_rows_choose_their_stream(server):
    with Scene(server) as scene:
        other = f"{scene.stream}-b"
        scene.save({"stream": [scene.stream, other, scene.stream], "n": [1, 2, 3]}, stream=None)
        assert scene.entries() == [(b"n", b"1"), (b"n", b"3")]
        assert [fields for _, fields in scene.call("XRANGE", other, "-", "+")] == [[b"n", b"2"]]


@pytest.mark.parametrize(
    ("trim", "left"),
    [({"maxLen": 10, "approximate": "false"}, 10), ({"minId": "5-0", "approximate": "false"}, 16)],
)
def test_the_stream_is_trimmed(server, trim, left):
    with Scene(server, idColumn="id", **trim) as scene:
        scene.save({"id": [f"{number}-0" for number in range(1, 21)], "n": list(range(20))})
        assert len(scene.entries()) == left


def test_approximate_trimming_is_asked_for_by_default(running):
    with Scene(running("redis7"), maxLen=10) as scene:
        scene.call("CONFIG", "SET", "stream-node-max-entries", 10)
        scene.save(rows(95))
        scene.call("CONFIG", "SET", "stream-node-max-entries", 100)
        assert 10 < len(scene.entries()) < 25


# Explicit ids


def test_explicit_ids_are_kept(server):
    with Scene(server, idColumn="id") as scene:
        scene.save({"id": ["1-1", "1-2", "18446744073709551615-18446744073709551615"], "n": [1, 2, 3]})
        assert [entry[0] for entry in scene.call("XRANGE", scene.stream, "-", "+")] == [
            b"1-1",
            b"1-2",
            b"18446744073709551615-18446744073709551615",
        ]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_explicit_ids_that_are_there_count_as_written(server, delivery):
    with Scene(server, idColumn="id", delivery=delivery) as scene:
        scene.save({"id": ["1-1", "1-2"], "n": [1, 2]})
        scene.save({"id": ["1-1", "1-2", "1-3"], "n": [1, 2, 3]})
        assert numbers_of(scene) == [1, 2, 3]


def test_explicit_ids_out_of_order_fail_and_leave_nothing(server):
    with Scene(server, idColumn="id") as scene:
        scene.save({"id": ["1-1"], "n": [1]})
        with pytest.raises(SinkError, match=r"1 of 3 XADD failed: the id is below .*ids must ascend.*3-0"):
            scene.save({"id": ["2-0", "5-0", "3-0"], "n": [2, 5, 3]})
        assert numbers_of(scene) == [1]
        assert scene.left() == []
        scene.save({"id": ["6-0", "5-5"], "n": [6, 5]}, oldIds="skip")
        assert numbers_of(scene) == [1, 6]


# Errors of the server


@pytest.mark.parametrize("options", [{}, {"chunkRows": 5}, {"delivery": "at-least-once"}])
def test_a_key_that_is_no_stream_fails_the_batch(server, options):
    with Scene(server, **options) as scene:
        scene.call("SET", scene.stream, "x")
        with pytest.raises(SinkError, match=r"XADD failed: WRONGTYPE .*\[XADD \{out"):
            scene.save(rows(20))


def test_what_a_failed_transaction_wrote_is_taken_back(server):
    with Scene(server, writeId="w") as scene:
        other = f"{scene.stream}-b"
        scene.call("SET", other, "x")
        good = scene.stream
        with pytest.raises(SinkError, match=r"1 of 3 XADD failed: WRONGTYPE"):
            scene.save({"stream": [good, other, good], "n": [1, 2, 3]}, stream=None)
        assert scene.entries() == []
        scene.call("DEL", other)
        scene.save({"stream": [good, other, good], "n": [1, 2, 3]})
        assert numbers_of(scene) == [1, 3]


def test_a_server_that_is_full_is_told_of(running):
    with Scene(running("redis7")) as scene:
        scene.call("CONFIG", "SET", "maxmemory", 1)
        try:
            with pytest.raises(SinkError, match=r"5 of 5 XADD failed: OOM"):
                scene.save(rows(5))
        finally:
            scene.call("CONFIG", "SET", "maxmemory", 0)
        assert scene.entries() == []
        assert scene.left() == []


def test_a_marker_that_is_something_else_is_refused(server):
    with Scene(server, writeId="w") as scene:
        scene.save(rows(1))
        scene.call("SET", scene.left()[0], "hello")
        with pytest.raises(SinkError, match="is no marker of this sink"):
            scene.save(rows(1))


# IDMP


def test_idmp_drops_what_a_task_writes_again(running):
    with Scene(running("rillet"), delivery="idmp") as scene:
        writer = BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), scene.options, False)
        for _ in range(2):
            writer.write(iter(pa.table(rows(350)).to_batches(max_chunksize=90)))
        assert numbers_of(scene) == list(range(350))


def test_idmp_takes_its_ids_from_a_column(running):
    with Scene(running("rillet"), delivery="idmp", idColumn="key", producer="p") as scene:
        scene.save({"key": ["a", "b"], "n": [1, 2]})
        scene.save({"key": ["b", "c"], "n": [2, 3]})
        assert numbers_of(scene) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_idmp_is_refused_by_a_server_without_it(running, kind):
    with (
        Scene(running(kind), delivery="idmp") as scene,
        pytest.raises(SinkError, match=r"needs XADD IDMP.*use delivery=exactly-once"),
    ):
        scene.save(rows(1))


# Options


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"stream": None}, "Give option 'stream', or a column 'stream'"),
        ({"streamColumn": "n"}, "exclude each other"),
        ({"idColumn": "nope"}, "'idColumn' names 'nope'"),
        ({"idColumn": "n"}, "no column is left"),
        ({"fieldsColumn": "n"}, "'n' is no array of structs"),
        ({"maxLen": 1, "minId": "1-0"}, "exclude each other"),
        ({"approximate": "true"}, "goes with 'maxLen' or 'minId'"),
        ({"minId": "x"}, "not a stream id"),
        ({"delivery": "at-most-once"}, "takes exactly-once, at-least-once, idmp"),
        ({"maxlength": 3}, "unknown option"),
        ({"producer": "p"}, "goes with delivery=idmp"),
    ],
)
def test_wrong_options_are_told(rillet_process, given, told):
    with Scene(rillet_process) as scene, pytest.raises(OptionError, match=told):
        scene.save(rows(1), **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"delivery": "at-least-once"}, "delivery=exactly-once"),
        ({"idColumn": "id"}, "keeps the stream's last id"),
    ],
)
def test_overwriting_has_its_limits(rillet_process, given, told):
    with Scene(rillet_process) as scene, pytest.raises(OptionError, match=told):
        scene.save({"id": ["1-0"], "n": [1]}, overwrite=True, **given)


# Streaming


class Query:
    """A streaming query that writes; its batches come from outside."""

    def __init__(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool = False, **more: pa.DataType
    ) -> None:
        self.scene = scene
        self.batch = 0
        self.schema = pa.schema({"n": pa.int64()} | more)
        self.writer = StreamWriter(from_arrow_schema(self.schema), scene.options, overwrite)
        self.told = {"sql.streaming.queryId": scene.query}
        context = SimpleNamespace(getLocalProperty=self.property, partitionId=lambda: 0)
        monkeypatch.setattr(sink, "TaskContext", SimpleNamespace(get=lambda: context))

    def property(self, name: str) -> str | None:
        return (self.told | {"streaming.sql.batchId": str(self.batch)}).get(name)

    def tasks(self, batch: int, tables: list[dict[str, Any]]) -> list[Any]:
        self.batch = batch
        return [
            self.writer.write(iter(pa.table(each, schema=self.schema).to_batches(max_chunksize=3)))
            for each in tables
        ]

    def run(self, batch: int, tables: list[dict[str, Any]]) -> None:
        messages = self.tasks(batch, tables)
        try:
            self.writer.commit(messages, batch)
        except Exception:
            self.writer.abort(messages, batch)
            raise


def test_a_batch_that_was_published_is_skipped(server, monkeypatch):
    with Scene(server) as scene:
        query = Query(scene, monkeypatch)
        for batch in (0, 0, 1, 0, 1, 2):
            query.run(batch, [rows(3, 10 * batch)])
        assert numbers_of(scene) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
        (marker,) = scene.left()
        assert json.loads(scene.call("GET", marker)) == {"batch": 2}


def test_queries_do_not_know_each_other(server, monkeypatch):
    with Scene(server) as scene:
        query = Query(scene, monkeypatch)
        query.run(0, [rows(1)])
        query.told = {"sql.streaming.queryId": "another"}
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
        query.told = {}
        with pytest.raises(SinkError, match="is it a streaming query"):
            query.run(0, [rows(1)])


def test_a_large_batch_is_finished_from_its_first_rows(server, monkeypatch):
    """A task may make its rows in another order when it runs again: half of each order would be wrong."""
    faults = Faults()
    fail_wires(monkeypatch, faults, sink)
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        query = Query(scene, monkeypatch)
        messages = query.tasks(0, [rows(12)])
        faults.arm(28, after=True)
        with pytest.raises(Crash):
            query.writer.commit(messages, 0)
        assert 0 < len(scene.entries()) < 12
        # For as long as it takes: staged rows that a marker counts on do not expire.
        assert {scene.call("PTTL", key) for key in scene.left() if ":staged:" in key} == {-1}
        query.run(0, [{"n": list(reversed(range(12)))}])
        assert numbers_of(scene) == list(range(12))
        assert len(scene.left()) == 1


def test_aborting_leaves_what_a_begun_publication_needs(server, monkeypatch):
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        query = Query(scene, monkeypatch)
        messages = query.tasks(0, [rows(12)])
        scene.call("SET", f"{scene.stream}-bad", 1)
        faults = Faults()
        fail_wires(monkeypatch, faults, sink)
        faults.arm(28, after=True)
        with pytest.raises(Crash):
            query.writer.commit(messages, 0)
        query.writer.abort(messages, 0)
        query.run(0, [rows(12)])
        assert numbers_of(scene) == list(range(12))


@pytest.mark.parametrize("options", [{}, {"chunkRows": 3}, {"inlineBytes": 0}])
@pytest.mark.parametrize("after", [False, True])
def test_a_connection_that_breaks_once_costs_nothing(rillet_process, monkeypatch, options, after):
    faults = Faults()
    fail_wires(monkeypatch, faults, sink)
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
    fail_wires(monkeypatch, faults, sink)

    @settings(
        max_examples=60 if kind == "rillet" else 25,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
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
        with Wire(options.endpoint) as first, Wire(options.endpoint) as second:
            slow, quick = (Publisher(wire, options, scene.query) for wire in (first, second))
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
        assert json.loads(scene.call("GET", marker)) == {"batch": 9}
    return next(requests) > pause


def test_a_row_without_fields_is_told_of(rillet_process):
    with Scene(rillet_process) as scene, pytest.raises(RowError, match="row 1 of its task has no fields"):
        scene.save({"n": [1, None]})
