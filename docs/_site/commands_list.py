"""The page of all commands, docs/commands.md, generated from the command table.

``python docs/_site/commands_list.py docs/commands.md`` writes the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rillet.commands.spec.command import REGISTRY
from rillet.commands.spec.usage import usage_line
from rillet.server.families import load_all

if TYPE_CHECKING:
    from rillet.commands.spec.command import Command

_HEAD: Final = """\
# Commands

All commands of the server, by family. *Since* is the version of Redis that introduced the command. This page is
generated: `python docs/_site/commands_list.py docs/commands.md`.

Of Redis 8.10 these are left out, and COMMAND does not list them: arrays (`ARSET`, `ARGET` and all other `AR…`), vector
sets (`VADD`, `VSIM` and all other `V…`), `HOTKEYS`, `BACKUP`, `TRIMSLOTS`, `PFDEBUG`, `PFSELFTEST`, and what modules
bring. Nodes of a cluster exist for tests only: [a cluster for tests of clients](testing/cluster.md).
"""
TITLES: Final = {
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
    "cluster": "On a server that is no node of a [cluster for tests](testing/cluster.md) all of these answer `ERR This instance has "
    "cluster support disabled`.",
}


def page() -> str:
    """Return the page: a table for each group, a line for each command and subcommand, none for containers."""
    load_all()
    groups: dict[str, list[Command]] = {group: [] for group in TITLES}
    for entry in REGISTRY.values():
        if entry.is_served:
            groups[entry.group].append(entry)
    return "\n".join([_HEAD, *(_table(group, entries) for group, entries in groups.items() if entries)])


def _table(group: str, entries: list[Command]) -> str:
    lines = [f"## {TITLES[group]}", ""]
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


def main() -> int:
    """Write the page to the files named on the command line; without any, print it."""
    if len(sys.argv) == 1:
        print(page())  # noqa: T201 - what was asked for
    for name in sys.argv[1:]:
        Path(name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
