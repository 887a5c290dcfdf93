"""Streaming queries in one driver, for others to kill, in range and in group mode.

    python spark_driver.py URL FOLDER MASTER WORK

MASTER may also be `connect`: the queries are then a client's, and run in a server of Spark Connect. It prints `ready` when Spark runs, waits for a line (another driver may be at work until it is killed), starts the
queries, and goes on until it is killed.
"""

import contextlib
import re
import socket
import sys
import time
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions
from support.spark.quick import JAVA

from rillet.pipeline import session

# A query is named for how it reads and what it does: `plain` ones copy what they read to Parquet or to a stream, those
# with `state` drop duplicates, collect the numbers of each window, and join two streams. Those with a pattern look it up
# at each trigger, which asks each master of a cluster.
WORK = {
    "plain": ("range-parquet", "range-stream", "group-parquet", "group-stream"),
    "range state": ("range-distinct", "range-windows", "range-join"),
    "group state": ("group-distinct", "group-windows", "group-join"),
    "pattern": ("pattern-parquet", "pattern-stream", "grouppattern-stream"),
}
GROUP = {"mode": "group", "group": "g", "claimMinIdleMs": "0"}
PATTERN = {"discoveryIntervalMs": "0"}
MODES = {"range": {}, "group": GROUP, "pattern": PATTERN, "grouppattern": GROUP | PATTERN}
CONNECT = "connect"
# A query that ends for these reasons is started again, as a supervisor does in earnest. Spark gives a Python
# process ten seconds to start, which a busy machine may not manage; one that was killed it may or may not replace; and
# of others, which a source or a sink has in the driver, all it knows is that they no longer listen.
NO_FAULT_OF_OURS = (
    "failed to connect back",
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "EOFException occurred while reading the port number from pyspark.daemon",
    "java.net.SocketException",
    "java.io.IOException: Broken pipe",
    "java.io.IOException: Connection reset by peer",
    "java.io.IOException: Stream closed",
)


def inputs(name: str) -> list[str]:
    """Return the streams that a query reads."""
    return [f"in-{name}", f"in-{name}-right"] if name.endswith("join") else [f"in-{name}"]


def connect_port() -> dict[str, int]:
    """Have the server of Spark Connect at a free port: PySpark knows one, which the driver that stands by would want, too."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    return {"spark.connect.grpc.binding.port": port}


def main(url: str, folder: Path, master: str, work: str) -> None:
    spark = session(
        "to be killed",
        **(connect_port() if master == CONNECT else {}),
        **{
            "spark.remote" if master == CONNECT else "spark.master": "local[2,8]" if master == CONNECT else master,
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"{JAVA} -Dderby.system.home={folder}",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA,
            "spark.task.maxFailures": "20",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "1",
        },
    )  # fmt: skip
    if master != CONNECT:
        spark.sparkContext.setLogLevel("ERROR")
    spark.range(1).collect()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return  # the process that started us is gone
    queries = {}
    while True:
        for name in WORK[work]:
            if name in queries:
                if queries[name].exception() is None:
                    continue
                if not is_no_fault_of_ours(causes(queries[name])):
                    raise queries[name].exception()
            # Processes that are kept for the next one to use may have been killed, too.
            with contextlib.suppress(KilledError):
                queries[name] = start(spark, url, folder, name)
                wait_until_it_runs(queries[name])
        time.sleep(0.1)


def wait_until_it_runs(query):
    """One after the other: each starts Python processes, which have ten seconds."""
    while query.status["message"].startswith("Initializing") and query.exception() is None:
        time.sleep(0.1)


class KilledError(Exception):
    """A query could not be started, because a process that it needed was killed."""


def is_no_fault_of_ours(text):
    text = text.replace(
        "Python Proxy. Return Message: Traceback", ""
    )  # that of foreachBatch, whatever its cause
    # Spark Connect says `(java.io.IOException) Stream closed`.
    text = re.sub(r"\((java\.[\w.]+)\) ", r"\1: ", text)
    return "Traceback" not in text and any(reason in text for reason in NO_FAULT_OF_OURS)


def causes(query):
    """What each cause of a query's end says of itself; only Java knows all of them."""
    if not hasattr(query, "_jsq"):
        return str(query.exception())
    found = []
    cause = query._jsq.exception().get().getCause()
    while cause is not None:
        found.append(cause.toString())
        cause = cause.getCause()
    return " ".join(found)


def start(spark, url, folder, name):
    try:
        return writer(spark, url, folder, name).start()
    except (Py4JJavaError, PySparkException) as error:
        if is_no_fault_of_ours(str(error)):
            raise KilledError from error
        raise


def writer(spark, url, folder, name):
    what = name.partition("-")[2]
    read = [frame(spark, url, name, stream) for stream in inputs(name)]
    kept = read[0].select("source", "n")
    if what == "distinct":
        kept = read[0].select("n").dropDuplicates(["n"])
    elif what == "join":
        kept = read[0].select("n").join(read[1].select("n"), "n")
    elif what == "windows":
        # Each batch gives each window that it added to, whole.
        windows = read[0].withWatermark("ts", "1 hour").groupBy(functions.window("ts", "5 seconds"))
        kept = windows.agg(functions.collect_list("n").alias("n"))
        kept = kept.selectExpr("cast(window.start as string) as start", "concat_ws(',', n) as n")
    found = kept.writeStream
    if what == "windows":
        found = found.outputMode("update").foreachBatch(partial(write_batch, url, name))
    elif what == "stream":
        chunks = {"chunkRows": "40", "inlineBytes": "1000"}  # several transactions a batch, some rows staged
        found = found.format("redis-streams").options(url=url, stream=f"out-{name}", **chunks)
    else:
        found = found.format("parquet").option("path", str(folder / name))
    # Batches that follow each other without a pause would leave no processor to the driver that stands by.
    found = found.trigger(processingTime="1 second").queryName(name)
    return found.option("checkpointLocation", str(folder / f"{name}-checkpoint"))


def frame(spark, url, name, stream):
    mode = MODES[name.partition("-")[0]]
    given = {
        "url": url,
        "streamsPattern" if "discoveryIntervalMs" in mode else "streams": stream,
        "startingOffsets": "earliest",
        "maxRowsPerTrigger": "1000",
    }
    read = spark.readStream.format("redis-streams").options(**given, **mode).load()
    return read.selectExpr("id as source", "ts", "cast(fields[0].value as string) as n")


def write_batch(url, name, batch, number):
    writer = batch.write.format("redis-streams").mode("append")
    writer.options(url=url, stream=f"out-{name}", writeId=name, writeNumber=number).save()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
