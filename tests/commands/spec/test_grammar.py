"""The argument trees against what COMMAND DOCS of real servers says.

Redis 7.0 has older names (its successors renamed nodes without changing the syntax); Valkey 9.1 has the names
of Redis 7.2 and its own newer options. Both are compared in full, each with its list of known differences.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rillet.commands.admin import specs as server
from rillet.commands.bitmaps import specs as bitmaps
from rillet.commands.cluster import specs as cluster
from rillet.commands.connection import specs as connection
from rillet.commands.geo import specs as geo
from rillet.commands.hashes import specs as hashes
from rillet.commands.hyperloglog import specs as hyperloglog
from rillet.commands.keys import specs as keys
from rillet.commands.keys import specs as sorting
from rillet.commands.lists import specs as lists
from rillet.commands.pubsub import specs as pubsub
from rillet.commands.scripting import specs as scripting
from rillet.commands.sets import specs as sets
from rillet.commands.sorted_sets import specs as sorted_sets
from rillet.commands.spec.command import Argument
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
from rillet.commands.streams import specs as streams
from rillet.commands.strings import specs as strings
from rillet.commands.transactions import specs as transactions

MODULES = (
    bitmaps,
    hashes,
    streams,
    keys,
    strings,
    connection,
    transactions,
    pubsub,
    server,
    cluster,
    scripting,
    lists,
    sorting,
    geo,
    sets,
    sorted_sets,
    hyperloglog,
)
WORD = re.compile(r"[A-Z][A-Z0-9_]*\Z")
CONSTANTS = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if WORD.match(name) and isinstance(value, tuple) and name != "NONE"
}
# LATENCY HISTORY is a command.
HISTORIES = {
    name: value
    for name, value in CONSTANTS.items()
    if name.endswith("_HISTORY") and name != "LATENCY_HISTORY"
}
TREES = {name: value for name, value in CONSTANTS.items() if name not in HISTORIES}

# What no server knows that is here to ask.
SINCE_82 = {"8.2.0", "8.4.0", "8.6.0", "8.8.0", "8.10.0"}
NEWER_THAN_82 = {
    *("DELEX", "DIGEST", "INCREX", "XDELEX", "XACKDEL", "XNACK", "XCFGSET", "XIDMPRECORD"),
    *(
        "LMOVEM",
        "BLMOVEM",
        "SDIFFCARD",
        "SUNIONCARD",
        "HIMPORT_PREPARE",
        "HIMPORT_SET",
        "HIMPORT_DISCARD",
        "HIMPORT_DISCARDALL",
    ),
}

# Ours -> 7.0's: the same node, renamed in Redis 7.2.
RENAMED_SINCE_70 = {
    "XADD": {"id-selector": "id_or_auto", "auto-id": "auto_id", "data": "field_value"},
    "XREADGROUP": {"group-block": "group_consumer"},
    "XCLAIM": {"lastid": "id"},
    "XSETID": {"entries-added": "entries_added", "max-deleted-id": "max_deleted_entry_id"},
    "XINFO_CONSUMERS": {"group": "groupname"},
    "XGROUP_CREATE": {
        "group": "groupname",
        "id-selector": "id",
        "new-id": "new_id",
        "entriesread": "entries_read",
    },
    "XGROUP_SETID": {
        "group": "groupname",
        "id-selector": "id",
        "new-id": "new_id",
        "entriesread": "entries_read",
    },
    "XGROUP_CREATECONSUMER": {"group": "groupname", "consumer": "consumername"},
    "XGROUP_DELCONSUMER": {"group": "groupname", "consumer": "consumername"},
    "XGROUP_DESTROY": {"group": "groupname"},
    "SORT": {"by-pattern": "pattern", "limit": "offset_count", "get-pattern": "pattern"},
    "SORT_RO": {"by-pattern": "pattern", "limit": "offset_count", "get-pattern": "pattern"},
    "ZADD": {"data": "score_member"},
    **{
        name: {"limit": "offset_count"}
        for name in (
            "ZRANGE",
            "ZRANGESTORE",
            "ZRANGEBYLEX",
            "ZRANGEBYSCORE",
            "ZREVRANGEBYLEX",
            "ZREVRANGEBYSCORE",
        )
    },
    "GEOADD": {"data": "longitude_latitude_member"},
    "GEOSEARCH": {"fromlonlat": "longitude_latitude", "count-block": "count"},
    "GEOSEARCHSTORE": {"fromlonlat": "longitude_latitude", "count-block": "count"},
    "GEORADIUS_RO": {"count-block": "count"},
    "GEORADIUSBYMEMBER_RO": {"count-block": "count"},
    "MSET": {"data": "key_value"},
    "MSETNX": {"data": "key_value"},
    "HSET": {"data": "field_value"},
    "HMSET": {"data": "field_value"},
    "LCS": {"min-match-len": "len"},
    "BITCOUNT": {"range": "index", "unit": "index_unit"},
    "BITPOS": {"range": "index", "end-unit-block": "end_index", "unit": "index_unit"},
    "BITFIELD": {
        "get-block": "encoding_offset",
        "overflow-block": "wrap_sat_fail",
        "write-operation": "write_operation",
        "set-block": "encoding_offset_value",
        "incrby-block": "encoding_offset_increment",
    },
    "BITFIELD_RO": {"get-block": "encoding_offset"},
    "HELLO": {"auth": "username_password"},
    "CLIENT_REPLY": {"action": "on_off_skip"},
    "CLIENT_UNBLOCK": {"unblock-type": "timeout_error"},
    "FLUSHDB": {"flush-type": "async"},
    "FLUSHALL": {"flush-type": "async"},
    "SCRIPT_FLUSH": {"flush-type": "async"},
    "FUNCTION_FLUSH": {"flush-type": "async"},
    "CONFIG_SET": {"data": "parameter_value"},
    "SHUTDOWN": {"save-selector": "nosave_save"},
    "ACL_CAT": {"category": "categoryname"},
    "CLUSTER_ADDSLOTSRANGE": {"range": "start-slot_end-slot"},
    "CLUSTER_DELSLOTSRANGE": {"range": "start-slot_end-slot"},
    "CLUSTER_MEET": {"cluster-bus-port": "cluster_bus_port"},
    "CLUSTER_RESET": {"reset-type": "hard_soft"},
    "CLUSTER_SETSLOT": {"importing": "node-id", "migrating": "node-id", "node": "node-id"},
}


def renamed(tree, names):
    return tuple(
        replace(node, name=names.get(node.name, node.name), arguments=renamed(node.arguments, names))
        for node in tree
    )


# What 7.0 says where more than names differs.
OTHERWISE_IN_70 = {
    # FULL was the block's own token; it became its first word.
    "XINFO_STREAM": (KEY, optional(block("full", optional(integer("count", "COUNT")), after="FULL"))),
    # NOVALUES is newer (7.4).
    "HSCAN": hashes.HSCAN[:-1],
    # WITHSCORE is newer (7.2).
    "ZRANK": sorted_sets.ZRANK[:-1],
    "ZREVRANK": sorted_sets.ZREVRANK[:-1],
    # The sources were not marked as optional.
    "PFMERGE": (hyperloglog.PFMERGE[0], replace(hyperloglog.PFMERGE[1], flags="multiple")),
    # The operation was a plain string.
    "BITOP": (string("operation"), *bitmaps.BITOP[1:]),
    # Blocks of a single argument lost the block around it.
    "PSUBSCRIBE": (many(block("pattern", pattern())),),
    "CONFIG_GET": (many(block("parameter", string("parameter"))),),
    "MODULE_LOADEX": (
        string("path"),
        optional(many(block("configs", string("name"), string("value"), after="CONFIG"), with_token=True)),
        optional(many(block("args", string("arg"), after="ARGS"))),
    ),
    "CLIENT_LIST": (
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
    "GEOHASH": (KEY, many(string("member"))),
    "GEOPOS": (KEY, many(string("member"))),
    # Two options of which only one may be given.
    **{
        name: (
            *renamed(tree[:-1], {"count-block": "count"}),
            optional(key("key", "STORE", spec=1)),
            optional(key("key", "STOREDIST", spec=2)),
        )
        for name, tree in (("GEORADIUS", geo.GEORADIUS), ("GEORADIUSBYMEMBER", geo.GEORADIUSBYMEMBER))
    },
    # 7.0 does not tell about the command line that they take.
    "COMMAND_GETKEYS": (),
    "COMMAND_GETKEYSANDFLAGS": (),
    # MAXAGE is newer (7.4); SKIPME was a plain string.
    "CLIENT_KILL": (
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
    *("HEXPIRE", "HEXPIREAT", "HPEXPIRE", "HPEXPIREAT", "HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME"),
    *("HPERSIST", "HGETDEL", "HGETEX", "HSETEX"),
}
NEWER_THAN_70 = FIELD_TIMES | {
    "MSETEX",
    "WAITAOF",
    "CLIENT_NO_TOUCH",
    "CLIENT_SETINFO",
    "CLUSTER_MYSHARDID",
}

# Options that Valkey brought after it left Redis; their `since` is Valkey's own version.
VALKEY_VERSIONS = {"8.0.0", "8.1.0", "9.0.0", "9.1.0"}
OTHERWISE_IN_VALKEY = {
    # Valkey moved `since` from the choice to its words when it added IFEQ.
    "SET": (
        *strings.SET[:2],
        optional(oneof("condition", token("NX", since="2.6.12"), token("XX", since="2.6.12"))),
        *strings.SET[3:],
    ),
    "ZSCAN": (*sorted_sets.ZSCAN, switch("NOSCORES")),
    # The end may be left out there.
    "BITCOUNT": (KEY, replace(bitmaps.BITPOS[2], key_spec=None)),
    # Valkey has a condition on the key, and other names.
    "HSETEX": (
        KEY,
        optional(oneof("key-condition", token("NX"), token("XX"))),
        replace(hashes.HSETEX[1], name="fields-condition"),
        *hashes.HSETEX[2:],
    ),
    # A choice without its newer half.
    "BGSAVE": (optional(oneof("operation", token("SCHEDULE", since="3.2.2"))),),
    "CLUSTER_REPLICATE": (oneof("args", string("node-id")),),
    "SHUTDOWN": (
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
    "GEOSEARCH": (KEY, optional(geo.GEOSEARCH[1]), *geo.GEOSEARCH[2:]),
    "GEOSEARCHSTORE": (*geo.GEOSEARCHSTORE[:2], optional(geo.GEOSEARCHSTORE[2]), *geo.GEOSEARCHSTORE[3:]),
    # Valkey takes several IDs; its MAXAGE came with 8.0, Redis' with 7.4.
    "CLIENT_KILL": (
        replace(
            connection.CLIENT_KILL[0],
            arguments=(
                connection.CLIENT_KILL[0].arguments[0],
                many(
                    oneof(
                        "new-format",
                        optional(many(integer("client-id", "ID", since="2.8.12"))),
                        *connection.CLIENT_KILL[0].arguments[1].arguments[1:-1],
                    )
                ),
            ),
        ),
    ),
}


def constant_name(command):
    return re.sub(r"[|\- ]", "_", command).upper()


def told_by(server_process):
    """The argument trees of a server's COMMAND DOCS, by the names of our constants."""
    with server_process.wire(3) as wire:
        found = {}
        for name, fields in as_pairs(wire.call("COMMAND", "DOCS").plain()):
            collect(found, name, dict(fields))
        return found


def as_pairs(reply):
    return [(name.decode(), value) for name, value in reply]


def collect(found, name, fields):
    found[constant_name(name)] = tuple(map(argument, fields.get(b"arguments", [])))
    for subcommand, inner in as_pairs(fields.get(b"subcommands", [])):
        collect(found, subcommand, dict(inner))


def argument(pairs):
    fields = dict(pairs)

    def text(key):
        return fields[key].decode() if key in fields else None

    flags = {flag.decode() for flag in fields.get(b"flags", [])}
    display = text(b"display_text")
    return Argument(
        name=text(b"name"),
        type=text(b"type"),
        token=text(b"token"),
        flags=" ".join(flag for flag in ("optional", "multiple", "multiple_token") if flag in flags),
        arguments=tuple(map(argument, fields.get(b"arguments", []))),
        display=None if display == text(b"name") else display,
        key_spec=fields.get(b"key_spec_index"),
        since=text(b"since"),
        deprecated_since=text(b"deprecated_since"),
    )


def without_display(tree):
    return tuple(replace(node, display=None, arguments=without_display(node.arguments)) for node in tree)


def without_versions(tree, versions):
    return tuple(
        replace(node, arguments=without_versions(node.arguments, versions))
        for node in tree
        if node.since not in versions
    )


def plainly(tree):
    """Without what Valkey is careless about where fields of hashes expire: versions, key specs of counts, Unix times."""
    return tuple(
        replace(
            node,
            type="integer" if node.type == "unix-time" else node.type,
            key_spec=node.key_spec if node.type == "key" else None,
            since=None,
            arguments=plainly(node.arguments),
        )
        for node in tree
    )


@pytest.fixture(scope="module")
def told_by_redis7(running):
    return told_by(running("redis7"))


@pytest.fixture(scope="module")
def told_by_valkey(running):
    return {
        name: tree if name in FIELD_TIMES else without_versions(tree, VALKEY_VERSIONS)
        for name, tree in told_by(running("valkey")).items()
    }


def test_each_newer_command_is_one(told_by_redis7, told_by_valkey):
    assert TREES.keys() >= NEWER_THAN_82
    assert NEWER_THAN_82.isdisjoint(told_by_redis7.keys() | told_by_valkey.keys())


@pytest.mark.parametrize("name", sorted(TREES.keys() - NEWER_THAN_70 - NEWER_THAN_82))
def test_a_tree_is_that_of_redis_7_apart_from_listed_differences(name, told_by_redis7):
    expected = OTHERWISE_IN_70.get(name)
    if expected is None:
        # Two arguments of CLUSTER SETSLOT and the like share a name in 7.0, so ours are renamed, not theirs.
        expected = renamed(without_versions(TREES[name], SINCE_82), RENAMED_SINCE_70.get(name, {}))
    assert without_display(expected) == told_by_redis7[name]


@pytest.mark.parametrize("name", sorted(TREES.keys() - NEWER_THAN_82))
def test_a_tree_is_that_of_valkey_apart_from_listed_differences(name, told_by_valkey):
    ours = OTHERWISE_IN_VALKEY.get(name, without_versions(TREES[name], SINCE_82))
    if name in FIELD_TIMES:
        assert plainly(ours) == plainly(told_by_valkey[name])
    else:
        assert ours == told_by_valkey[name]


def test_each_listed_difference_is_still_one(told_by_redis7):
    assert NEWER_THAN_70.isdisjoint(told_by_redis7)
    assert TREES.keys() >= OTHERWISE_IN_70.keys() | RENAMED_SINCE_70.keys() | OTHERWISE_IN_VALKEY.keys()
    for name in RENAMED_SINCE_70:
        assert without_display(TREES[name]) != told_by_redis7[name], name
    for name, tree in OTHERWISE_IN_70.items():
        assert without_display(tree) != without_display(TREES[name]), name
    for name, tree in OTHERWISE_IN_VALKEY.items():
        assert tree != TREES[name], name


@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_a_history_tells_versions_in_order_in_sentences(name):
    assert name.removesuffix("_HISTORY") in TREES
    versions = [tuple(map(int, version.split("."))) for version, _ in HISTORIES[name]]
    assert versions == sorted(versions)
    assert versions[-1] <= (8, 10, 0)
    assert all(re.fullmatch(r".+\.", text) for _, text in HISTORIES[name])
