"""``rillet pipeline <verb>``: the pipeline's command line. Each verb is a module with ``add_arguments`` and ``run``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from ...arguments import Parser
from ..error_tokens import LabelledError
from ..extras import EXTRAS, install

# verb → module. The file of a verb is imported only when the verb is used; its help line is here so that `--help` is
# fast.
VERBS: Final[dict[str, tuple[str, str]]] = {
    "doctor": (".doctor", "say what this machine has for the pipeline, and what is wrong"),
    "queries": (".queries", "how running queries stand: lag, pending, dead letters, the last batch"),
    "report": (
        "..report.command",
        "what was delivered, how often and how fast: tables and a page from an append-only file",
    ),
    "ingest": ("..jobs.ingest", "streams into Parquet, Delta or Iceberg, each entry once"),
    "ledger": ("..jobs.ledger", "the delivery ledger of an append-only file into Parquet, Delta or Iceberg"),
    "replay": ("..jobs.replay", "entries of the past, from Parquet or an append-only file, into a stream"),
    "deadletter": ("..jobs.deadletter", "look at dead letters, and requeue them"),
    "package": ("..jobs.package", "what executors need of Rillet, as a file for spark-submit --py-files"),
}
_HOW: Final = "The pipeline needs {module}, which is not installed: {command}"


def main(words: Sequence[str]) -> int:
    """Run one verb; return the exit status: 0, 1 after an error (reported in one line), 2 for wrong arguments."""
    parser = Parser(
        prog="rillet pipeline",
        description="Redis Streams on Spark: source, sink, delivery ledger, reports, jobs.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="verb")
    parsers = {
        name: verbs.add_parser(name, help=summary, description=summary)
        for name, (_, summary) in VERBS.items()
    }
    # The verb's own arguments are known once its module is imported.
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        verb: Any = None
        if chosen in VERBS:
            verb = import_module(VERBS[chosen][0], __package__)
            verb.add_arguments(parsers[chosen])
        arguments = parser.parse_args(words)  # which refuses all that is no verb
        return int(verb.run(arguments))
    except (LabelledError, OSError) as error:
        print(f"rillet pipeline {chosen}: {error}", file=sys.stderr)  # noqa: T201 - as below
        return 1
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        print(_HOW.format(module=module, command=install(EXTRAS[module])), file=sys.stderr)  # noqa: T201 - a tool on the command line
        return 1
