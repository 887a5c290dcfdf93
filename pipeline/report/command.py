"""``rillet pipeline report AOF_DIR --out report/``: write Parquet tables and an HTML page from an append-only folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...console.style import POISON_DELIVERIES
from ..cli.argument_types import argument
from ..cli.progress import Progress
from ..cli.spark import add_spark_arguments, has_session, spark_session
from ..folders import local_folder
from ..ledger.files.folder import read_folder
from ..times import parse_duration, parse_time

if TYPE_CHECKING:
    from .page import Report

_CONTENTS: Final = 1 << 30  # bytes of ledger that one process walks over for the fields of messages
_SMALL: Final = 256 << 20  # bytes of ledger for which a JVM that starts quickly beats one that runs fast
# For queries over few rows, code generation and adaptive planning are most of the work. A join within one partition
# needs no job that broadcasts one side.
_QUICK: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``report``."""
    parser.add_argument(
        "aof", metavar="AOF_DIR", help="appendonlydir of a server, its manifest, or one .aof file"
    )
    parser.add_argument("--out", default="report", metavar="DIR", help="where to write (default: report)")
    parser.add_argument(
        "--at",
        type=argument(parse_time),
        metavar="TIME",
        help="the moment for the lists of pending entries: milliseconds or an ISO time",
    )
    parser.add_argument(
        "--poison-from",
        type=int,
        default=POISON_DELIVERIES,
        metavar="N",
        help=f"a message with N deliveries is poison (default {POISON_DELIVERIES})",
    )
    parser.add_argument(
        "--abandoned-after",
        type=argument(parse_duration),
        default="60s",
        metavar="TIME",
        help="a consumer silent for so long is gone (default 60s)",
    )
    parser.add_argument(
        "--no-contents", action="store_true", help="leave the fields of messages out of the page"
    )
    add_spark_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the tables and the page of a report, and return the exit status."""
    from .tables import Settings

    settings = Settings(
        at_ms=arguments.at, poison_from=arguments.poison_from, abandoned_ms=arguments.abandoned_after
    )
    sizes = [part.size() for part in read_folder(arguments.aof)]
    out = local_folder(arguments.out)
    from .gather import HERE, Gathering

    progress = Progress(4 + (not has_session()))
    with spark_session(arguments, progress, **_conf(sum(sizes))) as spark:
        report = Gathering(
            spark, arguments.aof, (out / "tables").resolve(), settings, progress,
            here=sum(sizes) <= HERE,
            contents=not arguments.no_contents and sum(sizes) <= _CONTENTS,
        ).run()  # fmt: skip
        page = draw(report, out, progress)
    progress.say(f"The report is at {page.resolve()}")
    return 0


def draw(report: Report, out: Path, progress: Progress) -> Path:
    """Write the HTML page of a report into a folder; return the page's path."""
    from .page import render

    with progress.step("drawing the page"):
        text = render(report)
        target = out / "index.html"
        target.write_text(text, encoding="utf-8")
        progress.note(f"{len(text) // 1024:,} KB")
    return target


def _conf(size: int) -> dict[str, str]:
    from .gather import HERE

    conf = {"spark.sql.session.timeZone": "UTC"}
    if size <= HERE:
        conf |= _QUICK
    if size < _SMALL:
        conf["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        conf.setdefault("spark.sql.shuffle.partitions", "2")
    else:
        conf["spark.driver.memory"] = "2g"
    return conf
