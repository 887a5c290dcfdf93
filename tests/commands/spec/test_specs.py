"""Every command of the registry: its record agrees with itself, with its grammar, and with what real servers declare."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from support import declarations
from support.declarations import NEWER_THAN_82, docs, infos, tree

from rillet.commands import load_all
from rillet.commands.spec.command import CATEGORIES, FLAGS, REGISTRY, keys_of, legacy_positions
from rillet.commands.spec.usage import help_lines, usage_line
from rillet.commands.spec.versions import NEWEST, VERSIONS

load_all()
SERVED = sorted(name for name, entry in REGISTRY.items() if entry.handler is not None)
CONTAINERS = sorted({name.partition("|")[0] for name in REGISTRY if "|" in name})
every_command = pytest.mark.parametrize("name", sorted(REGISTRY))
every_served_command = pytest.mark.parametrize("name", SERVED)


# The record and itself


@every_command
def test_what_takes_no_subcommands_has_a_handler(name):
    assert REGISTRY[name].handler is not None or name in CONTAINERS
    assert REGISTRY[name].name == name == name.lower()
    assert not (REGISTRY[name].handler is None and REGISTRY[name].arguments)


def test_command_alone_is_served_with_and_without_a_subcommand():
    assert [name for name in CONTAINERS if REGISTRY[name].handler is not None] == ["command"]


# The ACL category that belongs to a group of COMMAND DOCS; the commands of other groups have several.
CATEGORY_OF = {
    **{
        group: group
        for group in ("bitmap", "geo", "hash", "hyperloglog", "list", "pubsub", "scripting", "set")
    },
    "sorted-set": "sortedset",
    "stream": "stream",
    "string": "string",
    "transactions": "transaction",
}


@every_command
def test_flags_and_categories_are_known_and_agree(name):
    entry = REGISTRY[name]
    assert entry.flags <= set(FLAGS)
    assert entry.categories == tuple(known for known in CATEGORIES if known in entry.categories)
    assert not {"write", "readonly"} <= entry.flags
    assert ("fast" in entry.categories, "slow" in entry.categories) == (
        "fast" in entry.flags,
        "fast" not in entry.flags,
    )
    for flag in ("write", "admin", "pubsub", "blocking"):
        assert (flag in entry.categories) or flag not in entry.flags, flag
    assert ("write" in entry.categories) == entry.is_write
    if entry.group in CATEGORY_OF and entry.handler is not None and name != "pubsub|help":
        assert CATEGORY_OF[entry.group] in entry.categories


# Redis itself gives it an option that is older than the command.
OLDER_HISTORY = "zrevrangebyscore"


def number(version):
    return tuple(map(int, version.split(".")))


def versions_in(nodes):
    for node in nodes:
        yield from (version for version in (node.since, node.deprecated_since) if version)
        yield from versions_in(node.arguments)


@every_command
def test_its_versions_are_releases_in_order_and_its_texts_are_sentences(name):
    entry = REGISTRY[name]
    past = [*([] if name == OLDER_HISTORY else [entry.since]), *(version for version, _ in entry.history)]
    assert past == sorted(past, key=number)
    for version in (*past, *versions_in(entry.arguments), *filter(None, [entry.deprecated_since])):
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert number(version) < (7,) or version.rpartition(".")[0] in VERSIONS, version
        assert number(version)[:2] <= number(NEWEST)
    assert all(re.fullmatch(r".+\.", text) for text in (entry.summary, *(text for _, text in entry.history)))
    assert usage_line(entry).split(" ")[: 1 + name.count("|")] == name.upper().split("|")
    assert (
        ("deprecated" in entry.doc_flags)
        == (entry.deprecated_since is not None)
        == (entry.replaced_by is not None)
    )


# The record and its grammar

# Command to the reason why its arity lets more words through than its grammar has.
ANY_MORE_WORDS = {
    "command": "its subcommands have grammars of their own",
    "debug": "Redis documents none of its subcommands",
    "psync": "a failover adds a word that Redis does not document",
    "quit": "words after it mean nothing",
    "replconf": "Redis documents none of its words",
}


def length(node, *, required=False):
    """Return how many words a node has at least and at most."""
    if node.type == "oneof":
        choices = [length(choice, required=True) for choice in node.arguments]
        least, most = min(low for low, _ in choices), max(high for _, high in choices)
    elif node.type == "block":
        parts = [length(part) for part in node.arguments]
        least, most = sum(low for low, _ in parts), sum(high for _, high in parts)
    else:
        least = most = 1
    if node.token is not None and node.type != "pure-token":
        least, most = least + 1, most + 1
    if "multiple" in node.flags:
        most = math.inf
    return (0 if "optional" in node.flags and not required else least), most


@every_served_command
def test_the_arity_allows_the_words_of_the_grammar_and_no_fewer(name):
    entry = REGISTRY[name]
    lengths = [(1 + name.count("|"), 1 + name.count("|")), *map(length, entry.arguments)]
    least, most = sum(low for low, _ in lengths), sum(high for _, high in lengths)
    assert least == (1 if name == "debug" else abs(entry.arity))
    assert (most == least) == (entry.arity > 0 or name in ANY_MORE_WORDS)
    assert [entry.accepts(abs(entry.arity) - more) for more in (1, 0)] == [False, True]


def invocation(entry, *, times, optional, choice):
    """Return words that the grammar allows, and by index the key spec of those that are keys.

    ``times`` is how often each repeated node occurs and the value of each number, such as numkeys; ``optional`` is
    whether nodes that may be left out are there; ``choice`` is which alternative each choice takes.
    """
    words, specs = entry.name.upper().split("|"), {}

    def add(node, *, required=False):
        if "optional" in node.flags and not (optional or required):
            return
        for turn in range(times if "multiple" in node.flags else 1):
            if node.token is not None and (turn == 0 or "multiple_token" in node.flags):
                words.append(node.token)
            if node.type == "oneof":
                add(node.arguments[choice % len(node.arguments)], required=True)
            elif node.type == "block":
                for part in node.arguments:
                    add(part)
            elif node.type != "pure-token":
                if node.type == "key":
                    specs[len(words)] = node.key_spec
                words.append(str(times) if node.type == "integer" else "x")

    for node in entry.arguments:
        add(node)
    return [word.encode() for word in words], specs


@every_served_command
def test_the_key_specs_find_the_keys_of_the_grammar_and_nothing_else(name):
    entry = REGISTRY[name]
    kinds = {"RO", "RW", "OW", "RM", "not_key"}
    assert all(len(kinds.intersection(spec.flags)) == 1 for spec in entry.key_specs)
    for times in (1, 2):
        for optional in (False, True):
            for choice in range(6):
                argv, specs = invocation(entry, times=times, optional=optional, choice=choice)
                assert entry.accepts(len(argv)) or name == "debug"
                expected = {
                    index: {flag for flag in entry.key_specs[spec].flags if flag != "incomplete"}
                    for index, spec in specs.items()
                }
                found = {
                    key.index: set(key.flags) for key in keys_of(entry, argv) if "not_key" not in key.flags
                }
                assert found == expected, argv


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("eval script 4 a b c", []),
        ("eval script x a", []),
        ("xreadgroup group streams c streams a 0", [5]),
        ("xreadgroup GROUP g c CLAIM 0 STREAMS k >", [7]),
        ("ping x", []),
    ],
)
def test_keys_are_found_in_words_that_mislead(words, expected):
    argv = words.encode().split()
    assert [found.index for found in keys_of(REGISTRY[argv[0].decode()], argv)] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rename", (1, 2, 1)),
        ("del", (1, -1, 1)),
        ("mset", (1, -1, 2)),
        ("xread", (0, 0, 0)),
        ("eval", (0, 0, 0)),
    ],
)
def test_specs_of_neighbouring_words_make_one_run_of_legacy_positions(name, expected):
    assert legacy_positions(REGISTRY[name]) == expected


# The record as text


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("xlen", " key"),
        ("randomkey", ""),
        (
            "xclaim",
            (
                " key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds]"
                " [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]"
            ),
        ),
        (
            "xadd",
            (
                " key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id]"
                " [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]"
            ),
        ),
        (
            "xreadgroup",
            (
                " GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds]"
                " [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]"
            ),
        ),
        (
            "xread",
            " [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        ),
        ("xackdel", " key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]"),
        ("xdelex", " key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]"),
        ("xnack", " key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]"),
        ("xtrim", " key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]"),
        ("xpending", " key group [[IDLE min-idle-time] start end count [consumer]]"),
        ("xgroup|create", " key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]"),
        ("unsubscribe", " [channel [channel ...]]"),
        (
            "client|kill",
            (
                " <ip:port | <ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username"
                " | ADDR ip:port | LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage> [...]>"
            ),
        ),
        (
            "client|tracking",
            " <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        ),
        (
            "set",
            (
                " key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET]"
                " [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]"
            ),
        ),
        ("replicaof", " <host port | NO ONE>"),
        ("eval", " script numkeys [key [key ...]] [arg [arg ...]]"),
    ],
)
def test_the_usage_line_shows_the_grammar_in_the_style_of_reference_pages(name, rest):
    assert usage_line(REGISTRY[name]) == name.upper().replace("|", " ") + rest


@pytest.mark.parametrize("container", CONTAINERS)
def test_help_lists_the_subcommands_by_name_with_their_summaries(container):
    title, *lines = [line.decode() for line in help_lines(container)]
    others = [
        name for name in sorted(REGISTRY) if name.startswith(f"{container}|") and not name.endswith("|help")
    ]
    assert title == f"{container.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    if container == "command":
        assert [lines.pop(0), lines.pop(0)] == ["(no subcommand)", f"    {REGISTRY['command'].summary}"]
    assert [line.split(" ")[0] for line in lines[::2]] == [
        *(name.partition("|")[2].upper() for name in others),
        "HELP",
    ]
    assert lines[1::2] == [*(f"    {REGISTRY[name].summary}" for name in others), "    Print this help."]
    assert f"{container}|help" in REGISTRY or container == "himport"  # which has none in Redis either


@pytest.mark.parametrize(
    ("container", "line"),
    [
        ("xgroup", "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <entries-read>]"),
        ("client", "REPLY (ON|OFF|SKIP)"),
        ("client", "PAUSE <timeout> [WRITE|ALL]"),
        ("client", "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> [<client-id> ...]]"),
        (
            "client",
            (
                "KILL (<ip:port>|(ID <client-id>|TYPE (NORMAL|MASTER|SLAVE|REPLICA|PUBSUB)|USER <username>"
                "|ADDR <ip:port>|LADDR <ip:port>|SKIPME (YES|NO)|MAXAGE <maxage>) [...])"
            ),
        ),
        ("client", "SETINFO (LIB-NAME <libname>|LIB-VER <libver>)"),
        ("config", "SET <parameter> <value> [<parameter> <value> ...]"),
        ("acl", "LOG [<count|RESET>]"),
        ("memory", "MALLOC-STATS"),
        ("command", "COUNT"),
    ],
)
def test_help_shows_values_in_angle_brackets_and_choices_as_redis_does(container, line):
    assert line.encode() in help_lines(container)


# The record and real servers


@pytest.fixture(scope="module")
def declared(running):
    """What each server declares: kind to (infos, docs, trees)."""
    return {kind: (infos(running(kind)), *docs(running(kind))) for kind in ("rillet", "redis7", "valkey")}


def changed_since_70(name):
    return {field: value for (known, field), value in declarations.CHANGED_SINCE_70.items() if known == name}


def test_each_newer_command_is_one(declared):
    [ours, *_], [old, *_], [newer, *_] = declared.values()
    assert set(ours) == set(REGISTRY)
    assert ours.keys() >= NEWER_THAN_82
    assert NEWER_THAN_82.isdisjoint(old.keys() | newer.keys())
    assert declarations.NEWER_THAN_70.keys() == ours.keys() - old.keys() - NEWER_THAN_82


def test_command_shows_each_as_redis_7_does_but_for_the_changes_since(declared):
    [ours, *_], [old, *_], [newer, *_] = declared.values()
    different = {}
    for name in ours.keys() - NEWER_THAN_82:
        reference = old[name] if name in old else newer[name] | declarations.NEWER_THAN_70[name]
        reference = reference | changed_since_70(name)
        different |= {
            (name, field): (value, reference[field])
            for field, value in ours[name].items()
            if value != reference[field]
        }
    assert not different


def test_command_docs_has_the_facts_of_redis_7_but_for_the_changes_since(declared):
    [_, ours, _], [_, old, _], [_, newer, _] = declared.values()
    different = {}
    for name in ours.keys() - NEWER_THAN_82:
        reference = (old.get(name) or newer[name]) | changed_since_70(name)
        reference["history"] = reference["history"] | declarations.HISTORY_SINCE_70.get(name, set())
        reference["since"] = declarations.SINCE_IN_REDIS.get(name, reference["since"])
        if name == "quit":
            reference["doc_flags"] = ["deprecated"]
        different |= {
            (name, field): (value, reference[field])
            for field, value in ours[name].items()
            if value != reference[field]
        }
    assert not different


def test_each_listed_change_since_redis_7_is_one(declared):
    info, facts, _ = declared["redis7"]
    for (name, field), value in declarations.CHANGED_SINCE_70.items():
        assert (info[name] | facts[name])[field] != value, (name, field)


def without_display(nodes):
    return tuple(replace(node, display=None, arguments=without_display(node.arguments)) for node in nodes)


def without_versions(nodes, versions):
    return tuple(
        replace(node, arguments=without_versions(node.arguments, versions))
        for node in nodes
        if node.since not in versions
    )


def plainly(nodes):
    """Leave out what Valkey is careless about where fields expire: versions, key specs of counts, Unix times."""
    return tuple(
        replace(
            node,
            type="integer" if node.type == "unix-time" else node.type,
            key_spec=node.key_spec if node.type == "key" else None,
            since=None,
            arguments=plainly(node.arguments),
        )
        for node in nodes
    )


def test_command_docs_shows_the_argument_trees(declared):
    assert declared["rillet"][2] == {name: tree(name) for name in REGISTRY}


@pytest.mark.parametrize("name", sorted(set(SERVED) - NEWER_THAN_82 - declarations.NEWER_THAN_70.keys()))
def test_the_argument_tree_is_that_of_redis_7_apart_from_listed_differences(name, declared):
    expected = declarations.OTHERWISE_IN_70.get(name)
    if expected is None:
        # Two arguments of CLUSTER SETSLOT and the like share a name in 7.0, so ours are renamed, not theirs.
        names = declarations.RENAMED_SINCE_70.get(name, {})
        expected = declarations.renamed(without_versions(tree(name), declarations.SINCE_82), names)
    assert without_display(expected) == declared["redis7"][2][name]


@pytest.mark.parametrize("name", sorted(set(SERVED) - NEWER_THAN_82))
def test_the_argument_tree_is_that_of_valkey_apart_from_listed_differences(name, declared):
    theirs = declared["valkey"][2][name]
    ours = declarations.OTHERWISE_IN_VALKEY.get(name, without_versions(tree(name), declarations.SINCE_82))
    if name in declarations.FIELD_TIMES:
        assert plainly(ours) == plainly(theirs)
    else:
        assert ours == without_versions(theirs, declarations.VALKEY_VERSIONS)


def test_each_listed_difference_of_a_tree_is_one(declared):
    for name in declarations.RENAMED_SINCE_70:
        assert without_display(tree(name)) != declared["redis7"][2][name], name
    for name, nodes in declarations.OTHERWISE_IN_70.items():
        assert without_display(nodes) != without_display(tree(name)), name
    for name, nodes in declarations.OTHERWISE_IN_VALKEY.items():
        assert nodes != tree(name), name


ASKED = [
    "GETKEYS foo",
    "GETKEYS get",
    "GETKEYS ping",
    "GETKEYS xgroup",
    "GETKEYS xgroup nothing",
    "GETKEYS get a",
    "GETKEYS get a b",
    "GETKEYS xreadgroup group g c streams a b 1 2",
    "GETKEYS xreadgroup group g c streams a b 1",
    "GETKEYS xreadgroup group g c a b 1 2",
    "GETKEYS eval script 1 a b",
    "GETKEYS eval script 0 a",
    "GETKEYS eval script 9 a",
    "GETKEYS eval script x a",
    "GETKEYSANDFLAGS set a b",
    "GETKEYSANDFLAGS set a b get",
    "GETKEYSANDFLAGS rename a b",
    "GETKEYSANDFLAGS xclaim s g c 0 1-0",
    "LIST FILTERBY MODULE x",
    "LIST FILTERBY ACLCAT nothing",
    "LIST FILTERBY x y",
    "LIST FILTERBY",
    "INFO get|x config|get|x",
    "DOCS nothing",
    "NOTHING",
]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("words", ASKED)
def test_command_answers_as_a_real_server(rillet_process, valkey, words, protocol):
    with rillet_process.wire(protocol) as ours, valkey.wire(protocol) as theirs:
        assert (
            ours.call("COMMAND", *words.split()).encode() == theirs.call("COMMAND", *words.split()).encode()
        )


@pytest.mark.parametrize("protocol", [2, 3])
def test_command_info_of_xclaim_is_that_of_redis_7(rillet_process, redis7, protocol):
    asked = ("COMMAND", "INFO", "xclaim", "nothing")
    with rillet_process.wire(protocol) as ours, redis7.wire(protocol) as theirs:
        assert ours.call(*asked).encode() == theirs.call(*asked).encode()


@pytest.mark.parametrize("words", [("ACLCAT", "stream"), ("ACLCAT", "transaction"), ("PATTERN", "xgr*")])
def test_command_list_filters_as_a_real_server(rillet_process, redis7, words):
    with rillet_process.wire() as ours, redis7.wire() as theirs:
        filtered = ("COMMAND", "LIST", "FILTERBY", *words)
        found = {name.decode() for name in ours.call(*filtered).plain()}
        assert found - NEWER_THAN_82 == {name.decode() for name in theirs.call(*filtered).plain()}
