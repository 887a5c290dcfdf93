"""The rights that docs/spark.md lists are enough for each way to read and write."""

import re
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import LongType, StructType

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import Connection, packed
from rillet.pipeline.redis.options import Endpoint, OptionError, Options
from rillet.pipeline.sink.exactly_once import Publisher
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.sink.xadd_encoding import Chunk
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.offsets import OffsetError
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
RULES = dict(
    line.split(maxsplit=1)
    for line in re.search(r"<!-- acl -->\n```\n(.*?)\n```", PAGE, re.DOTALL)[1].splitlines()
)


@pytest.fixture(params=["rillet", "redis810"])
def admin(request, running):
    with Connection(Endpoint(port=running(request.param).port)) as connection:
        connection.call("FLUSHALL")
        for number in range(20):
            connection.call("XADD", "orders", "*", "n", number)
        yield connection
        connection.call("FLUSHALL")
        connection.call("ACL", "DELUSER", "engineer")


def words(admin, way, **more):
    admin.call("ACL", "SETUSER", "engineer", "reset", *RULES[way].split())
    return {
        "port": str(admin.endpoint.port), "username": "engineer", "password": "any", "retries": "0",
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("way", "more"),
    [
        ("range", {"streams": "orders"}),
        ("pattern", {"streamsPattern": "orders*"}),
        ("bytes", {"streams": "orders", "maxBytesPerTrigger": "100"}),
        ("lenient", {"streams": "orders", "failOnDataLoss": "false"}),
    ],
)
def test_ranges_are_read(admin, caplog, way, more):
    given = words(admin, way, startingOffsets="earliest", **more)
    reader = RangeStreamReader(default_schema(), RangeStreamOptions.of(given))
    offset, rows = reader.initialOffset(), 0
    while (end := reader.latestOffset(offset, ReadMaxBytes(100))) != offset:
        parts = reader.partitions(offset, end)
        rows += sum(batch.num_rows for part in parts for batch in reader.read(part))
        offset = end
    reader.stop()
    assert rows == 20
    assert not caplog.records


@pytest.mark.parametrize("way", ["group", "letters", "lenient group"])
def test_groups_are_read(admin, caplog, way):
    more = {"maxDeliveries": "1", "deadLetterStream": "orders-dead"} if way == "letters" else {}
    if way == "lenient group":
        way, more = "group", {"failOnDataLoss": "false"}
    given = words(
        admin, way, streams="orders", group="g", startingOffsets="earliest", claimMinIdleMs="0", **more
    )
    if more == {"failOnDataLoss": "false"}:
        admin.call("ACL", "SETUSER", "engineer", "~rillet:gone:*")
    schema = default_schema("", group_columns())
    admin.call("XGROUP", "CREATE", "orders", "g", "0")
    admin.call("XREADGROUP", "GROUP", "g", "other", "COUNT", 2, "STREAMS", "orders", ">")
    reader = GroupStreamReader(schema, given)
    offset = reader.initialOffset()
    end = reader.latestOffset(offset, ReadAllAvailable())
    reader.stop()
    rows = 0
    for _ in range(2):  # as it is, and run again
        reader = GroupStreamReader(schema, given)
        rows = sum(batch.num_rows for part in reader.partitions(offset, end) for batch in reader.read(part))
        reader.stop()
    reader = GroupStreamReader(schema, given)
    reader.latestOffset(end, ReadAllAvailable())
    reader.stop()
    assert rows > 0
    assert admin.call("XLEN", "orders-dead") == (2 if way == "letters" else 0)
    assert not [record for record in caplog.records if "NOPERM" in record.getMessage()]


def test_rows_are_written(admin):
    given = words(admin, "sink", stream="orders-billed", chunkRows="2", inlineBytes="0")
    options = SinkOptions.of(given, StructType().add("n", LongType()), overwrite=False)
    with Connection(
        Endpoint.of(Options({name: given[name] for name in ("port", "username", "password", "retries")}))
    ) as connection:
        publisher = Publisher(connection, options, "query")
        chunk = Chunk(packed([("XADD", "orders-billed", "*", "n", "1")]), 1)
        assert publisher.publish(0, [chunk])
        assert publisher.publish(1, [chunk] * 5)  # in chunks, which are staged
    assert admin.call("XLEN", "orders-billed") == 6


# What else an engineer gets wrong


def test_a_table_without_options_says_why():
    with pytest.raises(OptionError, match="Spark drops the OPTIONS of CREATE TABLE"):
        BatchOptions.of({})


def test_the_checkpoint_of_another_database_is_refused(admin):
    def reader(db):
        given = {
            "port": str(admin.endpoint.port), "db": db, "streams": "orders", "startingOffsets": "earliest",
        }  # fmt: skip
        return RangeStreamReader(default_schema(), RangeStreamOptions.of(given))

    one, other = reader("0"), reader("1")
    offset = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    with pytest.raises(OffsetError, match="of database 0, the query reads database 1"):
        other.latestOffset(offset, ReadAllAvailable())
    one.stop()
    other.stop()


def test_writes_of_one_id_share_a_marker(admin):
    given = {"port": str(admin.endpoint.port), "stream": "orders-billed", "writeId": "billing"}
    schema = StructType().add("n", LongType())
    chunk = Chunk(packed([("XADD", "orders-billed", "*", "n", "1")]), 1)
    for number in (1, 1, 2, 5, 4, 5):
        options = SinkOptions.of(given | {"writeNumber": str(number)}, schema, overwrite=False)
        Publisher(admin, options, "billing", rising=True).publish(number, [chunk])
    assert admin.call("XLEN", "orders-billed") == 3
    assert len(admin.call("KEYS", "rillet:sink:*")) == 1
    options = SinkOptions.of(given | {"writeId": "once", "markerTtlMs": "60000"}, schema, overwrite=False)
    publisher = Publisher(admin, options, "once")
    publisher.publish(0, [chunk])
    assert 0 < admin.call("TTL", publisher.marker) <= 60
    with pytest.raises(OptionError, match="'writeNumber' goes with 'writeId'"):
        SinkOptions.of({"stream": "s", "writeNumber": "1"}, schema, overwrite=False)
