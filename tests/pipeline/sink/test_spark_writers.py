"""The sink without a JVM: tasks and driver called as Spark calls them, on Rillet, redis-server and Valkey."""

import json

import pyarrow as pa
import pytest
from support.pipeline.sink_scene import Scene, numbers_of, rows

from rillet.pipeline.redis.options import OptionError
from rillet.pipeline.sink.xadd_encoding import RowError
from rillet.pipeline.sink.xadd_sending import SinkError


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_write_appends_all_rows(server, delivery):
    with Scene(server, delivery=delivery) as scene:
        scene.save(rows(20), rows(5, 20))
        scene.save(rows(5, 25))
        assert numbers_of(scene) == list(range(30))
        assert scene.left() == []


def test_nothing_is_published_before_all_tasks_are_done(server):
    with Scene(server) as scene:
        writer = scene.writer()
        message = writer.write(iter(pa.table(rows(20)).to_batches()))
        assert scene.entries() == []
        with pytest.raises(SinkError, match="1 of 2 tasks"):
            writer.commit([message, None])
        writer.abort([message, None])
        assert scene.entries() == []


def test_rows_that_are_too_many_for_spark_are_staged_in_the_server_and_go_with_the_job(server):
    with Scene(server, inlineBytes=100) as scene:
        writer = scene.writer()
        message = writer.write(iter(pa.table(rows(50)).to_batches(max_chunksize=10)))
        assert len(scene.left()) == 5
        assert all(scene.call("PTTL", key) > 0 for key in scene.left())
        writer.commit([message])
        assert numbers_of(scene) == list(range(50))
        assert scene.left() == []
        message = writer.write(iter(pa.table(rows(50)).to_batches()))
        assert scene.left()
        writer.abort([message, None])
        assert scene.left() == []


def test_staged_rows_that_expired_fail_the_batch(server):
    with Scene(server, inlineBytes=0) as scene:
        writer = scene.writer()
        message = writer.write(iter(pa.table(rows(5)).to_batches()))
        for key in scene.left():
            scene.call("DEL", key)
        with pytest.raises(SinkError, match="staged rows are gone"):
            writer.commit([message])
        assert scene.entries() == []


def test_a_write_that_cannot_be_repeated_leaves_nothing_for_good(server, monkeypatch):
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        writer = scene.writer()
        message = writer.write(iter(pa.table(rows(12)).to_batches()))
        scene.crash(lambda: writer.commit([message]), monkeypatch)
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
        assert json.loads(scene.call("GET", marker)) == {"v": 2, "batch": 0}


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
        writer = scene.writer(overwrite=True)
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


def test_a_full_server_is_an_error(running):
    with Scene(running("redis7")) as scene:
        scene.call("CONFIG", "SET", "maxmemory", 1)
        try:
            with pytest.raises(SinkError, match=r"5 of 5 XADD failed: OOM"):
                scene.save(rows(5))
        finally:
            scene.call("CONFIG", "SET", "maxmemory", 0)
        assert scene.entries() == []
        assert scene.left() == []


@pytest.mark.parametrize("text", ["hello", "7", '{"v": 3, "batch": 0}', '{"batch": 0}'])
def test_a_marker_that_is_something_else_is_refused(server, text):
    with Scene(server, writeId="w") as scene:
        scene.save(rows(1))
        scene.call("SET", scene.left()[0], text)
        with pytest.raises(SinkError, match="is no marker of this sink"):
            scene.save(rows(1))


# IDMP


def test_idmp_drops_what_a_task_writes_again(running):
    with Scene(running("rillet"), delivery="idmp") as scene:
        writer = scene.writer()
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
    ("given", "error"),
    [
        ({"stream": None}, "Give option 'stream', or a column 'stream'"),
        ({"streamColumn": "n"}, "options 'streamColumn' and 'stream' exclude each other"),
        ({"idColumn": "nope"}, "'idColumn' names 'nope'"),
        ({"idColumn": "n"}, "no column is left"),
        ({"fieldsColumn": "n"}, "'n' is no array of structs"),
        ({"maxLen": 1, "minId": "1-0"}, "options 'minId' and 'maxLen' exclude each other"),
        ({"approximate": "true"}, "goes with 'maxLen' or 'minId'"),
        ({"minId": "x"}, "not a stream id"),
        ({"delivery": "at-most-once"}, "takes exactly-once, at-least-once, idmp"),
        ({"maxlength": 3}, "unknown option"),
        ({"producer": "p"}, "goes with delivery=idmp"),
    ],
)
def test_wrong_options_are_refused(rillet_process, given, error):
    with Scene(rillet_process) as scene, pytest.raises(OptionError, match=error):
        scene.save(rows(1), **given)


@pytest.mark.parametrize(
    ("given", "error"),
    [({"delivery": "at-least-once"}, "delivery=exactly-once"), ({"idColumn": "id"}, "keeps the stream's last id")],
)  # fmt: skip
def test_overwriting_has_its_limits(rillet_process, given, error):
    with Scene(rillet_process) as scene, pytest.raises(OptionError, match=error):
        scene.save({"id": ["1-0"], "n": [1]}, overwrite=True, **given)


def test_a_row_without_fields_is_an_error(rillet_process):
    with Scene(rillet_process) as scene, pytest.raises(RowError, match="row 1 of its task has no fields"):
        scene.save({"n": [1, None]})
