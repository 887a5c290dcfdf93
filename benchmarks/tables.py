"""What the benchmarks share that people see: options, and Markdown tables that are printed and put into pages."""

from __future__ import annotations

import argparse
from typing import Final

from servers import ROOT

_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "names": {"nargs": "*", "help": "only what has one of these in its name"},
    "--quick": {"action": "store_true", "help": "shorter rounds, smaller data"},
    "--entries": {"type": int, "help": "the N of entries or of all else (1,000,000; with --quick 100,000)"},
    "--mode": {"help": "only loads whose names end so (`1 client`, `50 clients`, `pipeline 16`)"},
    "--seconds": {"type": float, "help": "length of a round (0.5)"},
    "--publish": {"action": "store_true", "help": "put the tables into the pages that show them"},
}


def options(doc: str | None, *common: str, rounds: int = 0) -> argparse.ArgumentParser:
    """Return a parser with some of the common options, and with `--rounds` if there is a default number of them."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in common:
        made.add_argument(option, **_OPTIONS[option])  # type: ignore[arg-type]
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help=f"rounds of each ({rounds})")
    return made


def size(asked: argparse.Namespace) -> int:
    """The N that was asked for."""
    return asked.entries or (100_000 if asked.quick else 1_000_000)


class Table:
    """A Markdown table, whose lines are printed while they are made.

    Attributes:
        text: all its lines.
    """

    def __init__(self, head: str, *, words: int = 1, quiet: bool = False) -> None:
        """Begin it: names of columns between bars, of which the first `words` columns do not hold numbers."""
        self._quiet = quiet
        self.text = ""
        names = head.split(" | ")
        self._head = [names, ["---"] * words + ["---:"] * (len(names) - words)]

    def add(self, *cells: str) -> None:
        """Add a line; the head comes with the first."""
        lines = [f"| {' | '.join(each)} |" for each in (*self._head, cells)]
        self._head = []
        if not self._quiet:
            print("\n".join(lines), flush=True)
        self.text += "\n".join(lines) + "\n"


def publish(asked: argparse.Namespace, page: str, name: str, text: str) -> None:
    """Put a text between the two markers of a page that have its name, if that is asked for."""
    if not asked.publish:
        return
    path = ROOT / page
    before, begin, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"{page} has no <!-- {name} --> … <!-- /{name} --> to put the table between")
    path.write_text(before + begin + text + end + after, encoding="utf-8")
