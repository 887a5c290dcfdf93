"""What a task does, in a Python that has Spark, hiredis, PyArrow and Rillet's zip: read in both modes, and write."""

import json
import sys

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from rillet.pipeline.group.stream_reader import GroupStreamReader
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.sink.spark_writers import BatchWriter
from rillet.pipeline.source.options import BatchOptions

port = sys.argv[1]
schema = StructType().add("id", StringType()).add("n", StringType())
given = {"port": port, "streams": "orders", "startingOffsets": "earliest"}


def rows(reader, partitions):
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


batch = RangeBatchReader(schema, BatchOptions.of(given))
read = rows(batch, batch.partitions())
group = GroupStreamReader(schema, given | {"group": "g"})
start = group.initialOffset()
end = group.latestOffset(start, group.getDefaultReadLimit())
claimed = rows(group, group.partitions(start, end))
group.stop()
sink = StructType().add("n", StringType())
writer = BatchWriter(sink, {"port": port, "stream": "billed", "delivery": "at-least-once"}, overwrite=False)
writer.write(iter([pa.RecordBatch.from_pydict({"n": [row["n"] for row in read]})]))
standard = sys.stdlib_module_names
others = {name.partition(".")[0] for name in sys.modules} - standard
sys.stdout.write(json.dumps({"read": len(read), "claimed": len(claimed), "modules": sorted(others)}))
