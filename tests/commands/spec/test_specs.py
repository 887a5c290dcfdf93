"""Every command of the registry: its record agrees with itself, with its grammar, and with what real servers declare."""

import math
import re

import pytest
from support import declarations
from support.declarations import as_documented, docs, infos, tree, without_names
from support.left_out import LEFT_OUT

from rillet.commands.spec.command import CATEGORIES, FLAGS, REGISTRY, handler_for, keys_of, legacy_positions
from rillet.commands.spec.usage import help_lines, usage_line
from rillet.commands.spec.versions import NEWEST, VERSIONS, compat_with
from rillet.server.families import load_all

load_all()
SERVED = sorted(name for name, entry in REGISTRY.items() if entry.is_served)
CONTAINERS = sorted({name.partition("|")[0] for name in REGISTRY if "|" in name})
OF_REDIS = [name for name in SERVED if name in declarations.OF_REDIS]


def for_each(names):
    """Make a check of one command a test of all these commands; it lists each command that fails."""

    def test_of(check):
        def test():
            failed = {}
            for name in names:
                try:
                    check(name)
                except AssertionError as error:
                    failed[name] = str(error)
            assert not failed

        return test

    return test_of


# The record and itself


@for_each(sorted(REGISTRY))
def test_what_takes_no_subcommands_has_a_handler(name):
    assert REGISTRY[name].is_served or name in CONTAINERS
    assert not REGISTRY[name].is_served or callable(handler_for(REGISTRY[name], compat_with(NEWEST).knows))
    assert REGISTRY[name].name == name == name.lower()
    assert not (not REGISTRY[name].is_served and REGISTRY[name].arguments)


def test_command_alone_is_served_with_and_without_a_subcommand():
    assert [name for name in CONTAINERS if REGISTRY[name].is_served] == ["command"]


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


@for_each(sorted(REGISTRY))
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
    assert ("write" in entry.categories) == ("write" in entry.flags)
    if entry.group in CATEGORY_OF and entry.is_served and name != "pubsub|help":
        assert CATEGORY_OF[entry.group] in entry.categories


# Redis itself gives it an option that is older than the command.
OLDER_HISTORY = "zrevrangebyscore"


def number(version):
    return tuple(map(int, version.split(".")))


def versions_in(nodes):
    for node in nodes:
        yield from (version for version in (node.since, node.deprecated_since) if version)
        yield from versions_in(node.arguments)


@for_each(sorted(REGISTRY))
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


@for_each(SERVED)
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


# The place of MIGRATE's key may hold an empty word; migrate.script has its keys.
@for_each(sorted(set(SERVED) - {"migrate"}))
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


@pytest.mark.parametrize("number", [b"9" * 5000, b"-" + b"9" * 5000, b" +0" + b"0" * 5000])
def test_a_number_of_keys_with_thousands_of_digits_finds_none(number):
    assert keys_of(REGISTRY["eval"], [b"EVAL", b"return 1", number, b"a"]) == []


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
                " key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid]"
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


PAIRS = [("rillet", "redis810"), ("rillet-7.0", "redis7")]
each_pair = pytest.mark.parametrize(("mine", "real"), PAIRS)


@pytest.fixture(scope="module")
def declared(running):
    """What each server declares: kind to (infos, docs, trees)."""
    return {kind: (infos(running(kind)), *docs(running(kind))) for pair in PAIRS for kind in pair}


@each_pair
def test_command_lists_the_commands_of_redis_but_for_those_left_out(declared, mine, real):
    ours, theirs = declared[mine][0], declared[real][0]
    assert set(ours) == {name for name in theirs if not LEFT_OUT.match(name.lower())}
    assert mine != "rillet" or set(ours) == declarations.OF_REDIS


@each_pair
def test_command_shows_each_command_as_redis_does(declared, mine, real):
    ours, theirs = declared[mine][0], declared[real][0]
    assert {name: fields for name, fields in ours.items() if fields != theirs[name]} == {}


def test_command_docs_has_the_facts_of_redis(declared):
    ours, theirs = declared["rillet"][1], declared["redis810"][1]
    for name, twice in declarations.DOCUMENTED_TWICE.items():
        theirs[name]["history"].remove(twice)
    different = {name: (facts, theirs[name]) for name, facts in ours.items() if facts != theirs[name]}
    assert different == {}


def test_command_docs_has_the_facts_of_redis_7_as_7_0(declared):
    ours, theirs = declared["rillet-7.0"][1], declared["redis7"][1]
    theirs["client|pause"]["since"] = "3.0.0"  # later documents corrected it
    for name, facts in ours.items():
        history = set(theirs[name]["history"]) | declarations.HISTORY_IN_70.get(name, set())
        assert facts | {"history": set(facts["history"])} == theirs[name] | {"history": history}, name


def without_versions(nodes, versions):
    return tuple(
        node._replace(arguments=without_versions(node.arguments, versions))
        for node in nodes
        if node.since not in versions
    )


def test_command_docs_shows_the_argument_trees(declared):
    assert declared["rillet"][2] == {name: as_documented(tree(name)) for name in declarations.OF_REDIS}


def test_the_argument_trees_are_those_of_redis(declared):
    assert {name: as_documented(tree(name)) for name in OF_REDIS} == {
        name: declared["redis810"][2][name] for name in OF_REDIS
    }


def test_the_argument_trees_are_those_of_redis_7_apart_from_names(declared):
    real = declared["redis7"][2]
    assert not [name for name in OF_REDIS if name not in real and name in declared["rillet-7.0"][2]]
    otherwise = declarations.OTHERWISE_IN_70
    expected = {name: without_versions(tree(name), declarations.SINCE_70) for name in OF_REDIS} | otherwise
    assert {name: without_names(expected[name]) for name in OF_REDIS if name in real} == {
        name: without_names(real[name]) for name in OF_REDIS if name in real
    }
    for name, nodes in otherwise.items():
        assert without_names(nodes) != without_names(tree(name)), name
