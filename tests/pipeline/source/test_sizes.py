"""pipeline/source/sizes.py: bytes bound a reply and a batch, and not rows."""

import tracemalloc

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from support.pipeline.group_scene import SCHEMA, Scene

from rillet.pipeline.group.stream_reader import GroupStreamReader
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions
from rillet.pipeline.source.sizes import _COLUMN_BYTES, BATCH_BYTES, EntryTooLargeError, cut


@pytest.fixture(params=["rillet", "redis810"])
def connection(request, running):
    with Connection(Endpoint(port=running(request.param).port)) as connection:
        yield connection
        connection.call("DEL", "large")


def test_large_values_take_little_memory(connection):
    """1,100 values of 2 MiB, a reply of 1,000 at once: 6 GB of memory, and an error of Arrow beyond 2 GiB. A tenth of it here."""
    value = b"x" * (2 << 20)
    for _ in range(110):
        connection.call("XADD", "large", "*", "n", value)
    words = {"port": str(connection.endpoint.port), "streams": "large"}
    reader = RangeBatchReader(default_schema(), BatchOptions.of(words))
    tracemalloc.start()
    rows = 0
    for part in reader.partitions():
        for batch in reader.read(part):
            assert batch.nbytes <= BATCH_BYTES + (1 << 20)
            rows += batch.num_rows
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 110
    assert peak < 400 << 20


def test_large_values_of_a_group_are_cut_by_bytes(running):
    with Scene(running("rillet")) as scene, Connection(Endpoint(port=scene.given["port"])) as connection:
        value = b"x" * (2 << 20)
        for _ in range(60):
            connection.call("XADD", scene.stream, "*", "n", value)
        reader = scene.reader()
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end["rows"] == 60
        sizes = [batch.nbytes for part in reader.partitions(start, end) for batch in reader.read(part)]
        assert max(sizes) <= BATCH_BYTES + (1 << 20)
        reader.stop()
        connection.call("DEL", scene.stream)


def lengths(reader, parts):
    """The rows of each task, as streams and bytes."""
    return [
        [
            (row["stream"], sum(len(each["value"]) for each in row["fields"]))
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        for part in parts
    ]


@pytest.mark.parametrize("way", ["batch", "range", "limited", "group"])
def test_a_task_reads_about_as_many_bytes_as_allowed(running, way):
    with Scene(running("rillet"), group=None, consumer=None, fetchSize=5) as scene:
        short = f"{scene.stream}-short"
        for number in range(1, 101):  # ids of one pace, by which batch reads are cut
            scene.call("XADD", scene.stream, f"{number}-0", "n", "x" * 100_000)
        for number in range(500):
            scene.call("XADD", short, "*", "n", number)
        given = scene.given | {"streams": f"{scene.stream},{short}", "maxBytesPerPartition": 1_000_000}
        if way == "batch":
            reader = RangeBatchReader(default_schema(), BatchOptions.of(scene.words(given)))
            parts = reader.partitions()
        else:
            more = {"group": {"mode": "group", "group": "g"}, "limited": {"maxRowsPerTrigger": 10_000}}.get(
                way, {}
            )
            given = scene.words(given | more)
            if way == "group":
                reader = GroupStreamReader(SCHEMA, given)
            else:
                reader = RangeStreamReader(default_schema(), RangeStreamOptions.of(given))
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadMaxRows(10_000))
            parts = reader.partitions(start, end)
        tasks = lengths(reader, parts)
        rows = [row for task in tasks for row in task]
        assert sorted(size for name, size in rows if name == scene.stream) == [100_000] * 100
        assert sum(name == short for name, _ in rows) == 500
        assert 10 <= len(tasks) <= 30
        assert max(sum(size for _, size in task) for task in tasks) <= 1_600_000
        if way != "batch":
            reader.stop()
        scene.call("DEL", scene.stream, short)


def test_a_value_beyond_a_column_is_a_clear_error():
    class Long(bytes):
        def __len__(self):
            return _COLUMN_BYTES + 1

    with pytest.raises(
        EntryTooLargeError, match=r"entry 7-0 has 2,147,483,\d+ bytes: a column of Spark has room for 2 GiB"
    ):
        list(cut([[b"7-0", [b"n", Long(b"x")]]], _COLUMN_BYTES + 4))


def test_entries_are_cut_in_their_order():
    entries = [[b"%d-0" % at, [b"n", b"x" * (10 << 20)]] for at in range(7)]
    parts = list(cut(entries, 70 << 20))
    assert [entry for part, _ in parts for entry in part] == entries
    assert [len(part) for part, _ in parts] == [3, 3, 1]
