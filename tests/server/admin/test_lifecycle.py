"""Commands about the server: what scripts/with_debug/administration.script cannot compare."""

import re

import pytest
from support.servers import start_server

from rillet.commands.spec.command import REGISTRY
from rillet.commands.spec.versions import compat_with
from rillet.server.families import load_all

load_all()


def test_what_it_does_not_do_it_says_also_where_modules_are_allowed():
    with start_server("rillet", "--enable-module-command", "yes") as server, server.wire() as wire:
        for line, reply in (
            ("SCRIPT DEBUG YES", "Rillet has no debugger for scripts"),
            ("PSYNC ? -1 FAILOVER", "PSYNC FAILOVER can't be sent to a master."),
            ("MODULE LOAD x", "Error loading the extension. Rillet has no module interface."),
            ("MODULE LOADEX x", "Error loading the extension. Rillet has no module interface."),
            ("MODULE UNLOAD x", "Error unloading module: no such module with that name"),
        ):
            assert str(wire.call(*line.split())) == f"-ERR {reply}", line


@pytest.mark.parametrize(
    "container", ["acl", "config", "function", "latency", "memory", "module", "script", "slowlog", "command"]
)
def test_help_lists_the_subcommands_of_redis_or_more(rillet_process, redis7, container):
    with rillet_process.wire() as ours, redis7.wire() as theirs:
        mine = [line for line in ours.call(container, "HELP").plain() if not line.startswith(b" ")]
        known = [line for line in theirs.call(container, "HELP").plain() if not line.startswith(b" ")]
    assert {line.split()[0] for line in known[1:]} <= {line.split()[0] for line in mine[1:]}
    assert mine[0] == known[0]
    assert mine[-1] == known[-1] == b"HELP"


def test_time_is_seconds_and_microseconds(rillet_process):
    with rillet_process.wire() as wire:
        seconds, microseconds = wire.call("TIME").plain()
        saved = wire.call("LASTSAVE").plain()
    assert 1_700_000_000 < saved <= int(seconds)
    assert 0 <= int(microseconds) < 1_000_000


def test_lolwut_ends_with_the_version(rillet_process):
    with rillet_process.wire() as wire:
        lines = wire.call("LOLWUT", "VERSION", 6).value.decode().splitlines()
    assert lines[-1] == "Redis ver. 8.10.2"
    assert len(lines) > 1


def test_genpass_gives_as_many_digits_as_the_bits_need(rillet_process):
    with rillet_process.wire() as wire:
        passwords = [wire.call("ACL", "GENPASS", *bits).value for bits in ((), (1,), (5,), (4096,))]
        again = wire.call("ACL", "GENPASS").value
    assert [len(password) for password in passwords] == [64, 1, 2, 1024]
    assert all(re.fullmatch(rb"[0-9a-f]+", password) for password in passwords)
    assert again != passwords[0]


@pytest.mark.parametrize("category", ["stream", "fast", "dangerous", "connection", "SCRIPTING"])
def test_acl_cat_lists_what_redis_lists_of_the_commands_that_there_are(rillet_process, redis7, category):
    with rillet_process.wire() as ours, redis7.wire() as theirs:
        here = set(ours.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "*").plain())
        mine = set(ours.call("ACL", "CAT", category).plain())
        known = set(theirs.call("ACL", "CAT", category).plain())
        everything = set(theirs.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "*").plain())
    assert mine & everything == known & here
    newer = {name.encode() for name, entry in REGISTRY.items() if not compat_with("7.0").knows(entry.since)}
    assert mine - everything <= newer


def test_a_dump_of_no_functions_can_be_restored(rillet_process):
    with rillet_process.wire() as wire:
        dump = wire.call("FUNCTION", "DUMP").value
        assert str(wire.call("FUNCTION", "RESTORE", dump, "FLUSH")) == "+OK"


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_waitaof_replies_one_when_the_writes_are_on_the_disk(policy):
    with (
        start_server("rillet", "--appendonly", "yes", "--appendfsync", policy) as server,
        server.wire() as wire,
    ):
        wire.call("XADD", "s", "1-0", "a", "b")
        assert str(wire.call("WAITAOF", 1, 0, 0)) == "*[:1 :0]"
        assert str(wire.call("WAITAOF", 1, 1, 20)) == "*[:1 :0]"
        for words in (("MULTI",), ("XADD", "s", "3-0", "a", "b"), ("WAITAOF", 1, 0, 0)):
            wire.call(*words)
        assert str(wire.call("EXEC")) == '*[$"3-0" *[:1 :0]]'
