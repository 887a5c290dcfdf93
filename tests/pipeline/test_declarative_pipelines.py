"""The project of docs/how-to/declarative-pipelines.md, run by spark-pipelines as the page says (make test-spark: JVMs of its own)."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from support.servers import start_server

from rillet.pipeline.java import find_java, java_home

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "declarative-pipelines.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```(?:yaml|python)\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = "".join(re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)).splitlines()


def written(project, **values):
    """Write the files of the page, with other values for those of its spec."""
    project.mkdir()
    (project / "storage").mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text, encoding="utf-8")
    spec = FILES["spark-pipeline.yml"]
    for there, value in values.items():
        spec, count = re.subn(rf"(?m)^(\s*(?:spark\.rillet\.)?{there}: ).*$", rf'\g<1>"{value}"', spec)
        assert count == 1
    (project / "spark-pipeline.yml").write_text(spec, encoding="utf-8")


def spark_pipelines(line, project):
    """Run a command of the page; what it printed."""
    program, *words = shlex.split(line)
    own = {
        "JAVA_HOME": str(java_home(find_java())), "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).parent / program, *words],
        stdout=-1, stderr=subprocess.STDOUT, text=True, timeout=300, check=False, cwd=project, env=os.environ | own,
    )  # fmt: skip
    is_late = done.returncode == 1 and "__python_accumulator__" in done.stdout  # as the page says
    assert done.returncode == 0 or is_late, done.stdout[-3000:]
    assert "Run is COMPLETED." in done.stdout, done.stdout[-3000:]


def rows(folder, table):
    return ds.dataset(folder / "spark-warehouse" / table, format="parquet").to_table().to_pylist()


def test_the_page_has_the_whole_project():
    assert set(FILES) == {"spark-pipeline.yml", "bronze.py", "silver.py", "gold.py"}
    for name, text in FILES.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
            assert f"include: {name}\n" in FILES["spark-pipeline.yml"]
    assert [shlex.split(line)[:2] for line in COMMANDS] == [
        ["spark-pipelines", "dry-run"],
        ["spark-pipelines", "run"],
    ]


@pytest.mark.many_jvms
def test_two_runs_of_the_project_take_every_row_once(tmp_path):
    missing = [
        name for name in ("pandas", "grpc", "grpc_status", "zstandard", "yaml") if find_spec(name) is None
    ]
    assert not missing, f"pip install --editable '.[dev,connect]' brings {missing}"
    flags = ("--appendonly", "yes", "--aof-timestamp-enabled", "ms")
    with start_server("rillet", *flags, folder=tmp_path) as server, server.wire() as connection:
        project = tmp_path / "project"
        written(
            project, storage=(project / "storage").as_uri(), port=server.port, aof=tmp_path / "appendonlydir"
        )
        dry_run, run = COMMANDS
        connection.call("XGROUP", "CREATE", "orders", "g", "0", "MKSTREAM")
        spark_pipelines(dry_run, project)
        for turn in range(2):
            for n in range(50):
                connection.call("XADD", "orders", "*", "n", str(n), "n", "twice")
            [[_, entries]] = connection.call(
                "XREADGROUP", "GROUP", "g", "bob", "STREAMS", "orders", ">"
            ).plain()
            for entry_id, _ in entries[:40]:
                connection.call("XACK", "orders", "g", entry_id.decode())
            spark_pipelines(run, project)
            so_far = 50 * (turn + 1)
            assert len({row["id"] for row in rows(project, "bronze_entries")}) == so_far
            assert len(rows(project, "silver_entries")) == so_far
            assert dict(rows(project, "silver_entries")[0]["values"]) == {"n": "twice"}
            [gold] = rows(project, "gold_groups")
            assert (gold["messages"], gold["acked"], gold["deliveries"]) == (so_far, 40 * (turn + 1), so_far)
