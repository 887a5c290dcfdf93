"""The listener under a real Spark: queries that run, fall behind, lose entries and fail."""

import contextlib
import urllib.request

from pyspark.errors import PySparkException
from support.spark import queries
from support.until import until

from rillet.pipeline.cli import main
from rillet.pipeline.monitoring.listener import LagListener


def test_lag_and_loss_reach_prometheus(spark, redis, stream, tmp_path, capsys):
    listener = LagListener(tmp_path / "rillet.prom")
    spark.streams.addListener(listener)
    redis.pipeline([("XADD", stream, f"{n}-0", "f", n) for n in range(1, 6)])

    def run(name, **options):
        given = {"startingOffsets": "earliest", "maxRowsPerTrigger": "2", **options}
        read = spark.readStream.format("redis-streams").options(**redis.options, streams=stream, **given)
        queries.run(read.load().writeStream.format("noop").queryName(name), tmp_path / "checkpoint")

    try:
        run("orders")
        until(lambda: any(not query.running for query in listener.queries))
        redis.pipeline([("XADD", stream, f"{n}-0", "f", n) for n in range(6, 11)])
        redis.call("XTRIM", stream, "MAXLEN", 2)
        with contextlib.suppress(PySparkException):
            run("orders")
        until(lambda: any(query.failed for query in listener.queries))
        run("orders", failOnDataLoss="false")
        until(lambda: any(query.running is False and query.batch_id >= 3 for query in listener.queries))
        port = listener.serve(0)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        assert main.main(["queries", f"http://127.0.0.1:{port}/metrics"]) == 0
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    assert f'rillet_spark_entries_gone_total{{query="orders",stream="{stream}"}} 3' in text
    assert f'rillet_spark_entries_behind{{query="orders",stream="{stream}"}} 0' in text
    assert 'rillet_spark_running{query="orders"} 0' in text
    assert (tmp_path / "rillet.prom").read_text() == text
    row = capsys.readouterr().out.splitlines()[-1].split()
    assert row[:2] == ["orders", "ended"]
    assert row[5:] == [stream, "0", "0.0", "3"]
