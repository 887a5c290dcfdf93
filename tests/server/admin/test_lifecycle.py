"""Commands about the server: replies compared with a real Redis, and those in which Rillet differs."""

import re
from itertools import product

import pytest
from support.servers import require_binary, start_server
from support.until import until
from support.wire import ConnectionClosedError

from rillet.commands.spec.command import REGISTRY
from rillet.commands.spec.versions import compat_with
from rillet.server.families import load_all

load_all()

# The replies that are equal in Redis 7.0 and Rillet, byte for byte.
SAME = """
TIME x
ROLE
SHUTDOWN ABORT
SHUTDOWN FOO
SHUTDOWN NOSAVE SAVE
SHUTDOWN ABORT NOW
SHUTDOWN SAVE ABORT
LOLWUT VERSION x
WAIT 0 0
WAIT 0 x
WAIT x 0
WAIT -1 0
WAIT 1 20
WAIT 1 -5
WAIT 1 99999999999999999999
REPLICAOF NO ONE
replicaof no one
SLAVEOF NO ONE
REPLICAOF NO TWO
REPLICAOF a b
REPLICAOF a 99999999
FAILOVER
FAILOVER ABORT
FAILOVER TO a b
FAILOVER foo
FAILOVER TIMEOUT 0
MODULE LIST
MODULE
MODULE FOO
CLUSTER
CLUSTER INFO
CLUSTER FOO
CLUSTER MEET
CLUSTER SLOTS
CLUSTER KEYSLOT x
CLUSTER HELP
READONLY
READWRITE
ASKING
SCRIPT EXISTS a b
SCRIPT FLUSH
SCRIPT FLUSH sync
SCRIPT FLUSH x
SCRIPT FLUSH SYNC x
SCRIPT KILL
SCRIPT DEBUG x
SCRIPT DEBUG no
EVALSHA abc 0
EVALSHA abc x
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
EVALSHA ffffffffffffffffffffffffffffffffffffffff 1
EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff -1
EVAL s 1
EVAL s -1
EVAL s a
EVAL_RO s 1
FCALL f 0
FCALL f 1
FCALL_RO f 0
FUNCTION LIST
FUNCTION LIST withcode
FUNCTION LIST LIBRARYNAME
FUNCTION LIST LIBRARYNAME x WITHCODE
FUNCTION LIST LIBRARYNAME x LIBRARYNAME y
FUNCTION LIST FOO
FUNCTION STATS
FUNCTION FLUSH
FUNCTION FLUSH ASYNC
FUNCTION FLUSH x
FUNCTION FLUSH SYNC x
FUNCTION KILL
FUNCTION DELETE x
FUNCTION RESTORE x
FUNCTION RESTORE x FOO
FUNCTION RESTORE x FLUSH y
ACL WHOAMI
ACL USERS
ACL GETUSER x
ACL CAT
ACL CAT foo
ACL CAT a b
ACL GENPASS 0
ACL GENPASS x
ACL GENPASS 4097
ACL GENPASS 1 2
ACL LOG RESET
ACL LOG
ACL LOG x
ACL LOG -1
ACL LOG 1 2
ACL DRYRUN default get x
ACL DRYRUN x get x
ACL DRYRUN default foo x
ACL DRYRUN default get
ACL DRYRUN default xgroup create a
ACL DRYRUN default xgroup
ACL DRYRUN default client id
ACL LOAD
ACL SAVE
ACL DELUSER default
ACL DELUSER x y
SLOWLOG GET x
SLOWLOG GET 1 2
SLOWLOG GET -2
SLOWLOG RESET
SLOWLOG FOO
LATENCY RESET
LATENCY LATEST
LATENCY HISTORY foo
LATENCY GRAPH foo
LATENCY RESET foo bar
LATENCY HISTOGRAM foo
LATENCY FOO
MEMORY USAGE nokey
MEMORY USAGE nokey SAMPLES
MEMORY USAGE nokey SAMPLES -1
MEMORY USAGE nokey SAMPLES x
MEMORY USAGE nokey FOO 1
MEMORY USAGE nokey SAMPLES 5 SAMPLES 0
MEMORY PURGE
MEMORY FOO
INFO foo
BGSAVE FOO
CONFIG REWRITE
CONFIG RESETSTAT
CONFIG FOO
"""
LINES = [line for line in SAME.splitlines() if line]


# What waits or changes roles moves a server's replication offset: not on those that all tests share.


@pytest.fixture(scope="module")
def own_redis7():
    require_binary("redis7")
    with start_server("redis7") as server:
        yield server


@pytest.fixture(scope="module")
def own_valkey():
    require_binary("valkey")
    with start_server("valkey") as server:
        yield server


@pytest.fixture(scope="module")
def own_rillet():
    """Without what tests of other files left behind: denials in its ACL LOG, an offset of commands that its file got."""
    with start_server("rillet") as server:
        yield server


def test_it_replies_as_redis(own_rillet, own_redis7):
    wrong = []
    for line, protocol in product(LINES, [2, 3]):
        with own_rillet.wire(protocol) as ours, own_redis7.wire(protocol) as theirs:
            got, wanted = (wire.call(*line.split()) for wire in (ours, theirs))
        if got != wanted:
            wrong.append(f"{line}: {got}, real {wanted}")
    assert not wrong


@pytest.mark.parametrize(
    "line",
    """
WAITAOF 0 0 0
WAITAOF 1 0 0
WAITAOF 2 0 0
WAITAOF -1 0 0
WAITAOF 0 -1 0
WAITAOF 0 1 20
WAITAOF 0 0 x
WAITAOF 0 0 -1
WAITAOF x 0 0
WAITAOF 0 x 0
WAIT 1 9223372036854775807
""".strip().splitlines(),
)
def test_waiting_without_an_aof_replies_as_valkey(rillet_process, own_valkey, line):
    with rillet_process.wire() as ours, own_valkey.wire() as theirs:
        # 8.10 counts what only the append-only file got.
        offset = rb":\d+\r\n\*0" if line == "ROLE" else rb"(?!)"
        replies = [wire.call(*line.split()).encode() for wire in (ours, theirs)]
        assert re.sub(offset, b"", replies[0]) == re.sub(offset, b"", replies[1])


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SCRIPT DEBUG YES", "-ERR Rillet has no debugger for scripts"),
        ("PSYNC ? -1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master."),
        ("FAILOVER", "-ERR FAILOVER requires connected replicas."),
        ("ACL LIST", '*[$"user default on nopass sanitize-payload ~* &* +@all"]'),
        (
            "ACL GETUSER default",
            (
                '*[$"flags" *[$"on" $"nopass" $"sanitize-payload"] $"passwords" *[] $"commands" $"+@all" '
                '$"keys" $"~*" $"channels" $"&*" $"selectors" *[]]'
            ),
        ),
    ],
)
def test_what_it_does_not_do_it_says(own_rillet, line, reply):
    with own_rillet.wire() as wire:
        assert str(wire.call(*line.split())) == reply


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("MODULE LOAD x", "-ERR Error loading the extension. Rillet has no module interface."),
        ("MODULE LOADEX x", "-ERR Error loading the extension. Rillet has no module interface."),
        ("MODULE UNLOAD x", "-ERR Error unloading module: no such module with that name"),
    ],
)
def test_a_module_is_refused_for_want_of_an_interface_where_modules_are_allowed(line, reply):
    with start_server("rillet", "--enable-module-command", "yes") as server, server.wire() as wire:
        assert str(wire.call(*line.split())) == reply


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


def test_requirepass_is_the_password_of_the_default_user():
    with start_server("rillet") as server, server.wire() as wire:
        wire.call("CONFIG", "SET", "requirepass", "foo")
        digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        assert str(wire.call("ACL", "LIST")) == (
            f'*[$"user default on sanitize-payload #{digest} ~* &* +@all"]'
        )
        user = wire.call("ACL", "GETUSER", "default").plain()
        assert user[:4] == [b"flags", [b"on", b"sanitize-payload"], b"passwords", [digest.encode()]]


def test_a_dump_of_no_functions_can_be_restored(rillet_process):
    with rillet_process.wire() as wire:
        dump = wire.call("FUNCTION", "DUMP").value
        assert str(wire.call("FUNCTION", "RESTORE", dump, "FLUSH")) == "+OK"


def test_wait_blocks_until_its_timeout_and_can_be_unblocked(rillet_process):
    with rillet_process.wire() as waiting, rillet_process.wire() as other:
        number = waiting.call("CLIENT", "ID").plain()
        waiting.send("WAIT", 1, 0)
        until(lambda: str(other.call("CLIENT", "UNBLOCK", number)) == ":1")
        assert str(waiting.read()) == ":0"
        waiting.send("WAIT", 1, 0)
        until(lambda: str(other.call("CLIENT", "UNBLOCK", number, "ERROR")) == ":1")
        assert str(waiting.read()) == "-UNBLOCKED client unblocked via CLIENT UNBLOCK"
        assert str(waiting.call("PING")) == "+PONG"


def test_wait_inside_a_transaction_replies_at_once(rillet_process):
    with rillet_process.wire() as wire:
        for words in (("MULTI",), ("WAIT", 1, 0), ("WAITAOF", 0, 1, 0)):
            wire.call(*words)
        assert str(wire.call("EXEC")) == "*[:0 *[:0 :0]]"


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_waitaof_replies_one_when_the_writes_are_on_the_disk(policy):
    with (
        start_server("rillet", "--appendonly", "yes", "--appendfsync", policy) as server,
        server.wire() as wire,
    ):
        wire.call("XADD", "s", "1-0", "a", "b")
        assert str(wire.call("WAITAOF", 1, 0, 0)) == "*[:1 :0]"
        wire.call("XADD", "s", "2-0", "a", "b")
        assert str(wire.call("WAITAOF", 1, 1, 20)) == "*[:1 :0]"
        for words in (("MULTI",), ("XADD", "s", "3-0", "a", "b"), ("WAITAOF", 1, 0, 0)):
            wire.call(*words)
        assert str(wire.call("EXEC")) == '*[$"3-0" *[:1 :0]]'


@pytest.mark.parametrize("options", [(), ("NOSAVE",), ("NOW",), ("SAVE",), ("SAVE", "FORCE")])
def test_shutdown_closes_without_a_reply_and_keeps_the_data(options):
    with start_server("rillet", "--appendonly", "yes") as server:
        with server.wire() as wire:
            wire.send_raw(
                b"XADD s 1-0 a b\r\nSHUTDOWN " + " ".join(options).encode() + b"\r\nXADD s 2-0 a b\r\n"
            )
            assert str(wire.read()) == '$"1-0"'
            with pytest.raises(ConnectionClosedError):
                wire.read()
        process = server._process
        assert process is not None
        assert process.wait(60) == 0
        server.start()
        with server.wire() as wire:
            assert str(wire.call("XRANGE", "s", "-", "+")) == '*[*[$"1-0" *[$"a" $"b"]]]'


def test_shutdown_is_refused_inside_a_transaction(rillet_process):
    with rillet_process.wire() as wire:
        wire.call("MULTI")
        assert str(wire.call("SHUTDOWN")) == "-ERR Command not allowed inside a transaction"
        assert str(wire.call("EXEC")) == "-EXECABORT Transaction discarded because of previous errors."
