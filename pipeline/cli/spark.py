"""The Spark session of a verb: it logs only Spark's errors, and ends with the verb."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from .progress import Progress


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for Spark's master and for the level of its log."""
    parser.add_argument("--master", help="Spark's master (default: all cores of this machine)")
    parser.add_argument("--verbose", action="store_true", help="show what Spark logs")


def has_session() -> bool:
    """Return True if the process already has a session, as in a notebook."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def start_spark(arguments: argparse.Namespace, progress: Progress, **conf: Any) -> SparkSession:
    """Return the process' session, or start one as a step of the progress; ``conf`` are Spark settings."""
    from ..sessions import session

    if arguments.master is not None:
        conf["spark.master"] = arguments.master
    name = f"rillet {arguments.verb}"
    if has_session():
        return session(name, **conf)
    with progress.step("starting Spark"):
        shows = {"spark.ui.showConsoleProgress": sys.stderr.isatty()}
        return session(name, quiet=not arguments.verbose, **shows | conf)
