"""Spark 4.0 to 4.2: what they ask a stream's reader for, and each mode once in a real one (make test-spark)."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from support.pipeline.cluster_pipeline import reader
from support.pipeline.micro_batches import Crash, Engine
from support.servers import start_server
from support.spark import every_mode

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.spark_versions import RowWriter, UnaskedReader

ROOT = Path(__file__).parents[2]


class AskedAs40:
    """Turns the engine's calls into those that Spark 4.0.5 was seen to make, in their order.

    A query whose log has the end of its first batch is asked where it starts, and not how far it goes.
    """

    def __init__(self, reader, *, is_new):
        self._reader = UnaskedReader(reader)
        self._is_new = is_new
        self._is_asked = False
        self._ahead = None

    def initialOffset(self):  # noqa: N802 - Spark's name
        self._is_asked = True
        if self._is_new:
            self._ahead = self._reader.latestOffset()
        return self._reader.initialOffset()

    def latestOffset(self, start, limit):  # noqa: N802 - Spark's name
        del limit
        self._say(start)
        found, self._ahead = self._ahead or self._reader.latestOffset(), None
        return found

    def partitions(self, start, end):
        self._say(end)
        return self._reader.partitions(start, end)

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def _say(self, last):
        """After a restart, before anything else: the last offset of Spark's log, twice."""
        if not self._is_asked:
            self._is_asked = True
            assert self._reader.partitions(last, last) == []


@pytest.mark.parametrize("mode", ["range", "group"])
def test_a_reader_that_is_not_told_where_its_query_stands_reads_each_entry_once(mode, running):
    port = running("rillet").port
    given = {"port": str(port), "streams": "s", "startingOffsets": "earliest", "maxRowsPerTrigger": "4"}
    for dies_at in range(6):
        for stop_before in ("log", "write", "commit"):
            with Connection(Endpoint(port=port)) as connection:
                connection.call("DEL", "s")
                for n in range(1, 15):
                    connection.call("XADD", "s", f"{n}-0", "n", n)
                rows, log = {}, []
                engine = Engine(
                    lambda log=log: AskedAs40(reader(mode, given), is_new=len(log) < 2),
                    lambda batch, batches, rows=rows: rows.update(
                        {batch: [row["id"] for each in batches for row in each.to_pylist()]}
                    ),
                    log,
                )
                for number in range(dies_at):
                    assert engine.trigger() or number >= 4
                try:
                    engine.trigger(stop_before)
                except Crash:
                    engine.restart()
                engine.finish()
                connection.call("XADD", "s", "15-0", "n", 15)
                engine.restart()
                engine.finish()
                seen = [each for batch in rows.values() for each in batch]
                assert seen == [f"{n}-0" for n in range(1, 16)], (dies_at, stop_before)
                assert max(map(len, rows.values())) <= 4
                engine.restart()


def test_a_writer_that_is_given_rows_makes_batches_of_them():
    schema = from_arrow_schema(pa.schema({"n": pa.int64(), "at": pa.list_(pa.string())}))
    seen = []

    class Writer:
        def write(self, batches):
            seen.extend(batches)
            return "done"

    assert RowWriter(Writer(), schema).write(iter([Row(n=1, at=["a"]), Row(n=None, at=None)])) == "done"
    assert pa.Table.from_batches(seen).to_pylist() == [{"n": 1, "at": ["a"]}, {"n": None, "at": None}]
    assert RowWriter(Writer(), schema).write(iter([])) == "done"


def python_with(version):
    """The Python of an environment with a version of PySpark, made at its first use."""
    folder = ROOT / ".venvs" / f"spark-{version}-python{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*command, "--editable", f"{ROOT}[spark]", f"pyspark=={version}.*"], check=True, timeout=1800
        )
        (folder / "installed").touch()
    return python


@pytest.mark.many_jvms
@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2"])
def test_every_mode_works_in_each_version_of_spark(version, tmp_path):
    python = python_with(version)
    with start_server(
        "rillet", "--appendonly", "yes", "--aof-timestamp-enabled", "ms", folder=tmp_path
    ) as server:
        done = subprocess.run(
            [str(python), every_mode.__file__, str(server.port), str(tmp_path)],
            capture_output=True, text=True, timeout=1800, check=False, cwd=tmp_path,
            env=os.environ | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    ids = [f"{n}-0" for n in range(41)]
    assert found.pop("version").startswith(version)
    assert found.pop("sink")[:3] == [40, "n", "40"]
    assert found == {
        "batch": [20, 210, 1782900020],
        "some": ids[18:21],
        "default": ["1", "2"],
        "range": [ids[1:9], ids[9:17], ids[17:21], ids[21:26]],
        "range again": [ids[21:26], ids[26:31]],
        "range once": [ids[1:31]],
        "range once more": [ids[31:34]],
        "group": [ids[1:21], ids[21:34], ids[34:37]],
        "group again": [ids[34:37], ids[37:39]],
        "group once": [],
        "pending": 0,
        "saved": 5,
        "events": {"added": 40, "delivered": 38, "group-set": 4, "acked": 38, "group-created": 1},
        "followed": 40,
        "spans": [38, 38],
    }
