"""Create a SparkSession that works on one machine, and register Rillet's formats in any session."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import worker_python
from .extras import need
from .java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
ZONE: Final = "spark.sql.session.timeZone"
_ALWAYS: Final = {
    ZONE: "UTC",
    "spark.ui.showConsoleProgress": "false",
    # A query that is killed while it writes its first offset leaves half a file, and Spark would never start it again.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
# When a query is stopped during foreachBatch, Spark matches a regular expression that recurses once for each character
# of Python's traceback; with the usual stack the query ends with a StackOverflowError.
_STACK: Final = "-Xss8m"
_LOCAL: Final = {
    # An unresolvable host name is a common reason why a local Spark does not start.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # If Hive's jars are present, their own implementation comes first; it does not replace files, as state stores need.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
}


def session(app_name: str = "rillet", *, quiet: bool = False, **conf: object) -> SparkSession:
    """Return a session with ``redis-streams`` and ``redis-aof`` registered.

    It finds a Java, sets the time zone UTC, and uses this Python for the workers.

    Args:
        app_name: what Spark shows.
        quiet: its JVM writes errors only.
        conf: Spark's own settings, which win over ours: ``session("x", **{"spark.master": "local[2]"})``. Under
            spark-submit the master is the submitted one; ``spark.remote`` gives a Spark Connect session.

    Raises:
        NoJavaError: no Java that Spark supports was found.
        MissingPackageError: PySpark or PyArrow is not installed.
    """
    need("pyspark", "pyarrow")
    from pyspark.sql import SparkSession

    from .spark_versions import CHECKPOINT_MANAGER

    given = {name: _text(value) for name, value in conf.items()}
    # Spark would look for `python3` on PATH, which is not the Python of an environment that is not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if "spark.remote" in given:
        if given["spark.remote"].startswith("local"):  # Spark starts a Connect server here
            use_java()
        settings = given
    else:
        settings = dict(_ALWAYS)
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started a JVM already
            settings["spark.master"] = given.get("spark.master", os.environ.get("SPARK_MASTER", "local[*]"))
            flags = use_java(quiet=quiet)
            if settings["spark.master"].partition("[")[0] == "local":
                settings |= _LOCAL | {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_MANAGER}
            extra = given.pop("spark.driver.extraJavaOptions", "")
            settings["spark.driver.extraJavaOptions"] = " ".join(filter(None, (_STACK, flags, extra)))
        settings |= given
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if quiet and "PYSPARK_GATEWAY_PORT" in os.environ:
        spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Register Rillet's formats in a session: ``spark.read.format("redis-streams")`` and ``"redis-aof"``.

    Option ``pushFilters`` needs ``spark.sql.python.filterPushdown.enabled`` to be set before. It is not set by
    default, because PySpark then fails at a time beyond the year 9999 in any ``where``. Warns if Spark's workers on
    this machine run another Python that cannot import Rillet.
    """
    need("pyspark", "pyarrow")
    _check_workers(spark)
    from .formats import PushingRedisStreams, RedisStreams
    from .ledger.format import LedgerDataSource
    from .spark_versions import HANDS_OVER_FILTERS

    _add_to_python_path(spark)
    _set_zone(spark)
    pushes = HANDS_OVER_FILTERS and spark.conf.get(PUSHDOWN, "false") == "true"
    spark.dataSource.register(PushingRedisStreams if pushes else RedisStreams)
    spark.dataSource.register(LedgerDataSource)


def _set_zone(spark: SparkSession) -> None:
    """Set the session's time zone explicitly to its current value: Spark passes only explicit settings to tasks.

    The zone decides how texts are cast to times. Code of a Declarative Pipelines project may not change settings:
    there the zone is in the project's spec.
    """
    from pyspark.errors import PySparkException

    try:
        spark.conf.set(ZONE, spark.conf.get(ZONE) or "UTC")
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"):
            raise


def _add_to_python_path(spark: SparkSession) -> None:
    """Put Rillet on the path of the Python processes in which the driver runs streaming sources and sinks.

    Spark puts these files on the path of its tasks, and of the driver itself, but not of these processes.
    """
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    if context is None or not context.getConf().get("spark.submit.pyFiles", ""):
        return
    here = str(Path(__file__).parents[2])
    paths = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    if here not in paths:
        context.environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, paths)])


def _check_workers(spark: SparkSession) -> None:
    """Warn if local workers run a Python that cannot import our formats; Spark would only report "not found"."""
    context = getattr(spark, "_sc", None)
    if context is None or context.master.partition("[")[0] != "local":
        return
    worker = context.pythonExec
    if worker_python.is_this_one(worker) or (wrong := worker_python.what_is_wrong(worker)) is None:
        return
    warnings.warn(
        f"Spark's workers will fail: {wrong[0]}; {wrong[1]}. This process runs {sys.executable}: set PYSPARK_PYTHON to it "
        "before the session starts, as rillet.pipeline.session() does",
        stacklevel=3,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
