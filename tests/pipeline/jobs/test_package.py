"""`rillet pipeline package`: one zip, and a Python with nothing else but Spark, hiredis and PyArrow reads and writes with it."""

import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.servers import start_server

from rillet.pipeline.cli.main import main

EXECUTOR = Path(__file__).parents[2] / "support" / "spark" / "executor.py"
PACKAGES = ("hiredis", "pyarrow", "pyspark", "py4j")


@pytest.fixture
def package(tmp_path):
    target = tmp_path / "dist" / "rillet.zip"
    assert main(["package", str(target)]) == 0
    return target


@pytest.fixture
def python(tmp_path):
    """A Python with those packages and no others."""
    folder = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    [site] = (folder / "lib").glob("python*/site-packages")
    for name in PACKAGES:
        (site / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
    return folder / "bin" / "python"


def test_a_task_needs_spark_hiredis_pyarrow_and_the_zip(package, python, tmp_path):
    with start_server("rillet") as server:
        with server.wire() as connection:
            for n in range(50):
                connection.call("XADD", "orders", "*", "n", str(n))
        done = subprocess.run(
            [python, EXECUTOR, str(server.port)], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
            env={"PYTHONPATH": str(package)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
        with server.wire() as connection:
            assert connection.call("XLEN", "billed").plain() == 50
    assert (found["read"], found["claimed"]) == (50, 50)
    ours = {name for name in found["modules"] if not name.startswith(("_", "cython_runtime"))}
    assert ours <= {*PACKAGES, "rillet"}


def test_the_zip_has_no_server_and_is_the_same_each_time(package, tmp_path):
    names = zipfile.ZipFile(package).namelist()
    assert "rillet/pipeline/formats.py" in names
    assert "rillet/pipeline/report/page.html" in names
    assert not [
        name for name in names if name.startswith(("rillet/server", "rillet/commands", "rillet/tests"))
    ]
    again = tmp_path / "again.zip"
    assert main(["package", str(again)]) == 0
    assert again.read_bytes() == package.read_bytes()


def test_a_name_that_executors_would_not_look_into_is_refused(tmp_path, capsys):
    assert main(["package", str(tmp_path / "rillet.whl")]) == 1
    assert "does not end with .zip" in capsys.readouterr().err
