"""The page of all directives, from their declarations."""

from __future__ import annotations

from rillet.server.config import kinds
from rillet.server.config.config import DIRECTIVES, Config


def page() -> str:
    """Return the page: a row for each directive."""
    config = Config()
    rows = [
        f"| `{each.name}` | `{config.text(each).decode(errors='replace') or ' '}` | {values(each.kind)} | "
        f"{'CONFIG SET' if each.mutable else 'at the start'} | {'.'.join(map(str, each.since))} |"
        for each in sorted(DIRECTIVES.values(), key=lambda each: each.name)
        if each.primary
    ]
    return (
        "# Directives\n\nThey stand in redis.conf, on the command line (`--name value`) and in CONFIG. *Since* is the "
        "version of Redis from which CONFIG knows them.\n\n"
        "| directive | default | values | changed by | since |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    ).replace("` `", "")


def values(kind: kinds.Kind[object]) -> str:
    """Say in short what a directive takes."""
    if isinstance(kind, kinds.Enum):
        return ", ".join(f"`{name}`" for name in kind.names)
    if isinstance(kind, kinds.Bool):
        return "`yes`, `no`"
    if isinstance(kind, kinds.Memory):
        return "bytes, with a unit (`1mb`)"
    if isinstance(kind, kinds.Integer):
        return f"{kind.minimum} to {kind.maximum}"
    return type(kind).__name__.removesuffix("Kind").lower()
