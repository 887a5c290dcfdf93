"""The README's table of commands, written from the command table.

``python -m rillet.commands.spec.markdown README.md`` brings the part between ``<!-- commands -->`` and ``<!-- /commands -->`` up
to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import load_all
from .command import REGISTRY
from .usage import usage_line

if TYPE_CHECKING:
    from .command import Command

BEGIN: Final = "<!-- commands -->"
END: Final = "<!-- /commands -->"
_TITLES: Final = {
    "stream": "Streams",
    "generic": "Keys",
    "string": "Strings",
    "hash": "Hashes",
    "list": "Lists",
    "set": "Sets",
    "sorted-set": "Sorted sets",
    "bitmap": "Bitmaps",
    "hyperloglog": "HyperLogLog",
    "geo": "Geo",
    "transactions": "Transactions",
    "pubsub": "Publish and subscribe",
    "connection": "Connections",
    "server": "Server",
    "scripting": "Scripts and functions",
    "cluster": "Cluster",
}
_NOTES: Final = {
    "scripting": "Lua 5.1 by lupa; without that package these say so. There is no debugger.",
    "cluster": "The server is no node of a cluster: all of these answer `ERR This instance has cluster support disabled`.",
}


def readme_matrix() -> str:
    """Markdown: a table for each group, a line for each command and subcommand; containers themselves are left out."""
    load_all()
    groups: dict[str, list[Command]] = {group: [] for group in _TITLES}
    for entry in REGISTRY.values():
        if entry.handler is not None:
            groups[entry.group].append(entry)
    return "\n".join(_table(group, entries) for group, entries in groups.items() if entries)


def _table(group: str, entries: list[Command]) -> str:
    lines = [f"### {_TITLES[group]}", ""]
    if group in _NOTES:
        lines += [_NOTES[group], ""]
    lines += ["| Command | Since | What it does |", "| --- | --- | --- |"]
    lines += [
        f"| `{_escaped(usage_line(entry))}` | {entry.since} | {_escaped(entry.summary)} |"
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def with_matrix(text: str) -> str:
    """A README with the part between its markers replaced.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the table goes between {BEGIN} and {END}, which this text lacks")
    return f"{before}{begin}\n\n{readme_matrix()}\n{end}{after}"


def main() -> int:
    """Rewrite the files named on the command line; without any, print the table."""
    if len(sys.argv) == 1:
        print(readme_matrix())  # noqa: T201 - what was asked for
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_matrix(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
