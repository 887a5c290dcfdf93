"""The page of the options of the Spark formats.

Their names, kinds and defaults are noted while the code reads options, so the page cannot claim others. What an option
means stands in ``MEANINGS``; an option without one, or a meaning without an option, is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from rillet.pipeline import formats
from rillet.pipeline.group.options import GroupOptions
from rillet.pipeline.ledger import format as ledger
from rillet.pipeline.redis.options import ENDPOINT_NAMES, Endpoint, Options
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.source.entry_batches import COLUMN_OPTIONS, ColumnOptions
from rillet.pipeline.source.options import ALIASES, EARLIEST, LATEST, SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# By name: the unit of its value, or what kind of text it is; what it means.
MEANINGS: dict[str, tuple[str, str]] = {
    # where the server is
    "url": ("address", "`redis://`, `redis+cluster://` or `redis+sentinel://`, with TLS `rediss…`; says host, port and db"),
    "host": ("name", "of one server"),
    "port": ("", "of one server"),
    "username": ("name", "an ACL user; needs a password"),
    "password": ("text", "give it in one way only"),
    "db": ("", "the number of the database"),
    "unixSocket": ("path", "instead of host and port"),
    "readFrom": ("", "`replica`: tasks read entries from replicas of a cluster or of sentinels"),
    "sentinelUsername": ("name", "for sentinels with a login of their own"),
    "sentinelPassword": ("text", "for sentinels with a login of their own"),
    "tls": ("", "speak TLS; of a url the scheme says it"),
    "tlsCaCert": ("path", "the certificates to trust"),
    "tlsCert": ("path", "the client's certificate; goes with `tlsKey`"),
    "tlsKey": ("path", "the client's key; goes with `tlsCert`"),
    "tlsSkipVerify": ("", "do not check the server's certificate"),
    "timeoutMs": ("ms", "the longest wait for a connection, and for a reply"),
    "retries": ("tries", "after the first one; 15 with clusters and sentinels, about a minute"),
    "retryIntervalMs": ("ms", "the pause before the second try; it doubles up to five seconds"),
    "passwordEnv": ("name", "the environment variable with the password, read for each new connection"),
    "passwordFile": ("path", "the file with the password, read for each new connection"),
    "credentialsProvider": ("package.module:name", "a function that returns the password, or user and password"),
    # columns
    "parseMode": ("", "what happens to a value that does not fit its column: null, stop, or leave the row out"),
    "columnNameOfCorruptRecord": ("name", "the column that gets the entry if a value does not fit"),
    "valueFormat": ("", "where the columns are: in fields of the entry, or in JSON within one field"),
    "valueField": ("name", "the field with the JSON"),
    "metadataPrefix": ("text", "before the names of Rillet's own columns"),
    "timestampFormat": ("", "of fields in timestamp columns; numbers count from 1970"),
    # what is read
    "mode": ("", "read by ids, or as a consumer of a group"),
    "streams": ("names", "with commas between them, or a JSON list; `load(name)` says the same"),
    "streamsPattern": ("glob", "all streams that match"),
    "subscribePattern": ("regular expression", "all streams whose whole name matches"),
    "startingOffsets": ("id", "`earliest`, `latest`, an id, or JSON by stream: reading begins after it"),
    "startingTimestamp": ("ms or ISO 8601", "reading begins with this moment"),
    "startingOffsetsByTimestamp": ("JSON", "moments by stream"),
    "endingOffsets": ("id", "`latest`, an id, or JSON by stream: reading ends with it"),
    "endingTimestamp": ("ms or ISO 8601", "reading ends before this moment"),
    "endingOffsetsByTimestamp": ("JSON", "moments by stream"),
    "fetchSize": ("entries", "in one reply"),
    "minPartitions": ("tasks", "the least, if there is enough to read"),
    "maxRowsPerPartition": ("rows", "the most that a task reads"),
    "failOnDataLoss": ("", "stop when entries are gone unread, or a stream is another one; else report it and go on"),
    "maxRowsPerTrigger": ("rows", "the most in a micro-batch"),
    "maxBytesPerTrigger": ("bytes", "the most in a micro-batch"),
    "minRowsPerTrigger": ("rows", "a micro-batch waits for so many"),
    "maxTriggerDelay": ("duration", "the longest wait for `minRowsPerTrigger`: `500ms`, `10s`, `15m`, `1h`, `1d`"),
    "discoveryIntervalMs": ("ms", "between two look-ups of a pattern"),
    "group": ("name", "of the consumer group; required"),
    "consumer": ("name", "none: a name of its own for each checkpoint; two queries of one group need two names"),
    "createGroup": ("", "create the group where it is missing"),
    "claimMinIdleMs": ("ms", "claim what other consumers have had for so long"),
    "maxDeliveries": ("deliveries", "an entry delivered so often goes to `deadLetterStream`"),
    "deadLetterStream": ("name", "`<stream>` in it is the entry's stream; goes with `maxDeliveries`"),
    # what is written
    "stream": ("name", "the stream of all rows"),
    "streamColumn": ("column", "names the stream of each row, where `stream` does not"),
    "idColumn": ("column", "has the IDs of the entries; else the server gives them"),
    "fieldsColumn": ("column", "an array of name and value, or a map, that is the entry; else each column is a field"),
    "delivery": ("", "a transaction and a marker per batch, plain XADD, or XADD IDMP"),
    "maxLen": ("entries", "trim the stream while adding"),
    "minId": ("id", "trim the stream while adding"),
    "approximate": ("", "trim whole macro nodes only (`~`)"),
    "nullPolicy": ("", "leave a null out, write an empty string, or refuse it"),
    "chunkRows": ("rows", "the most in one transaction or request; 0: the whole batch"),
    "inlineBytes": ("bytes", "of a task that go through the driver; beyond, rows are staged in the server"),
    "stagingTtlMs": ("ms", "how long staged rows live unpublished"),
    "oldIds": ("", "an ID that is not above the last one counts as written if it is there, or always"),
    "marker": ("key", "of the exactly-once marker, instead of one made of stream and query"),
    "writeId": ("text", "a batch write repeated with the same one happens once"),
    "writeNumber": ("", "with `writeId`: the number of the write, which rises; all writes share one marker"),
    "markerTtlMs": ("ms", "with `writeId`: how long the marker lives; without it, for ever"),
    "producer": ("name", "IDMP's producer, instead of one made of the query"),
    "wait": ("words", "`replicas:<number>`, `aof`, or both with a comma: a batch is done when they have it"),
    "waitTimeoutMs": ("ms", "the longest `wait`; then the query fails"),
    # the ledger
    "path": ("path", "the folder, its manifest or one file; what `load` is given"),
    "splitBytes": ("bytes", "the size of a task's part of a file; 0: no file is split"),
    "history": ("", "begin with the files that rewrites have replaced and that are kept"),
}  # fmt: skip
# Where the same name means something else.
OTHERWISE = {
    ("failOnDataLoss", "sink"): (
        "",
        "stop when the target has lost published batches; else report it and go on",
    ),
    ("failOnDataLoss", "following"): ("", "stop when files are gone unread; else report it and go on"),
    ("startingOffsets", "following"): ("", "where a new query begins"),
}
# What the code puts in the place of a text that is not given, which it does not name when it asks for the text.
ELSEWHERE = {
    "host": Endpoint.host,
    "columnNameOfCorruptRecord": ColumnOptions.corrupt_column,
    "valueField": ColumnOptions.value_field,
    "streamColumn": "stream",
    "startingOffsets": LATEST,
    "endingOffsets": LATEST,
}
IN_BATCHES = {"startingOffsets": EARLIEST}
HEAD = """\
Names are written in any case. An unknown option is refused, with the nearest known name. An empty default means that the
option has none."""
READING = ("batch", "stream", "group")


@dataclass
class Seen:
    """What the code asks of an option: the words it may be, and what it is if it is not given."""

    kind: str = ""
    default: str = ""


class NotingOptions(Options):
    """Options that note what is asked of them in ``seen``, and in ``known`` which names are accepted."""

    def __init__(self, given: Mapping[str, str], seen: dict[str, Seen], known: list[str]) -> None:
        super().__init__(given)
        self.seen, self.known = seen, known

    def renamed(self, aliases: Mapping[str, str]) -> Options:
        """Keep noting under the other names."""
        return NotingOptions(super().renamed(aliases)._given, self.seen, self.known)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Note the names."""
        self.known += known
        super().refuse_unknown(known)

    def text(self, name: str, default: str | None = None) -> str | None:
        """Note a text."""
        self.seen.setdefault(name, Seen("", default or ""))
        return super().text(name, default)

    def number(self, name: str, default: Any = None, *, least: int = 0, most: int = 2**63 - 1) -> Any:
        """Note a number."""
        kind = f"{least} to {most}" if most < 2**31 else f"{least} or more" if least else "0 or more"
        self.seen.setdefault(name, Seen(kind, "" if default is None else str(default)))
        return super().number(name, default, least=least, most=most)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Note a flag."""
        self.seen.setdefault(name, Seen("`true`, `false`", str(default).lower()))
        return super().flag(name, default=default)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Note the words."""
        words = list(choices)
        self.seen.setdefault(name, Seen(", ".join(f"`{word}`" for word in words), default))
        return super().choice(name, words, default)


Ways = dict[str, dict[str, Seen]]


def readings() -> Ways:
    """Return the options of each way to read or write: batch, stream, group, sink, files, following.

    Raises:
        ValueError: an option has no meaning, or a meaning no option.
    """
    found: Ways = {}
    for way, given, read in (
        ("batch", {"streams": "s"}, lambda options: SourceOptions.of(options, streaming=False)),
        ("stream", {"streams": "s"}, lambda options: SourceOptions.of(options, streaming=True)),
        ("group", {"streams": "s", "group": "g"}, GroupOptions.of),
        ("sink", {"stream": "s", "wait": "aof", "maxLen": "1"}, _sink),
        ("files", {"path": "a"}, _files),
        ("following", {"path": "a"}, _following),
    ):
        options = NotingOptions(given, {}, [])
        if way in READING:
            formats.RedisStreams._mode(options)
        read(options)
        found[way] = {name: options.seen.get(name, Seen()) for name in options.known}
        for name, seen in found[way].items():
            elsewhere = ELSEWHERE | (IN_BATCHES if way == "batch" else {})
            seen.default = seen.default or elsewhere.get(name, "")
    names = {name for options in found.values() for name in options}
    if wrong := names ^ set(MEANINGS):
        raise ValueError(f"without a meaning, or without an option: {sorted(wrong)}")
    return found


def _sink(options: Options) -> None:
    SinkOptions.of(options, StructType().add("field", "string"), overwrite=False)


def _files(options: Options) -> None:
    options.refuse_unknown(ledger._BATCH_OPTIONS)
    ledger.LedgerReader(options)


def _following(options: Options) -> None:
    options.refuse_unknown(ledger._STREAM_OPTIONS)
    ledger.LedgerStreamReader(options)


def page() -> str:
    """Return the page."""
    ways = readings()
    reading = {way: ways[way] for way in READING}
    common = {*ENDPOINT_NAMES, *COLUMN_OPTIONS}
    aliases = ", ".join(f"`{other}` is `{name}`" for other, name in ALIASES.items())
    return (
        "\n\n".join(
            [
                "# Options of the Spark formats",
                HEAD,
                "## `redis-streams`: where the server is",
                "Source and sink have them.",
                table({"": {name: ways["batch"][name] for name in ENDPOINT_NAMES}}),
                "## `redis-streams`: reading",
                f"*In* says which ways have the option, if not all of batch, stream and group do. Kafka's names: {aliases}.",
                table({way: _without(options, common) for way, options in reading.items()}),
                "## `redis-streams`: columns",
                table({"": {name: ways["batch"][name] for name in COLUMN_OPTIONS}}),
                "## `redis-streams`: writing",
                table({"sink": _without(ways["sink"], common)}),
                "## `redis-aof`",
                "`spark.read` reads the files there are, `spark.readStream` follows them.",
                table({way: ways[way] for way in ("files", "following")}),
            ]
        )
        + "\n"
    )


def _without(options: dict[str, Seen], names: set[str]) -> dict[str, Seen]:
    return {name: seen for name, seen in options.items() if name not in names}


def table(ways: Ways) -> str:
    """Return the rows of all options of some ways to read."""
    several = len(ways) > 1
    lines = [
        f"| option | value | default |{' in |' if several else ''} |",
        f"| --- | --- | --- |{' --- |' if several else ''} --- |",
    ]
    for name in dict.fromkeys(name for options in ways.values() for name in options):
        seen = {way: options[name] for way, options in ways.items() if name in options}
        [kind] = {each.kind for each in seen.values()}
        [(unit, meaning)] = {OTHERWISE.get((name, way), MEANINGS[name]) for way in seen}
        where = f" {', '.join(seen) if len(seen) < len(ways) else ''} |" if several else ""
        value = ", ".join(part for part in (unit, kind) if part)
        assert value, name
        lines.append(f"| `{name}` | {value} | {defaults(seen)} |{where} {meaning} |")
    return "\n".join(lines)


def defaults(seen: Mapping[str, Seen]) -> str:
    """Return the default, or those of each way if they are not the same."""
    texts = {way: f"`{each.default}`" if each.default else "" for way, each in seen.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{way}: {text or 'none'}" for way, text in texts.items())
