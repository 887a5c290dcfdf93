"""What servers declare of their commands, and where real ones differ from Rillet: the tables of test_specs.

Redis 7.0 has older names in its argument trees: its successors renamed nodes without changing the syntax, so names are
compared with the newest version only. Whatever is not listed here is equal.
"""

import itertools
from typing import Any, Final

from support.servers import ServerProcess

from rillet.commands.spec.command import REGISTRY, Argument
from rillet.commands.spec.grammar import (
    KEY,
    block,
    integer,
    key,
    many,
    oneof,
    optional,
    pattern,
    string,
    token,
)
from rillet.server.families import load_all

load_all()
# What is compared with real servers: all but Rillet's own.
OF_REDIS: Final = {name for name, entry in REGISTRY.items() if not entry.ours}
_OURS: Final = REGISTRY.keys() - OF_REDIS


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(item) for item in value] if isinstance(value, list) else value


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _key_spec(raw: list[Any]) -> list[Any]:
    fields = _pairs(raw)
    parts = ["notes" in fields, sorted(fields["flags"])]
    for name in ("begin_search", "find_keys"):
        _, kind, _, spec = fields[name]
        parts.append((kind, _pairs(spec)))
    return parts


def infos(process: ServerProcess) -> dict[str, dict[str, Any]]:
    """Return the fields of COMMAND by full name, for commands and subcommands."""
    found = {}

    def add(item: list[Any]) -> None:
        found[item[0]] = {
            "arity": item[1],
            "flags": sorted(item[2]),
            "positions": tuple(item[3:6]),
            "categories": sorted(item[6]),
            "tips": item[7],
            "keys": [_key_spec(spec) for spec in item[8]],
        }
        for subcommand in item[9]:
            add(subcommand)

    with process.wire() as wire:
        for item in _text(wire.call("COMMAND").plain()):
            if item[0] not in _OURS:
                add(item)
    return found


def docs(process: ServerProcess) -> tuple[dict[str, dict[str, Any]], dict[str, tuple[Argument, ...]]]:
    """Return the fields of COMMAND DOCS that are facts, and the argument trees, each by full name."""
    facts, trees = {}, {}

    def add(name: str, fields: dict[str, Any]) -> None:
        facts[name] = {
            "since": fields["since"],
            "group": fields["group"],
            "doc_flags": sorted(fields.get("doc_flags", [])),
            "deprecated": (fields.get("deprecated_since"), fields.get("replaced_by")),
            "complexity": "complexity" in fields,
            "history": [version for version, _ in fields.get("history", [])],
        }
        trees[name] = tuple(_argument(_pairs(node)) for node in fields.get("arguments", []))
        for subcommand, inner in _pairs(fields.get("subcommands", [])).items():
            add(subcommand, _pairs(inner))

    with process.wire() as wire:
        for name, fields in _pairs(_text(wire.call("COMMAND", "DOCS").plain())).items():
            if name not in _OURS:
                add(name, _pairs(fields))
    return facts, trees


def prose(process: ServerProcess) -> set[str]:
    """Return the sentences of COMMAND and COMMAND DOCS: summaries, complexities, changes by version and notes on keys."""
    found = set()

    def add(fields: Any) -> None:
        if not isinstance(fields, list):
            return
        for name, value in itertools.pairwise(fields):
            if name in ("summary", "complexity", "notes") and isinstance(value, str):
                found.add(value)
            elif name == "history":
                found.update(text for _, text in value)
        for each in fields:
            add(each)

    with process.wire() as wire:
        for words in ("COMMAND",), ("COMMAND", "DOCS"):
            add(_text(wire.call(*words).plain()))
    return found


def _argument(fields: dict[str, Any]) -> Argument:
    flags = fields.get("flags", [])
    display = fields.get("display_text")
    return Argument(
        name=fields["name"],
        type=fields["type"],
        token=fields.get("token"),
        flags=" ".join(flag for flag in ("optional", "multiple", "multiple_token") if flag in flags),
        arguments=tuple(_argument(_pairs(node)) for node in fields.get("arguments", [])),
        display=None if display == fields["name"] else display,
        key_spec=fields.get("key_spec_index"),
        since=fields.get("since"),
        deprecated_since=fields.get("deprecated_since"),
    )


def tree(name: str) -> tuple[Argument, ...]:
    """Return the argument tree that Rillet declares."""
    return REGISTRY[name].arguments


def without_names(nodes: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Return the tree without the names of its nodes, which its words do not show."""
    return tuple(
        node._replace(name="", display=None, arguments=without_names(node.arguments)) for node in nodes
    )


# Redis has two lines for one version.
DOCUMENTED_TWICE = {"client|kill": "2.8.12", "restore": "5.0.0", "restore-asking": "5.0.0"}
# Of the history in 7.0's documents.
HISTORY_IN_70 = {
    "georadius_ro": {"7.0.0"},
    "georadiusbymember": {"6.2.0"},
    "georadiusbymember_ro": {"6.2.0", "7.0.0"},
}

SINCE_70: Final = {"7.2.0", "7.4.0", "8.0.0", "8.2.0", "8.4.0", "8.6.0", "8.8.0", "8.10.0"}


# What 7.0 says where more than names differs.
OTHERWISE_IN_70 = {
    # Names without a hyphen, and options within an optional choice.
    "migrate": (
        string("host"),
        integer("port"),
        oneof("key_or_empty_string", KEY, token("", name="empty_string")),
        *tree("migrate")[3:7],
        optional(
            oneof(
                "authentication",
                optional(string("password", "AUTH", since="4.0.7")),
                optional(
                    block(
                        "username_password",
                        string("username"),
                        string("password"),
                        after="AUTH2",
                        since="6.0.0",
                    )
                ),
            )
        ),
        tree("migrate")[8]._replace(name="key"),
    ),
    # FULL was the block's own token; it became its first word.
    "xinfo|stream": (KEY, optional(block("full", optional(integer("count", "COUNT")), after="FULL"))),
    # NOVALUES is newer (7.4).
    "hscan": tree("hscan")[:-1],
    # WITHSCORE is newer (7.2).
    "zrank": tree("zrank")[:-1],
    "zrevrank": tree("zrevrank")[:-1],
    # The sources were not marked as optional.
    "pfmerge": (tree("pfmerge")[0], tree("pfmerge")[1]._replace(flags="multiple")),
    # The operation was a plain string.
    "bitop": (string("operation"), *tree("bitop")[1:]),
    # Blocks of a single argument lost the block around it.
    "psubscribe": (many(block("pattern", pattern())),),
    "config|get": (many(block("parameter", string("parameter"))),),
    "module|loadex": (
        string("path"),
        optional(many(block("configs", string("name"), string("value"), after="CONFIG"), with_token=True)),
        optional(many(block("args", string("arg"), after="ARGS"))),
    ),
    "client|list": (
        optional(
            oneof(
                "normal_master_replica_pubsub",
                *(token(kind) for kind in ("NORMAL", "MASTER", "REPLICA", "PUBSUB")),
                after="TYPE",
                since="5.0.0",
            )
        ),
        optional(block("id", many(integer("client-id")), after="ID", since="6.2.0")),
    ),
    # Members became optional with 7.2's documents, as they had been all along.
    "geohash": (KEY, many(string("member"))),
    "geopos": (KEY, many(string("member"))),
    # Two options of which only one may be given.
    **{
        name: (
            *tree(name)[:-1],
            optional(key("key", "STORE", spec=1)),
            optional(key("key", "STOREDIST", spec=2)),
        )
        for name in ("georadius", "georadiusbymember")
    },
    # 7.0 does not document the command line that they take.
    "command|getkeys": (),
    "command|getkeysandflags": (),
    # MAXAGE is newer (7.4); SKIPME was a plain string.
    "client|kill": (
        oneof(
            "filter",
            string("ip:port", deprecated_since="2.8.12"),
            many(
                oneof(
                    "new-format",
                    optional(integer("client-id", "ID", since="2.8.12")),
                    optional(
                        oneof(
                            "normal_master_slave_pubsub",
                            token("NORMAL"),
                            token("MASTER", since="3.2.0"),
                            token("SLAVE"),
                            token("REPLICA", since="5.0.0"),
                            token("PUBSUB"),
                            after="TYPE",
                            since="2.8.12",
                        )
                    ),
                    optional(string("username", "USER")),
                    optional(string("ip:port", "ADDR")),
                    optional(string("ip:port", "LADDR", since="6.2.0")),
                    optional(string("yes/no", "SKIPME")),
                )
            ),
        ),
    ),
}
