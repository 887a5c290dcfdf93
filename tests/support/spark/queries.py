"""Streaming queries over what is there now, what they read, their checkpoints, and the metrics of their listeners."""

import urllib.request


def run(writer, checkpoint):
    """Run a query until it has read what is there, and return it."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def collected(frame, checkpoint, each=None):
    """Return the rows of all batches of one run; `each` takes the batches itself."""
    rows = []
    keep = each or (lambda batch: rows.extend(batch.collect()))
    run(frame.writeStream.foreachBatch(lambda batch, _: keep(batch)), checkpoint)
    return rows


def metrics_at(url):
    """Return the numbers that a listener serves, by metric name, of its one query and one stream."""
    with urllib.request.urlopen(url, timeout=30) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain")
        lines = (line.rpartition(" ") for line in reply.read().decode().splitlines() if line[0] != "#")
        return {
            name.partition("{")[0].removeprefix("rillet_spark_"): float(value) for name, _, value in lines
        }


def forget_last_commit(checkpoint):
    """As if Spark had died after the last batch was written and before it wrote its commit log."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
