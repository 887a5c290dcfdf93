"""spark-submit to a standalone cluster whose Python knows Rillet from a wheel alone (make test-spark: five JVMs)."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from pyarrow import parquet
from support.servers import start_server
from support.spark import cluster_job
from support.spark.spark_cluster import FAST, Cluster

from rillet.pipeline.java import find_java, java_home

REPOSITORY = Path(__file__).parents[2]
NOT_OURS = shutil.ignore_patterns(".*", "tests", "docs", "build", "benchmarks", "*.egg-info", "__pycache__")


@pytest.fixture
def wheel(tmp_path):
    """Built as the README says, from a copy: building leaves files behind."""
    shutil.copytree(REPOSITORY, tmp_path / "source", ignore=NOT_OURS)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "-w", tmp_path / "dist", tmp_path / "source"], check=True, timeout=200)
    [found] = (tmp_path / "dist").glob("rillet-*.whl")
    # Spark gives its executors files of any name, and puts on their path those that end so.
    return found.rename(tmp_path / "dist" / "rillet.zip")


@pytest.fixture
def python(tmp_path):
    """A Python with all packages of ours but Rillet, which an editable install would bring into executors."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "python"], check=True, timeout=60
    )
    [folder] = (tmp_path / "python" / "lib").glob("python*/site-packages")
    # Installs that are editable work through .pth files, which are not looked at in folders that a .pth file adds.
    (folder / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program = tmp_path / "python" / "bin" / "python"
    alone = subprocess.run(
        [program, "-c", "import pyspark, hiredis, rillet"], cwd=tmp_path, check=False, stderr=-1
    )
    assert b"No module named 'rillet'" in alone.stderr
    return program


def submitted(cluster, java, python, folder, words):
    """Run spark-submit with words of a test; two executors with a core each."""
    conf = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": FAST,
        "spark.driver.extraJavaOptions": f"{FAST} -Xss8m",
        "spark.driver.memory": "512m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    done = subprocess.run(
        [
            cluster.home / "bin" / "spark-submit",
            *(word for item in conf.items() for word in ("--conf", "=".join(item))),
            *words,
        ],
        capture_output=True, text=True, timeout=400, check=False, cwd=folder,
        env=os.environ | {
            "JAVA_HOME": java, "SPARK_HOME": str(cluster.home), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.many_jvms
def test_a_submitted_job_runs_on_executors_that_have_only_the_wheel(wheel, python, tmp_path):
    java = str(java_home(find_java()))
    with start_server("rillet") as server, server.wire() as connection, Cluster(tmp_path, java) as cluster:
        for n in range(1, 1001):
            connection.call("XADD", "orders", f"{n}-0", "n", str(n))
        words = ["--master", cluster.url, "--py-files", wheel, cluster_job.__file__]
        words += [str(server.port), str(tmp_path / "checkpoint"), str(tmp_path / "result")]
        submitted(cluster, java, python, tmp_path, words)
        copied = connection.call("XRANGE", "copy", "-", "+").plain()
    found = json.loads((tmp_path / "result").read_text())
    assert wheel.name in found["driver"]
    assert all(wheel.name in file for file, _ in found["executors"])
    assert len({process for _, process in found["executors"]}) == 2
    assert (found["sum"], found["partitions"]) == (500_500, 4)
    assert [dict(zip(words[::2], words[1::2], strict=True))[b"n"] for _, words in copied] == [
        b"%d" % n for n in range(1, 1001)
    ]


def test_the_page_gives_kubernetes_the_same_job_in_an_image_that_has_what_it_needs():
    page = (REPOSITORY / "docs/how-to/spark-cluster.md").read_text(encoding="utf-8")
    image, application = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    spec = yaml.safe_load(application)["spec"]
    [submit] = re.findall(r"^spark-submit .*$", page, re.MULTILINE)
    given = shlex.split(submit)[shlex.split(submit).index("job.py") + 1 :]
    assert len(spec["arguments"]) == len(given)
    assert spec["arguments"][0] == given[0]
    copied, folder = re.search(r"^COPY (\S+) (\S+)$", image, re.MULTILINE).groups()
    assert spec["mainApplicationFile"] == f"local://{folder}{copied}"
    version = re.search(r"^FROM apache/spark:([\d.]+)-python3$", image, re.MULTILINE)[1]
    assert spec["sparkVersion"] == version
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    bounds = {
        each.name: each.specifier for each in map(Requirement, project["optional-dependencies"]["spark"])
    }
    assert version in bounds["pyspark"]
    installed = re.search(r"^RUN pip install --no-cache-dir (.*)$", image, re.MULTILINE)[1].split()
    brought = {Requirement(each).name for each in project["dependencies"]} | set(installed)
    assert {
        "rillet",
        "hiredis",
        "pyarrow",
    } <= brought  # what a task needs, as tests/pipeline/jobs/test_package.py shows
    for role in ("driver", "executor"):
        [secret] = spec[role]["secrets"]
        assert f"{secret['path']}/password" in page


@pytest.mark.many_jvms
def test_the_job_of_the_page_runs_as_it_is_submitted_there(python, tmp_path):
    page = (REPOSITORY / "docs/how-to/spark-cluster.md").read_text(encoding="utf-8")
    [job] = re.findall(r"^```python\n# job.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    package, submit = (shlex.split(line) for line in re.findall(r"^```sh\n(.*)\n```$", page, re.MULTILINE))
    assert package[:2] == ["rillet", "pipeline"]
    subprocess.run([sys.executable, "-m", "rillet", *package[1:]], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "job.py").write_text(job, encoding="utf-8")
    java = str(java_home(find_java()))
    with start_server("rillet") as server, server.wire() as connection, Cluster(tmp_path, java) as cluster:
        for n in range(1, 101):
            connection.call("XADD", "orders", f"{n}-0", "n", str(n))
        places = {
            "spark://host:7077": cluster.url,
            "redis://redis:6379": f"redis://127.0.0.1:{server.port}",
            "/shared/orders": str(tmp_path / "orders"),
            "/shared/checkpoint": str(tmp_path / "checkpoint"),
        }
        assert submit[0] == "spark-submit"
        assert set(places) <= set(submit)
        submitted(cluster, java, python, tmp_path, [places.get(word, word) for word in submit[1:]])
    rows = parquet.read_table(tmp_path / "orders", columns=["id", "n"]).to_pylist()
    assert sorted((row["n"], row["id"]) for row in rows) == [(n, f"{n}-0") for n in range(1, 101)]
