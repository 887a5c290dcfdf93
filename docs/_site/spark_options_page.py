"""The page of the options of the Spark formats, made of the records from which the pipeline reads them."""

from __future__ import annotations

from typing import Any

from rillet.pipeline.formats import READING
from rillet.pipeline.ledger.format import FilesOptions, FollowingOptions
from rillet.pipeline.redis.options import Endpoint, Option, records
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.source.entry_batches import ColumnOptions

HEAD = """\
Names are written in any case. An unknown option is refused, with the nearest known name. An empty default means that the
option has none."""
WAYS = dict(zip(("batch", "stream", "group"), READING.values(), strict=True))


def page() -> str:
    """Return the page."""
    common = {**records(Endpoint), **records(ColumnOptions)}
    reading = {way: _without(records(form), common) for way, form in WAYS.items()}
    kafka = {each.name: each.kafka for way in reading.values() for each in way.values() if each.kafka}
    aliases = ", ".join(f"`{other}` is `{name}`" for name, other in kafka.items())
    files = {"files": records(FilesOptions), "following": records(FollowingOptions)}
    return (
        "\n\n".join(
            [
                "# Options of the Spark formats",
                HEAD,
                "## `redis-streams`: where the server is",
                "Source and sink have them.",
                table({"": records(Endpoint)}),
                "## `redis-streams`: reading",
                f"*In* says which ways have the option, if not all of batch, stream and group do. Kafka's names: {aliases}.",
                table(reading),
                "## `redis-streams`: columns",
                table({"": records(ColumnOptions)}),
                "## `redis-streams`: writing",
                table({"": _without(records(SinkOptions), common)}),
                "## `redis-aof`",
                "`spark.read` reads the files there are, `spark.readStream` follows them.",
                table(files),
            ]
        )
        + "\n"
    )


def _without(options: dict[str, Option], others: dict[str, Any]) -> dict[str, Option]:
    return {name: each for name, each in options.items() if name not in others}


def table(ways: dict[str, dict[str, Option]]) -> str:
    """Return the rows of all options of some ways to read."""
    several = len(ways) > 1
    lines = [
        f"| option | value | default |{' in |' if several else ''} |",
        f"| --- | --- | --- |{' --- |' if several else ''} --- |",
    ]
    for name in dict.fromkeys(name for options in ways.values() for name in options):
        found = {way: options[name] for way, options in ways.items() if name in options}
        [(values, meaning)] = {(each.kind.values, each.meaning) for each in found.values()}
        where = f" {', '.join(found) if len(found) < len(ways) else ''} |" if several else ""
        lines.append(f"| `{name}` | {values} | {defaults(found)} |{where} {meaning} |")
    return "\n".join(lines)


def defaults(options: dict[str, Option]) -> str:
    """Return the default, or those of each way if they are not the same."""
    texts = {way: f"`{each.default}`" if each.default else "" for way, each in options.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{way}: {text or 'none'}" for way, text in texts.items())
