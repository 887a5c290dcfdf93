"""One Spark session of a worker for all tests that need the JVM (tests/pipeline/spark), with flags that make it start quickly."""

import itertools
import logging
from pathlib import Path

import pytest
from support.pipeline.spark_engine import close_opened
from support.servers import KINDS
from support.spark.forked_python import forked_python
from support.spark.quick import JAVA, QUICK, quick_home

import rillet.testing
from rillet.pipeline import worker_python
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

names = itertools.count()


@pytest.hookimpl(tryfirst=True)  # xdist looks for groups in a hook of the same name
def pytest_collection_modifyitems(items):
    """Tests of a group share a worker and its JVM (--dist loadgroup).

    A second JVM for half of them takes 9 seconds of processor time more, and they are not what a run waits for at its end.
    """
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / "spark"):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark_python(tmp_path_factory):
    """The Python of Spark's processes: this one, but for its name."""
    is_this_one = worker_python.is_this_one
    with forked_python(tmp_path_factory.mktemp("python")) as python, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            worker_python, "is_this_one", lambda worker: worker == str(python) or is_this_one(worker)
        )
        yield python


@pytest.fixture(scope="session")
def spark(tmp_path_factory, spark_python):
    from rillet.pipeline import session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(quick_home(folder)))
        patch.setenv("PYSPARK_PYTHON", str(spark_python))
        found = session(
            "tests",
            **{
                "spark.master": "local[2,2]",  # a task is tried twice
                "spark.driver.memory": "768m",
                "spark.driver.extraJavaOptions": f"{JAVA} -Dderby.system.home={folder}",
                "spark.sql.shuffle.partitions": "1",
                **QUICK,  # a quarter of the time
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder),
            },
        )
    found.sparkContext.setLogLevel("OFF")  # tests that let queries fail would fill pages
    logging.getLogger("py4j").setLevel(logging.ERROR)
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def close_engines():
    yield
    close_opened()


@pytest.fixture(params=KINDS)
def server(request, running):
    """A server of each kind."""
    return running(request.param)


@pytest.fixture
def connection(server):
    """A connection to a server of each kind, which is empty."""
    with Connection(Endpoint(port=server.port)) as connection:
        connection.call("FLUSHALL")
        yield connection


@pytest.fixture
def requests(monkeypatch):
    """The requests that connections send, in order: the port, and the names of the commands."""
    found = []
    honest = Connection.exchange

    def exchange(self, request, names, **how):
        found.append((self.endpoint.port, list(names)))
        return honest(self, request, names, **how)

    monkeypatch.setattr(Connection, "exchange", exchange)
    return found


@pytest.fixture(scope="module")
def shared_cluster():
    with rillet.testing.Cluster(3, 1) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster):
    """A cluster of Rillet of three masters with a replica each, which is empty."""
    shared_cluster.reset()
    return shared_cluster


@pytest.fixture
def redis(request, running):
    """A connection to Rillet, or to a server of the kind of a parameter; `redis.options` reaches it from Spark.

    What the servers have to do with it is tested on all of them without a JVM.
    """
    kind = getattr(request, "param", "rillet")
    with Connection(Endpoint(port=running(kind).port)) as connection:
        connection.options = {"port": str(connection.endpoint.port), "retries": "1"}
        yield connection


@pytest.fixture
def stream(redis):
    """A new stream's name; what was in it is gone at the end."""
    name = f"spark-{next(names)}"
    yield name
    redis.call("DEL", name)
