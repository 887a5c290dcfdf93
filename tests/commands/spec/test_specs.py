"""Every command of the registry: its record agrees with itself, with its grammar, and with what real servers declare."""

import re

import pytest
from support import declarations
from support.declarations import docs, infos, tree, without_names
from support.left_out import LEFT_OUT

from rillet.commands.spec.command import REGISTRY, handler_for
from rillet.commands.spec.usage import help_lines, usage_line
from rillet.commands.spec.versions import NEWEST, compat_with
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


# The record as text


@for_each(sorted(REGISTRY))
def test_its_texts_are_sentences(name):
    entry = REGISTRY[name]
    assert all(re.fullmatch(r".+\.", text) for text in (entry.summary, *(text for _, text in entry.history)))


USAGE = """
RANDOMKEY
XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] \
[JUSTID] [LASTID lastid]
XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO pid | IDMP pid iid] [<MAXLEN | MINID> [= | ~] threshold \
[LIMIT count]] <* | id> field value [field value ...]
XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]
UNSUBSCRIBE [channel [channel ...]]
CLIENT KILL <ip:port | <ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> | USER username | ADDR ip:port | \
LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage> [...]>
CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
REPLICAOF <host port | NO ONE>
""".strip().splitlines()


@pytest.mark.parametrize("line", USAGE)
def test_the_usage_line_shows_the_grammar_in_the_style_of_reference_pages(line):
    first, second = line.lower().split(" ")[0], "|".join(line.lower().split(" ")[:2])
    assert usage_line(REGISTRY.get(second) or REGISTRY[first]) == line


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


def test_no_sentence_of_the_documentation_is_copied_from_redis(running):
    ours, theirs = (declarations.prose(running(kind)) for kind in ("rillet", "redis810"))
    assert len(ours) > 500
    assert ours & theirs == {"O(1)"}


def without_versions(nodes, versions):
    return tuple(
        node._replace(arguments=without_versions(node.arguments, versions))
        for node in nodes
        if node.since not in versions
    )


def test_command_docs_shows_the_argument_trees_of_redis(declared):
    ours, theirs = declared["rillet"][2], declared["redis810"][2]
    assert {name: (nodes, theirs[name]) for name, nodes in ours.items() if nodes != theirs[name]} == {}
    assert ours.keys() == declarations.OF_REDIS


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
