"""A target that went back is noticed, and a batch counts as done when replicas or the file have it."""

import contextlib
import json
import os
import signal

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from support.deployments.replication import follow, in_step, start
from support.pipeline.histories import cut_off
from support.pipeline.sink_scene import Query, Scene, numbers_of, rows
from support.servers import start_server

from rillet.pipeline.redis.connection import Connection, ConnectionLost
from rillet.pipeline.redis.options import Endpoint, OptionError
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.sink.xadd_sending import SinkError
from rillet.pipeline.source.losses import DataLossError

REAL = ["redis810", "valkey", "rillet"]


def picture(scene):
    """Everything that the sink wrote, as DUMP has it."""
    return {key: scene.call("DUMP", key) for key in scene.call("KEYS", f"*{scene.stream}*")}


def put_back(scene, kept):
    for key in scene.call("KEYS", f"*{scene.stream}*"):
        scene.call("DEL", key)
    for key, dump in kept.items():
        scene.call("RESTORE", key, 0, dump)


def strict_and_lenient(scene, monkeypatch):
    strict = Query(scene, monkeypatch)
    scene.given["failOnDataLoss"] = "false"
    return strict, Query(scene, monkeypatch)


# A target that was rolled back


def test_a_target_that_was_rolled_back_is_noticed(server, monkeypatch, caplog):
    with Scene(server) as scene:
        strict, lenient = strict_and_lenient(scene, monkeypatch)
        for batch in (0, 1):
            strict.run(batch, [rows(1, batch)])
        kept = picture(scene)
        for batch in (2, 3):
            strict.run(batch, [rows(1, batch)])
        put_back(scene, kept)
        for _ in range(2):
            with pytest.raises(
                DataLossError, match=r'says {"v": 2, "batch": 1} where batch 3 was .*batches 2 to 3 are not'
            ):
                strict.run(4, [rows(1, 4)])
        assert numbers_of(scene) == [0, 1]
        lenient.run(4, [rows(1, 4)])
        assert caplog.text.count("batches 2 to 3") == 1
        strict.run(5, [rows(1, 5)])
        assert numbers_of(scene) == [0, 1, 4, 5]


def test_a_target_that_was_emptied_is_noticed(server, monkeypatch):
    with Scene(server) as scene:
        strict, lenient = strict_and_lenient(scene, monkeypatch)
        strict.run(0, [rows(1)])
        put_back(scene, {})
        with pytest.raises(
            DataLossError, match=r"is not there where batch 0 was published.*batch 0 is not in it"
        ):
            strict.run(1, [rows(1)])
        lenient.run(1, [rows(1, 1)])
        assert numbers_of(scene) == [1]


def test_a_batch_without_rows_moves_the_marker(server, monkeypatch):
    with Scene(server) as scene:
        query = Query(scene, monkeypatch)
        for batch, count in enumerate((0, 2, 0, 0, 1)):
            query.run(batch, [rows(count)])
            (marker,) = scene.left()
            assert json.loads(scene.call("GET", marker)) == {"v": 2, "batch": batch}
        assert numbers_of(scene) == [0, 1, 0]


def begun(scene, query, monkeypatch):
    """A batch of four steps of which some are out, and a picture of that moment."""
    messages = query.tasks(0, [rows(12)])
    scene.crash(lambda: query.writer.commit(messages, 0), monkeypatch)
    return picture(scene)


def test_a_target_that_went_back_to_the_middle_of_a_batch_gets_the_rest_of_it(server, monkeypatch):
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        query = Query(scene, monkeypatch)
        kept = begun(scene, query, monkeypatch)
        query.run(0, [rows(12)])
        put_back(scene, kept)
        query.run(1, [rows(2, 12)])
        assert numbers_of(scene) == list(range(14))


def test_a_batch_whose_rest_is_gone_is_a_loss(server, monkeypatch):
    with Scene(server, chunkRows=3, inlineBytes=0) as scene:
        strict, lenient = strict_and_lenient(scene, monkeypatch)
        begun(scene, strict, monkeypatch)
        published = len(scene.entries())
        for key in scene.left():
            if ":plan:" in key:
                scene.call("DEL", key)
        with pytest.raises(DataLossError, match="batch 0 is not in it"):
            strict.run(1, [rows(2, 12)])
        lenient.run(1, [rows(2, 12)])
        assert numbers_of(scene) == [*range(published), 12, 13]


@pytest.mark.parametrize("kind", REAL)
def test_a_replica_of_the_target_that_was_cut_off_is_promoted(kind, monkeypatch):
    with cut_off(kind) as (master, replica, cut):
        with Scene(master) as scene:
            query = Query(scene, monkeypatch)
            query.run(0, [rows(1, 0)])
            cut()
            query.run(1, [rows(1, 1)])
        with Scene(replica, stream=scene.stream) as promoted:
            promoted.stream, promoted.query = scene.stream, scene.query
            promoted.call("REPLICAOF", "NO", "ONE")
            query = Query(promoted, monkeypatch)
            with pytest.raises(DataLossError, match="batch 1 is not in it"):
                query.run(2, [rows(1, 2)])
            for batch in (1, 2):
                query.run(batch, [rows(1, batch)])
            assert numbers_of(promoted) == [0, 1, 2]


# Waiting


@contextlib.contextmanager
def stopped(process):
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize(("kind", "chunk"), [("redis810", 0), ("redis810", 2), ("valkey", 0), ("rillet", 0)])
def test_a_batch_is_done_when_replicas_have_it(kind, chunk, monkeypatch):
    with start(kind) as master, start(kind) as replica:
        follow(replica, master.port)
        in_step(master, replica)
        with Scene(master, wait="replicas:1", waitTimeoutMs=100, chunkRows=chunk) as scene:
            query = Query(scene, monkeypatch)
            with stopped(replica):
                for _ in range(3):
                    # Again, too, over a connection that has written nothing yet.
                    with pytest.raises(
                        SinkError, match="0 of 1 replicas have what was written, after 100 ms"
                    ):
                        query.run(0, [rows(5)])
            scene.given["waitTimeoutMs"] = 20_000
            query = Query(scene, monkeypatch)
            query.run(0, [rows(5)])
            query.run(1, [rows(5, 5)])
            assert numbers_of(scene) == list(range(10))
            with replica.wire() as wire:
                assert len(wire.call("XRANGE", scene.stream, "-", "+").plain()) == 10


@pytest.mark.parametrize("kind", REAL)
def test_a_batch_is_done_when_the_file_has_it(kind, monkeypatch):
    with start_server(kind) as server, Scene(server, wait="aof") as scene:
        query = Query(scene, monkeypatch)
        for _ in range(2):
            with pytest.raises(SinkError, match=r"refused WAITAOF .*appendonly is disabled"):
                query.run(0, [rows(1)])
        scene.call("CONFIG", "SET", "appendonly", "yes")
        scene.call("CONFIG", "SET", "appendfsync", "everysec")
        query.run(0, [rows(1)])
        query.run(1, [rows(1, 1)])
        assert numbers_of(scene) == [0, 1]


def test_tasks_that_write_directly_wait_themselves(running):
    with Scene(running("rillet"), delivery="at-least-once", wait="replicas:1", waitTimeoutMs=50) as scene:
        with pytest.raises(SinkError, match="0 of 1 replicas"):
            scene.save(rows(3))
        assert numbers_of(scene) == [0, 1, 2]


def test_a_batch_write_waits_too(running):
    with Scene(running("rillet"), wait="replicas:1", waitTimeoutMs=50, writeId="w") as scene:
        for _ in range(2):
            with pytest.raises(SinkError, match="0 of 1 replicas"):
                scene.save(rows(3))
        assert numbers_of(scene) == [0, 1, 2]


def test_a_connection_that_is_held_does_not_turn_into_another(running):
    with Connection(Endpoint(port=running("rillet").port)) as connection, running("rillet").wire() as other:
        connection.hold()
        number = connection.call("CLIENT", "ID")
        other.call("CLIENT", "KILL", "ID", number)
        with pytest.raises(ConnectionLost):
            connection.call("PING")
        assert connection.call("PING") == b"PONG"  # closed by that


SCHEMA = StructType([StructField("n", LongType())])


@pytest.mark.parametrize(
    ("words", "wait"),
    [
        ({}, []),
        ({"wait": "replicas:2"}, [("WAIT", 2, 10_000)]),
        ({"wait": "AOF"}, [("WAITAOF", 1, 0, 10_000)]),
        ({"wait": "replicas:1, aof", "waitTimeoutMs": "500"}, [("WAIT", 1, 500), ("WAITAOF", 1, 0, 500)]),
    ],
)
def test_what_to_wait_for_is_an_option(words, wait):
    found = SinkOptions.of({"stream": "s", **words}, SCHEMA, overwrite=False).wait_commands
    assert found == wait
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"wait": "replicas"}, "takes replicas:<number>, aof"),
        ({"wait": "replicas:0"}, "takes replicas:<number>, aof"),
        ({"wait": "replicas:1,disk"}, "takes replicas:<number>, aof"),
        ({"wait": "aof", "waitTimeoutMs": "30000"}, "less than 'timeoutMs'"),
        ({"waitTimeoutMs": "5"}, "goes with 'wait'"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(words, message):
    with pytest.raises(OptionError, match=message):
        SinkOptions.of({"stream": "s", **words}, SCHEMA, overwrite=False)
