"""What the sink and group mode cost by themselves, one process and no JVM: the figures beside those of `spark.py`.

python benchmarks/spark_sink.py [--rows 200000]
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from servers import Server

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.sink.writers import BatchWriter
from rillet.pipeline.source.entry_batches import default_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS: Final = ("redis-server", "rillet")
BATCH: Final = 10_000
FIELDS: Final = ("customer", "amount")


def measure(port: int, rows: int) -> dict[str, float]:
    """Rows a second of each way: ``exactly-once``, ``at-least-once``, ``group-plan`` (driver), ``group-read`` (tasks)."""
    found = {name: _write(port, rows, name) for name in ("exactly-once", "at-least-once")}
    return found | _read(port, rows)


def _write(port: int, rows: int, delivery: str) -> float:
    table = pa.table({name: [str(number) for number in range(rows)] for name in FIELDS})
    options = {"port": str(port), "stream": delivery, "delivery": delivery}
    writer = BatchWriter(from_arrow_schema(table.schema), options, overwrite=False)
    began = time.perf_counter()
    writer.commit([writer.write(iter(table.to_batches(max_chunksize=BATCH)))])
    return rows / (time.perf_counter() - began)


def _read(port: int, rows: int) -> dict[str, float]:
    options = {"port": str(port), "streams": "exactly-once", "group": "g", "startingOffsets": "earliest"}
    reader = GroupStreamReader(default_schema("", group_columns()), options)
    offset, planning, reading, seen = reader.initialOffset(), 0.0, 0.0, 0
    while True:
        began = time.perf_counter()
        end = reader.latestOffset(offset, ReadAllAvailable())
        planning += time.perf_counter() - began
        if end == offset:
            break
        began = time.perf_counter()
        seen += sum(batch.num_rows for part in reader.partitions(offset, end) for batch in reader.read(part))
        reading += time.perf_counter() - began
        offset = end
    reader.stop()
    assert seen == rows
    return {"group-plan": rows / planning, "group-read": rows / reading}


def lines(rows: int) -> Iterator[str]:
    for program in SERVERS:
        with Server(program) as server:
            for name, speed in measure(server.port, rows).items():
                yield f"{program}: {name:16} {speed:>12,.0f} rows/s"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    for line in lines(parser.parse_args().rows):
        print(line, flush=True)
