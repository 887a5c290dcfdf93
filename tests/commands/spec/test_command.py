"""The command table against what COMMAND of a real Redis 7.0 (and of Valkey, for newer commands) says."""

from __future__ import annotations

import pytest

from rillet.commands import load_all
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
from rillet.commands.spec.command import REGISTRY, keys_of, legacy_positions
from rillet.commands.spec.usage import help_lines, usage_line
from rillet.commands.streams import specs as streams
from rillet.commands.strings import specs as strings
from rillet.commands.transactions import specs as transactions

load_all()
SYNTAX = (
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
    sets,
    sorted_sets,
    hyperloglog,
    geo,
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


def text(value):
    if isinstance(value, bytes):
        return value.decode()
    return [text(item) for item in value] if isinstance(value, list) else value


def key_spec(raw):
    pairs = dict(zip(raw[::2], raw[1::2], strict=True))
    parts = [pairs.get("notes"), sorted(pairs["flags"])]
    for name in ("begin_search", "find_keys"):
        _, kind, _, spec = pairs[name]
        parts.append((kind, dict(zip(spec[::2], spec[1::2], strict=True))))
    return parts


def infos(process):
    """Full name to the fields of COMMAND, for commands and subcommands."""
    found = {}

    def add(item):
        found[item[0]] = {
            "arity": item[1],
            "flags": sorted(item[2]),
            "positions": tuple(item[3:6]),
            "categories": sorted(item[6]),
            "tips": item[7],
            "keys": [key_spec(spec) for spec in item[8]],
        }
        for sub in item[9]:
            add(sub)

    with process.wire() as wire:
        for item in text(wire.call("COMMAND").plain()):
            add(item)
    return found


def docs(process):
    """Full name to the fields of COMMAND DOCS that are facts."""
    found = {}

    def add(name, raw):
        pairs = dict(zip(raw[::2], raw[1::2], strict=True))
        found[name] = {
            "since": pairs["since"],
            "group": pairs["group"],
            "doc_flags": sorted(pairs.get("doc_flags", [])),
            "deprecated": (pairs.get("deprecated_since"), pairs.get("replaced_by")),
            "history": {version for version, _ in pairs.get("history", [])},
        }
        subcommands = pairs.get("subcommands", [])
        for sub, inner in zip(subcommands[::2], subcommands[1::2], strict=True):
            add(sub, inner)

    with process.wire() as wire:
        raw = text(wire.call("COMMAND", "DOCS").plain())
    for name, inner in zip(raw[::2], raw[1::2], strict=True):
        add(name, inner)
    return found


def test_every_command_is_declared_as_in_redis_7_but_for_the_changes_since(rillet_process, redis7, valkey):
    ours, theirs, newer = infos(rillet_process), infos(redis7), infos(valkey)
    assert set(ours) == set(REGISTRY)
    different = {}
    assert NEWER_THAN_82.isdisjoint(theirs.keys() | newer.keys())
    for name in ours.keys() - NEWER_THAN_82:
        fields = ours[name]
        reference = dict(theirs[name]) if name in theirs else newer[name] | NEWER_THAN_70[name]
        reference |= {field: value for (known, field), value in CHANGED_SINCE_70.items() if known == name}
        for field, value in fields.items():
            if value != reference[field]:
                different[name, field] = (value, reference[field])
    assert not different


def test_the_list_of_changes_since_redis_7_holds_nothing_that_is_none(redis7):
    theirs, told = infos(redis7), docs(redis7)
    for (name, field), value in CHANGED_SINCE_70.items():
        assert (theirs[name] | told[name])[field] != value, (name, field)
    assert not NEWER_THAN_70.keys() & theirs.keys()


def test_every_command_is_documented_as_in_redis_7_but_for_the_changes_since(rillet_process, redis7, valkey):
    ours, theirs, newer = docs(rillet_process), docs(redis7), docs(valkey)
    different = {}
    for name in ours.keys() - NEWER_THAN_82:
        fields = ours[name]
        reference = theirs.get(name) or newer[name]
        reference |= {field: value for (known, field), value in CHANGED_SINCE_70.items() if known == name}
        reference["history"] = reference["history"] | HISTORY_SINCE_70.get(name, set())
        if name == "quit":
            reference["doc_flags"] = ["deprecated"]
        if name in SINCE_IN_REDIS:
            reference["since"] = SINCE_IN_REDIS[name]
        for field, value in fields.items():
            if value != reference[field]:
                different[name, field] = (value, reference[field])
    assert not different


def constant_of(name):
    """The syntax constant of a command, e.g. XGROUP_CREATE; None for containers that have none."""
    word = name.upper().replace("|", "_").replace("-", "_")
    found = [getattr(module, word) for module in SYNTAX if hasattr(module, word)]
    return found[0] if found else None


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_command_has_its_syntax_tree_attached(name):
    entry = REGISTRY[name]
    expected = constant_of(name)
    if entry.handler is None:
        assert not entry.arguments
    else:
        assert expected is not None
        assert entry.arguments == expected


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_command_has_a_summary_and_a_version(name):
    entry = REGISTRY[name]
    assert entry.summary.endswith(".")
    assert all(part.isdigit() for part in entry.since.split("."))
    assert usage_line(entry).startswith(name.upper().replace("|", " "))


@pytest.mark.parametrize(
    "name", [name for name, entry in REGISTRY.items() if entry.handler is None and name != "himport"]
)
def test_every_container_but_one_can_print_help(name):
    assert f"{name}|help" in REGISTRY
    assert help_lines(name)[-2:] == [b"HELP", b"    Print this help."]


def test_command_info_tells_all_about_xclaim(rillet_process):
    with rillet_process.wire() as wire:
        reply = wire.call("COMMAND", "INFO", "xclaim")
    assert str(reply) == (
        '*[*[$"xclaim" :-6 *[+write +fast] :1 :1 :1 *[+@write +@stream +@fast] *[$"nondeterministic_output"] '
        '*[*[$"flags" *[+RW +update] $"begin_search" *[$"type" $"index" $"spec" *[$"index" :1]] '
        '$"find_keys" *[$"type" $"range" $"spec" *[$"lastkey" :0 $"keystep" :1 $"limit" :0]]]] *[]]]'
    )


def test_command_info_speaks_resp3(rillet_process):
    with rillet_process.wire(3) as wire:
        reply = wire.call("COMMAND", "INFO", "xclaim", "nothing")
    assert str(reply) == (
        '*[*[$"xclaim" :-6 ~[+write +fast] :1 :1 :1 ~[+@write +@stream +@fast] ~[$"nondeterministic_output"] '
        '~[%[$"flags" ~[+RW +update] $"begin_search" %[$"type" $"index" $"spec" %[$"index" :1]] '
        '$"find_keys" %[$"type" $"range" $"spec" %[$"lastkey" :0 $"keystep" :1 $"limit" :0]]]] ~[]] null_]'
    )


def test_command_docs_tells_the_six_options_of_xclaim_after_its_ids(rillet_process):
    with rillet_process.wire(3) as wire:
        [(name, told)] = wire.call("COMMAND", "DOCS", "xclaim").plain()
    arguments = [dict(argument) for argument in dict(told)[b"arguments"]]
    assert name == b"xclaim"
    assert [argument[b"name"] for argument in arguments[:5]] == [
        b"key",
        b"group",
        b"consumer",
        b"min-idle-time",
        b"id",
    ]
    assert arguments[4][b"flags"] == [b"multiple"]
    options = arguments[5:]
    assert [option[b"token"] for option in options] == [
        b"IDLE",
        b"TIME",
        b"RETRYCOUNT",
        b"FORCE",
        b"JUSTID",
        b"LASTID",
    ]
    assert all(b"optional" in option[b"flags"] for option in options)
    assert [option[b"type"] for option in options] == [
        b"integer",
        b"unix-time",
        b"integer",
        b"pure-token",
        b"pure-token",
        b"string",
    ]


def positions(*words):
    argv = [word.encode() for word in words]
    entry = REGISTRY[words[0]] if words[0] in REGISTRY and REGISTRY[words[0]].handler else None
    entry = entry or REGISTRY[f"{words[0]}|{words[1]}"]
    return [reference.index for reference in keys_of(entry, argv)]


def test_key_specs_find_the_keys_of_an_invocation():
    assert positions("xclaim", "s", "g", "c", "0", "1-0") == [1]
    assert positions("del", "a", "b", "c") == [1, 2, 3]
    assert positions("mset", "a", "1", "b", "2") == [1, 3]
    assert positions("xgroup", "create", "s", "g", "0") == [2]
    assert positions("eval", "script", "2", "a", "b", "c") == [3, 4]
    assert positions("eval", "script", "4", "a", "b", "c") == []
    assert positions("xread", "count", "1", "streams", "a", "b", "1", "2") == [4, 5]
    assert positions("xreadgroup", "group", "streams", "c", "streams", "a", "0") == [5]
    assert positions("ping", "x") == []


def test_two_specs_of_neighbouring_words_make_one_run_of_legacy_positions():
    assert legacy_positions(REGISTRY["rename"]) == (1, 2, 1)
    assert legacy_positions(REGISTRY["del"]) == (1, -1, 1)
    assert legacy_positions(REGISTRY["mset"]) == (1, -1, 2)
    assert legacy_positions(REGISTRY["xread"]) == (0, 0, 0)
    assert legacy_positions(REGISTRY["eval"]) == (0, 0, 0)


GETKEYS = [
    ("GETKEYS", "foo"),
    ("GETKEYS", "get"),
    ("GETKEYS", "ping"),
    ("GETKEYS", "xgroup"),
    ("GETKEYS", "xgroup", "nothing"),
    ("GETKEYS", "get", "a"),
    ("GETKEYS", "get", "a", "b"),
    ("GETKEYS", "xreadgroup", "group", "g", "c", "streams", "a", "b", "1", "2"),
    ("GETKEYS", "xreadgroup", "group", "g", "c", "streams", "a", "b", "1"),
    ("GETKEYS", "xreadgroup", "group", "g", "c", "a", "b", "1", "2"),
    ("GETKEYS", "eval", "script", "1", "a", "b"),
    ("GETKEYS", "eval", "script", "0", "a"),
    ("GETKEYS", "eval", "script", "9", "a"),
    ("GETKEYS", "eval", "script", "x", "a"),
    ("GETKEYSANDFLAGS", "set", "a", "b"),
    ("GETKEYSANDFLAGS", "set", "a", "b", "get"),
    ("GETKEYSANDFLAGS", "rename", "a", "b"),
    ("GETKEYSANDFLAGS", "xclaim", "s", "g", "c", "0", "1-0"),
    ("LIST", "FILTERBY", "MODULE", "x"),
    ("LIST", "FILTERBY", "ACLCAT", "nothing"),
    ("LIST", "FILTERBY", "x", "y"),
    ("LIST", "FILTERBY"),
    ("INFO", "nothing"),
    ("INFO", "get|x", "config|get|x"),
    ("DOCS", "nothing"),
    ("NOTHING",),
]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("words", GETKEYS, ids=" ".join)
def test_command_answers_as_a_real_server(rillet_process, valkey, words, protocol):
    with rillet_process.wire(protocol) as ours, valkey.wire(protocol) as theirs:
        assert ours.call("COMMAND", *words).encode() == theirs.call("COMMAND", *words).encode()


@pytest.mark.parametrize("words", [("ACLCAT", "stream"), ("ACLCAT", "transaction"), ("PATTERN", "xgr*")])
def test_command_list_filters_as_a_real_server(rillet_process, redis7, words):
    with rillet_process.wire() as ours, redis7.wire() as theirs:
        filtered = ("COMMAND", "LIST", "FILTERBY", *words)
        newer = {name.encode() for name in NEWER_THAN_82}
        found = [name for name in ours.call(*filtered).plain() if name not in newer]
        assert sorted(found) == sorted(theirs.call(*filtered).plain())
