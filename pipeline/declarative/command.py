"""``rillet pipeline declarative DIR``: set up the Declarative Pipelines project in a folder, and run it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

_SPEC: Final = "spark-pipeline.yml"
_DEFINITIONS: Final = ("bronze.py", "silver.py", "gold.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument("folder", metavar="DIR", help="the project; made if it is not there")
    parser.add_argument(
        "--streams", default="orders", help="names, with commas between them (default orders)"
    )
    parser.add_argument(
        "--aof", default="appendonlydir", metavar="AOF_DIR", help="the append-only folder of the server"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", default="6379")
    parser.add_argument("--dry-run", action="store_true", help="check the graph, and run nothing")
    parser.add_argument("--only-make", action="store_true", help="make the project, and start nothing")


def run(arguments: argparse.Namespace) -> int:
    """Make the project if need be, and run it as spark-pipelines does."""
    folder = Path(arguments.folder)
    if not (folder / _SPEC).exists():
        make(
            folder, host=arguments.host, port=arguments.port, streams=arguments.streams,
            aof=str(Path(arguments.aof).resolve()),
        )  # fmt: skip
    command = command_line("dry-run" if arguments.dry_run else "run")
    if arguments.only_make:
        sys.stdout.write(f"cd {folder} && {' '.join(command)}\n")
        return 0
    from ..extras import need
    from ..java import use_java

    need(
        "pyspark",
        "pandas",
        "grpc",
        "grpc_status",
        "zstandard",
        "yaml",
        by="spark-pipelines",
        extra="declarative",
    )
    use_java()
    settings = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return _run(command, folder, {**settings, **os.environ})


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> int:
    """Run Spark's program, saying what it says; its status.

    The client of PySpark 4.3.0 trips over a message that comes behind the end of a run that read from Python, and leaves
    with status 1 (UNKNOWN_RESPONSE … __python_accumulator__): by then the run has said that it is COMPLETED.
    """
    completed = tripped = False
    with subprocess.Popen(  # noqa: S603 - Spark's own program
        command, cwd=folder, env=environment, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            completed |= "Run is COMPLETED." in line
            tripped |= "[UNKNOWN_RESPONSE]" in line and "__python_accumulator__" in line
            sys.stdout.write(line)
    if completed and tripped:
        sys.stdout.write("The error above came after the end of the run and is harmless.\n")
        return 0
    return process.returncode


def make(folder: Path, **values: str) -> None:
    """Copy the project, with the values of its spec (host, port, streams, aof) filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    here = files(__package__)
    for name in _DEFINITIONS:
        (folder / name).write_text(here.joinpath(name).read_text(encoding="utf-8"), encoding="utf-8")
    spec = Template(here.joinpath(_SPEC).read_text(encoding="utf-8"))
    storage = (folder / "storage").resolve()
    storage.mkdir(exist_ok=True)
    (folder / _SPEC).write_text(spec.substitute(values, storage=storage.as_uri()), encoding="utf-8")


def command_line(what: str) -> list[str]:
    """Return the command: its catalog remembers the tables of the last run, Spark's default one does not."""
    program = Path(sys.executable).parent / "spark-pipelines"
    return [str(program), what, "--conf", "spark.sql.catalogImplementation=hive", "--spec", _SPEC]
