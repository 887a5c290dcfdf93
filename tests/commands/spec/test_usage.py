import pytest

from rillet.commands.acl import specs as acl_specs
from rillet.commands.admin import specs as server
from rillet.commands.connection import specs as connection
from rillet.commands.keys import specs as keys
from rillet.commands.pubsub import specs as pubsub
from rillet.commands.replication import specs as replication_specs
from rillet.commands.scripting import specs as scripting
from rillet.commands.spec import command as table
from rillet.commands.spec.command import Command
from rillet.commands.spec.usage import help_lines, usage_line
from rillet.commands.streams import specs as streams
from rillet.commands.strings import specs as strings


def declared(name, arguments=(), summary="Does it.", handler=print):
    return Command(
        name=name,
        arity=-1,
        handler=handler,
        flags=frozenset(),
        categories=(),
        key_specs=(),
        key_finder=None,
        tips=(),
        since="1.0.0",
        group="generic",
        complexity="",
        summary=summary,
        history=(),
        arguments=arguments,
    )


@pytest.fixture
def registry(monkeypatch):
    entries = {}
    monkeypatch.setattr("rillet.commands.spec.usage.REGISTRY", entries)
    monkeypatch.setattr(table, "REGISTRY", entries)

    def declare(name, *arguments, **rest):
        entries[name] = declared(name, *arguments, **rest)

    return declare


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("xlen", streams.XLEN, "XLEN key"),
        ("randomkey", keys.RANDOMKEY, "RANDOMKEY"),
        (
            "xclaim",
            streams.XCLAIM,
            (
                "XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds]"
                " [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]"
            ),
        ),
        (
            "xadd",
            streams.XADD,
            (
                "XADD key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id]"
                " [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id>"
                " field value [field value ...]"
            ),
        ),
        (
            "xreadgroup",
            streams.XREADGROUP,
            (
                "XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize]"
                " [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]"
            ),
        ),
        (
            "xpending",
            streams.XPENDING,
            "XPENDING key group [[IDLE min-idle-time] start end count [consumer]]",
        ),
        (
            "xgroup|create",
            streams.XGROUP_CREATE,
            "XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]",
        ),
        ("unsubscribe", pubsub.UNSUBSCRIBE, "UNSUBSCRIBE [channel [channel ...]]"),
        (
            "client|kill",
            connection.CLIENT_KILL,
            (
                "CLIENT KILL <ip:port | <ID client-id | TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB> |"
                " USER username | ADDR ip:port | LADDR ip:port | SKIPME <YES | NO> | MAXAGE maxage> [...]>"
            ),
        ),
        (
            "client|list",
            connection.CLIENT_LIST,
            "CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
        ),
        (
            "client|tracking",
            connection.CLIENT_TRACKING,
            (
                "CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]]"
                " [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"
            ),
        ),
        (
            "set",
            strings.SET,
            (
                "SET key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]"
                " [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds |"
                " PXAT unix-time-milliseconds | KEEPTTL]"
            ),
        ),
        ("replicaof", replication_specs.REPLICAOF, "REPLICAOF <host port | NO ONE>"),
        ("eval", scripting.EVAL, "EVAL script numkeys [key [key ...]] [arg [arg ...]]"),
    ],
)
def test_the_usage_line_is_told_from_the_argument_tree(name, arguments, line):
    assert usage_line(declared(name, arguments)) == line


def test_help_puts_values_into_angle_brackets_and_summaries_below(registry):
    registry("xgroup", handler=None)
    registry("xgroup|setid", streams.XGROUP_SETID, summary="Moves it.")
    registry("xgroup|create", streams.XGROUP_CREATE, summary="Makes it.")
    registry("xgroup|help", summary="Tells it.")
    assert help_lines("XGROUP") == [
        b"XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <entries-read>]",
        b"    Makes it.",
        b"SETID <key> <group> <id|$> [ENTRIESREAD <entries-read>]",
        b"    Moves it.",
        b"HELP",
        b"    Print this help.",
    ]


def test_a_container_that_is_also_a_command_tells_so_first(registry):
    registry("command", summary="Tells all.")
    registry("command|count", summary="Counts them.")
    assert help_lines("command")[1:5] == [
        b"(no subcommand)",
        b"    Tells all.",
        b"COUNT",
        b"    Counts them.",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("client|reply", connection.CLIENT_REPLY, b"REPLY (ON|OFF|SKIP)"),
        ("client|pause", connection.CLIENT_PAUSE, b"PAUSE <timeout> [WRITE|ALL]"),
        (
            "client|list",
            connection.CLIENT_LIST,
            b"LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> [<client-id> ...]]",
        ),
        (
            "client|kill",
            connection.CLIENT_KILL,
            (
                b"KILL (<ip:port>|(ID <client-id>|TYPE (NORMAL|MASTER|SLAVE|REPLICA|PUBSUB)|USER <username>"
                b"|ADDR <ip:port>|LADDR <ip:port>|SKIPME (YES|NO)|MAXAGE <maxage>) [...])"
            ),
        ),
        ("client|setinfo", connection.CLIENT_SETINFO, b"SETINFO (LIB-NAME <libname>|LIB-VER <libver>)"),
        ("config|set", server.CONFIG_SET, b"SET <parameter> <value> [<parameter> <value> ...]"),
        ("acl|log", acl_specs.ACL_LOG, b"LOG [<count|RESET>]"),
        ("memory|malloc-stats", server.MEMORY_MALLOC_STATS, b"MALLOC-STATS"),
    ],
)
def test_help_shows_choices_in_redis_way(registry, name, arguments, line):
    container = name.partition("|")[0]
    registry(container, handler=None)
    registry(name, arguments)
    assert help_lines(container)[1] == line
