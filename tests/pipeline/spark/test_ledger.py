"""The format redis-aof in Spark: batches, streams across rewrites, and what was pending when."""

import json
from collections import Counter

import pytest
from support.pipeline.ledger_workload import MARKS, Workload
from support.servers import start_server
from support.spark.queries import run

from rillet.pipeline.ledger.files.plan import read_ledger
from rillet.pipeline.ledger.schema import NAMES, arrow, struct
from rillet.pipeline.ledger.spans import views
from rillet.pipeline.ledger.spelling import spell_name

pytestmark = pytest.mark.spark


def rows_of(folder) -> list[tuple]:
    return [tuple(row.values()) for batch in read_ledger(str(folder)) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    """What a random run on redis-server left behind."""
    folder = tmp_path_factory.mktemp("ledger")
    found = Workload("redis7", folder, seed=5)
    try:
        found.run(200)
    finally:
        found.stop()
    return found


def test_the_arrow_schema_is_the_one_that_spark_expects():
    from pyspark.sql.pandas.types import to_arrow_schema

    assert to_arrow_schema(struct(), timezone="UTC") == arrow()


def test_a_batch_has_the_rows_of_the_serial_reader(spark, workload):
    path = str(workload.folder / "appendonlydir")
    frame = spark.read.format("redis-aof").option("splitBytes", "0").load(path)
    assert frame.columns == list(NAMES)
    assert Counter(map(tuple, frame.collect())) == Counter(rows_of(path))


def test_sql_finds_what_was_pending_at_every_moment(spark, workload):
    path = str(workload.folder / "appendonlydir")
    ledger = spark.read.format("redis-aof").load(path)
    views.register(spark, ledger, prefix="run")
    spark.sql("CACHE TABLE run_spans")
    marks = spark.sql(
        f"SELECT file_seq, ordinal FROM run WHERE stream = '{MARKS}' AND event = 'added' AND ordinal >= 0 "
        "ORDER BY file_seq, ordinal"
    ).collect()
    assert len(marks) == len(workload.moments)
    for mark, truth in zip(marks, workload.moments, strict=True):
        found: dict = {}
        for row in views.pending_at(spark, (mark.file_seq, mark.ordinal), prefix="run").collect():
            found.setdefault((row.db, row.stream, row.group), {})[row.entry_id] = (
                row.consumer,
                row.retry_count,
            )
        assert found == {
            (db, spell_name(key.encode()), group): held for (db, key, group), held in truth.items() if held
        }
    spark.sql("UNCACHE TABLE run_spans")


def test_a_stream_follows_a_live_file_across_rewrites(spark, tmp_path):
    keep = ("--aof-history-retention", "3600")
    target = str(tmp_path / "rows")
    with (
        start_server("rillet", "--appendonly", "yes", *keep, folder=tmp_path) as server,
        server.wire() as connection,
    ):
        connection.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")

        def work(number: int) -> None:
            for each in range(20):
                connection.call("XADD", "s", f"{number}-{each + 1}", "f", "v")
            connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
            connection.call("XACK", "s", "g", f"{number}-1", f"{number}-2")

        def take() -> None:
            read = spark.readStream.format("redis-aof").option("maxBytesPerTrigger", "8000")
            written = read.load(str(tmp_path / "appendonlydir")).writeStream.format("parquet")
            run(written.option("path", target), tmp_path / "checkpoint")

        work(1)
        take()
        work(2)
        connection.call("BGREWRITEAOF")
        while b"aof_rewrite_in_progress:0" not in connection.call("INFO", "persistence").value:
            pass
        work(3)
        take()
        take()
    found = Counter(tuple(row) for row in spark.read.parquet(target).select(*NAMES).collect())
    assert found == Counter(rows_of(tmp_path / "appendonlydir"))
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(offsets[-1].read_text().splitlines()[-1])["file"] == 2


def test_a_continuous_stream_sees_records_as_they_come_and_survives_removal_of_its_file(spark, tmp_path):
    with (
        start_server("redis7", "--appendonly", "yes", folder=tmp_path) as server,
        server.wire() as connection,
    ):
        connection.call("XADD", "s", "1-1", "f", "v")
        frame = spark.readStream.format("redis-aof").load(str(tmp_path / "appendonlydir"))
        query = frame.writeStream.format("memory").queryName("live").start()
        try:
            query.processAllAvailable()
            connection.call("XADD", "s", "2-1", "f", "v")
            connection.call("BGREWRITEAOF")
            while b"type h" in (
                manifest := (tmp_path / "appendonlydir" / "appendonly.aof.manifest").read_bytes()
            ) or (b"2.base" not in manifest):
                pass
            connection.call("XADD", "s", "3-1", "f", "v")
            query.processAllAvailable()
            found = spark.sql("SELECT entry_id FROM live WHERE event = 'added' ORDER BY 1").collect()
        finally:
            query.stop()
    assert [row[0] for row in found] == ["1-1", "2-1", "3-1"]
