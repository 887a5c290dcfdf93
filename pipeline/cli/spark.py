"""The Spark session of a verb: it logs only Spark's errors, and ends with the verb."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .progress import Progress

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for Spark's master and for the level of its log."""
    parser.add_argument("--master", help="Spark's master (default: all cores of this machine)")
    parser.add_argument("--verbose", action="store_true", help="show what Spark logs")


def has_session() -> bool:
    """Return True if the process already has a Spark session, as in a notebook."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@contextmanager
def spark_session(arguments: argparse.Namespace, progress: Progress, **conf: Any) -> Iterator[SparkSession]:
    """Yield the session of the process; without one, start it as a step of the progress and stop it at the end."""
    from ..sessions import session

    if arguments.master is not None:
        conf["spark.master"] = arguments.master
    name = f"rillet {arguments.verb}"
    if has_session():
        yield session(name, **conf)
        return
    with progress.step("starting Spark"):
        shows = {"spark.ui.showConsoleProgress": sys.stderr.isatty()}
        spark = session(name, quiet=not arguments.verbose, **shows | conf)
    try:
        yield spark
    finally:
        spark.stop()
