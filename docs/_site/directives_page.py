"""The page of all directives, from their declarations."""

from __future__ import annotations

from rillet.server.config import kinds
from rillet.server.config.config import DIRECTIVES, Config
from rillet.server.config_bindings import WITHOUT_EFFECT


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
    ).replace("` `", "") + without_effect()


def without_effect() -> str:
    """Return the settings that are kept and shown, and nothing more, by the reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in WITHOUT_EFFECT.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {why} |" for why, names in reasons.items()]
    return (
        "\n## Without effect\n\nFiles of redis-server may set them. CONFIG shows the value; one that is not the default "
        "is a warning in the log.\n\n| directives | because |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    )


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
