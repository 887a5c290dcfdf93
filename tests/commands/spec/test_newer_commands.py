"""What COMMAND tells of the stream commands and options that no real server here knows: the table of the reference."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, run

from rillet.commands import load_all
from rillet.commands.spec.command import REGISTRY, keys_of
from rillet.commands.spec.usage import usage_line
from rillet.commands.spec.versions import VERSIONS, compat_with, known_commands

load_all()


@pytest.mark.parametrize(
    ("name", "arity", "since", "key_flags"),
    [
        ("xackdel", -6, "8.2.0", ("RW", "update", "delete")),
        ("xdelex", -5, "8.2.0", ("RW", "delete")),
        ("xnack", -7, "8.8.0", ("RW", "update")),
    ],
)
def test_a_newer_command_is_declared_as_documented(name, arity, since, key_flags):
    entry = REGISTRY[name]
    assert (entry.arity, entry.since, entry.flags) == (arity, since, {"write", "fast"})
    assert entry.categories == ("write", "stream", "fast")
    [spec] = entry.key_specs
    assert (spec.flags, spec.begin, spec.find) == (key_flags, ("index", 1), ("range", 0, 1, 0))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("xackdel", "XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]"),
        ("xdelex", "XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]"),
        (
            "xnack",
            "XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
        ),
        ("xtrim", "XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]"),
        (
            "xread",
            (
                "XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...]"
                " id [id ...]"
            ),
        ),
    ],
)
def test_its_syntax_is_that_of_the_documentation(name, line):
    assert usage_line(REGISTRY[name]) == line


def test_keys_of_a_read_have_the_flags_without_incomplete():
    argv = [b"XREADGROUP", b"GROUP", b"g", b"c", b"CLAIM", b"0", b"STREAMS", b"k", b">"]
    [found] = keys_of(REGISTRY["xreadgroup"], argv)
    assert (found.index, found.flags) == (7, ("RO", "access"))
    assert REGISTRY["xreadgroup"].key_specs[0].flags == ("RO", "access", "incomplete")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_knows_what_it_brought_and_nothing_newer(version):
    known = known_commands(compat_with(version))
    number = tuple(map(int, version.split(".")))
    assert {name: name in known for name in ("xack", "xdelex", "xackdel", "xnack")} == {
        "xack": True,
        "xdelex": number >= (8, 2),
        "xackdel": number >= (8, 2),
        "xnack": number >= (8, 8),
    }


@pytest.mark.parametrize(("version", "kept"), [("8.0", b"500"), ("8.2", b"1")])
def test_since_8_2_nobody_has_read_more_than_was_ever_added(version, kept):
    client = make_client()
    client.server.compat = compat_with(version)
    run(client, "XADD", "s", "1-0", "a", "b")
    run(client, "XGROUP", "CREATE", "s", "g", "0", "ENTRIESREAD", "500")
    found = run(client, "XINFO", "GROUPS", "s")
    assert b"entries-read\r\n:%b\r\n" % kept in found
