"""What the benchmarks share that people see: options, and Markdown tables that are printed and put into pages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "names": {"nargs": "*", "help": "only what has one of these in its name"},
    "--quick": {"action": "store_true", "help": "shorter rounds, smaller data"},
    "--markdown": {
        "type": Path,
        "metavar": "FILE",
        "help": "put the tables between the markers of this page",
    },
}


def options(doc: str | None, *common: str, rounds: int = 0) -> argparse.ArgumentParser:
    """Return a parser with some of the common options, and with `--rounds` if there is a default number of them."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in common:
        made.add_argument(option, **_OPTIONS[option])  # type: ignore[arg-type]
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help=f"rounds of each ({rounds})")
    return made


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


def publish(page: Path | None, name: str, text: str) -> None:
    """Put a text between the two markers of a page that have its name, in place of the earlier one."""
    if page is None:
        return
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"{page} has no <!-- {name} --> … <!-- /{name} --> to put the table between")
    page.write_text(before + begin + text + end + after, encoding="utf-8")
