"""What servers declare of their commands, and where real ones do so otherwise than Rillet: the tables of test_specs.

Redis 7.0 has older names (its successors renamed nodes without changing the syntax) and lacks what came since;
Valkey 9.1 has the names of Redis 7.2 and newer options of its own. Whatever is not listed here is equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rillet.commands import load_all
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
    switch,
    token,
)

if TYPE_CHECKING:
    from support.servers import ServerProcess

load_all()


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(item) for item in value] if isinstance(value, list) else value


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _key_spec(raw: list[Any]) -> list[Any]:
    fields = _pairs(raw)
    parts = [fields.get("notes"), sorted(fields["flags"])]
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
            "history": {version for version, _ in fields.get("history", [])},
        }
        trees[name] = tuple(_argument(_pairs(node)) for node in fields.get("arguments", []))
        for subcommand, inner in _pairs(fields.get("subcommands", [])).items():
            add(subcommand, _pairs(inner))

    with process.wire() as wire:
        for name, fields in _pairs(_text(wire.call("COMMAND", "DOCS").plain())).items():
            add(name, _pairs(fields))
    return facts, trees


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


def renamed(nodes: tuple[Argument, ...], names: dict[str, str]) -> tuple[Argument, ...]:
    """Return the tree with other names for some of its nodes."""
    return tuple(
        replace(node, name=names.get(node.name, node.name), arguments=renamed(node.arguments, names))
        for node in nodes
    )


def keys_after_streams(start):
    begin = ("keyword", {"keyword": "STREAMS", "startfrom": start})
    return [None, ["RO", "access", "incomplete"], begin, ("range", {"lastkey": -1, "keystep": 1, "limit": 2})]


TO_ALL_NODES = ["request_policy:all_nodes", "response_policy:all_succeeded"]
# (command, field) where Redis 8 is not like 7.0: what it says, with the release that changed it.
CHANGED_SINCE_70 = {
    # 7.2: an answer that waits is a blocking command's.
    ("wait", "flags"): ["blocking"],
    ("wait", "categories"): ["@blocking", "@connection", "@slow"],
    # 7.2: scripts may call what blocks; there it never waits.
    ("blpop", "flags"): ["blocking", "write"],
    ("brpop", "flags"): ["blocking", "write"],
    ("blmove", "flags"): ["blocking", "denyoom", "write"],
    ("brpoplpush", "flags"): ["blocking", "denyoom", "write"],
    ("bzpopmin", "flags"): ["blocking", "fast", "write"],
    ("bzpopmax", "flags"): ["blocking", "fast", "write"],
    # 7.4: what is at the destination does not matter.
    ("sinterstore", "keys"): [
        [
            None,
            ["OW", "update"],
            ("index", {"index": 1}),
            ("range", {"lastkey": 0, "keystep": 1, "limit": 0}),
        ],
        [
            None,
            ["RO", "access"],
            ("index", {"index": 2}),
            ("range", {"lastkey": -1, "keystep": 1, "limit": 0}),
        ],
    ],
    # 7.2: WITHSCORE.
    ("zrank", "arity"): -3,
    ("zrevrank", "arity"): -3,
    # 7.2: routing tips were completed.
    ("acl|deluser", "tips"): TO_ALL_NODES,
    ("acl|save", "tips"): TO_ALL_NODES,
    ("acl|setuser", "tips"): TO_ALL_NODES,
    ("client|setname", "tips"): TO_ALL_NODES,
    ("config|resetstat", "tips"): TO_ALL_NODES,
    ("config|rewrite", "tips"): TO_ALL_NODES,
    ("latency|reset", "tips"): ["request_policy:all_nodes", "response_policy:agg_sum"],
    ("randomkey", "tips"): [
        "request_policy:all_shards",
        "response_policy:special",
        "nondeterministic_output",
    ],
    ("scan", "tips"): ["nondeterministic_output", "request_policy:special", "response_policy:special"],
    # 7.2: a command without arguments is looked up too.
    ("command|getkeys", "arity"): -3,
    ("command|getkeysandflags", "arity"): -3,
    # 8.10: the specification does not find all keys.
    ("xread", "keys"): [keys_after_streams(1)],
    ("xreadgroup", "keys"): [keys_after_streams(4)],
    # 8.10: refused when memory is short.
    **{
        (name, "flags"): ["denyoom", "loading", "noscript", "pubsub", "stale"]
        for name in ("subscribe", "psubscribe", "ssubscribe")
    },
    # 7.2: corrected, and QUIT was deprecated.
    ("client|pause", "since"): "3.0.0",
    ("quit", "deprecated"): ("7.2.0", "just closing the connection"),
}
FIRST_WORD = (("index", {"index": 1}), ("range", {"lastkey": 0, "keystep": 1, "limit": 0}))
UPDATES_TTL = ["RW and UPDATE because it changes the TTL", ["RW", "access", "update"], *FIRST_WORD]
# Not in 7.0; Valkey has them, where it differs Redis' own declaration is told here.
NEWER_THAN_70 = {
    "client|no-touch": {"flags": ["loading", "noscript", "stale"]},
    "client|setinfo": {"flags": ["loading", "noscript", "stale"]},
    "cluster|myshardid": {"flags": ["stale"]},
    "waitaof": {},
    "hexpire": {"flags": ["fast", "write"]},
    "hexpireat": {"flags": ["fast", "write"]},
    "hexpiretime": {},
    "hgetdel": {},
    "hgetex": {"keys": [UPDATES_TTL]},
    "hpersist": {},
    "hpexpire": {"flags": ["fast", "write"]},
    "hpexpireat": {"flags": ["fast", "write"]},
    "hpexpiretime": {},
    "hpttl": {},
    "hsetex": {"keys": [[None, ["RW", "update"], *FIRST_WORD]]},
    "httl": {},
    "msetex": {},
}
# Not in Valkey either: nobody here can be asked.
NEWER_THAN_82 = {
    "lmovem",
    "blmovem",
    *("himport", "himport|prepare", "himport|set", "himport|discard", "himport|discardall"),
    "delex",
    "digest",
    "increx",
    "sdiffcard",
    "sunioncard",
    "xackdel",
    "xcfgset",
    "xdelex",
    "xidmprecord",
    "xnack",
}
# Valkey counts otherwise.
SINCE_IN_REDIS = {
    **dict.fromkeys(("hexpire", "hexpireat", "hexpiretime", "hpersist", "hpexpire", "hpexpireat"), "7.4.0"),
    **dict.fromkeys(("hpexpiretime", "hpttl", "httl"), "7.4.0"),
    **dict.fromkeys(("hgetdel", "hgetex", "hsetex"), "8.0.0"),
    "msetex": "8.4.0",
}
# Versions that COMMAND DOCS names in a command's history and 7.0 could not know (or told twice).
HISTORY_SINCE_70 = {
    "acl|log": {"7.2.0"},
    "bitop": {"8.2.0"},
    "client|kill": {"7.4.0"},
    "client|list": {"7.2.0", "7.4.0", "8.0.0"},
    "set": {"8.4.0"},
    "georadius_ro": {"7.0.0"},
    "georadiusbymember": {"6.2.0"},
    "georadiusbymember_ro": {"6.2.0", "7.0.0"},
    "xadd": {"8.2.0", "8.6.0"},
    "xinfo|consumers": {"7.2.0"},
    "xinfo|stream": {"7.2.0", "8.6.0", "8.8.0"},
    "xread": {"8.10.0"},
    "xreadgroup": {"8.4.0", "8.10.0"},
    "xtrim": {"8.2.0"},
    "zinter": {"8.8.0"},
    "zinterstore": {"8.8.0"},
    "zrank": {"7.2.0"},
    "zrevrank": {"7.2.0"},
    "zunion": {"8.8.0"},
    "zunionstore": {"8.8.0"},
}

# Options newer than anything that either server has.
SINCE_82: Final = {"8.2.0", "8.4.0", "8.6.0", "8.8.0", "8.10.0"}

# Ours -> 7.0's: the same node, renamed in Redis 7.2.
RENAMED_SINCE_70 = {
    "xadd": {"id-selector": "id_or_auto", "auto-id": "auto_id", "data": "field_value"},
    "xreadgroup": {"group-block": "group_consumer"},
    "xclaim": {"lastid": "id"},
    "xsetid": {"entries-added": "entries_added", "max-deleted-id": "max_deleted_entry_id"},
    "xinfo|consumers": {"group": "groupname"},
    "xgroup|create": {
        "group": "groupname",
        "id-selector": "id",
        "new-id": "new_id",
        "entriesread": "entries_read",
    },
    "xgroup|setid": {
        "group": "groupname",
        "id-selector": "id",
        "new-id": "new_id",
        "entriesread": "entries_read",
    },
    "xgroup|createconsumer": {"group": "groupname", "consumer": "consumername"},
    "xgroup|delconsumer": {"group": "groupname", "consumer": "consumername"},
    "xgroup|destroy": {"group": "groupname"},
    "sort": {"by-pattern": "pattern", "limit": "offset_count", "get-pattern": "pattern"},
    "sort_ro": {"by-pattern": "pattern", "limit": "offset_count", "get-pattern": "pattern"},
    "zadd": {"data": "score_member"},
    **{
        name: {"limit": "offset_count"}
        for name in (
            "zrange",
            "zrangestore",
            "zrangebylex",
            "zrangebyscore",
            "zrevrangebylex",
            "zrevrangebyscore",
        )
    },
    "geoadd": {"data": "longitude_latitude_member"},
    "geosearch": {"fromlonlat": "longitude_latitude", "count-block": "count"},
    "geosearchstore": {"fromlonlat": "longitude_latitude", "count-block": "count"},
    "georadius_ro": {"count-block": "count"},
    "georadiusbymember_ro": {"count-block": "count"},
    "mset": {"data": "key_value"},
    "msetnx": {"data": "key_value"},
    "hset": {"data": "field_value"},
    "hmset": {"data": "field_value"},
    "lcs": {"min-match-len": "len"},
    "bitcount": {"range": "index", "unit": "index_unit"},
    "bitpos": {"range": "index", "end-unit-block": "end_index", "unit": "index_unit"},
    "bitfield": {
        "get-block": "encoding_offset",
        "overflow-block": "wrap_sat_fail",
        "write-operation": "write_operation",
        "set-block": "encoding_offset_value",
        "incrby-block": "encoding_offset_increment",
    },
    "bitfield_ro": {"get-block": "encoding_offset"},
    "hello": {"auth": "username_password"},
    "client|reply": {"action": "on_off_skip"},
    "client|unblock": {"unblock-type": "timeout_error"},
    "flushdb": {"flush-type": "async"},
    "flushall": {"flush-type": "async"},
    "script|flush": {"flush-type": "async"},
    "function|flush": {"flush-type": "async"},
    "config|set": {"data": "parameter_value"},
    "shutdown": {"save-selector": "nosave_save"},
    "acl|cat": {"category": "categoryname"},
    "cluster|addslotsrange": {"range": "start-slot_end-slot"},
    "cluster|delslotsrange": {"range": "start-slot_end-slot"},
    "cluster|meet": {"cluster-bus-port": "cluster_bus_port"},
    "cluster|reset": {"reset-type": "hard_soft"},
    "cluster|setslot": {"importing": "node-id", "migrating": "node-id", "node": "node-id"},
}


# What 7.0 says where more than names differs.
OTHERWISE_IN_70 = {
    # FULL was the block's own token; it became its first word.
    "xinfo|stream": (KEY, optional(block("full", optional(integer("count", "COUNT")), after="FULL"))),
    # NOVALUES is newer (7.4).
    "hscan": tree("hscan")[:-1],
    # WITHSCORE is newer (7.2).
    "zrank": tree("zrank")[:-1],
    "zrevrank": tree("zrevrank")[:-1],
    # The sources were not marked as optional.
    "pfmerge": (tree("pfmerge")[0], replace(tree("pfmerge")[1], flags="multiple")),
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
            *renamed(tree(name)[:-1], {"count-block": "count"}),
            optional(key("key", "STORE", spec=1)),
            optional(key("key", "STOREDIST", spec=2)),
        )
        for name in ("georadius", "georadiusbymember")
    },
    # 7.0 does not tell about the command line that they take.
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
FIELD_TIMES = {
    *("hexpire", "hexpireat", "hpexpire", "hpexpireat", "httl", "hpttl", "hexpiretime", "hpexpiretime"),
    *("hpersist", "hgetdel", "hgetex", "hsetex"),
}
# Options that Valkey brought after it left Redis; their `since` is Valkey's own version.
VALKEY_VERSIONS = {"8.0.0", "8.1.0", "9.0.0", "9.1.0"}
OTHERWISE_IN_VALKEY = {
    # Valkey moved `since` from the choice to its words when it added IFEQ.
    "set": (
        *tree("set")[:2],
        optional(oneof("condition", token("NX", since="2.6.12"), token("XX", since="2.6.12"))),
        *tree("set")[3:],
    ),
    "zscan": (*tree("zscan"), switch("NOSCORES")),
    # The end may be left out there.
    "bitcount": (KEY, replace(tree("bitpos")[2], key_spec=None)),
    # Valkey has a condition on the key, and other names.
    "hsetex": (
        KEY,
        optional(oneof("key-condition", token("NX"), token("XX"))),
        replace(tree("hsetex")[1], name="fields-condition"),
        *tree("hsetex")[2:],
    ),
    # A choice without its newer half.
    "bgsave": (optional(oneof("operation", token("SCHEDULE", since="3.2.2"))),),
    "cluster|replicate": (oneof("args", string("node-id")),),
    "shutdown": (
        optional(
            oneof(
                "abort-selector",
                block(
                    "save-selector-block",
                    optional(oneof("save-selector", token("NOSAVE"), token("SAVE"))),
                    switch("NOW", since="7.0.0"),
                    switch("FORCE", since="7.0.0"),
                ),
                token("ABORT", since="7.0.0"),
            )
        ),
    ),
    # Without a center there is a polygon.
    "geosearch": (KEY, optional(tree("geosearch")[1]), *tree("geosearch")[2:]),
    "geosearchstore": (
        *tree("geosearchstore")[:2],
        optional(tree("geosearchstore")[2]),
        *tree("geosearchstore")[3:],
    ),
    # Valkey takes several IDs; its MAXAGE came with 8.0, Redis' with 7.4.
    "client|kill": (
        replace(
            tree("client|kill")[0],
            arguments=(
                tree("client|kill")[0].arguments[0],
                many(
                    oneof(
                        "new-format",
                        optional(many(integer("client-id", "ID", since="2.8.12"))),
                        *tree("client|kill")[0].arguments[1].arguments[1:-1],
                    )
                ),
            ),
        ),
    ),
}
