"""The Declarative Pipelines project: made by the command line, run by spark-pipelines (make test-spark: two JVMs, an extra of its own)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pyarrow.dataset as ds
import pytest
from support.servers import start_server

from rillet.pipeline.cli.main import main


def test_the_project_is_made_once_and_then_its_owners(tmp_path, capsys):
    folder = tmp_path / "project"
    words = [
        "declarative",
        str(folder),
        "--streams",
        "a,b",
        "--port",
        "7001",
        "--aof",
        str(tmp_path),
        "--only-make",
    ]
    assert main(words) == 0
    spec = (folder / "spark-pipeline.yml").read_text()
    assert f"storage: file://{folder}/storage\n" in spec
    assert 'spark.rillet.streams: "a,b"' in spec
    assert f'spark.rillet.aof: "{tmp_path}"' in spec
    assert "spark-pipelines run --conf spark.sql.catalogImplementation=hive" in capsys.readouterr().out
    (folder / "gold.py").write_text("# mine\n")
    assert main(words) == 0
    assert (folder / "gold.py").read_text() == "# mine\n"


def rows(folder, table):
    return ds.dataset(folder / "spark-warehouse" / table, format="parquet").to_table().to_pylist()


@pytest.mark.many_jvms
def test_two_runs_of_the_project_take_every_row_once(tmp_path):
    missing = [
        name for name in ("pandas", "grpc", "grpc_status", "zstandard", "yaml") if find_spec(name) is None
    ]
    assert not missing, f"pip install --editable '.[declarative]' brings {missing}"
    flags = ("--appendonly", "yes", "--aof-timestamp-enabled", "ms")
    with start_server("rillet", *flags, folder=tmp_path) as server, server.wire() as connection:
        connection.call("XGROUP", "CREATE", "orders", "g", "0", "MKSTREAM")
        for turn in range(2):
            for n in range(50):
                connection.call("XADD", "orders", "*", "n", str(n), "n", "twice")
            entries = connection.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "orders", ">").plain()[0][
                1
            ]
            for entry_id, _ in entries[:40]:
                connection.call("XACK", "orders", "g", entry_id.decode())
            project = tmp_path / "project"
            done = subprocess.run(
                [
                    sys.executable, "-m", "rillet", "pipeline", "declarative", str(project),
                    "--port", str(server.port), "--aof", str(tmp_path / "appendonlydir"),
                ],
                capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path, env=dict(os.environ),
            )  # fmt: skip
            assert done.returncode == 0, done.stdout[-3000:]
            so_far = 50 * (turn + 1)
            assert len({row["id"] for row in rows(project, "bronze_entries")}) == so_far
            assert len(rows(project, "silver_entries")) == so_far
            assert dict(rows(project, "silver_entries")[0]["values"]) == {"n": "twice"}
            [gold] = rows(project, "gold_groups")
            assert (gold["messages"], gold["acked"], gold["deliveries"]) == (so_far, 40 * (turn + 1), so_far)
