"""Four streaming queries in one driver, for others to kill: range and group mode, each to Parquet and to a stream.

    python spark_driver.py URL FOLDER MASTER

It prints `ready` when Spark runs, waits for a line (another driver may be at work until it is killed), starts the
queries, and goes on until it is killed.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError

from rillet.pipeline import session

SOURCES = {
    "range": {},
    "group": {"mode": "group", "group": "g", "consumer": "driver", "claimMinIdleMs": "0"},
}
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
SINKS = ("parquet", "stream")


def main(url: str, folder: Path, master: str) -> None:
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session(
        "to be killed",
        **{
            "spark.master": master,
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"{java} -Dderby.system.home={folder}",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": java,
            "spark.task.maxFailures": "20",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1).collect()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return  # the process that started us is gone
    pairs = list(itertools.product(SOURCES, SINKS))
    queries = {}
    for pair in pairs:
        queries[pair] = start(spark, url, folder, *pair)
        wait_until_it_runs(queries[pair])
    while True:
        time.sleep(0.1)
        for pair, query in queries.items():
            if query.exception() is not None:
                if not is_no_fault_of_ours(causes(query)):
                    raise query.exception()
                # Processes that are kept for the next one to use may have been killed, too.
                with contextlib.suppress(KilledError):
                    queries[pair] = start(spark, url, folder, *pair)
                    wait_until_it_runs(queries[pair])


def wait_until_it_runs(query):
    """One after the other: each starts Python processes, which have ten seconds."""
    while query.status["message"].startswith("Initializing") and query.exception() is None:
        time.sleep(0.1)


class KilledError(Exception):
    """A query could not be started, because a process that it needed was killed."""


def is_no_fault_of_ours(text):
    return "Traceback" not in text and any(reason in text for reason in NO_FAULT_OF_OURS)


def causes(query):
    """What each cause of a query's end says of itself; only Java knows all of them."""
    found = []
    cause = query._jsq.exception().get().getCause()
    while cause is not None:
        found.append(cause.toString())
        cause = cause.getCause()
    return " ".join(found)


def start(spark, url, folder, source, sink):
    name = f"{source}-{sink}"
    given = {
        "url": url,
        "streams": f"in-{name}",
        "startingOffsets": "earliest",
        "maxRowsPerTrigger": "1000",
    }
    try:
        frame = spark.readStream.format("redis-streams").options(**given, **SOURCES[source]).load()
    except Py4JJavaError as error:
        if is_no_fault_of_ours(error.java_exception.toString()):
            raise KilledError from error
        raise
    writer = frame.selectExpr("id as source", "cast(fields[0].value as string) as n").writeStream
    if sink == "parquet":
        writer = writer.format("parquet").option("path", str(folder / name))
    else:
        chunks = {"chunkRows": "40", "inlineBytes": "1000"}  # several transactions a batch, some rows staged
        writer = writer.format("redis-streams").options(url=url, stream=f"out-{name}", **chunks)
    # Batches that follow each other without a pause would leave no processor to the driver that stands by.
    writer = writer.trigger(processingTime="1 second").queryName(name)
    return writer.option("checkpointLocation", str(folder / f"{name}-checkpoint")).start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
