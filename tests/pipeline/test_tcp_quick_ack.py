"""pipeline/tcp_quick_ack.py: what Spark unpickles in a task lets the sender go on."""

import pickle
import socket
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql.types import LongType, StructType

from rillet.pipeline import tcp_quick_ack
from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.ledger.format import FilesOptions, FollowingOptions, LedgerReader, LedgerStreamReader
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.options import OptionError
from rillet.pipeline.sink.spark_writers import BatchWriter, StreamWriter
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions
from rillet.pipeline.tcp_quick_ack import acknowledge_now

ROWS = StructType().add("n", LongType())


@pytest.fixture
def pair():
    """Two ends of a TCP connection in this process; the second one puts acknowledgements off."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    with sender, receiver:
        receiver.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield sender, receiver


def puts_off(connection):
    return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


def test_every_connection_acknowledges_at_once_and_stays_open(pair, tmp_path):
    sender, receiver = pair
    assert puts_off(receiver)
    here, there = socket.socketpair()
    with (tmp_path / "a file").open("wb"), here, there:
        assert acknowledge_now() >= 2
    assert not puts_off(receiver)
    sender.sendall(b"x")
    assert receiver.recv(10) == b"x"


def test_systems_that_cannot_be_asked_are_left_alone(pair, monkeypatch):
    monkeypatch.setattr(tcp_quick_ack, "_QUICKACK", None)
    assert acknowledge_now() == 0
    assert puts_off(pair[1])


@pytest.mark.parametrize("word", ["0", "false", "off"])
def test_a_switch_in_the_environment_leaves_connections_alone(word, pair, monkeypatch):
    monkeypatch.setenv("RILLET_QUICK_ACK", word)
    assert acknowledge_now() == 0
    assert puts_off(pair[1])
    monkeypatch.setenv("RILLET_QUICK_ACK", "1")
    assert acknowledge_now() >= 2
    assert not puts_off(pair[1])


def test_a_switch_that_says_neither_is_refused(monkeypatch):
    monkeypatch.setenv("RILLET_QUICK_ACK", "perhaps")
    with pytest.raises(OptionError, match="'RILLET_QUICK_ACK' takes true or false, not 'perhaps'"):
        acknowledge_now()


def test_this_spark_does_not_set_tcp_nodelay_itself():
    """Once it does, the switch is to be off where that Spark runs."""
    [core] = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(core) as jar:
        sockets = [name for name in jar.namelist() if name.startswith("org/apache/spark/api/python/")]
        assert any("PythonWorkerFactory" in name for name in sockets)
        setting = [
            name
            for name in sockets
            if any(word in jar.read(name) for word in (b"TCP_NODELAY", b"setTcpNoDelay"))
        ]
    assert setting == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: RangeStreamReader(ROWS, RangeStreamOptions.of({"streams": "s"})),
        lambda: RangeBatchReader(ROWS, BatchOptions.of({"streams": "s"})),
        lambda: GroupStreamReader(default_schema("", group_columns()), {"streams": "s", "group": "g"}),
        lambda: LedgerReader(FilesOptions(path="aof")),
        lambda: LedgerStreamReader(FollowingOptions(path="aof")),
        lambda: BatchWriter(ROWS, {"stream": "s"}, overwrite=False),
        lambda: StreamWriter(ROWS, {"stream": "s"}),
    ],
    ids=["range stream", "range", "group", "ledger", "ledger stream", "write", "stream write"],
)
def test_everything_that_a_task_unpickles_acknowledges_at_once(make, pair):
    made = make()
    words = pickle.dumps(made)
    assert puts_off(pair[1])
    assert type(pickle.loads(words)) is type(made)
    assert not puts_off(pair[1])
