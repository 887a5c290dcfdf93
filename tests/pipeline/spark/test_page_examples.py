"""What docs/spark.md says of SQL, foreachBatch and errors, with a real Spark."""

import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException, PySparkException, PythonException, StreamingQueryException
from support.servers import start_server
from support.spark.queries import run

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

REFUSED = "(?i)real.?time"
PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.fixture
def redis():
    """A server of this test alone: the page names its streams."""
    with start_server("rillet") as server, Connection(Endpoint(port=server.port)) as connection:
        for number in range(1, 6):
            connection.call("XADD", "orders", f"{number}-0", "order", number)
        yield connection


def blocks(section, kind):
    """The blocks of a kind below a heading."""
    text = re.search(rf"^### {section}\n(.*?)(?:^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def source(spark, redis, **given):
    return spark.readStream.format("redis-streams").options(
        port=str(redis.endpoint.port), retries="0", streams="orders", startingOffsets="earliest", **given
    )


# SQL


def test_the_view_of_the_page_is_read(spark, redis):
    [sql] = blocks("In SQL", "sql")
    create, ask = (each for each in sql.replace("7379", str(redis.endpoint.port)).split(";") if each.strip())
    spark.sql(create)
    try:
        assert spark.sql(ask).first()[0] == 5
        assert spark.sql("SELECT sum(`order`) FROM orders WHERE id > '2'").first()[0] == 14
    finally:
        spark.catalog.dropTempView("orders")


def test_a_table_of_the_catalog_is_read_with_options_at_the_query(spark, redis):
    words = f"port = '{redis.endpoint.port}', streams = 'orders'"
    assert "SELECT * FROM t WITH (port = '7379', streams = 'orders')" in PAGE
    spark.sql(
        f"CREATE TABLE t (id STRING, `order` BIGINT) USING `redis-streams` OPTIONS ({words.replace('=', '')})"
    )
    try:
        assert [row.order for row in spark.sql(f"SELECT * FROM t WITH ({words})").collect()] == [
            1, 2, 3, 4, 5,
        ]  # fmt: skip
        with pytest.raises(AnalysisException, match="Spark drops the OPTIONS of CREATE TABLE"):
            spark.sql("SELECT * FROM t").collect()
    finally:
        spark.sql("DROP TABLE t")


# foreachBatch


def test_a_batch_that_is_handled_again_is_merged_and_written_once(spark, redis, tmp_path):
    [code] = blocks("foreachBatch", "python")
    for there, here in {"7379": str(redis.endpoint.port), "/tmp/bills": str(tmp_path / "bills")}.items():
        assert there in code
        code = code.replace(there, here)
    names = {}
    exec(compile(code, "spark.md", "exec"), names)
    write_deltalake(
        tmp_path / "bills", pa.table({"id": pa.array([], pa.string()), "order": pa.array([], pa.int64())})
    )
    read = spark.read.format("redis-streams").schema("id STRING, ts TIMESTAMP, `order` BIGINT")
    # Spark ended before it had noted the last one.
    for after, last, number in [("0", "3", 0), ("3", "5", 1), ("3", "5", 1)]:
        place = {"port": str(redis.endpoint.port), "streams": "orders"}
        batch = read.options(**place, startingOffsets=after, endingOffsets=last).load()
        names["handle"](batch, number)
    bills = DeltaTable(tmp_path / "bills").to_pyarrow_table().sort_by("order")
    assert bills["order"].to_pylist() == [1, 2, 3, 4, 5]
    assert redis.call("XLEN", "billed-once") == 5
    assert len(redis.call("KEYS", "rillet:sink:*")) == 1


# Errors


def token(error):
    [code] = blocks("Errors", "python")
    names = {}
    exec(compile(code, "spark.md", "exec"), names)
    return names["token"](error)


def carried(error):
    """The row of the page for an exception, and which token its parameter has."""
    rows = re.findall(r"^\| [^|]+ \| `(\w+Exception)` \| `(\w+)` \| `(\w+)` \|$", PAGE, re.MULTILINE)
    [(condition, parameter)] = [(found, at) for kind, found, at in rows if kind == type(error).__name__]
    assert error.getCondition() == condition
    text = error.getMessageParameters()[parameter]
    found = re.search(r"\[REDIS_STREAMS\.(\w+)\]", text)
    assert found, text
    return found[1]


def test_errors_of_batches_carry_their_token(spark, redis):
    place = {"port": str(redis.endpoint.port), "retries": "0"}

    def read(**given):
        return spark.read.format("redis-streams").options(**place, **given)

    def write(**given):
        rows = spark.sql("SELECT CAST(NULL AS STRING) AS n")
        return rows.write.format("redis-streams").mode("append").options(**place, **given)

    for wanted, kind, fails in [
        ("BAD_OPTION", AnalysisException, lambda: read(streams="orders", fetchSze="1").load().collect()),
        ("BAD_OPTION", AnalysisException, lambda: read(streams="none").load().collect()),
        (
            "MALFORMED_ENTRY",
            PythonException,
            lambda: read(streams="orders", parseMode="FAILFAST").schema("`order` DATE").load().collect(),
        ),
        ("BAD_OPTION", AnalysisException, lambda: write().save()),
        ("BAD_ROW", PythonException, lambda: write(stream="out", nullPolicy="fail").save()),
    ]:
        with pytest.raises(kind) as caught:
            fails()
        assert carried(caught.value) == token(caught.value) == wanted


def test_errors_of_queries_carry_their_token(spark, redis, tmp_path):
    run(source(spark, redis).load().writeStream.format("noop"), tmp_path / "known")
    for wanted, folder, given, schema in [
        ("BAD_OPTION", "new", {"fetchSze": "1"}, ""),
        ("MALFORMED_ENTRY", "other", {"parseMode": "FAILFAST"}, "`order` DATE"),
        ("BAD_OFFSET", "known", {"db": "1"}, ""),
        ("BAD_OFFSET", "known", {"mode": "group", "group": "g"}, ""),
    ]:
        reader = source(spark, redis, **given)
        frame = (reader.schema(schema) if schema else reader).load()
        with pytest.raises(StreamingQueryException) as caught:
            run(frame.writeStream.format("noop"), tmp_path / folder)
        assert carried(caught.value) == token(caught.value) == wanted


def test_the_checkpoint_of_another_source_is_refused_with_what_to_do(spark, redis, tmp_path):
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one").write_text("a line\n")
    run(spark.readStream.text(str(tmp_path / "lines")).writeStream.format("noop"), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="this checkpoint is of another source") as caught:
        run(source(spark, redis).load().writeStream.format("noop"), tmp_path / "checkpoint")
    assert token(caught.value) == "BAD_OFFSET"


# Running queries


def test_the_lag_of_a_progress_report_is_read_as_the_page_says(spark, redis, tmp_path, capsys):
    [code] = blocks("Running queries in one table", "python")
    frame = source(spark, redis, maxRowsPerTrigger="2").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        assert query.lastProgress["sources"][0]["metrics"] == {}
        exec(code, {"query": query})
    finally:
        query.stop()
    assert capsys.readouterr().out == "orders 0 entries / 0.0 s behind\n"


def test_real_time_mode_is_refused_when_the_query_starts(spark, redis, tmp_path):
    frame = source(spark, redis).load()
    writer = frame.writeStream.format("console").outputMode("update").trigger(realTime="5 minutes")
    with pytest.raises(PySparkException, match=REFUSED):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)


def test_the_loop_of_the_page_starts_a_job_until_it_ends_well(tmp_path):
    [loop] = blocks("A query that ends is started again", "sh")
    stubs = 'sleep() { :; }; rillet() { echo "$@" >> runs; [ $(wc -l < runs) = 3 ]; }\n'
    done = subprocess.run(["bash", "-c", stubs + loop], cwd=tmp_path, timeout=60, check=False)
    runs = (tmp_path / "runs").read_text().splitlines()
    assert done.returncode == 0
    assert runs == ["pipeline ingest --streams orders --out lake/orders --follow 10 seconds"] * 3


@pytest.mark.many_jvms
def test_a_message_of_protobuf_is_read_by_its_class(spark, redis, capsys):
    """It is in `make test-spark`, whose extra for Spark Connect brings protobuf."""
    from google.protobuf.struct_pb2 import Struct

    message = Struct()
    message["customer"] = "Ada"
    redis.call("DEL", "orders")
    redis.call("XADD", "orders", "1-0", "value", message.SerializeToString())
    redis.call("XADD", "orders", "2-0", "other", "")
    [code] = blocks("Protobuf and Avro", "python")
    exec(code.replace("7379", str(redis.endpoint.port)), {"spark": spark})
    rows = [line.replace(" ", "") for line in capsys.readouterr().out.splitlines()]
    assert "|1-0|Ada|" in rows
    assert "|2-0|NULL|" in rows
